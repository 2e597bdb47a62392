//! How the tasks of an allocation fare: what its agent saw, corrected by how they ended once that is logged.

use std::collections::BTreeMap;

use berth_api::http::{TaskEvent, TaskState, Time};
use berth_model::{
    alloc::TaskResult,
    observed::{self, ObservedTask},
};

use crate::{access::Parts, http::text::Text};

/// By task name; none while nothing is known.
pub(super) fn task_states<'v>(parts: &Parts<'v>) -> Option<BTreeMap<Text<'v>, TaskState<Text<'v>>>> {
    let mut states: BTreeMap<_, _> =
        observed_tasks(parts).map(|task| ((&task.name).into(), observed(task))).collect();
    let results = parts.detail.extra.iter().flat_map(|extra| &extra.results);
    for (task, result) in parts.group.tasks.iter().zip(results) {
        ended(states.entry((&task.name).into()).or_default(), result);
    }
    (!states.is_empty()).then_some(states)
}

fn observed_tasks<'v>(parts: &Parts<'v>) -> impl Iterator<Item = &'v ObservedTask> {
    parts.observed.into_iter().flat_map(|observation| &observation.alloc.tasks)
}

fn observed(task: &ObservedTask) -> TaskState<Text<'_>> {
    TaskState {
        state: task.state.as_str().into(),
        failed: task.failed,
        restarts: task.restarts,
        last_restart: Time(task.last_restart.0),
        started_at: Time(task.started_at.0),
        finished_at: Time(task.finished_at.0),
        events: task.events.iter().map(event).collect(),
    }
}

fn event(event: &observed::TaskEvent) -> TaskEvent<Text<'_>> {
    let mut details = BTreeMap::new();
    if ends_process(event.kind) {
        details = exit_details(event.exit_code, event.signal, event.oom_killed);
    }
    let exit = (event.exit_code, event.signal, event.oom_killed);
    TaskEvent {
        kind: event.kind.into(),
        time: event.at.0,
        message: (&event.message).into(),
        display_message: display(event.kind, &event.message, exit),
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

/// For people: of an end, the exit code, the signal, and whether the kernel killed it for want of memory.
fn display<'v>(kind: &str, message: &'v str, exit: (i32, i32, bool)) -> Text<'v> {
    if !ends_process(kind) {
        return message.into();
    }
    let (exit_code, signal, oom_killed) = exit;
    let memory = if oom_killed { ", out of memory: killed at the task's memory limit" } else { "" };
    let message = if message.is_empty() { String::new() } else { format!(", {message}") };
    format!("Exit Code: {exit_code}, Signal: {signal}{memory}{message}").into()
}

fn exit_details<'v>(exit_code: i32, signal: i32, oom_killed: bool) -> BTreeMap<Text<'v>, Text<'v>> {
    let details = [
        ("exit_code", exit_code.to_string().into()),
        ("oom_killed", if oom_killed { "true" } else { "false" }.into()),
        ("signal", signal.to_string().into()),
    ];
    details.map(|(name, value)| (name.into(), value)).into()
}

/// What is logged wins; the events that led there are only ever observed.
fn ended<'v>(state: &mut TaskState<Text<'v>>, result: &'v TaskResult) {
    state.state = observed::TaskState::Dead.as_str().into();
    state.failed = result.failed;
    state.restarts = result.restarts;
    state.started_at = Time(result.started_at.0);
    state.finished_at = Time(result.finished_at.0);
    if state.events.is_empty() {
        state.events.push(TaskEvent {
            kind: TERMINATED.into(),
            time: result.finished_at.0,
            message: (&result.message).into(),
            display_message: display(
                TERMINATED,
                &result.message,
                (result.exit_code, result.signal, result.oom_killed),
            ),
            details: exit_details(result.exit_code, result.signal, result.oom_killed),
            fails_task: result.failed,
            exit_code: result.exit_code,
            signal: result.signal,
            start_delay: 0,
        });
    }
}
