//! An agent that is killed again and again while it starts and stops tasks: none is started twice, and nothing is left over.
//!
//! `BERTH_TEST_ROUNDS` says how often; each round kills it twice.

#[path = "common/busybox.rs"]
mod busybox;
#[allow(dead_code)]
mod common;
#[path = "common/host.rs"]
#[allow(dead_code)]
mod host;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use berth_api::agent::{AllocId, PortBinding, TaskSpec};
use common::{alloc_id, eventually};
use serde_json::json;
use server::Run;
use tempfile::TempDir;
use world::{World, run_without_ports, task};

const ROUNDS: u32 = 10;

/// How long an agent lives at most before it is killed: longer than a start or a stop takes.
const LIFE_MAX_MS: u64 = 90;

/// Numbers of allocations; one is used again once its files are removed.
const NUMBERS: u8 = 240;

/// Of each round: tasks of the host, and as many in containers where these can run, half of them in networks of their own where
/// these can be made.
const TASKS: u8 = 2;

/// The port of the host that leads to the first allocation with a network.
const PORT: u32 = 25_000;

const SCRIPT: &str = "echo $$ >> \"$NOMAD_ALLOC_DIR/starts\"; exec sleep 1000";

/// Numbers that look drawn, the same in each run (xorshift).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

struct Cycles {
    world: World,
    /// Where containers can run: what they are made of.
    images: Option<TempDir>,
    has_networks: bool,
    draw: Draw,
}

fn rounds() -> u32 {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

impl Cycles {
    fn new() -> Self {
        let draw = Draw(0x9e37_79b9_7f4a_7c15);
        let Some(runtime) = busybox::runtimes().into_iter().next() else {
            return Self { world: World::new(), images: None, has_networks: false, draw };
        };
        let images = busybox::image(&["sh", "sleep"]);
        let has_networks = host::can_be_made();
        let mut settings = Vec::new();
        if has_networks {
            host::become_one();
            settings = vec![("AGENT_BRIDGE", "berth"), ("AGENT_HOST_IP", host::HOST)];
        }
        let world = World::with_settings(runtime, images.path(), settings);
        Self { world, images: Some(images), has_networks, draw }
    }

    /// What bears this in its command line is of this test.
    fn mark(&self) -> String {
        self.world.data.path().to_string_lossy().into_owned()
    }

    fn runs(&self, numbers: &[u8]) -> Vec<Run> {
        let args = json!(["-c", SCRIPT, self.mark()]);
        let spec = |at: usize| {
            let (driver, config) = match &self.images {
                Some(images) if at % 2 == 1 => {
                    let image = images.path().join("root");
                    let mode = if self.is_bridged(at) { "bridge" } else { "none" };
                    (
                        "docker",
                        json!({"image": image, "command": "/bin/sh", "args": args, "network_mode": mode}),
                    )
                }
                _ => ("raw_exec", json!({"command": "/bin/sh", "args": args})),
            };
            TaskSpec { memory_mb: 32, kill_timeout_ms: 50, ..task("t", driver, config) }
        };
        let run = |(at, number): (usize, &u8)| {
            let mut run = run_without_ports(*number, vec![spec(at)]);
            if self.is_bridged(at) {
                let host_port = PORT + u32::from(*number);
                let port = PortBinding { label: "web".into(), host_port, to: 80, ..PortBinding::default() };
                run.alloc.ports.push(port);
            }
            run
        };
        numbers.iter().enumerate().map(run).collect()
    }

    /// Whether the allocation in this place of a round has a network of its own.
    fn is_bridged(&self, at: usize) -> bool {
        self.has_networks && at % 4 == 3
    }

    /// Lets the agent live for a moment, kills it, and starts the next.
    fn kill_agent(&mut self) {
        std::thread::sleep(Duration::from_millis(self.draw.below(LIFE_MAX_MS)));
        self.world.kill_agent();
        self.world.respawn_agent();
    }

    fn round(&mut self, numbers: &[u8]) {
        let runs = self.runs(numbers);
        self.world.server.desire(runs.clone(), &[], &[], &[]);
        self.kill_agent();
        self.world.server.desire(runs, &[], &[], &[]);
        if self.draw.below(2) == 0 {
            // Some are stopped while they start.
            for number in numbers {
                self.world
                    .server
                    .wait_for(*number, |status| status.tasks.iter().any(|task| task.started_ns > 0));
            }
        }
        self.world.server.desire(Vec::new(), numbers, &[], &[]);
        self.kill_agent();
        self.world.server.desire(Vec::new(), numbers, &[], &[]);
        for number in numbers {
            self.world.server.wait_for(*number, |status| status.status().is_terminal());
            let starts = fs::read_to_string(self.world.path(*number, "alloc/starts")).unwrap_or_default();
            assert!(starts.lines().count() <= 1, "allocation {number} was started twice: {starts}");
        }
        self.world.server.desire(Vec::new(), &[], numbers, numbers);
        for number in numbers {
            let dir = self.world.path(*number, "");
            eventually("the files to be removed", || (!dir.exists()).then_some(()));
        }
    }

    /// What is left on the host of this test's tasks.
    fn left(&self) -> Vec<String> {
        let mark = self.mark();
        let mounts = fs::read_to_string("/proc/thread-self/mounts").expect("mounts");
        let mounts = mounts.lines().filter(|line| line.contains(&mark)).map(str::to_owned);
        let networks = if self.has_networks { networks() } else { Vec::new() };
        mounts.chain(processes(&mark, self.world.agent.id())).chain(cgroups()).chain(networks).collect()
    }
}

/// Those that bear the mark, but for the agent.
fn processes(mark: &str, agent: u32) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let line = |pid: u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " ");
        line.contains(mark).then(|| format!("process {pid}: {line}"))
    };
    numbers.filter(|pid| *pid != agent).filter_map(line).collect()
}

/// Those of allocations: namespaces, interfaces, and rules for their ports.
fn networks() -> Vec<String> {
    let rules = host::rules();
    let ports = (1..=u32::from(NUMBERS)).map(|number| (PORT + number).to_string());
    let rules =
        ports.filter(|port| rules.contains(port.as_str())).map(|port| format!("a rule for port {port}"));
    let namespaces = host::namespaces().into_iter().map(|name| format!("network namespace {name}"));
    let interfaces = host::interfaces().into_iter().map(|name| format!("interface {name}"));
    namespaces.chain(interfaces).chain(rules).collect()
}

/// Those of this test's allocations, in all hierarchies.
fn cgroups() -> Vec<String> {
    let ids: BTreeSet<String> = (1..=NUMBERS).map(|number| AllocId(alloc_id(number)).to_string()).collect();
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    let dirs = hierarchies.chain([root.to_owned()]).map(|hierarchy| hierarchy.join("berth"));
    let found = dirs.filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
    let is_ours = |name: &str| ids.iter().any(|id| name.starts_with(id.as_str()));
    let paths = found.map(|entry| entry.path().display().to_string());
    paths.filter(|path| path.rsplit('/').next().is_some_and(is_ours)).collect()
}

#[test]
fn an_agent_killed_at_any_moment_starts_nothing_twice_and_leaves_nothing() {
    let mut cycles = Cycles::new();
    let mut next = 0;
    for round in 0..rounds() {
        let numbers: Vec<u8> = (0..2 * TASKS).map(|at| 1 + (next + at) % NUMBERS).collect();
        next = (next + 2 * TASKS) % NUMBERS;
        cycles.round(&numbers);
        if round % 100 == 99 {
            eprintln!("{} rounds", round + 1);
        }
    }
    eventually("nothing to be left", || {
        let left = cycles.left();
        if !left.is_empty() {
            eprintln!("left so far: {left:#?}");
            std::thread::sleep(Duration::from_secs(1));
        }
        left.is_empty().then_some(())
    });
}
