//! Several servers in one process, with channels in memory between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{Sink, future::BoxFuture};
use tokio::sync::mpsc;

use crate::{
    Cluster, Config, Peer, ProposeError, ReadError, Replication, Start,
    disk::memory::MemoryDisk,
    peer::{Channel, Dial, From, PeerAddress, Peers, Service},
    runtime::Tokio,
};

use super::{
    SEGMENT_BYTES, propose,
    support::{Recorder, register},
};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who listens where, and who is cut off.
#[derive(Default)]
struct Wires {
    listening: Mutex<BTreeMap<String, Peers>>,
    cut: Mutex<BTreeSet<String>>,
}

/// One server's way to the others.
struct Wire {
    wires: Arc<Wires>,
    own: String,
}

/// A sink that takes everything.
struct Take(mpsc::UnboundedSender<Bytes>);

impl Sink<Bytes> for Take {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, frame: Bytes) -> io::Result<()> {
        self.0.send(frame).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The two ends of a channel; nothing gets through while `closed` says so of either.
fn channel() -> (Channel, Channel) {
    let (to_there, from_here) = mpsc::unbounded_channel();
    let (to_here, from_there) = mpsc::unbounded_channel();
    let stream = |received: mpsc::UnboundedReceiver<Bytes>| {
        futures_util::stream::unfold(received, |mut received| async {
            let frame = received.recv().await?;
            Some((Ok(frame), received))
        })
    };
    (Channel::new(Take(to_there), stream(from_there)), Channel::new(Take(to_here), stream(from_here)))
}

impl Dial for Wire {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<Channel>> {
        let cut = self.wires.cut.lock().unwrap();
        let reached = !cut.contains(&self.own) && !cut.contains(&to.0);
        let there = self.wires.listening.lock().unwrap().get(&to.0).cloned().filter(|_| reached);
        let dialed = there.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()).map(|there| {
            let (here, theirs) = channel();
            tokio::spawn(async move { there.accept(theirs).await });
            here
        });
        Box::pin(std::future::ready(dialed))
    }
}

/// Answers a request with itself.
struct Echo;

impl Service for Echo {
    fn request(&self, from: From, request: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let refused = format!("server {} asks for nothing", from.server);
        let answer = if request.is_empty() { Err(refused) } else { Ok(request) };
        Box::pin(std::future::ready(answer))
    }

    fn message(&self, _: From, _: Bytes) {}
}

/// A server's disk and what it has seen.
struct Server {
    id: u64,
    disk: Arc<MemoryDisk>,
    seen: Arc<Recorder>,
    log: Replication,
    wires: Arc<Wires>,
}

fn peer(id: u64) -> Peer {
    let text = |what: &str| format!("{what}-{id}");
    Peer { address: text("server"), name: text("name"), http: text("http"), agent: text("agent") }
}

impl Server {
    async fn open(wires: &Arc<Wires>, id: u64, disk: Arc<MemoryDisk>, start: Start) -> Self {
        let seen = Arc::new(Recorder::default());
        let wire = Wire { wires: Arc::clone(wires), own: peer(id).address };
        let peers: Peers = Peers::new(id, Arc::new(wire), Arc::new(Echo));
        wires.listening.lock().unwrap().insert(peer(id).address, peers.clone());
        let config =
            Config { server_id: id, snapshot_entries: 64, ..Config::new(Path::new("/data"), "test") };
        let cluster = Cluster { peers, own: peer(id), start };
        let disk_too = Arc::clone(&disk);
        let log = Replication::<Tokio>::open_in(disk_too, SEGMENT_BYTES, config, seen.clone(), cluster).await;
        Self { id, disk, seen, log: log.unwrap(), wires: Arc::clone(wires) }
    }

    /// Nobody reaches it any more, and it reaches nobody.
    async fn stop(self) -> Arc<MemoryDisk> {
        self.wires.listening.lock().unwrap().remove(&peer(self.id).address);
        self.log.shutdown().await.unwrap();
        self.disk
    }

    fn hash(&self) -> (u64, u128) {
        (self.seen.index(), self.seen.hash())
    }

    /// Waits until this server has applied all that was acknowledged.
    async fn catch_up(&self, servers: &[Self]) {
        let position = loop {
            match leader(servers).await.log.read_position().await {
                Ok(position) => break position,
                Err(ReadError::NotLeader { .. } | ReadError::NoQuorum(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        self.log.wait_applied(position, PATIENCE).await.unwrap();
    }
}

/// Three servers, the first of which leads.
async fn three() -> Vec<Server> {
    let wires = Arc::<Wires>::default();
    let mut servers = vec![Server::open(&wires, 1, Arc::default(), Start::Found).await];
    for id in [2, 3] {
        let server = Server::open(&wires, id, Arc::default(), Start::Wait).await;
        servers[0].log.set_member(id, peer(id)).await.unwrap();
        servers[0].log.promote(id, BTreeSet::new()).await.unwrap();
        servers.push(server);
    }
    servers
}

/// The one of `servers` that leads, which may change at any time on a machine that is busy.
async fn leader(servers: &[Server]) -> &Server {
    let found = async {
        loop {
            if let Some(server) = servers.iter().find(|server| server.log.is_leader()) {
                return server;
            }
            servers[0].log.await_leader(servers[0].log.leader(), Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, found).await.expect("a leader")
}

/// Proposes to whoever leads, until it is applied. Leaders may change on a machine that is busy.
async fn propose_to_leader(servers: &[Server], index: u64) {
    loop {
        match leader(servers).await.log.propose(register(index)).await {
            Ok(_) => return,
            Err(ProposeError::NotWritten(_)) => {}
            // Applied twice it would be refused: an index grows.
            Err(ProposeError::Unknown(why)) => panic!("entry {index}: {why}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_servers_come_to_the_same_state() {
    let servers = three().await;
    for index in 1..200 {
        propose_to_leader(&servers, index).await;
    }
    for server in &servers[1..] {
        server.catch_up(&servers).await;
        assert_eq!(server.hash(), servers[0].hash());
        let members = server.log.members();
        assert_eq!(members.voters().map(|member| member.id).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(members.find(2).unwrap().peer, peer(2));
    }
    let echoed = servers[1].log.peers().request(3, &"server-3".into(), b"hello", PATIENCE).await;
    assert_eq!(echoed.unwrap(), "hello");
    let refused = servers[1].log.peers().request(3, &"server-3".into(), b"", PATIENCE).await.unwrap_err();
    assert_eq!(refused.to_string(), "server 2 asks for nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_leads_once_the_leader_is_gone_and_nothing_is_lost() {
    let mut servers = three().await;
    for index in 1..100 {
        propose_to_leader(&servers, index).await;
    }
    let disk = servers.remove(0).stop().await;
    for index in 100..150 {
        propose_to_leader(&servers, index).await;
    }
    let wires = Arc::clone(&servers[0].wires);
    servers.push(Server::open(&wires, 1, disk, Start::Found).await);
    for server in &servers {
        server.catch_up(&servers).await;
        assert_eq!(server.hash(), servers[0].hash());
        assert_eq!(server.hash().0, 149);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn leadership_is_handed_over_at_once() {
    let servers = three().await;
    for index in 1..10 {
        propose_to_leader(&servers, index).await;
    }
    let from = leader(&servers).await;
    let to = servers.iter().find(|server| server.id != from.id).unwrap();
    let before = from.log.term();
    let took = from.log.transfer(Some(to.id), PATIENCE).await.unwrap();
    assert_ne!(took, from.id);
    assert!(to.log.term() > before);
    for index in 10..20 {
        propose_to_leader(&servers, index).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_far_behind_gets_a_snapshot_while_writes_go_on() {
    let wires = Arc::<Wires>::default();
    let first = Server::open(&wires, 1, Arc::default(), Start::Found).await;
    for round in 0..4 {
        propose(&first.log, round * 1000 + 1..round * 1000 + 1001).await;
        first.log.snapshot_now().await.unwrap();
    }
    let second = Server::open(&wires, 2, Arc::default(), Start::Wait).await;
    first.log.set_member(2, peer(2)).await.unwrap();
    let (writes, promoted) =
        tokio::join!(async { propose(&first.log, 4001..4200).await }, first.log.promote(2, BTreeSet::new()));
    promoted.unwrap();
    let () = writes;
    let servers = [first, second];
    servers[1].catch_up(&servers).await;
    assert_eq!(servers[1].hash(), servers[0].hash());
    let restored = servers[1].seen.restored.load(std::sync::atomic::Ordering::SeqCst);
    assert!(restored > 1, "the state came as a snapshot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_another_cluster_is_refused_by_name() {
    let wires = Arc::<Wires>::default();
    let first = Server::open(&wires, 1, Arc::default(), Start::Found).await;
    let stranger = Server::open(&wires, 2, Arc::default(), Start::Found).await;
    first.log.peers().cluster().learn(7);
    stranger.log.peers().cluster().learn(8);
    let refused = first.log.peers().request(2, &"server-2".into(), b"hello", PATIENCE).await.unwrap_err();
    assert!(refused.to_string().contains("server 2 (Berth"), "{refused}");
    assert!(refused.to_string().contains("belongs to cluster"), "{refused}");
}
