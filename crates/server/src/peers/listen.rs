//! Accepts other servers' connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use berth_replication::peer::Peers;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, watch},
    task::JoinSet,
};

use super::PeerCertificates;
use crate::net::{Foreign, NetStream, OwnPort, PortAcceptor, RefusalLog};

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
    let (slots, refusals) =
        (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Arc::new(RefusalLog::new(OwnPort::Servers)));
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
        let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
            refusals.log(address, &format!("{CONNECTIONS_MAX} connections are open"));
            continue;
        };
        let (peers, entrance, certificates) = (peers.clone(), entrance.clone(), certificates.clone());
        let refusals = refusals.clone();
        connections.spawn(async move {
            let ended = match enter(stream, address, &entrance, &refusals).await {
                Ok(Some(stream)) => match super::channel(stream, &certificates) {
                    Ok(channel) => peers.accept(channel).await,
                    Err(error) => error.to_string(),
                },
                Ok(None) => "it speaks another protocol".to_owned(),
                Err(error) => error.to_string(),
            };
            tracing::debug!(%address, ended, "a connection of another server has ended");
            drop(slot);
        });
    }
    connections.shutdown().await;
}

/// Takes a connection in; none where it speaks another protocol, as clients of the HTTP API do that have the wrong port.
async fn enter(
    stream: TcpStream,
    address: SocketAddr,
    entrance: &PortAcceptor,
    refusals: &RefusalLog,
) -> io::Result<Option<NetStream>> {
    if let Some(foreign) = Foreign::of(&stream, entrance.is_encrypted()).await? {
        refusals.log(address, foreign.reason());
        foreign.answer(OwnPort::Servers, stream).await;
        return Ok(None);
    }
    entrance.enter(stream, address).await.map(Some)
}
