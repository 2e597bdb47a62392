//! Work that waits for room: at most one evaluation a job, tried again in rounds when room that it could use has come.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    EvalId, JobKey, Timestamp,
    eval::{Eval, EvalStatus, GroupFailure},
    event::Event as Change,
    job::Group,
    resources::Resources,
    store::{AllocSlot, JobRow, NodeRow, NodeSlot, Store},
};

use crate::{fair_queue::FairQueue, follow::Follower, tenants::Tenants};

/// Evaluations of one round that are tried at the same time, so that a deep queue does not hold up fresh work.
const TRIED_AT_ONCE_MAX: usize = 64;

/// Nodes with new room that are told apart; of more, every evaluation is tried.
const EASED_MAX: usize = 1024;

/// The evaluations that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    by_job: BTreeMap<JobKey, EvalId>,
    /// Still to be tried in this round.
    round: FairQueue,
    tried: BTreeSet<EvalId>,
    /// Began to wait since this round began. At most as many as there are jobs.
    fresh: BTreeSet<EvalId>,
    /// Room may have come on any node since this round began.
    room_came: bool,
    /// Nodes on which something ended since this round began, or that came or changed.
    eased: BTreeSet<NodeSlot>,
    /// Jobs of which something ended since then: what keeps their allocations apart may let them on other nodes now.
    ended: BTreeSet<JobKey>,
    /// Room came under these quotas since this round began.
    quotas: BTreeSet<String>,
}

/// Room that may have come on some nodes.
#[derive(Debug, Default)]
struct NewRoom {
    /// The most that nothing holds.
    free: Resources,
    /// The most there is, for work that may take the place of other work.
    capacity: Resources,
}

impl Follower for Blocked {
    fn of(store: &Store) -> Self {
        let mut all = Self { room_came: true, ..Self::default() };
        store.evals().blocked().for_each(|eval| all.insert(eval));
        all
    }

    fn on_change(&mut self, store: &Store, change: &Change, _at: Timestamp) {
        match change {
            Change::EvalChanged(id) => self.on_eval_changed(store, *id),
            Change::AllocEnded(slot) => {
                self.on_alloc_ended(store, *slot);
                self.on_usage_eased(store, *slot);
            }
            Change::SchedulerConfigChanged => self.room_came(),
            Change::NodeRegistered(slot) => self.node_eased(*slot),
            Change::NodeChanged(slot) if store.nodes().row(*slot).is_some_and(NodeRow::is_ready) => {
                self.node_eased(*slot);
            }
            // Namespaces may keep to other quotas now.
            Change::NamespaceChanged(_) => {
                store.quotas().iter().for_each(|row| self.quota_eased(&row.quota.name));
            }
            Change::QuotaChanged(quota) => self.quota_eased(quota),
            _ => {}
        }
    }
}

impl Blocked {
    fn on_eval_changed(&mut self, store: &Store, id: EvalId) {
        let Some(eval) = store.eval(id) else { return };
        if eval.status.is_terminal() {
            self.remove(eval);
        } else if eval.status == EvalStatus::Blocked {
            self.insert(eval);
        }
    }

    fn on_alloc_ended(&mut self, store: &Store, slot: AllocSlot) {
        let Some(row) = store.allocs().row(slot) else { return };
        self.node_eased(row.node);
        let job = store.jobs().row(row.job).map(|job| &job.key).filter(|key| self.by_job.contains_key(*key));
        self.ended.extend(job.cloned());
    }

    /// There may be more room on a node than before.
    fn node_eased(&mut self, node: NodeSlot) {
        if self.eased.len() < EASED_MAX {
            self.eased.insert(node);
        } else {
            self.room_came();
        }
    }

    /// An allocation that has ended counts no more for the quotas of its namespace.
    fn on_usage_eased(&mut self, store: &Store, slot: AllocSlot) {
        if store.quotas().is_empty() {
            return;
        }
        let job = store.allocs().row(slot).and_then(|row| store.jobs().row(row.job));
        let quotas = job.map(|job| store.namespaces().quotas(&job.key.namespace));
        quotas.into_iter().flatten().for_each(|quota| self.quota_eased(quota));
    }

    /// The jobs that wait, and in which evaluations.
    #[cfg(test)]
    pub fn waiting(&self) -> &BTreeMap<JobKey, EvalId> {
        &self.by_job
    }

    /// A job waits.
    fn insert(&mut self, eval: &Eval) {
        self.fresh.insert(eval.id);
        self.by_job.insert(eval.job.clone(), eval.id);
    }

    /// The evaluation in which a job waits.
    pub fn of_job(&self, job: &JobKey) -> Option<EvalId> {
        self.by_job.get(job).copied()
    }

    /// A job's evaluation waits no more.
    fn remove(&mut self, eval: &Eval) {
        if self.by_job.get(&eval.job) == Some(&eval.id) {
            self.by_job.remove(&eval.job);
        }
        self.fresh.remove(&eval.id);
        self.tried.remove(&eval.id);
    }

    /// Room may have come on any node: everything is tried again that waits for it.
    pub fn room_came(&mut self) {
        self.room_came = true;
    }

    /// What has come so far is tried, or nobody waits for it.
    fn clear_room(&mut self) {
        self.room_came = false;
        self.eased.clear();
        self.ended.clear();
        self.quotas.clear();
    }

    /// Namespaces that keep to a quota hold less, or may hold more.
    fn quota_eased(&mut self, quota: &str) {
        if !self.quotas.contains(quota) {
            self.quotas.insert(quota.to_owned());
        }
    }

    /// An evaluation was tried, and waits on or not.
    pub fn tried(&mut self, id: EvalId) {
        self.tried.remove(&id);
    }

    /// The next ones to be tried, by priority and their tenants' shares. A tenant that begins to wait while another's long
    /// line is tried does not wait for the end of that line: it is tried in the same round.
    pub fn next(&mut self, store: &Store, tenants: &mut Tenants) -> Vec<EvalId> {
        if self.by_job.is_empty() {
            self.clear_room();
            return Vec::new();
        }
        let room = self.room_came || !self.eased.is_empty() || !self.quotas.is_empty();
        if room && self.round.is_empty() && self.tried.is_empty() {
            let waiting: Vec<EvalId> = self.by_job.values().copied().collect();
            self.add_to_round(store, waiting);
            self.clear_room();
            self.fresh.clear();
        } else if room && !self.fresh.is_empty() {
            let fresh = std::mem::take(&mut self.fresh);
            self.add_to_round(store, fresh);
        }
        let mut next = Vec::new();
        while self.tried.len() < TRIED_AT_ONCE_MAX {
            let Some(eval) = self.round.pop(store, tenants) else { break };
            // Charged until all are chosen, so that tenants take turns; from then on the queue charges in its own order.
            tenants.begin(store, eval.id, &eval.job);
            self.tried.insert(eval.id);
            next.push(eval.id);
        }
        next.iter().for_each(|id| tenants.end(*id));
        next
    }

    fn add_to_round(&mut self, store: &Store, waiting: impl IntoIterator<Item = EvalId>) {
        let room = self.new_room(store);
        for eval in waiting.into_iter().filter_map(|id| store.eval(id)) {
            if self.can_go_on(store, eval, &room) {
                self.round.push(Arc::clone(eval));
            }
        }
    }

    /// The most there is on any of the nodes with new room. Of cpu, memory and disk each by itself, so that a round costs a
    /// look at each node and each evaluation, not at every pair of them.
    fn new_room(&self, store: &Store) -> NewRoom {
        let rows = self.eased.iter().filter_map(|slot| store.nodes().row(*slot)).filter(|row| row.is_ready());
        rows.fold(NewRoom::default(), |room, row| NewRoom {
            free: room.free.max(row.free()),
            capacity: room.capacity.max(row.capacity),
        })
    }

    /// Whether what an evaluation waits for has come: what a quota alone keeps back needs no room on nodes.
    fn can_go_on(&self, store: &Store, eval: &Eval, room: &NewRoom) -> bool {
        let (mut needs_nodes, mut eased) = (eval.failures.is_empty(), false);
        for failure in &eval.failures {
            needs_nodes |= failure.funnel.quota.is_empty();
            eased |= failure.funnel.quota.keys().any(|quota| self.quotas.contains(quota));
        }
        eased
            || needs_nodes && (self.room_came || self.ended.contains(&eval.job) || room.may_take(store, eval))
    }
}

impl NewRoom {
    /// Whether anything that an evaluation could not place would fit, by what it asks of cpu, memory and disk. Whether the
    /// rest suits it as well is the planner's to say.
    fn may_take(&self, store: &Store, eval: &Eval) -> bool {
        let Some(job) = store.job(&eval.job).map(JobRow::job) else { return true };
        let waits = |group: &&Group| {
            eval.failures.is_empty() || eval.failures.iter().any(|failure| failure.group == group.name)
        };
        let may_preempt = store.scheduler_config().preemption.is_on_for(job.job_type);
        let room = if may_preempt { self.capacity } else { self.free };
        job.groups.iter().filter(waits).any(|group| group.resources().exceeds(room).is_none())
    }
}

/// Whether work that could not be placed still waits for the same: room on nodes, or under the same quotas.
pub(crate) fn waits_for_same(before: &[GroupFailure], now: &[GroupFailure]) -> bool {
    let waits = |failure: &GroupFailure| -> (String, Vec<String>) {
        (failure.group.clone(), failure.funnel.quota.keys().cloned().collect())
    };
    before.iter().map(waits).eq(now.iter().map(waits))
}
