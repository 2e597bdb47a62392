//! Commands to single tasks: restart them, send them a signal.

use berth_api::{
    agent::{AgentOutcome, AgentQuery, RestartTasks, SignalTasks},
    http::{AllocRestart, AllocSignal},
};
use serde_json::{Map, Value};

use super::{agent_of, unexpected_response};
use crate::http::{
    agents::AllocAgent,
    call::{Call, Reply},
    reply,
};

/// What is sent when nobody says which signal.
const SIGNAL_DEFAULT: &str = "SIGKILL";

/// `PUT /v1/client/allocation/:id/restart`
pub async fn restart(mut call: Call) -> Reply {
    let agent = agent_of(&call)?;
    let AllocRestart { task_name: task, all_tasks: all } = call.json_or_default().await?;
    send_command(&call, &agent, |alloc_id| AgentQuery::Restart(RestartTasks { alloc_id, task, all })).await
}

/// `PUT /v1/client/allocation/:id/signal`
pub async fn signal(mut call: Call) -> Reply {
    let agent = agent_of(&call)?;
    let AllocSignal { task, signal } = call.json_or_default().await?;
    let signal = if signal.is_empty() { SIGNAL_DEFAULT.to_owned() } else { signal };
    send_command(&call, &agent, |alloc_id| AgentQuery::Signal(SignalTasks { alloc_id, task, signal })).await
}

async fn send_command(call: &Call, agent: &AllocAgent, query: impl FnOnce(Vec<u8>) -> AgentQuery) -> Reply {
    match agent.ask(query).await? {
        AgentOutcome::Done(_) => reply::json(&call.query, &Map::<String, Value>::new()),
        _ => Err(unexpected_response()),
    }
}
