//! When the next snapshot is due.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

/// Payload bytes in the log after which a snapshot is due, however few the records.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// Somebody wants a snapshot now, due or not.
#[derive(Debug, Clone, Default)]
pub(crate) struct Demand(Arc<AtomicBool>);

impl Demand {
    /// The next time the consensus engine asks, it gets a snapshot.
    pub fn raise(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::AcqRel)
    }
}

/// Counts what has been applied since the last snapshot was begun.
#[derive(Debug)]
pub(super) struct Schedule {
    records_max: u64,
    demand: Demand,
    records: u64,
    bytes: u64,
}

impl Schedule {
    pub fn new(records_max: u64, demand: Demand) -> Self {
        Self { records_max, demand, records: 0, bytes: 0 }
    }

    pub fn on_applied(&mut self, payload_bytes: usize) {
        self.records += 1;
        self.bytes += payload_bytes as u64;
    }

    /// Whether to begin a snapshot now; the last one had `snapshot_bytes`. The log must have grown as much as a
    /// snapshot writes, so that writing them never costs more than the log itself, however large the state.
    pub fn begin(&mut self, snapshot_bytes: u64) -> bool {
        let long = self.records >= self.records_max || self.bytes >= LOG_BYTES_MAX;
        let due = self.demand.take() || (long && self.bytes >= snapshot_bytes);
        if due {
            (self.records, self.bytes) = (0, 0);
        }
        due
    }
}
