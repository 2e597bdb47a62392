//! The timers of all nodes of one connection.

use std::{cmp::Reverse, collections::BinaryHeap};

use berth_agent::lifecycle::TaskRef;
use berth_api::agent::AllocId;

/// What a timer triggers on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimerEvent {
    /// Its session or life cycle has a deadline.
    Wake,
    /// It is found out that an allocation cannot be prepared.
    NotPrepared(AllocId),
    /// A mock task takes its next step.
    Step(TaskRef),
    /// A mock task that was stopped has ended.
    Stopped(TaskRef),
    /// A mock task that was killed is gone.
    Killed(TaskRef),
    /// The node opens its session again.
    Hello,
    /// The node falls silent.
    Silence {
        /// How long, in nanoseconds.
        lasts_ns: u64,
    },
    /// The node's connection breaks.
    Break,
}

/// All timers, the earliest first. One that no longer applies is dropped when it fires.
#[derive(Debug, Default)]
pub(super) struct Timers(BinaryHeap<Reverse<(u64, u32, TimerEvent)>>);

impl Timers {
    /// Something is due for the node at `position`.
    pub fn add(&mut self, at_ns: u64, position: u32, due: TimerEvent) {
        self.0.push(Reverse((at_ns, position, due)));
    }

    /// How many there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// When the next thing is due.
    pub fn next_ns(&self) -> Option<u64> {
        self.0.peek().map(|Reverse((at_ns, _, _))| *at_ns)
    }

    /// Takes what is due by now: since when, whose, and what.
    pub fn pop(&mut self, now_ns: u64) -> Option<(u64, u32, TimerEvent)> {
        if self.next_ns()? > now_ns {
            return None;
        }
        self.0.pop().map(|Reverse(entry)| entry)
    }
}
