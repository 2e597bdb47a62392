//! A simulated node sends what a real agent sends: both run through the same scripts, and every message is compared.
//!
//! Times, ids and jitter are taken out. Between two points at which a script waits, a node has at most five updates to
//! send: a session lets four go unacknowledged, so that nothing is merged by accident however slow the machine is.

mod desired;
mod outages;
mod requests;
mod server;
mod sessions;
mod tasks;
mod transcript;

use std::{path::Path, time::Duration};

use berth_agent::{Agent, AgentConfig, ShutdownMode, drivers::DriverSwitches};
use berth_lab::nodes::{self, NodesConfig};
use expect_test::Expect;
use tokio::{runtime::Runtime, sync::oneshot};

use server::Server;

/// No heartbeat comes while a script lasts.
const RARE_MS: u64 = 3_600_000;

/// A node that runs beside the test until it is dropped.
struct Running {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start<F: Future<Output = ()>>(node: impl FnOnce(oneshot::Receiver<()>) -> F + Send + 'static) -> Self {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(|| Runtime::new().expect("a runtime").block_on(node(stopped)));
        Self { stop: Some(stop), thread: Some(thread) }
    }

    fn real(server: &Server, data_dir: &Path) -> Self {
        let config = AgentConfig {
            drivers: DriverSwitches { mock_driver: true, ..DriverSwitches::default() },
            update_delay: Duration::ZERO,
            ..AgentConfig::new(data_dir, vec![server.address()], Vec::new())
        };
        Self::start(|stopped| async {
            let stopped = async { drop(stopped.await) };
            Agent::run(config, stopped, ShutdownMode::LeaveTasks).await.expect("an agent");
        })
    }

    fn simulated(config: NodesConfig) -> Self {
        let config = NodesConfig { update_delay: Duration::ZERO, connections: 1, ..config };
        Self::start(|stopped| async {
            nodes::run(config, async { drop(stopped.await) }).await.expect("nodes");
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An agent that leaves its tasks to the next one leaves them their secrets, too, which are mounted where it may mount.
fn unmount_below(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    for point in points.filter(|point| Path::new(point).starts_with(dir)) {
        let _ = rustix::mount::unmount(point, rustix::mount::UnmountFlags::DETACH);
    }
}

/// Lets a real agent and a simulated node live through a script; both must say what is expected.
fn check(script: impl Fn(&mut Server), expected: &Expect) {
    let data_dir = tempfile::tempdir().expect("a directory");
    let mut server = Server::new();
    let real = Running::real(&server, data_dir.path());
    script(&mut server);
    drop(real);
    unmount_below(data_dir.path());
    let said_by_agent = server.said();

    let mut server = Server::new();
    let simulated = Running::simulated(NodesConfig::new(server.address(), 1));
    script(&mut server);
    drop(simulated);
    assert_eq!(server.said(), said_by_agent, "a simulated node says something else than an agent");
    expected.assert_eq(&said_by_agent);
}
