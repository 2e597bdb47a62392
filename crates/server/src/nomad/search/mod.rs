//! Search, for completion and command palettes.

mod fuzzy;
mod prefix;

pub(super) use fuzzy::fuzzy;
pub(super) use prefix::prefix;

use crate::{
    access::{Access, Capability, Denied, Realm},
    http::failure::Failure,
};

/// Matches returned of one context.
const MATCHES_MAX: usize = 20;
/// Names that one search looks at, some hundreds of milliseconds; what lies beyond is not found.
const NAMES_MAX: usize = 1_000_000;
/// Stands for every context.
const ALL: &str = "all";
/// Contexts that other servers have: nothing is ever found there.
const EMPTY_CONTEXTS: &[&str] = &["host_volumes", "plugins", "recommendations", "volumes"];

/// The requested contexts: one, if the caller may see anything there, or all of those.
fn contexts_of<'c>(context: &str, known: &[&'c str], access: &Access) -> Result<Vec<&'c str>, Failure> {
    if context.is_empty() || context == ALL {
        return Ok(known.iter().copied().filter(|context| permit(access, context).is_ok()).collect());
    }
    let context = if context == "deployments" { "deployment" } else { context };
    if EMPTY_CONTEXTS.contains(&context) {
        return Ok(Vec::new());
    }
    let found = known.iter().find(|known| **known == context);
    let context = found.ok_or_else(|| {
        let cut: String = context.chars().take(64).collect();
        Failure::bad_request(format!("Context: `{cut}` is not one of {ALL}, {}", known.join(", ")))
    })?;
    permit(access, context)?;
    Ok(vec![*context])
}

/// Refuses a context in which the caller would never find anything for want of rights. What is found in one is asked of each thing.
fn permit(access: &Access, context: &str) -> Result<(), Denied> {
    match context {
        "nodes" | "classes" if access.sees_nodes() => Ok(()),
        "nodes" | "classes" => access.require_any(Capability::NodeRead, Realm::Cluster),
        "node_pools" => access.require_any(Capability::NodePoolRead, Realm::SomeNodePool),
        "quotas" if access.sees_quotas() => Ok(()),
        "quotas" => access.require_any(Capability::QuotaRead, Realm::Cluster),
        "vars" => access.require_any(Capability::VariablesList, Realm::SomeVariable),
        "namespaces" => access.require_any(Capability::ListNamespaces, Realm::SomeNamespace),
        _ => access.require_jobs(),
    }
}
