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

/// Pieces of slow work at a time: each may take as much memory as a plan of a whole job.
const SLOW_THREADS_MAX: usize = 1;

/// What all requests share. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Api {
    /// The state and the engine that changes it. Handlers have what their requests may reach of it, by their calls.
    pub(in crate::http) state: State,
    /// What requests may cost.
    pub limits: Arc<Limits>,
    /// What is measured of requests.
    pub counters: Arc<HttpCounters>,
    /// Cancelled when the server stops: blocked readers are answered, streams end.
    pub stopping: CancellationToken,
    /// Bytes that further bodies may take.
    pub body_budget: Arc<Semaphore>,
    /// Bytes that further answers may take which clients have not read.
    pub answer_budget: Arc<Semaphore>,
    /// What callers may do.
    pub policy: Arc<dyn Policy>,
    /// Tasks that have shown who they are.
    pub workloads: Arc<Workloads>,
    /// What requests that are under way were allowed.
    pub leases: Leases,
    /// The rate limits of callers.
    pub rates: Arc<CallerRates>,
    /// Limits of waiting requests.
    pub waiters: WaiterLimits,
    /// Commands within tasks that may still begin.
    pub exec_slots: Arc<Semaphore>,
    /// Answers that many readers wait for together.
    pub response_cache: Arc<ResponseCache>,
    /// Long lists that several are sent at the moment.
    pub shared_lists: Arc<SharedLists<CallerView>>,
    /// The routes that are served.
    pub table: Arc<Table>,
    /// The OpenAPI description, made on its first request.
    pub description: Arc<OnceLock<Value>>,
    /// Threads for work of some milliseconds, which would hold up others.
    pub heavy: Heavy,
    /// The same for the pieces of long lists, of which there may be as many as anybody reads: what a write waits for is done beside them.
    pub lists: Heavy,
    /// A thread for work that may take seconds, as planning a large job, so that it never holds up the other.
    pub slow: Heavy,
    /// Whether only programs on this machine can connect; nobody may pretend from a web page to be one of them.
    pub local_only: bool,
}

impl Api {
    /// Where it is recorded who did what; none where it is not.
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
