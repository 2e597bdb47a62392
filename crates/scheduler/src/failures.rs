//! Why allocations could not be placed, short enough for the log: an evaluation's record always fits its entry.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    eval::{Funnel, GroupFailure},
    store::Store,
};

/// Bytes of one reason; longer ones are cut.
pub const REASON_BYTES_MAX: usize = 256;
/// Different reasons of one kind that a group is shown; the nodes of others are counted together.
pub const REASONS_MAX: usize = 32;
/// Bytes of the reasons of all groups of a plan; groups after that are shown only how many nodes fell out.
pub const REASONS_BYTES_MAX: usize = 256 << 10;
/// Bytes that they take in memory, where evaluations keep them for an hour and more.
pub const REASONS_MEMORY_BYTES_MAX: usize = 256 << 10;

/// The key of what is counted together.
const OTHERS: &str = "other reasons";

/// A text as a reason: cut where it is too long.
pub fn cut(text: &str) -> String {
    const MARK: &str = "...";
    if text.len() <= REASON_BYTES_MAX {
        return text.to_owned();
    }
    let end = (0..=REASON_BYTES_MAX - MARK.len()).rev().find(|at| text.is_char_boundary(*at));
    format!("{}{MARK}", &text[..end.unwrap_or_default()])
}

/// No node is short of anything, yet none can be used.
pub(crate) fn reason(store: &Store, why: String) -> Funnel {
    let ready = store.nodes().iter().filter(|(_, row)| row.is_ready()).count();
    let considered = u32::try_from(ready).unwrap_or(u32::MAX);
    Funnel { considered, exhausted: BTreeMap::from([(why, considered)]), ..Funnel::default() }
}

/// The failures of a plan with reasons of bounded size. The log holds those of each group, memory those of groups that
/// were refused alike once.
pub(crate) fn bounded(failures: Vec<GroupFailure>) -> Vec<GroupFailure> {
    let (mut left, mut left_in_memory) = (REASONS_BYTES_MAX, REASONS_MEMORY_BYTES_MAX);
    let mut shared: BTreeMap<Arc<Funnel>, Arc<Funnel>> = BTreeMap::new();
    let failures = failures.into_iter().map(|failure| {
        let (funnel, memory) = match shared.get(&failure.funnel) {
            Some(known) => (known.clone(), 0),
            None => {
                let funnel = Arc::new(with_few_reasons(&failure.funnel));
                let memory = funnel.memory_bytes();
                (funnel, memory)
            }
        };
        let bytes = text_bytes(&funnel);
        if bytes > left || memory > left_in_memory {
            return GroupFailure { funnel: with_sums(&funnel).into(), ..failure };
        }
        left -= bytes;
        left_in_memory -= memory;
        shared.insert(failure.funnel, funnel.clone());
        GroupFailure { funnel, ..failure }
    });
    failures.collect()
}

fn text_bytes(funnel: &Funnel) -> usize {
    let Funnel { available, filtered, exhausted, quota, .. } = funnel;
    let reasons = [available, filtered, exhausted].into_iter().flat_map(BTreeMap::keys);
    let quotas = quota.iter().map(|(name, excess)| name.len() + excess.len() + 8);
    reasons.map(|reason| reason.len() + 8).chain(quotas).sum()
}

fn with_few_reasons(funnel: &Funnel) -> Funnel {
    let Funnel { considered, available, filtered, exhausted, quota } = funnel;
    let [available, filtered, exhausted] = [available, filtered, exhausted].map(few);
    let quota = quota.iter().take(REASONS_MAX).map(|(name, excess)| (cut(name), cut(excess))).collect();
    Funnel { considered: *considered, available, filtered, exhausted, quota }
}

/// Only how many nodes fell out. What waits for a quota still says so, that it is tried again when the quota eases.
fn with_sums(funnel: &Funnel) -> Funnel {
    let Funnel { considered, available, filtered, exhausted, quota } = funnel;
    let [available, filtered, exhausted] = [available, filtered, exhausted].map(together);
    Funnel { considered: *considered, available, filtered, exhausted, quota: quota.clone() }
}

/// The first few reasons, the others together.
fn few(counts: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let mut few = BTreeMap::new();
    for (reason, count) in counts {
        let known = few.len() < REASONS_MAX;
        let key = if known { cut(reason) } else { OTHERS.to_owned() };
        let sum: &mut u32 = few.entry(key).or_default();
        *sum = sum.saturating_add(*count);
    }
    few
}

fn together(counts: &BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let sum = counts.values().copied().fold(0, u32::saturating_add);
    if sum == 0 { BTreeMap::new() } else { BTreeMap::from([(OTHERS.to_owned(), sum)]) }
}

#[cfg(test)]
mod tests {
    use berth_model::eval::Failures;

    use super::*;

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        assert_eq!(cut("short"), "short");
        let long = cut(&"\u{e9}".repeat(1000));
        assert!(long.len() <= REASON_BYTES_MAX && long.ends_with("\u{e9}..."), "{long}");
    }

    #[test]
    fn many_reasons_are_counted_together() {
        let filtered = (0..1000).map(|n| (format!("{n:03}{}", "x".repeat(1000)), 2)).collect();
        let failure = |group: usize| GroupFailure {
            group: format!("g{group}").into(),
            count: 1,
            funnel: Funnel { considered: 2000, filtered: BTreeMap::clone(&filtered), ..Funnel::default() }
                .into(),
        };
        let failures = bounded((0..500).map(failure).collect());
        assert!(failures.iter().all(|failure| failure.funnel.filtered_count() == 2000));
        assert_eq!(failures[0].funnel.filtered.len(), REASONS_MAX + 1);
        assert_eq!(failures[499].funnel.filtered, BTreeMap::from([(OTHERS.to_owned(), 2000)]));
        let bytes = failures.iter().flat_map(|failure| failure.funnel.filtered.keys()).map(String::len);
        assert!(bytes.sum::<usize>() <= REASONS_BYTES_MAX + 500 * OTHERS.len());
    }

    #[test]
    fn the_reasons_of_groups_are_bounded_in_memory_also_where_they_are_short() {
        let failure = |group: u32| GroupFailure {
            group: format!("g{group}").into(),
            count: 1,
            funnel: Funnel {
                considered: 9,
                exhausted: [(format!("{group}"), 9)].into(),
                ..Funnel::default()
            }
            .into(),
        };
        let failures = bounded((0..2000).map(failure).collect());
        assert_eq!(failures[0].funnel.exhausted, BTreeMap::from([("0".to_owned(), 9)]));
        assert_eq!(failures[1999].funnel.exhausted, BTreeMap::from([(OTHERS.to_owned(), 9)]));
        let memory_bytes = Failures::from(failures).memory_bytes();
        assert!(memory_bytes < 2 * REASONS_MEMORY_BYTES_MAX, "{memory_bytes} bytes");
    }
}
