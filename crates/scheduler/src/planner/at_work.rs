//! A plan at work: the groups of a job, one after the other, each allocation on the best of the nodes left.

use berth_model::{
    AllocId,
    alloc::Placement,
    eval::{Funnel, GroupFailure},
    ids::IdSeed,
    job::Group,
    quota::Usage,
    store::{JobRow, Store},
};

use super::quotas::Quotas;
use crate::{
    budget::{Cancelled, Meter},
    failures::reason,
    fairness::{Charge, Headroom},
    place::{Columns, Ending, GroupPlacer, Placed, Preemptor, There, WishesCache},
    plan::Plan,
    reconcile::{Missing, Wanted},
};

/// What the groups of a plan share.
pub(super) struct AtWork<'a> {
    pub store: &'a Store,
    pub row: &'a JobRow,
    pub seed: u64,
    pub ids: IdSeed,
    pub ending: Ending,
    pub there: Vec<There>,
    pub headroom: Headroom,
    /// Placements that replace nobody and may still be made.
    pub fresh_left: usize,
}

impl AtWork<'_> {
    /// Places what is missing of a group, as far as the budget goes.
    pub fn place_group(
        &mut self,
        columns: &mut Columns,
        wishes: &mut WishesCache,
        mut preemptor: Option<&mut Preemptor<'_>>,
        wanted: &Wanted,
        meter: &mut Meter<'_>,
        plan: &mut Plan,
    ) -> Result<(), Cancelled> {
        let (store, job) = (self.store, self.row.job());
        let group = &job.groups[usize::from(wanted.group)];
        if meter.is_spent() {
            plan.more = true;
            plan.failures.extend(self.not_looked_at(group, wanted, meter));
            return Ok(());
        }
        meter.take(self.there.len())?;
        let mut ending = std::mem::take(&mut self.ending);
        let about = (job, wanted.group);
        let mut placer = GroupPlacer::new(store, columns, wishes, about, &self.there, &mut ending, self.seed);
        let mut failure: Option<GroupFailure> = None;
        for (at, missing) in wanted.steps(store, job, group).enumerate() {
            meter.take(1)?;
            let Some(missing) = missing else { continue };
            // Nodes only get fuller while a plan is made: what fitted nowhere will not fit for the next like it.
            if let Some(failure) = failure.as_mut().filter(|_| missing.ask.only.is_none()) {
                failure.count += left_after(wanted, store, at);
                break;
            }
            let is_fresh = missing.previous.is_none();
            if is_fresh && self.fresh_left == 0 || meter.is_spent() {
                plan.more = true;
                break;
            }
            match self.place(&mut placer, preemptor.as_deref_mut(), &missing, group) {
                Ok((placed, charge)) => {
                    self.fresh_left -= usize::from(is_fresh);
                    self.there.push(There { node: placed.node, group: Some(wanted.group) });
                    plan.pledge.add(&charge.usage);
                    self.headroom.take(charge);
                    push(plan, store, AllocId(self.ids.mint()), (wanted.group, group), missing, placed);
                }
                Err(funnel) => {
                    meter.take(funnel.considered as usize)?;
                    add(&mut failure, group, funnel);
                }
            }
        }
        drop(placer);
        self.ending = ending;
        plan.failures.extend(failure);
        Ok(())
    }

    fn place(
        &self,
        placer: &mut GroupPlacer<'_>,
        mut preemptor: Option<&mut Preemptor<'_>>,
        missing: &Missing,
        group: &Group,
    ) -> Result<(Placed, Charge), Funnel> {
        let quotas = Quotas::of(self.store, &self.headroom, group);
        preemptor.iter_mut().for_each(|preemptor| preemptor.set_short(self.headroom.short()));
        let ask = quotas.admit(&missing.ask, placer)?;
        placer.place(&ask, preemptor, |placed| quotas.check(placed))
    }

    /// All steps were taken before it was this group's turn.
    fn not_looked_at(&self, group: &Group, wanted: &Wanted, meter: &Meter<'_>) -> Option<GroupFailure> {
        let count = Some(wanted.count_max(self.store)).filter(|count| *count > 0)?;
        let steps = meter.budget().steps;
        let why = format!(
            "no node was looked at: the plan of this job takes more than {steps} steps: split the job"
        );
        Some(GroupFailure { group: group.name.clone(), count, funnel: reason(self.store, why) })
    }
}

/// How many are missing from the one at this step on; those that may go anywhere.
fn left_after(wanted: &Wanted, store: &Store, at: usize) -> u32 {
    wanted.count_max(store).saturating_sub(u32::try_from(at).unwrap_or(u32::MAX))
}

fn add(failure: &mut Option<GroupFailure>, group: &Group, funnel: Funnel) {
    match failure {
        Some(failure) => {
            failure.count += 1;
            failure.funnel.add(funnel);
        }
        None => *failure = Some(GroupFailure { group: group.name.clone(), count: 1, funnel }),
    }
}

fn push(
    plan: &mut Plan,
    store: &Store,
    id: AllocId,
    (position, group): (u16, &Group),
    missing: Missing,
    placed: Placed,
) {
    let Some(node) = store.nodes().row(placed.node) else { return };
    plan.holds.push(Usage::of(placed.holds, group));
    plan.charges.push(placed.charge);
    plan.placements.push(Placement {
        id,
        node: node.id,
        group: position,
        name_index: missing.ask.name_index,
        ports: placed.ports,
        after: placed.after,
        previous: missing.previous,
        reschedules: missing.reschedules,
        devices: placed.granted.devices,
        cores: placed.granted.cores,
    });
}
