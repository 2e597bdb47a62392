//! The state of each job after the client's writes, and therefore which answers are right.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The label of a job that shows its revision; absent on jobs that never change.
pub(super) const REVISION: &str = "revision";

/// What a job is after a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JobState {
    /// Registered, with this revision: another one in each write.
    Live(u64),
    /// Stopped, and still listed.
    Stopped,
    /// Stopped and purged: gone, or on its way there.
    Purged,
}

/// A job in a list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ListedJob {
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(default)]
    stop: bool,
    #[serde(default)]
    meta: Option<BTreeMap<String, String>>,
}

impl JobState {
    /// Whether a list that shows the job so, or not at all, may stand.
    fn allows(self, found: Option<&ListedJob>) -> bool {
        match (self, found) {
            (Self::Live(revision), Some(found)) => {
                !found.stop && revision_of(found.meta.as_ref()) == revision
            }
            (Self::Stopped | Self::Purged, Some(found)) => found.stop,
            (Self::Purged, None) => true,
            (Self::Live(_) | Self::Stopped, None) => false,
        }
    }
}

/// The revision that a job's labels show: 0 without the label.
pub(super) fn revision_of(meta: Option<&BTreeMap<String, String>>) -> u64 {
    meta.and_then(|meta| meta.get(REVISION)?.parse().ok()).unwrap_or_default()
}

/// All jobs of a run, by id.
#[derive(Debug, Default)]
pub(super) struct JobStates {
    jobs: BTreeMap<String, PossibleStates>,
    /// Outdated states are retained, as an answer that is on its way may report them.
    holding: bool,
}

/// What one job may be: one state, unless writes are on their way or nobody knows what has become of them.
#[derive(Debug)]
struct PossibleStates {
    states: Vec<JobState>,
    /// The last state that is known to have been reached; all after it are possible too.
    confirmed: usize,
    /// Allocations that it has while it lives.
    count: u32,
}

impl JobStates {
    /// A write is about to be sent that makes the job so. One write of a job at a time.
    pub fn begin(&mut self, id: &str, count: u32, state: JobState) {
        let absent = || PossibleStates { states: vec![JobState::Purged], confirmed: 0, count };
        self.jobs.entry(id.to_owned()).or_insert_with(absent).states.push(state);
    }

    /// The last write that was begun is acknowledged.
    pub fn acknowledge(&mut self, id: &str) {
        let Some(possible) = self.jobs.get_mut(id) else { return };
        possible.confirmed = possible.states.len() - 1;
        if !self.holding {
            possible.trim();
        }
    }

    /// The last write that was begun will never be done.
    pub fn withdraw(&mut self, id: &str) {
        if let Some(possible) = self.jobs.get_mut(id) {
            possible.states.pop();
        }
    }

    /// The job's last write may have been applied at any time or never: the job is no longer checked.
    pub fn stop_checking(&mut self, id: &str) {
        self.jobs.remove(id);
    }

    /// From now on until [`Self::release`] an answer may report any state from now on.
    pub fn hold(&mut self) {
        self.holding = true;
        self.jobs.values_mut().for_each(PossibleStates::trim);
    }

    /// Answers that were on their way have come.
    pub fn release(&mut self) {
        self.holding = false;
        self.jobs.values_mut().for_each(PossibleStates::trim);
    }

    /// What the last write makes of a job, done or not.
    pub fn latest(&self, id: &str) -> Option<JobState> {
        self.jobs.get(id)?.states.last().copied()
    }

    /// Whether it is known what the job is, or that it never was.
    pub fn is_confirmed(&self, id: &str) -> bool {
        self.jobs.get(id).is_none_or(|possible| possible.confirmed + 1 == possible.states.len())
    }

    /// How many jobs must be listed whose ids begin so.
    pub fn listed(&self, prefix: &str) -> usize {
        let must = |possible: &PossibleStates| possible.states.iter().all(|state| *state != JobState::Purged);
        self.under(prefix).filter(|(_, possible)| must(possible)).count()
    }

    /// Each live job, with its revision and how many allocations it has.
    pub fn live(&self) -> impl Iterator<Item = (&str, u64, u32)> {
        self.jobs.iter().filter_map(|(id, possible)| match possible.states.last()? {
            JobState::Live(revision) => Some((id.as_str(), *revision, possible.count)),
            JobState::Stopped | JobState::Purged => None,
        })
    }

    /// What is wrong with a list of all jobs whose ids begin so.
    pub fn check(&self, prefix: &str, found: &[ListedJob]) -> Vec<String> {
        let by_id: BTreeMap<&str, &ListedJob> =
            found.iter().map(|found| (found.id.as_str(), found)).collect();
        let wrong = self.under(prefix).filter_map(|(id, possible)| {
            let found = by_id.get(id.as_str()).copied();
            let allowed = possible.states.iter().any(|state| state.allows(found));
            (!allowed)
                .then(|| format!("job {id} is {}, and was written: {:?}", describe(found), possible.states))
        });
        wrong.collect()
    }

    fn under<'b>(&'b self, prefix: &'b str) -> impl Iterator<Item = (&'b String, &'b PossibleStates)> {
        let from = self.jobs.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.take_while(move |(id, _)| id.starts_with(prefix))
    }
}

impl PossibleStates {
    fn trim(&mut self) {
        self.states.drain(..self.confirmed);
        self.confirmed = 0;
    }
}

fn describe(found: Option<&ListedJob>) -> String {
    match found {
        None => "not listed".to_owned(),
        Some(found) if found.stop => "listed as stopped".to_owned(),
        Some(found) => format!("listed with revision {}", revision_of(found.meta.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(id: &str, stop: bool, revision: u64) -> ListedJob {
        let meta = BTreeMap::from([(REVISION.to_owned(), revision.to_string())]);
        ListedJob { id: id.to_owned(), stop, meta: Some(meta) }
    }

    fn written(id: &str, states: &[JobState]) -> JobStates {
        let mut job_states = JobStates::default();
        for state in states {
            job_states.begin(id, 1, *state);
            job_states.acknowledge(id);
        }
        job_states
    }

    #[test]
    fn an_answer_older_than_an_acknowledged_write_is_wrong() {
        let job_states = written("a", &[JobState::Live(1), JobState::Live(2)]);
        assert_eq!(job_states.check("a", &[found("a", false, 2)]), [""; 0]);
        let wrong = "job a is listed with revision 1, and was written: [Live(2)]";
        assert_eq!(job_states.check("a", &[found("a", false, 1)]), [wrong]);
        assert_eq!(job_states.check("a", &[]).len(), 1);
        assert_eq!((job_states.listed("a"), job_states.listed("b")), (1, 0));
        assert_eq!(job_states.check("b", &[]), [""; 0]);
    }

    #[test]
    fn a_write_without_an_answer_may_have_been_done_or_not() {
        let mut job_states = written("a", &[JobState::Live(1)]);
        job_states.begin("a", 1, JobState::Stopped);
        assert!(!job_states.is_confirmed("a"));
        assert!(job_states.check("", &[found("a", false, 1)]).is_empty());
        assert!(job_states.check("", &[found("a", true, 1)]).is_empty());
        assert!(!job_states.check("", &[]).is_empty());
        job_states.begin("a", 1, JobState::Live(2));
        job_states.acknowledge("a");
        assert!(!job_states.check("", &[found("a", true, 1)]).is_empty());
        job_states.begin("a", 1, JobState::Live(3));
        job_states.withdraw("a");
        assert!(!job_states.check("", &[found("a", false, 3)]).is_empty() && job_states.is_confirmed("a"));
    }

    #[test]
    fn an_answer_on_its_way_may_tell_of_what_was_when_it_was_asked_for() {
        let mut job_states = written("a", &[JobState::Live(1), JobState::Live(2)]);
        job_states.hold();
        job_states.begin("a", 1, JobState::Purged);
        job_states.acknowledge("a");
        let describe = |job_states: &JobStates, revision| {
            job_states.check("", &[found("a", false, revision)]).is_empty()
        };
        assert!(
            describe(&job_states, 2) && job_states.check("", &[]).is_empty() && !describe(&job_states, 1)
        );
        job_states.release();
        assert!(!describe(&job_states, 2) && job_states.live().next().is_none());
    }
}
