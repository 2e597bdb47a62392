//! Evaluations that wait to be planned: by priority, then by their tenants' shares, then by age; one of a job at a time.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
};

use berth_model::{EvalId, Index, JobKey, Timestamp, eval::Eval, store::Store};

use crate::{fair_queue::FairQueue, tenants::Tenants};

/// Evaluations that wait for a planner, one at a time for each job.
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

    /// Takes out what waits behind an evaluation and says no more than that its job is to be looked at, as far as a plan of
    /// this state has answered it. What users asked for stays: they wait for its own answer.
    pub fn answered(&mut self, id: EvalId, state: Index) -> Vec<Arc<Eval>> {
        let Some(after) = self.planning.get(&id).and_then(|job| self.jobs.get_mut(job)) else {
            return Vec::new();
        };
        let is_answered = |eval: &Arc<Eval>| eval.create_index <= state && eval.trigger.is_found();
        let (answered, left) = std::mem::take(after).into_iter().partition::<Vec<_>, _>(is_answered);
        *after = left.into();
        answered
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
    fn one_plan_answers_what_was_found_before_its_state_and_waits_behind_it() {
        let (mut queue, store, mut tenants) = (EvalQueue::default(), Store::default(), Tenants::default());
        let found = |id| Arc::new(Eval { trigger: Trigger::NodeDrain, ..Eval::clone(&eval(id, "a", 50)) });
        for e in [found(1), found(2), eval(3, "a", 50), found(4), found(5), found(6), eval(7, "b", 50)] {
            queue.push(e, Timestamp(0));
        }
        assert_eq!(queue.answered(EvalId(1), Index(9)), [], "it is not planned yet");
        let mut next = |queue: &mut EvalQueue| queue.pop(&store, &mut tenants).map(|e| e.id.0);
        assert_eq!([(); 2].map(|()| next(&mut queue)), [Some(1), Some(7)]);
        let answered = queue.answered(EvalId(1), Index(4));
        assert_eq!(answered.iter().map(|e| e.id.0).collect::<Vec<_>>(), [2, 4], "somebody waits for 3");
        let left = [1, 3, 5, 6].map(|id| {
            queue.done(EvalId(id), &mut Tenants::default());
            next(&mut queue)
        });
        assert_eq!(left, [Some(3), Some(5), Some(6), None]);
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
