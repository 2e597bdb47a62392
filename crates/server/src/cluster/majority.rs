//! What the leader says of its contact with a majority. A follower that hears a leader knows nothing of the others: they may
//! have elected another one, on the far side of a cut, so its state is only as fresh as the leader's word of a majority.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use super::status::MAJORITY_MAX;

/// What whoever leads said last. Times are of any clock that never goes back, so that the simulation goes by the same rule.
#[derive(Default)]
pub struct LeadersMajority(Mutex<Option<Word>>);

#[derive(Debug, Clone, Copy)]
struct Word {
    leader: u64,
    term: u64,
    /// When it was asked: what it said was true at some time after that.
    asked_at: Duration,
    /// How long before that it had heard a majority; none when it never had.
    ago: Option<Duration>,
}

/// A leader's contact with a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MajorityContact {
    /// How long ago it had heard one, at the least favourable reading.
    pub age: Duration,
    /// It said itself that it leads nobody any more.
    pub is_cut_off: bool,
}

/// How many milliseconds ago a server heard a majority, as its answer has it: the greatest number for never, and none where it
/// says nothing of it. `leads` is whether it says that it leads, none for a server of a version that says neither: that such a
/// one answers, while it is believed to lead, has to be enough. One that says whether it leads leaves the other out only when it
/// does not, so that its answer makes nothing fresher.
pub(super) fn said_of_majority(
    majority_ms: Option<u64>,
    leads: Option<bool>,
    is_believed_to_lead: bool,
) -> Option<u64> {
    majority_ms.or((leads.is_none() && is_believed_to_lead).then_some(0))
}

impl LeadersMajority {
    /// The leader of a term, asked at that time, said how many milliseconds ago it had heard a majority.
    pub fn set(&self, leader: u64, term: u64, asked_at: Duration, ago_ms: u64) {
        let ago = (ago_ms != u64::MAX).then(|| Duration::from_millis(ago_ms));
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Answers may overtake each other.
        if last.is_none_or(|last| (last.term, last.asked_at) < (term, asked_at)) {
            *last = Some(Word { leader, term, asked_at, ago });
        }
    }

    /// What the leader of a term said, at `now`, on a clock that began with this server. One that has said nothing yet, or whose
    /// answers do not arrive, makes nothing fresher than the word before it, or than the start of this server.
    pub fn of(&self, leader: u64, term: u64, now: Duration) -> MajorityContact {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(word) = last else { return MajorityContact { age: now, is_cut_off: false } };
        if word.term > term {
            // Another was elected since, with a majority that the older one has not any more.
            return MajorityContact { age: Duration::MAX, is_cut_off: true };
        }
        let age = word.ago.map_or(Duration::MAX, |ago| ago.saturating_add(now.saturating_sub(word.asked_at)));
        let is_its_own = (word.leader, word.term) == (leader, term);
        let is_cut_off = is_its_own && word.ago.is_none_or(|ago| ago >= MAJORITY_MAX);
        MajorityContact { age, is_cut_off }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_with_a_leader_is_as_old_as_that_one_s_with_a_majority() {
        let (said, at) = (LeadersMajority::default(), Duration::from_millis);
        let unknown = MajorityContact { age: Duration::from_millis(300), is_cut_off: false };
        assert_eq!(said.of(1, 5, at(300)), unknown, "no server was heard since this one started");
        said.set(1, 5, at(0), 100);
        let fresh = MajorityContact { age: Duration::from_millis(150), is_cut_off: false };
        assert_eq!(said.of(1, 5, at(50)), fresh);
        let old = said.of(1, 5, at(60_000));
        assert_eq!(old.age, Duration::from_millis(60_100), "the age grows while nothing new is said");
        assert!(!old.is_cut_off, "silence about it is no word that the leader is cut off");
        said.set(1, 5, at(60_000), 2_000);
        assert!(said.of(1, 5, at(60_000)).is_cut_off);
        let next = MajorityContact { age: Duration::from_millis(2_500), is_cut_off: false };
        assert_eq!(
            said.of(2, 6, at(60_500)),
            next,
            "who leads next has not said yet that it hears a majority"
        );
    }

    #[test]
    fn silence_about_a_majority_is_fresh_only_from_a_version_that_cannot_say_it() {
        assert_eq!(said_of_majority(Some(700), Some(true), true), Some(700));
        assert_eq!(said_of_majority(Some(u64::MAX), Some(true), false), Some(u64::MAX));
        assert_eq!(said_of_majority(None, None, true), Some(0), "an older server leads");
        assert_eq!(said_of_majority(None, None, false), None, "an older server follows");
        assert_eq!(said_of_majority(None, Some(false), true), None, "it leads no more, and says so");
        assert_eq!(said_of_majority(None, Some(true), true), None, "it could have said it");
        assert_eq!(said_of_majority(Some(700), None, true), Some(700), "it says one, and not yet the other");
    }

    #[test]
    fn what_was_asked_last_counts_and_an_old_leader_has_no_say() {
        let (said, at) = (LeadersMajority::default(), Duration::from_millis);
        said.set(1, 5, at(1_000), u64::MAX);
        said.set(1, 5, at(0), 0);
        let never = MajorityContact { age: Duration::MAX, is_cut_off: true };
        assert_eq!(said.of(1, 5, at(1_000)), never);
        said.set(2, 6, at(1_000), 0);
        said.set(1, 5, at(2_000), 3_000);
        let newer = MajorityContact { age: Duration::from_secs(1), is_cut_off: false };
        assert_eq!(said.of(2, 6, at(2_000)), newer);
        assert_eq!(said.of(1, 5, at(2_000)), never, "it leads nobody, whatever it said before");
    }
}
