//! What waits until it may be garbage-collected, by the time of its end.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use berth_model::Timestamp;

const SECOND_NS: u64 = 1_000_000_000;
/// So many may wait, whether they are still there or not.
const UNSWEPT_MAX: usize = 1024;

/// Things by the second of their end, rounded up: those of a second share a list, as a list for each would take ten times what
/// they are. What a state is full of is found in any order.
#[derive(Debug, Clone)]
pub(super) struct ExpiryQueue<T> {
    by_second: BTreeMap<Timestamp, VecDeque<T>>,
    len: usize,
    /// From which second on a sweep goes on; none while there is none.
    sweep_from: Option<Timestamp>,
    /// With more than this, the next sweep begins: twice what the last one left, so that a sweep costs no more than what came since.
    sweep_above: usize,
}

impl<T> Default for ExpiryQueue<T> {
    fn default() -> Self {
        Self { by_second: BTreeMap::new(), len: 0, sweep_from: None, sweep_above: UNSWEPT_MAX }
    }
}

impl<T> ExpiryQueue<T> {
    pub fn push(&mut self, at: Timestamp, thing: T) {
        let second = Timestamp(at.0.div_ceil(SECOND_NS).saturating_mul(SECOND_NS));
        self.by_second.entry(second).or_default().push_back(thing);
        self.len += 1;
    }

    pub fn extend(&mut self, at: Timestamp, things: impl IntoIterator<Item = T>) {
        things.into_iter().for_each(|thing| self.push(at, thing));
    }

    /// When the first has waited its time.
    pub fn first_over(&self, retention: Duration) -> Option<Timestamp> {
        self.by_second.keys().next().map(|at| at.after(retention))
    }

    /// Takes out what has waited its time, at most `max`.
    pub fn over(&mut self, retention: Duration, now: Timestamp, max: usize) -> Vec<T> {
        let mut over = Vec::new();
        while over.len() < max
            && let Some(mut first) =
                self.by_second.first_entry().filter(|first| now.since(*first.key()) >= retention)
        {
            let of_then = first.get_mut();
            over.extend(of_then.drain(..of_then.len().min(max - over.len())));
            if of_then.is_empty() {
                first.remove();
            }
        }
        self.len -= over.len();
        over
    }

    /// One step of a sweep of what is no longer there, to be called whenever something was garbage-collected, even before its time. A
    /// step looks at the things of one second.
    pub fn drop_gone(&mut self, is_there: impl Fn(&T) -> bool) {
        if self.sweep_from.is_none() && self.len <= self.sweep_above {
            return;
        }
        let from = self.sweep_from.unwrap_or_default();
        let Some((second, things)) = self.by_second.range_mut(from..).next() else {
            self.sweep_from = None;
            self.sweep_above = UNSWEPT_MAX.max(2 * self.len);
            return;
        };
        let (second, before) = (*second, things.len());
        things.retain(is_there);
        self.len -= before - things.len();
        if things.is_empty() {
            self.by_second.remove(&second);
        } else if things.len() < before {
            things.shrink_to_fit();
        }
        self.sweep_from = Some(Timestamp(second.0.saturating_add(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp(second * SECOND_NS)
    }

    #[test]
    fn what_is_collected_before_its_time_waits_no_longer() {
        let mut waiting = ExpiryQueue::default();
        let (things, gone_below) = (100_000, 99_990);
        for thing in 0..things {
            waiting.push(at(thing / 100), thing);
            waiting.drop_gone(|thing| *thing >= gone_below);
            assert!(waiting.len <= UNSWEPT_MAX + 200, "{} wait", waiting.len);
        }
        let left = waiting.over(Duration::ZERO, at(things), usize::MAX);
        assert!(left.ends_with(&[99_997, 99_998, 99_999]), "{left:?}");
        assert_eq!((left.iter().filter(|thing| **thing >= gone_below).count(), waiting.len), (10, 0));
    }

    #[test]
    fn a_sweep_of_what_is_there_is_rare() {
        let (mut waiting, looks) = (ExpiryQueue::default(), std::cell::Cell::new(0));
        for thing in 0..100_000 {
            waiting.push(at(thing / 100), thing);
            waiting.drop_gone(|_| {
                looks.set(looks.get() + 1);
                true
            });
        }
        assert!(looks.get() < 400_000, "{} looks", looks.get());
        assert_eq!(waiting.len, 100_000);
    }
}
