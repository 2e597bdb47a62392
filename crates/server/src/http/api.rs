//! State that all requests share.

use std::{
    net::SocketAddr,
    sync::{Arc, OnceLock},
};

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    Limits, Table, counters::HttpCounters, heavy::Heavy, lease::Leases, rates::CallerRates,
    response_cache::ResponseCache, shared_list::SharedLists, waiters::WaiterLimits,
};
use crate::{
    access::{CallerView, Policy},
    audit::AuditLog,
    shared::State,
    workload::Workloads,
};

/// Slow computations at a time: each may take as much memory as the plan of a large job.
const SLOW_THREADS_MAX: usize = 1;

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    /// The state and the engine that changes it. Handlers do not use it: a `Call` gives them what their request may reach.
    pub(in crate::http) state: State,
    /// What requests may cost.
    pub limits: Arc<Limits>,
    /// Metrics of requests.
    pub counters: Arc<HttpCounters>,
    /// Cancelled when the server stops: blocked readers are answered, streams end.
    pub stopping: CancellationToken,
    /// Permits for bytes of request bodies in memory.
    pub body_budget: Arc<Semaphore>,
    /// Permits for bytes of complete responses that clients have not read yet.
    pub answer_budget: Arc<Semaphore>,
    /// What callers may do.
    pub policy: Arc<dyn Policy>,
    /// Verified identities of tasks.
    pub workloads: Arc<Workloads>,
    /// The rights of long-lived requests, which end when these change.
    pub leases: Leases,
    /// The rate limits of callers.
    pub rates: Arc<CallerRates>,
    /// Limits of waiting requests.
    pub waiters: WaiterLimits,
    /// Permits for commands within tasks.
    pub exec_slots: Arc<Semaphore>,
    /// Responses that many blocked readers share.
    pub response_cache: Arc<ResponseCache>,
    /// Long lists that several clients are being sent.
    pub shared_lists: Arc<SharedLists<CallerView>>,
    /// The routes that are served.
    pub table: Arc<Table>,
    /// The OpenAPI description, made on its first request.
    pub description: Arc<OnceLock<Value>>,
    /// Threads for computations of some milliseconds, which would block other requests on a thread of the runtime.
    pub heavy: Heavy,
    /// The same for the pieces of long lists, with a lower priority: there may be any number of them, and they must not delay writes.
    pub lists: Heavy,
    /// A thread for computations that may take seconds, such as planning a large job, so that they do not occupy `heavy`.
    pub slow: Heavy,
    /// Whether the server listens on loopback only. Requests under another host name are then refused (DNS rebinding).
    pub local_only: bool,
}

impl Api {
    /// The audit log; none where nothing is recorded.
    pub fn audit(&self) -> Option<&AuditLog> {
        self.state.server.audit.as_ref()
    }

    pub fn new(table: Table, state: State, limits: Limits, local: SocketAddr) -> Self {
        let budget = limits.bodies_bytes_max.min(Semaphore::MAX_PERMITS);
        let policy = state.policy.clone();
        let answer_budget = limits.answers_bytes_max.min(Semaphore::MAX_PERMITS);
        Self {
            state,
            response_cache: Arc::default(),
            shared_lists: Arc::default(),
            table: Arc::new(table),
            description: Arc::default(),
            policy,
            workloads: Arc::default(),
            leases: Leases::default(),
            rates: Arc::new(CallerRates::new(limits.rates)),
            waiters: WaiterLimits::new(&limits),
            heavy: Heavy::new(limits.heavy_threads_max),
            lists: Heavy::yielding(limits.heavy_threads_max),
            slow: Heavy::new(SLOW_THREADS_MAX),
            exec_slots: Arc::new(Semaphore::new(limits.execs_max)),
            limits: Arc::new(limits),
            counters: Arc::default(),
            stopping: CancellationToken::new(),
            body_budget: Arc::new(Semaphore::new(budget)),
            answer_budget: Arc::new(Semaphore::new(answer_budget)),
            local_only: local.ip().is_loopback(),
        }
    }
}
