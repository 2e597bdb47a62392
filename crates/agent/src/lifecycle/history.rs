//! A task's last events.

use std::time::Duration;

use berth_api::agent::{TaskEventEntry, TaskEventKind, TaskStatus};

/// How many events of a task are kept.
pub const EVENTS_MAX: usize = 10;

/// How much of a message is kept.
pub const MESSAGE_BYTES_MAX: usize = 512;

pub(super) fn event(kind: TaskEventKind, at_ns: u64, message: impl Into<String>) -> TaskEventEntry {
    TaskEventEntry { kind: kind as i32, at_ns, message: bounded(message.into()), ..TaskEventEntry::default() }
}

/// The oldest makes room, but for the last end of the task: a start that has much to say must not hide how the one before it
/// ended.
pub(super) fn push(status: &mut TaskStatus, event: TaskEventEntry) {
    if status.events.len() >= EVENTS_MAX {
        let is_end = |event: &TaskEventEntry| event.kind() == TaskEventKind::Terminated;
        let last_end = status.events.iter().rposition(is_end);
        let is_kept = last_end == Some(0) && !is_end(&event);
        status.events.remove(usize::from(is_kept));
    }
    status.events.push(event);
}

fn bounded(message: String) -> String {
    cut(message, MESSAGE_BYTES_MAX)
}

/// No more of a text than that many bytes.
pub(super) fn cut(mut text: String, bytes_max: usize) -> String {
    text.truncate(text.floor_char_boundary(bytes_max));
    text
}

/// A duration as Nomad's events have it.
pub(super) fn go_duration(ms: u64) -> String {
    berth_duration::as_go_writes_it(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_end_stays_however_much_follows_it() {
        let mut status = TaskStatus::default();
        for at_ns in [1, 2] {
            push(&mut status, event(TaskEventKind::Terminated, at_ns, ""));
        }
        (3..40).for_each(|at_ns| push(&mut status, event(TaskEventKind::Driver, at_ns, "")));
        let times: Vec<u64> = status.events.iter().map(|event| event.at_ns).collect();
        assert_eq!(times, [2, 31, 32, 33, 34, 35, 36, 37, 38, 39]);
        push(&mut status, event(TaskEventKind::Terminated, 40, ""));
        assert_eq!((status.events.len(), status.events[0].at_ns), (EVENTS_MAX, 31));
    }

    #[test]
    fn long_messages_are_cut_between_characters() {
        let cut = event(TaskEventKind::Driver, 0, "é".repeat(MESSAGE_BYTES_MAX)).message;
        assert_eq!(cut.len(), MESSAGE_BYTES_MAX);
        assert_eq!(bounded(format!("x{cut}")).len(), MESSAGE_BYTES_MAX - 1);
    }
}
