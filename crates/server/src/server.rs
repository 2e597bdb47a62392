//! A server from start to stop: its log, its threads, its listeners.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use berth_controller::Event;
use berth_model::{Index, event::Applied, store::Store};
use berth_replication::{Observer, Replication};
use crossbeam_channel::Sender;
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    agents::{self, Context},
    engine::{self, ControllerThread, EngineHandle, INPUTS_MAX, Input, PlannersConfig, Shared},
    http, nomad,
    state::{ServerInfo, State},
};

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: u32 = 1024;

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
    /// The recovered state cannot be used.
    #[error("begin with the recovered state: {0}")]
    Failed(String),
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
    /// Starts a server: once this returns it leads, has applied all that was committed, and answers. It accepts no
    /// connection before that: nobody ever reads a state older than what was acknowledged.
    ///
    /// # Errors
    /// When an address is taken or open to the network, or the log cannot be opened.
    pub async fn start(config: ServerConfig) -> Result<Self, StartError> {
        let (http_socket, http_addr) = bind("http-addr", config.http_addr)?;
        let (agent_socket, agent_addr) = bind("agent-addr", config.agent_addr)?;
        let (inputs, received) = crossbeam_channel::bounded(INPUTS_MAX);
        let (failures, failed) = watch::channel(None);
        let shared = Arc::new(Shared::new(failures.clone()));
        let (proposals, entries) = engine::Proposals::new();
        let controller =
            engine::start(shared.clone(), (inputs.clone(), received), proposals, config.planners)
                .map_err(StartError::Thread)?;
        let observer = Arc::new(TellController::new(inputs.clone(), failures));
        let log = berth_replication::Config::new(config.data_dir.join("server"), "berth");
        let replication = Replication::open(log, observer.clone()).await?;
        tokio::spawn(engine::propose(shared.clone(), replication.clone(), entries, inputs.clone()));
        let engine = Arc::new(EngineHandle::new(shared.clone(), inputs.clone(), replication.clone()));
        shared.events.restart_after(observer.begin(replication.term()));
        published(&shared, failed.clone()).await?;
        let (stop, stopped) = watch::channel(false);
        let context = Arc::new(Context::new(inputs));
        let state = State {
            view: shared.view.clone(),
            watchers: shared.watchers.clone(),
            events: shared.events.clone(),
            engine,
            agents: shared.registry.clone(),
            server: Arc::new(info(&config, http_addr, agent_addr)),
        };
        let agent_listener = listen(agent_socket, "agent-addr", agent_addr)?;
        let http_listener = listen(http_socket, "http-addr", http_addr)?;
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

/// Takes an address without accepting connections yet: whoever comes before the state can be read is refused at once.
fn bind(setting: &'static str, addr: SocketAddr) -> Result<(TcpSocket, SocketAddr), StartError> {
    if !addr.ip().is_loopback() {
        return Err(StartError::NotLoopback { setting, addr });
    }
    let bind = || {
        let socket = if addr.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A server that is started again takes its address back at once.
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        let bound = socket.local_addr()?;
        Ok((socket, bound))
    };
    bind().map_err(|source| StartError::Listen { setting, addr, source })
}

/// Accepts connections from now on.
fn listen(socket: TcpSocket, setting: &'static str, addr: SocketAddr) -> Result<TcpListener, StartError> {
    socket.listen(BACKLOG).map_err(|source| StartError::Listen { setting, addr, source })
}

/// Waits until the state that was recovered can be read, and belongs to a cluster.
async fn published(shared: &Shared, mut failed: watch::Receiver<Option<String>>) -> Result<(), StartError> {
    let mut published = shared.published.subscribe();
    tokio::select! {
        _ = published.wait_for(|(index, cluster)| *index > Index::default() && *cluster != 0) => Ok(()),
        failed = failed.wait_for(Option::is_some) => {
            let reason = failed.ok().and_then(|reason| reason.clone()).unwrap_or_default();
            Err(StartError::Failed(reason))
        }
    }
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
    fn begin(&self, term: u64) -> Index {
        let mut opening = self.opening.lock().expect("nothing panics while it holds this lock");
        let store = opening.take().unwrap_or_default();
        let index = store.index();
        let _ = self.inputs.send(Input::event(Event::Recovered(Box::new(store))));
        let _ = self.inputs.send(Input::event(Event::LeadershipGained { term }));
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
        let _ = self.inputs.send(Input::event(event));
    }

    fn on_restored(&self, store: &Store) {
        let mut opening = self.opening.lock().expect("nothing panics while it holds this lock");
        if let Some(latest) = opening.as_mut() {
            *latest = store.clone();
        }
    }

    fn on_leadership(&self, term: u64, leader: bool) {
        tracing::debug!(term, leader, "leadership");
        let opening = self.opening.lock().expect("nothing panics while it holds this lock");
        if opening.is_none() {
            let event = if leader { Event::LeadershipGained { term } } else { Event::LeadershipLost };
            let _ = self.inputs.send(Input::event(event));
        }
    }

    fn on_fatal(&self, reason: &str) {
        let _ = self.failures.send(Some(reason.to_owned()));
    }
}
