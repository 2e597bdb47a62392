//! Garbage collection. What has ended waits its time in queues, oldest first, so that nothing is
//! ever searched for; whatever is in use again by then stays (`apply` looks once more).

mod expiry_queue;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use berth_model::{
    AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Timestamp,
    command::Collect,
    eval::Eval,
    event::StateChange,
    job::JobType,
    node::NodeStatus,
    store::{AllocRow, AllocSlot, JobRow, JobSlot, Store},
};

use crate::follow::Follower;
use expiry_queue::ExpiryQueue;

/// Evaluations and allocations of services are kept this long after their end.
const SERVICE_KEPT: Duration = Duration::from_secs(3600);
/// Evaluations of batch jobs are kept this long after their end.
const BATCH_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Evaluations of one job that are kept: of more, those that are done and older go after a while.
const EVALS_OF_JOB_MAX: usize = 64;
/// By then whoever follows one of them has seen its end.
const CROWDED_KEPT: Duration = Duration::from_secs(60);
/// Dead jobs are kept this long.
const JOB_KEPT: Duration = Duration::from_secs(4 * 3600);
/// Deployments that are over are kept this long; the last one of a job as long as the job.
const DEPLOYMENT_KEPT: Duration = Duration::from_secs(3600);
/// Nodes that are down are kept this long.
const NODE_KEPT: Duration = Duration::from_secs(24 * 3600);
/// Allocations or evaluations forgotten in one command.
const COLLECTED_MAX: usize = 4096;
/// Jobs and nodes forgotten in one command: a job takes its allocations along.
const JOBS_COLLECTED_MAX: usize = 256;

/// Allocations of a state that are looked at together: all of a large one would hold up everything else for long.
const LOOKED_AT: u32 = 16_384;

/// What has ended and is kept for a while.
#[derive(Debug, Clone, Default)]
pub(crate) struct Collector {
    allocs: ExpiryQueue<AllocId>,
    /// Allocations of the state that this was made from, from here on, are yet to be looked at; none once all have been.
    unseen: Option<AllocSlot>,
    service_evals: ExpiryQueue<EvalId>,
    batch_evals: ExpiryQueue<EvalId>,
    /// By their place and since when they have it: a key would outlive a job that is garbage-collected before its time.
    jobs: ExpiryQueue<(JobSlot, Index)>,
    nodes: ExpiryQueue<NodeId>,
    deployments: ExpiryQueue<DeploymentId>,
    /// With too many evaluations; each once.
    crowded: ExpiryQueue<JobKey>,
    is_crowded: BTreeSet<JobKey>,
    /// Not to be kept at all.
    purged: VecDeque<JobKey>,
}

impl Follower for Collector {
    fn of(store: &Store) -> Self {
        let mut all = Self { unseen: Some(AllocSlot(0)), ..Self::default() };
        for (_, eval) in store.evals().iter().filter(|(_, eval)| eval.status.is_terminal()) {
            all.evals(eval.job_type).push(eval.modified_at, eval.id);
        }
        for (slot, row) in store.jobs().iter() {
            all.job_changed(store, slot, last_change(store, row));
            all.evals_changed(row, last_change(store, row));
        }
        for (slot, row) in store.nodes().iter().filter(|(_, row)| row.status == NodeStatus::Down) {
            let at = store.nodes().detail(slot).map_or_else(Timestamp::default, |detail| detail.status_at);
            all.nodes.push(at, row.id);
        }
        for over in store.deployments().iter().filter(|deployment| !deployment.is_active()) {
            all.deployments.push(over.modified_at, over.id);
        }
        all
    }

    fn on_change(&mut self, store: &Store, change: &StateChange, now: Timestamp) {
        match change {
            StateChange::AllocEnded(slot) => {
                // Whoever looks at the rest of the state finds it.
                if self.unseen.is_none_or(|unseen| *slot < unseen) {
                    self.alloc_ended(store, *slot, now);
                }
                let job = store.allocs().row(*slot).map(|alloc| alloc.job);
                job.into_iter().for_each(|job| self.job_changed(store, job, now));
            }
            StateChange::EvalChanged(id) => {
                if let Some(eval) = store.eval(*id).filter(|eval| eval.status.is_terminal()) {
                    self.evals(eval.job_type).push(now, eval.id);
                    if let Some((slot, row)) =
                        store.jobs().find(&eval.job).and_then(|slot| Some((slot, store.jobs().row(slot)?)))
                    {
                        self.job_changed(store, slot, now);
                        self.evals_changed(row, now);
                    }
                }
            }
            StateChange::JobDeregistered(slot) => self.job_changed(store, *slot, now),
            StateChange::DeploymentChanged(id, _) => self.deployment_changed(store, *id, now),
            StateChange::NodeChanged(slot, _) => {
                let down = store.nodes().row(*slot).filter(|row| row.status == NodeStatus::Down);
                self.nodes.extend(now, down.map(|row| row.id));
            }
            // What is garbage-collected before its time would wait for it nevertheless: by an operator, or with its job.
            StateChange::AllocCollected(..) => self.allocs.drop_gone(|id| store.alloc(*id).is_some()),
            StateChange::EvalCollected(_) => {
                let is_there = |id: &EvalId| store.eval(*id).is_some();
                self.service_evals.drop_gone(is_there);
                self.batch_evals.drop_gone(is_there);
            }
            StateChange::JobCollected(..) => self.jobs.drop_gone(|(slot, since)| {
                store.jobs().row(*slot).is_some_and(|row| row.create_index == *since)
            }),
            StateChange::DeploymentCollected(_) => {
                self.deployments.drop_gone(|id| store.deployments().get(*id).is_some());
            }
            StateChange::NodeCollected(..) => self.nodes.drop_gone(|id| store.node(*id).is_some()),
            _ => {}
        }
    }

    fn due_at(&self) -> Option<Timestamp> {
        let at_once = (!self.purged.is_empty() || self.unseen.is_some()).then(Timestamp::default);
        let first = [
            self.allocs.first_over(SERVICE_KEPT),
            self.service_evals.first_over(SERVICE_KEPT),
            self.batch_evals.first_over(BATCH_KEPT),
            self.jobs.first_over(JOB_KEPT),
            self.nodes.first_over(NODE_KEPT),
            self.deployments.first_over(DEPLOYMENT_KEPT),
            self.crowded.first_over(CROWDED_KEPT),
        ];
        at_once.into_iter().chain(first.into_iter().flatten()).min()
    }
}

impl Collector {
    /// What can be garbage-collected now; none when nothing can. Whatever may be refused, as something changes until the command is
    /// applied, waits again until it is gone.
    pub fn due(&mut self, store: &Store, now: Timestamp) -> Option<Collect> {
        self.look_further(store);
        let collect = Collect {
            jobs: self.jobs_due(store, now),
            allocs: self.allocs_due(store, now),
            evals: self.evals_due(store, now),
            nodes: self.nodes_due(store, now),
            decided_on: Some(store.index()),
            deployments: self.deployments_due(store, now),
        };
        (!collect.is_empty()).then_some(collect)
    }

    fn evals_due(&mut self, store: &Store, now: Timestamp) -> Vec<EvalId> {
        let mut evals = self.service_evals.over(SERVICE_KEPT, now, COLLECTED_MAX);
        evals.extend(self.batch_evals.over(BATCH_KEPT, now, COLLECTED_MAX));
        for key in self.crowded.over(CROWDED_KEPT, now, JOBS_COLLECTED_MAX) {
            self.is_crowded.remove(&key);
            let Some(row) = store.job(&key) else { continue };
            evals.extend(old_evals(store, row, now));
            // Those that are younger wait their time.
            self.evals_changed(row, now);
        }
        evals
    }

    fn jobs_due(&mut self, store: &Store, now: Timestamp) -> Vec<JobKey> {
        let count = self.purged.len().min(JOBS_COLLECTED_MAX);
        let purged = self.purged.drain(..count).filter_map(|key| store.jobs().find(&key));
        let purged = purged.filter_map(|slot| Some((slot, store.jobs().row(slot)?)));
        let over = self.jobs.over(JOB_KEPT, now, JOBS_COLLECTED_MAX).into_iter();
        let dead = over.filter_map(|(slot, since)| {
            let row = store.jobs().row(slot).filter(|row| row.create_index == since && row.is_over())?;
            // What has changed since it died waits again, further back.
            (now.since(last_change(store, row)) >= JOB_KEPT).then_some((slot, row))
        });
        let due: Vec<_> = purged.chain(dead).collect();
        self.jobs.extend(now, due.iter().map(|(slot, row)| (*slot, row.create_index)));
        due.into_iter().map(|(_, row)| row.key.clone()).collect()
    }

    fn nodes_due(&mut self, store: &Store, now: Timestamp) -> Vec<NodeId> {
        let nodes = self.nodes.over(NODE_KEPT, now, JOBS_COLLECTED_MAX).into_iter().filter(|id| {
            let since = store.node(*id).and_then(|(slot, _)| Some(store.nodes().detail(slot)?.status_at));
            since.is_some_and(|since| now.since(since) >= NODE_KEPT)
        });
        // One on which something still lives is asked again, further back.
        let lives = |id: &NodeId| store.node(*id).is_some_and(|(_, row)| !row.live.is_empty());
        let (later, nodes): (Vec<NodeId>, Vec<NodeId>) = nodes.partition(lives);
        self.nodes.extend(now, later);
        nodes
    }

    /// What is why its job places nothing is of no use once the job changes, or the node ends; and by the time of the command, a job that
    /// went back to an older version may need what was of no use.
    fn allocs_due(&mut self, store: &Store, now: Timestamp) -> Vec<AllocId> {
        let over = self.allocs.over(SERVICE_KEPT, now, COLLECTED_MAX).into_iter();
        let ended: Vec<&AllocRow> = over.filter_map(|id| Some(store.alloc(id)?.1)).collect();
        self.allocs.extend(now, ended.iter().map(|row| row.id));
        ended.into_iter().filter(|row| !store.holds_place(row)).map(|row| row.id).collect()
    }

    fn deployments_due(&mut self, store: &Store, now: Timestamp) -> Vec<DeploymentId> {
        let over_long = self.deployments.over(DEPLOYMENT_KEPT, now, COLLECTED_MAX).into_iter();
        // One that is still asked about its allocations waits again.
        let may_go = |id: &DeploymentId| {
            store.deployments().get(*id).is_none_or(|over| store.may_collect_deployment(over))
        };
        let (deployments, later): (Vec<DeploymentId>, Vec<DeploymentId>) = over_long.partition(may_go);
        self.deployments.extend(now, later);
        deployments
    }

    fn alloc_ended(&mut self, store: &Store, slot: AllocSlot, at: Timestamp) {
        let may_go = |row: &&AllocRow| store.may_collect(row) || store.holds_place(row);
        let row = store.allocs().row(slot).filter(may_go);
        self.allocs.extend(at, row.map(|row| row.id));
    }

    /// Looks at some more of the allocations of the state that this was made from.
    fn look_further(&mut self, store: &Store) {
        let Some(from) = self.unseen else { return };
        let to = AllocSlot(from.0.saturating_add(LOOKED_AT).min(store.allocs().end().0));
        for slot in (from.0..to.0).map(AllocSlot) {
            let at = store.allocs().detail(slot).map_or_else(Timestamp::default, |detail| detail.modified_at);
            self.alloc_ended(store, slot, at);
        }
        self.unseen = (to < store.allocs().end()).then_some(to);
    }

    /// One that is over waits its time. With a new one those before it are the last of their job no more.
    fn deployment_changed(&mut self, store: &Store, id: DeploymentId, at: Timestamp) {
        let Some(deployment) = store.deployments().get(id) else { return };
        if !deployment.is_active() {
            self.deployments.push(at, id);
        } else if deployment.create_index == deployment.modify_index {
            let before = store.deployments().of_job(&deployment.job).filter(|other| other.id != id);
            self.deployments.extend(at, before.map(|other| other.id));
        }
    }

    fn evals(&mut self, job_type: JobType) -> &mut ExpiryQueue<EvalId> {
        if job_type.runs_to_completion() { &mut self.batch_evals } else { &mut self.service_evals }
    }

    fn evals_changed(&mut self, row: &JobRow, at: Timestamp) {
        if row.evals.len() > EVALS_OF_JOB_MAX && self.is_crowded.insert(row.key.clone()) {
            self.crowded.push(at, row.key.clone());
        }
    }

    fn job_changed(&mut self, store: &Store, slot: JobSlot, at: Timestamp) {
        let Some(row) = store.jobs().row(slot).filter(|row| row.is_over()) else { return };
        if row.purge {
            self.purged.push_back(row.key.clone());
        } else {
            self.jobs.push(at, (slot, row.create_index));
        }
    }
}

fn last_change(store: &Store, row: &JobRow) -> Timestamp {
    let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
    let last_eval = evals.map(|eval| eval.modified_at).max().unwrap_or_default();
    last_eval.max(row.current().submitted_at)
}

/// The evaluations of a job that are done, but for the last ones.
fn old_evals(store: &Store, row: &JobRow, now: Timestamp) -> Vec<EvalId> {
    let evals = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot));
    let mut done: Vec<_> = evals.filter(|eval| eval.status.is_terminal()).collect();
    done.sort_by_key(|eval| (eval.modify_index, eval.id));
    let is_old = |eval: &&Arc<Eval>| now.since(eval.modified_at) >= CROWDED_KEPT;
    let too_many = done.len().saturating_sub(EVALS_OF_JOB_MAX);
    done.into_iter().take(too_many).filter(is_old).map(|eval| eval.id).take(COLLECTED_MAX).collect()
}
