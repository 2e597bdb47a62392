//! A job: what its owner desires to run, as groups of tasks.

mod files;
mod group;
mod identity;
mod launch;
mod policy;
mod role;
mod same;
mod schedule;
mod secret;
mod service;
mod submission;
mod tag;
mod task;
mod update;

use std::{collections::BTreeMap, time::Duration};

use minicbor::{Decode, Encode};

use crate::{
    constraint::{Affinity, Constraint, Spread},
    ids::JobKey,
    value::Value,
};

pub use files::{Artifact, ChangeMode, ChangeScript, Template, VOLUME_HOST, Volume, VolumeMount, Wait};
pub use group::{EphemeralDisk, Group, Network, Port};
pub use identity::{
    IDENTITIES_MAX, IDENTITY_AUDIENCE, IDENTITY_AUDIENCE_BYTES_MAX, IDENTITY_AUDIENCES_MAX, IDENTITY_DEFAULT,
    IDENTITY_NAME_MAX, IDENTITY_PATH_BYTES_MAX, IDENTITY_TTL_MAX, IDENTITY_TTL_MIN, Identity, SECRETS_DIR,
};
pub use launch::{Parameterized, PayloadRule, Periodic, dispatch_hash};
pub use policy::{DelayFunction, ReschedulePolicy, RestartMode, RestartPolicy};
pub use role::{Hook, Lifecycle, Scaling, TaskPhase};
pub use same::VersionChange;
pub use schedule::{Cron, CronError, Schedule, TimeZone};
pub use secret::{
    SECRET_FILES, SECRET_FILES_BYTES_MAX, SECRET_NAME_MAX, SECRET_NAMESPACE, SECRET_PROVIDER, SECRETS_MAX,
    Secret,
};
pub use service::{Check, CheckKind, CheckRestart, Service};
pub use submission::{SUBMISSION_BYTES_MAX, Submission};
pub use tag::{JOB_TAGS_MAX, TAG_DESCRIPTION_BYTES_MAX, TAG_NAME_BYTES_MAX, VersionTag};
pub use task::{LogConfig, MEMORY_MAX_OF_NODE, Task, TaskResources};
pub use update::{Disconnect, HealthCheck, Migrate, Reconcile, Update};

/// Settings that nothing here acts upon, kept for those who read the job, by their names in Nomad's JSON.
pub type IgnoredSettings = BTreeMap<String, Value>;

/// Versions of a job that are kept, the current one included, besides those that are stable or have a tag.
pub const JOB_VERSIONS_MAX: usize = 6;
/// Replacements of a failed allocation that a policy with a limit may allow: each remembers those before.
pub const RESCHEDULE_ATTEMPTS_MAX: u32 = 100;
/// Allocations that one group may ask for.
pub const GROUP_COUNT_MAX: u32 = 50_000;
/// Priority of a job that does not say.
pub const PRIORITY_DEFAULT: u8 = 50;

/// How a job's allocations live and end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
#[cbor(index_only)]
pub enum JobType {
    /// Runs until stopped.
    #[n(0)]
    Service,
    /// Runs until it succeeds.
    #[n(1)]
    Batch,
    /// One on each eligible node, until stopped.
    #[n(2)]
    System,
    /// One on each eligible node, until it succeeds.
    #[n(3)]
    Sysbatch,
}

impl JobType {
    /// The word used in job files and in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "service",
            Self::Batch => "batch",
            Self::System => "system",
            Self::Sysbatch => "sysbatch",
        }
    }

    /// Parses the job file's spelling; none for any other.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Service, Self::Batch, Self::System, Self::Sysbatch].into_iter().find(|t| t.as_str() == text)
    }

    /// Whether a task that ended well is done for good.
    pub fn runs_to_completion(self) -> bool {
        matches!(self, Self::Batch | Self::Sysbatch)
    }

    /// Whether it wants one allocation on each eligible node instead of a count.
    pub fn is_per_node(self) -> bool {
        matches!(self, Self::System | Self::Sysbatch)
    }
}

/// A job as its owner wrote it, every default filled in.
#[derive(Debug, Clone, PartialEq, Encode, Decode)]
pub struct Job {
    /// Namespace and id.
    #[n(0)]
    pub key: JobKey,
    /// For users; the id when not given.
    #[n(1)]
    pub name: String,
    /// Kept for clients that send it; there is one region.
    #[n(2)]
    pub region: String,
    /// Service, batch, system or sysbatch.
    #[n(3)]
    pub job_type: JobType,
    /// 1 to 100; more goes first.
    #[n(4)]
    pub priority: u8,
    /// Place all groups or none.
    #[n(5)]
    pub all_at_once: bool,
    /// Names or globs; `*` for any.
    #[n(6)]
    pub datacenters: Vec<String>,
    /// The pool whose nodes may run it; `all` for any.
    #[n(7)]
    pub node_pool: String,
    /// The owner's own labels.
    #[n(8)]
    pub meta: BTreeMap<String, String>,
    /// Apply to every group.
    #[n(9)]
    pub constraints: Vec<Constraint>,
    /// Apply to every group.
    #[n(10)]
    pub spreads: Vec<Spread>,
    /// At least one.
    #[n(11)]
    pub groups: Vec<Group>,
    /// Whether its owner has stopped it.
    #[n(12)]
    pub stop: bool,
    /// Apply to every group.
    #[n(13)]
    pub affinities: Vec<Affinity>,
    /// Runs at set times, as jobs of its own.
    #[n(20)]
    pub periodic: Option<Box<Periodic>>,
    /// Runs when dispatched, as jobs of its own.
    #[n(21)]
    pub parameterized: Option<Box<Parameterized>>,
    /// The id of the job that this one is a run of; empty for none.
    #[n(22)]
    pub parent_id: String,
    /// Whether it is a dispatch of its parent.
    #[n(23)]
    pub dispatched: bool,
    /// What the dispatch carries.
    #[n(24)]
    #[cbor(with = "minicbor::bytes")]
    pub payload: Vec<u8>,
    /// The default of its groups.
    #[n(25)]
    pub update: Option<Box<Update>>,
    /// The default of its groups.
    #[n(26)]
    pub migrate: Option<Box<Migrate>>,
    /// The default of its groups.
    #[n(27)]
    pub reschedule: Option<Box<ReschedulePolicy>>,
    /// `UI`, `Multiregion`, ...
    #[n(28)]
    pub kept: IgnoredSettings,
}

impl Job {
    /// Bytes of its encoding, as the log and snapshots keep it.
    pub fn encoded_len(&self) -> usize {
        crate::codec::encoded_len(self)
    }

    /// A job without groups, with the defaults of job files.
    pub fn new(key: JobKey, job_type: JobType) -> Self {
        Self {
            name: key.id.to_string(),
            key,
            region: "global".to_owned(),
            job_type,
            priority: PRIORITY_DEFAULT,
            all_at_once: false,
            datacenters: vec!["*".to_owned()],
            node_pool: "default".to_owned(),
            meta: BTreeMap::new(),
            constraints: Vec::new(),
            spreads: Vec::new(),
            groups: Vec::new(),
            stop: false,
            affinities: Vec::new(),
            periodic: None,
            parameterized: None,
            parent_id: String::new(),
            dispatched: false,
            payload: Vec::new(),
            update: None,
            migrate: None,
            reschedule: None,
            kept: IgnoredSettings::new(),
        }
    }

    /// Whether it only makes jobs, at set times or when dispatched, and has no allocations of its own.
    pub fn only_launches(&self) -> bool {
        self.periodic.is_some() || self.parameterized.is_some() && !self.dispatched
    }

    /// Whether it shows how its owner wrote what could be written otherwise.
    pub fn has_spelling(&self) -> bool {
        let ports = self.groups.iter().flat_map(|group| &group.networks).flat_map(|network| &network.ports);
        self.periodic.as_ref().is_some_and(|periodic| periodic.is_single)
            || ports.into_iter().any(|port| port.to_is_host)
    }

    /// It means the same, and is shown as most would write it: for servers that know nothing of that.
    pub fn forget_spelling(&mut self) {
        self.periodic.iter_mut().for_each(|periodic| periodic.is_single = false);
        let networks = self.groups.iter_mut().flat_map(|group| &mut group.networks);
        networks.flat_map(|network| &mut network.ports).for_each(|port| port.to_is_host = false);
    }

    /// The group of that name and its position.
    pub fn group(&self, name: &str) -> Option<(u16, &Group)> {
        let at = self.groups.iter().position(|g| g.name == name)?;
        Some((u16::try_from(at).ok()?, &self.groups[at]))
    }
}

const fn seconds(s: u64) -> Duration {
    Duration::from_secs(s)
}
