//! Accepts other servers' connections.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use berth_replication::peer::Peers;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};

use super::PeerCertificates;
use crate::net::{
    AddressGuard, AddressLimit, Foreign, NetStream, OwnPort, PerAddress, PortAcceptor, RefusalLog,
};

/// Connections at a time. A server opens one to each other, and a few more while it joins.
const CONNECTIONS_MAX: usize = 256;
/// Of these, one address may have so many: several servers may be behind one, and no host may take all slots, which it could by
/// connections that say nothing.
const CONNECTIONS_OF_ADDRESS: AddressLimit =
    AddressLimit { per_address_max: 64, loopback_max: CONNECTIONS_MAX };
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
    let (slots, refusals) = (PeerSlots::default(), Arc::new(RefusalLog::new(OwnPort::Servers)));
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
                tracing::warn!(%error, "could not accept a server's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let slot = match slots.take(address.ip()) {
            Ok(slot) => slot,
            Err(reason) => {
                refusals.log(address, &reason);
                continue;
            }
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

/// Slots for connections of other servers, in total and by address.
struct PeerSlots {
    all: Arc<Semaphore>,
    addresses: PerAddress,
}

/// The slot of one connection, until it is dropped.
#[derive(Debug)]
struct PeerSlot {
    _of_all: OwnedSemaphorePermit,
    _of_address: AddressGuard,
}

impl Default for PeerSlots {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(CONNECTIONS_MAX)), addresses: PerAddress::default() }
    }
}

impl PeerSlots {
    /// # Errors
    /// Why there is no free slot.
    fn take(&self, address: IpAddr) -> Result<PeerSlot, String> {
        let Some(of_address) = self.addresses.count(address, CONNECTIONS_OF_ADDRESS) else {
            let max = CONNECTIONS_OF_ADDRESS.of(address);
            return Err(format!("{max} connections of its address are open"));
        };
        let of_all = self.all.clone().try_acquire_owned();
        let of_all = of_all.map_err(|_| format!("{CONNECTIONS_MAX} connections are open"))?;
        Ok(PeerSlot { _of_all: of_all, _of_address: of_address })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_the_connections_of_all_servers() {
        let slots = PeerSlots::default();
        let address = |host| IpAddr::from([10, 0, 0, host]);
        let fill =
            |host| -> Vec<PeerSlot> { std::iter::from_fn(|| slots.take(address(host)).ok()).collect() };
        let mut first = fill(1);
        assert_eq!(first.len(), 64);
        assert_eq!(
            slots.take(address(1)).expect_err("it has its share"),
            "64 connections of its address are open"
        );
        let others: Vec<Vec<PeerSlot>> = (2..=4).map(fill).collect();
        assert!(others.iter().all(|slots| slots.len() == 64));
        assert_eq!(slots.take(address(5)).expect_err("there are no more"), "256 connections are open");
        first.pop();
        assert!(slots.take(address(5)).is_ok(), "one has ended");
    }
}
