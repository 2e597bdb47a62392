//! What request handlers share: the state to read, the engine to change it, and access to agents.

mod agents;
mod lookup;

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use async_trait::async_trait;
use berth_api::{LogDetail, LogFeed};
use berth_controller::NodeRecovery;
use berth_model::{
    EvalId, Index, JobKey, NodeId, Timestamp,
    command::{Command, Outcome},
    observed::Observed,
    store::Store,
};
use berth_scheduler::Plan;

pub use self::agents::{
    AgentError, Agents, ExecInput, ExecLink, ExecOutput, ExecRequest, ReadPiece, ReadPieces, ReadRequest,
    ReadSource,
};
pub use crate::histogram::HistogramValues;
use crate::{
    EventHub, Watchers,
    access::{self, Capability, Identity, Policy, Realm},
    audit::AuditLog,
    keyring::{Kek, Keyring},
    net::Secure,
};

/// Everything that can be read, at one index. Cheap to clone and never changed.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The replicated state.
    pub store: Store,
    /// What agents observe.
    pub observed: Observed,
    /// The index up to which it has all changes of both.
    pub index: Index,
    /// How many nodes have not confirmed their state to the leader, or are held from being declared lost.
    pub recovery: Arc<NodeRecovery>,
}

/// A committed change.
#[derive(Debug, Clone)]
pub struct Committed {
    /// Its index; readers that ask for it see the change.
    pub index: Index,
    /// What came of each command.
    pub outcomes: Vec<Outcome>,
}

/// Why a change was not made, or is not known to have been made.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ProposeError {
    /// Too much is waiting: try again after a moment.
    #[error("the server has {0} changes waiting to be written: try again in a moment")]
    Busy(usize),
    /// Larger than an entry of the log may be.
    #[error(
        "the change takes {bytes} bytes when it is encoded; one entry of the log holds at most {max}, so that no change \
         holds up all others"
    )]
    TooLarge {
        /// Size of the encoded command in bytes.
        bytes: usize,
        /// [`berth_model::command::ENTRY_BYTES_MAX`].
        max: usize,
    },
    /// No server leads; nothing was changed.
    #[error("no server leads at the moment, nothing was changed: try again in a moment")]
    NoLeader,
    /// Another server of the cluster could not apply it.
    #[error("the change was not made: {0}")]
    TooNew(String),
    /// It was not made and never will be.
    #[error("the change was not made: {0}")]
    NotWritten(String),
    /// It may have been made, or be made later.
    #[error("whether the change was made is not known: {0}; look at the state before you try again")]
    Unknown(String),
    /// The server is stopping.
    #[error("the server is stopping")]
    Stopping,
}

/// What changes the state. One for the whole server; the HTTP side knows it by this alone.
#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Proposes commands as one change, and returns once it is committed, applied and can be read.
    async fn propose(&self, commands: Vec<Command>) -> Result<Committed, ProposeError>;

    /// A new random id.
    fn mint_id(&self) -> u128;

    /// Whether changes can be written at the moment; if not, why, for users.
    fn writable(&self) -> Result<(), String> {
        Ok(())
    }

    /// Whether this server's own disk takes what would be written, whichever server leads; if not, why, for users.
    fn disk(&self) -> Result<(), String> {
        Ok(())
    }

    /// Waits until what is read from the view from now on holds everything that was acknowledged before, by any server.
    ///
    /// # Errors
    /// Why that cannot be: for users.
    async fn fresh(&self) -> Result<(), String> {
        Ok(())
    }

    /// Waits until this server has applied all of the log that was acknowledged by now. That includes the rights of tokens, but not
    /// observed state, for which [`Self::fresh`] waits as well.
    ///
    /// # Errors
    /// Why that cannot be: for users.
    async fn knows_log(&self) -> Result<(), String> {
        self.fresh().await
    }

    /// Whether there is anything to be read, however old.
    fn has_state(&self) -> bool {
        true
    }

    /// How old what is read without waiting may be.
    fn contact(&self) -> Contact {
        Contact { known_leader: true, last_contact: Duration::ZERO }
    }

    /// The servers; none of them when this one is alone and knows no ids.
    fn servers(&self) -> Servers {
        Servers::default()
    }

    /// Changes the membership.
    ///
    /// # Errors
    /// Why it was not done, or may have been: for users.
    async fn change_servers(&self, _: ServerChange) -> Result<(), String> {
        Err("this server has no others".to_owned())
    }

    /// Follows the log of another server, from now on. As with [`Agents::read_file`], dropping the receiver ends that.
    async fn server_log(&self, _: u64, _: LogDetail) -> Result<ReadPieces, AgentError> {
        Err(AgentError::NotFound("this server has no others".to_owned()))
    }

    /// Joins the cluster of the server that listens at an address.
    ///
    /// # Errors
    /// Why this server is not in one cluster with it: for users.
    async fn join_servers(&self, _: &str) -> Result<(), String> {
        Err("this server joins no others".to_owned())
    }

    /// Gives a key-encryption key to the other servers, before anything is encrypted with it.
    ///
    /// # Errors
    /// Why too few have it: for users.
    async fn share_kek(&self, _: &Kek) -> Result<(), String> {
        Ok(())
    }

    /// How far the log has come.
    fn log_position(&self) -> LogPosition;

    /// The metrics of the engine, for `/v1/metrics`.
    fn metrics(&self) -> Vec<Metric>;

    /// The latest plans of an evaluation, or of all, in the order in which they were judged: those made on this server since it started.
    fn plans(&self, eval: Option<EvalId>) -> Vec<PlanTrace>;
}

/// How fresh a server's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contact {
    /// Whether a leader is known.
    pub known_leader: bool,
    /// How long ago there was contact with the leader; zero on the leader.
    pub last_contact: Duration,
}

/// A membership change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerChange {
    /// Takes a server out.
    Remove(u64),
    /// Lets a server vote that only follows.
    Promote(u64),
    /// Hands the leadership over, to this server or to the one that has come farthest.
    Transfer(Option<u64>),
}

/// The servers, as one of them knows them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Servers {
    /// The id of the server that reports this.
    pub own: u64,
    /// The leader's id; none while there is none.
    pub leader: Option<u64>,
    /// The record of the log that changed them last.
    pub config_index: u64,
    /// All of them, by id.
    pub all: Vec<ServerStatus>,
}

/// The status of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerStatus {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Where it listens to other servers, HOST:PORT.
    pub server_addr: String,
    /// Where its HTTP API listens, HOST:PORT.
    pub http_addr: String,
    /// Where it listens to agents, HOST:PORT.
    pub agent_addr: String,
    /// Whether it votes.
    pub voter: bool,
    /// There was contact with it lately.
    pub alive: bool,
    /// It was taken out of the cluster and runs on; only the server itself says so.
    pub removed: bool,
    /// How long ago there was contact with it; none for never.
    pub last_contact: Option<Duration>,
    /// The last record of the log that it has, as far as is known; 0 for not at all.
    pub log_index: u64,
    /// The newest term that it knows; 0 where that is not known.
    pub term: u64,
    /// Its version of Berth; empty where that is not known.
    pub version: String,
    /// How long a sync of its log takes, when its disk is too slow to lead on.
    pub slow_sync: Option<Duration>,
    /// How long the last syncs of its log took in the mean; none where that is not known.
    pub mean_sync: Option<Duration>,
    /// Whether its disk has too little free space to lead.
    pub disk_full: bool,
    /// Whether it lacks a key-encryption key, so that it cannot open all root keys.
    pub lacks_key: bool,
    /// The status of its certificate.
    pub certificate: CertificateStatus,
}

/// The status of a server's certificate, as far as another server has seen it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateStatus {
    /// It was not seen; or there are none.
    #[default]
    Unknown,
    /// It names the server, and was not revoked.
    Good,
    /// It is valid for any server: its holder cannot be told from others.
    NamesNobody,
    /// It was revoked: no other server accepts it.
    Revoked,
}

impl CertificateStatus {
    /// As shown to users.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Good => "ok",
            Self::NamesNobody => "names no server",
            Self::Revoked => "revoked",
        }
    }
}

impl Servers {
    /// How many records of the log a server is behind the one that has most; none when that is not known.
    pub fn lag(&self, server: &ServerStatus) -> Option<u64> {
        let most = self.all.iter().map(|server| server.log_index).max()?;
        (server.log_index > 0).then(|| most - server.log_index)
    }
}

/// One plan: which planner made it, on which state, when, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanTrace {
    /// The evaluation it answers.
    pub eval: EvalId,
    /// The job it is about.
    pub job: JobKey,
    /// Which planner made it, from 0.
    pub planner: u16,
    /// The state on which it rests.
    pub snapshot_index: Index,
    /// When the planner took the evaluation up.
    pub begun_at: Timestamp,
    /// When its claims were made.
    pub ended_at: Timestamp,
    /// How often the planner repeated it after a conflict with the claims of another planner.
    pub overtaken: usize,
    /// Placements that the applier committed.
    pub committed: usize,
    /// Placements that it refused after a conflict with other plans.
    pub refused: usize,
    /// The nodes of the first few of these.
    pub refused_nodes: Vec<NodeId>,
}

impl PlanTrace {
    /// A plan that is yet to be judged.
    pub(crate) fn new(
        plan: &Plan,
        planner: u16,
        [begun_at, ended_at]: [Timestamp; 2],
        overtaken: usize,
    ) -> Self {
        Self {
            eval: plan.eval,
            job: plan.job.clone(),
            planner,
            snapshot_index: plan.snapshot_index,
            begun_at,
            ended_at,
            overtaken,
            committed: 0,
            refused: 0,
            refused_nodes: Vec::new(),
        }
    }
}

/// A place in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPosition {
    /// The leader's term.
    pub term: u64,
    /// The last record that has been applied.
    pub index: u64,
}

/// Measurements of one name, and of one kind.
#[derive(Debug, Clone)]
pub struct Metric {
    /// In Prometheus' spelling, with its unit last: `berth_log_bytes_total`.
    pub name: &'static str,
    /// One line for users.
    pub help: &'static str,
    /// The values, distinguished by their labels.
    pub samples: Vec<(Labels, Measured)>,
}

/// Under which names measurements are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetricsNames {
    /// Names of Berth's own.
    #[default]
    Berth,
    /// Ours, and beside them the names that dashboards made for Nomad read.
    Nomad,
}

impl FromStr for MetricsNames {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "berth" => Ok(Self::Berth),
            "nomad" => Ok(Self::Nomad),
            _ => Err(()),
        }
    }
}

/// Labels of a sample: names and values.
pub type Labels = Vec<(&'static str, String)>;

impl Metric {
    /// A single value.
    pub fn one(name: &'static str, help: &'static str, value: Measured) -> Self {
        Self { name, help, samples: vec![(Labels::new(), value)] }
    }
}

#[cfg(test)]
impl Metric {
    /// The names of the metrics whose samples have changed.
    pub(crate) fn moved(before: &[Self], after: &[Self]) -> Vec<&'static str> {
        let same = |metric: &&Self| {
            before.iter().any(|other| other.name == metric.name && other.samples == metric.samples)
        };
        after.iter().filter(|metric| !same(metric)).map(|metric| metric.name).collect()
    }
}

/// What was measured, and how it behaves.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// A counter: never decreases.
    Counter(f64),
    /// Goes up and down.
    Gauge(f64),
    /// Many values, by their size.
    Spread(HistogramValues),
    /// Many values, of which only the sum and the number are given.
    Summary {
        /// In the unit of the metric's name.
        sum: f64,
        /// Number of values.
        count: u64,
    },
}

/// Shared by all request handlers.
#[derive(Clone)]
pub struct State {
    /// The latest view.
    pub view: Arc<ArcSwap<View>>,
    /// Blocked readers.
    pub watchers: Arc<Watchers>,
    /// Followers of the event stream.
    pub events: Arc<EventHub>,
    /// What changes the state.
    pub engine: Arc<dyn Engine>,
    /// The way to nodes' agents.
    pub agents: Arc<dyn Agents>,
    /// Who this server is.
    pub server: Arc<ServerInfo>,
    /// What encrypts variables and signs identities.
    pub keyring: Arc<Keyring>,
    /// What callers and tasks may do.
    pub(crate) policy: Arc<dyn Policy>,
}

/// Who a server is, for agent/self, members and leader.
#[derive(Debug, Clone, Default)]
pub struct ServerInfo {
    /// Whether callers may do only what their tokens say.
    pub acl: bool,
    /// Who signs tokens of tasks, as an address where others find the keys; none for nobody that they know.
    pub issuer: Option<String>,
    /// Where its data is.
    pub data_dir: PathBuf,
    /// Its name.
    pub name: String,
    /// The region's name.
    pub region: String,
    /// The server's datacenter.
    pub datacenter: String,
    /// Where its HTTP API listens, HOST:PORT.
    pub http_addr: String,
    /// Where agents connect, HOST:PORT.
    pub agent_addr: String,
    /// Berth's version.
    pub version: String,
    /// The settings it runs with, name and value, for agent/self.
    pub settings: Vec<(String, String)>,
    /// Under which names its measurements are read.
    pub metrics_names: MetricsNames,
    /// The log of its process.
    pub log_feed: LogFeed,
    /// Where it records who did what; none where it does not.
    pub(crate) audit: Option<AuditLog>,
    /// Its certificates, if it has any.
    pub(crate) secure: Option<Arc<Secure>>,
}

impl State {
    /// The state of a server without a disk and without ACLs, for benchmarks.
    pub fn open(
        view: Arc<ArcSwap<View>>,
        watchers: Arc<Watchers>,
        events: Arc<EventHub>,
        engine: Arc<dyn Engine>,
        agents: Arc<dyn Agents>,
    ) -> Self {
        let (server, keyring, policy) = (Arc::default(), Arc::default(), access::policy(false));
        Self { view, watchers, events, engine, agents, server, keyring, policy }
    }

    /// The same with ACLs, and with an empty cache of rights.
    #[must_use]
    pub fn guarded(&self) -> Self {
        Self { policy: access::policy(true), ..self.clone() }
    }

    /// Whether the owner of a token has a capability in a namespace, by the same check that each request is subject to.
    pub fn grants(&self, secret: &str, capability: Capability, namespace: &str) -> bool {
        let (view, identity) = (self.view(), Identity::Token(access::hash(secret)));
        let rights = self.policy.rights(&identity, view.store.acl(), Timestamp(0));
        rights.is_ok_and(|rights| rights.grant(capability, Realm::Namespace(namespace)))
    }

    /// The latest view.
    pub fn view(&self) -> Arc<View> {
        self.view.load_full()
    }
}
