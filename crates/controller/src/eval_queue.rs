//! Evaluations that wait to be planned: by priority, then by their tenants' shares, then by age; one of a job at a time.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use berth_model::{EvalId, JobKey, Timestamp, eval::Eval, store::Store};

use crate::{fair_queue::FairQueue, tenants::Tenants};

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct EvalQueue {
    /// At most one for each job.
    ready: FairQueue<Arc<Eval>>,
    /// Jobs of which an evaluation is ready or being planned, and those that come after it.
    jobs: HashMap<JobKey, VecDeque<Arc<Eval>>>,
    planning: HashMap<EvalId, JobKey>,
    /// Not before their time.
    waiting: BTreeSet<(Timestamp, EvalId)>,
}

impl EvalQueue {
    /// Adds an evaluation; one that is here already is not added again.
    pub fn push(&mut self, eval: Arc<Eval>, now: Timestamp) {
        if eval.wait_until > now {
            self.waiting.insert((eval.wait_until, eval.id));
            return;
        }
        match self.jobs.get_mut(&eval.job) {
            None => {
                self.jobs.insert(eval.job.clone(), VecDeque::new());
                self.ready.push(&eval.clone(), eval);
            }
            Some(after) => {
                let known = self.planning.contains_key(&eval.id)
                    || self.ready.contains(&eval)
                    || after.iter().any(|e| e.id == eval.id);
                if !known {
                    after.push_back(eval);
                }
            }
        }
    }

    /// Takes the first; its job's next one waits until [`Self::done`], and its tenant is charged until then.
    pub fn pop(&mut self, store: &Store, tenants: &mut Tenants) -> Option<Arc<Eval>> {
        let eval = self.ready.pop(store, tenants)?;
        tenants.begin(store, eval.id, &eval.job);
        self.planning.insert(eval.id, eval.job.clone());
        Some(eval)
    }

    /// An evaluation has been planned; its job's next one may be.
    pub fn done(&mut self, id: EvalId, tenants: &mut Tenants) {
        tenants.end(id);
        let Some(job) = self.planning.remove(&id) else { return };
        match self.jobs.get_mut(&job).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push(&next.clone(), next),
            None => drop(self.jobs.remove(&job)),
        }
    }

    /// An evaluation is to be planned once more, before what else its job has waiting.
    pub fn again(&mut self, eval: Arc<Eval>, tenants: &mut Tenants) {
        tenants.end(eval.id);
        if self.planning.remove(&eval.id).is_some() {
            self.ready.push(&eval.clone(), eval);
        }
    }

    /// The evaluations whose time has come.
    pub fn due(&mut self, now: Timestamp) -> Vec<EvalId> {
        let later = self.waiting.split_off(&(Timestamp(now.0 + 1), EvalId(0)));
        std::mem::replace(&mut self.waiting, later).into_iter().map(|(_, id)| id).collect()
    }

    /// How many are being planned.
    pub fn planning(&self) -> usize {
        self.planning.len()
    }
}

#[cfg(test)]
mod tests {
    use berth_model::{Index, eval::Trigger, job::JobType};

    use super::*;

    fn eval(id: u128, job: &str, priority: u8) -> Arc<Eval> {
        let key = JobKey::new("default", job);
        let mut eval = Eval::pending(EvalId(id), key, JobType::Service, priority, Trigger::JobRegister);
        eval.create_index = Index(id as u64);
        Arc::new(eval)
    }

    #[test]
    fn higher_priority_goes_first_and_a_job_is_planned_one_at_a_time() {
        let (mut queue, store, mut tenants) = (EvalQueue::default(), Store::default(), Tenants::default());
        let now = Timestamp(0);
        for e in [eval(1, "a", 50), eval(2, "a", 50), eval(3, "b", 50), eval(4, "c", 90), eval(1, "a", 50)] {
            queue.push(e, now);
        }
        let mut next = |queue: &mut EvalQueue| queue.pop(&store, &mut tenants).map(|e| e.id.0);
        assert_eq!([(); 4].map(|()| next(&mut queue)), [Some(4), Some(1), Some(3), None]);
        queue.done(EvalId(1), &mut Tenants::default());
        assert_eq!(next(&mut queue), Some(2));
        queue.done(EvalId(2), &mut Tenants::default());
        assert_eq!(next(&mut queue), None);
        assert_eq!(queue.planning(), 2);
    }

    #[test]
    fn an_evaluation_waits_for_its_time() {
        let (mut queue, store, mut tenants) = (EvalQueue::default(), Store::default(), Tenants::default());
        let late = Arc::new(Eval { wait_until: Timestamp(10), ..Eval::clone(&eval(1, "a", 50)) });
        queue.push(late, Timestamp(0));
        assert!(queue.pop(&store, &mut tenants).is_none() && queue.due(Timestamp(9)).is_empty());
        assert_eq!(queue.due(Timestamp(10)), [EvalId(1)]);
        assert!(queue.due(Timestamp(11)).is_empty());
    }
}
