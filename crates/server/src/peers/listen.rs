//! Accepts other servers' connections.

use std::{sync::Arc, time::Duration};

use berth_replication::peer::Peers;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::PeerCertificates;
use crate::net::PortAcceptor;

/// Connections at a time. A server opens one to each other, and a few more while it joins.
const CONNECTIONS_MAX: usize = 256;
/// Waited after a failed accept: file descriptors may have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves other servers until `stop` says so.
pub(crate) async fn listen(
    listener: TcpListener,
    entrance: PortAcceptor,
    peers: Peers,
    certificates: Arc<PeerCertificates>,
    mut stop: watch::Receiver<bool>,
) {
    let rooms = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        while connections.try_join_next().is_some() {}
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accept a server's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(room) = Arc::clone(&rooms).try_acquire_owned() else {
            tracing::warn!(%address, "turned a server away: {CONNECTIONS_MAX} connections are open");
            continue;
        };
        let (peers, entrance, certificates) = (peers.clone(), entrance.clone(), certificates.clone());
        connections.spawn(async move {
            let entered = entrance.enter(stream, address).await;
            let ended = match entered.and_then(|stream| super::channel(stream, &certificates)) {
                Ok(channel) => peers.accept(channel).await,
                Err(error) => error.to_string(),
            };
            tracing::debug!(%address, ended, "a connection of another server has ended");
            drop(room);
        });
    }
    connections.shutdown().await;
}
