//! Policies attached to jobs, indexed by job, so that a task's rights do not scan all policies.

use std::{collections::HashMap, sync::Arc};

use berth_model::{JobKey, acl::AclPolicy, store::Acl};

use crate::workload::TaskName;

/// The policies of a moment that are attached to anything, by the job.
#[derive(Debug, Default)]
pub(super) struct Attached(HashMap<JobKey, Vec<Arc<AclPolicy>>>);

impl Attached {
    /// Those of a state.
    pub fn of(acl: &Acl) -> Self {
        let mut by_job = HashMap::<JobKey, Vec<_>>::new();
        for policy in acl.policies() {
            if let Some(job) = &policy.job {
                by_job.entry(JobKey::new(&job.namespace, &job.job)).or_default().push(policy.clone());
            }
        }
        Self(by_job)
    }

    /// Those that are attached to a task, to its group or to its job.
    pub fn to<'a>(&'a self, task: &'a TaskName) -> impl Iterator<Item = &'a Arc<AclPolicy>> {
        let TaskName { job, group, task } = task;
        let has = |policy: &&Arc<AclPolicy>| {
            policy.job.as_ref().is_some_and(|attached| attached.has(&job.namespace, &job.id, group, task))
        };
        self.0.get(job).into_iter().flatten().filter(has)
    }
}
