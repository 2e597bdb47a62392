//! The description of a route, and the table of all of them.

pub mod contract;
pub mod operation;
pub mod parameters;
pub mod tags;

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc};

use hyper::Method;
use serde_json::Value;

pub use contract::{Contract, RequestBody, ResponseBody, Shape};
pub use operation::{ExampleOrder, Operation};
pub use parameters::Parameter;

use super::call::{Call, Reply};
pub use crate::access::{Capability, NamespaceFrom};

/// All that an API serves: the router and its description are made from this and from nothing else.
#[derive(Clone)]
pub struct Table {
    /// Each path with what it does.
    pub routes: Vec<Route>,
    /// What routes take after the question mark, each once.
    pub parameters: &'static [Parameter],
    /// What each route is called, with examples.
    pub operations: &'static [Operation],
    /// What is described besides the types that cross the wire, given where definitions are: they are added to those of
    /// the same name.
    pub definitions: fn(&str) -> BTreeMap<String, Value>,
}

/// What a request does; decides its method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads: GET and HEAD.
    Get,
    /// Writes: PUT, and POST all the same.
    Put,
    /// Deletes: DELETE.
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

/// What is recorded of a route's requests in the audit log, besides refusals for want of rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditMode {
    /// Nothing: no rights are needed.
    Never,
    /// Reads that reveal no secrets, where the operator wants them all.
    Read,
    /// Each: it reveals what is secret, or may be.
    Guarded,
    /// Each: it changes something.
    Change,
}

pub(crate) type Handler = Arc<dyn Fn(Call) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// One route.
#[derive(Clone)]
pub struct Route {
    /// What a request does.
    pub verb: Verb,
    /// The path; `{name}` stands for any text without a slash, or with encoded ones.
    pub path: &'static str,
    /// Whether it may change something: whatever is not a GET, and those that say so.
    pub changes: bool,
    /// What a caller must be allowed to do.
    pub capability: Capability,
    /// Where the namespace stands in which it must be allowed.
    pub namespace_from: NamespaceFrom,
    /// What it is for, in a few words.
    pub summary: &'static str,
    /// What it takes and what it answers.
    pub contract: Arc<Contract>,
    /// What is recorded of its requests.
    pub recorded: AuditMode,
    /// Whether it counts for the rate limits.
    pub is_metered: bool,
    /// It is answered from the replicated state, so that a server first waits until its own is fresh.
    pub needs_state: bool,
    pub(crate) handler: Handler,
}

impl Route {
    /// It is about the servers themselves: it is answered whatever has become of the others.
    pub(crate) fn without_state(self) -> Self {
        Self { needs_state: false, ..self }
    }

    /// It changes something though it is asked with a GET, as clients that were made for others ask.
    pub(crate) fn that_changes(self) -> Self {
        Self { changes: true, recorded: AuditMode::of(true, self.capability), ..self }
    }

    /// It reports whether the server is well, which costs next to nothing: what watches the server shares its address with clients,
    /// behind a proxy or a gateway, and takes it out of service when it gets no answer.
    pub(crate) fn without_meter(self) -> Self {
        Self { is_metered: false, ..self }
    }
}

/// Makes a row of a table.
pub(crate) fn route<F, R>(
    verb: Verb,
    path: &'static str,
    (capability, namespace_from): (Capability, NamespaceFrom),
    summary: &'static str,
    contract: Contract,
    handler: F,
) -> Route
where
    F: Fn(Call) -> R + Send + Sync + 'static,
    R: Future<Output = Reply> + Send + 'static,
{
    let changes = verb != Verb::Get;
    let contract = Arc::new(Contract { is_personal: capability == Capability::ReadOwnAcl, ..contract });
    Route {
        verb,
        path,
        capability,
        namespace_from,
        summary,
        contract,
        is_metered: true,
        changes,
        recorded: AuditMode::of(changes, capability),
        needs_state: !matches!(capability, Capability::Anonymous | Capability::AgentRead),
        handler: Arc::new(move |call| Box::pin(handler(call))),
    }
}
