//! Work that waits for capacity: at most one evaluation a job, tried again once capacity of its kind has come.
//!
//! Those that miss the same stand in one [`ShapeQueue`], in which the first of a tenant and priority goes first. As soon as one
//! of them finds no capacity, the others are not tried: there is none for them either, until more comes.

mod capacity;
mod shape;
mod shape_queue;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use berth_model::{
    EvalId, Index, JobKey, Timestamp,
    eval::{Eval, EvalStatus, GroupFailure},
    event::StateChange,
    store::{AllocSlot, NodeRow, NodeSlot, Store},
};
use berth_scheduler::{FreedClaims, Plan};

use crate::{fair_queue::FairQueue, follow::Follower, tenants::Tenants};
use capacity::{FreedNodes, KnownAt, PlacedWork, Promise, PromisedCapacity};
use shape::{MissingWork, ShapeKey};
use shape_queue::{ShapeQueue, TrialReason};

/// Evaluations that are tried at the same time, so that a deep queue does not hold up fresh work.
const TRIED_AT_ONCE_MAX: usize = 64;

/// Looks at a queue for the sake of a node, in one step of the leader; the rest are taken in the next.
const LOOKS_PER_STEP_MAX: usize = 8192;

/// Nodes that a new queue looks at because they have more capacity since its first one was planned; of more, capacity may be
/// anywhere.
const LOOKS_BACK_MAX: usize = 256;

/// The evaluations that wait for capacity.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    by_job: BTreeMap<JobKey, EvalId>,
    evals: BTreeMap<EvalId, BlockedEval>,
    queues: BTreeMap<ShapeKey, ShapeQueue>,
    /// The queues that a quota holds back.
    by_quota: BTreeMap<String, BTreeSet<ShapeKey>>,
    /// The first of each tenant in the queues for which there may be capacity.
    round: FairQueue<(ShapeKey, Arc<Eval>)>,
    awake: BTreeSet<ShapeKey>,
    trying: usize,
    eased: FreedNodes,
    /// When there came capacity under each quota last.
    quotas_eased: BTreeMap<String, KnownAt>,
    promised: PromisedCapacity,
    placed: PlacedWork,
    /// The queues whose work may replace other work.
    preempting: BTreeSet<ShapeKey>,
    /// Counts what becomes known without an index.
    clock: u64,
    unsent: UnsentChanges,
}

/// Where an evaluation waits.
#[derive(Debug)]
struct BlockedEval {
    eval: Arc<Eval>,
    queue: ShapeKey,
    trial: Option<Trial>,
}

/// An evaluation is being planned again, or its plan is on its way to the log.
#[derive(Debug, Clone, Copy)]
struct Trial {
    began: u64,
    promise: Option<Promise>,
}

/// What came, and no queue was informed of yet.
#[derive(Debug, Default)]
struct UnsentChanges {
    nodes: BTreeSet<NodeSlot>,
    partly_notified: Option<PartlyNotified>,
    /// Something of these jobs ended, or is on a node that takes no new work: others of them may go to other nodes now.
    moved: BTreeSet<JobKey>,
    quotas: BTreeSet<String>,
    anywhere: bool,
}

/// A node of which some of the queues were informed; it is among those that came until all are.
#[derive(Debug)]
struct PartlyNotified {
    node: NodeSlot,
    next: ShapeKey,
    /// More capacity has come there since.
    again: bool,
}

impl UnsentChanges {
    fn add_node(&mut self, node: NodeSlot) {
        let is_new = self.nodes.insert(node);
        if let Some(half) = self.partly_notified.as_mut().filter(|half| !is_new && half.node == node) {
            half.again = true;
        }
    }
}

impl Follower for Blocked {
    fn of(store: &Store) -> Self {
        let mut all = Self::default();
        // What was known when they were planned is not: whoever led may have known of more than the state shows.
        store.evals().blocked().for_each(|eval| all.insert(store, eval));
        all.capacity_freed();
        all
    }

    fn on_change(&mut self, store: &Store, change: &StateChange, _at: Timestamp) {
        match change {
            StateChange::EvalChanged(id) => self.on_eval_changed(store, *id),
            StateChange::EvalCollected(id) => drop(self.remove(*id, false)),
            StateChange::AllocPlaced(slot) => self.on_alloc_placed(store, *slot),
            StateChange::AllocEnded(slot) => self.on_alloc_ended(store, *slot),
            StateChange::SchedulerConfigChanged => self.rebuild_queues(store),
            StateChange::NodeRegistered(slot) => self.node_eased(store, *slot),
            StateChange::NodeChanged(slot, _) if store.nodes().row(*slot).is_some_and(NodeRow::is_ready) => {
                self.node_eased(store, *slot);
            }
            StateChange::NodeChanged(slot, _) => self.on_node_closed(store, *slot),
            // Namespaces may keep to other quotas now.
            StateChange::NamespaceChanged(_) => {
                let quotas = store.quotas().iter().map(|row| row.quota.name.clone());
                self.ease_quotas(moment_of(store), quotas);
            }
            StateChange::QuotaChanged(quota) => {
                self.quotas_eased.retain(|name, _| store.quotas().get(name).is_some());
                self.ease_quotas(moment_of(store), [quota.clone()]);
            }
            _ => {}
        }
    }
}

impl Blocked {
    fn on_eval_changed(&mut self, store: &Store, id: EvalId) {
        match store.eval(id) {
            Some(eval) if eval.status == EvalStatus::Blocked => self.insert(store, eval),
            // Placements came too late: what had been claimed for them is free.
            Some(eval) if eval.status == EvalStatus::Pending && eval.node.is_some() => self.capacity_freed(),
            Some(eval) => drop(self.remove(id, eval.status == EvalStatus::Complete)),
            None => drop(self.remove(id, false)),
        }
    }

    /// As long as work was claimed it could not be preempted: who may do so finds capacity now where others hid it.
    fn on_alloc_placed(&mut self, store: &Store, slot: AllocSlot) {
        // All that an entry places for a job came of one plan.
        let Some(row) = store.allocs().row(slot).filter(|row| self.placed.is_new(row.job, store.index()))
        else {
            return;
        };
        let eval = store.allocs().detail(slot).and_then(|detail| store.eval(detail.eval));
        let planned_on = eval.map_or(Index::default(), |eval| eval.snapshot_index);
        if let Some(job) = store.jobs().row(row.job) {
            self.placed.note(job.job().priority, store.index(), planned_on);
        }
    }

    fn on_alloc_ended(&mut self, store: &Store, slot: AllocSlot) {
        // Forgotten since: where it was nobody can say, and its slot may be another's.
        let Some(row) = store.allocs().row(slot).filter(|row| row.is_terminal()) else {
            return self.capacity_freed();
        };
        self.node_eased(store, row.node);
        let Some(job) = store.jobs().row(row.job) else { return };
        if self.by_job.contains_key(&job.key) {
            self.unsent.moved.insert(job.key.clone());
        }
        if !store.quotas().is_empty() {
            let quotas = store.namespaces().quotas(&job.key.namespace);
            self.ease_quotas(moment_of(store), quotas.into_iter().map(str::to_owned));
        }
    }

    /// A node takes no new work. What was to replace work there may replace some on another node now, as the canary of a
    /// system job, which has capacity where this one had none.
    fn on_node_closed(&mut self, store: &Store, node: NodeSlot) {
        self.eased.note(node, moment_of(store));
        let Some(row) = store.nodes().row(node) else { return };
        let allocs = store.nodes().live(row).filter_map(|slot| store.allocs().row(slot));
        let jobs = allocs.filter_map(|alloc| store.jobs().row(alloc.job));
        let waiting = jobs.map(|job| &job.key).filter(|key| self.by_job.contains_key(*key));
        self.unsent.moved.extend(waiting.cloned());
    }

    /// There may be more capacity under quotas than before.
    fn ease_quotas(&mut self, moment: KnownAt, quotas: impl IntoIterator<Item = String>) {
        for quota in quotas {
            let before = self.quotas_eased.entry(quota.clone()).or_default();
            *before = before.latest(moment);
            self.unsent.quotas.insert(quota);
        }
    }

    /// There may be more capacity on a node than before.
    fn node_eased(&mut self, store: &Store, node: NodeSlot) {
        self.eased.note(node, moment_of(store));
        self.unsent.add_node(node);
    }

    /// What was claimed did not come true: those who were refused for its sake may have it.
    pub fn on_freed(&mut self, store: &Store, freed: FreedClaims) {
        if freed.nodes.is_empty() {
            return;
        }
        let moment = self.now(store);
        for node in freed.nodes.into_iter().filter_map(|id| store.nodes().find(id)) {
            self.eased.note(node, moment);
            self.unsent.add_node(node);
        }
        if !store.quotas().is_empty() {
            let quotas = freed.namespaces.iter().flat_map(|name| store.namespaces().quotas(name));
            self.ease_quotas(moment, quotas.map(str::to_owned));
        }
    }

    /// Capacity may have come anywhere: everything is tried again that waits for it.
    fn capacity_freed(&mut self) {
        self.unsent.anywhere = true;
    }

    /// Something becomes known now that no index reports.
    fn now(&mut self, store: &Store) -> KnownAt {
        self.clock += 1;
        KnownAt { index: store.index(), clock: self.clock }
    }

    /// The jobs that wait, and in which evaluations.
    #[cfg(test)]
    pub fn waiting(&self) -> &BTreeMap<JobKey, EvalId> {
        &self.by_job
    }

    /// Whether no evaluation is blocked.
    pub fn is_empty(&self) -> bool {
        self.by_job.is_empty()
    }

    /// The evaluation in which a job waits.
    pub fn of_job(&self, job: &JobKey) -> Option<EvalId> {
        self.by_job.get(job).copied()
    }

    /// A job waits, or waits on for what is left.
    fn insert(&mut self, store: &Store, eval: &Arc<Eval>) {
        let trial = self.remove(eval.id, false);
        if let Some(other) = self.of_job(&eval.job) {
            self.remove(other, false);
        }
        let Some(missing) = MissingWork::of(store, eval, &eval.failures) else { return };
        let before = eval.previous.and_then(|id| store.eval(id)).map(|eval| eval.snapshot_index);
        let seen = Some(eval.snapshot_index).filter(|index| *index > Index::default()).or(before);
        let seen = seen.filter(|index| missing.was_seen_at(*index));
        let known = seen.map(|index| KnownAt { index, clock: trial.map_or(0, |trial| trial.began) });
        let key = missing.key();
        let is_new = !self.queues.contains_key(&key);
        let queue = self.queues.entry(key.clone()).or_insert_with(|| ShapeQueue::new(missing.shape()));
        queue.add(eval.clone());
        known.into_iter().for_each(|known| queue.learn(known));
        if is_new {
            for quota in &queue.shape.quotas {
                self.by_quota.entry(quota.clone()).or_default().insert(key.clone());
            }
            if queue.shape.preempts.is_some() {
                self.preempting.insert(key.clone());
            }
            self.look_back(store, &key);
        }
        self.by_job.insert(eval.job.clone(), eval.id);
        self.evals.insert(eval.id, BlockedEval { eval: eval.clone(), queue: key.clone(), trial: None });
        self.wake(&key);
    }

    /// Capacity that came after the first of a new queue was planned, and before it was here.
    fn look_back(&mut self, store: &Store, key: &ShapeKey) {
        let now = KnownAt { index: store.index(), clock: self.clock };
        let Some(queue) = self.queues.get_mut(key) else { return };
        let is_changed = |quota: &String| {
            self.quotas_eased.get(quota).is_some_and(|eased| eased.is_newer_than(queue.known()))
        };
        let is_hidden_no_more = |priority: u8| self.placed.up_to(priority) > Some(queue.known().index);
        if queue.shape.quotas.iter().any(is_changed) || queue.shape.preempts.is_some_and(is_hidden_no_more) {
            return queue.offer_anywhere(now);
        }
        for (looks, node) in self.eased.since(queue.known()).enumerate() {
            if looks == LOOKS_BACK_MAX || queue.shape.replaces_on_closed(store, node) {
                return queue.offer_anywhere(now);
            }
            if queue.shape.may_use(store, node) {
                queue.offer(node, now);
            }
        }
    }

    /// An evaluation waits no more, or somewhere else. Returns its trial if it was being tried.
    fn remove(&mut self, id: EvalId, found_room: bool) -> Option<Trial> {
        let place = self.evals.remove(&id)?;
        if self.by_job.get(&place.eval.job) == Some(&id) {
            self.by_job.remove(&place.eval.job);
        }
        if let Some(trial) = place.trial {
            self.end_trial(&place.queue, trial, found_room);
        } else if let Some(queue) = self.queues.get_mut(&place.queue) {
            queue.remove(&place.eval);
        }
        self.wake(&place.queue);
        self.drop_if_empty(&place.queue);
        place.trial
    }

    fn end_trial(&mut self, queue: &ShapeKey, trial: Trial, found_room: bool) {
        self.trying -= 1;
        self.queues.get_mut(queue).into_iter().for_each(|queue| queue.tried(found_room));
        if let Some(promise) = trial.promise
            && self.promised.end(promise)
        {
            self.unsent.add_node(promise.0);
        }
    }

    fn drop_if_empty(&mut self, key: &ShapeKey) {
        let Some(queue) = self.queues.get(key).filter(|queue| queue.is_empty()) else { return };
        for quota in &queue.shape.quotas {
            if let Some(held_back) = self.by_quota.get_mut(quota) {
                held_back.remove(key);
                if held_back.is_empty() {
                    self.by_quota.remove(quota);
                }
            }
        }
        self.queues.remove(key);
        self.awake.remove(key);
        self.preempting.remove(key);
    }

    /// Lets those of a queue have their turns, if there may be capacity for them.
    fn wake(&mut self, key: &ShapeKey) {
        let Some(queue) = self.queues.get_mut(key).filter(|queue| queue.is_awake()) else { return };
        for first in queue.firsts() {
            self.round.push(&first.clone(), (key.clone(), first));
        }
        self.awake.insert(key.clone());
    }

    /// The plan of one that was tried: whether it waits on for the same, so that there is nothing to write.
    pub fn waits_on(&mut self, store: &Store, eval: &Eval, plan: &Plan) -> bool {
        let is_current = store.job(&eval.job).is_some_and(|row| row.current().version == plan.job_version);
        if !is_current || !plan.is_noop() || !waits_for_same(&eval.failures, &plan.failures) {
            return false;
        }
        let Some(missing) = MissingWork::of(store, eval, &plan.failures) else { return false };
        let key = missing.key();
        let Some(place) = self.evals.get_mut(&eval.id).filter(|place| place.queue == key) else {
            return false;
        };
        let Some(queue) = self.queues.get_mut(&key) else { return false };
        let trial = place.trial.take();
        queue.add(place.eval.clone());
        queue.learn(KnownAt { index: plan.snapshot_index, clock: trial.map_or(0, |trial| trial.began) });
        if let Some(trial) = trial {
            self.end_trial(&key, trial, false);
        }
        self.wake(&key);
        true
    }

    /// The next ones to be tried, by priority and their tenants' shares.
    pub fn next(&mut self, store: &Store, tenants: &mut Tenants) -> Vec<EvalId> {
        if self.by_job.is_empty() {
            self.unsent = UnsentChanges::default();
            self.placed.mark_notified();
            return Vec::new();
        }
        self.notify_queues(store);
        let mut next = Vec::new();
        while self.trying < TRIED_AT_ONCE_MAX && !self.awake.is_empty() {
            let Some((key, first)) = self.round.pop(store, tenants) else { break };
            if let Some(eval) = self.begin(store, &key, &first) {
                // Charged until all are chosen, so that tenants take turns; from then on the queue charges in its own
                // order.
                tenants.begin(store, eval.id, &eval.job);
                next.push(eval.id);
            }
        }
        next.iter().for_each(|id| tenants.end(*id));
        next
    }

    /// It is the turn of a tenant in a queue.
    fn begin(&mut self, store: &Store, key: &ShapeKey, turn: &Eval) -> Option<Arc<Eval>> {
        let queue = self.queues.get_mut(key)?;
        queue.end_turn(turn);
        if !self.awake.contains(key) {
            return None;
        }
        let eval = queue.first(turn)?.clone();
        let count = eval.failures.iter().map(|failure| failure.count).fold(0, u32::saturating_add);
        let Some(turn) = queue.find_room(store, &self.eased, &mut self.promised, count) else {
            self.awake.remove(key);
            return None;
        };
        queue.begin(&eval);
        self.trying += 1;
        let promise = match turn {
            TrialReason::Promised(promise) => Some(promise),
            TrialReason::Unknown => None,
        };
        let trial = Trial { began: self.clock, promise };
        self.evals.get_mut(&eval.id).into_iter().for_each(|place| place.trial = Some(trial));
        if queue.is_awake() {
            self.wake(key);
        } else {
            self.awake.remove(key);
        }
        Some(eval)
    }

    /// Notifies the queues of what came. Each step looks at so many of them, whatever there are.
    fn notify_queues(&mut self, store: &Store) {
        let taken_of = |unsent: &mut UnsentChanges| {
            (std::mem::take(&mut unsent.anywhere), std::mem::take(&mut unsent.moved))
        };
        let (anywhere, moved) = taken_of(&mut self.unsent);
        let mut keys: BTreeSet<ShapeKey> = BTreeSet::new();
        if anywhere {
            keys.extend(self.queues.keys().cloned());
        }
        keys.extend(moved.into_iter().map(ShapeKey::Own));
        for quota in std::mem::take(&mut self.unsent.quotas) {
            keys.extend(self.by_quota.get(&quota).into_iter().flatten().cloned());
        }
        if !keys.is_empty() {
            let moment = self.now(store);
            for key in keys {
                self.queues.get_mut(&key).into_iter().for_each(|queue| queue.offer_anywhere(moment));
                self.wake(&key);
            }
        }
        self.notify_placed();
        let mut looks = LOOKS_PER_STEP_MAX;
        loop {
            let partly_notified =
                self.unsent.partly_notified.take().map(|half| (half.node, Some(half.next), half.again));
            let next = partly_notified.or_else(|| Some((*self.unsent.nodes.first()?, None, false)));
            let Some((node, from, again)) = next else { break };
            if let Some(next) = self.notify_of_node(store, node, from, &mut looks) {
                return self.unsent.partly_notified = Some(PartlyNotified { node, next, again });
            }
            if !again {
                self.unsent.nodes.remove(&node);
            }
        }
    }

    /// Notifies the queues that may preempt work of what was placed. What was planned on a newer state than they were tried on
    /// had not been claimed then, and hid nothing.
    fn notify_placed(&mut self) {
        if !self.placed.is_changed() {
            return;
        }
        let mut woken = Vec::new();
        for key in &self.preempting {
            let Some(queue) = self.queues.get_mut(key) else { continue };
            let Some(priority) = queue.shape.preempts else { continue };
            let Some(at) = self.placed.up_to(priority) else { continue };
            if queue.is_tried() || self.placed.was_claimed(priority, queue.known().index) {
                queue.offer_anywhere(KnownAt { index: at, clock: 0 });
                woken.push(key.clone());
            }
        }
        self.placed.mark_notified();
        woken.iter().for_each(|key| self.wake(key));
    }

    /// Notifies the queues of a node. Returns the one to go on with when there were too many.
    fn notify_of_node(
        &mut self,
        store: &Store,
        node: NodeSlot,
        from: Option<ShapeKey>,
        looks: &mut usize,
    ) -> Option<ShapeKey> {
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let moment = self.eased.at(node);
        if !store.nodes().row(node).is_some_and(NodeRow::is_ready) {
            return None;
        }
        let mut woken = Vec::new();
        let mut next = None;
        for (key, queue) in self.queues.range_mut((from, Bound::Unbounded)) {
            if *looks == 0 {
                next = Some(key.clone());
                break;
            }
            *looks -= 1;
            if moment.is_newer_than(queue.known()) && queue.shape.may_use(store, node) {
                queue.offer(node, moment);
                woken.push(key.clone());
            }
        }
        woken.iter().for_each(|key| self.wake(key));
        next
    }

    /// What is missed depends on how the cluster places.
    fn rebuild_queues(&mut self, store: &Store) {
        (self.queues, self.awake) = Default::default();
        (self.by_quota, self.round, self.preempting) = Default::default();
        let waiting: Vec<EvalId> =
            self.evals.iter().filter(|(_, place)| place.trial.is_none()).map(|(id, _)| *id).collect();
        for eval in waiting.into_iter().filter_map(|id| store.eval(id)) {
            self.insert(store, eval);
        }
        self.capacity_freed();
    }

    /// An evaluation that was to be tried is not.
    pub fn leave_out(&mut self, id: EvalId) {
        self.remove(id, false);
    }
}

/// Whether work that could not be placed still waits for the same: capacity on nodes, or under the same quotas.
fn waits_for_same(before: &[GroupFailure], now: &[GroupFailure]) -> bool {
    let same = |(before, now): (&GroupFailure, &GroupFailure)| {
        before.group == now.group && before.funnel.quota.keys().eq(now.funnel.quota.keys())
    };
    !now.is_empty() && before.len() == now.len() && before.iter().zip(now).all(same)
}

/// What a state shows.
fn moment_of(store: &Store) -> KnownAt {
    KnownAt { index: store.index(), clock: 0 }
}
