//! The age of the leader's contact with a majority. A follower that hears a leader knows nothing of the others: on the other side
//! of a partition they may have elected another one, so its state is only as fresh as the leader's contact. A report counts once
//! readers see all that the leader's log held when it was made.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_model::Index;

use super::status::MAJORITY_MAX;

/// The leader's latest reports. Times are of any monotonic clock, so that the simulation goes by the same rule.
#[derive(Default)]
pub struct LeadersMajority(Mutex<ContactReports>);

#[derive(Default)]
struct ContactReports {
    /// The newest: whether the leader is cut off is known from it at once.
    newest: Option<ContactReport>,
    /// The newest that this server has caught up with: its state is as fresh as that one.
    reached: Option<ContactReport>,
    /// One that this server has not caught up with yet. Newer ones do not replace it: a server that lags would wait for ever.
    awaited: Option<(ContactReport, AwaitedProgress)>,
}

/// What has to happen before a report counts.
#[derive(Debug, Clone, Copy)]
enum AwaitedProgress {
    /// That this server has applied a record of the log.
    Record(u64),
    /// That readers see the state at an index.
    Index(Index),
}

/// How far this server has come, read in this order: what readers see includes what is applied only if it was read later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnProgress {
    /// The last record of the log that it has applied.
    pub log_index: u64,
    /// The index of the newest state that it has applied.
    pub applied: Index,
    /// The index of the state that readers see.
    pub published: Index,
}

#[derive(Debug, Clone, Copy)]
struct ContactReport {
    leader: u64,
    term: u64,
    /// When it was asked: the report was true at some time after that.
    asked_at: Duration,
    /// The age of its contact with a majority at that time; none for never.
    ago: Option<Duration>,
}

/// A leader's contact with a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MajorityContact {
    /// The age of the contact, at the least favourable reading.
    pub age: Duration,
    /// It reported that it leads no more.
    pub is_cut_off: bool,
}

/// The age in milliseconds of a server's contact with a majority, by its response: the greatest number for never, and none where it
/// says nothing of it. `leads` is whether it says that it leads, none for a server of a version that says neither: that such a
/// one answers, while it is believed to lead, has to be enough. One that says whether it leads leaves the other out only when it
/// does not, so that its answer makes nothing fresher.
pub(super) fn majority_age(
    majority_ms: Option<u64>,
    leads: Option<bool>,
    is_believed_to_lead: bool,
) -> Option<u64> {
    majority_ms.or((leads.is_none() && is_believed_to_lead).then_some(0))
}

/// The part of a leader's status report that the freshness of states follows from.
#[derive(Debug, Clone, Copy)]
pub struct LeaderReport {
    /// The server that reports.
    pub leader: u64,
    /// Its term.
    pub term: u64,
    /// The age of its contact with a majority in milliseconds; the greatest number for never.
    pub ago_ms: u64,
    /// The last record of its log: nothing behind it was acknowledged before it answered.
    pub log_index: u64,
}

impl LeaderReport {
    /// Whether it leads, by its report.
    pub fn hears_majority(&self) -> bool {
        Duration::from_millis(self.ago_ms) < MAJORITY_MAX
    }
}

impl LeadersMajority {
    /// A leader was asked at that time; `own` is how far this server has come by now.
    pub fn set(&self, report: LeaderReport, asked_at: Duration, own: OwnProgress) {
        let LeaderReport { leader, term, ago_ms, log_index } = report;
        let ago = (ago_ms != u64::MAX).then(|| Duration::from_millis(ago_ms));
        let report = ContactReport { leader, term, asked_at, ago };
        let mut reports = self.reports();
        reports.catch_up(own);
        // Answers may overtake each other.
        if !report.is_newer_than(reports.newest) {
            return;
        }
        reports.newest = Some(report);
        // What a leader of an older term had in its log may never be applied by anybody.
        if reports.awaited.is_none_or(|(awaited, _)| awaited.term < term) {
            reports.awaited = Some((report, AwaitedProgress::Record(log_index)));
            reports.catch_up(own);
        }
    }

    /// What the leader of a term said, at `now`, to a server that has come so far. Before this server has caught up with anything,
    /// nothing is known of the age of its state, however long it has run.
    pub fn of(&self, leader: u64, term: u64, now: Duration, own: OwnProgress) -> MajorityContact {
        let mut reports = self.reports();
        reports.catch_up(own);
        if reports.newest.is_some_and(|report| report.term > term) {
            // Another was elected since, with a majority that the older one has not any more.
            return MajorityContact { age: Duration::MAX, is_cut_off: true };
        }
        let age = reports.reached.map_or(Duration::MAX, |report| report.age(now));
        let of_this_leader = reports.newest.filter(|report| (report.leader, report.term) == (leader, term));
        let is_cut_off =
            of_this_leader.is_some_and(|report| report.ago.is_none_or(|ago| ago >= MAJORITY_MAX));
        MajorityContact { age, is_cut_off }
    }

    fn reports(&self) -> MutexGuard<'_, ContactReports> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ContactReports {
    fn catch_up(&mut self, own: OwnProgress) {
        let Some((report, awaited)) = &mut self.awaited else { return };
        if matches!(awaited, AwaitedProgress::Record(log_index) if *log_index <= own.log_index) {
            *awaited = AwaitedProgress::Index(own.applied);
        }
        if matches!(awaited, AwaitedProgress::Index(index) if *index <= own.published) {
            self.reached = Some(*report);
            self.awaited = None;
        }
    }
}

impl ContactReport {
    fn is_newer_than(&self, other: Option<Self>) -> bool {
        other.is_none_or(|other| (other.term, other.asked_at) < (self.term, self.asked_at))
    }

    fn age(&self, now: Duration) -> Duration {
        self.ago.map_or(Duration::MAX, |ago| ago.saturating_add(now.saturating_sub(self.asked_at)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: u64 = u64::MAX;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn report(leader: u64, term: u64, ago_ms: u64, log_index: u64) -> LeaderReport {
        LeaderReport { leader, term, ago_ms, log_index }
    }

    /// Readers see all that is applied: as much of the state as of the log.
    fn own(log_index: u64) -> OwnProgress {
        OwnProgress { log_index, applied: Index(log_index), published: Index(log_index) }
    }

    fn contact(age_ms: u64, is_cut_off: bool) -> MajorityContact {
        MajorityContact { age: at(age_ms), is_cut_off }
    }

    #[test]
    fn contact_with_a_leader_is_as_old_as_the_leaders_contact_with_a_majority() {
        let reports = LeadersMajority::default();
        let unknown = MajorityContact { age: Duration::MAX, is_cut_off: false };
        assert_eq!(reports.of(1, 5, at(300), own(10)), unknown, "no server was heard since this one started");
        reports.set(report(1, 5, 100, 10), at(0), own(10));
        assert_eq!(reports.of(1, 5, at(50), own(10)), contact(150, false));
        let old = reports.of(1, 5, at(60_000), own(10));
        assert_eq!(old.age, at(60_100), "the age grows while nothing new is said");
        assert!(!old.is_cut_off, "silence about it is no word that the leader is cut off");
        reports.set(report(1, 5, 2_000, 10), at(60_000), own(10));
        assert!(reports.of(1, 5, at(60_000), own(10)).is_cut_off);
        assert_eq!(
            reports.of(2, 6, at(60_500), own(10)),
            contact(2_500, false),
            "who leads next has not said yet that it hears a majority"
        );
    }

    #[test]
    fn a_state_is_fresh_once_it_holds_what_the_leader_had() {
        let reports = LeadersMajority::default();
        reports.set(report(1, 5, 0, 100), at(0), own(40));
        assert_eq!(
            reports.of(1, 5, at(200), own(40)).age,
            Duration::MAX,
            "it was away, nobody knows for how long"
        );
        // A log that grows all the time is never reached as it is now: it need not be.
        for step in 1..10 {
            reports.set(report(1, 5, 0, 100 + 10 * step), at(100 * step), own(40 + 6 * step));
            assert_eq!(reports.of(1, 5, at(100 * step), own(40 + 6 * step)).age, Duration::MAX);
        }
        assert_eq!(
            reports.of(1, 5, at(1_000), own(100)),
            contact(1_000, false),
            "as it was when first asked"
        );
        reports.set(report(1, 5, 0, 230), at(1_000), own(101));
        assert_eq!(reports.of(1, 5, at(1_500), own(229)), contact(1_500, false));
        assert_eq!(reports.of(1, 5, at(1_500), own(230)), contact(500, false));
    }

    #[test]
    fn what_is_applied_is_fresh_only_once_readers_see_it() {
        let reports = LeadersMajority::default();
        let progress = |log_index, applied, published| OwnProgress {
            log_index,
            applied: Index(applied),
            published: Index(published),
        };
        reports.set(report(1, 5, 0, 100), at(0), progress(99, 990, 700));
        assert_eq!(reports.of(1, 5, at(100), progress(100, 1_000, 700)).age, Duration::MAX);
        assert_eq!(reports.of(1, 5, at(200), progress(120, 1_200, 999)).age, Duration::MAX);
        let reached = reports.of(1, 5, at(300), progress(120, 1_200, 1_000));
        assert_eq!(reached, contact(300, false), "what came later is not waited for");
    }

    #[test]
    fn a_leader_s_word_that_it_is_cut_off_waits_for_nothing() {
        let reports = LeadersMajority::default();
        reports.set(report(1, 5, 0, 100), at(0), own(100));
        reports.set(report(1, 5, 3_000, 200), at(3_000), own(100));
        assert_eq!(reports.of(1, 5, at(3_000), own(100)), contact(3_000, true));
    }

    #[test]
    fn records_of_a_leader_that_was_replaced_are_not_waited_for() {
        let reports = LeadersMajority::default();
        reports.set(report(1, 5, 0, 100), at(0), own(80));
        reports.set(report(2, 6, 0, 90), at(1_000), own(80));
        assert_eq!(
            reports.of(2, 6, at(1_100), own(90)),
            contact(100, false),
            "nobody has its last ten records"
        );
    }

    #[test]
    fn silence_about_a_majority_is_fresh_only_from_a_version_that_cannot_say_it() {
        assert_eq!(majority_age(Some(700), Some(true), true), Some(700));
        assert_eq!(majority_age(Some(u64::MAX), Some(true), false), Some(u64::MAX));
        assert_eq!(majority_age(None, None, true), Some(0), "an older server leads");
        assert_eq!(majority_age(None, None, false), None, "an older server follows");
        assert_eq!(majority_age(None, Some(false), true), None, "it leads no more, and says so");
        assert_eq!(majority_age(None, Some(true), true), None, "it could have said it");
        assert_eq!(majority_age(Some(700), None, true), Some(700), "it says one, and not yet the other");
    }

    #[test]
    fn what_was_asked_last_counts_and_an_old_leader_has_no_say() {
        let reports = LeadersMajority::default();
        reports.set(report(1, 5, NEVER, 10), at(1_000), own(10));
        reports.set(report(1, 5, 0, 10), at(0), own(10));
        let never = MajorityContact { age: Duration::MAX, is_cut_off: true };
        assert_eq!(reports.of(1, 5, at(1_000), own(10)), never);
        reports.set(report(2, 6, 0, 10), at(1_000), own(10));
        reports.set(report(1, 5, 3_000, 10), at(2_000), own(10));
        assert_eq!(reports.of(2, 6, at(2_000), own(10)), contact(1_000, false));
        assert_eq!(reports.of(1, 5, at(2_000), own(10)), never, "it leads nobody, whatever it said before");
    }
}
