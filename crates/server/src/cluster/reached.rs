//! Tells people that another server is not reached any more, and that it is again: once each time, however often others try.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::Cluster;

/// A server that was not heard for so long is not reached.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// The servers that are silent.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeMap<u64, Silent>);

#[derive(Debug)]
struct Silent {
    since: Instant,
    is_told: bool,
}

impl Reached {
    /// Looks at how all others are.
    pub fn look(&mut self, cluster: &Cluster) {
        let members = cluster.replication.members();
        self.0.retain(|id, _| members.find(*id).is_some());
        let now = Instant::now();
        for member in members.all.iter().filter(|member| member.id != cluster.replication.server_id()) {
            let is_heard = cluster.silence(member.id).is_some_and(|silence| silence < SILENT_AFTER);
            let (server, name, address) = (member.id, &member.peer.name, &member.peer.address);
            match self.note(server, is_heard, now) {
                Some(false) => {
                    let why = cluster.replication.peers().why_not(server).unwrap_or_default();
                    tracing::warn!(server, name, address, why, "another server is not reached");
                }
                Some(true) => tracing::info!(server, name, address, "another server is reached again"),
                None => {}
            }
        }
    }

    /// Notes whether a server is heard: whether it is reached, when that is to be told.
    fn note(&mut self, server: u64, is_heard: bool, now: Instant) -> Option<bool> {
        if is_heard {
            return self.0.remove(&server).filter(|silent| silent.is_told).map(|_| true);
        }
        let silent = self.0.entry(server).or_insert(Silent { since: now, is_told: false });
        // One that has just started has not heard anybody yet.
        let is_due = !silent.is_told && now.duration_since(silent.since) >= SILENT_AFTER;
        silent.is_told |= is_due;
        is_due.then_some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let (mut reached, begun) = (Reached::default(), Instant::now());
        let mut note = |is_heard, seconds| reached.note(7, is_heard, begun + Duration::from_secs(seconds));
        assert_eq!([note(true, 0), note(false, 1), note(false, 3)], [None; 3], "it may be a moment");
        assert_eq!([note(false, 4), note(false, 5), note(false, 60)], [Some(false), None, None]);
        assert_eq!([note(true, 61), note(true, 62)], [Some(true), None]);
        assert_eq!([note(false, 63), note(true, 64)], [None; 2], "nobody was told that it was silent");
    }
}
