//! Latency histograms with buckets that grow by the factor 2: cheap to record, exact enough to compare.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the buckets: 2^0 to 2^23 of [`FIRST_BOUND_NS`], from 16 microseconds to more than two minutes.
const BUCKETS: usize = 24;
const FIRST_BOUND_NS: u64 = 16_000;
const NANOS_PER_SECOND: f64 = 1e9;

/// Spans of time by their length. Any number of threads may count at the same time.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    /// One more than there are bounds, for what is longer than the last.
    counts: [AtomicU64; BUCKETS + 1],
    sum_ns: AtomicU64,
}

/// What a histogram has counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HistogramValues {
    /// Upper bounds in seconds, each with how many were not longer. The last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// Of all, in seconds.
    pub sum: f64,
}

impl HistogramValues {
    /// How many there were.
    pub fn count(&self) -> u64 {
        self.buckets.last().map_or(0, |(_, count)| *count)
    }
}

impl Histogram {
    /// Adds one duration.
    pub fn record(&self, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(took_ns)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(took_ns, Ordering::Relaxed);
    }

    /// What has been counted so far.
    pub fn read(&self) -> HistogramValues {
        let mut below = 0;
        let buckets = self.counts.iter().enumerate().map(|(at, count)| {
            below += count.load(Ordering::Relaxed);
            (bound(at), below)
        });
        HistogramValues {
            buckets: buckets.collect(),
            sum: self.sum_ns.load(Ordering::Relaxed) as f64 / NANOS_PER_SECOND,
        }
    }
}

/// The first bucket whose bound is not below a span.
fn bucket(took_ns: u64) -> usize {
    let steps = took_ns.div_ceil(FIRST_BOUND_NS).max(1).next_power_of_two().trailing_zeros();
    (steps as usize).min(BUCKETS)
}

fn bound(bucket: usize) -> f64 {
    if bucket == BUCKETS { f64::INFINITY } else { (FIRST_BOUND_NS << bucket) as f64 / NANOS_PER_SECOND }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_fall_into_the_first_bucket_that_holds_them() {
        assert_eq!(
            (bucket(0), bucket(16_000), bucket(16_001), bucket(32_000), bucket(32_001)),
            (0, 0, 1, 1, 2)
        );
        assert_eq!((bucket(FIRST_BOUND_NS << 23), bucket((FIRST_BOUND_NS << 23) + 1)), (23, 24));
        assert_eq!(bucket(u64::MAX / 2), 24);
        assert!((bound(0) - 16e-6).abs() < 1e-12 && bound(24).is_infinite());
    }

    #[test]
    fn counts_add_up() {
        let histogram = Histogram::default();
        for millis in [1, 1, 500, 400_000] {
            histogram.record(Duration::from_millis(millis));
        }
        let spread = histogram.read();
        assert!((spread.sum - 400.502).abs() < 1e-9);
        let below = |seconds: f64| {
            spread.buckets.iter().find(|(bound, _)| *bound >= seconds).map(|(_, count)| *count)
        };
        assert_eq!(
            (below(0.001), below(0.5), below(100.0), below(1e9)),
            (Some(2), Some(3), Some(3), Some(4))
        );
    }
}
