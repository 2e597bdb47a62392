//! `apply`: the one way in which the replicated state changes. Pure and deterministic, no clock, no randomness.

mod launch;
mod promises;
mod restore;
mod scale;
mod scheduling;
mod tenants;

use std::{collections::BTreeSet, sync::Arc};

use super::{AllocDetail, AllocExtra, AllocRow, AllocSlot, JobSlot, NodeSlot, Store};
use crate::{
    alloc::{AllocEnd, ClientStatus, DesiredStatus, Placement, Stop, StopReason},
    command::{
        Collect, Command, DeregisterJob, Entry, EvalOutcome, NextEval, Outcome, PlanRecord, Refusal,
        RegisterJob,
    },
    eval::{Eval, EvalStatus, Trigger},
    event::{Applied, Event},
    ids::{AllocId, EvalId, Index, NodeId},
    job::Job,
    node::{Node, NodeStatus},
    quota::Usage,
    resources::Resources,
};

impl Store {
    /// Applies one entry and tells what came of each command and what changed.
    ///
    /// # Panics
    /// When the entry's index is not above the last one's: the log is broken, and going on would hide it.
    pub fn apply(&mut self, entry: Entry) -> Applied {
        assert!(entry.index > self.index, "entry {} applied after {}", entry.index, self.index);
        self.index = entry.index;
        self.at = self.at.max(entry.at);
        let mut events = Vec::new();
        let outcomes =
            entry.commands.into_iter().map(|command| self.apply_command(command, &mut events)).collect();
        Applied { index: self.index, at: self.at, outcomes, events }
    }

    fn apply_command(&mut self, command: Command, events: &mut Vec<Event>) -> Outcome {
        match command {
            Command::GrantIndexes(until) => self.granted = self.granted.max(until),
            Command::RegisterNode(node) => self.register_node(*node, events),
            Command::SetNodeStatus(id, status) => self.set_node_status(id, status, events)?,
            Command::SetNodeEligibility(id, eligible) => self.set_node_eligibility(id, eligible, events)?,
            Command::RegisterJob(register) => self.register_job(*register, events)?,
            Command::DeregisterJob(deregister) => self.deregister_job(&deregister, events)?,
            Command::CommitPlan(plan) => self.commit_plan(*plan, events)?,
            Command::CreateEvals(evals) => evals.into_iter().for_each(|eval| self.create_eval(eval, events)),
            Command::EndAllocs(ends) => ends.into_iter().for_each(|end| self.end_alloc(end, events)),
            Command::StopAlloc(id, eval) => self.stop_alloc_by_request(id, *eval, events)?,
            Command::SetEvalStatus(id, status, why) => self.set_eval_status(id, status, why, events)?,
            Command::ScaleJob(scale) => self.scale_job(*scale, events)?,
            Command::SetSchedulerConfig(set) => self.set_scheduler_config(*set, events)?,
            Command::PutNamespace(namespace) => self.put_namespace(*namespace, events)?,
            Command::DeleteNamespace(name) => self.delete_namespace(&name, events)?,
            Command::PutQuota(quota) => self.put_quota(*quota, events)?,
            Command::DeleteQuota(name) => self.delete_quota(&name, events)?,
            Command::LaunchJob(launch) => self.launch_job(*launch, events)?,
            Command::RestorePart(part) => self.restore_part(&part, events)?,
            Command::AbandonRestore => self.restoring = None,
            Command::FoundCluster(id) => self.found_cluster(id)?,
            Command::Collect(collect) => self.collect(&collect, events),
        }
        Ok(())
    }

    fn found_cluster(&mut self, id: u128) -> Outcome {
        match self.cluster.id {
            0 if id == 0 => Err(Refusal::NoClusterId),
            0 => {
                Arc::make_mut(&mut self.cluster).id = id;
                Ok(())
            }
            founded => Err(Refusal::ClusterFounded(founded)),
        }
    }

    fn register_node(&mut self, node: Node, events: &mut Vec<Event>) {
        let (index, at) = (self.index, self.at);
        let slot = match self.nodes.find(node.id) {
            None => self.nodes.insert(super::nodes::NodeRecord {
                node: Arc::new(node),
                status: NodeStatus::Initializing,
                eligible: true,
                create_index: index,
                modify_index: index,
                status_at: at,
            }),
            Some(slot) => {
                self.nodes.update(slot, index, |row, detail| {
                    row.capacity = node.capacity();
                    detail.node = Arc::new(node);
                });
                slot
            }
        };
        events.push(Event::NodeRegistered(slot));
    }

    fn set_node_status(&mut self, id: NodeId, status: NodeStatus, events: &mut Vec<Event>) -> Outcome {
        let slot = self.nodes.find(id).ok_or(Refusal::NoNode(id))?;
        let at = self.at;
        self.nodes.update(slot, self.index, |row, detail| {
            row.status = status;
            detail.status_at = at;
        });
        events.push(Event::NodeChanged(slot));
        Ok(())
    }

    fn set_node_eligibility(&mut self, id: NodeId, eligible: bool, events: &mut Vec<Event>) -> Outcome {
        let slot = self.nodes.find(id).ok_or(Refusal::NoNode(id))?;
        self.nodes.update(slot, self.index, |row, _| row.eligible = eligible);
        events.push(Event::NodeChanged(slot));
        Ok(())
    }

    fn register_job(&mut self, register: RegisterJob, events: &mut Vec<Event>) -> Outcome {
        let RegisterJob { job, eval, only_if } = register;
        let current = self.job(&job.key).map_or(Index::default(), |row| row.current().index);
        if let Some(expected) = only_if.filter(|expected| *expected != current) {
            return Err(Refusal::JobChanged { job: job.key.clone(), expected, current });
        }
        if self.namespaces.find(&job.key.namespace).is_none() {
            return Err(Refusal::NoNamespace(job.key.namespace.to_string()));
        }
        let before = self.job(&job.key).map(|row| row.job().job_type);
        if let Some(is) = before.filter(|is| *is != job.job_type) {
            let (is, asked) = (is.as_str(), job.job_type.as_str());
            return Err(Refusal::JobTypeChanged { job: job.key.clone(), is, asked });
        }
        self.register_version(job.clone(), events);
        self.create_eval(eval_of(eval, &job, Trigger::JobRegister), events);
        Ok(())
    }

    fn register_version(&mut self, job: Arc<Job>, events: &mut Vec<Event>) {
        let slot = self.jobs.register(job, self.index, self.at);
        let live = self.live_versions(slot);
        self.jobs.drop_versions(slot, |version| live.contains(&version));
        events.push(Event::JobRegistered(slot));
    }

    fn live_versions(&self, job: JobSlot) -> BTreeSet<u64> {
        let Some(row) = self.jobs.row(job).filter(|r| r.versions.len() > crate::job::JOB_VERSIONS_MAX) else {
            return BTreeSet::new();
        };
        let rows = self.jobs.allocs(row).filter_map(|slot| self.allocs.row(slot));
        rows.map(|alloc| alloc.job_version).collect()
    }

    fn deregister_job(&mut self, deregister: &DeregisterJob, events: &mut Vec<Event>) -> Outcome {
        let no_job = || Refusal::NoJob(deregister.job.clone());
        let slot = self.jobs.find(&deregister.job).ok_or_else(no_job)?;
        let mut job = Job::clone(self.jobs.row(slot).ok_or_else(no_job)?.job());
        job.stop = true;
        let job = Arc::new(job);
        self.jobs.update(slot, self.index, |row| {
            let newest = &mut Arc::make_mut(&mut row.versions)[0];
            newest.job = job.clone();
            row.purge |= deregister.purge;
        });
        events.push(Event::JobDeregistered(slot));
        self.create_eval(eval_of(deregister.eval, &job, Trigger::JobDeregister), events);
        Ok(())
    }

    fn create_eval(&mut self, mut eval: Eval, events: &mut Vec<Event>) {
        if self.evals.find(eval.id).is_some() {
            return;
        }
        let Some(job) = self.jobs.find(&eval.job) else { return };
        (eval.created_at, eval.modified_at) = (self.at, self.at);
        (eval.create_index, eval.modify_index) = (self.index, self.index);
        let (id, open) = (eval.id, !eval.status.is_terminal());
        let slot = self.evals.insert(Arc::new(eval));
        self.jobs.eval_added(job, slot, open, self.index);
        events.push(Event::EvalChanged(id));
    }

    fn update_eval(
        &mut self,
        id: EvalId,
        events: &mut Vec<Event>,
        change: impl FnOnce(&mut Eval),
    ) -> Result<(), Refusal> {
        let slot = self.evals.find(id).ok_or(Refusal::NoEval(id))?;
        let before =
            self.evals.row(slot).filter(|eval| !eval.status.is_terminal()).ok_or(Refusal::NoEval(id))?;
        let job = self.jobs.find(&before.job);
        let (index, at) = (self.index, self.at);
        self.evals.update(slot, |eval| {
            change(eval);
            (eval.modify_index, eval.modified_at) = (index, at);
        });
        let closed = self.evals.row(slot).is_some_and(|eval| eval.status.is_terminal());
        if let Some(job) = job {
            self.jobs.eval_changed(job, closed, index);
        }
        events.push(Event::EvalChanged(id));
        Ok(())
    }

    fn set_eval_status(
        &mut self,
        id: EvalId,
        status: EvalStatus,
        why: String,
        events: &mut Vec<Event>,
    ) -> Outcome {
        self.update_eval(id, events, |eval| {
            eval.status = status;
            eval.description = why;
        })
    }

    fn commit_plan(&mut self, plan: PlanRecord, events: &mut Vec<Event>) -> Outcome {
        if plan.snapshot_index < self.restored_at {
            return Err(Refusal::Restored);
        }
        let job = self.jobs.find(&plan.job).ok_or_else(|| Refusal::NoJob(plan.job.clone()))?;
        if self.evals.get(plan.eval).is_none_or(|eval| eval.status.is_terminal()) {
            return Err(Refusal::NoEval(plan.eval));
        }
        for stop in &plan.stops {
            self.stop_alloc(stop, events);
        }
        let version = self.jobs.row(job).and_then(|row| row.version(plan.job_version)).map(|v| v.job.clone());
        if let Some(version) = version {
            for placement in plan.placements {
                self.place(job, plan.job_version, &version, plan.eval, placement, events);
            }
        }
        match plan.outcome {
            Some(outcome) => self.finish_eval(plan.eval, plan.snapshot_index, job, outcome, events),
            None => Ok(()),
        }
    }

    fn finish_eval(
        &mut self,
        id: EvalId,
        snapshot_index: Index,
        job: JobSlot,
        outcome: EvalOutcome,
        events: &mut Vec<Event>,
    ) -> Outcome {
        let blocked = outcome.next.iter().find(|next| next.status == EvalStatus::Blocked).map(|next| next.id);
        self.jobs.set_queued(job, |group| queued_of(&outcome, group), self.index);
        // Next evaluations are made first, so that the job is never seen without an open one and taken for dead.
        for next in &outcome.next {
            self.create_next_eval(id, next, &outcome, events);
        }
        self.update_eval(id, events, |eval| {
            eval.status = outcome.status;
            eval.description = outcome.description;
            eval.queued = outcome.failures.iter().map(|f| (f.group.clone(), f.count)).collect();
            eval.failures = outcome.failures;
            eval.blocked = blocked;
            eval.snapshot_index = snapshot_index;
        })
    }

    fn create_next_eval(
        &mut self,
        previous: EvalId,
        next: &NextEval,
        outcome: &EvalOutcome,
        events: &mut Vec<Event>,
    ) {
        let Some(before) = self.evals.get(previous) else { return };
        let mut eval =
            Eval::pending(next.id, before.job.clone(), before.job_type, before.priority, next.trigger);
        eval.status = next.status;
        eval.wait_until = next.wait_until;
        eval.previous = Some(previous);
        if next.status == EvalStatus::Blocked {
            eval.failures.clone_from(&outcome.failures);
            eval.queued = outcome.failures.iter().map(|f| (f.group.clone(), f.count)).collect();
        }
        self.create_eval(eval, events);
    }

    fn place(
        &mut self,
        job: JobSlot,
        job_version: u64,
        version: &Job,
        eval: EvalId,
        placement: Placement,
        events: &mut Vec<Event>,
    ) {
        let (Some(node), Some(group)) =
            (self.nodes.find(placement.node), version.groups.get(usize::from(placement.group)))
        else {
            return;
        };
        if self.allocs.find(placement.id).is_some() {
            return;
        }
        let held = self.nodes.detail(node).map_or(Resources::ZERO, |detail| group.resources_on(&detail.node));
        let usage = Usage::of(held, group);
        let after = self.promise(node, placement.id, &placement.after, &usage);
        let promised = after.iter().fold(Resources::ZERO, |sum, (_, part)| sum.plus(part.room()));
        let charge = self.tenant_charge(&version.key, usage, &after);
        let inherited = self.ports_of(&after);
        let fresh: Vec<u16> = placement.ports.iter().copied().filter(|p| !inherited.contains(p)).collect();
        let row = AllocRow {
            id: placement.id,
            job,
            node,
            group: placement.group,
            desired: DesiredStatus::Run,
            client: ClientStatus::Pending,
            name_index: placement.name_index,
            job_version,
            held,
            create_index: self.index,
            modify_index: self.index,
        };
        let mut detail = AllocDetail { eval, created_at: self.at, modified_at: self.at, extra: None };
        let Placement { id, ports, previous, reschedules, devices, cores, .. } = placement;
        let preempted = self.preempted_by(id, &after);
        let extra = AllocExtra {
            ports,
            after,
            previous,
            reschedules,
            devices,
            cores,
            preempted,
            ..AllocExtra::default()
        };
        let has_devices = extra.has_devices();
        if extra != AllocExtra::default() {
            detail.extra = Some(Arc::new(extra));
        }
        let slot = self.allocs.insert(row, detail);
        self.nodes.hold(node, slot, held.minus(promised), &fresh);
        if has_devices {
            self.count_devices(node);
        }
        self.charge_tenant(job, &charge);
        self.jobs.alloc_placed(job, slot, &group.name, self.index);
        if let Some(replaced) = previous.and_then(|previous| self.allocs.find(previous)) {
            self.allocs.update(replaced, self.index, self.at, |_, detail| detail.extra_mut().next = Some(id));
        }
        events.push(Event::AllocPlaced(slot));
    }

    fn stop_alloc(&mut self, stop: &Stop, events: &mut Vec<Event>) {
        let lost = stop.reason == StopReason::NodeLost;
        let Some((slot, row)) = self.alloc(stop.alloc) else { return };
        if row.is_terminal() || !row.is_wanted() && !lost {
            return;
        }
        let job = row.job;
        self.allocs.update(slot, self.index, self.at, |row, detail| {
            row.desired = DesiredStatus::Stop;
            detail.extra_mut().stop_reason = Some(stop.reason);
        });
        self.jobs.alloc_changed(job, self.index);
        events.push(Event::AllocStopped(slot));
        if lost {
            self.end_alloc(
                AllocEnd { alloc: stop.alloc, status: ClientStatus::Lost, tasks: Vec::new() },
                events,
            );
        }
    }

    fn stop_alloc_by_request(&mut self, id: AllocId, eval: Eval, events: &mut Vec<Event>) -> Outcome {
        if self.allocs.find(id).is_none() {
            return Err(Refusal::NoAlloc(id));
        }
        self.stop_alloc(&Stop { alloc: id, reason: StopReason::Requested }, events);
        self.create_eval(eval, events);
        Ok(())
    }

    fn end_alloc(&mut self, end: AllocEnd, events: &mut Vec<Event>) {
        let Some((slot, row)) = self.alloc(end.alloc) else { return };
        if row.is_terminal() || !end.status.is_terminal() {
            return;
        }
        let row = *row;
        let freed = self.room_to_promise(slot);
        let extra = self.allocs.extra(slot).cloned().unwrap_or_default();
        // Ports that a successor was promised are its own already, and those of predecessors are still theirs: they are
        // not free.
        let mut kept = self.successor_ports(row.node, row.id);
        kept.extend(self.ports_of(&extra.after));
        let ports: Vec<u16> = extra.ports.iter().copied().filter(|p| !kept.contains(p)).collect();
        let released = self.tenant_release(slot);
        self.discharge_tenant(row.job, &released);
        self.nodes.release(row.node, slot, freed, &ports);
        for (id, part) in &extra.after {
            self.take_promise_back(*id, part);
        }
        let status = end.status;
        self.allocs.update(slot, self.index, self.at, |row, detail| {
            row.client = status;
            if !end.tasks.is_empty() {
                detail.extra_mut().results = end.tasks;
            }
        });
        if extra.has_devices() {
            self.count_devices(row.node);
        }
        let group = self.jobs.row(row.job).and_then(|job| job.version(row.job_version));
        let group = group.and_then(|v| v.job.groups.get(usize::from(row.group))).map(|g| g.name.clone());
        self.jobs.alloc_ended(row.job, &group.unwrap_or_default(), status, self.index);
        events.push(Event::AllocEnded(slot));
    }

    fn collect(&mut self, collect: &Collect, events: &mut Vec<Event>) {
        self.collect_allocs(&collect.allocs, events);
        for id in &collect.evals {
            self.collect_eval(*id, events);
        }
        for key in &collect.jobs {
            self.collect_job(key, events);
        }
        for id in &collect.nodes {
            let Some((slot, row)) = self.node(*id) else { continue };
            if row.status == NodeStatus::Down && row.live.is_empty() && row.ended.is_empty() {
                self.nodes.remove(slot, self.index);
                events.push(Event::NodeCollected(slot, *id));
            }
        }
    }

    fn collect_allocs(&mut self, ids: &[AllocId], events: &mut Vec<Event>) {
        let mut by_job: std::collections::BTreeMap<JobSlot, BTreeSet<u32>> = Default::default();
        for id in ids {
            let Some((slot, row)) = self.alloc(*id) else { continue };
            if row.is_terminal() {
                by_job.entry(row.job).or_default().insert(slot.0);
            }
        }
        for (job, slots) in by_job {
            self.jobs.forget_allocs(job, |slot| slots.contains(&slot));
            for slot in slots {
                self.collect_alloc(AllocSlot(slot), events);
            }
        }
    }

    fn collect_alloc(&mut self, slot: AllocSlot, events: &mut Vec<Event>) {
        let Some(row) = self.allocs.remove(slot, self.index) else { return };
        self.nodes.forget_ended(row.node, slot);
        let node = self.nodes.row(row.node).map_or(NodeId::default(), |node| node.id);
        events.push(Event::AllocCollected(slot, row.id, node));
    }

    fn collect_eval(&mut self, id: EvalId, events: &mut Vec<Event>) {
        let Some(slot) = self.evals.find(id) else { return };
        if self.evals.row(slot).is_none_or(|eval| !eval.status.is_terminal()) {
            return;
        }
        let Some(eval) = self.evals.remove(slot, self.index) else { return };
        if let Some(job) = self.jobs.find(&eval.job) {
            self.jobs.forget_eval(job, slot);
        }
        events.push(Event::EvalCollected(id));
    }

    fn collect_job(&mut self, key: &crate::ids::JobKey, events: &mut Vec<Event>) {
        let Some(slot) = self.jobs.find(key) else { return };
        let Some(row) = self.jobs.row(slot).filter(|row| row.live == 0 && row.open_evals == 0) else {
            return;
        };
        let allocs: Vec<AllocSlot> = self.jobs.allocs(row).collect();
        let evals = self.jobs.evals(row).filter_map(|e| Some(self.evals.row(e)?.id)).collect::<Vec<_>>();
        for alloc in allocs {
            self.collect_alloc(alloc, events);
        }
        for eval in evals {
            self.collect_eval(eval, events);
        }
        if let Some(key) = self.jobs.remove(slot, self.index) {
            events.push(Event::JobCollected(slot, key));
        }
    }
}

fn eval_of(id: EvalId, job: &Job, trigger: Trigger) -> Eval {
    Eval::pending(id, job.key.clone(), job.job_type, job.priority, trigger)
}

fn queued_of(outcome: &EvalOutcome, group: &str) -> u32 {
    outcome.failures.iter().find(|f| f.group == group).map_or(0, |f| f.count)
}
