//! Simulated nodes: the agent's own life cycle, session and mock driver, its timers played by one loop for many nodes on
//! one connection. A server cannot tell them from real ones.

mod behaviour;
mod clock;
mod common;
mod config;
mod fleet;
mod identity;
mod journal;
mod mock;
mod node;
mod setting;
mod shape;
mod timers;

use std::sync::{Arc, atomic::AtomicU32};

use tokio::task::JoinSet;

pub use behaviour::{Behaviour, Outages, TaskBehaviour};
pub use config::NodesConfig;
use fleet::Fleet;
pub use journal::Journal;
pub(crate) use journal::{TaskChange, TaskEntry};
pub use setting::{SettingError, Span, read_share};
pub use shape::{Shape, Shapes, Weighted};

/// Nodes with a connection of their own that one process has: it has so many files open besides.
const OWN_CONNECTIONS_MAX: usize = 10_000;

/// Simulates nodes until `shutdown` completes. A server that is not there is dialed again.
///
/// # Errors
/// When there are more nodes with connections of their own than a process should have.
pub async fn run(config: NodesConfig, shutdown: impl Future<Output = ()>) -> Result<(), SettingError> {
    let mut fleets = live(config)?;
    shutdown.await;
    fleets.shutdown().await;
    Ok(())
}

/// Compiled in this crate, for speed, and not in whichever runs it.
fn live(config: NodesConfig) -> Result<JoinSet<()>, SettingError> {
    let mut fleets = JoinSet::new();
    for fleet in fleets_of(Arc::new(config))? {
        fleets.spawn(fleet.live());
    }
    Ok(fleets)
}

fn fleets_of(config: Arc<NodesConfig>) -> Result<Vec<Fleet>, SettingError> {
    let numbers = config.first..config.first.saturating_add(config.count);
    let (own, shared): (Vec<_>, Vec<_>) = numbers.partition(|number| node::breaks(&config, *number));
    if own.len() > OWN_CONNECTIONS_MAX {
        return Err(SettingError(format!(
            "{} nodes would flap or reboot, and each of them has its own connection: one process has at most \
             {OWN_CONNECTIONS_MAX}; lower their shares, or start several processes with --first",
            own.len()
        )));
    }
    let open = Arc::new(AtomicU32::new(0));
    let fleet = |numbers: Vec<u32>| Fleet::new(config.clone(), numbers.into_iter(), open.clone());
    let connections = config.connections.max(1) as usize;
    let dealt = (0..connections.min(shared.len()))
        .map(|connection| shared.iter().copied().skip(connection).step_by(connections).collect());
    Ok(dealt.chain(own.into_iter().map(|number| vec![number])).map(fleet).collect())
}
