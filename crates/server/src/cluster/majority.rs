//! What the leader says of its contact with a majority. A follower that hears a leader knows nothing of the others: they may
//! have elected another one, on the far side of a cut, so its state is only as fresh as the leader's word of a majority.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::status::MAJORITY_MAX;

/// What whoever leads said last.
#[derive(Default)]
pub(super) struct LeadersMajority(Mutex<Option<Word>>);

#[derive(Debug, Clone, Copy)]
struct Word {
    leader: u64,
    term: u64,
    /// When it was asked: what it said was true at some time after that.
    asked_at: Instant,
    /// How long before that it had heard a majority; none when it never had.
    ago: Option<Duration>,
}

/// A leader's contact with a majority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MajorityContact {
    /// How long ago it had heard one, at the least favourable reading.
    pub age: Duration,
    /// It said itself that it leads nobody any more.
    pub is_cut_off: bool,
}

impl LeadersMajority {
    /// The leader of a term, asked at that time, said how many milliseconds ago it had heard a majority.
    pub fn set(&self, leader: u64, term: u64, asked_at: Instant, ago_ms: u64) {
        let ago = (ago_ms != u64::MAX).then(|| Duration::from_millis(ago_ms));
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Answers may overtake each other.
        if last.is_none_or(|last| (last.term, last.asked_at) < (term, asked_at)) {
            *last = Some(Word { leader, term, asked_at, ago });
        }
    }

    /// What the leader of a term said; none when it has said nothing, as servers of earlier versions do.
    pub fn of(&self, leader: u64, term: u64, now: Instant) -> Option<MajorityContact> {
        let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let word = last?;
        if word.term > term {
            // Another was elected since, with a majority that the older one has not any more.
            return Some(MajorityContact { age: Duration::MAX, is_cut_off: true });
        }
        let word = Some(word).filter(|word| (word.leader, word.term) == (leader, term))?;
        let age = word
            .ago
            .map_or(Duration::MAX, |ago| ago.saturating_add(now.saturating_duration_since(word.asked_at)));
        Some(MajorityContact { age, is_cut_off: word.ago.is_none_or(|ago| ago >= MAJORITY_MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_with_a_leader_is_as_old_as_that_one_s_with_a_majority() {
        let (said, begun) = (LeadersMajority::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        assert_eq!(said.of(1, 5, at(0)), None, "an older server says nothing");
        said.set(1, 5, at(0), 100);
        let fresh = MajorityContact { age: Duration::from_millis(150), is_cut_off: false };
        assert_eq!(said.of(1, 5, at(50)), Some(fresh));
        let old = said.of(1, 5, at(60_000)).unwrap();
        assert_eq!(old.age, Duration::from_millis(60_100), "the age grows while nothing new is said");
        assert!(!old.is_cut_off, "silence about it is no word that the leader is cut off");
        said.set(1, 5, at(60_000), 2_000);
        assert!(said.of(1, 5, at(60_000)).unwrap().is_cut_off);
        assert_eq!((said.of(1, 6, at(60_000)), said.of(2, 5, at(60_000))), (None, None), "other leaderships");
    }

    #[test]
    fn what_was_asked_last_counts_and_an_old_leader_has_no_say() {
        let (said, begun) = (LeadersMajority::default(), Instant::now());
        let at = |ms| begun + Duration::from_millis(ms);
        said.set(1, 5, at(1_000), u64::MAX);
        said.set(1, 5, at(0), 0);
        let never = MajorityContact { age: Duration::MAX, is_cut_off: true };
        assert_eq!(said.of(1, 5, at(1_000)), Some(never));
        said.set(2, 6, at(1_000), 0);
        said.set(1, 5, at(2_000), 3_000);
        let newer = MajorityContact { age: Duration::from_secs(1), is_cut_off: false };
        assert_eq!(said.of(2, 6, at(2_000)), Some(newer));
        assert_eq!(said.of(1, 5, at(2_000)), Some(never), "it leads nobody, whatever it said before");
    }
}
