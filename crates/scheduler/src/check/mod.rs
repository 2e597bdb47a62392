//! An independent look at a finished plan: whether what it says may come true. It shares no code with the placing of
//! allocations, so that a mistake there is found here; tests ask it of every plan, and so do planners in debug builds.

mod allocs;
mod capacity;
mod device_grants;
mod distinct;
mod preempted;
mod quotas;
mod rollout;
mod updates;

use berth_model::{
    AllocId, NodeId,
    alloc::Placement,
    job::{Group, Job},
    store::{AllocRow, JobRow, NodeSlot, Store},
};

use crate::plan::Plan;

/// Something that a plan must not say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("plan of {job}: {what}")]
pub struct PlanFault {
    /// The job that is planned.
    pub job: String,
    /// What is wrong, and where.
    pub what: String,
}

/// What is wrong with a plan made on a state; nothing, as it should be.
pub fn check(store: &Store, plan: &Plan) -> Vec<PlanFault> {
    let mut faults = PlanFaults { job: plan.job.to_string(), found: Vec::new() };
    match store.job(&plan.job) {
        Some(row) if row.current().version == plan.job_version => {
            let checked = CheckedPlan { store, plan, row, job: row.job() };
            allocs::check(&checked, &mut faults);
            distinct::check(&checked, &mut faults);
            rollout::check(&checked, &mut faults);
            capacity::check(&checked, &mut faults);
            updates::check(&checked, &mut faults);
            device_grants::check(&checked, &mut faults);
            quotas::check(&checked, &mut faults);
            preempted::check(&checked, &mut faults);
        }
        _ if plan.placements.is_empty() && plan.stops.is_empty() && plan.updates.is_empty() => {}
        _ => faults.add("it is not about the job's current version".to_owned()),
    }
    faults.found
}

/// A plan with what it is about.
struct CheckedPlan<'a> {
    store: &'a Store,
    plan: &'a Plan,
    row: &'a JobRow,
    /// What its newest version says.
    job: &'a Job,
}

impl<'a> CheckedPlan<'a> {
    fn group(&self, position: u16) -> Option<&'a Group> {
        self.job.groups.get(usize::from(position))
    }

    /// What a placement runs: a version of the job, and its group there.
    fn spec(&self, placement: &Placement) -> Option<(&'a Job, &'a Group)> {
        let (version, group) = self.row.placed_by(placement, self.plan.job_version)?;
        Some((&version.job, group))
    }

    /// The position of a placement's group in the newest version.
    fn position(&self, placement: &Placement) -> Option<u16> {
        match placement.job_version {
            None => Some(placement.group),
            Some(_) => self.job.group(&self.spec(placement)?.1.name).map(|(position, _)| position),
        }
    }

    fn is_stopped(&self, alloc: AllocId) -> bool {
        self.plan.stops.iter().any(|stop| stop.alloc == alloc)
    }

    fn is_canary(&self, alloc: AllocId) -> bool {
        let extra = self.store.allocs().find(alloc).and_then(|slot| self.store.allocs().extra(slot));
        extra.is_some_and(|extra| extra.canary)
    }

    fn node(&self, id: NodeId) -> Option<NodeSlot> {
        self.store.nodes().find(id)
    }

    /// The job's allocations that go on, without canaries and those that others stand in for: node, position of their
    /// group, and which of the group's they are.
    fn staying(&self) -> Vec<(NodeSlot, u16, u32)> {
        let Some(row) = self.store.job(&self.plan.job) else { return Vec::new() };
        let rows = self.store.jobs().allocs(row).filter_map(|slot| self.store.allocs().row(slot));
        rows.filter(|alloc| alloc.is_desired() && !self.is_stopped(alloc.id) && !self.is_canary(alloc.id))
            .filter(|alloc| !self.is_stood_in_for(alloc))
            .filter_map(|alloc| {
                let (_, group) = self.store.job_of(alloc)?;
                let (position, _) = self.job.group(&group.name)?;
                Some((alloc.node, position, alloc.name_index))
            })
            .collect()
    }
}

impl CheckedPlan<'_> {
    /// Whether an allocation is on a silent node, and another was or is placed in its stead.
    fn is_stood_in_for(&self, alloc: &AllocRow) -> bool {
        let nodes = self.store.nodes();
        let is_silent = nodes.row(alloc.node).is_some_and(|node| node.status.is_silent());
        let extra = self.store.allocs().find(alloc.id).and_then(|slot| self.store.allocs().extra(slot));
        let placed = || self.plan.placements.iter().any(|placed| placed.previous == Some(alloc.id));
        is_silent && (extra.is_some_and(|extra| extra.next.is_some()) || placed())
    }
}

/// What was found so far.
struct PlanFaults {
    job: String,
    found: Vec<PlanFault>,
}

impl PlanFaults {
    fn add(&mut self, what: String) {
        self.found.push(PlanFault { job: self.job.clone(), what });
    }
}
