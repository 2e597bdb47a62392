//! A server from start to stop: its log, its threads, its listeners.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use arc_swap::ArcSwap;
use berth_controller::Event;
use berth_model::{event::Applied, store::Store};
use berth_replication::{Observer, Replication};
use crossbeam_channel::Sender;
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

use crate::{
    EventHub, Watchers,
    agents::{self, Context},
    engine::{
        self, ControllerThread, Counters, EngineHandle, INPUTS_MAX, Input, PlanTraces, PlannersConfig, Shared,
    },
    http, nomad,
    state::{ServerInfo, State, View},
};

/// How a server runs.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Holds the log and its snapshots.
    pub data_dir: PathBuf,
    /// Where the HTTP API listens; port 0 for any.
    pub http_addr: SocketAddr,
    /// Where agents connect; port 0 for any.
    pub agent_addr: SocketAddr,
    /// The server's name.
    pub name: String,
    /// The region's name.
    pub region: String,
    /// The server's own datacenter.
    pub datacenter: String,
    /// The planners.
    pub planners: PlannersConfig,
    /// The settings it runs with, name and value, shown to whoever asks.
    pub settings: Vec<(String, String)>,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Open to the network without protection.
    #[error(
        "refusing to listen on {setting} {addr}: beyond loopback a server needs TLS and ACLs, which are not there yet; use an address like 127.0.0.1:{port}", port = addr.port()
    )]
    NotLoopback {
        /// The setting that says so.
        setting: &'static str,
        /// What it says.
        addr: SocketAddr,
    },
    /// The address cannot be had.
    #[error("listen on {setting} {addr}: {source}")]
    Listen {
        /// The setting that says so.
        setting: &'static str,
        /// What it says.
        addr: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] berth_replication::OpenError),
    /// A thread cannot be started.
    #[error("start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// A running server.
pub struct Server {
    http_addr: SocketAddr,
    agent_addr: SocketAddr,
    stop: watch::Sender<bool>,
    controller: ControllerThread,
    replication: Replication,
    listeners: Vec<JoinHandle<()>>,
    failed: watch::Receiver<Option<String>>,
}

impl Server {
    /// Starts a server: once this returns it leads, has applied all that was committed, and answers.
    ///
    /// # Errors
    /// When an address is taken or open to the network, or the log cannot be opened.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        let (http_listener, http_addr) = listen("http-addr", config.http_addr)?;
        let (agent_listener, agent_addr) = listen("agent-addr", config.agent_addr)?;
        let (inputs, received) = crossbeam_channel::bounded(INPUTS_MAX);
        let shared = Arc::new(Shared {
            view: Arc::new(ArcSwap::from_pointee(View::default())),
            watchers: Arc::new(Watchers::default()),
            events: Arc::new(EventHub::default()),
            claims: Mutex::default(),
            registry: Arc::default(),
            counters: Counters::default(),
            plans: PlanTraces::default(),
        });
        let (failures, failed) = watch::channel(None);
        let observer = Arc::new(TellController::new(inputs.clone(), failures));
        let log = berth_replication::Config::new(config.data_dir.join("server"), "berth");
        let replication = Replication::open(log, observer.clone()).await?;
        let (proposals, entries) = engine::Proposals::new();
        tokio::spawn(engine::propose(shared.clone(), replication.clone(), entries, inputs.clone()));
        let engine = Arc::new(EngineHandle::new(shared.clone(), inputs.clone(), replication.clone()));
        let restored = observer.begin(replication.term());
        shared.events.restart_after(restored);
        let controller =
            engine::start(shared.clone(), (inputs.clone(), received), proposals, config.planners)
                .map_err(StartError::Thread)?;
        let (stop, stopped) = watch::channel(false);
        let context = Arc::new(Context::new(inputs, shared.view.clone()));
        let state = State {
            view: shared.view.clone(),
            watchers: shared.watchers.clone(),
            events: shared.events.clone(),
            engine,
            agents: shared.registry.clone(),
            server: Arc::new(info(&config, http_addr, agent_addr)),
        };
        let listeners = vec![
            tokio::spawn(agents::listen(agent_listener, context, stopped.clone())),
            tokio::spawn(serve_http(http_listener, state, stopped)),
        ];
        Ok(Self { http_addr, agent_addr, stop, controller, replication, listeners, failed })
    }

    /// Where the HTTP API listens.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Where agents connect.
    pub fn agent_addr(&self) -> SocketAddr {
        self.agent_addr
    }

    /// Completes when the server can go on no more, with the reason.
    pub async fn failed(&self) -> String {
        let mut failed = self.failed.clone();
        let reason = failed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }

    /// Stops: no more connections, then no more changes, then the log is closed.
    pub async fn shutdown(self) {
        let _ = self.stop.send(true);
        for listener in self.listeners {
            let _ = listener.await;
        }
        let controller = self.controller;
        let _ = tokio::task::spawn_blocking(move || controller.stop()).await;
        if let Err(error) = self.replication.shutdown().await {
            tracing::warn!(%error, "close the log");
        }
    }
}

fn listen(setting: &'static str, addr: SocketAddr) -> Result<(TcpListener, SocketAddr), StartError> {
    if !addr.ip().is_loopback() {
        return Err(StartError::NotLoopback { setting, addr });
    }
    let bound = StdListener::bind(addr).and_then(|listener| {
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?;
        Ok((TcpListener::from_std(listener)?, bound))
    });
    bound.map_err(|source| StartError::Listen { setting, addr, source })
}

fn info(config: &ServerConfig, http_addr: SocketAddr, agent_addr: SocketAddr) -> ServerInfo {
    ServerInfo {
        name: config.name.clone(),
        region: config.region.clone(),
        datacenter: config.datacenter.clone(),
        http_addr: http_addr.to_string(),
        agent_addr: agent_addr.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: config.settings.clone(),
    }
}

async fn serve_http(listener: TcpListener, state: State, mut stop: watch::Receiver<bool>) {
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    if let Err(error) = http::serve(listener, nomad::table(), state, http::Limits::default(), stopped).await {
        tracing::error!(%error, "serve HTTP");
    }
}

/// Tells the controller what the log applied. While the log is being opened it only keeps the latest state.
struct TellController {
    inputs: Sender<Input>,
    failures: watch::Sender<Option<String>>,
    opening: Mutex<Option<Store>>,
}

impl TellController {
    fn new(inputs: Sender<Input>, failures: watch::Sender<Option<String>>) -> Self {
        Self { inputs, failures, opening: Mutex::new(Some(Store::default())) }
    }

    /// The log is open: the controller takes over. Tells the index of the state that it begins with.
    fn begin(&self, term: u64) -> berth_model::Index {
        let mut opening = self.opening.lock().expect("nothing panics while it holds this lock");
        let store = opening.take().unwrap_or_default();
        let index = store.index();
        let _ = self.inputs.send(Input::Event(Event::Leads { term, store: Box::new(store) }));
        index
    }
}

impl Observer for TellController {
    fn on_applied(&self, store: &Store, applied: &[Applied]) {
        let mut opening = self.opening.lock().expect("nothing panics while it holds this lock");
        if let Some(latest) = opening.as_mut() {
            *latest = store.clone();
            return;
        }
        let event = Event::Applied { store: Box::new(store.clone()), applied: applied.to_vec() };
        let _ = self.inputs.send(Input::Event(event));
    }

    fn on_restored(&self, store: &Store) {
        let mut opening = self.opening.lock().expect("nothing panics while it holds this lock");
        if let Some(latest) = opening.as_mut() {
            *latest = store.clone();
        }
    }

    fn on_leadership(&self, term: u64, leader: bool) {
        tracing::debug!(term, leader, "leadership");
    }

    fn on_fatal(&self, reason: &str) {
        let _ = self.failures.send(Some(reason.to_owned()));
    }
}
