//! Resource usage of tasks and machines, sampled at the time of the request.

use std::collections::BTreeMap;

use berth_api::{
    agent::{AgentOutcome, AgentQuery, GetAllocUsage, GetNodeAllocUsage, GetNodeUsage},
    http::AllocResourceUsage,
};
use berth_model::AllocId;

use super::{agent_of, task_metrics, unexpected_response};
use crate::{
    http::{
        call::{Call, Reply},
        reply,
    },
    nomad::{convert, nodes},
};

/// `GET /v1/client/allocation/:id/stats`
pub async fn allocation(call: Call) -> Reply {
    let agent = agent_of(&call)?;
    let task = call.query.text("task").unwrap_or_default().to_owned();
    match agent.ask(|alloc_id| AgentQuery::AllocUsage(GetAllocUsage { alloc_id, task })).await? {
        AgentOutcome::AllocUsage(usage) => reply::json(&call.query, &convert::alloc_usage(&usage)),
        _ => Err(unexpected_response()),
    }
}

/// `GET /v1/client/stats`
pub async fn node(call: Call) -> Reply {
    let node = nodes::of_query(&call)?;
    match call.ask_node(&call.view(), node, AgentQuery::NodeUsage(GetNodeUsage {})).await? {
        AgentOutcome::NodeUsage(usage) => reply::json(&call.query, &convert::host_stats(&usage)),
        _ => Err(unexpected_response()),
    }
}

/// `GET /v1/client/stats/allocations`: by their ids; of those that the caller sees.
pub async fn allocations(call: Call) -> Reply {
    if call.query.word("format", &[("json", false), ("prometheus", true)], false)? {
        return task_metrics::read(&call).await;
    }
    let node = nodes::of_query(&call)?;
    let query = AgentQuery::NodeAllocUsage(GetNodeAllocUsage {});
    let AgentOutcome::NodeAllocUsage(usage) = call.ask_node(&call.view(), node, query).await? else {
        return Err(unexpected_response());
    };
    let view = call.view();
    let mut seen: BTreeMap<String, AllocResourceUsage> = BTreeMap::new();
    for of in usage.allocs {
        if let Some(id) = AllocId::from_slice(&of.alloc_id).filter(|id| view.alloc(*id).is_some()) {
            seen.insert(id.to_string(), convert::alloc_usage(&of.usage));
        }
    }
    reply::json(&call.query, &seen)
}
