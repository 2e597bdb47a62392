//! States of jobs' lives that a simulation has reached, counted as their entries are applied for the first time: what is never
//! reached is not tested.

use berth_model::{
    alloc::{ClientStatus, StopReason},
    command::{Command, PlanRecord},
    deployment::{Deployment, DeploymentStatus},
    event::{NodeChange, StateChange},
    job::JobType,
    node::NodeStatus,
    store::{AllocSlot, Store},
};

use crate::{
    invariants::history::{AppliedStep, History},
    truth::Counts,
};

/// States that the short form must reach. Others are rarer here: the random histories of the controller, which have no servers
/// that fail, reach disconnected nodes and those who stand in for what is there.
pub const EXPECTED: &[&str] = &[
    "allocations with cores placed",
    "allocations with devices placed",
    "deployments failed",
    "deployments of system jobs",
    "deployments of system jobs successful",
    "deployments paused",
    "deployments resumed",
    "deployments successful",
    "runs of sysbatch jobs ended",
    "tasks that end without a server",
];

/// Counts what the entries after the first `before` have led to.
pub(crate) fn count(history: &History, before: usize, counts: &mut Counts) {
    let mut add = |what| *counts.entry(what).or_default() += 1;
    for step in history.since(before) {
        of_commands(history.store(), step, &mut add);
        of_changes(history.store(), step, &mut add);
    }
}

fn of_commands(store: &Store, step: &AppliedStep, add: &mut impl FnMut(&'static str)) {
    let done = step.entry.commands.iter().zip(&step.applied.outcomes).filter(|(_, outcome)| outcome.is_ok());
    for (command, _) in done {
        match command {
            Command::PromoteDeployment(promote) if promote.groups.is_some() => {
                add("groups promoted on their own");
            }
            Command::SetDeployment(set) => {
                let of = store.deployments().get(set.id);
                let is_system = of.is_some_and(|of| is_of_system_job(store, of));
                add(match (set.status, is_system) {
                    (DeploymentStatus::Running, _) => "deployments resumed",
                    (DeploymentStatus::Paused, _) => "deployments paused",
                    (DeploymentStatus::Successful, true) => "deployments of system jobs successful",
                    (DeploymentStatus::Successful, false) => "deployments successful",
                    (DeploymentStatus::Failed, _) => "deployments failed",
                    (DeploymentStatus::Cancelled, _) => "deployments cancelled",
                });
            }
            Command::CommitPlan(plan) if begins_on_nodes(store, plan) => add("deployments of system jobs"),
            _ => {}
        }
    }
}

/// Whether a plan began the deployment of a system job.
fn begins_on_nodes(store: &Store, plan: &PlanRecord) -> bool {
    let new = plan.deployment.as_ref().and_then(|new| store.deployments().get(new.id));
    new.is_some_and(|of| is_of_system_job(store, of))
}

fn is_of_system_job(store: &Store, of: &Deployment) -> bool {
    store.job(&of.job).is_some_and(|row| row.job().job_type == JobType::System)
}

fn of_changes(store: &Store, step: &AppliedStep, add: &mut impl FnMut(&'static str)) {
    for change in &step.applied.events {
        match change {
            StateChange::NodeChanged(slot, NodeChange::Status) => {
                let status = store.nodes().row(*slot).map(|node| node.status);
                if status == Some(NodeStatus::Disconnected) {
                    add("nodes disconnected");
                }
            }
            StateChange::AllocPlaced(slot) => {
                let extra = store.allocs().extra(*slot);
                if extra.is_some_and(|extra| !extra.devices.is_empty()) {
                    add("allocations with devices placed");
                }
                if extra.is_some_and(|extra| !extra.cores.is_empty()) {
                    add("allocations with cores placed");
                }
                if is_stand_in(store, *slot) {
                    add("stand-ins placed");
                }
            }
            StateChange::AllocStopped(slot) => {
                match store.allocs().extra(*slot).and_then(|extra| extra.stop_reason) {
                    Some(StopReason::OriginalKept) => add("originals kept"),
                    Some(StopReason::ReplacementKept) => add("replacements kept"),
                    Some(StopReason::Preempted) => add("allocations preempted"),
                    _ => {}
                }
            }
            StateChange::AllocEnded(slot) => {
                let Some(row) = store.allocs().row(*slot) else { continue };
                let is_sysbatch = store.job_of(row).is_some_and(|(job, _)| job.job_type == JobType::Sysbatch);
                if is_sysbatch && row.client == ClientStatus::Complete {
                    add("runs of sysbatch jobs ended");
                }
            }
            _ => {}
        }
    }
}

/// Whether an allocation was placed for one that goes on, as far as anybody knows, on a node that is silent.
fn is_stand_in(store: &Store, slot: AllocSlot) -> bool {
    let previous = store.allocs().extra(slot).and_then(|extra| extra.previous);
    previous.and_then(|id| store.alloc(id)).is_some_and(|(_, row)| {
        row.is_desired() && store.nodes().row(row.node).is_some_and(|node| node.status.is_silent())
    })
}
