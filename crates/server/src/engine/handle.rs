//! The handle through which the HTTP side uses the engine.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use async_trait::async_trait;
use berth_api::LogDetail;
use berth_controller::{EntryVersions, Event, ProposalOutcome, ServerId, ServerMessage};
use berth_model::{
    EvalId,
    command::{Command, ENTRY_BYTES_MAX},
    ids::IdSeed,
};
use berth_replication::Replication;
use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::oneshot;

use super::{EngineInput, EngineShared, INPUTS_MAX, Senders, log_metrics, state_metrics};
use crate::{
    agents::BudgetShare,
    clock,
    cluster::{Cluster, MembershipChange},
    keyring::Kek,
    shared::{
        AgentError, Committed, Contact, Engine, LogPosition, Measured, Metric, PlanTrace, ProposeError,
        ReadPieces, ServerChange, Servers,
    },
};

/// The engine, seen from request handlers.
pub(crate) struct EngineHandle {
    shared: Arc<EngineShared>,
    inputs: Sender<EngineInput>,
    of_servers: Sender<EngineInput>,
    ids: Mutex<IdSeed>,
    replication: Replication,
    cluster: Arc<Cluster>,
}

impl EngineHandle {
    pub fn new(
        shared: Arc<EngineShared>,
        Senders { inputs, of_servers }: Senders,
        replication: Replication,
        cluster: Arc<Cluster>,
    ) -> Self {
        Self { shared, inputs, of_servers, ids: Mutex::new(IdSeed::new(random_u64())), replication, cluster }
    }

    /// Passes on a message of another server; false when the queue is full. It holds its share of the budget until it is dealt
    /// with.
    pub fn deliver(&self, from: ServerId, message: Box<ServerMessage>, share: BudgetShare) -> bool {
        self.of_servers.try_send(EngineInput::Event(Event::Message(from, message), share)).is_ok()
    }

    /// Wakes the controller because queues to other servers have room again. Where its own queue is full, it checks them anyway.
    pub fn servers_have_room(&self) {
        self.of_servers.try_send(EngineInput::event(Event::ServersCanReceive)).ok();
    }

    /// Tells the controller that the server which leads has answered.
    pub fn leader_answered(&self, term: u64, leader: ServerId) {
        self.of_servers.try_send(EngineInput::event(Event::LeaderAnswered { term, leader })).ok();
    }

    /// Reports to the controller what the servers of the cluster can apply; false when its queue is full.
    pub fn report_versions(&self, versions: EntryVersions) -> bool {
        self.inputs.try_send(EngineInput::event(Event::Versions(versions))).is_ok()
    }

    /// Reports to the controller whether a majority is in contact, should this server lead; false when its queue is full.
    pub fn report_majority(&self, in_contact: bool) -> bool {
        self.inputs.try_send(EngineInput::event(Event::Majority { heard: in_contact })).is_ok()
    }

    /// Proposes commands to this server's own controller.
    pub async fn propose_here(&self, commands: Vec<Command>) -> Result<Committed, ProposeError> {
        let (reply, answer) = oneshot::channel();
        // Encoded on this thread: all changes pass through the single thread of the controller.
        let commands = commands.into();
        match self.inputs.try_send(EngineInput::Request { commands, reply }) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(ProposeError::Busy(INPUTS_MAX)),
            Err(TrySendError::Disconnected(_)) => return Err(ProposeError::Stopping),
        }
        match answer.await {
            Ok(ProposalOutcome::Committed(index, outcomes)) => Ok(Committed { index, outcomes }),
            Ok(ProposalOutcome::Busy(waiting)) => Err(ProposeError::Busy(waiting)),
            Ok(ProposalOutcome::TooLarge(bytes)) => {
                Err(ProposeError::TooLarge { bytes, max: ENTRY_BYTES_MAX })
            }
            Ok(ProposalOutcome::NoLeader) => Err(ProposeError::NoLeader),
            Ok(ProposalOutcome::TooNew(reason)) => Err(ProposeError::TooNew(reason)),
            Ok(ProposalOutcome::NotWritten(reason)) => Err(ProposeError::NotWritten(reason)),
            Ok(ProposalOutcome::Unknown(reason)) => Err(ProposeError::Unknown(reason)),
            Err(_) => Err(ProposeError::Stopping),
        }
    }
}

#[async_trait]
impl Engine for EngineHandle {
    async fn propose(&self, commands: Vec<Command>) -> Result<Committed, ProposeError> {
        let started_at = Instant::now();
        let committed = self.cluster.write(commands).await;
        self.shared.counters.change_time.record(started_at.elapsed());
        committed
    }

    async fn fresh(&self) -> Result<(), String> {
        self.cluster.fresh().await
    }

    async fn knows_log(&self) -> Result<(), String> {
        self.cluster.knows_log().await
    }

    fn has_state(&self) -> bool {
        self.cluster.has_state()
    }

    fn contact(&self) -> Contact {
        self.cluster.contact()
    }

    fn servers(&self) -> Servers {
        self.cluster.servers()
    }

    async fn share_kek(&self, kek: &Kek) -> Result<(), String> {
        self.cluster.share_kek(kek).await
    }

    async fn change_servers(&self, change: ServerChange) -> Result<(), String> {
        let change = match change {
            ServerChange::Remove(id) => MembershipChange::Remove(id),
            ServerChange::Promote(id) => MembershipChange::Promote(id),
            ServerChange::Transfer(to) => MembershipChange::Transfer(to),
        };
        self.cluster.change(change).await
    }

    async fn server_log(&self, server: u64, detail: LogDetail) -> Result<ReadPieces, AgentError> {
        self.cluster.server_log(server, detail).await
    }

    async fn join_servers(&self, address: &str) -> Result<(), String> {
        self.cluster.join(address).await
    }

    fn mint_id(&self) -> u128 {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).mint()
    }

    fn writable(&self) -> Result<(), String> {
        self.cluster.writable()
    }

    fn disk(&self) -> Result<(), String> {
        self.cluster.disk()
    }

    fn log_position(&self) -> LogPosition {
        let index = self.replication.last_applied_log().unwrap_or_default();
        LogPosition { term: self.replication.term(), index }
    }

    fn metrics(&self) -> Vec<Metric> {
        let mut all = self.shared.counters.metrics();
        all.extend(self.shared.counters.observed_files.metrics());
        all.extend(state_metrics::of_state(&self.shared.view.load(), clock::now()));
        all.push(Metric::one(
            "berth_agent_sessions",
            "Agents that are connected to this server.",
            Measured::Gauge(self.shared.registry.len() as f64),
        ));
        all.extend(log_metrics::of_log(&self.replication.metrics()));
        all.extend(log_metrics::of_servers(&self.cluster.servers()));
        all
    }

    fn plans(&self, eval: Option<EvalId>) -> Vec<PlanTrace> {
        self.shared.plans.read(eval)
    }
}

/// A random number, from the seed that the standard library takes from the operating system for its hash maps.
pub(crate) fn random_u64() -> u64 {
    RandomState::new().build_hasher().finish()
}
