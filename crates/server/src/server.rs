//! A server from start to stop: its log, its threads, its listeners.

use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use berth_api::LogFeed;
use berth_controller::{EntryVersions, ServerId};
use berth_model::{
    command::{ENTRY_VERSION, ENTRY_VERSION_MIN},
    node::NodeStatus,
};
use berth_replication::Replication;
use berth_tls::{PortKind, TlsError};
use futures_util::future::{BoxFuture, LocalBoxFuture, join_all};
use tokio::{
    net::TcpListener,
    sync::{mpsc, watch},
    task::JoinHandle,
};

use crate::{
    PANICKED, WatchKey, access,
    agents::{self, AgentLimits, ListenContext},
    audit::{AuditConfig, AuditLog},
    checkpoint::{self, StoredNodes},
    cluster::{self, AllAgents, Bootstrap, Cluster, Relay},
    engine::{self, ControllerThread, EngineHandle, EngineShared, LogObserver, PlannersConfig},
    http,
    keyring::{self, Keyring},
    memory,
    net::{NetStream, PortAcceptor, Secure, TlsConfig},
    nomad, peers,
    ports::{Ports, SERVER_ADDR, bind, check_protected, listen, listen_or_elsewhere, take},
    shared::{MetricsNames, ServerInfo, State},
};

/// Where servers listen for each other by default.
const SERVER_PORT: u16 = 4648;

/// Connections of tasks that wait to be served.
const TASK_API_CONNECTIONS_QUEUED_MAX: usize = 64;

/// Versions of entries of the log that a server can be limited to.
pub const LOG_VERSIONS: std::ops::RangeInclusive<u8> = ENTRY_VERSION_MIN..=ENTRY_VERSION;

/// How a server runs.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Holds the log and its snapshots.
    pub data_dir: PathBuf,
    /// Where the HTTP API listens; port 0 for any.
    pub http_addr: SocketAddr,
    /// Where agents connect; port 0 for any.
    pub agent_addr: SocketAddr,
    /// Where other servers connect; port 0 for any, none for the usual port at
    /// the address for agents, or any where that is taken.
    pub server_addr: Option<SocketAddr>,
    /// Where other servers are asked to connect, as HOST:PORT, if that is not where this one listens.
    pub server_advertise: Option<String>,
    /// Where servers of the cluster listen that this one is to join, as HOST:PORT. None to found a cluster.
    pub join: Vec<String>,
    /// How many servers with empty directories found a cluster together.
    pub bootstrap_expect: u32,
    /// The newest version of entries of the log that this server applies and writes, from [`LOG_VERSIONS`].
    pub log_version: u8,
    /// The server's name.
    pub name: String,
    /// The region's name.
    pub region: String,
    /// The server's own datacenter.
    pub datacenter: String,
    /// Number and mode of the planner threads.
    pub planners: PlannersConfig,
    /// Whether callers may do only what their tokens say.
    pub acl: bool,
    /// Who signs tokens of tasks, as an address where others find the keys; none for nobody that they know.
    pub oidc_issuer: Option<String>,
    /// Under which names its measurements are read.
    pub metrics_names: MetricsNames,
    /// What clients of the HTTP API may cost.
    pub limits: http::Limits,
    /// What agents may cost.
    pub agent_limits: AgentLimits,
    /// How it records who did what; none to record nothing.
    pub audit: Option<AuditConfig>,
    /// Certificates; none to run without encryption, on loopback only.
    pub tls: Option<TlsConfig>,
    /// The settings it runs with, name and value, shown by the API.
    pub settings: Vec<(String, String)>,
    /// A root key is replaced when it is that old.
    pub root_key_rotation: Duration,
    /// The log of this process, for those who watch it.
    pub log_feed: LogFeed,
}

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Open to the network without protection.
    #[error(
        "refusing to listen on {setting} {addr}, which other machines reach, without {lacking}", lacking = lacking.join(" and ")
    )]
    Unprotected {
        /// The setting that says so.
        setting: &'static str,
        /// The address as configured.
        addr: SocketAddr,
        /// What must be there first.
        lacking: Vec<&'static str>,
    },
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address cannot be had.
    #[error("listen on {setting} {addr}: {source}")]
    Listen {
        /// The setting that says so.
        setting: &'static str,
        /// The address as configured.
        addr: SocketAddr,
        /// The cause.
        source: io::Error,
    },
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] berth_replication::OpenError),
    /// The recovered state cannot be used.
    #[error("begin with the recovered state: {0}")]
    Failed(String),
    /// A setting that makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The audit log cannot be gone on with.
    #[error("open the audit log in {}: {source}", dir.display())]
    Audit {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A thread cannot be started.
    #[error("start a thread: {0}")]
    Thread(#[source] io::Error),
}

/// A running server.
pub struct Server {
    http_addr: SocketAddr,
    agent_addr: SocketAddr,
    server_addr: SocketAddr,
    state: State,
    stop: watch::Sender<bool>,
    cluster: Arc<Cluster>,
    controller: ControllerThread,
    replication: Replication,
    listeners: Vec<JoinHandle<()>>,
    http: JoinHandle<()>,
    failed: watch::Receiver<Option<String>>,
    secure: Option<Arc<Secure>>,
}

impl Server {
    /// Starts a server. A server that is alone leads once this returns, has applied all that was committed, and answers; it
    /// accepts no connection before that: nobody ever reads a state older than what was acknowledged. One of several answers
    /// at once, and each read waits until it is as fresh.
    ///
    /// # Errors
    /// When an address is taken or open to the network, or the log cannot be opened.
    pub fn start(config: ServerConfig) -> LocalBoxFuture<'static, Result<Self, StartError>> {
        // Boxed, so that the whole future is compiled in this crate, with its optimizations, and not in each crate that starts a server.
        Box::pin(Self::begin(config))
    }

    async fn begin(config: ServerConfig) -> Result<Self, StartError> {
        let secure = load_certificates(&config)?;
        let certificates = peers::PeerCertificates::new(secure.clone());
        let keyring = Keyring::load(&config.data_dir)
            .map_err(|error| StartError::Failed(format!("read the key-encryption keys: {error}")))?;
        let keyring = Arc::new(keyring);
        let entrance = |port| secure.as_ref().map_or_else(PortAcceptor::open, |secure| secure.entrance(port));
        check_protected(&config)?;
        let ports = Ports::bind(&config).await?;
        let (http_addr, agent_addr) = (ports.http.1, ports.agents.1);
        let (server_listener, server_addr) = listen_to_servers(&config, agent_addr).await?;
        let (senders, receivers) = engine::inputs();
        let inputs = senders.inputs.clone();
        let (failures, failed) = watch::channel(None);
        let http_failed = failures.clone();
        let shared = Arc::new(EngineShared::new(failures.clone()));
        let (proposals, entries) = engine::Proposals::new();
        let relay = Relay::new();
        let bootstrap = Bootstrap::new(
            &config,
            [http_addr, agent_addr, server_addr],
            relay.clone(),
            certificates.clone(),
        )?;
        let peers = bootstrap.peers.clone();
        let controller = engine::start(
            shared.clone(),
            (senders.clone(), receivers),
            proposals,
            config.planners,
            ServerId(peers.server()),
            relay.clone(),
        )
        .map_err(StartError::Thread)?;
        let (stop, stopped) = watch::channel(false);
        let applied = Arc::new(AtomicU64::new(0));
        let observer = Arc::new(LogObserver::new(inputs.clone(), failures, applied.clone()));
        let mut listeners = {
            let entrance = entrance(PortKind::Servers);
            let certificates = certificates.clone();
            vec![tokio::spawn(peers::listen(server_listener, entrance, peers, certificates, stopped.clone()))]
        };
        let replication = bootstrap.open(&config, observer.clone()).await?;
        let audit = open_audit(&config).await?;
        let stored = Arc::new(find_stored(&config).await);
        tokio::spawn(engine::propose(shared.clone(), replication.clone(), entries, inputs.clone()));
        let cluster = Arc::new(Cluster::new(
            replication.clone(),
            shared.published.subscribe(),
            applied,
            shared.registry.clone(),
            keyring.clone(),
            certificates,
            config.log_feed.clone(),
        ));
        if let Some(audit) = &audit {
            cluster.set_audit(audit.clone());
        }
        let engine =
            Arc::new(EngineHandle::new(shared.clone(), senders, replication.clone(), cluster.clone()));
        cluster.set_engine(engine.clone());
        relay.begin(cluster.clone());
        let (entries, held_by) = replication.entries_known();
        shared.events.restart_after(observer.begin(EntryVersions { entries, held_by }));
        let is_alone = replication.is_leader() && replication.members().voters().count() == 1;
        let (http_listener, agent_listener) = ports.listen(&shared, failed.clone(), is_alone).await?;
        listeners.extend(bootstrap.begin(&cluster, &stopped));
        let state = State {
            view: shared.view.clone(),
            watchers: shared.watchers.clone(),
            events: shared.events.clone(),
            engine,
            agents: Arc::new(AllAgents::new(shared.registry.clone(), cluster.clone())),
            server: Arc::new(info(&config, http_addr, agent_addr, audit, secure.clone())),
            keyring,
            policy: access::policy(config.acl),
        };
        listeners.push(tokio::spawn(keyring::maintain(
            state.clone(),
            cluster.clone(),
            config.root_key_rotation,
            stopped.clone(),
        )));
        if let Some(secure) = secure.clone() {
            listeners.push(tokio::spawn(cluster::follow_revoked(
                state.clone(),
                secure,
                shared.registry.clone(),
                config.data_dir.clone(),
                stopped.clone(),
            )));
        }
        listeners.push(tokio::spawn(checkpoint::maintain(
            shared.clone(),
            stored.clone(),
            config.data_dir.clone(),
            stopped.clone(),
        )));
        let (task_api_sender, of_tasks) = mpsc::channel(TASK_API_CONNECTIONS_QUEUED_MAX);
        let context = ListenContext::new(inputs)
            .with_limits(config.agent_limits)
            .with_stored(stored)
            .with_state(state.clone())
            .with_certificates(secure.clone());
        let context = Arc::new(context.with_task_api_sender(task_api_sender));
        listeners.push(tokio::spawn(agents::listen(
            agent_listener,
            entrance(PortKind::Agents),
            context,
            stopped.clone(),
        )));
        let (events, log) = (shared.events.clone(), replication.clone());
        listeners.push(tokio::spawn(memory::give_back(events, log, stopped.clone())));
        let http = tokio::spawn(serve_http(
            http_listener,
            entrance(PortKind::Http),
            state.clone(),
            config.limits,
            of_tasks,
            stopped,
            http_failed,
        ));
        Ok(Self {
            http_addr,
            agent_addr,
            server_addr,
            state,
            stop,
            cluster,
            controller,
            replication,
            listeners,
            http,
            failed,
            secure,
        })
    }

    /// Where the HTTP API listens.
    pub fn http_addr(&self) -> SocketAddr {
        self.http_addr
    }

    /// Where agents connect.
    pub fn agent_addr(&self) -> SocketAddr {
        self.agent_addr
    }

    /// Where other servers connect.
    pub fn server_addr(&self) -> SocketAddr {
        self.server_addr
    }

    /// Whether the HTTP API is encrypted.
    pub fn encrypts_http(&self) -> bool {
        self.secure.as_ref().is_some_and(|secure| !secure.entrance(PortKind::Http).is_open())
    }

    /// Whether it has certificates that can be read again.
    pub fn has_certificates(&self) -> bool {
        self.secure.is_some()
    }

    /// Reads the certificates again, for connections from now on; those that are there go on.
    ///
    /// # Errors
    /// When they cannot be used; then the old ones are used on.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.secure.as_ref().map_or(Ok(()), |secure| secure.reload())
    }

    /// Completes once work can be placed on a node, with the attributes of one such.
    pub async fn node_ready(&self) -> BTreeMap<String, String> {
        loop {
            let watch = self.state.watchers.watch(WatchKey::Nodes);
            let changed = watch.changed();
            let view = self.state.view();
            let nodes = view.store.nodes();
            let ready = nodes.iter().find(|(_, row)| row.status == NodeStatus::Ready);
            if let Some(detail) = ready.and_then(|(slot, _)| nodes.detail(slot)) {
                return detail.node.attributes.clone();
            }
            changed.await;
        }
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

    /// Stops: another server leads, if there is one; then no more connections, then no more changes, then the log is
    /// closed.
    pub fn shutdown(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.cluster.prepare_stop().await;
            self.end().await;
        })
    }

    /// Stops all servers of a cluster: nobody is left to lead.
    pub fn shutdown_all(servers: Vec<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move { drop(join_all(servers.into_iter().map(Self::end)).await) })
    }

    async fn end(self) {
        tracing::info!("this server stops");
        let _ = self.stop.send(true);
        for listener in self.listeners {
            let _ = listener.await;
        }
        // Whoever follows the log over HTTP is sent this line, too, and then the end.
        tracing::info!("this server serves agents and other servers no more, and ends its HTTP API");
        self.state.server.log_feed.end();
        let _ = self.http.await;
        if let Some(audit) = self.state.server.audit.clone() {
            let _ = tokio::task::spawn_blocking(move || audit.close()).await;
        }
        let controller = self.controller;
        let _ = tokio::task::spawn_blocking(move || controller.stop()).await;
        if let Err(error) = self.replication.shutdown().await {
            tracing::warn!(%error, "could not close the log");
        }
    }
}

/// Reads the certificates, and the list of revoked servers.
fn load_certificates(config: &ServerConfig) -> Result<Option<Arc<Secure>>, StartError> {
    let Some(tls) = &config.tls else { return Ok(None) };
    let revoked = cluster::load_revoked(&config.data_dir)
        .map_err(|error| StartError::Failed(format!("read which servers were revoked: {error}")))?;
    Ok(Some(Secure::load(tls, &config.region, &config.name, revoked)?))
}

/// Finds the checkpoints of an earlier run.
async fn find_stored(config: &ServerConfig) -> StoredNodes {
    let data_dir = config.data_dir.clone();
    tokio::task::spawn_blocking(move || StoredNodes::find(&data_dir)).await.unwrap_or_default()
}

/// Opens the audit log, once the data directory is locked. Its last file is read to the end.
async fn open_audit(config: &ServerConfig) -> Result<Option<AuditLog>, StartError> {
    let Some(audit) = config.audit.clone() else { return Ok(None) };
    let (dir, name) = (audit.dir.clone(), config.name.clone());
    let log = tokio::task::spawn_blocking(move || AuditLog::open(audit, &name)).await;
    let log = log.unwrap_or_else(|_| Err(io::Error::other(PANICKED)));
    log.map(Some).map_err(|source| StartError::Audit { dir, source })
}

/// Listens for other servers: at the configured address, or else at the usual port, or any port if that is in use. Others learn the
/// address when this server joins.
async fn listen_to_servers(
    config: &ServerConfig,
    agent_addr: SocketAddr,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let any = SocketAddr::new(agent_addr.ip(), 0);
    let usual = SocketAddr::new(agent_addr.ip(), SERVER_PORT);
    let (socket, bound) = match config.server_addr {
        Some(address) => bind(SERVER_ADDR, address).await?,
        None if config.agent_addr.port() == 0 => bind(SERVER_ADDR, any).await?,
        None => return listen_or_elsewhere(take(usual), SERVER_ADDR, any).await,
    };
    Ok((listen(socket, SERVER_ADDR, bound)?, bound))
}

fn info(
    config: &ServerConfig,
    http_addr: SocketAddr,
    agent_addr: SocketAddr,
    audit: Option<AuditLog>,
    secure: Option<Arc<Secure>>,
) -> ServerInfo {
    ServerInfo {
        name: config.name.clone(),
        region: config.region.clone(),
        datacenter: config.datacenter.clone(),
        http_addr: http_addr.to_string(),
        agent_addr: agent_addr.to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        settings: config.settings.clone(),
        acl: config.acl,
        issuer: config.oidc_issuer.clone(),
        metrics_names: config.metrics_names,
        audit,
        secure,
        data_dir: config.data_dir.clone(),
        log_feed: config.log_feed.clone(),
    }
}

async fn serve_http(
    listener: TcpListener,
    entrance: PortAcceptor,
    state: State,
    limits: http::Limits,
    of_tasks: mpsc::Receiver<NetStream>,
    mut stop: watch::Receiver<bool>,
    failures: watch::Sender<Option<String>>,
) {
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    let table = nomad::table();
    let serving = http::serve_with_tasks(listener, entrance, table, state, limits, of_tasks, stopped);
    if let Err(error) = serving.await {
        tracing::error!(%error, "serve HTTP");
        failures.send_replace(Some(format!("serve HTTP: {error}")));
    }
}
