//! The results of an allocation's checks, requested from its agent.

use std::collections::BTreeMap;

use berth_api::{
    agent::{AgentOutcome, AgentQuery, GetAllocChecks},
    http::AllocCheck,
};

use super::{agent_of, unexpected_response};
use crate::{
    http::{
        call::{Call, Reply},
        reply,
    },
    nomad::{
        allocations::{find, id_of},
        convert,
    },
};

/// `GET /v1/client/allocation/:id/checks`: by their ids. Of an allocation without any, or that has ended, nobody is asked:
/// clients ask this of each.
pub async fn checks(call: Call) -> Reply {
    let has_any = {
        let view = call.view();
        let parts = find(&view, id_of(&call)?)?;
        let group = parts.job.groups.get(usize::from(parts.row.group));
        let asks = group.is_some_and(|group| {
            let mut services =
                group.services.iter().chain(group.tasks.iter().flat_map(|task| &task.services));
            services.any(|service| !service.checks.is_empty())
        });
        asks && !parts.row.is_terminal()
    };
    if !has_any {
        return reply::json(&call.query, &BTreeMap::<String, AllocCheck>::new());
    }
    match agent_of(&call)?.ask(|alloc_id| AgentQuery::AllocChecks(GetAllocChecks { alloc_id })).await? {
        AgentOutcome::AllocChecks(checks) => reply::json(&call.query, &convert::alloc_checks(&checks)),
        _ => Err(unexpected_response()),
    }
}
