//! `berth node drain -monitor` with real agents: what moves where, what waits for what, and how the drain ended, with each flag of the
//! command.

mod e2e;

use std::path::PathBuf;

use berth_api::http::{Client, Target};
use e2e::{
    Daemon, eventually,
    nodes::{Nodes, is_alive},
    servers::Servers,
};
use serde_json::{Value, json};

const SECOND_NS: u64 = 1_000_000_000;

/// A server and its agents, of which the first is `n1`.
struct Fleet {
    servers: Servers,
    nodes: Nodes,
}

/// Somebody who looks on at a drain.
struct Monitor {
    process: Daemon,
    stderr: PathBuf,
}

impl Fleet {
    /// A server with one agent.
    async fn start() -> Self {
        let mut fleet = Self { servers: Servers::start(1).await, nodes: Nodes::none() };
        fleet.join(1).await;
        fleet
    }

    /// One more agent, of which there are so many now.
    async fn join(&mut self, number: u8) {
        self.nodes.start(number, &[1], &self.servers);
        self.nodes.until_ready(self.client(), number.into()).await;
    }

    fn client(&self) -> &Client {
        &self.servers.all[&1].client
    }

    /// Runs so many of a job that counts, of which one moves at a time, each once the one before has been well for so
    /// long.
    async fn run(&self, id: &str, kind: &str, count: u32, min_healthy_ns: u64) {
        let mut job = self.nodes.counting(id);
        job["Type"] = kind.into();
        let group = &mut job["TaskGroups"][0];
        if kind != "system" {
            group["Count"] = count.into();
        }
        if kind == "service" {
            group["Migrate"] = json!({
                "MaxParallel": 1,
                "HealthCheck": "task_states",
                "MinHealthyTime": min_healthy_ns,
                "HealthyDeadline": 100 * SECOND_NS,
            });
        }
        let body = json!({ "Job": job });
        self.client().put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
        self.until_running(id, count as usize).await;
        let live = async || (self.live(id).len() == count as usize).then_some(());
        eventually(&format!("{id} has told its process ids"), live).await;
    }

    /// Waits until so many of a job run, and none but they are to run.
    async fn until_running(&self, id: &str, count: usize) {
        eventually(&format!("{count} of {id} run"), async || {
            (self.running(id).await?.len() == count).then_some(())
        })
        .await;
    }

    /// The nodes on which a job runs, by name; none while it is being changed.
    async fn running(&self, id: &str) -> Option<Vec<String>> {
        let allocs = e2e::nodes::allocs(self.client(), id).await?;
        let desired: Vec<_> = allocs.into_iter().filter(|alloc| alloc.desired_status == "run").collect();
        let mut on = Vec::new();
        for alloc in desired.iter().filter(|alloc| alloc.client_status != "complete") {
            (alloc.client_status == "running").then(|| on.push(alloc.node_name.clone()))?;
        }
        on.sort();
        Some(on)
    }

    /// The process ids of a job, each of which lives.
    fn live(&self, id: &str) -> Vec<String> {
        let pids = self.nodes.pids(id).into_values().flatten();
        pids.filter(|pid| is_alive(pid)).collect()
    }

    /// Has all that a job has running end by itself.
    fn end(&self, id: &str) {
        for alloc in self.nodes.pids(id).into_keys() {
            std::fs::remove_file(self.nodes.path(&format!("{id}-{alloc}"))).expect("it is there");
        }
    }

    fn stdout_of(&self, args: &[&str]) -> String {
        self.servers.all[&1].stdout_of(args)
    }

    /// The first node, as the server shows it.
    fn first(&self) -> Value {
        let detail = self.stdout_of(&["node", "status", "-o", "json", "n1"]);
        serde_json::from_str::<Value>(&detail).expect("JSON")["Node"].clone()
    }

    /// Starts `node drain` with these arguments.
    fn drain(&self, args: &[&str]) -> Monitor {
        let args = [&["node", "drain"], args].concat();
        let stderr = self.nodes.path(&format!("told{}", args.join(" ")));
        Monitor { process: Daemon::spawn(self.servers.all[&1].berth(&args), &stderr), stderr }
    }
}

impl Monitor {
    fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).expect("what it told")
    }

    /// Waits until it tells that.
    async fn until(&self, part: &str) {
        eventually(&format!("it tells {part:?}"), async || self.stderr().contains(part).then_some(())).await;
    }

    /// Its exit code, and all that it told.
    fn ends(mut self) -> (Option<i32>, String) {
        let code = self.process.wait().code();
        (code, self.stderr())
    }
}

/// Where the first line stands with all of these.
fn line_with(stderr: &str, parts: &[&str]) -> usize {
    let has_all = |line: &str| parts.iter().all(|part| line.contains(part));
    stderr.lines().position(has_all).unwrap_or_else(|| panic!("no line has {parts:?}: {stderr}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_monitor_shows_what_moves_where_and_what_waits_for_what() {
    let mut fleet = Fleet::start().await;
    fleet.run("web", "service", 2, SECOND_NS / 2).await;
    fleet.run("sum", "batch", 1, 0).await;
    fleet.run("log", "system", 1, 0).await;
    fleet.join(2).await;
    fleet.until_running("log", 2).await;
    let batch = fleet.live("sum");
    let monitor = fleet.drain(&["-enable", "-deadline", "10m", "-m", "a new disk", "n1"]);
    monitor.until("takes its place").await;
    let moved = async || (fleet.running("web").await? == ["n2", "n2"]).then_some(());
    eventually("the service is on the other node", moved).await;
    let (list, detail) = (fleet.stdout_of(&["node", "status"]), fleet.stdout_of(&["node", "status", "n1"]));
    assert!(list.contains("draining"), "{list}");
    assert!(detail.contains("a new disk") && detail.contains("until 2"), "{detail}");
    assert_eq!(fleet.live("sum"), batch, "the batch job runs to its end");
    assert_eq!(fleet.live("log").len(), 2, "what runs on each node goes last");
    fleet.end("sum");
    let (code, stderr) = monitor.ends();
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(line_with(&stderr, &["what is left after 10m is stopped"]), 0, "{stderr}");
    line_with(&stderr, &["1 allocation waits until enough of its group is healthy elsewhere, ", " at most"]);
    line_with(&stderr, &["1 allocation waits for its end, ", " at most"]);
    line_with(&stderr, &["1 allocation waits until everything else has left, ", " at most"]);
    for index in ["[0]", "[1]"] {
        line_with(&stderr, &["web.group", index, " on n2 takes its place"]);
    }
    let ended = line_with(&stderr, &["sum.group[0] is complete"]);
    let stopped = line_with(&stderr, &["log.group[0]", "its node is drained"]);
    let empty = line_with(&stderr, &["is empty"]);
    assert!(ended < stopped && stopped < empty, "{stderr}");
    assert_eq!(fleet.live("log").len(), 1, "it is empty once all has ended");

    // It is drained again, and nothing is left to be moved.
    for again in [&["-enable", "-m", "once more", "n1"][..], &["-monitor", "n1"]] {
        let (code, stderr) = fleet.drain(again).ends();
        assert!(code == Some(0) && stderr.contains("is empty"), "{stderr}");
    }
    assert_eq!(fleet.first()["LastDrain"]["Meta"]["message"], "once more");
    let (code, stderr) = fleet.drain(&["-enable", "-self"]).ends();
    assert!(code == Some(2) && stderr.contains("there are 2"), "{code:?}: {stderr}");
    fleet.stdout_of(&["node", "eligibility", "-enable", "n1"]);
    fleet.until_running("log", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_stops_all_at_once_but_what_it_is_to_ignore() {
    let fleet = Fleet::start().await;
    for kind in ["service", "batch", "system"] {
        fleet.run(kind, kind, 1, SECOND_NS / 10).await;
    }
    let system = fleet.live("system");
    let (code, stderr) = fleet.drain(&["-enable", "-force", "-ignore-system", "n1"]).ends();
    assert_eq!(code, Some(0), "{stderr}");
    line_with(&stderr, &["everything is stopped at once"]);
    for job in ["service", "batch"] {
        line_with(&stderr, &[&format!("{job}.group[0]"), "its node is drained"]);
        assert_eq!(fleet.live(job), [""; 0], "{stderr}");
    }
    assert!(!stderr.contains("system.group"), "{stderr}");
    assert_eq!(fleet.live("system"), system, "what is ignored runs on");

    let (code, stderr) = fleet.drain(&["-enable", "-force", "n1"]).ends();
    assert_eq!(code, Some(0), "{stderr}");
    line_with(&stderr, &["system.group[0]", "its node is drained"]);
    assert_eq!(fleet.live("system"), [""; 0], "{stderr}");
    fleet.stdout_of(&["node", "eligibility", "-enable", "n1"]);
    for job in ["service", "batch", "system"] {
        fleet.until_running(job, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_drain_takes_the_place_of_the_first_and_whoever_looks_on_sees_it() {
    let fleet = Fleet::start().await;
    fleet.run("web", "service", 1, SECOND_NS / 10).await;
    let before = fleet.live("web");
    let monitor = fleet.drain(&["-enable", "-no-deadline", "-m", "someday", "-self"]);
    monitor.until("web.group[0] leaves once its successor has room").await;
    assert!(monitor.stderr().contains("for as long as it takes"), "{}", monitor.stderr());
    assert!(!monitor.stderr().contains("at most"), "nothing ends it: {}", monitor.stderr());
    let detail = fleet.stdout_of(&["node", "status", "n1"]);
    assert!(detail.contains("someday") && !detail.contains("until"), "{detail}");
    assert_eq!(fleet.live("web"), before, "there is nowhere to go");

    let detached = fleet.drain(&["-enable", "-deadline", "1s", "-m", "today", "-detach", "n1"]).ends();
    assert!(detached.0 == Some(0) && detached.1.contains("-monitor"), "{detached:?}");
    let (code, stderr) = monitor.ends();
    assert_eq!(code, Some(0), "{stderr}");
    let anew = line_with(&stderr, &["was changed: what is left at ", " is stopped"]);
    assert!(anew < line_with(&stderr, &["web.group[0]", "its node is drained"]), "{stderr}");
    assert_eq!(fleet.live("web"), [""; 0]);
    let last = &fleet.first()["LastDrain"];
    assert_eq!((&last["Status"], &last["Meta"]["message"]), (&"complete".into(), &"today".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_moved_when_a_drain_is_called_off_stays_where_it_is_and_so_does_the_rest() {
    let mut fleet = Fleet::start().await;
    // The first that moves is not well for a long time: the second waits for it.
    fleet.run("web", "service", 2, 50 * SECOND_NS).await;
    fleet.join(2).await;
    let before = fleet.live("web");
    let monitor = fleet.drain(&["-enable", "n1"]);
    monitor.until("on n2 takes its place").await;
    let apart = async || (fleet.running("web").await? == ["n1", "n2"]).then_some(());
    eventually("one has moved", apart).await;
    let (code, stderr) = fleet.drain(&["-disable", "-keep-ineligible", "n1"]).ends();
    assert!(code == Some(0) && stderr.contains("stays ineligible for new work"), "{stderr}");
    let (code, stderr) = monitor.ends();
    assert!(code == Some(1) && stderr.contains("was cancelled"), "{stderr}");
    line_with(&stderr, &["1 allocation waits until enough of its group is healthy elsewhere"]);
    let first = fleet.first();
    assert_eq!((&first["Drain"], &first["LastDrain"]["Status"]), (&false.into(), &"canceled".into()));
    assert_eq!(first["SchedulingEligibility"], "ineligible");

    fleet.stdout_of(&["job", "eval", "web"]);
    fleet.until_running("web", 2).await;
    assert_eq!(fleet.running("web").await.expect("they run"), ["n1", "n2"]);
    let stayed = fleet.live("web").into_iter().filter(|pid| before.contains(pid)).count();
    assert_eq!(stayed, 1, "what had not moved is the process that it was");
    let (code, stderr) = fleet.drain(&["-disable", "n1"]).ends();
    assert!(code == Some(0) && stderr.contains("is eligible for new work"), "{stderr}");
    assert_eq!(fleet.first()["SchedulingEligibility"], "eligible");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_dies_and_comes_back_finishes_its_drain() {
    let mut fleet = Fleet::start().await;
    for job in ["one", "two"] {
        fleet.run(job, "batch", 1, 0).await;
    }
    let before = fleet.live("two");
    let monitor = fleet.drain(&["-enable", "-no-deadline", "n1"]);
    monitor.until("2 allocations wait for their end").await;
    fleet.nodes.kill(1);
    // One ends while nobody watches it, the other one is found again.
    fleet.end("one");
    eventually("it has ended", async || fleet.live("one").is_empty().then_some(())).await;
    fleet.join(1).await;
    monitor.until("one.group[0] is complete").await;
    assert_eq!(fleet.live("two"), before, "the process that it was");
    assert_eq!(fleet.first()["Drain"], true);
    fleet.end("two");
    let (code, stderr) = monitor.ends();
    assert_eq!(code, Some(0), "{stderr}");
    assert!(
        line_with(&stderr, &["two.group[0] is complete"]) < line_with(&stderr, &["is empty"]),
        "{stderr}"
    );
    assert_eq!(fleet.first()["SchedulingEligibility"], "ineligible");
}
