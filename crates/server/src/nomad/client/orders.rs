//! Orders about single tasks: restart them, send them a signal.

use berth_api::{
    agent::{Outcome, Question, RestartTasks, SignalTasks},
    http::{AllocRestart, AllocSignal},
};
use serde_json::{Map, Value};

use super::{Target, odd_answer};
use crate::http::{
    call::{Call, Reply},
    reply,
};

/// What is sent when nobody says which signal.
const SIGNAL_DEFAULT: &str = "SIGKILL";

/// `PUT /v1/client/allocation/:id/restart`
pub async fn restart(mut call: Call) -> Reply {
    let target = Target::of(&call)?;
    let AllocRestart { task_name, all_tasks } = call.json_or_default().await?;
    let asked = RestartTasks { alloc_id: target.id(), task: task_name, all: all_tasks };
    order(&call, &target, Question::Restart(asked)).await
}

/// `PUT /v1/client/allocation/:id/signal`
pub async fn signal(mut call: Call) -> Reply {
    let target = Target::of(&call)?;
    let AllocSignal { task, signal } = call.json_or_default().await?;
    let signal = if signal.is_empty() { SIGNAL_DEFAULT.to_owned() } else { signal };
    let asked = SignalTasks { alloc_id: target.id(), task, signal };
    order(&call, &target, Question::Signal(asked)).await
}

async fn order(call: &Call, target: &Target, question: Question) -> Reply {
    match target.ask(call, question).await? {
        Outcome::Done(_) => reply::json(&call.query, &Map::<String, Value>::new()),
        _ => Err(odd_answer()),
    }
}
