//! Commands with Nomad's names against a server and an agent: metadata of nodes, raw requests to the API, filters of lists.

mod e2e;

use std::{
    fs,
    io::Write,
    net::TcpListener,
    process::{Output, Stdio},
};

use e2e::{Daemon, berth, dev::Dev, eventually};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A job of one task that runs where the node's rack is this.
fn in_rack(id: &str, rack: &str) -> Value {
    let constraint = json!({ "LTarget": "${meta.rack}", "RTarget": rack, "Operand": "=" });
    let task = e2e::dev::task("main", "echo \"$NOMAD_META_rack\"; while :; do sleep 1; done");
    json!({
        "ID": id, "Type": "service", "Constraints": [constraint],
        "TaskGroups": [{ "Name": "main", "Count": 1, "Tasks": [task] }],
    })
}

#[tokio::test]
async fn metadata_of_a_node_is_changed_while_it_runs_and_outlives_its_agent() {
    let mut dev = Dev::apart(&["--meta", "rack=r1"]);
    eventually("the node is ready", async || {
        dev.stdout_of(&["node", "status"]).contains("ready").then_some(())
    })
    .await;
    let read = dev.stdout_of(&["node", "meta", "read"]);
    assert!(read.lines().any(|line| line.split_whitespace().eq(["rack", "r1", "settings"])), "{read}");
    dev.register(&in_rack("waits", "r2")).await;
    eventually("it is blocked", async || {
        dev.stdout_of(&["eval", "list", "-status", "blocked"]).contains("waits").then_some(())
    })
    .await;
    dev.stdout_of(&["node", "meta", "apply", "rack=r2", "note=a=b"]);
    // The answer comes once the servers know it, too.
    let nodes: Value =
        serde_json::from_str(&dev.stdout_of(&["node", "status", "-self", "-json"])).expect("JSON");
    assert_eq!(nodes["Node"]["Meta"], json!({ "note": "a=b", "rack": "r2" }));
    dev.allocs("waits", 1, "running").await;
    dev.stop_agent();
    dev.start_agent();
    let kept = json!({
        "Meta": { "rack": "r2", "note": "a=b" },
        "Dynamic": { "rack": "r2", "note": "a=b" },
        "Static": { "rack": "r1" },
    });
    eventually("the agent is back", async || {
        let read = dev.berth(&["node", "meta", "read", "-json"]);
        let read: Value = serde_json::from_slice(&read.stdout).ok()?;
        assert_eq!(read, kept);
        Some(())
    })
    .await;
    let name = dev.stdout_of(&["node", "status", "-t", "{{ Name }}"]);
    let gone =
        dev.stdout_of(&["node", "meta", "apply", "-node-id", name.trim(), "-unset", "note,rack", "-json"]);
    let gone: Value = serde_json::from_str(&gone).expect("JSON");
    assert_eq!(gone, json!({ "Meta": {}, "Dynamic": { "rack": null }, "Static": { "rack": "r1" } }));
    let wrong = dev.complained(&["node", "meta", "apply", "a b=c"]);
    assert!(wrong.contains("\"a b\"") && wrong.contains("space"), "{wrong}");
    let large = format!("k={}", "x".repeat(70_000));
    let wrong = dev.complained(&["node", "meta", "apply", &large]);
    assert!(wrong.contains("the limit is 65536"), "{wrong}");
}

#[tokio::test]
async fn the_log_of_a_server_is_followed_at_any_level_and_ends_with_it() {
    // What it logs itself is another matter.
    let mut dev = Dev::start(&["--log-level", "error"]);
    let (shown, complaints) = (dev.home.path().join("shown"), dev.home.path().join("complaints"));
    let mut monitor = berth(&["monitor", "-json", "-server-id", "leader"]);
    monitor.env("BERTH_ADDR", &dev.address).stdin(Stdio::null());
    monitor
        .stdout(fs::File::create(&shown).expect("room"))
        .stderr(fs::File::create(&complaints).expect("room"));
    let mut monitor = monitor.spawn().expect("it runs");
    let mut made = 0;
    let line = eventually("it shows a job that was registered since it began", async || {
        made += 1;
        dev.register(&in_rack(&format!("watched-{made}"), "none")).await;
        let shown = fs::read_to_string(&shown).expect("text");
        shown.lines().find(|line| line.contains("watched-")).map(str::to_owned)
    })
    .await;
    let line: Value = serde_json::from_str(&line).expect("an object");
    assert_eq!(line["level"], "INFO", "{line}");
    let refused = dev.complained(&["monitor", "-log-level", "loud"]);
    assert!(refused.contains("loud") && refused.contains("trace, debug, info, warn, error"), "{refused}");
    dev.stop_server();
    let ended = monitor.wait().expect("it ends");
    let complaints = fs::read_to_string(&complaints).unwrap_or_default();
    assert_ne!(ended.code(), Some(0), "{complaints}");
    let shown = fs::read_to_string(&shown).expect("text");
    let last: Value = serde_json::from_str(shown.lines().last().expect("lines")).expect("an object");
    let output_text = last["message"].as_str().unwrap_or_default();
    assert!(output_text.contains("ends its HTTP API"), "the last line of a server that stops: {last}");
}

/// Follows a log, and looks for a line that `cause` makes it have.
async fn followed(dev: &Dev, args: &[&str], what: &str, mut cause: impl AsyncFnMut(u32)) -> String {
    let shown = dev.home.path().join("followed");
    let mut monitor = berth(&[&["monitor"], args].concat());
    monitor.env("BERTH_ADDR", &dev.address).stdin(Stdio::null());
    let mut monitor = monitor.stdout(fs::File::create(&shown).expect("room")).spawn().expect("it runs");
    let mut made = 0;
    let line = eventually("it shows what happened since it began", async || {
        made += 1;
        cause(made).await;
        let shown = fs::read_to_string(&shown).expect("text");
        shown.lines().find(|line| line.contains(what)).map(str::to_owned)
    })
    .await;
    monitor.kill().expect("it runs");
    monitor.wait().expect("it ends");
    line
}

#[tokio::test]
async fn the_log_of_an_agent_is_followed_by_way_of_its_server() {
    let mut dev = Dev::apart(&["--log-level", "error", "--node-name", "n1"]);
    eventually("the node is ready", async || {
        dev.stdout_of(&["node", "status"]).contains("ready").then_some(())
    })
    .await;
    let apply = async |made: u32| drop(dev.stdout_of(&["node", "meta", "apply", &format!("made={made}")]));
    let line =
        followed(&dev, &["-node-id", "n1", "-log-level", "trace", "-json"], "berth_agent", apply).await;
    let line: Value = serde_json::from_str(&line).expect("an object");
    assert!(line["target"].as_str().is_some_and(|target| target.starts_with("berth_agent")), "{line}");
    let unknown = dev.complained(&["monitor", "-node-id", "33333333-0000-4000-8000-000000000001"]);
    assert!(unknown.contains("node not found"), "{unknown}");
    dev.stop_agent();
    let gone = eventually("the server knows that it is gone", async || {
        let gone = dev.complained(&["monitor", "-node-id", "n1"]);
        gone.contains("is not connected").then_some(gone)
    })
    .await;
    assert!(gone.contains("try again once its agent is back"), "{gone}");
}

#[tokio::test]
async fn the_log_of_another_server_is_followed_by_way_of_the_one_that_is_asked() {
    let dev = Dev::start(&["--servers", "3"]);
    let ids = eventually("three servers", async || {
        let members: Value = serde_json::from_str(&dev.stdout_of(&["server", "members", "-json"])).ok()?;
        let members = members.as_array().or_else(|| members["Members"].as_array())?.clone();
        (members.len() == 3)
            .then(|| members.iter().map(|m| m["Name"].as_str().expect("text").to_owned()).collect::<Vec<_>>())
    })
    .await;
    for id in ids {
        let cause = async |made: u32| dev.register(&in_rack(&format!("of-{id}-{made}"), "none")).await;
        let line = followed(&dev, &["-server-id", &id], &format!("of-{id}-"), cause).await;
        assert!(line.contains("INFO"), "{line}");
    }
    let unknown = dev.complained(&["monitor", "-server-id", "elsewhere"]);
    assert!(unknown.contains("no server has the id, the name or the address `elsewhere`"), "{unknown}");
}

/// A command with this on standard input.
fn piped(dev: &Dev, args: &[&str], input: &[u8]) -> Output {
    let mut command = berth(args);
    command.env("BERTH_ADDR", &dev.address).env("BERTH_TOKEN", &dev.token);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    child.stdin.take().expect("it is piped").write_all(input).expect("it is read");
    child.wait_with_output().expect("it ends")
}

#[tokio::test]
async fn requests_are_sent_as_they_are_written() {
    let dev = Dev::start(&[]);
    let api = |args: &[&str]| dev.berth(&[&["operator", "api"], args].concat());
    let leader: Value = serde_json::from_slice(&api(&["/v1/status/leader"]).stdout).expect("JSON");
    assert!(leader.is_string(), "{leader}");
    let job = json!({ "Job": in_rack("piped", "none") }).to_string();
    let registered = piped(&dev, &["operator", "api", "/v1/jobs"], job.as_bytes());
    assert!(text(&registered.stdout).contains("EvalID"), "{registered:?}");
    let file = dev.home.path().join("job.json");
    fs::write(&file, json!({ "Job": in_rack("filed", "none") }).to_string()).expect("written");
    let from_file = format!("@{}", file.display());
    assert!(text(&api(&["-X", "PUT", "-d", &from_file, "/v1/jobs"]).stdout).contains("EvalID"));
    let by_filter = api(&["-filter", r#"ID == "filed""#, "/v1/jobs?meta=true"]);
    let by_filter: Value = serde_json::from_slice(&by_filter.stdout).expect("JSON");
    assert_eq!((by_filter.as_array().map(Vec::len), &by_filter[0]["ID"]), (Some(1), &json!("filed")));
    // What no URL may hold is encoded.
    let written = api(&[r#"/v1/jobs?filter=ID == "piped""#]);
    let written: Value = serde_json::from_slice(&written.stdout).expect("JSON");
    assert_eq!(written[0]["ID"], "piped");
    // An answer is an answer, as with Nomad.
    let absent = api(&["/v1/job/absent"]);
    assert_eq!((absent.status.code(), text(&absent.stdout)), (Some(0), "job not found".to_owned()));
    assert!(text(&absent.stderr).contains("404"), "{absent:?}");
    let output_text = api(&["-verbose", "-H", "X-Nomad-Token: hush", "/v1/agent/self"]);
    let output_text = text(&output_text.stderr);
    assert!(
        output_text.contains("> GET /v1/agent/self")
            && output_text.contains("< HTTP/1.1 ")
            && !output_text.contains("hush"),
        "{output_text}"
    );
    let nobody = berth(&["operator", "api", "127.0.0.1:1/v1/jobs"]).output().expect("it runs");
    assert_eq!(nobody.status.code(), Some(5), "{nobody:?}");
}

#[test]
fn the_line_of_curl_asks_the_same_and_shows_no_secret_by_itself() {
    let line = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = berth(&[&["operator", "api", "-dryrun", "-address", "https://h:1"], args].concat());
        command.envs(env.iter().copied());
        let output = command.output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).replace(" \\\n  ", " ")
    };
    let secret = [("BERTH_TOKEN", "hush"), ("NOMAD_NAMESPACE", "ops"), ("NOMAD_CACERT", "/a b/ca.pem")];
    assert_eq!(
        line(&["/v1/jobs?prefix=it's"], &secret),
        "curl -X GET -H \"X-Nomad-Token: ${BERTH_TOKEN}\" --cacert '/a b/ca.pem' 'https://h:1/v1/jobs?prefix=it'\\''s&namespace=ops'\n"
    );
    assert_eq!(
        line(&["-token", "known", "-d", "{}", "-H", "X-A: b", "-tls-server-name", "s", "/v1/jobs"], &[]),
        "curl -X POST --data-raw '{}' -H 'Content-Type: application/json' -H 'X-A: b' -H 'X-Nomad-Token: known' \
         --connect-to s:1:h:1 https://s:1/v1/jobs\n"
    );
}

#[tokio::test]
async fn lists_are_filtered_by_the_server() {
    let dev = Dev::start(&[]);
    for id in ["one", "two"] {
        dev.register(&in_rack(id, "none")).await;
    }
    let names = |args: &[&str]| {
        let output_text = dev.stdout_of(&[args, &["-o", "name"]].concat());
        output_text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&["job", "status", "-filter", r#"ID == "two""#]), ["two"]);
    assert_eq!(names(&["status", "-filter", r#"ID matches "^o""#]), ["one"]);
    assert_eq!(names(&["eval", "list", "-filter", r#"JobID == "absent""#]), [""; 0]);
    assert_eq!(names(&["node", "status", "-filter", r#"Status == "down""#]), [""; 0]);
    assert_eq!(names(&["node", "status", "-filter", r#"Status == "ready""#]).len(), 1);
    assert_eq!(names(&["node", "pool", "list", "-filter", r#"Name == "all""#]), ["all"]);
    assert_eq!(names(&["node", "pool", "jobs", "default", "-filter", r#"ID == "one""#]), ["one"]);
    assert_eq!(names(&["deployment", "list", "-filter", r#"JobID == "one""#]).len(), 1);
    assert_eq!(names(&["deployment", "list", "-filter", r#"JobID == "absent""#]), [""; 0]);
    assert_eq!(names(&["ps", "-filter", r#"JobID == "one""#]), [""; 0]);
    let wrong = dev.complained(&["job", "status", "-filter", "ID =="]);
    assert!(wrong.contains("filter"), "{wrong}");
}

/// Takes connections and answers each with these bytes.
fn answers(bytes: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it listens").to_string();
    std::thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let _ = client.write_all(bytes);
        }
    });
    address
}

#[tokio::test]
async fn an_agent_says_once_what_it_met_at_a_port_that_is_not_for_agents() {
    let dev = Dev::start(&[]);
    let http = dev.address.trim_start_matches("http://").to_owned();
    let cases = [
        (http, "this is an HTTP port"),
        (answers(b"SSH-2.0-example\r\n"), "does not speak the protocol of agents"),
        (answers(b""), "hangs up without an answer"),
    ];
    for (number, (address, expected)) in cases.into_iter().enumerate() {
        let data = dev.home.path().join(format!("lost-{number}"));
        let log_file = dev.home.path().join(format!("log_file-{number}"));
        let args = [
            "agent",
            "--data-dir",
            data.to_str().expect("plain"),
            "--servers",
            &address,
            "--log-level",
            "debug",
        ];
        let mut agent = Daemon::spawn(berth(&args), &log_file);
        // A second attempt is seen by what only debug logs tell.
        let log = eventually("it has dialed again", async || {
            let log = fs::read_to_string(&log_file).unwrap_or_default();
            (log.matches("dialing").count() >= 3).then_some(log)
        })
        .await;
        assert_eq!(log.matches(expected).count(), 1, "{log}");
        assert!(!log.contains("connected"), "{log}");
        agent.stop();
    }
}
