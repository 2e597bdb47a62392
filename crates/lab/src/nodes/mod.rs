//! Simulated nodes: the agent's own lifecycle, session and mock driver, with the timers of many nodes in one loop on one connection.
//! A server cannot distinguish them from real ones.

mod behaviour;
mod clock;
mod common;
mod config;
mod connections;
mod dial;
mod fleet;
mod identity;
mod journal;
mod mock;
mod node;
mod setting;
mod shape;
mod timers;

use std::sync::Arc;

use tokio::task::JoinSet;

pub use behaviour::{Behaviour, Outages, TaskBehaviour};
pub use config::NodesConfig;
pub(crate) use connections::{Presence, SharedConnections};
use dial::Dialer;
use fleet::Fleet;
pub use journal::Journal;
pub(crate) use journal::{TaskChange, TaskEntry};
pub use setting::{DurationRange, SettingError, read_share};
pub use shape::{SimNodeShape, SimNodeShapes, WeightedShape};

/// Connections that one process has: it has so many files open besides.
const CONNECTIONS_MAX: usize = 12_000;

/// Simulates nodes until `shutdown` completes. A server that is not there is dialed again.
///
/// # Errors
/// When there are more nodes with connections of their own than a process should have, or their certificate cannot be used.
pub async fn run(config: NodesConfig, shutdown: impl Future<Output = ()>) -> Result<(), SettingError> {
    let mut simulated = SimulatedNodes::start(config)?;
    shutdown.await;
    simulated.fleets.shutdown().await;
    Ok(())
}

/// Nodes that live in this process until this is dropped.
pub(crate) struct SimulatedNodes {
    fleets: JoinSet<()>,
    shared_connections: Arc<SharedConnections>,
}

impl SimulatedNodes {
    /// They begin to live. Compiled in this crate, for speed, and not in whichever runs it.
    ///
    /// # Errors
    /// As [`run`].
    pub fn start(config: NodesConfig) -> Result<Self, SettingError> {
        let (shared_connections, mut fleets) =
            (Arc::new(SharedConnections::to(config.servers.len())), JoinSet::new());
        for fleet in fleets_of(Arc::new(config), &shared_connections)? {
            fleets.spawn(fleet.live());
        }
        Ok(Self { fleets, shared_connections })
    }

    /// Their sessions and connections.
    pub fn shared_connections(&self) -> &SharedConnections {
        &self.shared_connections
    }
}

fn fleets_of(
    config: Arc<NodesConfig>,
    shared_connections: &Arc<SharedConnections>,
) -> Result<Vec<Fleet>, SettingError> {
    let numbers = config.first..config.first.saturating_add(config.count);
    let (own, shared): (Vec<_>, Vec<_>) = numbers.partition(|number| node::breaks(&config, *number));
    let connections = config.connections.clamp(1, config.count.max(1)) as usize;
    let dealt = connections.min(shared.len());
    if own.len() + dealt > CONNECTIONS_MAX {
        return Err(SettingError(format!(
            "these nodes would have {} connections, one for each that would flap or reboot: one process has at most \
             {CONNECTIONS_MAX}; lower --connections or their shares, or start several processes with --first",
            own.len() + dealt
        )));
    }
    let dealt =
        (0..dealt).map(|connection| shared.iter().copied().skip(connection).step_by(connections).collect());
    let all: Vec<Vec<u32>> = dealt.chain(own.into_iter().map(|number| vec![number])).collect();
    let dialer = Dialer::new(&config, shared_connections.clone())?;
    let fleet = |(position, numbers): (u32, Vec<u32>)| {
        let dialer = (dialer.numbered(&config, position), position);
        Fleet::new(config.clone(), numbers.into_iter(), dialer, shared_connections.clone())
    };
    Ok((0..).zip(all).map(fleet).collect())
}

#[cfg(test)]
mod tests {
    use tokio::{io::AsyncReadExt, net::TcpListener};

    use super::*;

    #[tokio::test]
    async fn nodes_that_are_away_have_no_connection_until_they_are_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let simulated =
            SimulatedNodes::start(NodesConfig { connections: 1, ..NodesConfig::new(server, 2) }).unwrap();
        for _ in 0..2 {
            let (mut connection, _) = listener.accept().await.unwrap();
            let mut hello = [0; 64];
            connection.read_exact(&mut hello).await.unwrap();
            simulated.shared_connections().be(Presence::Away);
            connection.read_to_end(&mut Vec::new()).await.unwrap();
            simulated.shared_connections().be(Presence::There);
        }
    }
}
