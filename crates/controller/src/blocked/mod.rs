//! Work that waits for room: at most one evaluation a job, tried again once room of its kind has come.
//!
//! Those that miss the same stand in one [`Line`], in which the first of a tenant and priority goes first. As soon as one
//! of them finds no room, the others are not tried: there is none for them either, until more comes.

mod line;
mod room;
mod shape;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
    sync::Arc,
};

use berth_model::{
    EvalId, Index, JobKey, Timestamp,
    eval::{Eval, EvalStatus, GroupFailure},
    event::Event as Change,
    store::{AllocSlot, NodeRow, NodeSlot, Store},
};
use berth_scheduler::{Freed, Plan};

use crate::{fair_queue::FairQueue, follow::Follower, tenants::Tenants};
use line::{Line, Turn};
use room::{Eased, Moment, Placed, Promise, Promised};
use shape::{Missing, ShapeKey};

/// Evaluations that are tried at the same time, so that a deep queue does not hold up fresh work.
const TRIED_AT_ONCE_MAX: usize = 64;

/// Looks at a line for the sake of a node, in one step of the leader; the rest are taken in the next.
const LOOKS_PER_STEP_MAX: usize = 8192;

/// Nodes that a new line looks at because they have more room since its first one was planned; of more, room may be
/// anywhere.
const LOOKS_BACK_MAX: usize = 256;

/// The evaluations that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    by_job: BTreeMap<JobKey, EvalId>,
    evals: BTreeMap<EvalId, Place>,
    lines: BTreeMap<ShapeKey, Line>,
    /// The lines that a quota holds back.
    by_quota: BTreeMap<String, BTreeSet<ShapeKey>>,
    /// The first of each tenant in the lines for which there may be room.
    round: FairQueue<(ShapeKey, Arc<Eval>)>,
    awake: BTreeSet<ShapeKey>,
    trying: usize,
    eased: Eased,
    /// When there came room under each quota last.
    quotas_eased: BTreeMap<String, Moment>,
    promised: Promised,
    placed: Placed,
    /// The lines whose work may take the place of other work.
    preempting: BTreeSet<ShapeKey>,
    /// Counts what becomes known without an index.
    clock: u64,
    came: Came,
}

/// Where an evaluation waits.
#[derive(Debug)]
struct Place {
    eval: Arc<Eval>,
    line: ShapeKey,
    trial: Option<Trial>,
}

/// An evaluation is being planned again, or its plan is on its way to the log.
#[derive(Debug, Clone, Copy)]
struct Trial {
    began: u64,
    promise: Option<Promise>,
}

/// What came, and no line was informed of yet.
#[derive(Debug, Default)]
struct Came {
    nodes: BTreeSet<NodeSlot>,
    half_told: Option<HalfTold>,
    /// Something of these jobs ended, or is on a node that takes no new work: others of them may go to other nodes now.
    moved: BTreeSet<JobKey>,
    quotas: BTreeSet<String>,
    anywhere: bool,
}

/// A node of which some of the lines were informed; it is among those that came until all are.
#[derive(Debug)]
struct HalfTold {
    node: NodeSlot,
    next: ShapeKey,
    /// More room has come there since.
    again: bool,
}

impl Came {
    fn add_node(&mut self, node: NodeSlot) {
        let is_new = self.nodes.insert(node);
        if let Some(half) = self.half_told.as_mut().filter(|half| !is_new && half.node == node) {
            half.again = true;
        }
    }
}

impl Follower for Blocked {
    fn of(store: &Store) -> Self {
        let mut all = Self::default();
        // What was known when they were planned is not: whoever led may have known of more than the state shows.
        store.evals().blocked().for_each(|eval| all.insert(store, eval));
        all.room_came();
        all
    }

    fn on_change(&mut self, store: &Store, change: &Change, _at: Timestamp) {
        match change {
            Change::EvalChanged(id) => self.on_eval_changed(store, *id),
            Change::EvalCollected(id) => drop(self.remove(*id, false)),
            Change::AllocPlaced(slot) => self.on_alloc_placed(store, *slot),
            Change::AllocEnded(slot) => self.on_alloc_ended(store, *slot),
            Change::SchedulerConfigChanged => self.sort_anew(store),
            Change::NodeRegistered(slot) => self.node_eased(store, *slot),
            Change::NodeChanged(slot, _) if store.nodes().row(*slot).is_some_and(NodeRow::is_ready) => {
                self.node_eased(store, *slot);
            }
            Change::NodeChanged(slot, _) => self.on_node_closed(store, *slot),
            // Namespaces may keep to other quotas now.
            Change::NamespaceChanged(_) => {
                let quotas = store.quotas().iter().map(|row| row.quota.name.clone());
                self.ease_quotas(moment_of(store), quotas);
            }
            Change::QuotaChanged(quota) => {
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
            Some(eval) if eval.status == EvalStatus::Pending && eval.node.is_some() => self.room_came(),
            Some(eval) => drop(self.remove(id, eval.status == EvalStatus::Complete)),
            None => drop(self.remove(id, false)),
        }
    }

    /// As long as work was claimed it could not be preempted: who may do so finds room now where others hid it.
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
            return self.room_came();
        };
        self.node_eased(store, row.node);
        let Some(job) = store.jobs().row(row.job) else { return };
        if self.by_job.contains_key(&job.key) {
            self.came.moved.insert(job.key.clone());
        }
        if !store.quotas().is_empty() {
            let quotas = store.namespaces().quotas(&job.key.namespace);
            self.ease_quotas(moment_of(store), quotas.into_iter().map(str::to_owned));
        }
    }

    /// A node takes no new work. What was to replace work there may replace some on another node now, as the canary of a
    /// system job, which has room where this one had none.
    fn on_node_closed(&mut self, store: &Store, node: NodeSlot) {
        self.eased.note(node, moment_of(store));
        let Some(row) = store.nodes().row(node) else { return };
        let allocs = store.nodes().live(row).filter_map(|slot| store.allocs().row(slot));
        let jobs = allocs.filter_map(|alloc| store.jobs().row(alloc.job));
        let waiting = jobs.map(|job| &job.key).filter(|key| self.by_job.contains_key(*key));
        self.came.moved.extend(waiting.cloned());
    }

    /// There may be more room under quotas than before.
    fn ease_quotas(&mut self, moment: Moment, quotas: impl IntoIterator<Item = String>) {
        for quota in quotas {
            let before = self.quotas_eased.entry(quota.clone()).or_default();
            *before = before.latest(moment);
            self.came.quotas.insert(quota);
        }
    }

    /// There may be more room on a node than before.
    fn node_eased(&mut self, store: &Store, node: NodeSlot) {
        self.eased.note(node, moment_of(store));
        self.came.add_node(node);
    }

    /// What was claimed did not come true: those who were refused for its sake may have it.
    pub fn on_freed(&mut self, store: &Store, freed: Freed) {
        if freed.nodes.is_empty() {
            return;
        }
        let moment = self.now(store);
        for node in freed.nodes.into_iter().filter_map(|id| store.nodes().find(id)) {
            self.eased.note(node, moment);
            self.came.add_node(node);
        }
        if !store.quotas().is_empty() {
            let quotas = freed.namespaces.iter().flat_map(|name| store.namespaces().quotas(name));
            self.ease_quotas(moment, quotas.map(str::to_owned));
        }
    }

    /// Room may have come anywhere: everything is tried again that waits for it.
    fn room_came(&mut self) {
        self.came.anywhere = true;
    }

    /// Something becomes known now that no index reports.
    fn now(&mut self, store: &Store) -> Moment {
        self.clock += 1;
        Moment { index: store.index(), clock: self.clock }
    }

    /// The jobs that wait, and in which evaluations.
    #[cfg(test)]
    pub fn waiting(&self) -> &BTreeMap<JobKey, EvalId> {
        &self.by_job
    }

    /// Whether nothing waits.
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
        let Some(missing) = Missing::of(store, eval, &eval.failures) else { return };
        let before = eval.previous.and_then(|id| store.eval(id)).map(|eval| eval.snapshot_index);
        let seen = Some(eval.snapshot_index).filter(|index| *index > Index::default()).or(before);
        let seen = seen.filter(|index| missing.was_seen_at(*index));
        let known = seen.map(|index| Moment { index, clock: trial.map_or(0, |trial| trial.began) });
        let key = missing.key();
        let is_new = !self.lines.contains_key(&key);
        let line = self.lines.entry(key.clone()).or_insert_with(|| Line::new(missing.shape()));
        line.add(eval.clone());
        known.into_iter().for_each(|known| line.learn(known));
        if is_new {
            for quota in &line.shape.quotas {
                self.by_quota.entry(quota.clone()).or_default().insert(key.clone());
            }
            if line.shape.preempts.is_some() {
                self.preempting.insert(key.clone());
            }
            self.look_back(store, &key);
        }
        self.by_job.insert(eval.job.clone(), eval.id);
        self.evals.insert(eval.id, Place { eval: eval.clone(), line: key.clone(), trial: None });
        self.wake(&key);
    }

    /// Room that came after the first of a new line was planned, and before it was here.
    fn look_back(&mut self, store: &Store, key: &ShapeKey) {
        let now = Moment { index: store.index(), clock: self.clock };
        let Some(line) = self.lines.get_mut(key) else { return };
        let is_news =
            |quota: &String| self.quotas_eased.get(quota).is_some_and(|eased| eased.is_news_to(line.known()));
        let is_hidden_no_more = |priority: u8| self.placed.up_to(priority) > Some(line.known().index);
        if line.shape.quotas.iter().any(is_news) || line.shape.preempts.is_some_and(is_hidden_no_more) {
            return line.offer_anywhere(now);
        }
        for (looks, node) in self.eased.since(line.known()).enumerate() {
            if looks == LOOKS_BACK_MAX || line.shape.replaces_on_closed(store, node) {
                return line.offer_anywhere(now);
            }
            if line.shape.may_use(store, node) {
                line.offer(node, now);
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
            self.end_trial(&place.line, trial, found_room);
        } else if let Some(line) = self.lines.get_mut(&place.line) {
            line.remove(&place.eval);
        }
        self.wake(&place.line);
        self.drop_if_empty(&place.line);
        place.trial
    }

    fn end_trial(&mut self, line: &ShapeKey, trial: Trial, found_room: bool) {
        self.trying -= 1;
        self.lines.get_mut(line).into_iter().for_each(|line| line.tried(found_room));
        if let Some(promise) = trial.promise
            && self.promised.end(promise)
        {
            self.came.add_node(promise.0);
        }
    }

    fn drop_if_empty(&mut self, key: &ShapeKey) {
        let Some(line) = self.lines.get(key).filter(|line| line.is_empty()) else { return };
        for quota in &line.shape.quotas {
            if let Some(held_back) = self.by_quota.get_mut(quota) {
                held_back.remove(key);
                if held_back.is_empty() {
                    self.by_quota.remove(quota);
                }
            }
        }
        self.lines.remove(key);
        self.awake.remove(key);
        self.preempting.remove(key);
    }

    /// Lets those of a line have their turns, if there may be room for them.
    fn wake(&mut self, key: &ShapeKey) {
        let Some(line) = self.lines.get_mut(key).filter(|line| line.is_awake()) else { return };
        for first in line.firsts() {
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
        let Some(missing) = Missing::of(store, eval, &plan.failures) else { return false };
        let key = missing.key();
        let Some(place) = self.evals.get_mut(&eval.id).filter(|place| place.line == key) else {
            return false;
        };
        let Some(line) = self.lines.get_mut(&key) else { return false };
        let trial = place.trial.take();
        line.add(place.eval.clone());
        line.learn(Moment { index: plan.snapshot_index, clock: trial.map_or(0, |trial| trial.began) });
        if let Some(trial) = trial {
            self.end_trial(&key, trial, false);
        }
        self.wake(&key);
        true
    }

    /// The next ones to be tried, by priority and their tenants' shares.
    pub fn next(&mut self, store: &Store, tenants: &mut Tenants) -> Vec<EvalId> {
        if self.by_job.is_empty() {
            self.came = Came::default();
            self.placed.told();
            return Vec::new();
        }
        self.tell_lines(store);
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

    /// It is the turn of a tenant in a line.
    fn begin(&mut self, store: &Store, key: &ShapeKey, turn: &Eval) -> Option<Arc<Eval>> {
        let line = self.lines.get_mut(key)?;
        line.end_turn(turn);
        if !self.awake.contains(key) {
            return None;
        }
        let eval = line.first(turn)?.clone();
        let count = eval.failures.iter().map(|failure| failure.count).fold(0, u32::saturating_add);
        let Some(turn) = line.find_room(store, &self.eased, &mut self.promised, count) else {
            self.awake.remove(key);
            return None;
        };
        line.begin(&eval);
        self.trying += 1;
        let promise = match turn {
            Turn::Promised(promise) => Some(promise),
            Turn::Unknown => None,
        };
        let trial = Trial { began: self.clock, promise };
        self.evals.get_mut(&eval.id).into_iter().for_each(|place| place.trial = Some(trial));
        if line.is_awake() {
            self.wake(key);
        } else {
            self.awake.remove(key);
        }
        Some(eval)
    }

    /// Tells the lines what came. Each step looks at so many of them, whatever there are.
    fn tell_lines(&mut self, store: &Store) {
        let told_of = |came: &mut Came| (std::mem::take(&mut came.anywhere), std::mem::take(&mut came.moved));
        let (anywhere, moved) = told_of(&mut self.came);
        let mut keys: BTreeSet<ShapeKey> = BTreeSet::new();
        if anywhere {
            keys.extend(self.lines.keys().cloned());
        }
        keys.extend(moved.into_iter().map(ShapeKey::Own));
        for quota in std::mem::take(&mut self.came.quotas) {
            keys.extend(self.by_quota.get(&quota).into_iter().flatten().cloned());
        }
        if !keys.is_empty() {
            let moment = self.now(store);
            for key in keys {
                self.lines.get_mut(&key).into_iter().for_each(|line| line.offer_anywhere(moment));
                self.wake(&key);
            }
        }
        self.tell_of_placed();
        let mut looks = LOOKS_PER_STEP_MAX;
        loop {
            let half_told = self.came.half_told.take().map(|half| (half.node, Some(half.next), half.again));
            let next = half_told.or_else(|| Some((*self.came.nodes.first()?, None, false)));
            let Some((node, from, again)) = next else { break };
            if let Some(next) = self.tell_of_node(store, node, from, &mut looks) {
                return self.came.half_told = Some(HalfTold { node, next, again });
            }
            if !again {
                self.came.nodes.remove(&node);
            }
        }
    }

    /// Tells the lines that may preempt work of what was placed. What was planned on a newer state than they were tried on
    /// had not been claimed then, and hid nothing.
    fn tell_of_placed(&mut self) {
        if !self.placed.is_news() {
            return;
        }
        let mut woken = Vec::new();
        for key in &self.preempting {
            let Some(line) = self.lines.get_mut(key) else { continue };
            let Some(priority) = line.shape.preempts else { continue };
            let Some(at) = self.placed.up_to(priority) else { continue };
            if line.is_tried() || self.placed.was_claimed(priority, line.known().index) {
                line.offer_anywhere(Moment { index: at, clock: 0 });
                woken.push(key.clone());
            }
        }
        self.placed.told();
        woken.iter().for_each(|key| self.wake(key));
    }

    /// Tells the lines of a node. Returns the one to go on with when there were too many.
    fn tell_of_node(
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
        for (key, line) in self.lines.range_mut((from, Bound::Unbounded)) {
            if *looks == 0 {
                next = Some(key.clone());
                break;
            }
            *looks -= 1;
            if moment.is_news_to(line.known()) && line.shape.may_use(store, node) {
                line.offer(node, moment);
                woken.push(key.clone());
            }
        }
        woken.iter().for_each(|key| self.wake(key));
        next
    }

    /// What is missed depends on how the cluster places.
    fn sort_anew(&mut self, store: &Store) {
        (self.lines, self.awake) = Default::default();
        (self.by_quota, self.round, self.preempting) = Default::default();
        let waiting: Vec<EvalId> =
            self.evals.iter().filter(|(_, place)| place.trial.is_none()).map(|(id, _)| *id).collect();
        for eval in waiting.into_iter().filter_map(|id| store.eval(id)) {
            self.insert(store, eval);
        }
        self.room_came();
    }

    /// An evaluation that was to be tried is not.
    pub fn leave_out(&mut self, id: EvalId) {
        self.remove(id, false);
    }
}

/// Whether work that could not be placed still waits for the same: room on nodes, or under the same quotas.
fn waits_for_same(before: &[GroupFailure], now: &[GroupFailure]) -> bool {
    let same = |(before, now): (&GroupFailure, &GroupFailure)| {
        before.group == now.group && before.funnel.quota.keys().eq(now.funnel.quota.keys())
    };
    !now.is_empty() && before.len() == now.len() && before.iter().zip(now).all(same)
}

/// What a state shows.
fn moment_of(store: &Store) -> Moment {
    Moment { index: store.index(), clock: 0 }
}
