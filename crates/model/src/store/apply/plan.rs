//! Applying what a planner decided and the applier let pass.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    AllocSlot, JobSlot, NodeSlot, Store, deployments::PlacedByGroup, replaced::ReplacedStops, rules::Rules,
};
use crate::{
    alloc::{ClientStatus, DesiredStatus, Placement},
    command::{Outcome, PlanRecord, Refusal},
    device::DevicesHeld,
    eval::{Eval, Trigger},
    event::StateChange,
    ids::{AllocId, EvalId, IdSeed, NodeId},
    job::Job,
    node::NodeStatus,
    quota::Usage,
    resources::Resources,
    store::{AllocDetail, AllocExtra, AllocRow, JobRow, NodeRow},
};

/// What is looked at once more when a plan is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Recheck {
    /// Nothing: as plans in entries of version 1 were applied.
    Nothing,
    /// Whether a placement's node is still there, open and has capacity and ports: as in entries of versions 2 and 3.
    Room,
    /// Whether its node may still have it, and has all that it was given: what stands before the plan in the log may
    /// have changed that after the applier looked.
    All,
    /// Besides, whom those waited for that have ended meanwhile before their turn: as in entries from version 6 on.
    Lines,
}

/// A placement that cannot be: where, and why.
struct StalePlacement(NodeId, String);

/// What is being carried out.
#[derive(Clone, Copy)]
struct PlanContext<'a> {
    eval: EvalId,
    job: JobSlot,
    version: (u64, &'a Job),
    check: Recheck,
}

impl Store {
    pub(super) fn commit_plan(
        &mut self,
        plan: PlanRecord,
        (check, rules): (Recheck, Rules),
        events: &mut Vec<StateChange>,
    ) -> Outcome {
        if plan.snapshot_index < self.restored_at {
            return Err(Refusal::Restored);
        }
        let job = self.jobs.find(&plan.job).ok_or_else(|| Refusal::NoJob(plan.job.clone()))?;
        if self.evals.get(plan.eval).is_none_or(|eval| eval.status.is_terminal()) {
            return Err(Refusal::NoEval(plan.eval));
        }
        // Before anything ends that it carries over, so that it is seen to go.
        if let Some(new) = plan.deployment {
            self.create_deployment(job, plan.job_version, *new, events);
        }
        let mut replaced = ReplacedStops::default();
        for stop in &plan.stops {
            if rules.keep_unreplaced() && stop.reason.needs_successor() {
                replaced.add(stop);
            } else {
                self.stop_alloc(stop, rules, events);
            }
        }
        let version = self.jobs.row(job).and_then(|row| row.version(plan.job_version)).map(|v| v.job.clone());
        let mut overtaken = Vec::new();
        let mut placed = PlacedByGroup::new();
        if let Some(version) = &version {
            for id in plan.updates.into_iter().flatten() {
                let group = self.update_in_place(id, (job, plan.job_version, version), events);
                group.into_iter().for_each(|group| placed.entry(group).or_default().0 += 1);
            }
        }
        if let Some(version) = version {
            let carried = PlanContext { eval: plan.eval, job, version: (plan.job_version, &version), check };
            let older = self.older_versions(job, &plan.placements);
            replaced.keep_for(&plan.placements, |placement| self.find_open(placement.node, check).is_ok());
            for placement in plan.placements {
                let (id, group, canary) = (placement.id, placement.group, placement.canary);
                let (previous, after) = (placement.previous, replaced.among(&placement));
                let is_known = self.allocs.find(id).is_some();
                let is_older = placement.job_version.is_some();
                let carried = match placement.job_version {
                    None => Ok(carried),
                    // It is kept as long as anything runs it, as whom this one replaces did.
                    Some(number) => match older.get(&number) {
                        Some(job) => Ok(PlanContext { version: (number, job), ..carried }),
                        None => Err(format!("was to run version {number}, which is gone")),
                    },
                };
                let is_done = || previous.is_some_and(|id| self.is_done(id));
                let carried = match rules.work_that_is_done_is_not_placed() && is_done() {
                    true => Err("replaces an allocation whose work is done".to_owned()),
                    false => carried,
                };
                let carried = carried.and_then(|carried| replaced.admit(&placement).map(|()| carried));
                let carried = carried.map_err(|why| StalePlacement(placement.node, why));
                match carried.and_then(|carried| self.place(&carried, placement, events)) {
                    Ok(()) => {
                        replaced.placed_after(after);
                        if !is_known && !is_older {
                            let (count, canaries) = placed.entry(group).or_default();
                            *count += 1;
                            canaries.extend(Some(id).filter(|_| canary));
                        }
                    }
                    Err(why) => {
                        replaced.keep(previous);
                        overtaken.push(why);
                    }
                }
            }
            for stop in replaced.leaving() {
                self.stop_alloc(&stop, rules, events);
            }
            if !placed.is_empty() || rules.every_plan_counts_as_change() {
                self.count_placed(job, plan.job_version, placed, rules, events);
            }
        }
        // Made before the plan's own evaluation ends, so that the job is never seen without an open one.
        self.plan_again(plan.eval, &overtaken, events);
        match plan.outcome {
            Some(outcome) => self.finish_eval(plan.eval, plan.snapshot_index, job, outcome, events),
            None => Ok(()),
        }
    }

    /// Whether an allocation of batch work has ended well, and so has what the newest version asks for.
    fn is_done(&self, id: AllocId) -> bool {
        let Some((_, row)) = self.alloc(id) else { return false };
        let is_batch = |job: &&JobRow| job.job().job_type.runs_to_completion();
        row.client == ClientStatus::Complete
            && row.ended_by_itself()
            && self.jobs.row(row.job).filter(is_batch).is_some_and(|job| job.covers(row))
    }

    /// The versions of a job, by number, that placements name.
    fn older_versions(&self, job: JobSlot, placements: &[Placement]) -> BTreeMap<u64, Arc<Job>> {
        let numbers = placements.iter().filter_map(|placement| placement.job_version);
        let known = |number| Some((number, self.jobs.row(job)?.version(number)?.job.clone()));
        numbers.filter_map(known).collect()
    }

    /// An allocation of an older version goes on where it is under this one; the position of its group there, unless it has
    /// ended or is to end. What it has shown of its health was shown of the older version.
    fn update_in_place(
        &mut self,
        id: AllocId,
        (job, version, newest): (JobSlot, u64, &Job),
        events: &mut Vec<StateChange>,
    ) -> Option<u16> {
        let is_old = |row: &AllocRow| row.job == job && row.is_desired() && row.job_version < version;
        let (slot, row) = self.alloc(id).filter(|(_, row)| is_old(row))?;
        let before = row.group;
        let (group, _) = newest.group(&self.job_of(row)?.1.name)?;
        self.allocs.update(slot, self.index, self.at, |row, detail| {
            (row.job_version, row.group, row.updated) = (version, group, true);
            detail.healthy = None;
            if detail.extra().is_some_and(|extra| extra.canary) {
                detail.extra_mut().canary = false;
            }
        });
        self.jobs.alloc_changed(job, self.index);
        events.push(StateChange::AllocUpdated(slot, (before, group)));
        Some(group)
    }

    /// Makes an evaluation of placements that could not be. It is part of the state: whatever becomes of the leader,
    /// what is missing is planned again.
    fn plan_again(&mut self, previous: EvalId, overtaken: &[StalePlacement], events: &mut Vec<StateChange>) {
        let Some(StalePlacement(node, why)) = overtaken.first() else { return };
        let Some(before) = self.evals.get(previous).cloned() else { return };
        let id = EvalId(IdSeed::new(self.index.0 ^ previous.0 as u64).mint());
        let mut again =
            Eval::pending(id, before.job.clone(), before.job_type, before.priority, Trigger::NodeUpdate);
        again.node = Some(*node);
        again.previous = Some(previous);
        again.description =
            format!("{} placements came too late; the first one: node {node} {why}", overtaken.len());
        self.create_eval(again, events);
    }

    fn place(
        &mut self,
        carried: &PlanContext<'_>,
        placement: Placement,
        events: &mut Vec<StateChange>,
    ) -> Result<(), StalePlacement> {
        let (_, version) = carried.version;
        let Some(group) = version.groups.get(usize::from(placement.group)) else { return Ok(()) };
        if self.allocs.find(placement.id).is_some() {
            return Ok(());
        }
        let refuse = |why: String| StalePlacement(placement.node, why);
        let node = self.find_open(placement.node, carried.check).map_err(refuse)?;
        let held = self.nodes.detail(node).map_or(Resources::ZERO, |detail| group.resources_on(&detail.node));
        let usage = Usage::of(held, group);
        let after = self.parts_for(node, &placement, &usage, carried.check);
        let charge = held.minus(after.iter().fold(Resources::ZERO, |sum, (_, part)| sum.plus(part.room())));
        let inherited = self.ports_of(&after);
        let fresh: Vec<u16> = placement.ports.iter().copied().filter(|p| !inherited.contains(p)).collect();
        if carried.check >= Recheck::Room {
            self.check_capacity(node, charge).map_err(refuse)?;
            self.check_ports(node, &placement.ports, &after, carried.check).map_err(refuse)?;
        }
        if carried.check >= Recheck::All {
            self.check_reserved_ports(node, &placement.ports).map_err(refuse)?;
            self.check_devices(node, &placement, &after).map_err(refuse)?;
        }
        let tenant_charge = self.tenant_charge(&version.key, usage, &after);
        let previous = placement.previous;
        let (slot, id) = self.insert_placed(carried, (node, held), placement, after);
        self.nodes.hold(node, slot, charge, &fresh);
        if self.allocs.extra(slot).is_some_and(AllocExtra::has_devices) {
            self.count_devices(node);
        }
        self.charge_tenant(carried.job, &tenant_charge);
        let changed = self.jobs.alloc_placed(carried.job, slot, &group.name, self.index);
        if let Some(replaced) = previous.and_then(|previous| self.allocs.find(previous)) {
            self.allocs.update(replaced, self.index, self.at, |_, detail| detail.extra_mut().next = Some(id));
            // Of one that goes on until then, its stop is the report.
            if self.allocs.row(replaced).is_some_and(AllocRow::is_terminal) {
                events.push(StateChange::AllocReplaced(replaced));
            }
        }
        events.push(StateChange::AllocPlaced(slot));
        self.job_counted(carried.job, changed, events);
        Ok(())
    }

    /// Writes down the promises of its predecessors, and the allocation.
    fn insert_placed(
        &mut self,
        carried: &PlanContext<'_>,
        (node, held): (NodeSlot, Resources),
        placement: Placement,
        after: Vec<(AllocId, Usage)>,
    ) -> (AllocSlot, AllocId) {
        let Placement { id, group, name_index, ports, previous, reschedules, devices, cores, canary, .. } =
            placement;
        self.promise(id, &after);
        let preempted = self.preempted_by(id, &after);
        let before = previous.and_then(|previous| self.alloc(previous));
        let watched = before
            .is_some_and(|(slot, _)| self.allocs.extra(slot).is_some_and(|extra| extra.migrate.is_some()));
        let extra = AllocExtra {
            ports,
            after,
            previous,
            reschedules,
            devices,
            cores,
            preempted,
            canary,
            watched,
            ..AllocExtra::default()
        };
        let row = AllocRow {
            id,
            job: carried.job,
            node,
            group,
            desired: DesiredStatus::Run,
            client: ClientStatus::Pending,
            name_index,
            job_version: carried.version.0,
            updated: false,
            held,
            create_index: self.index,
            modify_index: self.index,
        };
        let detail = AllocDetail::placed(carried.eval, self.at, extra);
        let owners = self.owners_hash(&row);
        (self.allocs.insert(row, detail, owners), id)
    }

    /// The node of a placement, as long as it may have one.
    fn find_open(&self, id: NodeId, check: Recheck) -> Result<NodeSlot, String> {
        let (slot, row) = self.node(id).ok_or("is gone")?;
        match check {
            Recheck::Nothing => Ok(slot),
            _ if row.status.is_silent() => Err(format!("is {}", row.status.as_str())),
            _ if !row.eligible => Err("is not eligible".to_owned()),
            Recheck::All | Recheck::Lines if row.status != NodeStatus::Ready => {
                Err("is not ready".to_owned())
            }
            _ => Ok(slot),
        }
    }

    /// Whether a node has what an allocation adds to what is held there.
    fn check_capacity(&self, slot: NodeSlot, charge: Resources) -> Result<(), String> {
        let free = self.nodes.row(slot).map_or(Resources::ZERO, NodeRow::free);
        match charge.exceeds(free) {
            Some(short) => Err(format!("has too little {short} left")),
            None => Ok(()),
        }
    }

    /// Whether each port is free, or left by a predecessor that has not given it to somebody else.
    fn check_ports(
        &self,
        slot: NodeSlot,
        ports: &[u16],
        after: &[(AllocId, Usage)],
        check: Recheck,
    ) -> Result<(), String> {
        if ports.is_empty() {
            return Ok(());
        }
        let left = after.iter().filter_map(|(id, _)| self.allocs.find(*id));
        let left: Vec<u16> = left.flat_map(|slot| self.ports_left_to(slot, check)).collect();
        let held = self.nodes.detail(slot).map_or(&[][..], |detail| &detail.ports);
        match ports.iter().find(|port| held.binary_search(port).is_ok() && !left.contains(port)) {
            Some(port) => Err(format!("has port {port} in use")),
            None => Ok(()),
        }
    }

    /// Whether the node's agent, when it introduced itself last, kept none of the ports back.
    fn check_reserved_ports(&self, slot: NodeSlot, ports: &[u16]) -> Result<(), String> {
        let reserved = self.nodes.detail(slot).map_or(&[][..], |detail| &detail.node.reserved_ports);
        match ports.iter().find(|port| reserved.binary_search(port).is_ok()) {
            Some(port) => Err(format!("has port {port} reserved")),
            None => Ok(()),
        }
    }

    /// Whether each device and core is there, and is free or left by a predecessor that has not given it to somebody
    /// else.
    fn check_devices(
        &self,
        slot: NodeSlot,
        placement: &Placement,
        after: &[(AllocId, Usage)],
    ) -> Result<(), String> {
        let granted = DevicesHeld::of(&placement.devices, &placement.cores);
        let Some(detail) = self.nodes.detail(slot).filter(|_| !granted.is_empty()) else { return Ok(()) };
        let mut held = DevicesHeld::clone(&detail.devices);
        held.remove(self.devices_left_by(slot, after.iter().map(|(id, _)| *id)));
        match detail.node.lacks_of(placement, &held) {
            Some(lacking) => Err(format!("has not got {lacking} free")),
            None => Ok(()),
        }
    }
}
