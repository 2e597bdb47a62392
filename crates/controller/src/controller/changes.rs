//! What an applied change of the store leads to.

use super::*;

impl Controller {
    pub(super) fn on_change(&mut self, change: &Change) {
        match change {
            Change::EvalChanged(id) => self.on_eval_changed(*id),
            Change::AllocPlaced(slot) => {
                self.wishes_of(*slot).into_iter().for_each(|w| w.run.push(*slot));
                self.usage_changed(*slot);
            }
            Change::AllocStopped(slot) => self.on_alloc_stopped(*slot),
            Change::AllocEnded(slot) => self.on_alloc_ended(*slot),
            Change::AllocCollected(slot, id, node) => {
                self.observing.observed.forget(*slot, *id);
                self.nodes.forget(*node, *id);
                if let Some(node) = self.store.nodes().find(*node) {
                    self.to_nodes.entry(node).or_default().purge.push(*id);
                }
            }
            Change::JobCollected(_, key) => self.observing.observed.forget_job(key),
            Change::NodeRegistered(slot) => {
                self.blocked.room_came();
                self.count_node(*slot);
            }
            Change::SchedulerConfigChanged => self.blocked.room_came(),
            Change::NamespaceChanged(_) => self.on_namespace_changed(),
            Change::QuotaChanged(quota) => self.blocked.quota_eased(quota),
            Change::NodeChanged(slot) => self.on_node_changed(*slot),
            Change::NodeCollected(slot, id) => {
                self.nodes.remove(*id);
                self.tenants.node_changed(&self.store, *slot);
            }
            Change::JobRegistered(_)
            | Change::JobDeregistered(_)
            | Change::JobLaunched(_)
            | Change::JobStatusChanged(_)
            | Change::Restored
            | Change::EvalCollected(_) => {}
        }
    }

    /// What an allocation's namespace holds has changed; less counts for its quotas if the allocation has ended.
    fn usage_changed(&mut self, slot: AllocSlot) {
        let Some(row) = self.store.allocs().row(slot) else { return };
        let Some(namespace) = self.store.jobs().row(row.job).map(|job| &job.key.namespace) else { return };
        self.tenants.usage_changed(namespace);
        if row.is_terminal() && !self.store.quotas().is_empty() {
            let quotas = self.store.namespaces().quotas(namespace);
            quotas.into_iter().for_each(|quota| self.blocked.quota_eased(quota));
        }
    }

    /// Namespaces may keep to other quotas now.
    fn on_namespace_changed(&mut self) {
        self.tenants.namespaces_changed();
        self.store.quotas().iter().for_each(|row| self.blocked.quota_eased(&row.quota.name));
    }

    pub(super) fn wishes_of(&mut self, slot: AllocSlot) -> Option<&mut Wishes> {
        let node = self.store.allocs().row(slot)?.node;
        Some(self.to_nodes.entry(node).or_default())
    }

    pub(super) fn on_eval_changed(&mut self, id: EvalId) {
        let Some(eval) = self.store.eval(id).cloned() else { return };
        if eval.status.is_terminal() {
            self.attempts.remove(&id);
            self.blocked.remove(&eval);
            self.queue.done(id, &mut self.tenants);
        } else {
            self.take_up(eval);
        }
    }

    pub(super) fn take_up(&mut self, eval: Arc<Eval>) {
        match eval.status {
            EvalStatus::Blocked => drop(self.blocked.insert(&eval)),
            _ => self.queue.push(eval, self.now),
        }
    }

    fn on_alloc_stopped(&mut self, slot: AllocSlot) {
        self.wishes_of(slot).into_iter().for_each(|w| w.stop.push(slot));
        if self.stop_reason(slot) == StopReason::Preempted {
            let job = self.store.allocs().row(slot).and_then(|row| self.store.jobs().row(row.job));
            self.wanting.extend(job.map(|job| (job.key.clone(), Trigger::Preemption)));
        }
    }

    pub(super) fn on_alloc_ended(&mut self, slot: AllocSlot) {
        let Some(row) = self.store.allocs().row(slot).copied() else { return };
        self.ending.remove(&row.id);
        self.blocked.room_came();
        self.usage_changed(slot);
        if let Some(job) = self.store.jobs().row(row.job) {
            self.observing.observed.end(slot, row.id, &job.key, row.group);
        }
        if let Some(node) = self.store.nodes().row(row.node).map(|node| node.id) {
            self.nodes.forget(node, row.id);
        }
        self.to_nodes.entry(row.node).or_default().forget.push(row.id);
    }

    pub(super) fn on_node_changed(&mut self, slot: NodeSlot) {
        let Some(row) = self.store.nodes().row(slot) else { return };
        if self.changing.get(&row.id) == Some(&row.status) {
            self.changing.remove(&row.id);
        }
        if row.is_ready() {
            self.blocked.room_came();
            self.node_came = true;
        } else if row.status == NodeStatus::Down {
            let id = row.id;
            self.nodes.give_up(id);
            let jobs = self.store.nodes().live(row).filter_map(|alloc| self.store.allocs().row(alloc));
            let keys: Vec<JobKey> =
                jobs.filter_map(|alloc| Some(self.store.jobs().row(alloc.job)?.key.clone())).collect();
            self.wanting.extend(keys.into_iter().map(|key| (key, Trigger::NodeUpdate)));
            // An agent that is heard again must tell everything anew.
            self.answers.extend(self.nodes.session_of(id).map(Action::Close));
        }
        self.count_node(slot);
    }

    fn count_node(&mut self, slot: NodeSlot) {
        self.tenants.node_changed(&self.store, slot);
        if let Some(row) = self.store.nodes().row(slot) {
            self.nodes.count(row.id, row.status);
        }
    }

    pub(super) fn want_per_node_jobs(&mut self) {
        let per_node =
            self.store.jobs().iter().filter(|(_, r)| r.job().job_type.is_per_node() && !r.job().stop);
        let keys: Vec<JobKey> = per_node.map(|(_, row)| row.key.clone()).collect();
        self.wanting.extend(keys.into_iter().map(|key| (key, Trigger::NodeUpdate)));
    }
}
