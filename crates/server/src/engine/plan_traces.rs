//! The latest plans, kept for whoever wants to know how evaluations were answered.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use berth_model::EvalId;

use crate::shared::PlanTrace;

/// Plans kept; the oldest goes first.
const KEPT_MAX: usize = 1 << 15;

/// The latest plans, in the order in which the applier judged them.
#[derive(Debug, Default)]
pub(crate) struct PlanTraces(Mutex<VecDeque<PlanTrace>>);

impl PlanTraces {
    pub fn keep(&self, trace: PlanTrace) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(trace);
    }

    /// Those of an evaluation, or all.
    pub fn read(&self, eval: Option<EvalId>) -> Vec<PlanTrace> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().filter(|trace| eval.is_none_or(|eval| trace.eval == eval)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{Index, JobKey, Timestamp};

    use super::*;

    #[test]
    fn the_latest_are_kept_and_found_by_their_evaluation() {
        let traces = PlanTraces::default();
        for number in 0..KEPT_MAX + 10 {
            traces.keep(PlanTrace {
                eval: EvalId(number as u128),
                job: JobKey::new("default", "web"),
                planner: 0,
                snapshot_index: Index(1),
                begun_at: Timestamp(1),
                ended_at: Timestamp(2),
                overtaken: 0,
                committed: 1,
                refused: 0,
                refused_nodes: Vec::new(),
            });
        }
        let all = traces.read(None);
        assert_eq!((all.len(), all[0].eval), (KEPT_MAX, EvalId(10)));
        assert_eq!((traces.read(Some(EvalId(10))).len(), traces.read(Some(EvalId(9))).len()), (1, 0));
    }
}
