//! What the client has written, and so what a right answer is.

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
pub(super) struct JobSeen {
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(default)]
    stop: bool,
    #[serde(default)]
    meta: Option<BTreeMap<String, String>>,
}

impl JobState {
    /// Whether a list that shows the job so, or not at all, may stand.
    fn allows(self, seen: Option<&JobSeen>) -> bool {
        match (self, seen) {
            (Self::Live(revision), Some(seen)) => !seen.stop && revision_of(seen.meta.as_ref()) == revision,
            (Self::Stopped | Self::Purged, Some(seen)) => seen.stop,
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
pub(super) struct Books {
    jobs: BTreeMap<String, JobBook>,
    /// Outdated states are kept, as an answer that is on its way may report them.
    holding: bool,
}

/// What one job may be: one state, unless writes are on their way or nobody knows what has become of them.
#[derive(Debug)]
struct JobBook {
    states: Vec<JobState>,
    /// The last state that is known to have been reached; all after it are possible too.
    sure: usize,
    /// Allocations that it has while it lives.
    count: u32,
}

impl Books {
    /// A write is about to be sent that makes the job so. One write of a job at a time.
    pub fn begin(&mut self, id: &str, count: u32, state: JobState) {
        let absent = || JobBook { states: vec![JobState::Purged], sure: 0, count };
        self.jobs.entry(id.to_owned()).or_insert_with(absent).states.push(state);
    }

    /// The last write that was begun is acknowledged.
    pub fn acknowledge(&mut self, id: &str) {
        let Some(book) = self.jobs.get_mut(id) else { return };
        book.sure = book.states.len() - 1;
        if !self.holding {
            book.trim();
        }
    }

    /// The last write that was begun will never be done.
    pub fn withdraw(&mut self, id: &str) {
        if let Some(book) = self.jobs.get_mut(id) {
            book.states.pop();
        }
    }

    /// The job's last write may have been done at any time or never: nothing is said of the job any more.
    pub fn forget(&mut self, id: &str) {
        self.jobs.remove(id);
    }

    /// From now on until [`Self::release`] an answer may report any state from now on.
    pub fn hold(&mut self) {
        self.holding = true;
        self.jobs.values_mut().for_each(JobBook::trim);
    }

    /// Answers that were on their way have come.
    pub fn release(&mut self) {
        self.holding = false;
        self.jobs.values_mut().for_each(JobBook::trim);
    }

    /// What the last write makes of a job, done or not.
    pub fn latest(&self, id: &str) -> Option<JobState> {
        self.jobs.get(id)?.states.last().copied()
    }

    /// Whether it is known what the job is, or that it never was.
    pub fn is_sure(&self, id: &str) -> bool {
        self.jobs.get(id).is_none_or(|book| book.sure + 1 == book.states.len())
    }

    /// How many jobs must be listed whose ids begin so.
    pub fn listed(&self, prefix: &str) -> usize {
        let must = |book: &JobBook| book.states.iter().all(|state| *state != JobState::Purged);
        self.under(prefix).filter(|(_, book)| must(book)).count()
    }

    /// Each live job, with its revision and how many allocations it has.
    pub fn live(&self) -> impl Iterator<Item = (&str, u64, u32)> {
        self.jobs.iter().filter_map(|(id, book)| match book.states.last()? {
            JobState::Live(revision) => Some((id.as_str(), *revision, book.count)),
            JobState::Stopped | JobState::Purged => None,
        })
    }

    /// What is wrong with a list of all jobs whose ids begin so.
    pub fn check(&self, prefix: &str, seen: &[JobSeen]) -> Vec<String> {
        let by_id: BTreeMap<&str, &JobSeen> = seen.iter().map(|seen| (seen.id.as_str(), seen)).collect();
        let wrong = self.under(prefix).filter_map(|(id, book)| {
            let seen = by_id.get(id.as_str()).copied();
            let allowed = book.states.iter().any(|state| state.allows(seen));
            (!allowed).then(|| format!("job {id} is {}, and was written: {:?}", told(seen), book.states))
        });
        wrong.collect()
    }

    fn under<'b>(&'b self, prefix: &'b str) -> impl Iterator<Item = (&'b String, &'b JobBook)> {
        let from = self.jobs.range::<str, _>((std::ops::Bound::Included(prefix), std::ops::Bound::Unbounded));
        from.take_while(move |(id, _)| id.starts_with(prefix))
    }
}

impl JobBook {
    fn trim(&mut self) {
        self.states.drain(..self.sure);
        self.sure = 0;
    }
}

fn told(seen: Option<&JobSeen>) -> String {
    match seen {
        None => "not listed".to_owned(),
        Some(seen) if seen.stop => "listed as stopped".to_owned(),
        Some(seen) => format!("listed with revision {}", revision_of(seen.meta.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(id: &str, stop: bool, revision: u64) -> JobSeen {
        let meta = BTreeMap::from([(REVISION.to_owned(), revision.to_string())]);
        JobSeen { id: id.to_owned(), stop, meta: Some(meta) }
    }

    fn written(id: &str, states: &[JobState]) -> Books {
        let mut books = Books::default();
        for state in states {
            books.begin(id, 1, *state);
            books.acknowledge(id);
        }
        books
    }

    #[test]
    fn an_answer_older_than_an_acknowledged_write_is_wrong() {
        let books = written("a", &[JobState::Live(1), JobState::Live(2)]);
        assert_eq!(books.check("a", &[seen("a", false, 2)]), [""; 0]);
        let wrong = "job a is listed with revision 1, and was written: [Live(2)]";
        assert_eq!(books.check("a", &[seen("a", false, 1)]), [wrong]);
        assert_eq!(books.check("a", &[]).len(), 1);
        assert_eq!((books.listed("a"), books.listed("b")), (1, 0));
        assert_eq!(books.check("b", &[]), [""; 0]);
    }

    #[test]
    fn a_write_without_an_answer_may_have_been_done_or_not() {
        let mut books = written("a", &[JobState::Live(1)]);
        books.begin("a", 1, JobState::Stopped);
        assert!(!books.is_sure("a"));
        assert!(books.check("", &[seen("a", false, 1)]).is_empty());
        assert!(books.check("", &[seen("a", true, 1)]).is_empty());
        assert!(!books.check("", &[]).is_empty());
        books.begin("a", 1, JobState::Live(2));
        books.acknowledge("a");
        assert!(!books.check("", &[seen("a", true, 1)]).is_empty());
        books.begin("a", 1, JobState::Live(3));
        books.withdraw("a");
        assert!(!books.check("", &[seen("a", false, 3)]).is_empty() && books.is_sure("a"));
    }

    #[test]
    fn an_answer_on_its_way_may_tell_of_what_was_when_it_was_asked_for() {
        let mut books = written("a", &[JobState::Live(1), JobState::Live(2)]);
        books.hold();
        books.begin("a", 1, JobState::Purged);
        books.acknowledge("a");
        let told = |books: &Books, revision| books.check("", &[seen("a", false, revision)]).is_empty();
        assert!(told(&books, 2) && books.check("", &[]).is_empty() && !told(&books, 1));
        books.release();
        assert!(!told(&books, 2) && books.live().next().is_none());
    }
}
