//! The status of the servers, as far as this one knows it.

use std::{
    sync::{PoisonError, atomic::Ordering},
    time::Duration,
};

use berth_model::Index;
use berth_replication::NotWritten;
use tokio::time::Instant;

use super::{
    Cluster,
    majority::{MajorityContact, OwnProgress},
};
use crate::shared::{Contact, ServerStatus, Servers};

/// The message of a removed server.
const REMOVED: &str = "this server was removed from its cluster: stop it; to have it take part again, run `berth server rejoin` on its \
                       data directory, and start it";
/// A server without contact for so long has failed.
const ALIVE_MAX: Duration = Duration::from_secs(3);
/// A leader without contact to a majority for so long leads no more.
pub(super) const MAJORITY_MAX: Duration = Duration::from_secs(2);

impl Cluster {
    /// Whether there is a leader, as far as this server knows.
    pub(super) fn has_leader(&self) -> bool {
        if self.replication.is_leader() {
            return !self.is_cut_off();
        }
        let leader = self.replication.leader().filter(|_| !self.is_removed() && !self.is_leader_cut_off());
        leader
            .is_some_and(|leader| self.replication.peers().silence(leader).is_some_and(|ago| ago < ALIVE_MAX))
    }

    /// The contact of the known leader with a majority, as it reported it; none when no leader is known.
    fn leaders_majority(&self) -> Option<MajorityContact> {
        let leader = self.replication.leader()?;
        Some(self.leaders_majority.of(
            leader,
            self.replication.term(),
            self.started_at.elapsed(),
            self.progress(),
        ))
    }

    /// How much of the log this server has applied, and how much of that its readers see. The order of the reads matters: see
    /// [`OwnProgress`].
    pub(super) fn progress(&self) -> OwnProgress {
        let log_index = self.replication.last_applied_log().unwrap_or_default();
        let applied = Index(self.applied.load(Ordering::Acquire));
        OwnProgress { log_index, applied, published: self.published.borrow().0 }
    }

    /// Whether the server that leads, as far as this one can tell, says that it has not heard a majority for too long.
    pub(super) fn is_leader_cut_off(&self) -> bool {
        !self.replication.is_leader() && self.leaders_majority().is_some_and(|contact| contact.is_cut_off)
    }

    /// How long ago this server, while it leads, heard a majority, in milliseconds, for others; the greatest number when it
    /// never did, and none when it does not lead.
    pub(super) fn majority_ms(&self) -> Option<u64> {
        let ago = self.replication.majority_contact();
        let ms = ago.and_then(|ago| u64::try_from(ago.as_millis()).ok()).unwrap_or(u64::MAX);
        self.replication.is_leader().then_some(ms)
    }

    /// Whether this server was removed from its cluster, as the leader reports.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Another server reports whether this one is a member of the cluster. A change is logged at once.
    pub(super) fn set_removed(&self, removed: bool) {
        let mut removal = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        let was_removed = removal.is_some();
        *removal = removed.then(|| {
            removal.unwrap_or_else(|| Removal { at: Instant::now(), age: self.age_as_a_follower() })
        });
        drop(removal);
        match (was_removed, removed) {
            (false, true) => tracing::error!("{REMOVED}"),
            (true, false) => tracing::warn!("this server is a member of its cluster again"),
            _ => {}
        }
    }

    /// Whether this server leads without contact to a majority for too long: another may lead, or nobody.
    pub(super) fn is_cut_off(&self) -> bool {
        self.replication.is_leader() && !self.contact_of_leader().known_leader
    }

    fn contact_of_leader(&self) -> Contact {
        contact_of_leader(self.replication.majority_contact())
    }

    /// Whether a change would be written now, here or by the leader.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn writable(&self) -> Result<(), String> {
        match self.replication.writable() {
            Ok(()) | Err(NotWritten::NotLeader { .. }) if self.has_leader() => Ok(()),
            Err(error @ NotWritten::DiskFull(_)) => Err(error.to_string()),
            _ => Err(self.no_leader()),
        }
    }

    /// How fresh this server's state is.
    pub fn contact(&self) -> Contact {
        if self.replication.is_leader() {
            return self.contact_of_leader();
        }
        if let Some(removed) = *self.removed.lock().unwrap_or_else(PoisonError::into_inner) {
            return Contact { known_leader: false, last_contact: removed.age_by(Instant::now()) };
        }
        Contact { known_leader: self.has_leader(), last_contact: self.age_as_a_follower() }
    }

    fn age_as_a_follower(&self) -> Duration {
        let silence = self.replication.leader().and_then(|leader| self.replication.peers().silence(leader));
        // A leader without contact to a majority may know nothing of what is acknowledged elsewhere.
        let majority = self.leaders_majority().map_or(Duration::ZERO, |contact| contact.age);
        silence.unwrap_or(Duration::MAX).max(majority)
    }

    /// The servers.
    pub fn servers(&self) -> Servers {
        let members = self.replication.members();
        let own = self.replication.server_id();
        let progress = self.replication.progress();
        let status = |member: berth_replication::Member| {
            let is_own = member.id == own;
            let pulse = if is_own { Some(self.pulse()) } else { self.pulses.of(member.id) };
            let pulse = pulse.unwrap_or_default();
            let matched = progress.get(&member.id).map_or(0, |progress| progress.log_index);
            let last_contact = if is_own { Some(Duration::ZERO) } else { self.silence(member.id) };
            let name = &member.peer.name;
            let certificate =
                if is_own { self.certificates.own(name) } else { self.certificates.of(member.id, name) };
            ServerStatus {
                id: member.id,
                certificate,
                name: member.peer.name,
                server_addr: member.peer.address,
                http_addr: member.peer.http,
                agent_addr: member.peer.agent,
                voter: member.voter,
                alive: last_contact.is_some_and(|ago| ago < ALIVE_MAX),
                last_contact,
                log_index: matched.max(pulse.log_index),
                term: pulse.term,
                version: pulse.version,
                slow_sync: pulse.slow_sync_ms.map(Duration::from_millis),
                mean_sync: pulse.mean_sync_us.map(Duration::from_micros),
                disk_full: pulse.disk_full == Some(true),
                removed: is_own && self.is_removed(),
                lacks_key: pulse.keks.is_some_and(|keks| self.keyring.is_missed_by(&keks)),
            }
        };
        let leader = self.replication.leader().filter(|_| self.has_leader());
        Servers {
            own,
            leader,
            config_index: members.log_index,
            all: members.all.into_iter().map(status).collect(),
        }
    }

    /// Whether this server's disk takes what would be written, whichever server leads.
    ///
    /// # Errors
    /// Why not: for users.
    pub fn disk(&self) -> Result<(), String> {
        self.replication.check_disk_space().map_err(|full| full.to_string())?;
        self.replication.slow_sync().map_or(Ok(()), |sync| Err(format!("a sync of the log takes {sync:.1?}")))
    }

    /// Says that there is no leader, and what to do.
    pub(super) fn no_leader(&self) -> String {
        if self.is_removed() {
            return REMOVED.to_owned();
        }
        let servers = self.servers();
        let voters: Vec<_> = servers.all.iter().filter(|server| server.voter).collect();
        if voters.is_empty() {
            return "this server belongs to no cluster yet: it waits to join one".to_owned();
        }
        let addresses = |servers: &[&ServerStatus]| -> String {
            servers.iter().map(|server| server.server_addr.as_str()).collect::<Vec<_>>().join(", ")
        };
        if let Some(why) = self.refused_by(&voters) {
            return format!(
                "no leader: other servers are reached, and do not accept this one, or are not accepted by it: {why}. See there \
                 whether this server is still one of them, and whether its certificate was revoked (`berth server members`)"
            );
        }
        if voters.iter().all(|server| server.id != servers.own) {
            // `recover` is not suggested to a server without a vote: its log may be behind, and its certificate may be revoked.
            return format!(
                "no leader: this server has no vote, and none of those that have one is heard to lead ({}): look there whether they \
                 have a leader, and whether they still take this server for one of them (`berth server members`)",
                addresses(&voters)
            );
        }
        let (alive, silent): (Vec<&ServerStatus>, Vec<&ServerStatus>) =
            voters.iter().copied().partition(|server| server.alive);
        let needed = voters.len() / 2 + 1;
        if alive.len() >= needed {
            return "the servers have no leader at the moment: they elect one, try again in a moment"
                .to_owned();
        }
        if let Some(why) = self.replication.peers().outgrown() {
            return format!(
                "no leader: the other servers refuse this one, which is of an older version than they are: {why}"
            );
        }
        format!(
            "no leader: {} of {} servers are reached, {needed} are needed; start those that are not reached again ({}). \
             If they are lost for good: stop this server, run `berth server recover` on its data directory, and start it",
            alive.len(),
            voters.len(),
            addresses(&silent)
        )
    }
}

impl Cluster {
    /// Why voters do not accept this server, if so many refuse it that the others are no majority: starting those again would not help.
    /// None where a majority could be reached without the ones that refuse.
    fn refused_by(&self, voters: &[&ServerStatus]) -> Option<String> {
        if self.replication.peers().outgrown().is_some() {
            return None;
        }
        let silent = voters.iter().filter(|server| !server.alive);
        let refusals: Vec<String> =
            silent.filter_map(|server| self.replication.peers().refusal(server.id)).collect();
        let is_enough = voters.len() - refusals.len() < voters.len() / 2 + 1;
        refusals.into_iter().next().filter(|_| is_enough)
    }
}

/// Since when this server knows that it was removed from its cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Removal {
    at: Instant,
    /// How old its state was at most by then: whoever was away while it was taken out has missed what came before that, too.
    age: Duration,
}

impl Removal {
    /// How old its state is at most by then; nothing makes it fresher any more.
    fn age_by(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at).saturating_add(self.age)
    }
}

/// How fresh the state of a leader is that was in contact with a majority so long ago; none for never.
fn contact_of_leader(majority: Option<Duration>) -> Contact {
    match majority {
        Some(ago) if ago < MAJORITY_MAX => Contact { known_leader: true, last_contact: Duration::ZERO },
        _ => Contact { known_leader: false, last_contact: majority.unwrap_or(Duration::MAX) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_taken_out_calls_its_state_no_fresher_than_it_was() {
        let (at, age) = (Instant::now(), Duration::from_secs(12));
        let after = |age, secs| Removal { at, age }.age_by(at + Duration::from_secs(secs));
        assert_eq!([0, 5].map(|secs| after(age, secs).as_secs()), [12, 17]);
        assert_eq!(after(Duration::MAX, 5), Duration::MAX, "it had heard nobody");
    }

    #[test]
    fn a_leader_that_hears_no_majority_does_not_call_its_state_fresh() {
        let of = |secs| contact_of_leader(Some(Duration::from_secs(secs)));
        assert!(of(0).known_leader && of(1).last_contact.is_zero(), "it leads, and its state is the newest");
        for secs in [2, 3, 60] {
            assert!(!of(secs).known_leader);
            assert_eq!(of(secs).last_contact, Duration::from_secs(secs), "it grows");
        }
        assert!(!contact_of_leader(None).known_leader, "nobody has answered it yet");
    }
}
