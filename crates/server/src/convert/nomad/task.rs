//! How the tasks of an allocation fare: what its agent saw, corrected by how they ended once that is logged.

use std::collections::BTreeMap;

use berth_api::http::{TaskEvent, TaskState, Time};
use berth_model::{
    alloc::TaskResult,
    observed::{self, ObservedTask},
};

use super::Parts;

/// By task name; none while nothing is known.
pub(super) fn task_states(parts: &Parts<'_>) -> Option<BTreeMap<String, TaskState>> {
    let mut states: BTreeMap<_, _> =
        observed_tasks(parts).map(|task| (task.name.clone(), observed(task))).collect();
    let results = parts.detail.extra.iter().flat_map(|extra| &extra.results);
    for (task, result) in parts.group.tasks.iter().zip(results) {
        ended(states.entry(task.name.clone()).or_default(), result);
    }
    (!states.is_empty()).then_some(states)
}

fn observed_tasks<'v>(parts: &Parts<'v>) -> impl Iterator<Item = &'v ObservedTask> {
    parts.observed.into_iter().flat_map(|observation| &observation.alloc.tasks)
}

fn observed(task: &ObservedTask) -> TaskState {
    TaskState {
        state: task.state.as_str().to_owned(),
        failed: task.failed,
        restarts: task.restarts,
        last_restart: Time(task.last_restart.0),
        started_at: Time(task.started_at.0),
        finished_at: Time(task.finished_at.0),
        events: task.events.iter().map(event).collect(),
    }
}

fn event(event: &observed::TaskEvent) -> TaskEvent {
    let mut details = BTreeMap::new();
    if ends_process(event.kind) {
        details = exit_details(event.exit_code, event.signal, event.oom_killed);
    }
    TaskEvent {
        kind: event.kind.to_owned(),
        time: event.at.0,
        message: event.message.clone(),
        display_message: display(event.kind, &event.message, event.exit_code, event.signal),
        details,
        fails_task: event.fails_task,
        exit_code: event.exit_code,
        signal: event.signal,
        start_delay: event.delay_ns,
    }
}

/// The event that tells of the end of a process, as Nomad's clients know it.
const TERMINATED: &str = "Terminated";

fn ends_process(kind: &str) -> bool {
    kind == TERMINATED
}

fn display(kind: &str, message: &str, exit_code: i32, signal: i32) -> String {
    match (ends_process(kind), message.is_empty()) {
        (true, true) => format!("Exit Code: {exit_code}, Signal: {signal}"),
        (true, false) => format!("Exit Code: {exit_code}, Signal: {signal}, {message}"),
        (false, _) => message.to_owned(),
    }
}

fn exit_details(exit_code: i32, signal: i32, oom_killed: bool) -> BTreeMap<String, String> {
    let details = [
        ("exit_code", exit_code.to_string()),
        ("oom_killed", oom_killed.to_string()),
        ("signal", signal.to_string()),
    ];
    details.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What is logged wins; the events that led there are only ever observed.
fn ended(state: &mut TaskState, result: &TaskResult) {
    state.state = observed::TaskState::Dead.as_str().to_owned();
    state.failed = result.failed;
    state.restarts = result.restarts;
    state.started_at = Time(result.started_at.0);
    state.finished_at = Time(result.finished_at.0);
    if state.events.is_empty() {
        state.events.push(TaskEvent {
            kind: TERMINATED.to_owned(),
            time: result.finished_at.0,
            message: result.message.clone(),
            display_message: display(TERMINATED, &result.message, result.exit_code, result.signal),
            details: exit_details(result.exit_code, result.signal, result.oom_killed),
            fails_task: result.failed,
            exit_code: result.exit_code,
            signal: result.signal,
            start_delay: 0,
        });
    }
}
