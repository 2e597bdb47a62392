//! How the checks of an allocation stand, asked of its agent.

use std::collections::BTreeMap;

use berth_api::{
    agent::{AskAllocChecks, Outcome, Question},
    http::AllocCheck,
};

use super::{agent_of, odd_answer};
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
    match agent_of(&call)?.ask(|alloc_id| Question::AllocChecks(AskAllocChecks { alloc_id })).await? {
        Outcome::AllocChecks(checks) => reply::json(&call.query, &convert::alloc_checks(&checks)),
        _ => Err(odd_answer()),
    }
}
