//! The status of an allocation's tasks: as observed by its agent, corrected by the logged end.

use std::collections::BTreeMap;

use berth_api::{
    agent::OVER_DISK_LIMIT,
    http::{TaskEvent, TaskState, Time},
};
use berth_model::{
    alloc::TaskResult,
    observed::{self, ObservedTask},
};

use crate::{access::AllocParts, http::text::Text};

/// By task name; none while nothing is known.
pub(super) fn task_states<'v>(parts: &AllocParts<'v>) -> Option<BTreeMap<Text<'v>, TaskState<Text<'v>>>> {
    let living = parts.observed.into_iter().flat_map(|observation| &observation.alloc.tasks);
    let mut states: BTreeMap<Text<'v>, _> =
        living.map(|task| ((&task.name).into(), observed(task, Text::from))).collect();
    let copied = |text: &String| text.clone().into();
    let ended = parts.observed_end();
    let past = ended.iter().flat_map(|alloc| &alloc.tasks);
    states.extend(past.map(|task| (copied(&task.name), observed(task, copied))));
    for (task, result) in parts.group.tasks.iter().zip(parts.detail.results().decode()) {
        end(states.entry((&task.name).into()).or_default(), result);
    }
    (!states.is_empty()).then_some(states)
}

/// `text` borrows or copies.
fn observed<'t, 'v>(
    task: &'t ObservedTask,
    text: impl Fn(&'t String) -> Text<'v> + Copy,
) -> TaskState<Text<'v>> {
    TaskState {
        state: task.state.as_str().into(),
        failed: task.failed,
        restarts: task.restarts,
        last_restart: Time(task.last_restart.0),
        started_at: Time(task.started_at.0),
        finished_at: Time(task.finished_at.0),
        events: task.events.iter().map(|one| event(one, text)).collect(),
    }
}

fn event<'t, 'v>(
    event: &'t observed::TaskEvent,
    text: impl Fn(&'t String) -> Text<'v>,
) -> TaskEvent<Text<'v>> {
    let exit = (event.exit_code, event.signal, event.oom_killed);
    let ends = event.kind == TERMINATED;
    TaskEvent {
        kind: event.kind.into(),
        time: event.at.0,
        message: text(&event.message),
        display_message: if ends {
            display_of_end(&event.message, exit).into()
        } else {
            text(&event.message)
        },
        details: if ends { exit_details(&event.message, exit) } else { BTreeMap::new() },
        fails_task: event.fails_task,
        exit_code: event.exit_code,
        signal: event.signal,
        start_delay: event.delay_ns,
    }
}

/// The event that reports the end of a process, as Nomad's clients know it.
const TERMINATED: &str = "Terminated";

/// The exit code, the signal, and whether the kernel killed it for want of memory.
fn display_of_end(message: &str, (exit_code, signal, oom_killed): (i32, i32, bool)) -> String {
    let memory = if oom_killed { ", out of memory: killed at the task's memory limit" } else { "" };
    let message = if message.is_empty() { String::new() } else { format!(", {message}") };
    format!("Exit Code: {exit_code}, Signal: {signal}{memory}{message}")
}

/// As Nomad has them, and `disk_limit` where that is why the task was killed.
fn exit_details<'v>(
    message: &str,
    (exit_code, signal, oom_killed): (i32, i32, bool),
) -> BTreeMap<Text<'v>, Text<'v>> {
    let details = [
        ("exit_code", exit_code.to_string().into()),
        ("oom_killed", if oom_killed { "true" } else { "false" }.into()),
        ("signal", signal.to_string().into()),
    ];
    let disk_limit = message.ends_with(OVER_DISK_LIMIT).then(|| ("disk_limit", "true".into()));
    details.into_iter().chain(disk_limit).map(|(name, value)| (name.into(), value)).collect()
}

/// What is logged wins; the events that led there are only ever observed.
fn end(state: &mut TaskState<Text<'_>>, result: TaskResult) {
    state.state = observed::TaskState::Dead.as_str().into();
    state.failed = result.failed;
    state.restarts = result.restarts;
    state.started_at = Time(result.started_at.0);
    state.finished_at = Time(result.finished_at.0);
    if state.events.is_empty() {
        let exit = (result.exit_code, result.signal, result.oom_killed);
        let details = exit_details(&result.message, exit);
        state.events.push(TaskEvent {
            kind: TERMINATED.into(),
            time: result.finished_at.0,
            display_message: display_of_end(&result.message, exit).into(),
            message: result.message.into(),
            details,
            fails_task: result.failed,
            exit_code: result.exit_code,
            signal: result.signal,
            start_delay: 0,
        });
    }
}
