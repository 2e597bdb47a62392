//! I3: a read that does not wait, on any server, says an age that is not smaller than the true one.

use std::{collections::VecDeque, time::Duration};

use berth_model::Index;

use super::CheckResult;
use crate::executor::now_ns;

const RULE: &str = "I3 stale reads say how old they are";
/// What a server that hears its leader may lag behind without knowing: it is slow, or still reads what came meanwhile. In
/// nanoseconds.
const LAG_NS: u64 = 10_000_000_000;
/// Acknowledgements that are remembered: a read that is older than all of them is judged by the oldest.
const ACKNOWLEDGED_MAX: usize = 20_000;

/// When each index was acknowledged, in order of both.
#[derive(Default)]
pub struct Ages(VecDeque<(Index, u64)>);

impl Ages {
    /// Somebody was informed that what was asked is done.
    pub fn on_acknowledged(&mut self, index: Index) {
        if self.0.back().is_some_and(|(last, _)| *last >= index) {
            return;
        }
        if self.0.len() >= ACKNOWLEDGED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((index, now_ns()));
    }

    /// A read has shown the state at an index, and said how old that is at most.
    pub fn on_stale_read(&self, index: Index, age: Duration) -> CheckResult {
        let missed = self.0.partition_point(|(acknowledged, _)| *acknowledged <= index);
        let Some((missed, at_ns)) = self.0.get(missed) else { return Ok(()) };
        let true_age = Duration::from_nanos(now_ns() - at_ns);
        if age.saturating_add(Duration::from_nanos(LAG_NS)) >= true_age {
            return Ok(());
        }
        let what = format!(
            "a read showed {index} and called it {age:.1?} old, {true_age:.1?} after {missed} had been acknowledged"
        );
        Err((RULE, what))
    }
}
