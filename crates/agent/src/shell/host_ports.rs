//! Ports of tasks that live in the host's network: whether they are free is seen before the first of an allocation's
//! tasks starts, for a task whose port another program has may run on, and answer nobody.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, TcpListener};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use berth_api::agent::AllocId;

use crate::failure::{Failure, FailureContext};
use crate::keeper::plan::StartRecord;
use crate::lifecycle::RunSpec;
use crate::network::{Mapping, Networks};
use crate::paths::AllocPaths;

/// Who had the port before may still be closing it, or another agent of this host may be looking, too.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(50);

/// Allocations whose ports were checked; locked during a check, so that no task starts before it is done.
#[derive(Debug, Default)]
pub(super) struct HostPorts(Mutex<BTreeSet<AllocId>>);

impl HostPorts {
    /// Fails where another program listens on a port of the allocation, unless a task of it may be that. From then on
    /// `networks` of other allocations reach its ports.
    pub(super) fn take(
        &self,
        run: &RunSpec,
        paths: &AllocPaths,
        host_ip: &str,
        networks: Option<&Networks>,
    ) -> Result<(), Failure> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.contains(&run.alloc) {
            return Ok(());
        }
        let dirs = run.group.tasks.iter().map(|task| paths.keeper_dir(&task.name));
        let has_begun = dirs.into_iter().any(|dir| !matches!(StartRecord::read(&dir), Ok(None)));
        let mappings = Mapping::all(run, host_ip)?;
        if !has_begun {
            mappings.iter().try_for_each(check)?;
        }
        // Without this it serves all but its neighbours.
        if let Some(Err(failure)) = networks.map(|networks| networks.open_host_ports(run.alloc, &mappings)) {
            tracing::warn!(alloc = %run.alloc, %failure, "other allocations of this node do not reach its ports");
        }
        seen.insert(run.alloc);
        Ok(())
    }

    /// An allocation has ended.
    pub(super) fn end(&self, alloc: AllocId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&alloc);
    }
}

fn check(port: &Mapping) -> Result<(), Failure> {
    let Mapping { label, host_ip, host_port, .. } = port;
    let doing = || format!("find the port {label:?} free on {host_ip}:{host_port}");
    let ip: IpAddr = host_ip.parse().map_err(|error| Failure::other(doing(), error))?;
    let number = u16::try_from(*host_port).map_err(|error| Failure::other(doing(), error))?;
    for left in (0..TRIES).rev() {
        match TcpListener::bind((ip, number)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AddrInUse && left > 0 => sleep(PAUSE),
            // The task will say what it may not; an address of another machine is none of this one's business.
            Err(error) if error.kind() != ErrorKind::AddrInUse => return Ok(()),
            Err(error) => return Err(error).doing(doing),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use berth_api::agent::{GroupSpec, PortBinding, TaskSpec};

    use super::*;

    #[test]
    fn a_port_of_another_program_is_named_and_a_tasks_own_is_not_looked_at() {
        let dir = tempfile::tempdir().expect("a directory");
        let held = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = held.local_addr().expect("an address").port();
        let task = TaskSpec { name: "t".into(), ..TaskSpec::default() };
        let mut run = RunSpec::unknown(AllocId([9; 16]));
        run.group = Arc::new(GroupSpec { tasks: vec![task], ..GroupSpec::default() });
        run.ports =
            [PortBinding { label: "http".into(), host_port: port.into(), to: 0, ..PortBinding::default() }]
                .into();
        let (ports, paths) = (HostPorts::default(), AllocPaths::new(Path::new(dir.path()), run.alloc));
        let check = |paths: &AllocPaths| {
            ports.take(&run, paths, "127.0.0.1", None).map_err(|error| error.to_string())
        };
        let message = check(&paths).expect_err("taken");
        assert!(
            message.starts_with(&format!("find the port \"http\" free on 127.0.0.1:{port}: ")),
            "{message}"
        );
        drop(held);
        assert_eq!(check(&paths), Ok(()));
        // From now on it may be a task of its own that listens.
        let _held = TcpListener::bind(("127.0.0.1", port)).expect("free");
        assert_eq!(check(&paths), Ok(()));
        ports.end(run.alloc);
        assert!(check(&paths).is_err());
        // So it may if a task was started before the agent was.
        let keeper = paths.keeper_dir("t");
        std::fs::create_dir_all(&keeper).expect("made");
        StartRecord::default().write(&keeper).expect("written");
        assert_eq!(check(&paths), Ok(()));
    }
}
