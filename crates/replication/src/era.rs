//! Eras of a cluster. A recovery makes a cluster of one of what one server has, and whoever is left out must neither
//! disturb it nor go on beside it. The upper half of a term says the era: what compares terms, as agents do, takes every
//! word of the new era for newer than any of the old one, and servers talk to none of another era.

use berth_model::{
    Index,
    command::{Command, ENTRY_VERSION_MIN, Entry},
    store::Store,
};

use crate::types::{LogId, term_of};

/// Bits of a term that count elections within an era: one a second would last for more than a century.
const TERM_BITS: u32 = 32;
/// Indexes left out by a recovery: those that lost leaders were granted, so that none is used twice.
const INDEXES_SKIPPED: u64 = 1 << 40;

/// The era of a term.
pub(crate) fn of(term: u64) -> u64 {
    term >> TERM_BITS
}

/// The first term of the era that begins when `server`, whose log ends with `last`, is made the only one. Two servers of
/// one cluster that are both recovered come to different eras, but for one pair in 65,536.
pub(crate) fn next_term(term: u64, server: u64, last: &LogId) -> u64 {
    let who = [server, term_of(last), last.index()].map(u64::to_le_bytes).concat();
    let step = u64::from(crc32c::crc32c(&who) & 0xffff) + 1;
    (of(term) + step) << TERM_BITS
}

/// The first entry of an era: indexes go on after all that may ever have been used. It is of the version of what is there: the
/// server that goes on may be held to that, to keep the way back to an older program open.
pub(crate) fn first_entry(store: &Store) -> Entry {
    let used = store.granted().max(store.index()).0;
    let index = Index(used.saturating_add(INDEXES_SKIPPED));
    let entry = Entry::new(index, store.at(), vec![Command::GrantIndexes(index)]);
    entry.of_version(store.version().max(ENTRY_VERSION_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::log_id;

    #[test]
    fn every_term_of_an_era_is_newer_than_all_before_it() {
        let last = log_id(7, 100);
        let first = next_term(9, 1, &last);
        assert!(first > u64::from(u32::MAX) && of(first) > of(9) && of(first + 1000) == of(first));
        let again = next_term(first + 3, 1, &log_id(first + 3, 120));
        assert!(of(again) > of(first));
        assert_eq!(again as u32, 0);
    }

    #[test]
    fn an_era_begins_with_an_entry_that_whoever_knows_the_state_knows_too() {
        let mut store = Store::default();
        assert_eq!(first_entry(&store).version, ENTRY_VERSION_MIN);
        for (index, version) in [(1, ENTRY_VERSION_MIN), (2, ENTRY_VERSION_MIN + 1), (3, ENTRY_VERSION_MIN)] {
            let command = vec![Command::GrantIndexes(Index(index))];
            store.apply(Entry::new(Index(index), store.at(), command).of_version(version));
        }
        assert_eq!(first_entry(&store).version, ENTRY_VERSION_MIN + 1);
    }

    #[test]
    fn two_servers_that_are_both_recovered_are_of_different_eras() {
        let eras = (1..=5).map(|server| of(next_term(9, server, &log_id(7, 100))));
        assert_eq!(eras.collect::<std::collections::BTreeSet<_>>().len(), 5);
    }
}
