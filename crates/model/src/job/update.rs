//! How a group's allocations are replaced: by a new version, by a drain, or because their node went silent.

use std::time::Duration;

use minicbor::{Decode, Encode};

use super::seconds;

/// What says that an allocation is healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum HealthCheck {
    /// All its tasks run, and all checks of its services pass.
    #[n(0)]
    Checks,
    /// All its tasks run.
    #[n(1)]
    TaskStates,
    /// An operator says so.
    #[n(2)]
    Manual,
}

/// How a new version of the job replaces the one before.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Update {
    /// Between two nodes, for jobs that run on every node.
    #[n(0)]
    #[cbor(with = "crate::codec::duration")]
    pub stagger: Duration,
    /// Allocations replaced at the same time; 0 for all at once, without a deployment.
    #[n(1)]
    pub max_parallel: u32,
    /// What makes a new allocation healthy.
    #[n(2)]
    pub health_check: HealthCheck,
    /// Healthy for that long without a break.
    #[n(3)]
    #[cbor(with = "crate::codec::duration")]
    pub min_healthy_time: Duration,
    /// An allocation that is not healthy by then counts as unhealthy.
    #[n(4)]
    #[cbor(with = "crate::codec::duration")]
    pub healthy_deadline: Duration,
    /// The deployment has failed when none became healthy for that long; zero for at the first failure.
    #[n(5)]
    #[cbor(with = "crate::codec::duration")]
    pub progress_deadline: Duration,
    /// Allocations of the new version that run beside the old ones until promoted.
    #[n(6)]
    pub canary: u32,
    /// Go back to the last stable version when the deployment fails.
    #[n(7)]
    pub auto_revert: bool,
    /// Promote as soon as all canaries are healthy.
    #[n(8)]
    pub auto_promote: bool,
}

impl Default for Update {
    fn default() -> Self {
        Self {
            stagger: seconds(30),
            max_parallel: 1,
            health_check: HealthCheck::Checks,
            min_healthy_time: seconds(10),
            healthy_deadline: seconds(5 * 60),
            progress_deadline: seconds(10 * 60),
            canary: 0,
            auto_revert: false,
            auto_promote: false,
        }
    }
}

/// How allocations leave a node that is drained.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Migrate {
    /// Allocations that move at the same time.
    #[n(0)]
    pub max_parallel: u32,
    /// What makes a successor healthy; only then the next one moves.
    #[n(1)]
    pub health_check: HealthCheck,
    /// Healthy for that long without a break.
    #[n(2)]
    #[cbor(with = "crate::codec::duration")]
    pub min_healthy_time: Duration,
    /// An allocation that is not healthy by then counts as unhealthy.
    #[n(3)]
    #[cbor(with = "crate::codec::duration")]
    pub healthy_deadline: Duration,
}

impl Default for Migrate {
    fn default() -> Self {
        Self {
            max_parallel: 1,
            health_check: HealthCheck::Checks,
            min_healthy_time: seconds(10),
            healthy_deadline: seconds(5 * 60),
        }
    }
}

/// Which one stays when a silent node returns and its allocations have been replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Reconcile {
    /// The one on the better node.
    #[n(0)]
    BestScore,
    /// The old one.
    #[n(1)]
    KeepOriginal,
    /// The new one.
    #[n(2)]
    KeepReplacement,
    /// The one whose tasks have run longest.
    #[n(3)]
    LongestRunning,
}

/// What happens to allocations of a node that went silent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Disconnect {
    /// They count as unknown for that long before they are lost; none for lost at once.
    #[n(0)]
    #[cbor(with = "crate::codec::duration_option")]
    pub lost_after: Option<Duration>,
    /// The agent stops them itself after that long without a server; none for never.
    #[n(1)]
    #[cbor(with = "crate::codec::duration_option")]
    pub stop_on_client_after: Option<Duration>,
    /// Whether they are replaced meanwhile.
    #[n(2)]
    pub replace: bool,
    /// Which allocation stays once the node is back.
    #[n(3)]
    pub reconcile: Reconcile,
}

impl Disconnect {
    /// How long allocations count as unknown whose node is silent: `Some(None)` for until somebody stops them. None when
    /// they are lost at once.
    ///
    /// What the agent stops by itself is not replaced before it has: it takes up to `ending` to do so.
    pub fn unknown_for(&self, ending: Duration) -> Option<Option<Duration>> {
        let stopped = self.stops_after().map(|after| after.saturating_add(ending));
        match stopped.or(self.lost_after.filter(|span| !span.is_zero())) {
            Some(span) => Some(Some(span)),
            None => (!self.replace).then_some(None),
        }
    }

    /// After how long without a server the agent stops them; none for never.
    pub fn stops_after(&self) -> Option<Duration> {
        self.stop_on_client_after.filter(|after| !after.is_zero())
    }

    /// Whether they are replaced while they count as unknown.
    pub fn replaces_unknown(&self) -> bool {
        self.replace && self.stops_after().is_none()
    }
}

impl Default for Disconnect {
    fn default() -> Self {
        Self { lost_after: None, stop_on_client_after: None, replace: true, reconcile: Reconcile::BestScore }
    }
}
