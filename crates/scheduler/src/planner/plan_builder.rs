//! A plan at work: the groups of a job, one after the other, each allocation on the best of the nodes left.

use std::sync::Arc;

use berth_model::{
    AllocId,
    alloc::Placement,
    eval::{Funnel, GroupFailure},
    ids::IdSeed,
    job::{Group, Job},
    quota::Usage,
    store::{JobRow, Store},
};

use super::quotas::{GroupQuotas, QuotaAdmission};
use crate::{
    budget::{Cancelled, Meter},
    failures::reason,
    fairness::{Charge, Headroom},
    place::{Ask, AskPlacement, Columns, EndingAllocs, GroupPlacer, PeerAlloc, Preemptor, RequirementsCache},
    plan::Plan,
    reconcile::{MissingAlloc, MissingAllocs, staying},
};

/// What the groups of a plan share.
pub(super) struct PlanBuilder<'a> {
    pub store: &'a Store,
    pub row: &'a JobRow,
    pub seed: u64,
    pub ids: IdSeed,
    pub ending: EndingAllocs,
    pub peers: Vec<PeerAlloc>,
    pub headroom: Headroom,
    /// Placements that replace nobody and may still be made.
    pub fresh_left: usize,
}

impl PlanBuilder<'_> {
    /// Places what is missing of a group, as far as the budget goes.
    pub fn place_group(
        &mut self,
        columns: &mut Columns,
        requirements: &mut RequirementsCache,
        mut preemptor: Option<&mut Preemptor<'_>>,
        wanted: &MissingAllocs,
        meter: &mut Meter<'_>,
        plan: &mut Plan,
    ) -> Result<(), Cancelled> {
        let Some((job, group)) = wanted.spec(self.row) else { return Ok(()) };
        if meter.is_spent() {
            plan.more = true;
            plan.failures.extend(self.not_looked_at(group, wanted, meter));
            return Ok(());
        }
        let of_group = PlannedGroup { position: wanted.group, group, job };
        let mut failure: Option<GroupFailure> = None;
        if wanted.version.is_some() {
            self.peers = peers(self.store, self.row, job, plan);
        }
        if wanted.successors().next().is_some() {
            self.place_successors(
                columns,
                requirements,
                preemptor.as_deref_mut(),
                (wanted, of_group),
                meter,
                plan,
                &mut failure,
            )?;
        }
        self.place_new(columns, requirements, preemptor, (wanted, of_group), meter, plan, &mut failure)?;
        if wanted.version.is_some() {
            self.peers = peers(self.store, self.row, self.row.job(), plan);
        }
        plan.failures.extend(failure);
        Ok(())
    }

    /// Those that replace others. Whoever is there stays until its successor has capacity, which may be its own: who has none
    /// leaves everything as it is.
    #[expect(clippy::too_many_arguments, reason = "all that a plan at work has")]
    fn place_successors(
        &mut self,
        columns: &mut Columns,
        requirements: &mut RequirementsCache,
        mut preemptor: Option<&mut Preemptor<'_>>,
        (missing_allocs, of): (&MissingAllocs, PlannedGroup<'_>),
        meter: &mut Meter<'_>,
        plan: &mut Plan,
        failure: &mut Option<GroupFailure>,
    ) -> Result<(), Cancelled> {
        meter.take(self.peers.len())?;
        let mut ending = std::mem::take(&mut self.ending);
        let about = (of.job, of.position);
        let mut placer =
            GroupPlacer::new(self.store, columns, requirements, about, &self.peers, &mut ending, self.seed);
        let mut placed_any = false;
        for missing in missing_allocs.successors() {
            meter.take(1)?;
            if meter.is_spent() {
                plan.more = true;
                break;
            }
            let mut missing = missing.clone();
            if let Some(failure) = failure.as_mut().filter(|_| missing.ask.only.is_none()) {
                // What fitted nowhere will not fit for the next like it, but for the capacity of whom it replaces.
                let Some(own) = missing.instead.map(|instead| instead.node) else {
                    failure.count += 1;
                    continue;
                };
                missing.ask.only = Some(own);
            }
            match self.place(&mut placer, preemptor.as_deref_mut(), &missing, of.group) {
                Ok((placed, charge)) => {
                    placed_any = true;
                    // Whom it replaces leaves capacity that those before it did not find.
                    let may_move = !of.job.job_type.is_per_node();
                    plan.more |= may_move && failure.is_some() && missing.instead.is_some();
                    plan.stops.extend(missing.instead.map(|instead| instead.stop));
                    self.note(plan, of, missing, placed, charge);
                }
                Err(_) if failure.is_some() && missing.instead.is_some() => {
                    failure.iter_mut().for_each(|failure| failure.count += 1);
                }
                Err(funnel) => {
                    meter.take(funnel.considered as usize)?;
                    add(failure, of.group, funnel);
                }
            }
        }
        drop(placer);
        self.ending = ending;
        if placed_any {
            // Without those who now have a successor.
            self.peers = peers(self.store, self.row, of.job, plan);
        }
        Ok(())
    }

    /// Those that replace nobody.
    #[expect(clippy::too_many_arguments, reason = "all that a plan at work has")]
    fn place_new(
        &mut self,
        columns: &mut Columns,
        requirements: &mut RequirementsCache,
        mut preemptor: Option<&mut Preemptor<'_>>,
        (missing_allocs, of): (&MissingAllocs, PlannedGroup<'_>),
        meter: &mut Meter<'_>,
        plan: &mut Plan,
        failure: &mut Option<GroupFailure>,
    ) -> Result<(), Cancelled> {
        let store = self.store;
        let mut new_ones = missing_allocs.new_ones(store, of.job, of.group).enumerate().peekable();
        if new_ones.peek().is_none() {
            return Ok(());
        }
        meter.take(self.peers.len())?;
        let mut ending = std::mem::take(&mut self.ending);
        let about = (of.job, of.position);
        let mut placer =
            GroupPlacer::new(store, columns, requirements, about, &self.peers, &mut ending, self.seed);
        for (at, missing) in new_ones {
            meter.take(1)?;
            let Some(missing) = missing else { continue };
            // Nodes only get fuller while a plan is made: what fitted nowhere will not fit for the next like it.
            if let Some(failure) = failure.as_mut().filter(|_| missing.ask.only.is_none()) {
                failure.count += left_after(missing_allocs, store, at);
                break;
            }
            if self.fresh_left == 0 || meter.is_spent() {
                plan.more = true;
                break;
            }
            match self.place(&mut placer, preemptor.as_deref_mut(), &missing, of.group) {
                Ok((placed, charge)) => {
                    self.fresh_left -= 1;
                    self.peers.push(PeerAlloc { node: placed.node, group: Some(of.position) });
                    self.note(plan, of, missing, placed, charge);
                }
                Err(funnel) => {
                    meter.take(funnel.considered as usize)?;
                    add(failure, of.group, funnel);
                }
            }
        }
        drop(placer);
        self.ending = ending;
        Ok(())
    }

    fn note(
        &mut self,
        plan: &mut Plan,
        of: PlannedGroup<'_>,
        missing: MissingAlloc,
        placed: AskPlacement,
        charge: Charge,
    ) {
        plan.pledge.add(&charge.usage);
        self.headroom.take(charge);
        push(plan, self.store, AllocId(self.ids.mint()), (of.position, of.group), missing, placed);
    }

    fn place(
        &self,
        placer: &mut GroupPlacer<'_>,
        preemptor: Option<&mut Preemptor<'_>>,
        missing: &MissingAlloc,
        group: &Group,
    ) -> Result<(AskPlacement, Charge), Funnel> {
        missing.instead.iter().for_each(|leaving| placer.let_go(leaving));
        let placed = self.place_now(placer, preemptor, missing, group);
        if placed.is_err() {
            missing.instead.iter().for_each(|leaving| placer.take_back(leaving));
        }
        placed
    }

    fn place_now(
        &self,
        placer: &mut GroupPlacer<'_>,
        mut preemptor: Option<&mut Preemptor<'_>>,
        missing: &MissingAlloc,
        group: &Group,
    ) -> Result<(AskPlacement, Charge), Funnel> {
        let quotas = GroupQuotas::of(self.store, &self.headroom, group);
        preemptor.iter_mut().for_each(|preemptor| preemptor.set_short(self.headroom.short()));
        let own = missing.instead.as_ref().map(|leaving| leaving.node);
        let (nodes, mut nowhere) = match quotas.admit(&missing.ask, own, placer)? {
            QuotaAdmission::Anywhere => {
                let placed = placer.place(&missing.ask, preemptor, |placed| quotas.check(placed));
                return placed.or_else(|refused| {
                    let Some(left) = quotas.cpu_left(&refused) else { return Err(refused) };
                    let ask = Ask { cpu_mhz_max: Some(left), ..missing.ask.clone() };
                    // Nobody is preempted where there is capacity, for the sake of a quota.
                    placer.place(&ask, None, |placed| quotas.check(placed)).map_err(|_| refused)
                });
            }
            // It waits for capacity there, and for the quotas that keep it from everywhere else.
            QuotaAdmission::Only(nodes, refused) => {
                (nodes, Funnel { quota: refused.quota, ..Funnel::default() })
            }
        };
        for node in nodes {
            let ask = Ask { only: Some(node), ..missing.ask.clone() };
            match placer.place(&ask, preemptor.as_deref_mut(), |placed| quotas.check(placed)) {
                Ok(placed) => return Ok(placed),
                Err(peers) => nowhere.add(peers),
            }
        }
        Err(nowhere)
    }

    /// All steps were taken before it was this group's turn.
    fn not_looked_at(
        &self,
        group: &Group,
        missing: &MissingAllocs,
        meter: &Meter<'_>,
    ) -> Option<GroupFailure> {
        let count = Some(missing.count_max(self.store)).filter(|count| *count > 0)?;
        let steps = meter.budget().steps;
        let why = format!(
            "no node was looked at: the plan of this job takes more than {steps} steps: split the job"
        );
        Some(GroupFailure {
            group: group.name.as_str().into(),
            count,
            funnel: reason(self.store, why).into(),
        })
    }
}

/// A group that is being placed.
#[derive(Clone, Copy)]
struct PlannedGroup<'a> {
    position: u16,
    group: &'a Group,
    job: &'a Arc<Job>,
}

/// The allocations of the job once a plan has come true, with the positions of their groups in `job`, a version of it.
fn peers(store: &Store, row: &JobRow, job: &Job, plan: &Plan) -> Vec<PeerAlloc> {
    let placed = plan.placements.iter().filter_map(|placement| {
        let (version, group) = row.placed_by(placement, plan.job_version)?;
        let position = match std::ptr::eq(&*version.job, job) {
            true => placement.group,
            false => job.group(&group.name)?.0,
        };
        Some(PeerAlloc { node: store.nodes().find(placement.node)?, group: Some(position) })
    });
    staying(store, row, job, &plan.stops).into_iter().chain(placed).collect()
}

/// How many that replace nobody are missing from the one at this step on; those that may go anywhere.
fn left_after(missing: &MissingAllocs, store: &Store, at: usize) -> u32 {
    let at = at.saturating_add(missing.successors().count());
    missing.count_max(store).saturating_sub(u32::try_from(at).unwrap_or(u32::MAX))
}

fn add(failure: &mut Option<GroupFailure>, group: &Group, funnel: Funnel) {
    match failure {
        Some(failure) => {
            failure.count += 1;
            Arc::make_mut(&mut failure.funnel).add(funnel);
        }
        None => {
            *failure =
                Some(GroupFailure { group: group.name.as_str().into(), count: 1, funnel: funnel.into() })
        }
    }
}

fn push(
    plan: &mut Plan,
    store: &Store,
    id: AllocId,
    (position, group): (u16, &Group),
    missing: MissingAlloc,
    placed: AskPlacement,
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
        canary: missing.canary,
        job_version: missing.of_version.map(|(version, _)| version),
    });
}
