//! One run of a server: the real log, controller and planners, and around them what the real server does with threads and
//! sockets, as tasks of one owner.

mod agents;
mod controller;
mod observer;
mod planner;
mod proposer;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_controller::{Answer, Event, Hello, SessionId};
use berth_model::{Index, command::Command, eval::Eval, observed::Observed, store::Store};
use berth_replication::{Config, Replication, disk::Disk};
use berth_scheduler::Ledger;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    bugs::Bug,
    executor::{Owner, Simulated, random_u64, spawn, spawn_for},
    network::{End, Host, Network},
    truth::Truth,
};
pub use controller::WallClock;
use observer::TellController;

/// Small, so that segments fill, and logs are cut.
const SEGMENT_BYTES: u64 = 48 << 10;

/// What readers of a server see.
#[derive(Clone, Default)]
pub struct View {
    /// The replicated state.
    pub store: Store,
    /// What agents observe.
    pub observed: Observed,
    /// Up to where changes of either are in it.
    pub index: Index,
}

/// What the controller of a server is told.
enum Input {
    Event(Event),
    Request { commands: Vec<Command>, reply: oneshot::Sender<Answer> },
    Open { session: SessionId, hello: Box<Hello>, end: Arc<End> },
}

/// What a server has of the world.
#[derive(Clone)]
pub struct Surroundings {
    /// Which it is, from 0.
    pub number: usize,
    /// All that runs in its name.
    pub owner: Owner,
    /// Its disk.
    pub disk: Arc<dyn Disk>,
    /// Its way to agents and servers.
    pub network: Network,
    /// Is told of all that happens.
    pub truth: Truth,
    /// Its wall clock.
    pub clock: WallClock,
    /// Records between snapshots.
    pub snapshot_entries: u64,
    /// What is planted.
    pub bug: Option<Bug>,
}

/// One run of a server. A clone is another handle to it.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    around: Surroundings,
    inputs: Mutex<VecDeque<Input>>,
    inputs_came: Notify,
    asked: Mutex<VecDeque<(u64, Arc<Eval>)>>,
    asked_came: Notify,
    view: Mutex<Arc<View>>,
    claims: Ledger,
    /// It serves.
    open: Mutex<bool>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    /// Starts a server; it serves once its log is open.
    pub fn start(around: Surroundings) -> Self {
        let owner = around.owner;
        let server = Self(Arc::new(Inner {
            around,
            inputs: Mutex::default(),
            inputs_came: Notify::new(),
            asked: Mutex::default(),
            asked_came: Notify::new(),
            view: Mutex::default(),
            claims: Ledger::default(),
            open: Mutex::new(false),
        }));
        let run = server.clone();
        spawn_for(owner, async move { run.run().await });
        server
    }

    async fn run(self) {
        let Inner { around, .. } = &*self.0;
        let config = Config {
            server_id: around.number as u64 + 1,
            snapshot_entries: around.snapshot_entries,
            ..Config::new("/data", "sim")
        };
        let observer = Arc::new(TellController::new(self.clone()));
        let (proposals, entries) = mpsc::channel(64);
        let opened = Replication::open_on(around.disk.clone(), SEGMENT_BYTES, config, observer.clone()).await;
        let replication: Replication<Simulated> = match opened {
            Ok(replication) => replication,
            Err(error) => return around.truth.server_failed(around.number, &error.to_string()),
        };
        spawn(controller::run(self.clone(), proposals, random_u64()));
        spawn(proposer::run(self.clone(), replication.clone(), entries));
        (0..2).for_each(|_| spawn(planner::run(self.clone())));
        observer.begin(replication.term());
        around.truth.server_open(around.number);
        *lock(&self.0.open) = true;
        let host = Host::Server(around.number);
        around.network.listen(host);
        loop {
            let end = around.network.accept(host).await;
            spawn(agents::serve(self.clone(), end));
        }
    }

    fn around(&self) -> &Surroundings {
        &self.0.around
    }

    fn tell(&self, input: Input) {
        lock(&self.0.inputs).push_back(input);
        self.0.inputs_came.notify_one();
    }

    /// Asks for changes; the answer may never come.
    pub fn request(&self, commands: Vec<Command>) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        self.tell(Input::Request { commands, reply });
        answer
    }

    /// Who this run is.
    pub fn owner(&self) -> Owner {
        self.0.around.owner
    }

    /// Whether its log is open and it answers.
    pub fn is_open(&self) -> bool {
        *lock(&self.0.open)
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
