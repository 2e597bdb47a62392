//! Counters of written observed state.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::shared::{Measured, Metric};

/// Counts since the start, and whether anything is written at all.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    bytes: AtomicU64,
    failures: AtomicU64,
    is_paused: AtomicBool,
}

impl WriteCounters {
    pub(super) fn wrote(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    pub(super) fn failed(&self) {
        self.failures.fetch_add(1, Relaxed);
    }

    /// Whether nothing is written because the disk is nearly full.
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused.load(Relaxed)
    }

    /// Whether that was otherwise.
    pub(super) fn pause(&self, pause: bool) -> bool {
        self.is_paused.swap(pause, Relaxed) != pause
    }

    pub(crate) fn metrics(&self) -> [Metric; 3] {
        let total = |name, help, value: &AtomicU64| {
            Metric::one(name, help, Measured::Counter(value.load(Relaxed) as f64))
        };
        let paused = Measured::Gauge(f64::from(u8::from(self.is_paused())));
        [
            total(
                "berth_observed_written_bytes_total",
                "Bytes of observed state written to this server's disk.",
                &self.bytes,
            ),
            total("berth_observed_write_failures_total", "Failed writes of observed state.", &self.failures),
            Metric::one(
                "berth_observed_paused",
                "1 while observed state is not written because the disk is nearly full.",
                paused,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A measurement, and what moves it.
    type Move = (&'static str, fn(&WriteCounters));

    #[test]
    fn each_measurement_moves() {
        let moves: [Move; 3] = [
            ("berth_observed_written_bytes_total", |counters| counters.wrote(7)),
            ("berth_observed_write_failures_total", WriteCounters::failed),
            ("berth_observed_paused", |counters| assert!(counters.pause(true))),
        ];
        for (name, make) in moves {
            let counters = WriteCounters::default();
            let before = counters.metrics();
            make(&counters);
            assert_eq!(Metric::moved(&before, &counters.metrics()), [name]);
        }
    }
}
