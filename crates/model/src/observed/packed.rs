//! What was observed of an allocation that has ended, kept as few bytes: there are ten times as many of these as of those
//! that run, and they are read one by one.

use std::sync::Arc;

use super::{ObservedAlloc, ObservedTask, TaskEvent, TaskState, event::KINDS};
use crate::{alloc::ClientStatus, ids::AllocId, time::Timestamp};

/// An observation as bytes, without its hash: whose it is and when it last changed, which lists read, at fixed places, and the
/// rest behind them. There, numbers take as many bytes as they need, times are differences to the one before, and most fields
/// are left out while they say nothing. In memory alone, and of this build alone.
#[derive(Debug, Clone)]
pub(super) struct PackedObservation(Arc<[u8]>);

/// Bytes of the id, which come first.
const ID_BYTES: usize = 16;

/// Bytes of the time of the last change, nanoseconds in little-endian order, which follow.
const TIME_BYTES: usize = 8;

/// The kind of an event that no kind is known of.
const UNKNOWN: &str = "Unknown";

/// Flags of an allocation, and its status.
mod whole {
    pub const JUDGED: u64 = 1;
    pub const HEALTHY: u64 = 1 << 1;
    pub const STATUS_SHIFT: u32 = 2;
}

/// Flags of a task, and its state.
mod task {
    pub const FAILED: u64 = 1;
    pub const RESTARTED: u64 = 1 << 1;
    pub const EXITED: u64 = 1 << 2;
    pub const OOM_KILLED: u64 = 1 << 3;
    /// Two bits.
    pub const STATE_SHIFT: u32 = 4;
}

/// Flags of an event, and its kind.
mod of_event {
    pub const EXITED: u64 = 1;
    pub const OOM_KILLED: u64 = 1 << 1;
    pub const DELAYED: u64 = 1 << 2;
    pub const FAILS_TASK: u64 = 1 << 3;
    /// The rest is the kind: its position among those that are known, or as many as there are.
    pub const KIND_SHIFT: u32 = 4;
}

impl PackedObservation {
    pub fn new(alloc: &ObservedAlloc) -> Self {
        let ObservedAlloc {
            id,
            status,
            description,
            tasks,
            modified_at,
            healthy,
            health_message,
            revision,
            hash: _,
        } = alloc;
        let status = match status {
            ClientStatus::Pending => 0,
            ClientStatus::Running => 1,
            ClientStatus::Complete => 2,
            ClientStatus::Failed => 3,
            ClientStatus::Lost => 4,
        };
        let mut out = PackedWriter { bytes: id.to_bytes().to_vec(), time: modified_at.0 };
        out.bytes.extend_from_slice(&modified_at.0.to_le_bytes());
        out.number(
            flag(whole::JUDGED, healthy.is_some())
                | flag(whole::HEALTHY, *healthy == Some(true))
                | status << whole::STATUS_SHIFT,
        );
        out.text(description);
        out.text(health_message);
        out.number(*revision);
        out.number(tasks.len() as u64);
        tasks.iter().for_each(|task| out.task(task));
        Self(out.bytes.into())
    }

    /// The allocation that was observed.
    pub fn id(&self) -> AllocId {
        self.0.get(..ID_BYTES).and_then(AllocId::from_slice).unwrap_or_default()
    }

    /// When it last changed, by the node's clock. Read without decoding the rest.
    pub fn modified_at(&self) -> Timestamp {
        let bytes = self.0.get(ID_BYTES..).and_then(|rest| rest.first_chunk::<TIME_BYTES>());
        Timestamp(bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }

    /// Reads it; its hash is 0.
    pub fn read(&self) -> ObservedAlloc {
        let modified_at = self.modified_at();
        let rest = self.0.get(ID_BYTES + TIME_BYTES..).unwrap_or_default();
        let mut from = PackedReader { bytes: rest, time: modified_at.0 };
        let flags = from.number();
        let (description, health_message) = (from.text(), from.text());
        let (revision, count) = (from.number(), from.number());
        ObservedAlloc {
            id: self.id(),
            status: match flags >> whole::STATUS_SHIFT {
                0 => ClientStatus::Pending,
                1 => ClientStatus::Running,
                2 => ClientStatus::Complete,
                3 => ClientStatus::Failed,
                _ => ClientStatus::Lost,
            },
            description,
            tasks: (0..count).map(|_| from.task()).collect(),
            modified_at,
            healthy: (flags & whole::JUDGED != 0).then_some(flags & whole::HEALTHY != 0),
            health_message,
            revision,
            hash: 0,
        }
    }
}

struct PackedWriter {
    bytes: Vec<u8>,
    /// The last one that was written.
    time: u64,
}

impl PackedWriter {
    /// Seven bits a byte, the lowest first; the last byte has no eighth bit.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
    }

    /// Small ones of either sign in few bytes.
    fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63) as u64);
    }

    fn time(&mut self, Timestamp(time): Timestamp) {
        self.signed(time.wrapping_sub(self.time) as i64);
        self.time = time;
    }

    /// One that says nothing takes a byte and leaves the others' distances short.
    fn time_or_never(&mut self, time: Timestamp) {
        self.number(u64::from(time.0 != 0));
        if time.0 != 0 {
            self.time(time);
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn exit(&mut self, exit_code: i32, signal: i32) {
        self.signed(exit_code.into());
        self.signed(signal.into());
    }

    fn task(&mut self, task: &ObservedTask) {
        let ObservedTask {
            name,
            state,
            failed,
            restarts,
            last_restart,
            started_at,
            finished_at,
            exit: (exit_code, signal, oom_killed),
            events,
        } = task;
        let state = match state {
            TaskState::Pending => 0,
            TaskState::Running => 1,
            TaskState::Dead => 2,
        };
        let (restarted, exited) = (*restarts != 0 || last_restart.0 != 0, (*exit_code, *signal) != (0, 0));
        self.text(name);
        self.number(
            flag(task::FAILED, *failed)
                | flag(task::RESTARTED, restarted)
                | flag(task::EXITED, exited)
                | flag(task::OOM_KILLED, *oom_killed)
                | state << task::STATE_SHIFT,
        );
        self.time_or_never(*started_at);
        self.time_or_never(*finished_at);
        if restarted {
            self.number((*restarts).into());
            self.time_or_never(*last_restart);
        }
        if exited {
            self.exit(*exit_code, *signal);
        }
        self.number(events.len() as u64);
        events.iter().for_each(|event| self.event(event));
    }

    fn event(&mut self, event: &TaskEvent) {
        let TaskEvent { kind, at, message, exit_code, signal, oom_killed, delay_ns, fails_task } = event;
        let kind = KINDS.iter().position(|known| known == kind).unwrap_or(KINDS.len()) as u64;
        let exited = (*exit_code, *signal) != (0, 0);
        self.number(
            flag(of_event::EXITED, exited)
                | flag(of_event::OOM_KILLED, *oom_killed)
                | flag(of_event::DELAYED, *delay_ns != 0)
                | flag(of_event::FAILS_TASK, *fails_task)
                | kind << of_event::KIND_SHIFT,
        );
        self.time_or_never(*at);
        self.text(message);
        if exited {
            self.exit(*exit_code, *signal);
        }
        if *delay_ns != 0 {
            self.number(*delay_ns);
        }
    }
}

fn flag(bit: u64, is_set: bool) -> u64 {
    if is_set { bit } else { 0 }
}

/// Reads what a [`PackedWriter`] wrote. Behind the end everything is zero.
struct PackedReader<'a> {
    bytes: &'a [u8],
    time: u64,
}

impl PackedReader<'_> {
    fn number(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let Some((byte, rest)) = self.bytes.split_first() else { break };
            self.bytes = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        number
    }

    fn signed(&mut self) -> i64 {
        let number = self.number();
        (number >> 1) as i64 ^ -((number & 1) as i64)
    }

    fn time(&mut self) -> Timestamp {
        self.time = self.time.wrapping_add(self.signed() as u64);
        Timestamp(self.time)
    }

    fn time_or_never(&mut self) -> Timestamp {
        if self.number() == 0 { Timestamp::default() } else { self.time() }
    }

    fn text(&mut self) -> String {
        let len = usize::try_from(self.number()).unwrap_or(usize::MAX).min(self.bytes.len());
        let (text, rest) = self.bytes.split_at(len);
        self.bytes = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    fn exit(&mut self) -> (i32, i32) {
        // What was written is within bounds.
        (self.signed() as i32, self.signed() as i32)
    }

    fn task(&mut self) -> ObservedTask {
        let (name, flags) = (self.text(), self.number());
        let (started_at, finished_at) = (self.time_or_never(), self.time_or_never());
        let restarted = flags & task::RESTARTED != 0;
        let restarts = if restarted { self.number() as u32 } else { 0 };
        let last_restart = if restarted { self.time_or_never() } else { Timestamp::default() };
        let (exit_code, signal) = if flags & task::EXITED != 0 { self.exit() } else { (0, 0) };
        let count = self.number();
        ObservedTask {
            name,
            state: match flags >> task::STATE_SHIFT {
                0 => TaskState::Pending,
                1 => TaskState::Running,
                _ => TaskState::Dead,
            },
            failed: flags & task::FAILED != 0,
            restarts,
            last_restart,
            started_at,
            finished_at,
            exit: (exit_code, signal, flags & task::OOM_KILLED != 0),
            events: (0..count).map(|_| self.event()).collect(),
        }
    }

    fn event(&mut self) -> TaskEvent {
        let flags = self.number();
        let (at, message) = (self.time_or_never(), self.text());
        let (exit_code, signal) = if flags & of_event::EXITED != 0 { self.exit() } else { (0, 0) };
        let kind = usize::try_from(flags >> of_event::KIND_SHIFT).unwrap_or(usize::MAX);
        TaskEvent {
            kind: KINDS.get(kind).copied().unwrap_or(UNKNOWN),
            at,
            message,
            exit_code,
            signal,
            oom_killed: flags & of_event::OOM_KILLED != 0,
            delay_ns: if flags & of_event::DELAYED != 0 { self.number() } else { 0 },
            fails_task: flags & of_event::FAILS_TASK != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::alloc::ClientStatus;

    fn time() -> impl Strategy<Value = Timestamp> {
        prop_oneof![Just(0), 1_700_000_000_000_000_000..1_700_000_100_000_000_000_u64, any::<u64>()]
            .prop_map(Timestamp)
    }

    fn task_event() -> impl Strategy<Value = TaskEvent> {
        let kind = prop::sample::select([&KINDS[..], &[UNKNOWN]].concat());
        (kind, time(), ".{0,20}", any::<(i32, i32, bool)>(), any::<u64>(), any::<(bool, bool)>()).prop_map(
            |(kind, at, message, exit, delay_ns, (is_plain, fails_task))| {
                let (exit_code, signal, oom_killed) = if is_plain { (0, 0, false) } else { exit };
                let delay_ns = if is_plain { 0 } else { delay_ns };
                TaskEvent { kind, at, message, exit_code, signal, oom_killed, delay_ns, fails_task }
            },
        )
    }

    fn observed_task() -> impl Strategy<Value = ObservedTask> {
        let states = prop::sample::select(vec![TaskState::Pending, TaskState::Running, TaskState::Dead]);
        let times = (time(), time(), time());
        let events = prop::collection::vec(task_event(), 0..4);
        let restarts = prop_oneof![Just(0), any::<u32>()];
        let exit = prop_oneof![Just((0, 0, false)), any::<(i32, i32, bool)>()];
        ("[a-z]{0,9}", states, any::<bool>(), restarts, times, exit, events).prop_map(
            |(name, state, failed, restarts, (last_restart, started_at, finished_at), exit, events)| {
                ObservedTask {
                    name,
                    state,
                    failed,
                    restarts,
                    last_restart,
                    started_at,
                    finished_at,
                    exit,
                    events,
                }
            },
        )
    }

    fn observed_alloc() -> impl Strategy<Value = ObservedAlloc> {
        let statuses = prop::sample::select(vec![
            ClientStatus::Pending,
            ClientStatus::Running,
            ClientStatus::Complete,
            ClientStatus::Failed,
            ClientStatus::Lost,
        ]);
        let numbers = (any::<u128>(), any::<Option<bool>>(), any::<u64>());
        let tasks = prop::collection::vec(observed_task(), 0..3);
        (numbers, statuses, ".{0,20}", ".{0,20}", time(), tasks).prop_map(
            |((id, healthy, revision), status, description, health_message, modified_at, tasks)| {
                ObservedAlloc {
                    id: AllocId(id),
                    status,
                    description,
                    tasks,
                    modified_at,
                    healthy,
                    health_message,
                    revision,
                    hash: 0,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn it_is_read_as_it_was(alloc in observed_alloc()) {
            let packed = PackedObservation::new(&alloc);
            prop_assert_eq!((packed.id(), packed.modified_at()), (alloc.id, alloc.modified_at));
            prop_assert_eq!(packed.read(), alloc);
        }
    }

    #[test]
    fn a_batch_task_takes_few_bytes() {
        let at = |ms: u64| Timestamp(1_700_000_000_000_000_000 + ms * 1_000_000);
        let event = |kind, ms, message: &str| TaskEvent {
            kind,
            at: at(ms),
            message: message.to_owned(),
            ..TaskEvent::default()
        };
        let task = ObservedTask {
            name: "task".to_owned(),
            state: TaskState::Dead,
            failed: false,
            restarts: 0,
            last_restart: Timestamp::default(),
            started_at: at(120),
            finished_at: at(5120),
            exit: (0, 0, false),
            events: vec![
                event("Received", 10, "task received by the agent"),
                event("Task Setup", 20, "building the task directory"),
                event("Started", 120, "task started"),
                event("Terminated", 5120, ""),
            ],
        };
        let alloc = ObservedAlloc {
            id: AllocId(7),
            status: ClientStatus::Complete,
            description: String::new(),
            tasks: vec![task],
            modified_at: at(5121),
            healthy: None,
            health_message: String::new(),
            revision: 0,
            hash: 7,
        };
        let bytes = PackedObservation::new(&alloc).0.len();
        assert!(bytes <= 160, "{bytes}");
    }
}
