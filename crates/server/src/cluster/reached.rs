//! Tells people that another server is not reached any more, and that it is again: once each time, however often others try, and
//! once more when one that was gone answers and refuses, or is refused.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::Cluster;

/// A server that was not heard for so long is not reached.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// Time between two lines of a server whose reason to refuse changes.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// The servers that are silent.
#[derive(Debug, Default)]
pub(super) struct Reached(BTreeMap<u64, Silent>);

#[derive(Debug)]
struct Silent {
    since: Instant,
    told: Option<Silence>,
}

/// What people were told of a server that is silent.
#[derive(Debug)]
struct Silence {
    at: Instant,
    /// Why one of the two does not accept the other; none where nobody answered.
    refusal: Option<String>,
}

/// What is to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tell {
    NotReached,
    ReachedAgain,
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
            let refusal = if is_heard { None } else { cluster.replication.peers().refusal(server) };
            match self.note(server, is_heard, refusal, now) {
                Some(Tell::NotReached) => {
                    let why = cluster.replication.peers().why_not(server).unwrap_or_default();
                    tracing::warn!(server, name, address, why, "another server is not reached");
                }
                Some(Tell::ReachedAgain) => {
                    tracing::info!(server, name, address, "another server is reached again");
                }
                None => {}
            }
        }
    }

    /// Notes whether a server is heard, and if not, why one of the two does not accept the other: what is to be told.
    fn note(&mut self, server: u64, is_heard: bool, refusal: Option<String>, now: Instant) -> Option<Tell> {
        if is_heard {
            return self.0.remove(&server).and_then(|silent| silent.told).map(|_| Tell::ReachedAgain);
        }
        let silent = self.0.entry(server).or_insert(Silent { since: now, told: None });
        let is_due = match &silent.told {
            // One that has just started has not heard anybody yet.
            None => now.duration_since(silent.since) >= SILENT_AFTER,
            Some(told) => {
                let is_new = refusal.is_some() && refusal != told.refusal;
                is_new && now.duration_since(told.at) >= TOLD_AGAIN_AFTER
            }
        };
        if is_due {
            silent.told = Some(Silence { at: now, refusal });
        }
        is_due.then_some(Tell::NotReached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_told_once() {
        let (mut reached, begun) = (Reached::default(), Instant::now());
        let mut note =
            |is_heard, seconds| reached.note(7, is_heard, None, begun + Duration::from_secs(seconds));
        assert_eq!([note(true, 0), note(false, 1), note(false, 3)], [None; 3], "it may be a moment");
        assert_eq!([note(false, 4), note(false, 5), note(false, 60)], [Some(Tell::NotReached), None, None]);
        assert_eq!([note(true, 61), note(true, 62)], [Some(Tell::ReachedAgain), None]);
        assert_eq!([note(false, 63), note(true, 64)], [None; 2], "nobody was told that it was silent");
    }

    #[test]
    fn one_that_was_gone_and_refuses_is_told_of_again() {
        let (mut reached, begun) = (Reached::default(), Instant::now());
        let mut note = |refusal: Option<&str>, seconds| {
            reached.note(7, false, refusal.map(str::to_owned), begun + Duration::from_secs(seconds))
        };
        let not_reached = Some(Tell::NotReached);
        assert_eq!([note(None, 0), note(None, 3)], [None, not_reached], "nobody answers there");
        assert_eq!([note(Some("revoked"), 60), note(Some("revoked"), 600)], [not_reached, None]);
        assert_eq!([note(None, 700), note(Some("revoked"), 701)], [None; 2], "that is known");
        assert_eq!(
            [note(Some("expired"), 702), note(Some("revoked"), 703)],
            [not_reached, None],
            "not too often"
        );
        assert_eq!(note(Some("revoked"), 720), not_reached);
    }
}
