//! Servers that were members and are none any more, as far as this server has applied the log.

use std::{
    collections::{BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::types::Membership;

/// Servers that are remembered; the longest gone is discarded first.
const DEPARTED_MAX: usize = 1024;

/// The servers that a committed membership has left out. Snapshots hold them, so that they are known after a restart, and to who was
/// sent one. A clone is the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Departed(Arc<Mutex<DepartedServers>>);

#[derive(Debug, Default)]
struct DepartedServers {
    /// Of the membership that was applied last.
    members: BTreeSet<u64>,
    /// By the time of their removal.
    departed: VecDeque<u64>,
}

impl Departed {
    /// A membership is applied. One who is taken in again has not departed.
    pub fn on_applied(&self, membership: &Membership) {
        let members: BTreeSet<u64> = membership.nodes().map(|(id, _)| *id).collect();
        let mut state = self.state();
        let left: Vec<u64> = state.members.difference(&members).copied().collect();
        state.departed.retain(|id| !members.contains(id));
        state.departed.extend(left);
        while state.departed.len() > DEPARTED_MAX {
            state.departed.pop_front();
        }
        state.members = members;
    }

    /// A snapshot is taken over that knows these, the longest gone first, once its membership is applied. It is newer than what is
    /// known here: whom it does not name has been gone for longer.
    pub fn on_restored(&self, departed: &[u64]) {
        let mut state = self.state();
        let DepartedServers { members, departed: known } = &mut *state;
        let named: BTreeSet<u64> = departed.iter().copied().filter(|id| !members.contains(id)).collect();
        known.retain(|id| !named.contains(id));
        known.extend(departed.iter().filter(|id| named.contains(id)));
        let too_many = known.len().saturating_sub(DEPARTED_MAX);
        known.drain(..too_many);
    }

    /// All of them, the longest gone first.
    pub fn all(&self) -> Vec<u64> {
        self.state().departed.iter().copied().collect()
    }

    /// Whether this server was a member, and was removed.
    pub fn contains(&self, server: u64) -> bool {
        self.state().departed.contains(&server)
    }

    fn state(&self) -> MutexGuard<'_, DepartedServers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Peer;

    fn of(ids: impl IntoIterator<Item = u64>) -> Membership {
        let peers: BTreeMap<u64, Peer> = ids.into_iter().map(|id| (id, Peer::default())).collect();
        Membership::new(vec![peers.keys().copied().collect()], peers).unwrap()
    }

    #[test]
    fn whoever_was_left_out_has_departed_until_it_is_taken_in_again() {
        let departed = Departed::default();
        departed.on_applied(&of([1, 2, 3]));
        assert!(![1, 2, 3, 4].into_iter().any(|id| departed.contains(id)), "nobody has left yet");
        departed.on_applied(&of([1, 2]));
        assert!(departed.contains(3) && !departed.contains(2) && !departed.contains(4));
        departed.on_applied(&of([1, 3]));
        assert!(departed.contains(2) && !departed.contains(3));
    }

    #[test]
    fn what_a_snapshot_knows_is_known_on_unless_it_is_a_member_again() {
        let departed = Departed::default();
        departed.on_applied(&of([1, 2, 5]));
        departed.on_applied(&of([1, 2]));
        departed.on_restored(&[3, 2, 4, 5]);
        assert_eq!(departed.all(), [3, 4, 5]);
        departed.on_restored(&[4, 5, 6]);
        assert_eq!(departed.all(), [3, 4, 5, 6], "a later snapshot names the later ones");
        let many: Vec<u64> = (10..5_000).collect();
        departed.on_restored(&many);
        assert_eq!(departed.all().len(), DEPARTED_MAX);
        assert!(departed.contains(4_999) && !departed.contains(3) && !departed.contains(10));
    }

    #[test]
    fn a_bounded_number_is_remembered_the_latest_of_all() {
        let departed = Departed::default();
        let last = DEPARTED_MAX as u64 + 9;
        for id in 2..=last + 1 {
            departed.on_applied(&of([1, id]));
        }
        assert!(departed.contains(last) && !departed.contains(2));
        assert_eq!(departed.state().departed.len(), DEPARTED_MAX);
    }
}
