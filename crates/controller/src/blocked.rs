//! Work that waits for room: at most one evaluation a job, tried again in rounds when room may have come.

use std::collections::{BTreeSet, HashMap, VecDeque};

use berth_model::{EvalId, JobKey, eval::Eval, store::Store};

/// Evaluations of one round that are tried at the same time, so that a deep queue does not hold up fresh work.
const TRIED_AT_ONCE_MAX: usize = 64;

/// The evaluations that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    by_job: HashMap<JobKey, EvalId>,
    /// Still to be tried in this round, best first.
    round: VecDeque<EvalId>,
    tried: BTreeSet<EvalId>,
    /// Room came since this round began.
    room_came: bool,
}

impl Blocked {
    /// A job waits; tells the evaluation that this one replaces.
    pub fn insert(&mut self, eval: &Eval) -> Option<EvalId> {
        self.by_job.insert(eval.job.clone(), eval.id).filter(|before| *before != eval.id)
    }

    /// The evaluation in which a job waits.
    pub fn of_job(&self, job: &JobKey) -> Option<EvalId> {
        self.by_job.get(job).copied()
    }

    /// A job's evaluation waits no more.
    pub fn remove(&mut self, eval: &Eval) {
        if self.by_job.get(&eval.job) == Some(&eval.id) {
            self.by_job.remove(&eval.job);
        }
        self.tried.remove(&eval.id);
    }

    /// Room may have come: everything is tried again.
    pub fn room_came(&mut self) {
        self.room_came = true;
    }

    /// An evaluation was tried, and waits on or not.
    pub fn tried(&mut self, id: EvalId) {
        self.tried.remove(&id);
    }

    /// The next ones to be tried.
    pub fn next(&mut self, store: &Store) -> Vec<EvalId> {
        if self.by_job.is_empty() {
            self.room_came = false;
            return Vec::new();
        }
        if self.round.is_empty() && self.tried.is_empty() && std::mem::take(&mut self.room_came) {
            let mut waiting: Vec<&Eval> =
                self.by_job.values().filter_map(|id| Some(&**store.eval(*id)?)).collect();
            waiting.sort_unstable_by_key(|e| (std::cmp::Reverse(e.priority), e.create_index, e.id));
            self.round = waiting.into_iter().map(|eval| eval.id).collect();
        }
        let room = TRIED_AT_ONCE_MAX.saturating_sub(self.tried.len()).min(self.round.len());
        let next: Vec<EvalId> = self.round.drain(..room).collect();
        self.tried.extend(&next);
        next
    }
}
