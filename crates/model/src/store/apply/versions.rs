//! Applying what is said of versions of jobs: which have proved themselves, and what they are called.

use super::{JobSlot, Store};
use crate::{
    command::{NewTag, Outcome, Refusal, SetJobStable, TagVersion},
    event::StateChange,
    ids::JobKey,
    job::{JOB_TAGS_MAX, VersionTag},
    store::JobRow,
};

impl Store {
    pub(super) fn set_job_stable(&mut self, set: &SetJobStable, events: &mut Vec<StateChange>) -> Outcome {
        let SetJobStable { job, version, stable } = set;
        let (slot, row) = self.job_row(job)?;
        let known = row.version(*version).ok_or_else(|| Refusal::NoVersion(job.clone(), *version))?;
        if known.stable != *stable {
            self.jobs.update(slot, self.index, |row| {
                row.change_version(*version, |version| version.stable = *stable);
            });
            events.push(StateChange::JobStatusChanged(slot));
        }
        Ok(())
    }

    pub(super) fn tag_version(&mut self, tag: TagVersion, events: &mut Vec<StateChange>) -> Outcome {
        let TagVersion { job, name, tagged } = tag;
        let (slot, row) = self.job_row(&job)?;
        let owner = row.tagged(&name).map(|version| version.version);
        let (version, tag) = match tagged {
            None => {
                let refuse = || Refusal::NoTag(job.clone(), name.clone());
                (owner.ok_or_else(refuse)?, None)
            }
            Some(NewTag { version, description }) => {
                let known = row.version(version).ok_or_else(|| Refusal::NoVersion(job.clone(), version))?;
                if let Some(other) = owner.filter(|owner| *owner != version) {
                    return Err(Refusal::TagInUse(job, name, other));
                }
                let tags = row.versions.iter().filter(|version| version.tag.is_some()).count();
                if known.tag.is_none() && tags >= JOB_TAGS_MAX {
                    return Err(Refusal::TooManyTags(job));
                }
                (version, Some(Box::new(VersionTag { name, description, tagged_at: self.at })))
            }
        };
        self.jobs.update(slot, self.index, |row| row.change_version(version, |version| version.tag = tag));
        // What was kept for its tag alone may go.
        self.drop_old_versions(slot);
        events.push(StateChange::JobStatusChanged(slot));
        Ok(())
    }

    fn job_row(&self, key: &JobKey) -> Result<(JobSlot, &JobRow), Refusal> {
        let slot = self.jobs.find(key).ok_or_else(|| Refusal::NoJob(key.clone()))?;
        self.jobs.row(slot).map(|row| (slot, row)).ok_or_else(|| Refusal::NoJob(key.clone()))
    }
}
