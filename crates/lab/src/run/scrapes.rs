//! Reads of `/metrics`, as a monitoring system makes them: how long the whole request takes.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use tokio::time::interval;

use super::{Metric, RunError, Target, http::Connection};
use crate::record::percentile;

/// Between one read and the next. No monitoring system scrapes as often.
const EVERY: Duration = Duration::from_millis(50);
/// How long a read may take at p99, in milliseconds.
const MS_MAX: f64 = 20.0;
/// What any server's metrics contain.
const EXPECTED: &str = "\nberth_nodes{";

/// The metrics in `result.json`, with their units.
pub(super) const METRICS: &[Metric] =
    &[Metric { name: "metrics_ms_p50", unit: "ms" }, Metric { name: "metrics_ms_p99", unit: "ms" }];

/// Milliseconds that each read took, from its request to the last byte of its answer; the shortest first.
#[derive(Debug, Default)]
pub(super) struct ScrapeTimes(Vec<f64>);

impl ScrapeTimes {
    /// Reads on one connection for so long, and once at the least.
    ///
    /// # Errors
    /// When an answer is none, or lacks the metrics.
    pub async fn take(target: &Target, how_long: Duration) -> Result<Self, RunError> {
        let mut connection = Connection::open(target).await?;
        let (mut ticks, started_at) = (interval(EVERY), Instant::now());
        let mut took_ms = Vec::new();
        while took_ms.is_empty() || started_at.elapsed() < how_long {
            ticks.tick().await;
            let sent_at = Instant::now();
            let text = connection.text("/metrics").await?;
            took_ms.push(sent_at.elapsed().as_secs_f64() * 1e3);
            if !text.contains(EXPECTED) {
                return Err(RunError::Incomplete(format!("/metrics without {}", EXPECTED.trim())));
            }
        }
        took_ms.sort_unstable_by(f64::total_cmp);
        Ok(Self(took_ms))
    }

    /// Median and 99th percentile, in milliseconds.
    pub fn metrics(&self) -> BTreeMap<&'static str, f64> {
        let values = [percentile(&self.0, 0.5), percentile(&self.0, 0.99)];
        METRICS.iter().zip(values).filter_map(|(metric, value)| Some((metric.name, value?))).collect()
    }

    /// Why the run fails, if it does: reads took too long.
    pub fn failure(&self) -> Option<String> {
        let p99 = percentile(&self.0, 0.99).filter(|ms| *ms > MS_MAX)?;
        Some(format!("a read of /metrics takes {p99:.1} ms at p99, more than {MS_MAX} ms"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_reads_fail_and_a_single_slow_one_does_not() {
        let of = |slow: usize| ScrapeTimes([vec![5.0; 200 - slow], vec![21.0; slow]].concat());
        assert_eq!(of(1).failure(), None);
        assert_eq!(of(1).metrics(), BTreeMap::from([("metrics_ms_p50", 5.0), ("metrics_ms_p99", 5.0)]));
        let failure = of(3).failure();
        assert_eq!(failure.as_deref(), Some("a read of /metrics takes 21.0 ms at p99, more than 20 ms"));
        assert_eq!(ScrapeTimes::default().metrics(), BTreeMap::new());
    }
}
