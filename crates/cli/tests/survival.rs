//! Server and agent are killed again and again while jobs are registered: acknowledged writes are kept, tasks do not notice, work that
//! ends is done once, and a follower of the event stream has the state that the lists show.

mod e2e;
#[path = "survival/watcher.rs"]
mod watcher;

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use berth_api::http::{
    AllocationStub, ApiError, Client, JobDeregistered, JobRegistered, NodeStub, Target, TaskState,
};
use e2e::{Daemon, eventually, free_port, insist, nodes::is_alive};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::{JoinHandle, JoinSet};
use watcher::Watcher;

/// How often each of the two is killed, unless `BERTH_TEST_ROUNDS` says otherwise.
const ROUNDS: usize = 5;
/// Tasks that live through all of it.
const SERVICES: usize = 5;
/// Tasks that end in each round: one after each of the two deaths, and one after the first return.
const EXITS_PER_ROUND: usize = 3;
/// A hundred registrations a second.
const REGISTRATION_EVERY: Duration = Duration::from_millis(10);
/// Registrations without an answer yet.
const REGISTRATIONS_IN_FLIGHT_MAX: usize = 64;
/// Acknowledged between two rounds, at least.
const REGISTRATIONS_PER_ROUND: usize = 100;

/// Counts until its pid file is gone: it outlives no test.
const COUNT: &str =
    r#"echo $$ >> "$1.pid"; n=0; while [ -e "$1.pid" ]; do n=$((n + 1)); echo $n; sleep 0.2; done"#;
/// Ends with a code when told to.
const EXIT: &str =
    r#"echo $$ >> "$1.pid"; while [ -e "$1.pid" ] && [ ! -e "$1.go" ]; do sleep 0.02; done; exit "$2""#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_server_and_agent_are_killed() {
    let mut cluster = Cluster::start().await;
    let services: Vec<Task> = (0..SERVICES).map(|n| cluster.task(&format!("service-{n}"))).collect();
    for service in &services {
        cluster.register(&counting(service)).await;
    }
    for service in &services {
        service.wait_for_start().await;
    }
    let registrar = Registrar::start(&cluster.client);
    let watcher = Watcher::start(&cluster.client).await;
    let mut exits = Vec::new();
    for round in 0..rounds() {
        exits.extend(kill_both(&mut cluster, round).await);
        registrar.wait_for_more().await;
    }
    let acknowledged = registrar.stop().await;
    assert!(acknowledged.len() >= rounds() * REGISTRATIONS_PER_ROUND);
    for id in &acknowledged {
        let job = cluster.client.get::<Value>(&Target::new("/v1/job").part(id)).await;
        assert!(job.is_ok(), "job {id} was acknowledged and is lost: {job:?}");
    }
    for (code, exit) in &exits {
        check_exit(&cluster, exit, *code).await;
    }
    for service in &services {
        check_service(&cluster, service).await;
    }
    watcher.check().await;
    for service in &services {
        cluster.stop(service).await;
    }
}

fn rounds() -> usize {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

/// Kills both and starts both, the server first in even rounds; in each stage something ends that nobody is told of.
async fn kill_both(cluster: &mut Cluster, round: usize) -> Vec<(i32, Task)> {
    let first = round * EXITS_PER_ROUND;
    let exits: Vec<(i32, Task)> = (first..first + EXITS_PER_ROUND)
        // A process has no code above 255.
        .map(|number| (1 + (number % 255) as i32, cluster.task(&format!("exit-{number}"))))
        .collect();
    for (code, exit) in &exits {
        cluster.register(&exiting(exit, *code)).await;
    }
    for (_, exit) in &exits {
        exit.wait_for_start().await;
    }
    let server_first = round.is_multiple_of(2);
    cluster.kill(server_first);
    exits[0].1.end().await;
    cluster.kill(!server_first);
    exits[1].1.end().await;
    cluster.restart(server_first);
    exits[2].1.end().await;
    cluster.restart(!server_first);
    cluster.wait_for_node().await;
    exits
}

/// One allocation, started once, that ended with this code.
async fn check_exit(cluster: &Cluster, exit: &Task, code: i32) {
    let state = eventually(&format!("the end of {} is known", exit.name), async || {
        let state = cluster.only_state(exit).await?;
        (state.state == "dead").then_some(state)
    })
    .await;
    let ends: Vec<i32> =
        state.events.iter().filter(|event| event.kind == "Terminated").map(|event| event.exit_code).collect();
    assert_eq!(ends, [code], "{}: {:?}", exit.name, state.events);
    assert_eq!(state.restarts, 0, "{}", exit.name);
    assert_eq!(exit.pids().len(), 1, "{} was started again", exit.name);
}

/// One allocation, whose first process still runs and has lost no line.
async fn check_service(cluster: &Cluster, service: &Task) {
    let state = eventually(&format!("{} is known to run", service.name), async || {
        let state = cluster.only_state(service).await?;
        (state.state == "running").then_some(state)
    })
    .await;
    assert_eq!(state.restarts, 0, "{}", service.name);
    let pids = service.pids();
    assert_eq!(pids.len(), 1, "{} was started again", service.name);
    assert!(is_alive(&pids[0]), "{} has lost its process", service.name);
    let log = cluster.log(service).await;
    let counted: Vec<usize> = log.lines().map(|line| line.parse().expect("a number")).collect();
    assert!(counted.len() > ROUNDS, "{} has hardly told anything", service.name);
    assert_eq!(counted, (1..=counted.len()).collect::<Vec<_>>(), "{} has lost lines", service.name);
}

/// A job of one task, and the files by which it and the test speak.
struct Task {
    name: String,
    stem: PathBuf,
}

impl Task {
    fn file(&self, extension: &str) -> PathBuf {
        self.stem.with_extension(extension)
    }

    /// One for each start.
    fn pids(&self) -> Vec<String> {
        let text = fs::read_to_string(self.file("pid")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn wait_for_start(&self) {
        eventually(&format!("{} starts", self.name), async || self.pids().pop()).await;
    }

    /// Tells it to end, and waits until its process is gone.
    async fn end(&self) {
        fs::write(self.file("go"), "").expect("a file for the task");
        let pid = self.pids().pop().expect("has started");
        eventually(&format!("{} ends", self.name), async || (!is_alive(&pid)).then_some(())).await;
    }
}

fn counting(task: &Task) -> Value {
    job(task, "service", &json!(["-c", COUNT, "sh", task.stem]))
}

fn exiting(task: &Task, code: i32) -> Value {
    job(task, "batch", &json!(["-c", EXIT, "sh", task.stem, code.to_string()]))
}

fn job(task: &Task, job_type: &str, args: &Value) -> Value {
    json!({"ID": task.name, "Name": task.name, "Type": job_type, "TaskGroups": [{
        "Name": "group",
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"},
        "ReschedulePolicy": {"Attempts": 0, "Unlimited": false},
        "Tasks": [{
            "Name": "task",
            "Driver": "raw_exec",
            "Config": {"command": "/bin/sh", "args": args},
            "Resources": {"CPU": 1, "MemoryMB": 10},
        }],
    }]})
}

/// A server and an agent, each in its own process with its own data.
struct Cluster {
    server: Daemon,
    agent: Daemon,
    places: Places,
    client: Client,
}

/// Where they keep their data and where they listen, however often they are started.
struct Places {
    http: String,
    agents: String,
    dir: TempDir,
}

impl Cluster {
    async fn start() -> Self {
        let http = format!("127.0.0.1:{}", free_port());
        let places =
            Places { agents: another_address(&http), http, dir: tempfile::tempdir().expect("a directory") };
        let (server, agent) = (places.server(), places.agent());
        let cluster = Self { server, agent, client: e2e::client(&places.http), places };
        cluster.wait_for_node().await;
        cluster
    }

    fn task(&self, name: &str) -> Task {
        Task { name: name.to_owned(), stem: self.places.dir.path().join(name) }
    }

    fn kill(&mut self, server: bool) {
        if server { self.server.kill() } else { self.agent.kill() }
    }

    fn restart(&mut self, server: bool) {
        if server { self.server = self.places.server() } else { self.agent = self.places.agent() }
    }

    async fn wait_for_node(&self) {
        eventually("the node is ready", async || {
            let nodes = self.client.get::<Vec<NodeStub>>(&Target::new("/v1/nodes")).await.ok()?;
            nodes.value.iter().any(|node| node.status == "ready").then_some(())
        })
        .await;
    }

    async fn register(&self, job: &Value) {
        register(&self.client, job).await.expect("is acknowledged");
    }

    async fn stop(&self, task: &Task) {
        let target = Target::new("/v1/job").part(&task.name);
        self.client.delete::<JobDeregistered>(&target).await.expect("may be stopped");
        eventually(&format!("{} stops", task.name), async || {
            self.only_alloc(task).await.filter(|alloc| alloc.client_status == "complete")
        })
        .await;
    }

    /// The job's only allocation. A second one would mean that the first was given up.
    async fn only_alloc(&self, task: &Task) -> Option<AllocationStub> {
        let target = Target::new("/v1/job").part(&task.name).part("allocations");
        let mut allocs = self.client.get::<Vec<AllocationStub>>(&target).await.ok()?.value;
        assert_eq!(allocs.len(), 1, "{} has been placed again: {allocs:?}", task.name);
        allocs.pop()
    }

    async fn only_state(&self, task: &Task) -> Option<TaskState> {
        self.only_alloc(task).await?.task_states?.remove("task")
    }

    async fn log(&self, task: &Task) -> String {
        let alloc = self.only_alloc(task).await.expect("is placed");
        let target = Target::new("/v1/client/fs/logs").part(&alloc.id).param("plain", true);
        let mut stream = self.client.bytes(&target).await.expect("has a log");
        let mut log = Vec::new();
        while let Some(piece) = stream.next().await.expect("may be read") {
            log.extend_from_slice(&piece);
        }
        String::from_utf8(log).expect("digits")
    }
}

/// A second address: the first one's port is free as long as nobody listens on it.
fn another_address(http: &str) -> String {
    let _taken = std::net::TcpListener::bind(http).expect("was free");
    format!("127.0.0.1:{}", free_port())
}

impl Places {
    fn server(&self) -> Daemon {
        let dir = self.path("server");
        let args = ["server", "--data-dir", &dir, "--http-addr", &self.http, "--agent-addr", &self.agents];
        let args = [&args[..], &["--log-level", "warn"]].concat();
        let mut server = Daemon::start(&args, &self.dir.path().join("server.err"));
        server.ready_line();
        server
    }

    fn agent(&self) -> Daemon {
        let dir = self.path("agent");
        let args = ["agent", "--data-dir", &dir, "--servers", &self.agents, "--raw-exec", "--mock-driver"];
        Daemon::start(&args, &self.dir.path().join("agent.err"))
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().expect("plain").to_owned()
    }
}

/// Registers jobs at a steady pace, each until it is acknowledged.
struct Registrar {
    acknowledged: Arc<Mutex<Vec<String>>>,
    stopping: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Registrar {
    fn start(client: &Client) -> Self {
        let (acknowledged, stopping) = (Arc::default(), Arc::default());
        let task =
            tokio::spawn(keep_registering(client.clone(), Arc::clone(&acknowledged), Arc::clone(&stopping)));
        Self { acknowledged, stopping, task }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("not poisoned").len()
    }

    async fn wait_for_more(&self) {
        let enough = self.count() + REGISTRATIONS_PER_ROUND;
        eventually("registrations go on", async || (self.count() >= enough).then_some(())).await;
    }

    /// Lets it finish, and returns what was acknowledged.
    async fn stop(self) -> Vec<String> {
        self.stopping.store(true, Ordering::Relaxed);
        self.task.await.expect("no registration was refused");
        std::mem::take(&mut *self.acknowledged.lock().expect("not poisoned"))
    }
}

async fn keep_registering(client: Client, acknowledged: Arc<Mutex<Vec<String>>>, stopping: Arc<AtomicBool>) {
    let mut pace = tokio::time::interval(REGISTRATION_EVERY);
    let mut in_flight = JoinSet::new();
    for number in 0_usize.. {
        if stopping.load(Ordering::Relaxed) {
            break;
        }
        pace.tick().await;
        if in_flight.len() >= REGISTRATIONS_IN_FLIGHT_MAX {
            in_flight.join_next().await.expect("not empty").expect("not refused");
        }
        while let Some(done) = in_flight.try_join_next() {
            done.expect("not refused");
        }
        let (client, acknowledged) = (client.clone(), Arc::clone(&acknowledged));
        in_flight.spawn(async move {
            let id = format!("registered-{number}");
            let job = mocked(&id, number);
            insist(|| register(&client, &job)).await;
            acknowledged.lock().expect("not poisoned").push(id);
        });
    }
    while let Some(done) = in_flight.join_next().await {
        done.expect("not refused");
    }
}

async fn register(client: &Client, job: &Value) -> Result<(), ApiError> {
    client.put::<JobRegistered>(&Target::new("/v1/jobs"), &json!({"Job": job})).await.map(|_| ())
}

/// Most of them ask for nothing; every tenth runs for a moment.
fn mocked(id: &str, number: usize) -> Value {
    let count = usize::from(number.is_multiple_of(10));
    json!({"ID": id, "Name": id, "Type": "batch", "TaskGroups": [{
        "Name": "group",
        "Count": count,
        "Tasks": [{
            "Name": "task",
            "Driver": "mock_driver",
            "Config": {"run_for": "50ms"},
            "Resources": {"CPU": 1, "MemoryMB": 10},
        }],
    }]})
}
