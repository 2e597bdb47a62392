//! Why an allocation is unhealthy: what ended its tasks, as their events have it, and what its agent waited for in vain.

use berth_model::{
    Timestamp,
    deployment::HEALTH_MESSAGE_BYTES_MAX,
    observed::{ObservedAlloc, ObservedTask, TaskEvent},
};

/// What agents call the events of a task, by Nomad's names.
const STARTED: &str = "Started";
const ENDS: [&str; 3] = ["Terminated", "Driver Failure", "Setup Failure"];
const RESTART_SIGNALED: &str = "Restart Signaled";
const NOT_RESTARTING: &str = "Not Restarting";

/// What ended a task last and why it was not started again; where none has failed, also what the agent waited for. At most
/// [`HEALTH_MESSAGE_BYTES_MAX`] bytes.
pub(super) fn why_unhealthy(alloc: &ObservedAlloc) -> String {
    let troubled = alloc.tasks.iter().filter(|task| task.failed || task.restarts > 0);
    let last = troubled.filter_map(what_ended).max_by_key(|(at, _)| *at).map(|(_, why)| why);
    let waited_for = Some(&alloc.health_message)
        .filter(|message| !message.is_empty())
        .filter(|_| last.is_none() || !alloc.tasks.iter().any(|task| task.failed));
    let mut why = last.into_iter().chain(waited_for.cloned()).collect::<Vec<_>>().join("; ");
    why.truncate(why.floor_char_boundary(HEALTH_MESSAGE_BYTES_MAX));
    why
}

/// When a task ended last, and by what: a restart that a check called for is named by that check, since how the process
/// ended says nothing of it.
fn what_ended(task: &ObservedTask) -> Option<(Timestamp, String)> {
    let (refusal, before) = match task.events.iter().rposition(|event| event.kind == NOT_RESTARTING) {
        Some(at) => (Some(&task.events[at]), &task.events[..at]),
        None => (None, &task.events[..]),
    };
    let end = before.iter().rposition(is_end);
    let cause = end.map(|at| signaled(&before[..at]).unwrap_or(&before[at]));
    let at = refusal.or(end.map(|at| &before[at]))?.at;
    let named = cause.into_iter().chain(refusal).map(|event| format!("{}: {}", event.kind, described(event)));
    Some((at, format!("task {}: {}", task.name, named.collect::<Vec<_>>().join("; "))))
}

/// Whether a process ended by it, or never began.
fn is_end(event: &TaskEvent) -> bool {
    ENDS.contains(&event.kind) || event.fails_task
}

/// The restart that was called for since the process started, which has ended after these events.
fn signaled(before: &[TaskEvent]) -> Option<&TaskEvent> {
    let of_this_start = before.iter().rev().take_while(|event| event.kind != STARTED);
    of_this_start.filter(|event| event.kind == RESTART_SIGNALED).last()
}

fn described(event: &TaskEvent) -> String {
    match event {
        event if !event.message.is_empty() => event.message.clone(),
        event if event.oom_killed => "out of memory".to_owned(),
        event if event.signal != 0 => format!("signal {}", event.signal),
        event => format!("exit code {}", event.exit_code),
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{AllocId, alloc::ClientStatus, observed::TaskState};

    use super::*;

    const UNHEALTHY: (&str, &str) = (RESTART_SIGNALED, "healthcheck: check \"ready\" unhealthy");
    const EXITED: (&str, &str) = (ENDS[0], "");

    fn task(failed: bool, events: &[(&'static str, &str)]) -> ObservedTask {
        let event = |(at, (kind, message)): (u64, &(&'static str, &str))| TaskEvent {
            kind,
            at: Timestamp(at),
            message: (*message).into(),
            exit_code: 0,
            signal: 0,
            oom_killed: false,
            delay_ns: 0,
            fails_task: *kind == NOT_RESTARTING,
        };
        ObservedTask {
            name: "web".into(),
            state: TaskState::Pending,
            failed,
            restarts: 1,
            last_restart: Timestamp(1),
            started_at: Timestamp(1),
            finished_at: Timestamp(0),
            exit: (0, 0, false),
            events: (1..).zip(events).map(event).collect(),
        }
    }

    fn why(message: &str, tasks: Vec<ObservedTask>) -> String {
        why_unhealthy(&ObservedAlloc {
            id: AllocId(1),
            status: ClientStatus::Pending,
            description: String::new(),
            tasks,
            modified_at: Timestamp(9),
            healthy: Some(false),
            health_message: message.into(),
            revision: 0,
            hash: 0,
        })
    }

    #[test]
    fn what_a_check_ended_is_named_by_the_check() {
        let refused = (NOT_RESTARTING, "Policy allows no restarts");
        let failed = task(true, &[(STARTED, ""), UNHEALTHY, ("Killing", ""), EXITED, refused]);
        assert_eq!(
            why("a task has failed", vec![failed]),
            "task web: Restart Signaled: healthcheck: check \"ready\" unhealthy; \
             Not Restarting: Policy allows no restarts"
        );
        let restarting = ("Restarting", "Restart within policy");
        let between = task(false, &[(STARTED, ""), UNHEALTHY, ("Killing", ""), EXITED, restarting]);
        assert_eq!(
            why("task web did not run by the healthy_deadline of 8s", vec![between]),
            "task web: Restart Signaled: healthcheck: check \"ready\" unhealthy; \
             task web did not run by the healthy_deadline of 8s"
        );
    }

    #[test]
    fn what_ended_by_itself_is_named_by_its_end() {
        let restarting = ("Restarting", "Restart within policy");
        let events = [(STARTED, ""), UNHEALTHY, EXITED, restarting, (STARTED, ""), EXITED, restarting];
        assert_eq!(why("", vec![task(false, &events)]), "task web: Terminated: exit code 0");
        let refused = (NOT_RESTARTING, "Policy allows no restarts");
        assert_eq!(
            why("a task has failed", vec![task(true, &[(STARTED, ""), EXITED, refused])]),
            "task web: Terminated: exit code 0; Not Restarting: Policy allows no restarts"
        );
    }

    #[test]
    fn what_has_no_such_task_is_named_by_its_agent() {
        assert_eq!(why("check \"ready\" was not passing", Vec::new()), "check \"ready\" was not passing");
        let started = task(false, &[(STARTED, "")]);
        assert_eq!(why("late", vec![started]), "late");
    }
}
