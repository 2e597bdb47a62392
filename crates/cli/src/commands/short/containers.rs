//! Checks that some node can run containers, before `berth run` registers a job.

use std::collections::BTreeSet;

use crate::{
    failure::{Exit, Failure},
    remote::Remote,
};

/// The driver of one-liners.
const DRIVER: &str = "container";

/// Reasons that are shown; many nodes most often have the same.
const REASONS_MAX: usize = 3;

/// Fails, with the reasons of the nodes, when there are nodes and none of them can run containers.
pub(super) async fn expect_a_node(remote: &Remote) -> Result<(), Failure> {
    // Without the right to list nodes the check is skipped: the job will show it.
    let Ok(nodes) = remote.nodes().await else { return Ok(()) };
    let ready: Vec<_> = nodes.iter().filter(|node| node.status == "ready").collect();
    let can = ready.iter().any(|node| node.drivers.get(DRIVER).is_some_and(|driver| driver.healthy));
    if can || ready.is_empty() {
        return Ok(());
    }
    let why = ready.iter().filter_map(|node| {
        let reason = node.drivers.get(DRIVER).map(|driver| driver.health_description.as_str())?;
        (!reason.is_empty()).then(|| format!("{}: {reason}", node.name))
    });
    let why: BTreeSet<String> = why.collect();
    let failure = Failure::new(Exit::Failed, "no node can run containers; no job was made");
    let message = why.into_iter().take(REASONS_MAX).fold(failure, |failure, reason| failure.help(reason));
    Err(message.help("commands of the host run without containers: berth run -exec COMMAND"))
}
