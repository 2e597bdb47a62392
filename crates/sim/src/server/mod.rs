//! One run of a server: the real log, controller and planners, and around them what the real server does with threads and
//! sockets, as tasks of one owner.

mod agents;
mod checkpoint;
mod controller;
mod members;
mod observer;
mod planner;
mod proposer;
mod relay;
pub mod wire;
mod write;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_controller::{Event, Hello, NodeRecovery, PlanRequest, ProposalOutcome, SessionId};
use berth_model::{AllocId, Index, Timestamp, command::Command, observed::Observed, store::Store};
use berth_replication::{ClusterConfig, Config, Replication, Start, disk::Disk, peer::Peers};
use berth_scheduler::Ledger;
use berth_server::LeadersMajority;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    bugs::Bug,
    executor::{Owner, Simulated, now_ns, random_u64, sleep_ns, spawn, spawn_for},
    invariants::Promises,
    network::{ConnectionEnd, Host, Network},
    truth::Truth,
};
pub use checkpoint::CheckpointDisk;
pub use controller::WallClock;
pub use members::MemberRole;
use observer::LogObserver;

/// Small, so that segments fill, and logs are cut.
const SEGMENT_BYTES: u64 = 48 << 10;
/// Between two tries to found a cluster.
const AGAIN_NS: u64 = 200_000_000;

/// What readers of a server see.
#[derive(Clone, Default)]
pub struct View {
    /// The replicated state.
    pub store: Store,
    /// What agents observe.
    pub observed: Observed,
    /// Up to where changes of either are in it.
    pub index: Index,
    /// How far the leader knows the nodes.
    pub recovery: Arc<NodeRecovery>,
}

impl View {
    /// The hashes of what is observed of allocations.
    pub fn observations(&self) -> Vec<(AllocId, u128)> {
        observations(&self.store, &self.observed)
    }
}

/// The hashes of what is observed of allocations that have not ended.
fn observations(store: &Store, observed: &Observed) -> Vec<(AllocId, u128)> {
    let living = store.allocs().iter().filter(|(_, row)| !row.is_terminal());
    let hash = |slot, id| observed.get(slot, id).map(|observation| observation.alloc.hash);
    living.filter_map(|(slot, row)| Some((row.id, hash(slot, row.id)?))).collect()
}

/// What the controller of a server is sent.
enum Input {
    Event(Event),
    Request { commands: Vec<Command>, reply: oneshot::Sender<ProposalOutcome> },
    Open { session: SessionId, hello: Box<Hello>, end: Arc<ConnectionEnd> },
}

/// What a server has of the world.
#[derive(Clone)]
pub struct ServerEnv {
    /// Which it is, from 0.
    pub number: usize,
    /// Its id, which it has until it is set up again.
    pub id: u64,
    /// How many servers there are.
    pub servers: usize,
    /// All that runs in its name.
    pub owner: Owner,
    /// Its disk.
    pub disk: Arc<dyn Disk>,
    /// What it has kept of what agents reported.
    pub checkpoint: CheckpointDisk,
    /// Its way to agents and servers.
    pub network: Network,
    /// Is informed of all that happens.
    pub truth: Truth,
    /// Its wall clock.
    pub clock: WallClock,
    /// Records between snapshots.
    pub snapshot_entries: u64,
    /// The newest version of the log that it knows.
    pub entries: u8,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
}

/// One run of a server. A clone is another handle to it.
#[derive(Clone)]
pub struct Server(Arc<ServerState>);

struct ServerState {
    env: ServerEnv,
    inputs: Mutex<VecDeque<Input>>,
    input_arrived: Notify,
    requests: Mutex<VecDeque<PlanRequest>>,
    request_arrived: Notify,
    view: Mutex<Arc<View>>,
    claims: Ledger,
    /// The replicated log, once it is open.
    log: Mutex<Option<Replication<Simulated>>>,
    /// The index of the state that was applied last.
    applied: Mutex<Index>,
    begun_ns: u64,
    /// What whoever leads said of its contact with a majority.
    leaders_majority: LeadersMajority,
    /// Since when it is known to be of the cluster no more, and how old its state was by then.
    removed: Mutex<Option<(Duration, Duration)>>,
    /// What was kept before this run of nodes that it has not heard of since.
    found: Mutex<checkpoint::NodeCheckpoints>,
    /// One for each other server.
    relays: Vec<relay::RelayQueue>,
    /// Whether the server answers requests.
    open: Mutex<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts a server; it serves once its log is open.
    pub fn start(env: ServerEnv) -> Self {
        let owner = env.owner;
        let relays = (0..env.servers).map(|_| relay::RelayQueue::default()).collect();
        let found = Mutex::new(env.checkpoint.read());
        let server = Self(Arc::new(ServerState {
            env,
            found,
            log: Mutex::new(None),
            applied: Mutex::default(),
            begun_ns: now_ns(),
            leaders_majority: LeadersMajority::default(),
            removed: Mutex::default(),
            relays,
            inputs: Mutex::default(),
            input_arrived: Notify::new(),
            requests: Mutex::default(),
            request_arrived: Notify::new(),
            view: Mutex::default(),
            claims: Ledger::default(),
            open: Mutex::new(false),
        }));
        let run = server.clone();
        spawn_for(owner, async move { run.run().await });
        server
    }

    async fn run(self) {
        let ServerState { env, .. } = &*self.0;
        let config = Config {
            server_id: env.id,
            snapshot_entries: env.snapshot_entries,
            entries: env.entries,
            ..Config::new("/data", "sim")
        };
        let observer = Arc::new(LogObserver::new(self.clone()));
        let (proposals, entries) = mpsc::channel(64);
        let host = Host::Server(env.number);
        let dial = Arc::new(wire::Wire { network: env.network.clone(), own: host });
        let peers = Peers::new(config.server_id, dial, Arc::new(write::PeerService(self.clone())));
        let start = if env.servers == 1 { Start::Found } else { Start::Wait };
        let cluster = ClusterConfig { peers: peers.clone(), own: wire::peer(env.number), start };
        env.network.listen(host);
        spawn(self.clone().listen(peers));
        let disk = env.disk.clone();
        let opened = Replication::open_in(disk, SEGMENT_BYTES, config, observer.clone(), cluster).await;
        let replication: Replication<Simulated> = match opened {
            Ok(replication) => replication,
            Err(error) => return env.truth.server_failed(env.number, &error.to_string()),
        };
        *lock(&self.0.log) = Some(replication.clone());
        spawn(controller::run(self.clone(), proposals, random_u64()));
        spawn(proposer::run(self.clone(), replication.clone(), entries));
        (0..2).for_each(|_| spawn(planner::run(self.clone())));
        let others = (0..env.servers).filter(|other| *other != env.number);
        others.for_each(|other| spawn(relay::carry(self.clone(), replication.clone(), other)));
        spawn(checkpoint::look_after(self.clone()));
        observer.begin();
        spawn(members::tell_versions(self.clone(), replication.clone()));
        if self.is_one_of_several() {
            spawn(members::ping_leader(self.clone(), replication.clone()));
        }
        env.truth.server_open(env.number);
        *lock(&self.0.open) = true;
        if env.id == wire::id(0, 0) {
            self.found(&replication).await;
        }
    }

    /// The first server founds a cluster of all, once.
    async fn found(&self, replication: &Replication<Simulated>) {
        let servers = 0..self.env().servers;
        let servers: BTreeMap<_, _> =
            servers.map(|number| (wire::id(number, 0), wire::peer(number))).collect();
        while replication.members().all.is_empty() {
            // It has not, if this fails.
            replication.found(servers.clone()).await.ok();
            sleep_ns(AGAIN_NS).await;
        }
    }

    /// Takes connections in, of other servers from the first moment, and of agents once it serves.
    async fn listen(self, peers: Peers<Simulated>) {
        let ServerEnv { network, number, .. } = self.env();
        loop {
            let end = network.accept(Host::Server(*number)).await;
            match end.remote() {
                Some(Host::Server(_)) => {
                    let peers = peers.clone();
                    spawn(async move { drop(peers.accept(wire::channel(end)).await) });
                }
                Some(Host::Node(_)) if self.is_open() => spawn(agents::serve(self.clone(), end)),
                _ => {}
            }
        }
    }

    fn env(&self) -> &ServerEnv {
        &self.0.env
    }

    fn enqueue(&self, input: Input) {
        lock(&self.0.inputs).push_back(input);
        self.0.input_arrived.notify_one();
    }

    /// Asks for changes; the answer may never come.
    pub fn request(&self, commands: Vec<Command>) -> oneshot::Receiver<ProposalOutcome> {
        let (reply, answer) = oneshot::channel();
        if self.is_one_of_several() {
            let server = self.clone();
            spawn_for(self.owner(), async move { drop(reply.send(server.write(commands).await)) });
        } else {
            self.enqueue(Input::Request { commands, reply });
        }
        answer
    }

    /// Reads, as a client that says nothing else does: the index of what it is shown. The answer may never come.
    pub fn read(&self) -> oneshot::Receiver<Index> {
        let (reply, answer) = oneshot::channel();
        let server = self.clone();
        spawn_for(self.owner(), async move {
            if server.fresh().await {
                reply.send(server.view().index).ok();
            }
        });
        answer
    }

    /// Reads without waiting: the index of what is shown, and how old that is at most, as the server says. The answer may never
    /// come, as long as there is nothing to be shown.
    pub fn read_stale(&self) -> oneshot::Receiver<(Index, Duration)> {
        let (reply, answer) = oneshot::channel();
        let server = self.clone();
        spawn_for(self.owner(), async move {
            let index = server.view().index;
            if index > Index::default() {
                reply.send((index, server.age())).ok();
            }
        });
        answer
    }

    /// This run is over: its log holds its directory no more, whoever still knows of the run.
    pub fn let_go(&self) {
        let log = lock(&self.0.log).take();
        drop(log);
    }

    /// What it has promised so far; none before its log is open.
    pub fn promises(&self) -> Option<Promises> {
        let log = lock(&self.0.log).clone()?;
        Some(Promises { run: self.owner(), vote: log.vote(), committed: log.committed() })
    }

    /// Who this run is.
    pub fn owner(&self) -> Owner {
        self.0.env.owner
    }

    /// Whether its log is open and it answers.
    pub fn is_open(&self) -> bool {
        *lock(&self.0.open)
    }

    /// What its clock shows.
    pub fn time(&self) -> Timestamp {
        self.0.env.clock.now().wall
    }

    /// What readers see.
    pub fn view(&self) -> Arc<View> {
        lock(&self.0.view).clone()
    }

    /// Whether a planner or the log still claims room.
    pub fn claims_room(&self) -> bool {
        !self.0.claims.lock().is_empty()
    }
}
