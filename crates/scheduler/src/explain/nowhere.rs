//! Groups of system jobs that no node can run. Nothing of them is missing, as they ask for nodes of which there are none, so
//! that they would seem well.

use berth_model::{
    eval::Funnel,
    job::{Group, Job},
    node::NodeStatus,
    store::Store,
};

use crate::{
    failures::cut,
    filters::{FilterRefusal, Filters},
};

/// How all nodes fell out of consideration for a group that wants one allocation on each that can run it. None where one can,
/// which is the last that is looked at, and for other groups.
pub fn nowhere(store: &Store, job: &Job, group: &Group) -> Option<Funnel> {
    if !job.job_type.is_per_node() || job.stop || job.only_launches() || group.count == 0 {
        return None;
    }
    let (filters, nodes) = (Filters::of(job, group), store.nodes());
    let mut funnel = Funnel::default();
    let open = nodes.iter().filter(|(_, row)| row.status == NodeStatus::Ready && row.eligible);
    for detail in open.filter_map(|(slot, _)| nodes.detail(slot)) {
        funnel.considered += 1;
        match filters.check(&detail.node) {
            Ok(()) => return None,
            Err(FilterRefusal::NotAvailable) => {}
            Err(FilterRefusal::Filtered(reason)) => {
                *funnel.available.entry(detail.node.datacenter.clone()).or_default() += 1;
                *funnel.filtered.entry(cut(&reason)).or_default() += 1;
            }
        }
    }
    Some(funnel)
}
