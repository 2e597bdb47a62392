//! Applying namespaces and quotas, and counting what their allocations hold.

use super::{AllocSlot, JobSlot, Store};
use crate::{
    command::{Outcome, Refusal},
    event::StateChange,
    ids::{AllocId, JobKey},
    namespace::{NAMESPACE_DEFAULT, NAMESPACE_DEPTH_MAX, Namespace, WEIGHT_MILLI_MAX, is_tenant_name},
    quota::{Quota, Usage},
    store::JobStatus,
};

impl Store {
    pub(super) fn put_namespace(&mut self, namespace: Namespace, events: &mut Vec<StateChange>) -> Outcome {
        self.check_namespace(&namespace)?;
        let name = namespace.name.clone();
        self.namespaces.put(namespace, self.index);
        self.count_quotas();
        events.push(StateChange::NamespaceChanged(name));
        Ok(())
    }

    fn check_namespace(&self, namespace: &Namespace) -> Outcome {
        let refuse = |why: String| Refusal::BadNamespace(namespace.name.clone(), why);
        if !is_tenant_name(&namespace.name) {
            return Err(refuse("a name has 1 to 128 letters, digits, dashes and underscores".into()));
        }
        if !(1..=WEIGHT_MILLI_MAX).contains(&namespace.weight_milli) {
            return Err(refuse(format!("a weight is from 0.001 to {}", WEIGHT_MILLI_MAX / 1000)));
        }
        if let Some(quota) = namespace.quota.as_ref().filter(|quota| self.quotas.get(quota).is_none()) {
            return Err(Refusal::NoQuota(quota.clone()));
        }
        let Some(parent) = &namespace.parent else { return Ok(()) };
        if self.namespaces.get(parent).is_none() {
            return Err(Refusal::NoNamespace(parent.clone()));
        }
        if self.namespaces.path(parent).any(|above| above.namespace.name == namespace.name) {
            return Err(refuse(format!("it cannot be below {parent}, which is below it")));
        }
        let depth = self.namespaces.path(parent).count() + self.height(&namespace.name);
        if depth > NAMESPACE_DEPTH_MAX {
            return Err(refuse(format!(
                "it would make {depth} levels, at most {NAMESPACE_DEPTH_MAX} are possible"
            )));
        }
        Ok(())
    }

    /// Levels of a namespace and all below it.
    fn height(&self, name: &str) -> usize {
        let below = self.namespaces.iter().map(|row| {
            let path = self.namespaces.path(&row.namespace.name);
            path.take_while(|above| above.namespace.name != name).count()
        });
        let inside = self
            .namespaces
            .iter()
            .map(|row| self.namespaces.path(&row.namespace.name).any(|above| above.namespace.name == name));
        1 + below.zip(inside).filter(|(_, inside)| *inside).map(|(levels, _)| levels).max().unwrap_or(0)
    }

    pub(super) fn delete_namespace(&mut self, name: &str, events: &mut Vec<StateChange>) -> Outcome {
        if self.namespaces.get(name).is_none() {
            return Err(Refusal::NoNamespace(name.to_owned()));
        }
        let refuse = |why: String| Err(Refusal::NamespaceInUse(name.to_owned(), why));
        if name == NAMESPACE_DEFAULT {
            return refuse("it is always there".to_owned());
        }
        if let Some(key) = self.first_job(name) {
            let row = self.job(key);
            // Clients know by these words that it may work later: a job that is purged goes with its last allocation.
            let leaves = row.is_some_and(|row| row.purge || row.status() != JobStatus::Dead);
            let what = if leaves { "non-terminal jobs, as" } else { "job" };
            return refuse(format!("it has {what} {}: stop and purge its jobs first", key.name()));
        }
        let variables = self.variables.held_by(name).count;
        if variables > 0 {
            return refuse(format!("it has {variables} variables: delete them first with `berth var purge`"));
        }
        let mut all = self.namespaces.iter();
        if let Some(child) = all.find(|row| row.namespace.parent.as_deref() == Some(name)) {
            return refuse(format!(
                "namespace {} is below it: move or delete that first",
                child.namespace.name
            ));
        }
        drop(all);
        self.namespaces.remove(name, self.index);
        events.push(StateChange::NamespaceChanged(name.to_owned()));
        Ok(())
    }

    fn first_job(&self, namespace: &str) -> Option<&JobKey> {
        let mut from = self.jobs.range(JobKey::new(namespace, "")..);
        from.next().map(|(key, _)| key).filter(|key| &*key.namespace == namespace)
    }

    pub(super) fn put_quota(&mut self, quota: Quota, events: &mut Vec<StateChange>) -> Outcome {
        let refuse = |why: &str| Err(Refusal::BadQuota(quota.name.clone(), why.to_owned()));
        if !is_tenant_name(&quota.name) {
            return refuse("a name has 1 to 128 letters, digits, dashes and underscores");
        }
        if quota.guarantee.exceeds(&quota.limit) {
            return refuse("what it guarantees is more than its limit");
        }
        let name = quota.name.clone();
        self.quotas.put(quota, self.index);
        self.count_quotas();
        events.push(StateChange::QuotaChanged(name));
        Ok(())
    }

    pub(super) fn delete_quota(&mut self, name: &str, events: &mut Vec<StateChange>) -> Outcome {
        if self.quotas.get(name).is_none() {
            return Err(Refusal::NoQuota(name.to_owned()));
        }
        let mut all = self.namespaces.iter();
        if let Some(user) = all.find(|row| row.namespace.quota.as_deref() == Some(name)) {
            return Err(Refusal::QuotaInUse(name.to_owned(), user.namespace.name.clone()));
        }
        drop(all);
        self.quotas.remove(name, self.index);
        events.push(StateChange::QuotaChanged(name.to_owned()));
        Ok(())
    }

    /// An allocation was placed: its namespace holds that much more.
    pub(in crate::store) fn charge_tenant(&mut self, job: JobSlot, usage: &Usage) {
        self.change_tenant(job, |held| held.add(usage));
    }

    /// An allocation has ended: its namespace holds that much less.
    pub(super) fn discharge_tenant(&mut self, job: JobSlot, usage: &Usage) {
        self.change_tenant(job, |held| held.remove(usage));
    }

    fn change_tenant(&mut self, job: JobSlot, change: impl Fn(&mut Usage)) {
        let Some(row) = self.jobs.row(job) else { return };
        let namespace = row.key.namespace.clone();
        self.namespaces.change_used(&namespace, &change);
        if !self.quotas.is_empty() {
            for quota in self.namespaces.quotas(&namespace) {
                self.quotas.change_used(quota, &change);
            }
        }
    }

    /// What an allocation adds to what its namespace holds that has `usage`. What a predecessor of the same namespace
    /// leaves it is held once; what it takes from another namespace is its own.
    pub(super) fn tenant_charge(&self, job: &JobKey, mut usage: Usage, after: &[(AllocId, Usage)]) -> Usage {
        let inherited = after.iter().filter(|(id, _)| self.is_of_tenant(*id, &job.namespace));
        inherited.for_each(|(_, part)| usage.remove(part));
        usage
    }

    /// What an allocation that has not ended adds to what its namespace holds.
    pub(in crate::store) fn charge_of(&self, slot: AllocSlot) -> Usage {
        let Some(row) = self.allocs.row(slot) else { return Usage::default() };
        let Some((job, group)) = self.job_of(row) else { return Usage::from(row.held) };
        let after = self.allocs.extra(slot).map_or(&[][..], |extra| &extra.after);
        self.tenant_charge(&job.key, Usage::of(row.held, group), after)
    }

    /// What is free for its namespace when an allocation ends: not what a successor of the same namespace was promised.
    pub(super) fn tenant_release(&self, slot: AllocSlot) -> Usage {
        let mut usage = self.charge_of(slot);
        // Most leave nothing to anybody: only those are worth a look at all that lives on the node.
        if self.allocs.extra(slot).is_none_or(|extra| extra.promised == Usage::default()) {
            return usage;
        }
        let Some(row) = self.allocs.row(slot) else { return usage };
        let Some(namespace) = self.jobs.row(row.job).map(|job| &job.key.namespace) else { return usage };
        let live = self.nodes.row(row.node).into_iter().flat_map(|node| self.nodes.live(node));
        for successor in live.filter(|live| *live != slot) {
            let Some(extra) = self.allocs.extra(successor).filter(|extra| !extra.after.is_empty()) else {
                continue;
            };
            let same = self.allocs.row(successor).is_some_and(|s| self.is_of_tenant(s.id, namespace));
            let parts = extra.after.iter().filter(|(id, _)| same && *id == row.id);
            parts.for_each(|(_, part)| usage.remove(part));
        }
        usage
    }

    /// Whether an allocation has not ended and is of a namespace.
    fn is_of_tenant(&self, id: AllocId, namespace: &str) -> bool {
        let Some((_, row)) = self.alloc(id).filter(|(_, row)| !row.is_terminal()) else { return false };
        self.jobs.row(row.job).is_some_and(|job| &*job.key.namespace == namespace)
    }

    /// Counts what the namespaces of each quota hold, after either was described again.
    pub(in crate::store) fn count_quotas(&mut self) {
        let held = self.namespaces.iter().map(|row| {
            let quotas = self.namespaces.quotas(&row.namespace.name);
            (row.used.clone(), quotas.into_iter().map(str::to_owned).collect())
        });
        let held: Vec<_> = held.collect();
        self.quotas.count(&held);
    }
}
