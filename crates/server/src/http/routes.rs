//! The table of routes: each path with its methods, what a caller must be allowed to do, what it is for, and who
//! answers it. The router is built from this table and from nothing else.

use std::{future::Future, pin::Pin, sync::Arc};

use hyper::Method;

use super::{
    agent, allocations,
    call::{Call, Reply},
    evaluations, events, job, jobs, logs, metrics, namespaces, nodes, status,
};

/// What a caller must be allowed to do. A route cannot be declared without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Capability {
    /// Nothing: anybody may ask.
    Anonymous,
    /// Read namespaces that the caller has any rights in.
    ListNamespaces,
    /// Read jobs, their allocations and their evaluations.
    ReadJob,
    /// Check or convert a job file without registering it.
    ParseJob,
    /// Register, stop and evaluate jobs.
    SubmitJob,
    /// Stop single allocations.
    AllocLifecycle,
    /// Read what tasks print.
    ReadLogs,
    /// Read nodes.
    NodeRead,
    /// Open and close nodes.
    NodeWrite,
    /// Read about the servers.
    AgentRead,
    /// Follow all changes of what the caller may read.
    ReadEvents,
}

/// What a request does; decides its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads: GET and HEAD.
    Get,
    /// Writes: PUT, and POST all the same.
    Put,
    /// Takes away: DELETE.
    Delete,
}

impl Verb {
    /// The methods that stand for it, the proper one first.
    pub fn methods(self) -> &'static [Method] {
        match self {
            Self::Get => &[Method::GET, Method::HEAD],
            Self::Put => &[Method::PUT, Method::POST],
            Self::Delete => &[Method::DELETE],
        }
    }

    /// The proper method's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

pub(super) type Handler = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// One route.
#[derive(Clone)]
pub struct Route {
    /// What a request does.
    pub verb: Verb,
    /// The path; `{name}` stands for any text without a slash, or with encoded ones.
    pub path: &'static str,
    /// What a caller must be allowed to do.
    pub capability: Capability,
    /// What it is for, in a few words.
    pub summary: &'static str,
    pub(super) handler: Handler,
}

fn route<F, R>(
    verb: Verb,
    path: &'static str,
    capability: Capability,
    summary: &'static str,
    handler: F,
) -> Route
where
    F: Fn(Call) -> R + Send + Sync + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    Route { verb, path, capability, summary, handler: Arc::new(move |call| Box::pin(handler(call))) }
}

/// All routes.
#[rustfmt::skip] // One line a route: this is a table.
pub fn routes() -> Vec<Route> {
    use Capability::*;
    use Verb::*;
    vec![
        route(Get, "/v1/jobs", ReadJob, "List jobs", jobs::list),
        route(Put, "/v1/jobs", SubmitJob, "Register a job", jobs::register),
        route(Put, "/v1/jobs/parse", ParseJob, "Turn a job file in HCL into JSON", jobs::parse),
        route(Put, "/v1/validate/job", ParseJob, "Check a job", jobs::validate),

        route(Get, "/v1/job/{id}", ReadJob, "Read a job", job::read),
        route(Put, "/v1/job/{id}", SubmitJob, "Register a job under its id", job::register),
        route(Delete, "/v1/job/{id}", SubmitJob, "Stop a job", job::deregister),
        route(Put, "/v1/job/{id}/evaluate", SubmitJob, "Evaluate a job anew", job::evaluate),
        route(Get, "/v1/job/{id}/allocations", ReadJob, "List a job's allocations", job::allocations),
        route(Get, "/v1/job/{id}/deployment", ReadJob, "Read a job's last deployment", job::deployment),
        route(Get, "/v1/job/{id}/deployments", ReadJob, "List a job's deployments", job::deployments),
        route(Get, "/v1/job/{id}/evaluations", ReadJob, "List a job's evaluations", job::evaluations),
        route(Get, "/v1/job/{id}/summary", ReadJob, "Count a job's allocations", job::summary),
        route(Get, "/v1/job/{id}/versions", ReadJob, "List a job's versions", job::versions),

        route(Get, "/v1/allocations", ReadJob, "List allocations", allocations::list),
        route(Get, "/v1/allocation/{id}", ReadJob, "Read an allocation", allocations::read),
        route(Put, "/v1/allocation/{id}/stop", AllocLifecycle, "Stop an allocation", allocations::stop),
        route(Get, "/v1/client/allocation/{id}/checks", ReadJob, "Read an allocation's checks", allocations::checks),
        route(Get, "/v1/client/fs/logs/{id}", ReadLogs, "Read what a task prints", logs::read),

        route(Get, "/v1/evaluations", ReadJob, "List evaluations", evaluations::list),
        route(Get, "/v1/evaluation/{id}", ReadJob, "Read an evaluation", evaluations::read),
        route(Get, "/v1/evaluation/{id}/allocations", ReadJob, "List what an evaluation placed", evaluations::allocations),

        route(Get, "/v1/nodes", NodeRead, "List nodes", nodes::list),
        route(Get, "/v1/node/{id}", NodeRead, "Read a node", nodes::read),
        route(Get, "/v1/node/{id}/allocations", NodeRead, "List a node's allocations", nodes::allocations),
        route(Put, "/v1/node/{id}/eligibility", NodeWrite, "Open or close a node to new work", nodes::eligibility),

        route(Get, "/v1/event/stream", ReadEvents, "Follow changes", events::read),

        route(Get, "/v1/namespaces", ListNamespaces, "List namespaces", namespaces::list),
        route(Get, "/v1/namespace/{name}", ListNamespaces, "Read a namespace", namespaces::read),

        route(Get, "/v1/agent/self", AgentRead, "Read who answers", agent::whoami),
        route(Get, "/v1/agent/members", AgentRead, "List servers", agent::members),
        route(Get, "/v1/agent/health", Anonymous, "Ask whether the server is well", agent::health),
        route(Get, "/healthz", Anonymous, "Ask whether the server is well", agent::healthz),
        route(Get, "/v1/status/leader", AgentRead, "Read who leads", status::leader),
        route(Get, "/v1/status/peers", AgentRead, "List servers' addresses", status::peers),
        route(Get, "/v1/regions", AgentRead, "List regions", status::regions),

        route(Get, "/v1/metrics", AgentRead, "Read measurements", metrics::read),
        route(Get, "/metrics", AgentRead, "Read measurements as Prometheus does", metrics::prometheus),
    ]
}
