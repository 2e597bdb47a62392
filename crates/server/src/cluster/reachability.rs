//! Logs that another server is unreachable, and that it is reachable again: once each time, and once more when an unreachable one
//! responds with a refusal or is refused.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::Cluster;

/// A server without contact for so long is unreachable.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// Time between two lines of a server whose reason to refuse changes.
const REPEAT_AFTER: Duration = Duration::from_secs(5);

/// The servers that are silent.
#[derive(Debug, Default)]
pub(super) struct Reachability(BTreeMap<u64, SilentServer>);

#[derive(Debug)]
struct SilentServer {
    since: Instant,
    reported: Option<SilenceReport>,
}

/// What was logged of an unreachable server.
#[derive(Debug)]
struct SilenceReport {
    at: Instant,
    /// Why one of the two does not accept the other; none where nobody answered.
    refusal: Option<String>,
}

/// What is to be logged of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReachabilityChange {
    NotReached,
    ReachedAgain,
}

impl Reachability {
    /// Checks all other servers.
    pub fn check(&mut self, cluster: &Cluster) {
        let members = cluster.replication.members();
        self.0.retain(|id, _| members.find(*id).is_some());
        let now = Instant::now();
        for member in members.all.iter().filter(|member| member.id != cluster.replication.server_id()) {
            let is_reachable = cluster.silence(member.id).is_some_and(|silence| silence < SILENT_AFTER);
            let (server, name, address) = (member.id, &member.peer.name, &member.peer.address);
            let refusal = if is_reachable { None } else { cluster.replication.peers().refusal(server) };
            match self.note(server, is_reachable, refusal, now) {
                Some(ReachabilityChange::NotReached) => {
                    let why = cluster.replication.peers().why_not(server).unwrap_or_default();
                    tracing::warn!(server, name, address, why, "another server is not reached");
                }
                Some(ReachabilityChange::ReachedAgain) => {
                    tracing::info!(server, name, address, "another server is reached again");
                }
                None => {}
            }
        }
    }

    /// Notes whether a server is reachable, and if not, why one of the two does not accept the other. Returns what is to be logged.
    fn note(
        &mut self,
        server: u64,
        is_reachable: bool,
        refusal: Option<String>,
        now: Instant,
    ) -> Option<ReachabilityChange> {
        if is_reachable {
            return self
                .0
                .remove(&server)
                .and_then(|silent| silent.reported)
                .map(|_| ReachabilityChange::ReachedAgain);
        }
        let silent = self.0.entry(server).or_insert(SilentServer { since: now, reported: None });
        let is_due = match &silent.reported {
            // A server that has just started has had no contact yet.
            None => now.duration_since(silent.since) >= SILENT_AFTER,
            Some(reported) => {
                let is_new = refusal.is_some() && refusal != reported.refusal;
                is_new && now.duration_since(reported.at) >= REPEAT_AFTER
            }
        };
        if is_due {
            silent.reported = Some(SilenceReport { at: now, refusal });
        }
        is_due.then_some(ReachabilityChange::NotReached)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_logged_once() {
        let (mut reached, started_at) = (Reachability::default(), Instant::now());
        let mut note = |is_reachable, seconds| {
            reached.note(7, is_reachable, None, started_at + Duration::from_secs(seconds))
        };
        assert_eq!([note(true, 0), note(false, 1), note(false, 3)], [None; 3], "it may be a moment");
        assert_eq!(
            [note(false, 4), note(false, 5), note(false, 60)],
            [Some(ReachabilityChange::NotReached), None, None]
        );
        assert_eq!([note(true, 61), note(true, 62)], [Some(ReachabilityChange::ReachedAgain), None]);
        assert_eq!([note(false, 63), note(true, 64)], [None; 2], "nobody was told that it was silent");
    }

    #[test]
    fn an_unreachable_server_that_begins_to_refuse_is_logged_again() {
        let (mut reached, started_at) = (Reachability::default(), Instant::now());
        let mut note = |refusal: Option<&str>, seconds| {
            reached.note(7, false, refusal.map(str::to_owned), started_at + Duration::from_secs(seconds))
        };
        let not_reached = Some(ReachabilityChange::NotReached);
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
