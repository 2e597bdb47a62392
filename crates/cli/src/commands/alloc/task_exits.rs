//! How often an allocation's tasks were started again, and how the last one of them ended.

use std::collections::BTreeMap;

use berth_api::http::{TaskEvent, TaskState};

use crate::output::Cell;

/// Whether an allocation of that status has not ended.
pub fn is_live(status: &str) -> bool {
    matches!(status, "pending" | "running" | "unknown")
}

/// What listings show of the ends of an allocation's tasks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TaskExits {
    /// Restarts of all tasks together.
    pub restarts: u32,
    /// As `exit 1`, `signal 9`, `out of memory` or `disk limit`; `unknown` where nobody saw it end; `no start` when the last
    /// start failed; none when none has ended.
    pub exit: Option<String>,
}

impl TaskExits {
    /// The exits of all tasks.
    pub fn of(tasks: Option<&BTreeMap<String, TaskState>>) -> Self {
        let tasks = || tasks.into_iter().flat_map(BTreeMap::values);
        let ends = tasks().flat_map(|task| &task.events).filter(is_end);
        let last = ends.max_by_key(|event| event.time);
        let restarts = tasks().map(|task| task.restarts).fold(0, u32::saturating_add);
        Self { restarts, exit: last.map(exit_text) }
    }

    /// The exits of one task.
    pub fn of_task(task: &TaskState) -> Self {
        let exit = last(task).map(exit_text);
        Self { restarts: task.restarts, exit }
    }

    /// For a table. What has never ended says so: an empty cell lets the zero of the column before it pass for an exit code.
    pub fn exit_cell(&self) -> Cell {
        self.exit.as_deref().unwrap_or("-").into()
    }
}

/// The last end of a task, or its last start that failed, whichever came later.
fn last(task: &TaskState) -> Option<&TaskEvent> {
    task.events.iter().rfind(is_end)
}

/// How a task ended last; none where a start has failed since.
pub fn last_exit(task: &TaskState) -> Option<&TaskEvent> {
    last(task).filter(|event| !is_failed_start(event))
}

fn is_end(event: &&TaskEvent) -> bool {
    event.kind == "Terminated" || is_failed_start(event)
}

fn is_failed_start(event: &TaskEvent) -> bool {
    matches!(event.kind.as_str(), "Driver Failure" | "Setup Failure")
}

fn exit_text(event: &TaskEvent) -> String {
    if is_failed_start(event) {
        return "no start".to_owned();
    }
    let is = |detail| event.details.get(detail).is_some_and(|value| value == "true");
    if is("oom_killed") {
        return "out of memory".to_owned();
    }
    if is("disk_limit") {
        return "disk limit".to_owned();
    }
    match event.signal {
        // No process has such an exit code: its keeper was killed.
        0 if event.exit_code < 0 => "unknown".to_owned(),
        0 => format!("exit {}", event.exit_code),
        signal => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_end_of_any_task_is_shown() {
        let end = |time, exit_code, signal| TaskEvent {
            kind: "Terminated".to_owned(),
            time,
            exit_code,
            signal,
            ..TaskEvent::default()
        };
        let task = |restarts, events| TaskState { restarts, events, ..TaskState::default() };
        let tasks = [
            ("a".to_owned(), task(2, vec![end(1, 3, 0), end(5, 0, 9)])),
            ("b".to_owned(), task(1, vec![end(4, 1, 0)])),
        ];
        let ends = TaskExits::of(Some(&tasks.into()));
        assert_eq!((ends.restarts, ends.exit.as_deref()), (3, Some("signal 9")));
        assert_eq!(TaskExits::of(None), TaskExits::default());
        let failed = TaskEvent { kind: "Driver Failure".to_owned(), time: 9, ..TaskEvent::default() };
        let fails = task(7, vec![end(1, 3, 0), failed]);
        let never_started = TaskExits { restarts: 7, exit: Some("no start".to_owned()) };
        assert_eq!(TaskExits::of_task(&fails), never_started);
        assert_eq!(TaskExits::of(Some(&[("a".to_owned(), fails)].into())), never_started);
        for (detail, signal, exit_code, expected) in [
            ("oom_killed", 9, 0, "out of memory"),
            ("disk_limit", 9, 0, "disk limit"),
            ("other", 0, -1, "unknown"),
        ] {
            let mut ended = end(1, exit_code, signal);
            ended.details.insert(detail.into(), "true".into());
            let ends = TaskExits::of(Some(&[("a".to_owned(), task(0, vec![ended]))].into()));
            assert_eq!(ends.exit.as_deref(), Some(expected));
        }
    }
}
