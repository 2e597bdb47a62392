//! `berth lab run`: a small experiment from its start to its report, and what is left when it is interrupted.

mod e2e;

use std::{
    fs,
    path::Path,
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use e2e::{Daemon, berth, http_address};
use serde_json::Value;

/// Until something that must happen is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

fn density(out: &Path, more: &[&str]) -> Vec<String> {
    let args = ["lab", "run", "density", "--scale", "small", "--seed", "7", "--out"];
    let out = out.to_str().expect("a plain path");
    args.iter().copied().chain([out]).chain(more.iter().copied()).map(str::to_owned).collect()
}

fn strs(args: &[String]) -> Vec<&str> {
    args.iter().map(String::as_str).collect()
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

#[test]
fn an_experiment_leaves_its_result_and_nothing_else() {
    let dir = scratch();
    let args = density(dir.path(), &["--nodes", "6", "--tasks-per-node", "5", "--jobs", "3", "--runs", "2"]);
    let output = berth(&strs(&args)).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    assert!(message.contains("30 created, 30 running, 0 pending"), "{message}");
    let result: Value =
        serde_json::from_str(&fs::read_to_string(dir.path().join("result.json")).unwrap()).unwrap();
    assert_eq!((&result["experiment"], &result["params"]["tasks_per_node"]), (&"density".into(), &5.into()));
    let running = &result["metrics"]["submit_to_all_running_s"];
    assert_eq!((&running["unit"], &running["runs"]), (&"s".into(), &2.into()));
    assert!(running["min"].as_f64().unwrap() > 0.0 && running["max"].as_f64() >= running["median"].as_f64());
    assert!(result["metrics"]["log_fsyncs"]["median"].as_f64().unwrap() >= 1.0);
    let trace = fs::read_to_string(dir.path().join("trace.jsonl")).unwrap();
    assert_eq!(trace.lines().filter(|line| line.contains(r#""stage":"running""#)).count(), 30);
    assert!(fs::read_to_string(dir.path().join("report.html")).unwrap().contains("<svg"));
    assert!(!dir.path().join("data").exists(), "the server's data is left");

    fs::remove_file(dir.path().join("report.html")).unwrap();
    let report = berth(&["lab", "report", dir.path().to_str().unwrap()]).output().expect("berth runs");
    assert!(report.status.success() && dir.path().join("report.html").exists());
}

#[test]
fn readers_of_everything_get_all_of_it_while_it_changes() {
    for (part, more, metric) in [
        ("a", vec!["--nodes", "7", "--polls", "100"], "response_ms_mean[allocations]"),
        ("b", vec!["--nodes", "2", "--readers", "3", "--polls", "50"], "writer_blocked_ms_p99"),
        ("c", vec!["--nodes", "2", "--readers", "2", "--polls", "2"], "interference_ratio"),
    ] {
        let dir = scratch();
        let out = dir.path().to_str().expect("a plain path");
        let args = ["lab", "run", "state", "--scale", "small", "--part", part, "--out", out];
        let args: Vec<&str> = args.into_iter().chain(["--changes", "40"]).chain(more).collect();
        let output = berth(&args).output().expect("berth runs");
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "part {part}: {message}");
        let result = fs::read_to_string(dir.path().join("result.json")).unwrap();
        let result: Value = serde_json::from_str(&result).unwrap();
        assert!(result["metrics"][metric]["median"].as_f64().is_some(), "part {part}: {result}");
        for name in ["changes_per_s", "metrics_ms_p50"] {
            assert!(result["metrics"][name]["median"].as_f64() > Some(0.0), "part {part}: {name}");
        }
        assert!(fs::read_to_string(dir.path().join("report.html")).unwrap().contains("<svg"));
    }
}

#[test]
fn a_guarded_cluster_takes_the_same_load() {
    let dir = scratch();
    let more = ["--nodes", "6", "--tasks-per-node", "5", "--jobs", "30", "--servers", "2", "--secure"];
    let output = berth(&strs(&density(dir.path(), &more))).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.contains("30 created, 30 running"), "{message}");
    assert!(!dir.path().join("data").exists(), "keys are left");

    let refused = density(dir.path(), &["--secure", "--target", "http://127.0.0.1:9"]);
    let output = berth(&strs(&refused)).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && message.contains("leave --secure out"), "{message}");
}

#[test]
fn agents_connect_at_once_and_again_with_the_sessions_of_tls_that_they_have() {
    for (secure, resumed) in [("--secure", Some(100.0)), ("--secure=false", None)] {
        let dir = scratch();
        let out = dir.path().to_str().expect("a plain path");
        let args = ["lab", "run", "connect", "--scale", "small", "--out", out, "--agents", "120", secure];
        let output = berth(&args).output().expect("berth runs");
        let message = String::from_utf8_lossy(&output.stderr);
        let figures = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{message}{figures}");
        let result = result(dir.path());
        let metrics = &result["metrics"];
        assert_eq!(metrics["resumed_pct"]["median"].as_f64(), resumed, "{figures}");
        for name in ["connect_s", "reconnect_s", "restart_s", "nodes_ready_s", "metrics_ms_p99"] {
            assert!(metrics[name]["median"].as_f64().unwrap() > 0.0, "{name}: {figures}");
        }
    }
}

#[test]
fn what_is_open_with_a_token_ends_with_it() {
    let dir = scratch();
    let out = dir.path().to_str().expect("a plain path");
    let args = ["lab", "run", "revoke", "--scale", "small", "--out", out, "--streams", "20", "--reads", "20"];
    let output = berth(&args).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}{}", String::from_utf8_lossy(&output.stdout));
    let metric = medians(dir.path());
    assert_eq!(["still_open", "reads_answered"].map(&metric), [0.0; 2]);
    assert!(metric("streams_ended_s_max") > 0.0 && metric("reads_ended_s_max") > 0.0);
}

#[test]
fn the_engine_alone_decides_as_many() {
    let dir = scratch();
    let args = density(dir.path(), &["--nodes", "50", "--engine-only", "--asks", "10"]);
    let output = berth(&strs(&args)).output().expect("berth runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("engine_ns_per_placement"));
}

#[test]
fn of_fifty_requests_forty_nine_find_the_room_that_is_left() {
    for kind in [["incremental", "4"], ["cached", "1"], ["reread", "2"]] {
        let dir = scratch();
        let out = dir.path().to_str().expect("a plain path");
        let args = ["lab", "run", "host-state", "--scale", "small", "--out", out, "--kind", kind[0]];
        let output = berth(&[&args[..], &["--schedulers", kind[1]]].concat()).output().expect("berth runs");
        assert!(output.status.success(), "{kind:?}: {}", String::from_utf8_lossy(&output.stderr));
        let result = fs::read_to_string(dir.path().join("result.json")).unwrap();
        let result: Value = serde_json::from_str(&result).unwrap();
        let metric = |name: &str| result["metrics"][name]["median"].as_f64().unwrap();
        let decided = ["successes", "refusals", "wrong_refusals"].map(metric);
        assert_eq!(decided, [49.0, 1.0, 0.0], "{kind:?}");
        assert!(metric("planners_at_once_max") >= 1.0 && metric("query_ms_p99") > 0.0);
        let trace = fs::read_to_string(dir.path().join("trace.jsonl")).unwrap();
        assert_eq!(trace.lines().filter(|line| line.contains(r#""stage":"planning""#)).count(), 50);
    }
}

#[test]
fn a_server_that_is_killed_comes_back_with_all_that_was_acknowledged() {
    let dir = scratch();
    let out = dir.path().to_str().expect("a plain path");
    let args = ["lab", "run", "restart", "--scale", "small", "--out", out, "--jobs", "40", "--nodes", "8"];
    let output = berth(&[&args[..], &["--restarts", "3"]].concat()).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    let figures = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{message}{figures}");
    let metric = medians(dir.path());
    let wrong = ["stale_answers", "empty_lists", "tasks_ended", "allocations_stuck", "evaluations_stuck"];
    assert_eq!(wrong.map(&metric), [0.0; 5], "{message}{figures}");
    assert!(metric("first_right_answer_s_max") > 0.0 && metric("writes_acknowledged") > 0.0);
    assert!(fs::read_to_string(dir.path().join("report.html")).unwrap().contains("Starts after a crash"));
}

#[test]
fn a_new_leader_knows_all_agents_again() {
    for (mode, moved, more) in [("warm", 10.0, &[][..]), ("cold", 30.0, &["--tls-connections", "15"])] {
        let dir = scratch();
        let out = dir.path().to_str().expect("a plain path");
        let args =
            ["lab", "run", "failover", "--scale", "small", "--out", out, "--nodes", "30", "--mode", mode];
        let output = berth(&[&args[..], more].concat()).output().expect("berth runs");
        let message = String::from_utf8_lossy(&output.stderr);
        let figures = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{mode}: {message}{figures}");
        let metric = medians(dir.path());
        assert_eq!(metric("sessions_moved"), moved, "{mode}: {figures}");
        for name in
            ["time_to_complete_s", "from_kill_s", "placed_meanwhile", "bytes_received", "server_cpu_s"]
        {
            assert!(metric(name) > 0.0, "{mode}, {name}: {figures}");
        }
        assert!(
            fs::read_to_string(dir.path().join("report.html")).unwrap().contains("Nodes after the failure")
        );
    }
}

#[test]
fn a_history_is_kept_for_later_runs() {
    let dir = scratch();
    let (out, kept) = (dir.path().join("out"), dir.path().join("history.snap"));
    let [out, kept] = [&out, &kept].map(|path| path.to_str().expect("a plain path"));
    let args =
        ["lab", "run", "failover", "--scale", "small", "--nodes", "20", "--history", kept, "--out", out];
    for (expected_text, other_text) in [("saving 200 allocations", "restoring"), ("restoring", "saving")] {
        let output = berth(&args).output().expect("berth runs");
        let message = String::from_utf8_lossy(&output.stderr);
        let figures = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{message}{figures}");
        assert!(message.contains(expected_text) && !message.contains(other_text), "{message}");
    }
}

#[test]
fn every_dispatch_that_was_accepted_is_there_and_run() {
    for (nodes, others) in [("0", None), ("3", Some(1.0))] {
        let dir = scratch();
        let out = dir.path().to_str().expect("a plain path");
        let args = ["lab", "run", "writes", "--scale", "small", "--out", out, "--jobs", "200", "--dispatch"];
        let output = berth(&[&args[..], &["--nodes", nodes]].concat()).output().expect("berth runs");
        let message = String::from_utf8_lossy(&output.stderr);
        let figures = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{message}{figures}");
        let metric = medians(dir.path());
        assert_eq!(["children", "dispatches_refused"].map(&metric), [200.0, 0.0], "{figures}");
        assert!(metric("dispatches_per_s") > 0.0, "{figures}");
        let placed = result(dir.path())["metrics"]["others_placed"]["median"].as_f64();
        assert!(placed >= others, "{figures}");
    }
}

#[test]
fn nodes_are_for_what_is_dispatched() {
    let dir = scratch();
    let out = dir.path().to_str().expect("a plain path");
    let args = ["lab", "run", "writes", "--scale", "small", "--out", out, "--nodes", "3"];
    let output = berth(&args).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("add --dispatch"), "{message}");
}

/// Has one attack be made for some seconds: what is told of it, and the figures.
fn attack(out: &Path, attack: &str, seconds: &str) -> (String, String) {
    let out = out.to_str().expect("a plain path");
    let args =
        ["lab", "run", "hostile", "--scale", "small", "--out", out, "--attack", attack, "--seconds", seconds];
    let output = berth(&args).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let figures = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{message}{figures}");
    (message, figures)
}

#[test]
fn a_hostile_peer_is_disconnected_and_its_cost_is_reported() {
    let dir = scratch();
    let (message, figures) = attack(dir.path(), "unfinished-frames", "1");
    assert!(figures.contains("rss_above_idle_bytes[unfinished-frames]"), "{figures}");
    assert!(message.contains("15 connections sent"), "{message}");
}

#[test]
fn followers_that_were_stuck_have_no_silent_gap() {
    let dir = scratch();
    let (_, figures) = attack(dir.path(), "stuck-followers", "2");
    let metric = |name: &str| medians(dir.path())(&format!("{name}[stuck-followers]"));
    assert_eq!(metric("stuck_read_all") + metric("stuck_resumed"), 5.0, "{figures}");
    assert!(metric("followers_told") >= 45.0 && metric("followers_lag_ms_p99") > 0.0, "{figures}");
}

/// Dead nodes are found after 15 s on a small cluster, and after 27 s over an election.
#[test]
fn silent_nodes_are_found_and_one_that_is_not_to_be_silent_fails_the_run() {
    for (others, falsely) in [(&[][..], false), (&["--others-silent", "share=0.15,every=1s,lasts=40s"], true)]
    {
        let dir = scratch();
        let out = dir.path().to_str().expect("a plain path");
        let args = ["lab", "run", "liveness", "--scale", "small", "--nodes", "40", "--out", out];
        let others = [&["--silent", "2"], others].concat();
        let output = berth(&[&args[..], &others].concat()).output().expect("berth runs");
        let message = String::from_utf8_lossy(&output.stderr);
        let figures = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), !falsely, "{message}{figures}");
        let named = figures.contains("nodes were reported down that were not");
        assert_eq!(named, falsely, "{message}{figures}");
        let metric = medians(dir.path());
        assert_eq!(metric("falsely_down") > 0.0, falsely, "{figures}");
        assert_eq!(metric("leader_changes"), 0.0, "{figures}");
        for name in
            ["detected_s_max", "detected_in_election_s_max", "replaced_s", "placing_again_s", "writes_done"]
        {
            assert!(metric(name) > 0.0, "{name}: {figures}");
        }
    }
}

#[test]
fn what_a_server_holds_stays_what_it_was() {
    let dir = scratch();
    let out = dir.path().to_str().expect("a plain path");
    let args = ["lab", "run", "soak", "--scale", "small", "--out", out];
    let output = berth(&args).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.contains("round 3: "), "{message}");
    let metric = medians(dir.path());
    assert!(metric("requests") > 100.0 && metric("rss_first_bytes") > 0.0, "{message}");
    assert_eq!(metric("requests_refused"), 0.0, "{message}");
}

#[test]
fn instances_come_and_go() {
    let dir = scratch();
    let out = dir.path().to_str().expect("a plain path");
    let args = ["lab", "run", "host-state", "--scale", "small", "--out", out, "--preload", "false"];
    let churn = ["--churn", "--nodes", "20", "--requests", "300"];
    let output = berth(&[&args[..], &churn].concat()).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && message.contains("300 created"), "{message}");
    let metric = medians(dir.path());
    // Who asks before a deleted instance has ended may find no room, and waits for it or is deleted meanwhile.
    assert_eq!(metric("successes") + metric("refusals"), 300.0, "{message}");
    assert_eq!(metric("wrong_refusals"), 0.0, "{message}");
}

#[test]
fn parameters_that_cannot_be_are_refused_before_anything_is_started() {
    let dir = scratch();
    let refused = |more: &[&str], expected: &str| {
        let output = berth(&strs(&density(dir.path(), more))).output().expect("berth runs");
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), message.contains(expected)), (Some(2), true), "{message}");
    };
    refused(&["--jobs", "7"], "--jobs 7: 100 nodes with 30 allocations each cannot be shared equally");
    refused(&["--nodes", "0"], "--nodes 0: expected a whole number from 1");
    let in_memory = density(dir.path(), &["--data", "/dev/shm/berth-lab-test"]);
    let output = berth(&strs(&in_memory)).output().expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("refusing to keep the server's log in /dev/shm/berth-lab-test"), "{message}");
    assert!(!Path::new("/dev/shm/berth-lab-test").exists());
}

#[test]
fn a_server_that_is_there_already_gets_the_load_and_is_left_as_it_was() {
    let dir = scratch();
    let (data, server_log) = (dir.path().join("data"), dir.path().join("stderr"));
    let args = ["server", "--http-addr", "127.0.0.1:0", "--agent-addr", "127.0.0.1:0", "--data-dir"];
    let mut server = Daemon::start(&[&args[..], &[data.to_str().unwrap()]].concat(), &server_log);
    let ready = server.ready_line();
    let agents = ready.trim().rsplit(' ').next().unwrap();
    let _nodes = Daemon::start(&["lab", "nodes", "--count", "6", "--server", agents], &server_log);
    let target = format!("http://{}", http_address(&ready));
    let load = ["--target", &target, "--tasks-per-node", "5", "--jobs", "3", "--nodes"];
    let run = |nodes: &str| {
        berth(&strs(&density(&dir.path().join("out"), &[&load[..], &[nodes]].concat()))).output()
    };
    let output = run("6").expect("berth runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(figures.contains("placements_per_s") && !figures.contains("server_cpu_s"), "{figures}");
    let jobs = berth(&["--address", &target, "job", "status", "-o", "json"]).output().expect("berth runs");
    let jobs: Vec<Value> = serde_json::from_slice(&jobs.stdout).unwrap();
    assert!(jobs.iter().all(|job| job["Stop"] == true || job["Status"] == "dead"), "{jobs:?}");
    let output = run("60").expect("berth runs");
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && message.contains("6 of 60 nodes with mock_driver are ready"),
        "{message}"
    );
}

/// The result that stands in a directory.
fn result(dir: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(dir.join("result.json")).unwrap()).unwrap()
}

/// The medians of the result that stands in a directory, by name.
fn medians(dir: &Path) -> impl Fn(&str) -> f64 + use<> {
    let result = result(dir);
    move |name| result["metrics"][name]["median"].as_f64().unwrap()
}

/// Starts an experiment that takes a while, and returns it with its processes once there are some.
fn under_way(dir: &Path) -> (Child, Vec<u32>) {
    let args = density(dir, &["--nodes", "400"]);
    let mut command = berth(&strs(&args));
    let lab = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let children = format!("/proc/{0}/task/{0}/children", lab.id());
    let mut found = Vec::new();
    wait_until("server and nodes are there", || {
        let text = fs::read_to_string(&children).unwrap_or_default();
        found = text.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
        found.len() >= 2
    });
    (lab, found)
}

fn is_alive(pid: u32) -> bool {
    // A process whose parent is gone may be a zombie until its new one looks.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "never happened: {what}");
        thread::sleep(LOOK_AGAIN);
    }
}

fn signal(process: &Child, name: &str) {
    let pid = process.id().to_string();
    assert!(std::process::Command::new("kill").args([name, &pid]).status().unwrap().success());
}

#[test]
fn who_interrupts_it_leaves_nothing_behind() {
    let dir = scratch();
    let (mut lab, children) = under_way(dir.path());
    signal(&lab, "-INT");
    assert!(!lab.wait().unwrap().success());
    assert!(!children.iter().any(|pid| is_alive(*pid)), "they end before it does");
    assert!(!dir.path().join("data").exists(), "the server's data is left");
}

#[test]
fn its_processes_do_not_outlive_it() {
    let dir = scratch();
    let (mut lab, children) = under_way(dir.path());
    lab.kill().unwrap();
    lab.wait().unwrap();
    wait_until("server and nodes end by themselves", || !children.iter().any(|pid| is_alive(*pid)));
}
