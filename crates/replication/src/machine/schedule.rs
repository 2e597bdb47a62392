//! When the next snapshot is due.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Payload bytes in the log after which a snapshot is due, however few the records; more if the state is larger. A start
/// reads a snapshot and at most twice as much log, so that it takes as long as its state is large.
const LOG_BYTES_MIN: u64 = 16 << 20;

/// What those outside the apply loop want of it, and learn from it, about snapshots.
#[derive(Debug, Clone, Default)]
pub(crate) struct SnapshotDemand(Arc<DemandState>);

#[derive(Debug, Default)]
struct DemandState {
    wanted: AtomicBool,
    /// Why the last snapshot was not written, since it was asked for.
    failure: Mutex<Option<String>>,
    /// Payload bytes applied since the last snapshot was begun.
    log_bytes: AtomicU64,
    /// Position in the log of the last proposal that was applied; 0, which is never a proposal's, before the first.
    applied: AtomicU64,
}

impl SnapshotDemand {
    /// The next time the consensus engine asks and none is being written, it gets a snapshot, due or not.
    pub fn raise(&self) {
        self.0.wanted.store(true, Relaxed);
    }

    /// A snapshot could not be written.
    pub fn fail(&self, reason: &str) {
        *self.failure() = Some(reason.to_owned());
    }

    /// Why a snapshot could not be written, once.
    pub fn take_failure(&self) -> Option<String> {
        self.failure().take()
    }

    /// Payload bytes applied since the last snapshot was begun: what a start has to apply.
    pub fn log_bytes(&self) -> u64 {
        self.0.log_bytes.load(Relaxed)
    }

    /// Position in the log of the last proposal that was applied. Who was answered finds his own here, while the consensus
    /// engine's metrics follow a little later.
    pub fn applied(&self) -> Option<u64> {
        Some(self.0.applied.load(Acquire)).filter(|position| *position > 0)
    }

    fn failure(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.0.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts what has been applied since the last snapshot was begun.
#[derive(Debug)]
pub(super) struct Schedule {
    records_max: u64,
    demand: SnapshotDemand,
    records: u64,
    /// Payload bytes in the log that do not count yet.
    spared: u64,
}

impl Schedule {
    pub fn new(records_max: u64, demand: SnapshotDemand) -> Self {
        Self { records_max, demand, records: 0, spared: 0 }
    }

    pub fn on_applied(&mut self, position: u64, payload_bytes: usize) {
        self.records += 1;
        self.demand.0.applied.store(position, Release);
        self.demand.0.log_bytes.fetch_add(payload_bytes as u64, Relaxed);
    }

    /// What was applied until now was read at a start. Half of it does not count: servers that start together, with agents
    /// that want to be heard, would all write a snapshot first.
    pub fn on_replayed(&mut self) {
        self.records /= 2;
        self.spared = self.demand.log_bytes() / 2;
    }

    /// Whether a snapshot is due; the last one had `snapshot_bytes`. The log must have grown as much as a snapshot
    /// writes, so that writing them never costs more than the log itself, however large the state.
    pub fn is_due(&self, snapshot_bytes: u64) -> bool {
        let bytes = self.demand.log_bytes() - self.spared;
        let long = self.records >= self.records_max || bytes >= LOG_BYTES_MIN;
        self.demand.0.wanted.load(Relaxed) || (long && bytes >= snapshot_bytes)
    }

    /// A snapshot of all that was applied is begun.
    pub fn on_begun(&mut self) {
        (self.records, self.spared) = (0, 0);
        self.demand.0.log_bytes.store(0, Relaxed);
        self.demand.0.wanted.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_is_due_after_many_records_or_many_bytes_but_never_costs_more_than_the_log() {
        let mut schedule = Schedule::new(3, SnapshotDemand::default());
        schedule.on_applied(1, 10);
        assert!(!schedule.is_due(0));
        schedule.on_applied(2, 10);
        schedule.on_applied(4, 10);
        assert!(schedule.is_due(30) && !schedule.is_due(31));
        schedule.on_begun();
        assert!(!schedule.is_due(0));
        schedule.on_applied(5, LOG_BYTES_MIN as usize);
        assert!(schedule.is_due(LOG_BYTES_MIN) && !schedule.is_due(LOG_BYTES_MIN + 1));
        schedule.demand.raise();
        assert!(schedule.is_due(u64::MAX));
    }

    #[test]
    fn half_of_what_a_start_has_read_does_not_count_and_the_next_start_does_not_spare_more() {
        let mut schedule = Schedule::new(4, SnapshotDemand::default());
        (1..=4).for_each(|position| schedule.on_applied(position, 10));
        schedule.on_replayed();
        assert!(!schedule.is_due(20), "two records, 20 bytes");
        (5..=6).for_each(|position| schedule.on_applied(position, 10));
        assert!(schedule.is_due(40) && !schedule.is_due(41));
        assert_eq!(schedule.demand.log_bytes(), 60, "a start would read all of it");
        schedule.on_begun();
        (7..=10).for_each(|position| schedule.on_applied(position, 10));
        assert!(schedule.is_due(40) && !schedule.is_due(41));
    }

    #[test]
    fn the_last_proposal_that_was_applied_is_reported_and_none_before_the_first() {
        let demand = SnapshotDemand::default();
        let mut schedule = Schedule::new(3, demand.clone());
        assert_eq!(demand.applied(), None);
        schedule.on_applied(2, 10);
        schedule.on_begun();
        assert_eq!(demand.applied(), Some(2));
    }
}
