//! How planners refresh their view of the nodes: three modes, as in a study of OpenStack Nova of 2016, with the same planner.

use std::{
    str::FromStr,
    time::{Duration, Instant},
};

use berth_model::Index;

/// How planners keep up with what nodes hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HostState {
    /// Before each evaluation a planner follows what has changed.
    #[default]
    Incremental,
    /// A planner looks again after a while. Until then it knows of its own placements alone, so that others' show only
    /// when the applier refuses its plans.
    Cached,
    /// A planner discards what it knows before each evaluation, and reads all nodes again.
    Reread,
}

impl HostState {
    /// All, by their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("incremental", Self::Incremental), ("cached", Self::Cached), ("reread", Self::Reread)];

    /// Whether each planner knows what the others have claimed. Where it does not, it is a scheduler of its own: its plans may
    /// rest on what is no longer so, and evaluations are dealt out in turn instead of going to whoever is free.
    pub(super) fn is_shared(self) -> bool {
        self != Self::Cached
    }
}

impl FromStr for HostState {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::NAMES.iter().find(|(name, _)| *name == text).map(|(_, kind)| *kind).ok_or(())
    }
}

/// What a planner is to do before the next evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renew {
    /// Plan on what it knows.
    Nothing,
    /// Catch up with what has changed.
    Changes,
    /// Read everything again.
    Everything,
}

/// Decides for one planner.
#[derive(Debug)]
pub(super) struct Renewal {
    host_state: HostState,
    /// How long a cached state is good for.
    refresh: Duration,
    renewed_at: Option<Instant>,
    /// The index at which a node was last added, removed or changed, as far as the planner knows.
    nodes_index: Index,
}

impl Renewal {
    /// A planner that knows nothing yet.
    pub fn new(host_state: HostState, refresh: Duration) -> Self {
        Self { host_state, refresh, renewed_at: None, nodes_index: Index::default() }
    }

    /// What is to be done before planning on a state in which a node was last added, removed or changed at `nodes_index`.
    pub fn decide(&mut self, nodes_index: Index, now: Instant) -> Renew {
        match self.host_state {
            HostState::Incremental => Renew::Changes,
            HostState::Reread => Renew::Everything,
            HostState::Cached => {
                // Only what nodes hold may be out of date, never which nodes there are.
                let is_good = self.renewed_at.is_some_and(|at| now.duration_since(at) < self.refresh);
                if is_good && nodes_index == self.nodes_index {
                    return Renew::Nothing;
                }
                (self.renewed_at, self.nodes_index) = (Some(now), nodes_index);
                Renew::Changes
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFRESH: Duration = Duration::from_secs(60);

    #[test]
    fn what_is_cached_is_good_for_a_while_unless_nodes_come_or_change() {
        let started_at = Instant::now();
        let mut renewal = Renewal::new(HostState::Cached, REFRESH);
        let mut decide = |node_changed_at, seconds| {
            renewal.decide(Index(node_changed_at), started_at + Duration::from_secs(seconds))
        };
        assert_eq!(decide(5, 0), Renew::Changes, "it knows nothing yet");
        assert_eq!(decide(5, 59), Renew::Nothing);
        assert_eq!(decide(5, 60), Renew::Changes, "it has expired");
        assert_eq!(decide(5, 119), Renew::Nothing);
        assert_eq!(decide(7, 119), Renew::Changes, "a node has come");
        assert_eq!(decide(7, 178), Renew::Nothing);
    }

    #[test]
    fn the_others_renew_each_time() {
        let decide = |kind| {
            let mut renewal = Renewal::new(kind, REFRESH);
            [(); 2].map(|()| renewal.decide(Index(1), Instant::now()))
        };
        assert_eq!(decide(HostState::Incremental), [Renew::Changes; 2]);
        assert_eq!(decide(HostState::Reread), [Renew::Everything; 2]);
    }
}
