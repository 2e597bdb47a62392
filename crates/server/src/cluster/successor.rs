//! Chooses the successor of a leader that stops, or whose disk is slow or full: the reachable server with the longest log, with a
//! healthy disk if there is one.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::Duration,
};

use berth_replication::ChangeError;
use tokio::time::Instant;

use super::{Cluster, wire::ServerPulse};

/// Status reports older than this are discarded.
const PULSE_MAX: Duration = Duration::from_secs(4);
/// Stopping servers that are remembered.
const STOPPING_MAX: usize = 256;
/// A successor must have been in contact within this time.
const CONTACT_MAX: Duration = Duration::from_secs(2);

/// The latest status reports of other servers.
#[derive(Default)]
pub(super) struct ServerPulses(Mutex<PulseState>);

#[derive(Default)]
struct PulseState {
    pulses: BTreeMap<u64, (Instant, ServerPulse)>,
    /// Servers that announced that they are stopping, and when. One that answers a later question otherwise is removed.
    stopping: BTreeMap<u64, Instant>,
}

impl ServerPulses {
    fn state(&self) -> MutexGuard<'_, PulseState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the status report of a server that was asked at that time.
    pub fn set(&self, server: u64, asked_at: Instant, pulse: ServerPulse) {
        let mut state = self.state();
        if pulse.stopping == Some(true) {
            state.stopping.entry(server).or_insert(asked_at);
        } else if state.stopping.get(&server).is_some_and(|since| *since < asked_at) {
            state.stopping.remove(&server);
        }
        state.pulses.retain(|_, (at, _)| at.elapsed() < PULSE_MAX);
        state.pulses.insert(server, (Instant::now(), pulse));
    }

    /// A server of the cluster says that it is stopping.
    pub fn on_stopping(&self, server: u64) {
        let mut state = self.state();
        if state.stopping.len() >= STOPPING_MAX && !state.stopping.contains_key(&server) {
            state.stopping.pop_first();
        }
        state.stopping.insert(server, Instant::now());
    }

    /// Whether a server is stopping, or has stopped and not been in contact since.
    pub fn is_stopping(&self, server: u64) -> bool {
        self.state().stopping.contains_key(&server)
    }

    /// The latest report of a server; none when that is too old.
    pub fn of(&self, server: u64) -> Option<ServerPulse> {
        let state = self.state();
        state.pulses.get(&server).filter(|(at, _)| at.elapsed() < PULSE_MAX).map(|(_, pulse)| pulse.clone())
    }
}

impl Cluster {
    /// The status report of this server.
    pub(super) fn pulse(&self) -> ServerPulse {
        let (slow, mean) = (self.replication.slow_sync(), self.replication.mean_sync());
        ServerPulse {
            slow_sync_ms: slow.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX)),
            log_index: self.replication.last_log(),
            term: self.replication.term(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            disk_full: self.replication.check_disk_space().is_err().then_some(true),
            mean_sync_us: mean.map(|took| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
            knows_you: None,
            keks: Some(self.keyring.kek_ids()),
            majority_ms: self.majority_ms(),
            leads: Some(self.replication.is_leader()),
            stopping: self.stopping.load(Ordering::Acquire).then_some(true),
        }
    }

    /// Whether a server's disk is known to be well.
    fn has_good_disk(&self, server: u64) -> bool {
        self.pulses.of(server).is_some_and(|pulse| pulse.has_good_disk())
    }

    /// The voter that is best suited to take over, of those that are not stopping; for the leader.
    pub(super) fn successor(&self) -> Option<u64> {
        let (own, progress) = (self.replication.server_id(), self.replication.progress());
        let progress_of = |id: u64| progress.get(&id).copied().unwrap_or_default();
        let members = self.replication.members();
        let others = members.voters().map(|member| member.id).filter(|id| *id != own);
        let others = others.filter(|id| !self.pulses.is_stopping(*id));
        others.max_by_key(|id| {
            let in_contact = self.silence(*id).is_some_and(|silence| silence < CONTACT_MAX);
            (
                in_contact,
                self.has_good_disk(*id),
                progress_of(*id).log_index,
                std::cmp::Reverse(progress_of(*id).last_contact),
            )
        })
    }

    /// The successor of a leader whose disk is slow or full; none if the disk of the best one is no better.
    pub(super) fn successor_with_a_good_disk(&self) -> Option<u64> {
        self.successor().filter(|id| self.has_good_disk(*id))
    }

    /// Hands the leadership over, to the best unless another is named. Returns the new leader.
    ///
    /// # Errors
    /// When nobody takes it over within `patience`.
    pub(super) async fn transfer(&self, to: Option<u64>, patience: Duration) -> Result<u64, ChangeError> {
        let own = self.replication.server_id();
        if to == Some(own) && self.replication.is_leader() {
            return Ok(own);
        }
        let nobody = || ChangeError::Refused("no other server votes, or all that do are stopping".to_owned());
        let to = to.or_else(|| self.successor()).ok_or_else(nobody)?;
        self.replication.transfer(to, patience).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_stops_takes_over_again_once_it_answers_that_it_goes_on() {
        let (pulses, before) = (ServerPulses::default(), Instant::now());
        pulses.set(2, before, ServerPulse::default());
        assert!(!pulses.is_stopping(2));
        pulses.on_stopping(2);
        assert!(pulses.is_stopping(2) && !pulses.is_stopping(3));
        pulses.set(2, before, ServerPulse::default());
        assert!(pulses.is_stopping(2), "what it was asked before, it answered before");
        let after = Instant::now() + Duration::from_millis(1);
        pulses.set(2, after, ServerPulse { stopping: Some(true), ..ServerPulse::default() });
        assert!(pulses.is_stopping(2));
        pulses.set(2, after, ServerPulse::default());
        assert!(!pulses.is_stopping(2), "it was started again");
        pulses.set(3, after, ServerPulse { stopping: Some(true), ..ServerPulse::default() });
        assert!(pulses.is_stopping(3), "its answer says it, too");
        for server in 0..=2 * STOPPING_MAX as u64 {
            pulses.on_stopping(server);
        }
        assert_eq!(pulses.state().stopping.len(), STOPPING_MAX);
    }
}
