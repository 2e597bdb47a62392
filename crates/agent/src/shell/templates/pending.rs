//! Changed texts of templates that wait: when their files are written, and when the task is notified.

use std::collections::{BTreeMap, BTreeSet};

/// Changes are collected for so long where a template says nothing of it: several variables are often written one after the other.
const COLLECTED_NS: u64 = 200_000_000;

/// Nanoseconds since the Unix epoch throughout.
#[derive(Debug, Default)]
pub(super) struct PendingChanges {
    texts: BTreeMap<usize, PendingText>,
    /// Changes that the task is to be notified of at `notify_ns`.
    unnotified: BTreeSet<usize>,
    notify_ns: Option<u64>,
}

#[derive(Debug)]
struct PendingText {
    text: String,
    first_ns: u64,
    due_ns: u64,
}

/// How long changes of a template are collected.
#[derive(Debug, Clone, Copy)]
pub(super) struct CollectTimes {
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
}

impl CollectTimes {
    /// As a template says, in milliseconds; 0 for nothing.
    pub(super) fn of(min_ms: u64, max_ms: u64) -> Self {
        let min_ns = if min_ms == 0 { COLLECTED_NS } else { min_ms.saturating_mul(1_000_000) };
        // Four times the minimum, as in Nomad.
        let max_ns = if max_ms == 0 { min_ns.saturating_mul(4) } else { max_ms.saturating_mul(1_000_000) };
        Self { min_ns, max_ns: max_ns.max(min_ns) }
    }
}

impl PendingChanges {
    /// A template comes to another text than its file holds.
    pub(super) fn change(&mut self, number: usize, text: String, collect: CollectTimes, now_ns: u64) {
        let changed = self.texts.entry(number).or_insert(PendingText {
            text: String::new(),
            first_ns: now_ns,
            due_ns: 0,
        });
        changed.text = text;
        let latest_ns = changed.first_ns.saturating_add(collect.max_ns);
        changed.due_ns = now_ns.saturating_add(collect.min_ns).min(latest_ns);
    }

    /// Its file could not be written: the same once more, then.
    pub(super) fn retry(&mut self, number: usize, text: String, at_ns: u64) {
        self.texts.entry(number).or_insert(PendingText { text, first_ns: at_ns, due_ns: at_ns });
    }

    /// It comes to what its file holds again.
    pub(super) fn forget(&mut self, number: usize) {
        self.texts.remove(&number);
    }

    /// Whether a file is still to be written.
    pub(super) fn has_texts(&self) -> bool {
        !self.texts.is_empty()
    }

    /// When there is something to do.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.texts.values().map(|changed| changed.due_ns).chain(self.notify_ns).min()
    }

    /// Takes what is to be written by now.
    pub(super) fn due(&mut self, now_ns: u64) -> BTreeMap<usize, String> {
        let due: Vec<usize> = self
            .texts
            .iter()
            .filter(|(_, changed)| changed.due_ns <= now_ns)
            .map(|(number, _)| *number)
            .collect();
        due.into_iter().filter_map(|number| Some((number, self.texts.remove(&number)?.text))).collect()
    }

    /// The task is to notice these, after a while; those that wait already go with it.
    pub(super) fn notify_at(&mut self, numbers: impl IntoIterator<Item = usize>, at_ns: u64) {
        self.unnotified.extend(numbers);
        if !self.unnotified.is_empty() {
            self.notify_ns.get_or_insert(at_ns);
        }
    }

    /// Changes that the task has not been notified of.
    pub(super) fn unnotified(&self) -> &BTreeSet<usize> {
        &self.unnotified
    }

    /// When the task notices what waits for that.
    pub(super) fn next_notify_ns(&self) -> Option<u64> {
        self.notify_ns
    }

    /// Takes those of which the task is to notice by now.
    pub(super) fn take_due(&mut self, now_ns: u64) -> BTreeSet<usize> {
        if self.notify_ns.is_none_or(|at_ns| at_ns > now_ns) {
            return BTreeSet::new();
        }
        self.notify_ns = None;
        std::mem::take(&mut self.unnotified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn changes_are_collected_until_it_is_quiet_and_no_longer_than_that() {
        let mut pending = PendingChanges::default();
        let collect = CollectTimes::of(2_000, 5_000);
        for second in 0..=4 {
            pending.change(0, format!("text {second}"), collect, second * SECOND);
            assert_eq!(pending.next_ns(), Some((second * SECOND + 2 * SECOND).min(5 * SECOND)));
        }
        assert!(pending.due(5 * SECOND - 1).is_empty());
        assert_eq!(pending.due(5 * SECOND), [(0, "text 4".to_owned())].into());
        assert_eq!(pending.next_ns(), None);
        pending.change(0, "x".into(), CollectTimes::of(0, 0), 9 * SECOND);
        assert_eq!(pending.next_ns(), Some(9 * SECOND + COLLECTED_NS));
        pending.forget(0);
        assert_eq!(pending.next_ns(), None);
        assert_eq!(CollectTimes::of(3, 0).max_ns, 12_000_000);
    }

    #[test]
    fn what_could_not_be_written_is_tried_again() {
        let mut pending = PendingChanges::default();
        pending.retry(0, "old".into(), 7);
        assert!(pending.due(6).is_empty());
        assert_eq!(pending.due(7), [(0, "old".to_owned())].into());
        pending.retry(0, "old".into(), 9);
        pending.change(0, "new".into(), CollectTimes::of(0, 0), 8);
        assert_eq!(pending.due(8 + COLLECTED_NS), [(0, "new".to_owned())].into());
        assert_eq!(pending.next_ns(), None);
    }

    #[test]
    fn several_that_changed_are_noticed_together() {
        let mut pending = PendingChanges::default();
        pending.notify_at([], 3);
        assert_eq!(pending.next_ns(), None);
        pending.notify_at([1], 10);
        pending.notify_at([0, 1], 20);
        assert_eq!(pending.next_ns(), Some(10));
        assert!(pending.take_due(9).is_empty());
        assert_eq!(pending.take_due(10), [0, 1].into());
        assert!(pending.take_due(30).is_empty() && pending.unnotified().is_empty());
    }
}
