//! Which blocked readers a change wakes.

use berth_model::{
    event::{AclObject, StateChange},
    store::AllocSlot,
};

use crate::{WatchKey, events::Change, shared::View};

/// The keys whose readers a change wakes.
pub(crate) fn keys(view: &View, change: &Change) -> Vec<WatchKey> {
    match change {
        Change::Observed(slot, _) => alloc_keys(view, *slot),
        Change::Logged(event) => match event {
            StateChange::NodeRegistered(slot) | StateChange::NodeChanged(slot, _) => {
                let node = view.store.nodes().row(*slot).map(|row| WatchKey::Node(row.id));
                node.into_iter().chain([WatchKey::Nodes]).collect()
            }
            StateChange::NodeCollected(_, id) => vec![WatchKey::Nodes, WatchKey::Node(*id)],
            StateChange::JobRegistered(slot)
            | StateChange::JobDeregistered(slot)
            | StateChange::JobLaunched(slot)
            | StateChange::JobScaled(slot, _)
            | StateChange::JobStatusChanged(slot) => {
                let job = view.store.jobs().row(*slot).map(|row| WatchKey::Job(row.key.clone()));
                job.into_iter().chain([WatchKey::Jobs]).collect()
            }
            StateChange::JobPurged(_, key) => vec![
                WatchKey::Jobs,
                WatchKey::Job(key.clone()),
                WatchKey::JobAllocs(key.clone()),
                WatchKey::JobEvals(key.clone()),
                WatchKey::JobDeployments(key.clone()),
            ],
            StateChange::JobCollected(_, key) => vec![WatchKey::Jobs, WatchKey::Job(key.clone())],
            StateChange::AllocHealthChanged(slot)
            | StateChange::AllocMigrates(slot)
            | StateChange::AllocNodeChanged(slot)
            | StateChange::AllocReplaced(slot) => alloc_keys(view, *slot),
            StateChange::DeploymentChanged(id, _) => {
                let job = view.store.deployments().get(*id).map(|deployment| deployment.job.clone());
                let of_job = job.map(WatchKey::JobDeployments);
                of_job.into_iter().chain([WatchKey::Deployments, WatchKey::Deployment(*id)]).collect()
            }
            StateChange::DeploymentCollected(id) => vec![WatchKey::Deployments, WatchKey::Deployment(*id)],
            StateChange::AllocPlaced(slot)
            | StateChange::AllocUpdated(slot, _)
            | StateChange::AllocStopped(slot)
            | StateChange::AllocEnded(slot) => {
                let mut keys = alloc_keys(view, *slot);
                keys.extend(job_keys(view, *slot));
                keys
            }
            StateChange::AllocCollected(_, id, node) => {
                vec![WatchKey::Allocs, WatchKey::Alloc(*id), WatchKey::NodeAllocs(*node)]
            }
            StateChange::EvalChanged(id) => {
                let job = view.store.eval(*id).map(|eval| eval.job.clone());
                let of_job = job
                    .into_iter()
                    .flat_map(|job| [WatchKey::JobEvals(job.clone()), WatchKey::Job(job), WatchKey::Jobs]);
                of_job.chain([WatchKey::Evals, WatchKey::Eval(*id)]).collect()
            }
            StateChange::EvalCollected(id) => vec![WatchKey::Evals, WatchKey::Eval(*id)],
            StateChange::NamespaceChanged(_) => vec![WatchKey::Namespaces],
            StateChange::QuotaChanged(_) => vec![WatchKey::Quotas],
            StateChange::NodePoolChanged(_) => vec![WatchKey::NodePools],
            StateChange::AclChanged(AclObject::Policy(_) | AclObject::Role(_)) => {
                vec![WatchKey::Acl, WatchKey::AclRules]
            }
            StateChange::AclChanged(_) => vec![WatchKey::Acl],
            StateChange::KeyringChanged => vec![WatchKey::Keyring],
            StateChange::VariableWritten(key) | StateChange::VariableDeleted(key) => {
                let of_namespace = WatchKey::VariablesOf(key.namespace.clone());
                vec![WatchKey::Variables, of_namespace, WatchKey::Variable(key.clone())]
            }
            // A restore wakes all readers; nobody waits for changes of the scheduler's configuration.
            StateChange::SchedulerConfigChanged | StateChange::Restored => Vec::new(),
        },
    }
}

fn alloc_keys(view: &View, slot: AllocSlot) -> Vec<WatchKey> {
    let Some(row) = view.store.allocs().row(slot) else { return vec![WatchKey::Allocs] };
    let job = view.store.jobs().row(row.job).map(|job| WatchKey::JobAllocs(job.key.clone()));
    let node = view.store.nodes().row(row.node).map(|node| WatchKey::NodeAllocs(node.id));
    let eval = view.store.allocs().detail(slot).map(|detail| WatchKey::EvalAllocs(detail.eval));
    [WatchKey::Allocs, WatchKey::Alloc(row.id)].into_iter().chain(job).chain(node).chain(eval).collect()
}

/// A placement or an end can change what becomes of the whole job.
fn job_keys(view: &View, slot: AllocSlot) -> Vec<WatchKey> {
    let job = view.store.allocs().row(slot).and_then(|row| view.store.jobs().row(row.job));
    job.map_or(Vec::new(), |job| vec![WatchKey::Job(job.key.clone()), WatchKey::Jobs])
}
