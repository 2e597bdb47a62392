//! This server as one of several: it joins, writes and reads through the leader, and, while it leads itself, accepts others.

mod agents;
mod bootstrap;
#[cfg(test)]
mod certificates;
mod changes;
mod founding;
mod hand_over;
mod join;
mod keys;
mod linearizable;
mod majority;
mod membership_audit;
mod reachability;
mod recover;
mod rejoin;
mod relay;
mod revoked;
mod serve;
mod status;
mod successor;
mod upkeep;
mod wire;
mod write;

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use berth_api::LogFeed;
use berth_model::Index;
use berth_replication::{
    Replication,
    peer::{PeerAddress, RequestError},
};
use tokio::{sync::watch, time::Instant};

use crate::{
    agents::Registry, audit::AuditLog, engine::EngineHandle, keyring::Keyring, peers::PeerCertificates,
};
use agents::AgentService;
pub(crate) use agents::AllAgents;
pub(crate) use bootstrap::Bootstrap;
use founding::Founding;
pub use majority::{LeaderReport, LeadersMajority, MajorityContact, OwnProgress};
pub use recover::recover;
pub use rejoin::rejoin;
pub(crate) use relay::Relay;
pub(crate) use revoked::{follow as follow_revoked, load as load_revoked};
use serve::Requests;
pub(crate) use wire::MembershipChange;
use wire::{PeerAnswer, PeerRequest};

/// How long a request waits for a leader before its client is answered that there is none: as long as an election takes, and
/// some.
const LEADER_MAX: Duration = Duration::from_secs(5);
/// How long the leader may take to answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Time between two looks for a leader.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// This server among the others.
pub(crate) struct Cluster {
    replication: Replication,
    /// When this server began: times of its own are counted from then.
    begun: Instant,
    /// The engine of this server; set once it runs.
    engine: OnceLock<Arc<EngineHandle>>,
    /// The index and the cluster that readers see.
    published: watch::Receiver<(Index, u128)>,
    /// The index of the state that was applied last.
    applied: Arc<AtomicU64>,
    /// Changes that this server, while it leads, is making.
    writing: AtomicI64,
    /// Reasons for which this server leads no more as soon as another takes over: nothing new is written here.
    leaving: AtomicI64,
    /// This server is stopping.
    stopping: AtomicBool,
    /// The leader has reported that this server was removed from the cluster: removed servers are not informed otherwise.
    removed: Mutex<Option<status::Removal>>,
    /// How the others are.
    pulses: successor::ServerPulses,
    /// The age of the leader's contact with a majority.
    leaders_majority: LeadersMajority,
    fresh: linearizable::ReadRounds,
    /// What other servers have under way with the agents of this one.
    agent_service: AgentService,
    agents: Arc<Registry>,
    keyring: Arc<Keyring>,
    certificates: Arc<PeerCertificates>,
    /// Where changes of the servers are recorded; none where nothing is.
    audit: OnceLock<AuditLog>,
}

impl Cluster {
    pub fn new(
        replication: Replication,
        published: watch::Receiver<(Index, u128)>,
        applied: Arc<AtomicU64>,
        agents: Arc<Registry>,
        keyring: Arc<Keyring>,
        certificates: Arc<PeerCertificates>,
        log_feed: LogFeed,
    ) -> Self {
        let cluster = Self {
            replication,
            begun: Instant::now(),
            engine: OnceLock::new(),
            published,
            applied,
            writing: AtomicI64::new(0),
            leaving: AtomicI64::new(0),
            stopping: AtomicBool::new(false),
            removed: Mutex::new(None),
            pulses: successor::ServerPulses::default(),
            leaders_majority: LeadersMajority::default(),
            fresh: linearizable::ReadRounds::default(),
            agent_service: AgentService::new(agents.clone(), log_feed),
            agents,
            keyring,
            certificates,
            audit: OnceLock::new(),
        };
        cluster.send_members_to_peers();
        cluster
    }

    /// Sets the engine, once it runs.
    pub fn set_engine(&self, engine: Arc<EngineHandle>) {
        self.engine.set(engine).ok();
    }

    fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire) > 0
    }

    /// Whether this server leads and goes on leading.
    pub fn leads(&self) -> bool {
        self.replication.is_leader() && !self.is_leaving()
    }

    /// Whether there is nobody else: then nobody else can lead either.
    fn is_alone(&self) -> bool {
        self.replication.is_alone()
    }

    /// Who leads, and where it listens to other servers; none when that is this server, or nobody is known to, or the one
    /// that is says that it hears no majority: whatever it was asked would wait.
    fn other_leader(&self) -> Option<(u64, PeerAddress)> {
        let leader = self.replication.leader().filter(|leader| *leader != self.replication.server_id())?;
        if self.is_leader_cut_off() {
            return None;
        }
        Some((leader, PeerAddress(self.replication.peer(leader)?.address)))
    }

    /// Sends a request to the leader. One that is not reached is waited for only until another leads: the network may
    /// swallow every attempt to reach it, and each of these takes its time to fail.
    async fn ask_leader(
        &self,
        leader: &(u64, PeerAddress),
        request: &PeerRequest,
    ) -> Result<PeerAnswer, RequestError> {
        let (server, address) = leader;
        tokio::select! {
            biased;
            reached = self.replication.peers().reach(*server, address) => reached?,
            _ = self.replication.await_leader(Some(*server), ANSWER_MAX) => {
                return Err(RequestError::NotSent(format!("server {server} is not reached, and leads no more")));
            }
        }
        self.ask(leader, request).await
    }

    /// Sends a request to another server.
    async fn ask(&self, to: &(u64, PeerAddress), request: &PeerRequest) -> Result<PeerAnswer, RequestError> {
        self.ask_for(to, request, ANSWER_MAX).await
    }

    /// Asks another server, and waits no longer than `patience`.
    async fn ask_for(
        &self,
        (server, address): &(u64, PeerAddress),
        request: &PeerRequest,
        patience: Duration,
    ) -> Result<PeerAnswer, RequestError> {
        let body = wire::encode(request);
        let answer = self.replication.peers().request(*server, address, &body, patience).await?;
        wire::decode(&answer).map_err(RequestError::Unknown)
    }
}
