//! Why a job waits: how the nodes fell out of consideration, what stands in the way on one node, and which single change
//! of the job or of the cluster would place it.

mod change;
mod device_shortage;
mod nowhere;
mod obstacle;
mod preemption;

use std::collections::HashMap;

use berth_model::{
    AllocId, EvalId, JobKey, NodeId, Timestamp,
    alloc::StopReason,
    device::DevicesHeld,
    eval::{Eval, Funnel, Trigger},
    job::Job,
    resources::Resources,
    store::{NodeSlot, Store},
};

use crate::{
    budget::{Budget, Cancelled},
    claims::Claims,
    place::PeerAlloc,
    plan::Plan,
    planner::Planner,
    reconcile::staying,
};
pub use change::SuggestedChange;
pub use nowhere::nowhere;
use obstacle::GroupFit;

/// What is said of a node that is not there.
pub const NO_SUCH_NODE: &str = "there is no such node";

/// What planning a job now would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// One for each group.
    pub groups: Vec<GroupExplanation>,
    /// What has failed is replaced from then on; none when nothing waits for that.
    pub retry_at: Option<Timestamp>,
}

/// What planning a group now would come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupExplanation {
    /// The group's name.
    pub group: String,
    /// Allocations that can be placed nowhere.
    pub missing: u32,
    /// Allocations of other jobs that would be preempted for the rest.
    pub preempted: Vec<AllocId>,
    /// How the nodes fell out of consideration for the first of them.
    pub funnel: Funnel,
    /// Nothing is missing because no node can run it, as a system job's; the funnel says why.
    pub nowhere: bool,
    /// Single changes after which at least one more could be placed, the smallest first.
    pub changes: Vec<SuggestedChange>,
    /// What stands in the way on the node that was asked about; nothing when one more could be placed there.
    pub here: Option<Vec<String>>,
}

/// Explains a job on a state: plans it again, and looks at every node on which what is left over cannot be placed. None
/// for a job that is not there.
///
/// # Errors
/// When the budget says that nobody waits for it any more.
pub fn explain(
    store: &Store,
    job: &JobKey,
    node: Option<NodeId>,
    now: Timestamp,
    budget: &Budget<'_>,
) -> Result<Option<Explanation>, Cancelled> {
    let Some(row) = store.job(job) else { return Ok(None) };
    let plan = planned(store, row.job(), now, budget)?;
    let preempting = preemption::changes(store, row.job(), &plan, now, budget)?;
    let peers = staying(store, row, row.job(), &plan.stops);
    let planned_cluster = PlannedCluster::after(store, row.job(), &plan, peers);
    let groups = (0_u16..).zip(&row.job().groups).map(|(position, group)| {
        budget.check()?;
        let failure = plan.failures.iter().find(|failure| *failure.group == *group.name);
        let missing = failure.map_or(0, |failure| failure.count);
        let runs = planned_cluster.peers.iter().any(|peers| peers.group == Some(position));
        let nowhere = if missing > 0 || runs { None } else { nowhere(store, row.job(), group) };
        let looked = GroupFit::at(&planned_cluster, position);
        let here = node.map(|id| match store.nodes().find(id) {
            Some(slot) => looked.on(slot).iter().map(ToString::to_string).collect(),
            None => vec![NO_SUCH_NODE.to_owned()],
        });
        Ok(GroupExplanation {
            group: group.name.clone(),
            missing,
            preempted: preempted(&plan, position),
            nowhere: nowhere.is_some(),
            funnel: match failure {
                Some(failure) => Funnel::clone(&failure.funnel),
                None => nowhere.unwrap_or_default(),
            },
            changes: if missing > 0 {
                change::smallest(&looked).into_iter().chain(preempting.get(&position).cloned()).collect()
            } else {
                Vec::new()
            },
            here,
        })
    });
    let retries = plan.next.iter().filter(|next| next.trigger == Trigger::RetryFailedAlloc);
    let retry_at = retries.map(|next| next.wait_until).min();
    Ok(Some(Explanation { groups: groups.collect::<Result<_, _>>()?, retry_at }))
}

/// Whom a plan preempts for a group.
fn preempted(plan: &Plan, group: u16) -> Vec<AllocId> {
    let stops = plan.stops.iter().filter(|stop| stop.reason == StopReason::Preempted);
    let first = |id: &AllocId| plan.placements.iter().find(|placement| placement.after.contains(id));
    let of_group = |id: &AllocId| first(id).is_some_and(|placement| placement.group == group);
    stops.map(|stop| stop.alloc).filter(of_group).collect()
}

/// What planning a job on a state comes to.
fn planned(store: &Store, job: &Job, now: Timestamp, budget: &Budget<'_>) -> Result<Plan, Cancelled> {
    let mut planner = Planner::default();
    planner.follow(store, &Claims::default());
    let Job { key, job_type, priority, .. } = job;
    let eval = Eval::pending(EvalId::default(), key.clone(), *job_type, *priority, Trigger::JobRegister);
    planner.plan_within(store, &eval, now, 0, budget)
}

/// The cluster once a plan has come true.
struct PlannedCluster<'a> {
    store: &'a Store,
    job: &'a Job,
    taken: HashMap<NodeSlot, Resources>,
    /// Of nodes on which something is placed.
    devices: HashMap<NodeSlot, DevicesHeld>,
    ports: HashMap<NodeSlot, Vec<u16>>,
    peers: Vec<PeerAlloc>,
}

impl<'a> PlannedCluster<'a> {
    fn after(store: &'a Store, job: &'a Job, plan: &Plan, mut peers: Vec<PeerAlloc>) -> Self {
        let (mut taken, mut ports, mut devices) = (HashMap::new(), HashMap::new(), HashMap::new());
        for (placement, charge) in plan.placements.iter().zip(&plan.charges) {
            let Some(node) = store.nodes().find(placement.node) else { continue };
            let sum: &mut Resources = taken.entry(node).or_default();
            *sum = sum.plus(*charge);
            let held: &mut Vec<u16> = ports.entry(node).or_default();
            held.extend(&placement.ports);
            let held: &mut DevicesHeld = devices.entry(node).or_insert_with(|| held_devices(store, node));
            let mut promised = store.devices_to_promise(node);
            placement.after.iter().filter_map(|id| promised.remove(id)).for_each(|part| held.remove(part));
            held.add(&DevicesHeld::of(&placement.devices, &placement.cores));
            peers.push(PeerAlloc { node, group: Some(placement.group) });
        }
        Self { store, job, taken, devices, ports, peers }
    }

    /// What is held of a node's devices and cores.
    fn devices(&self, slot: NodeSlot) -> DevicesHeld {
        self.devices.get(&slot).cloned().unwrap_or_else(|| held_devices(self.store, slot))
    }

    fn free(&self, slot: NodeSlot) -> Resources {
        let free = self.store.nodes().row(slot).map_or(Resources::ZERO, |row| row.free());
        free.minus(self.taken.get(&slot).copied().unwrap_or_default())
    }
}

fn held_devices(store: &Store, slot: NodeSlot) -> DevicesHeld {
    store.nodes().detail(slot).map_or_else(DevicesHeld::default, |detail| (*detail.devices).clone())
}
