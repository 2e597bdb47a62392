//! What holds after every step of a history, and which states it reached.

use std::collections::BTreeMap;

use berth_controller::invariants::{Launches, Rollbacks, lacks_of_count, lacks_of_nodes, twice};
use berth_model::{
    alloc::{ClientStatus, StopReason},
    command::{Command, Entry},
    deployment::DeploymentStatus,
    event::{AppliedEntry, NodeChange, StateChange},
    job::JobType,
    node::NodeStatus,
    store::{JobRow, Store},
};

use super::missing::Surplus;

/// A periodic job that has been due for longer has been passed over, in seconds.
const LATE_S: u64 = 12;

/// What the rules remember.
#[derive(Default)]
pub struct Rules {
    launches: Launches,
    rollbacks: Rollbacks,
    surplus: Surplus,
    /// States that were reached, counted.
    pub reached: BTreeMap<&'static str, u64>,
}

/// What there is of a job, for people.
pub fn all_of(store: &Store, row: &JobRow) -> String {
    let allocs: Vec<_> = store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot)).collect();
    let evals: Vec<_> = store.jobs().evals(row).filter_map(|slot| store.evals().row(slot)).collect();
    let nodes: Vec<_> = store.nodes().iter().map(|(slot, row)| (slot, row.id, row.status)).collect();
    let last = store.deployments().of_job(&row.key).next_back();
    format!("{allocs:#?}\n{evals:#?}\n{nodes:#?}\n{last:#?}")
}

impl Rules {
    /// An entry was applied, which led to this state.
    pub fn on_entry(&mut self, store: &Store, entry: &Entry, applied: &AppliedEntry) {
        for (_, node) in store.nodes().iter() {
            assert_eq!(node.used.exceeds(node.capacity), None, "node {} is overcommitted", node.id);
        }
        for (_, row) in store.jobs().iter() {
            assert_eq!(twice(store, row), None);
        }
        let launched = self.launches.on_entry(store, entry, applied);
        let undone = self.rollbacks.on_entry(store, entry, applied);
        launched.and(undone).unwrap_or_else(|what| panic!("{what} {entry:#?}"));
        self.surplus.on_entry(store, applied);
        self.count_commands(store, entry, applied);
        self.count_changes(store, applied);
    }

    /// Nothing has kept the server from its work for a second.
    pub fn on_second(&self, store: &Store) {
        for (_, row) in store.jobs().iter() {
            let lacks = lacks_of_count(store, row).or_else(|| lacks_of_nodes(store, row));
            let lacks = lacks.or_else(|| self.surplus.lacks_beside_canaries(store, row));
            let lacks = lacks.or_else(|| self.surplus.unplanned(store, row));
            assert_eq!(lacks, None, "{}", all_of(store, row));
            let due = row.due().filter(|due| due.0 + LATE_S * 1_000_000_000 < store.at().0);
            assert_eq!(due, None, "{} is due at {:?}: {:#?}", row.key, store.at(), (row.launch, row.job()));
        }
    }

    /// A plan was judged.
    pub fn on_judged(&mut self, store: &Store, refused: usize) {
        let rollouts = store.deployments().active().count();
        if refused > 0 && rollouts > 0 {
            self.add("plans refused beside a deployment");
        }
    }

    fn add(&mut self, what: &'static str) {
        *self.reached.entry(what).or_default() += 1;
    }

    fn count_commands(&mut self, store: &Store, entry: &Entry, applied: &AppliedEntry) {
        let done = entry.commands.iter().zip(&applied.outcomes).filter(|(_, outcome)| outcome.is_ok());
        for (command, _) in done {
            match command {
                Command::LaunchJob(_) => self.add("launches"),
                Command::PromoteDeployment(promote) if promote.groups.is_some() => {
                    self.add("groups promoted on their own");
                }
                Command::SetDeployment(set) => {
                    let of = store.deployments().get(set.id).and_then(|of| store.job(&of.job));
                    let is_system = of.is_some_and(|row| row.job().job_type == JobType::System);
                    self.add(match (set.status, is_system) {
                        (DeploymentStatus::Running, _) => "deployments resumed",
                        (DeploymentStatus::Paused, true) => "deployments of system jobs paused",
                        (DeploymentStatus::Paused, false) => "deployments paused",
                        (DeploymentStatus::Successful, true) => "deployments of system jobs successful",
                        (DeploymentStatus::Successful, false) => "deployments successful",
                        (DeploymentStatus::Failed, true) => "deployments of system jobs failed",
                        (DeploymentStatus::Failed, false) => "deployments failed",
                        (DeploymentStatus::Cancelled, _) => "deployments cancelled",
                    });
                    if set.revert_to.is_some() {
                        self.add("deployments undone");
                    }
                }
                _ => {}
            }
        }
    }

    fn count_changes(&mut self, store: &Store, applied: &AppliedEntry) {
        for change in &applied.events {
            let what = match change {
                StateChange::NodeChanged(slot, NodeChange::Status) => {
                    let status = store.nodes().row(*slot).map(|node| node.status);
                    (status == Some(NodeStatus::Disconnected)).then_some("nodes disconnected")
                }
                StateChange::AllocPlaced(slot) => {
                    let previous = store.allocs().extra(*slot).and_then(|extra| extra.previous);
                    let previous =
                        previous.and_then(|id| store.alloc(id)).filter(|(_, row)| row.is_desired());
                    previous.is_some().then_some("stand-ins placed")
                }
                StateChange::AllocCollected(..) => Some("allocations collected"),
                StateChange::DeploymentCollected(_) => Some("deployments collected"),
                StateChange::AllocUpdated(..) => Some("allocations updated where they are"),
                StateChange::AllocStopped(slot) => {
                    match store.allocs().extra(*slot).and_then(|extra| extra.stop_reason) {
                        Some(StopReason::OriginalKept) => Some("originals kept"),
                        Some(StopReason::ReplacementKept) => Some("replacements kept"),
                        Some(StopReason::CanaryDiscarded) => Some("canaries discarded"),
                        _ => None,
                    }
                }
                StateChange::AllocEnded(slot) => {
                    let row = store.allocs().row(*slot);
                    let complete = row.filter(|row| row.client == ClientStatus::Complete);
                    let job = complete.and_then(|row| store.job_of(row)).map(|(job, _)| job.job_type);
                    (job == Some(JobType::Sysbatch)).then_some("runs of sysbatch jobs ended")
                }
                _ => None,
            };
            what.into_iter().for_each(|what| self.add(what));
        }
    }
}
