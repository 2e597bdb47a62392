//! Work that waits for room: at most one evaluation a job, tried again in rounds when room may have come.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    EvalId, JobKey, Timestamp,
    eval::{Eval, EvalStatus, GroupFailure},
    event::Event as Change,
    store::{AllocSlot, NodeRow, Store},
};

use crate::{fair_queue::FairQueue, follow::Follower, tenants::Tenants};

/// Evaluations of one round that are tried at the same time, so that a deep queue does not hold up fresh work.
const TRIED_AT_ONCE_MAX: usize = 64;

/// The evaluations that wait for room.
#[derive(Debug, Default)]
pub(crate) struct Blocked {
    by_job: BTreeMap<JobKey, EvalId>,
    /// Still to be tried in this round.
    round: FairQueue,
    tried: BTreeSet<EvalId>,
    /// Began to wait since this round began. At most as many as there are jobs.
    fresh: BTreeSet<EvalId>,
    /// Room came on nodes since this round began.
    room_came: bool,
    /// Room came under these quotas since this round began.
    quotas: BTreeSet<String>,
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
                self.room_came();
                self.on_usage_eased(store, *slot);
            }
            Change::NodeRegistered(_) | Change::SchedulerConfigChanged => self.room_came(),
            Change::NodeChanged(slot) if store.nodes().row(*slot).is_some_and(NodeRow::is_ready) => {
                self.room_came();
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

    /// Room may have come on nodes: everything is tried again that waits for it.
    pub fn room_came(&mut self) {
        self.room_came = true;
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
            self.room_came = false;
            self.quotas.clear();
            return Vec::new();
        }
        let room = self.room_came || !self.quotas.is_empty();
        if room && self.round.is_empty() && self.tried.is_empty() {
            let waiting: Vec<EvalId> = self.by_job.values().copied().collect();
            self.add_to_round(store, waiting);
            self.room_came = false;
            self.quotas.clear();
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
        for eval in waiting.into_iter().filter_map(|id| store.eval(id)) {
            if self.can_go_on(eval) {
                self.round.push(Arc::clone(eval));
            }
        }
    }

    /// Whether what an evaluation waits for has come: what a quota alone keeps back needs no room on nodes.
    fn can_go_on(&self, eval: &Eval) -> bool {
        let (mut needs_nodes, mut eased) = (eval.failures.is_empty(), false);
        for failure in &eval.failures {
            needs_nodes |= failure.funnel.quota.is_empty();
            eased |= failure.funnel.quota.keys().any(|quota| self.quotas.contains(quota));
        }
        eased || needs_nodes && self.room_came
    }
}

/// Whether work that could not be placed still waits for the same: room on nodes, or under the same quotas.
pub(crate) fn waits_for_same(before: &[GroupFailure], now: &[GroupFailure]) -> bool {
    let waits = |failure: &GroupFailure| -> (String, Vec<String>) {
        (failure.group.clone(), failure.funnel.quota.keys().cloned().collect())
    };
    before.iter().map(waits).eq(now.iter().map(waits))
}
