//! Allocations.

use std::sync::Arc;

use berth_model::{
    AllocId, EvalId, Index,
    deployment::Deployment,
    job::{Group, Job},
    node::Node,
    observed::LastObservation,
    store::{AllocDetail, AllocExtra, AllocRow, AllocSlot},
};

use crate::shared::View;

/// An allocation and what is reported with it.
#[derive(Debug)]
pub struct AllocObject {
    /// What decisions read of it.
    pub row: AllocRow,
    /// What only users read of it.
    pub detail: AllocDetail,
    /// The version of its job that it runs, which has its group.
    pub job: Arc<Job>,
    /// Its node; none once that is forgotten.
    pub node: Option<Arc<Node>>,
    /// Its node is disconnected.
    pub is_unknown: bool,
    /// What its agent saw last.
    pub seen: Option<LastObservation>,
    /// Where that last changed; 0 once its end is in the log.
    pub observed_index: Index,
    /// The deployment that it is part of.
    pub deployment: Option<Arc<Deployment>>,
    /// As [`View::followup`].
    pub followup: Option<EvalId>,
    /// The namespaces of the allocations that it waits for, preempted or was preempted by; of those that are not gone.
    pub named: Vec<(AllocId, Arc<str>)>,
}

impl AllocObject {
    /// Its group.
    pub fn group(&self) -> &Group {
        &self.job.groups[usize::from(self.row.group)]
    }
}

impl View {
    pub(super) fn past_alloc(&self, slot: AllocSlot) -> Option<Box<AllocObject>> {
        let store = &self.store;
        let row = store.allocs().row(slot)?;
        let detail = store.allocs().detail(slot)?;
        let (job, _) = store.job_of(row)?;
        Some(Box::new(AllocObject {
            row: *row,
            detail: detail.clone(),
            job: job.clone(),
            node: store.nodes().detail(row.node).map(|detail| detail.node.clone()),
            is_unknown: self.is_unknown(row),
            seen: self.observed.last(slot, row.id),
            observed_index: self.observed_index(slot, row),
            deployment: store.deployment_with(row).cloned(),
            followup: self.followup(row, detail),
            named: detail.extra().map_or_else(Vec::new, |extra| self.namespaces(extra)),
        }))
    }

    fn namespaces(&self, extra: &AllocExtra) -> Vec<(AllocId, Arc<str>)> {
        let namespace = |id: AllocId| {
            let (_, row) = self.store.alloc(id)?;
            Some((id, self.store.jobs().row(row.job)?.key.namespace.clone()))
        };
        let waits_for = extra.after.iter().map(|(id, _)| *id);
        let others = waits_for.chain(extra.preempted.iter().copied()).chain(extra.preempted_by);
        others.filter_map(namespace).collect()
    }
}
