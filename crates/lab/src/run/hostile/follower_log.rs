//! What followers of the event stream received: each change once and in order, or the index from which to follow once the state
//! has been read. Anything else is a silent gap.

use std::time::Instant;

/// Followers that are named of those that missed something, for people.
const NAMED_MAX: usize = 5;

/// A change that was written.
#[derive(Debug, Clone, Copy)]
pub(super) struct WrittenChange {
    /// The index of the change.
    pub index: u64,
    /// When its request was begun.
    pub at: Instant,
}

/// What a follower meets with.
#[derive(Debug, Clone, Copy)]
pub(super) enum FollowStep {
    /// It received the change at an index.
    Delivered { index: u64, at: Instant },
    /// It was told to resume: changes before `from` are no longer retained, and it has then read a state as of index `state`.
    Resumed { from: u64, state: u64 },
}

/// What one follower has met with.
#[derive(Debug, Clone, Default)]
pub(super) struct FollowerLog {
    /// The index from which on it must receive changes.
    pub from: u64,
    /// What it received, in order.
    pub steps: Vec<FollowStep>,
    /// Why it could follow no further; none where it could.
    pub failed: Option<String>,
    /// It has read nothing for a while.
    pub was_stuck: bool,
}

impl FollowerLog {
    /// Whether it knows of all changes up to an index: from the stream, or because these are no longer kept.
    pub fn knows(&self, index: u64) -> bool {
        match self.steps.last() {
            None => false,
            Some(FollowStep::Delivered { index: delivered, .. }) => *delivered >= index,
            Some(FollowStep::Resumed { from, .. }) => *from > index,
        }
    }

    /// The first change that it missed without notice, or received wrongly, for people.
    fn wrong(&self, written: &[WrittenChange]) -> Option<String> {
        let mut due =
            written.iter().map(|written| written.index).filter(|index| *index >= self.from).peekable();
        for step in &self.steps {
            match *step {
                FollowStep::Delivered { index, .. } => match due.next() {
                    Some(next) if next == index => {}
                    Some(next) if next < index => {
                        return Some(format!(
                            "was told of the change at {index}, and never of that at {next}"
                        ));
                    }
                    _ => return Some(format!("was told of a change at {index} again, or out of order")),
                },
                FollowStep::Resumed { from, state } => {
                    while let Some(index) = due.next_if(|index| *index < from) {
                        if index > state {
                            return Some(format!(
                                "was to resume from {from}, and the state that it read does not have the change at {index}"
                            ));
                        }
                    }
                }
            }
        }
        let left = due.count();
        let why = self.failed.as_deref().unwrap_or("the stream went on without them");
        (left > 0).then(|| format!("was never told of the last {left} changes: {why}"))
    }
}

/// What all followers have met with.
#[derive(Debug, Clone, Default)]
pub(super) struct FollowSummary {
    /// From the begin of each write to each follower that reads, the shortest first: milliseconds.
    pub lags_ms: Vec<f64>,
    /// Followers that were stuck and then read all that they had missed.
    pub stuck_read_all: u32,
    /// Followers that were stuck and then were told from which index on to resume.
    pub stuck_resumed: u32,
    /// What may not be, for people.
    pub wrong: Vec<String>,
}

impl FollowSummary {
    /// Summarizes the logs of all followers.
    pub fn of(written: &[WrittenChange], accounts: &[FollowerLog]) -> Self {
        let mut all = Self::default();
        for log in accounts {
            let wrong = log.wrong(written);
            if log.was_stuck && wrong.is_none() {
                let resumed = log.steps.iter().any(|step| matches!(step, FollowStep::Resumed { .. }));
                *(if resumed { &mut all.stuck_resumed } else { &mut all.stuck_read_all }) += 1;
            }
            if !log.was_stuck {
                all.lags_ms.extend(log.steps.iter().filter_map(|step| lag_ms(written, *step)));
            }
            let who = if log.was_stuck { "that was stuck" } else { "that reads" };
            all.wrong.extend(wrong.map(|wrong| format!("a follower {who} {wrong}")));
        }
        all.lags_ms.sort_unstable_by(f64::total_cmp);
        let more = all.wrong.len().saturating_sub(NAMED_MAX);
        all.wrong.truncate(NAMED_MAX);
        all.wrong.extend((more > 0).then(|| format!("so it was with {more} more followers")));
        all
    }
}

fn lag_ms(written: &[WrittenChange], step: FollowStep) -> Option<f64> {
    let FollowStep::Delivered { index, at } = step else { return None };
    let found = written.binary_search_by_key(&index, |written| written.index).ok()?;
    Some(at.saturating_duration_since(written[found].at).as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct World {
        started_at: Instant,
        written: Vec<WrittenChange>,
    }

    impl World {
        /// Changes at these indexes, all begun at once.
        fn new(indexes: &[u64]) -> Self {
            let started_at = Instant::now();
            Self {
                started_at,
                written: indexes
                    .iter()
                    .map(|index| WrittenChange { index: *index, at: started_at })
                    .collect(),
            }
        }

        /// Told so many milliseconds later.
        fn delivered(&self, index: u64, ms: u64) -> FollowStep {
            FollowStep::Delivered { index, at: self.started_at + Duration::from_millis(ms) }
        }

        fn wrong(&self, from: u64, steps: &[FollowStep]) -> Option<String> {
            FollowerLog { from, steps: steps.to_vec(), ..FollowerLog::default() }.wrong(&self.written)
        }
    }

    #[test]
    fn a_follower_that_received_every_change_misses_nothing() {
        let world = World::new(&[3, 5, 9]);
        let all = [3, 5, 9].map(|index| world.delivered(index, 1));
        assert_eq!(world.wrong(0, &all), None);
        assert_eq!(world.wrong(4, &all[1..]), None, "it followed from there on");
    }

    #[test]
    fn a_silent_gap_shows() {
        let world = World::new(&[3, 5, 9]);
        let delivered = |index| world.delivered(index, 1);
        let gap = world.wrong(0, &[delivered(3), delivered(9)]).unwrap();
        assert_eq!(gap, "was told of the change at 9, and never of that at 5");
        let end = world.wrong(0, &[delivered(3)]).unwrap();
        assert_eq!(end, "was never told of the last 2 changes: the stream went on without them");
        let again = world.wrong(0, &[delivered(3), delivered(3)]).unwrap();
        assert_eq!(again, "was told of a change at 3 again, or out of order");
    }

    #[test]
    fn a_resume_index_and_the_state_make_up_for_a_gap() {
        let world = World::new(&[3, 5, 7, 9]);
        let resumed = |from, state| FollowStep::Resumed { from, state };
        let delivered = |index| world.delivered(index, 1);
        assert_eq!(world.wrong(0, &[delivered(3), resumed(8, 7), delivered(9)]), None);
        assert_eq!(world.wrong(0, &[resumed(10, 9)]), None);
        let old = world.wrong(0, &[delivered(3), resumed(8, 5), delivered(9)]).unwrap();
        assert_eq!(old, "was to resume from 8, and the state that it read does not have the change at 7");
        let gap = world.wrong(0, &[resumed(4, 3), delivered(7), delivered(9)]).unwrap();
        assert_eq!(gap, "was told of the change at 7, and never of that at 5");
    }

    #[test]
    fn a_follower_knows_its_events_and_those_no_longer_retained() {
        let world = World::new(&[3, 5]);
        let knows = |steps: &[FollowStep], index| {
            FollowerLog { steps: steps.to_vec(), ..FollowerLog::default() }.knows(index)
        };
        assert!(!knows(&[], 3));
        assert!(knows(&[world.delivered(5, 1)], 5) && !knows(&[world.delivered(3, 1)], 5));
        let resumed = [FollowStep::Resumed { from: 5, state: 5 }];
        assert!(knows(&resumed, 4) && !knows(&resumed, 5), "the stream is to tell of that");
    }

    #[test]
    fn lags_are_of_those_who_read_and_ways_back_of_those_who_were_stuck() {
        let world = World::new(&[3, 5]);
        let log = |was_stuck, steps: &[FollowStep]| FollowerLog {
            was_stuck,
            steps: steps.to_vec(),
            ..FollowerLog::default()
        };
        let (three, five) = (world.delivered(3, 20), world.delivered(5, 10));
        let accounts = [
            log(false, &[three, five]),
            log(true, &[world.delivered(3, 9_000), world.delivered(5, 9_000)]),
            log(true, &[FollowStep::Resumed { from: 4, state: 3 }, five]),
            log(true, &[five]),
        ];
        let followed = FollowSummary::of(&world.written, &accounts);
        assert_eq!(followed.lags_ms, [10.0, 20.0]);
        assert_eq!((followed.stuck_read_all, followed.stuck_resumed), (1, 1));
        let gap = "a follower that was stuck was told of the change at 5, and never of that at 3";
        assert_eq!(followed.wrong, [gap]);
    }
}
