//! An agent that is killed again and again while it starts and stops tasks: nothing is begun twice, and nothing is left.
//!
//! `BERTH_TEST_ROUNDS` says how often; each round kills it twice.

#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use berth_api::agent::{AllocId, TaskSpec};
use common::{alloc_id, eventually};
use serde_json::json;
use server::Run;
use tempfile::TempDir;
use world::{World, run, task};

const ROUNDS: u32 = 10;

/// How long an agent lives at most before it is killed: longer than a start or a stop takes.
const LIFE_MAX_MS: u64 = 90;

/// Numbers of allocations; one is used again once its files are removed.
const NUMBERS: u8 = 240;

/// Of each round: tasks of the host, and as many in containers where these can run.
const TASKS: u8 = 2;

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
    draw: Draw,
}

fn rounds() -> u32 {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

impl Cycles {
    fn new() -> Self {
        let draw = Draw(0x9e37_79b9_7f4a_7c15);
        let runtime = ["/usr/bin/crun", "/usr/sbin/runc"].into_iter().find(|path| Path::new(path).exists());
        let (Some(runtime), true) = (runtime, nix::unistd::Uid::effective().is_root()) else {
            eprintln!("no containers: there is no OCI runtime, or this is not root");
            return Self { world: World::new(), images: None, draw };
        };
        let images = tempfile::tempdir().expect("a directory");
        let bin = images.path().join("root/bin");
        fs::create_dir_all(&bin).expect("made");
        fs::copy("/bin/busybox", bin.join("busybox")).expect("copied");
        ["sh", "sleep"].iter().for_each(|name| symlink("busybox", bin.join(name)).expect("linked"));
        Self { world: World::with_runtime(runtime, images.path()), images: Some(images), draw }
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
                    (
                        "docker",
                        json!({"image": image, "command": "/bin/sh", "args": args, "network_mode": "none"}),
                    )
                }
                _ => ("raw_exec", json!({"command": "/bin/sh", "args": args})),
            };
            TaskSpec { memory_mb: 32, kill_timeout_ms: 50, ..task("t", driver, config) }
        };
        numbers.iter().enumerate().map(|(at, number)| run(*number, vec![spec(at)])).collect()
    }

    /// Lets the agent live for a moment, kills it, and starts the next.
    fn kill_agent(&mut self) {
        std::thread::sleep(Duration::from_millis(self.draw.below(LIFE_MAX_MS)));
        self.world.kill_agent();
        self.world.respawn_agent();
    }

    fn round(&mut self, numbers: &[u8]) {
        let runs = self.runs(numbers);
        self.world.server.wish(runs.clone(), &[], &[], &[]);
        self.kill_agent();
        self.world.server.wish(runs, &[], &[], &[]);
        if self.draw.below(2) == 0 {
            // Some are stopped while they start.
            for number in numbers {
                self.world
                    .server
                    .wait_for(*number, |status| status.tasks.iter().any(|task| task.started_ns > 0));
            }
        }
        self.world.server.wish(Vec::new(), numbers, &[], &[]);
        self.kill_agent();
        self.world.server.wish(Vec::new(), numbers, &[], &[]);
        for number in numbers {
            self.world.server.wait_for(*number, |status| status.status().is_terminal());
            let starts = fs::read_to_string(self.world.path(*number, "alloc/starts")).unwrap_or_default();
            assert!(starts.lines().count() <= 1, "allocation {number} was started twice: {starts}");
        }
        self.world.server.wish(Vec::new(), &[], numbers, numbers);
        for number in numbers {
            let dir = self.world.path(*number, "");
            eventually("the files to be removed", || (!dir.exists()).then_some(()));
        }
    }

    /// What is left on the host of this test's tasks.
    fn left(&self) -> Vec<String> {
        let mark = self.mark();
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        let mounts = mounts.lines().filter(|line| line.contains(&mark)).map(str::to_owned);
        mounts.chain(processes(&mark, self.world.agent.id())).chain(cgroups()).collect()
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
