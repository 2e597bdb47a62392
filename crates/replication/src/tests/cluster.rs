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

use berth_model::command::{ENTRY_VERSION, Entry};
use bytes::Bytes;
use futures_util::{
    Sink,
    future::{BoxFuture, join_all},
};
use openraft::async_runtime::WatchReceiver;
use tokio::{sync::mpsc, time::Instant};

use crate::{
    ChangeError, ClusterConfig, Config, NotWritten, OpenError, Peer, ProposeError, ReadError, Replication,
    Start,
    disk::memory::MemoryDisk,
    peer::{Dial, PeerAddress, PeerChannel, PeerIdentity, Peers, Service},
    runtime::Tokio,
};

use super::{
    SEGMENT_BYTES,
    support::{Recorder, register},
};

/// How long anything may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
/// Between two attempts at what is refused for a moment.
const AGAIN: Duration = Duration::from_millis(5);

/// Who listens where, who is cut off, and what goes over the wires.
#[derive(Default)]
pub(super) struct Wires {
    listening: Mutex<BTreeMap<String, Peers>>,
    pub cut: Mutex<BTreeSet<String>>,
    /// From whom to whom nothing arrives for now, by ids: it waits on its way, as in a network that swallows one direction.
    pub held: Mutex<BTreeSet<(u64, u64)>>,
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
    own: u64,
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

/// The two ends of a channel between two servers, that of the first one first.
fn channel(wires: &Arc<Wires>, here: u64, there: u64) -> (PeerChannel, PeerChannel) {
    let (to_there, from_here) = mpsc::unbounded_channel();
    let (to_here, from_there) = mpsc::unbounded_channel();
    let stream = |received: mpsc::UnboundedReceiver<(Instant, Bytes)>, way: (u64, u64)| {
        let begin = (received, Arc::clone(wires));
        futures_util::stream::unfold(begin, move |(mut received, wires)| async move {
            let (due, frame) = received.recv().await?;
            tokio::time::sleep_until(due).await;
            while wires.held.lock().unwrap().contains(&way) {
                tokio::time::sleep(AGAIN).await;
            }
            Some((Ok(frame), (received, wires)))
        })
    };
    let take = |to| Take(to, Arc::clone(wires));
    let (at_here, at_there) = (stream(from_there, (there, here)), stream(from_here, (here, there)));
    (PeerChannel::new(take(to_there), at_here), PeerChannel::new(take(to_here), at_there))
}

/// The id of the server that is reached at an address.
fn id_at(address: &str) -> u64 {
    address.rsplit('-').next().and_then(|id| id.parse().ok()).expect("an address that `peer` has made")
}

impl Dial for Wire {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<PeerChannel>> {
        let cut = self.wires.cut.lock().unwrap();
        let reached = !cut.contains(&peer(self.own).address) && !cut.contains(&to.0);
        let there = self.wires.listening.lock().unwrap().get(&to.0).cloned().filter(|_| reached);
        let dialed = there.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()).map(|there| {
            let (here, theirs) = channel(&self.wires, self.own, id_at(&to.0));
            tokio::spawn(async move { there.accept(theirs).await });
            here
        });
        Box::pin(std::future::ready(dialed))
    }
}

/// Answers a request with itself.
struct Echo;

impl Service for Echo {
    fn request(&self, from: PeerIdentity, request: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let refused = format!("server {} asks for nothing", from.server);
        let answer = if request.is_empty() { Err(refused) } else { Ok(request) };
        Box::pin(std::future::ready(answer))
    }

    fn message(&self, _: PeerIdentity, _: Bytes) {}
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
        Self::try_open_knowing(wires, id, disk, start, entries).await.unwrap()
    }

    async fn try_open_knowing(
        wires: &Arc<Wires>,
        id: u64,
        disk: Arc<MemoryDisk>,
        start: Start,
        entries: u8,
    ) -> Result<Self, OpenError> {
        let seen = Arc::new(Recorder::default());
        let wire = Wire { wires: Arc::clone(wires), own: id };
        let peers: Peers = Peers::knowing(id, Arc::new(wire), Arc::new(Echo), entries);
        wires.listening.lock().unwrap().insert(peer(id).address, peers.clone());
        let dir = Path::new("/data");
        let config = Config { server_id: id, snapshot_entries: 64, entries, ..Config::new(dir, "test") };
        let cluster = ClusterConfig { peers, own: peer(id), start };
        let disk_too = Arc::clone(&disk);
        let log = Replication::<Tokio>::open_in(disk_too, SEGMENT_BYTES, config, seen.clone(), cluster).await;
        Ok(Self { id, disk, seen, log: log?, wires: Arc::clone(wires) })
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

/// Whoever introduces itself as the server of an id, and is nothing more.
pub(super) fn stranger(wires: &Arc<Wires>, id: u64) -> Peers {
    Peers::new(id, Arc::new(Wire { wires: Arc::clone(wires), own: id }), Arc::new(Echo))
}

/// Three servers, the first of which leads.
pub(super) async fn three() -> Vec<Server> {
    three_knowing(ENTRY_VERSION).await
}

/// The same, of a version that applies entries of the log up to this.
async fn three_knowing(entries: u8) -> Vec<Server> {
    let wires = Arc::<Wires>::default();
    let open = |id, start| Server::open_knowing(&wires, id, Arc::default(), start, entries);
    let mut servers = vec![open(1, Start::Found).await];
    for id in [2, 3] {
        let server = open(id, Start::Wait).await;
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
    write(servers, register(index)).await;
}

async fn write(servers: &[Server], entry: Entry) {
    let written = async {
        loop {
            match leader(servers).await.log.propose(entry.clone()).await {
                Ok(_) => return,
                // Another is to lead, or has yet to introduce itself as one that knows such entries.
                Err(ProposeError::NotWritten(_)) => tokio::time::sleep(AGAIN).await,
                // Applied twice it would be refused: an index grows.
                Err(ProposeError::Unknown(why)) => panic!("entry {}: {why}", entry.index),
            }
        }
    };
    tokio::time::timeout(PATIENCE, written).await.expect("it is written");
}

/// A server is stopped, and started again as one that applies entries of the log up to this.
async fn restart(servers: &mut Vec<Server>, id: u64, entries: u8) {
    let at = servers.iter().position(|server| server.id == id).unwrap();
    let wires = Arc::clone(&servers[at].wires);
    let disk = servers.remove(at).stop().await;
    servers.push(Server::open_knowing(&wires, id, disk, Start::Wait, entries).await);
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

/// The engine takes one change at a time.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_the_servers_that_meet_are_made_one_after_the_other() {
    let wires = Arc::<Wires>::default();
    let mut servers = vec![Server::open(&wires, 1, Arc::default(), Start::Found).await];
    for id in [2, 3, 4, 5] {
        servers.push(Server::open(&wires, id, Arc::default(), Start::Wait).await);
    }
    let log = &servers[0].log;
    let ids = 2..=5;
    let taken_in = join_all(ids.clone().map(|id| log.set_member(id, peer(id)))).await;
    assert!(taken_in.iter().all(Result::is_ok), "{taken_in:?}");
    let promoted = join_all(ids.map(|id| log.promote(id, BTreeSet::new()))).await;
    assert!(promoted.iter().all(Result::is_ok), "{promoted:?}");
    assert_eq!(log.members().voters().map(|member| member.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let follower = servers[1].log.promote(1, BTreeSet::new()).await;
    assert_eq!(follower, Err(ChangeError::NotLeader { leader: Some(1) }));
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

/// A leader that has yet to hear the majority of the new members leads on: were it told that it does not, and later that it
/// does, it would begin again in the middle of what it has proposed.
#[tokio::test(flavor = "multi_thread")]
async fn a_leadership_does_not_begin_twice_because_members_change() {
    let mut servers = three().await;
    propose_to_leader(&servers, 9).await;
    let from = leader(&servers).await.id;
    let away = servers.iter().position(|server| server.id != from).unwrap();
    let (away, disk) = {
        let away = servers.remove(away);
        (away.id, away.stop().await)
    };
    let to = servers.iter().find(|server| server.id != from).unwrap();
    leader(&servers).await.log.transfer(to.id, PATIENCE).await.unwrap();
    propose_to_leader(&servers, 10).await;
    let lead = leader(&servers).await;
    let (log, other) = (lead.log.clone(), servers.iter().find(|other| other.id != lead.id).unwrap().id);
    let removing = tokio::spawn(async move { log.remove(other).await });
    let mut seen = lead.log.raft().data_metrics();
    let unheard = async {
        while seen.borrow_watched().last_quorum_acked.is_some() {
            seen.changed().await.unwrap();
        }
    };
    tokio::time::timeout(PATIENCE, unheard).await.expect("the server that is away has a say");
    let wires = Arc::clone(&lead.wires);
    let back = Server::open(&wires, away, disk, Start::Wait).await;
    removing.await.unwrap().unwrap();
    let terms = lead.seen.leadership.lock().unwrap().clone();
    let times_led = terms.iter().filter(|(term, leads)| *leads && *term == lead.log.term()).count();
    assert_eq!(times_led, 1, "{terms:?}");
    drop(back);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_leadership_has_left_is_not_written_in_a_later_one_of_the_same_server() {
    let servers = three().await;
    let (own, term) = {
        let own = leader(&servers).await;
        (own, own.log.term())
    };
    let other = servers.iter().find(|server| server.id != own.id).unwrap();
    own.log.transfer(other.id, PATIENCE).await.unwrap();
    propose_to_leader(&servers, 10).await;
    while leader(&servers).await.id != own.id {
        // Who is to hand over may have lost the leadership itself.
        leader(&servers).await.log.transfer(own.id, PATIENCE).await.ok();
    }
    // Until it has heard a majority it takes nothing, of whatever term.
    propose_to_leader(&servers, 11).await;
    let left = own.log.submit(term, register(12)).await.unwrap();
    let refused = left.applied().await.unwrap_err();
    assert!(matches!(refused, ProposeError::NotWritten(NotWritten::NotLeader { .. })), "{refused}");
    propose_to_leader(&servers, 13).await;
    for server in &servers {
        server.catch_up(&servers).await;
        assert_eq!(*server.seen.applied.lock().unwrap(), [10, 11, 13]);
    }
}

/// It waits for nobody's answer, so that nobody's silence is news of a majority.
#[tokio::test(flavor = "multi_thread")]
async fn the_only_voter_is_a_majority_while_a_learner_is_dead() {
    let alone = Server::open(&Arc::default(), 1, Arc::default(), Start::Found).await;
    leader(std::slice::from_ref(&alone)).await;
    alone.log.set_member(2, peer(2)).await.unwrap();
    // Who takes part is published a moment after the change is made.
    let published = async {
        while alone.log.is_alone() {
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, published).await.expect("it knows the other");
    leader(std::slice::from_ref(&alone)).await;
    assert_eq!(alone.log.majority_contact(), Some(Duration::ZERO));
    assert!(!alone.log.was_removed(2));
    // It never came, and is known to be gone.
    alone.log.remove(2).await.unwrap();
    let known = async {
        while !alone.log.was_removed(2) {
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, known).await.expect("it knows that the other is gone");
    assert!(!alone.log.was_removed(3));
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

/// A server that was away while its cluster went on to newer entries is started with the older version: it finds nobody, and knows
/// that this is because it is too old, so that nobody recovers a cluster that is well.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_its_cluster_has_outgrown_knows_why_it_is_refused() {
    const OLD: u8 = ENTRY_VERSION - 1;
    let mut servers = three_knowing(ENTRY_VERSION).await;
    let wires = Arc::clone(&servers[0].wires);
    write(&servers, register(1).of_version(OLD)).await;
    for server in &servers {
        server.catch_up(&servers).await;
        server.log.peers().cluster().learn(7);
        assert_eq!(server.log.peers().outgrown(), None);
    }
    let at = servers.iter().position(|server| server.id == 2).unwrap();
    let disk = servers.remove(at).stop().await;
    write(&servers, register(2).of_version(ENTRY_VERSION)).await;
    let older = Server::open_knowing(&wires, 2, disk, Start::Wait, OLD).await;
    older.log.peers().cluster().learn(7);
    let why = loop {
        drop(older.log.peers().request(1, &"server-1".into(), b"hello", PATIENCE).await);
        if let Some(why) = older.log.peers().outgrown() {
            break why;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(why.contains("start it with the newer Berth again"), "{why}");
}

/// A rolling upgrade: as long as one server is of the older version, nothing is written that it could not apply, and each may go
/// back; once all are of the newer one that is written, and whoever goes back then is refused by name.
#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_newer_version_are_written_once_all_servers_know_it_and_not_before() {
    const OLD: u8 = ENTRY_VERSION - 1;
    let entry = |index, version| register(index).of_version(version);
    let mut servers = three_knowing(OLD).await;
    let wires = Arc::clone(&servers[0].wires);
    write(&servers, entry(1, OLD)).await;
    // Two are upgraded, one goes back, and is upgraded again.
    let steps = [(1, ENTRY_VERSION), (2, ENTRY_VERSION), (1, OLD), (1, ENTRY_VERSION)];
    for ((id, known), index) in steps.into_iter().zip(2..) {
        restart(&mut servers, id, known).await;
        write(&servers, entry(index, OLD)).await;
    }
    let refused = loop {
        match leader(&servers).await.log.propose(entry(100, ENTRY_VERSION)).await {
            Err(ProposeError::NotWritten(refused @ NotWritten::TooNew { .. })) => break refused.to_string(),
            Err(ProposeError::NotWritten(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(refused.contains("upgrade it first"), "{refused}");
    restart(&mut servers, 3, ENTRY_VERSION).await;
    write(&servers, entry(101, ENTRY_VERSION)).await;
    for server in &servers {
        server.catch_up(&servers).await;
        assert_eq!(server.hash(), servers[0].hash());
        assert_eq!(server.seen.store.lock().unwrap().version(), ENTRY_VERSION);
    }
    let at = servers.iter().position(|server| server.id == 2).unwrap();
    servers[at].log.snapshot_now().await.unwrap();
    let disk = servers.remove(at).stop().await;
    let refused =
        Server::try_open_knowing(&wires, 2, disk, Start::Wait, OLD).await.err().expect("it is newer");
    let says = format!("version {ENTRY_VERSION}, this server knows up to {OLD}");
    assert!(refused.to_string().contains(&says), "{refused}");
}
