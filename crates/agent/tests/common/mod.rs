//! Helpers of the tests with real processes.

use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal, kill_process};

/// Long enough for the slowest machine; nothing that is right waits that long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The example program, which cargo builds along with the tests.
pub fn agent_program() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    let target = test.parent().and_then(Path::parent).expect("target/debug/deps");
    let program = target.join("examples/agent");
    assert!(program.exists(), "{} is missing: cargo build -p berth-agent --example agent", program.display());
    program
}

/// Tells an agent to end, which takes its tasks along, and waits until it has.
pub fn end_agent(agent: &mut Child) {
    if let Ok(None) = agent.try_wait() {
        let _ = kill_process(Pid::from_child(agent), Signal::TERM);
    }
    let deadline = Instant::now() + PATIENCE;
    while matches!(agent.try_wait(), Ok(None)) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    agent.kill().ok();
    agent.wait().ok();
}

/// Takes away what is mounted below a directory of a test: secrets of tasks whose agent was killed.
pub fn unmount_below(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
    for point in mounts.lines().filter_map(|line| line.split(' ').nth(1)) {
        if Path::new(point).starts_with(dir) {
            let _ = unmount(point, UnmountFlags::DETACH);
        }
    }
}

/// Asks again until there is an answer.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An allocation's id that no other test uses: on one host, an id names one container, or one cgroup. Each test has a
/// thread of its own.
pub fn alloc_id(number: u8) -> [u8; 16] {
    let mut id = [number; 16];
    let thread = format!("{:?}", std::thread::current().id());
    let thread: String = thread.chars().filter(char::is_ascii_digit).collect();
    id[8..12].copy_from_slice(&thread.parse::<u32>().expect("a number").to_be_bytes());
    id[12..].copy_from_slice(&std::process::id().to_be_bytes());
    id
}
