//! Several servers in one process, with channels in memory between them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use berth_model::command::ENTRY_VERSION;
use bytes::Bytes;
use futures_util::{Sink, future::BoxFuture};
use tokio::{sync::mpsc, time::Instant};

use crate::{
    Cluster, Config, NotWritten, Peer, ProposeError, ReadError, Replication, Start,
    disk::memory::MemoryDisk,
    peer::{Channel, Dial, From, PeerAddress, Peers, Service},
    runtime::Tokio,
};

use super::{
    SEGMENT_BYTES,
    support::{Recorder, register},
};

/// How long anything may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Who listens where, who is cut off, and what goes over the wires.
#[derive(Default)]
pub(super) struct Wires {
    listening: Mutex<BTreeMap<String, Peers>>,
    pub cut: Mutex<BTreeSet<String>>,
    /// How long each frame is on its way, in milliseconds.
    pub delay_ms: AtomicU64,
    /// Pieces of snapshots that were sent.
    pub pieces: AtomicUsize,
    /// Pieces after which connections that carry them break; 0 for never.
    pub pieces_max: AtomicUsize,
    /// Appends that were sent and not answered: now, and at most.
    pub appends: Mutex<(i64, i64)>,
}

/// Where a frame says what it is, and the numbers of some.
const KIND: usize = 4;
const METHOD: usize = 5;
const CALL: u8 = 1;
const APPEND: u8 = 2;
const PIECE: u8 = 7;

impl Wires {
    /// A frame is sent; whether it gets through.
    fn on_frame(&self, frame: &[u8]) -> bool {
        let is_call = frame.get(KIND) == Some(&CALL);
        match frame.get(METHOD) {
            Some(&APPEND) => {
                let mut appends = self.appends.lock().unwrap();
                appends.0 += if is_call { 1 } else { -1 };
                appends.1 = appends.1.max(appends.0);
            }
            Some(&PIECE) if is_call => {
                let sent = self.pieces.fetch_add(1, Ordering::SeqCst) + 1;
                let max = self.pieces_max.load(Ordering::SeqCst);
                return max == 0 || sent <= max;
            }
            _ => {}
        }
        true
    }
}

/// One server's way to the others.
struct Wire {
    wires: Arc<Wires>,
    own: String,
}

/// A sink that takes everything.
struct Take(mpsc::UnboundedSender<(Instant, Bytes)>, Arc<Wires>);

impl Sink<Bytes> for Take {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn start_send(self: Pin<&mut Self>, frame: Bytes) -> io::Result<()> {
        let due = Instant::now() + Duration::from_millis(self.1.delay_ms.load(Ordering::SeqCst));
        let sent = self.1.on_frame(&frame) && self.0.send((due, frame)).is_ok();
        if sent { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The two ends of a channel.
fn channel(wires: &Arc<Wires>) -> (Channel, Channel) {
    let (to_there, from_here) = mpsc::unbounded_channel();
    let (to_here, from_there) = mpsc::unbounded_channel();
    let stream = |received: mpsc::UnboundedReceiver<(Instant, Bytes)>| {
        futures_util::stream::unfold(received, |mut received| async {
            let (due, frame) = received.recv().await?;
            tokio::time::sleep_until(due).await;
            Some((Ok(frame), received))
        })
    };
    let take = |to| Take(to, Arc::clone(wires));
    (Channel::new(take(to_there), stream(from_there)), Channel::new(take(to_here), stream(from_here)))
}

impl Dial for Wire {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<Channel>> {
        let cut = self.wires.cut.lock().unwrap();
        let reached = !cut.contains(&self.own) && !cut.contains(&to.0);
        let there = self.wires.listening.lock().unwrap().get(&to.0).cloned().filter(|_| reached);
        let dialed = there.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()).map(|there| {
            let (here, theirs) = channel(&self.wires);
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
pub(super) struct Server {
    pub id: u64,
    pub disk: Arc<MemoryDisk>,
    pub seen: Arc<Recorder>,
    pub log: Replication,
    pub wires: Arc<Wires>,
}

pub(super) fn peer(id: u64) -> Peer {
    let text = |what: &str| format!("{what}-{id}");
    Peer { address: text("server"), name: text("name"), http: text("http"), agent: text("agent") }
}

impl Server {
    pub async fn open(wires: &Arc<Wires>, id: u64, disk: Arc<MemoryDisk>, start: Start) -> Self {
        Self::open_knowing(wires, id, disk, start, ENTRY_VERSION).await
    }

    /// One of a version that applies entries of the log up to this.
    async fn open_knowing(
        wires: &Arc<Wires>,
        id: u64,
        disk: Arc<MemoryDisk>,
        start: Start,
        entries: u8,
    ) -> Self {
        let seen = Arc::new(Recorder::default());
        let wire = Wire { wires: Arc::clone(wires), own: peer(id).address };
        let peers: Peers = Peers::knowing(id, Arc::new(wire), Arc::new(Echo), entries);
        wires.listening.lock().unwrap().insert(peer(id).address, peers.clone());
        let config =
            Config { server_id: id, snapshot_entries: 64, ..Config::new(Path::new("/data"), "test") };
        let cluster = Cluster { peers, own: peer(id), start };
        let disk_too = Arc::clone(&disk);
        let log = Replication::<Tokio>::open_in(disk_too, SEGMENT_BYTES, config, seen.clone(), cluster).await;
        Self { id, disk, seen, log: log.unwrap(), wires: Arc::clone(wires) }
    }

    /// Nobody reaches it any more, and it reaches nobody.
    pub async fn stop(self) -> Arc<MemoryDisk> {
        self.wires.listening.lock().unwrap().remove(&peer(self.id).address);
        self.log.shutdown().await.unwrap();
        self.disk
    }

    pub fn hash(&self) -> (u64, u128) {
        (self.seen.index(), self.seen.hash())
    }

    /// Waits until this server has applied all that was acknowledged.
    pub async fn catch_up(&self, servers: &[Self]) {
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
pub(super) async fn three() -> Vec<Server> {
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
pub(super) async fn leader(servers: &[Server]) -> &Server {
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
    let took = from.log.transfer(to.id, PATIENCE).await.unwrap();
    assert_ne!(took, from.id);
    assert!(to.log.term() > before);
    for index in 10..20 {
        propose_to_leader(&servers, index).await;
    }
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

/// A rolling upgrade whose last server is still of the older version: what it could not apply is not written, and once it is
/// upgraded, or gone, it is.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_of_an_older_version_cannot_apply_is_refused_by_name() {
    let mut servers = three().await;
    for server in &servers {
        server.log.peers().cluster().learn(7);
    }
    propose_to_leader(&servers, 1).await;
    let wires = Arc::clone(&servers[0].wires);
    let at = servers.iter().position(|server| !server.log.is_leader()).unwrap();
    let (id, disk) = (servers[at].id, servers.remove(at).stop().await);
    let older = Server::open_knowing(&wires, id, disk, Start::Wait, ENTRY_VERSION - 1).await;
    older.log.peers().cluster().learn(7);
    let introduced = async {
        while leader(&servers).await.log.peers().older_than(ENTRY_VERSION).is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, introduced).await.expect("it introduces itself");
    let refused = loop {
        match leader(&servers).await.log.propose(register(2)).await {
            Err(ProposeError::NotWritten(refused @ NotWritten::TooNew { .. })) => break refused.to_string(),
            Err(ProposeError::NotWritten(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    let known = ENTRY_VERSION - 1;
    let named = format!(
        "server {id} (Berth {}) reads entries of the log up to version {known}",
        env!("CARGO_PKG_VERSION")
    );
    assert!(refused.contains(&named) && refused.contains("upgrade that server"), "{refused}");
    assert_eq!(leader(&servers).await.log.writable().unwrap_err().to_string(), refused);
    let disk = older.stop().await;
    servers.push(Server::open(&wires, id, disk, Start::Wait).await);
    servers[2].log.peers().cluster().learn(7);
    propose_to_leader(&servers, 2).await;
    for server in &servers {
        server.catch_up(&servers).await;
        assert_eq!(server.hash(), servers[0].hash());
    }
}
