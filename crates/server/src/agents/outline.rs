//! Bounds what a report contains before it is decoded: in memory a task takes a hundred times its encoded bytes.

use std::io;

use berth_api::agent::{self as wire, AllocStatus, TaskStatus};
use berth_model::observed::{ObservedAlloc, ObservedTask, TaskEvent};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// Tasks that one allocation's report may hold; those that its group does not have are left out later.
const TASKS_MAX: usize = 1_000;
/// Events of one of them.
const EVENTS_MAX: usize = 100;
/// What each takes in memory besides its texts, as it comes and as it is kept.
const ALLOC_BYTES: usize = size_of::<AllocStatus>() + size_of::<ObservedAlloc>();
const TASK_BYTES: usize = size_of::<TaskStatus>() + size_of::<ObservedTask>();
const EVENT_BYTES: usize = size_of::<wire::TaskEventEntry>() + size_of::<TaskEvent>();
/// Their field numbers in `AllocStatus` and in `TaskStatus`.
const TASKS_TAG: u32 = 4;
const EVENTS_TAG: u32 = 8;

/// What a report takes in memory once it is decoded, as it came and as the server keeps it, at most. Refuses one that
/// holds more than any allocation has.
///
/// # Errors
/// When it does, or is no message.
pub(super) fn memory_bytes(status: &[u8]) -> io::Result<usize> {
    let (mut tasks, mut all_events) = (0, 0);
    each(status, TASKS_TAG, |task| {
        tasks += 1;
        let mut events = 0;
        if tasks > TASKS_MAX {
            return Err(too_many(TASKS_MAX, "tasks of an allocation"));
        }
        each(task, EVENTS_TAG, |_| {
            events += 1;
            all_events += 1;
            if events > EVENTS_MAX { Err(too_many(EVENTS_MAX, "events of a task")) } else { Ok(()) }
        })
    })?;
    // Lists grow by doubling; texts stand in the report, too.
    let parts = ALLOC_BYTES + 2 * (tasks * TASK_BYTES + all_events * EVENT_BYTES);
    Ok(parts + 2 * status.len())
}

fn too_many(max: usize, what: &str) -> io::Error {
    io::Error::other(format!("a report of more than {max} {what}: none has so many"))
}

/// Visits each field of a message that has this number, in its encoded form.
fn each(mut message: &[u8], tag: u32, mut visit: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    while !message.is_empty() {
        let (field, wire) = decode_key(&mut message).map_err(io::Error::other)?;
        if (field, wire) != (tag, WireType::LengthDelimited) {
            skip_field(wire, field, &mut message, DecodeContext::default()).map_err(io::Error::other)?;
            continue;
        }
        let length = decode_varint(&mut message).map_err(io::Error::other)?;
        let part = usize::try_from(length).ok().and_then(|length| message.split_at_checked(length));
        let (part, rest) = part.ok_or_else(|| io::Error::other("a part is longer than its message"))?;
        visit(part)?;
        message = rest;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use berth_api::agent::TaskEventEntry;
    use prost::Message;

    use super::*;

    fn report(tasks: usize, events: usize) -> Vec<u8> {
        let task = TaskStatus { events: vec![TaskEventEntry::default(); events], ..TaskStatus::default() };
        let status = AllocStatus {
            alloc_id: vec![1; 16],
            description: "it runs".into(),
            tasks: vec![task; tasks],
            modified_ns: 7,
            ..AllocStatus::default()
        };
        status.encode_to_vec()
    }

    #[test]
    fn a_report_holds_as_much_as_an_allocation_can_have_and_no_more() {
        assert!(memory_bytes(&report(TASKS_MAX, 1)).is_ok());
        assert!(memory_bytes(&report(1, EVENTS_MAX)).is_ok());
        let refused = |report: &[u8]| memory_bytes(report).expect_err("it is too much").to_string();
        let message = refused(&report(TASKS_MAX + 1, 0));
        assert_eq!(message, "a report of more than 1000 tasks of an allocation: none has so many");
        let message = refused(&report(1, EVENTS_MAX + 1));
        assert_eq!(message, "a report of more than 100 events of a task: none has so many");
        assert!(memory_bytes(&report(1, 1)[..30]).is_err(), "a part of a message is none");
    }

    #[test]
    fn tiny_tasks_are_counted_as_what_they_take_in_memory() {
        let report = report(TASKS_MAX, 0);
        let bytes = memory_bytes(&report).expect("it is a report");
        assert!(report.len() < 3_000 && bytes > 100 * report.len(), "{bytes} for {}", report.len());
        assert!(memory_bytes(&self::report(2, 3)).expect("it is a report") < 5_000);
    }
}
