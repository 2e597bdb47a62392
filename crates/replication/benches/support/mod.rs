//! Servers in one process: each has a log of its own on a disk, and channels in memory lie between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::{Arc, Mutex},
};

use berth_replication::{
    ClusterConfig, Config, Peer, Replication, SEGMENT_BYTES, Start,
    disk::RealDisk,
    peer::{Dial, PeerAddress, PeerChannel, PeerIdentity, Peers, Service},
};
use bytes::Bytes;
use futures_util::{future::BoxFuture, sink, stream};
use tokio::sync::mpsc;

use crate::support::Recorder;

/// Who listens where.
#[derive(Clone, Default)]
struct Wires(Arc<Mutex<BTreeMap<String, Peers>>>);

/// The two ends of a channel. What is sent is bounded by those who send.
fn channel() -> (PeerChannel, PeerChannel) {
    let (to_there, from_here) = mpsc::unbounded_channel::<Bytes>();
    let (to_here, from_there) = mpsc::unbounded_channel::<Bytes>();
    let ends = |to: mpsc::UnboundedSender<Bytes>, from: mpsc::UnboundedReceiver<Bytes>| {
        let outgoing = sink::unfold(to, |to, frame| async {
            to.send(frame).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
            Ok(to)
        });
        let incoming = stream::unfold(from, |mut from| async { Some((Ok(from.recv().await?), from)) });
        PeerChannel::new(outgoing, incoming)
    };
    (ends(to_there, from_there), ends(to_here, from_here))
}

impl Dial for Wires {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<PeerChannel>> {
        let there = self.0.lock().unwrap().get(&to.0).cloned();
        let dialed = there.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()).map(|there| {
            let (here, theirs) = channel();
            tokio::spawn(async move { there.accept(theirs).await });
            here
        });
        Box::pin(std::future::ready(dialed))
    }
}

/// Nothing is asked but what consensus asks.
struct Nothing;

impl Service for Nothing {
    fn request(&self, _: PeerIdentity, _: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        Box::pin(std::future::ready(Err("nothing is answered".to_owned())))
    }

    fn message(&self, _: PeerIdentity, _: Bytes) {}
}

/// So many servers with their logs below `dir`, the first of which leads; all of them vote.
pub async fn servers(dir: &Path, count: u64) -> Vec<Replication> {
    let wires = Wires::default();
    let peer = |id: u64| Peer { address: format!("server-{id}"), ..Peer::default() };
    let mut servers: Vec<Replication> = Vec::new();
    for id in 1..=count {
        let peers: Peers = Peers::new(id, Arc::new(wires.clone()), Arc::new(Nothing));
        wires.0.lock().unwrap().insert(peer(id).address, peers.clone());
        let start = if id == 1 { Start::Found } else { Start::Wait };
        let cluster = ClusterConfig { peers, own: peer(id), start };
        let config = Config { server_id: id, ..Config::new(dir.join(id.to_string()), "bench") };
        let (disk, seen) = (Arc::new(RealDisk), Arc::new(Recorder::default()));
        let opened = Replication::open_in(disk, SEGMENT_BYTES, config, seen, cluster).await;
        servers.push(opened.expect("the log opens"));
        if id > 1 {
            servers[0].set_member(id, peer(id)).await.expect("it is taken in");
            servers[0].promote(id, BTreeSet::new()).await.expect("it votes");
        }
    }
    servers
}
