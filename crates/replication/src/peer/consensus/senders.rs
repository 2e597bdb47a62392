//! Who may ask the consensus engine. Raft takes votes and appends from servers that are not in its own membership, since a
//! server that is behind knows neither those who were added nor who leads by now; this says where that ends:
//!
//! - A server speaks for itself alone: a vote names its candidate or leader, and that is who the connection has introduced.
//! - A member, as this server's log has it, committed or not, is heard.
//! - One that a committed membership has left out is not: a removal that is known ends its say.
//! - Any other is unknown. While a leader that is a member is heard, nobody needs to be elected, and an unknown one is refused;
//!   once none is heard, it is heard. It may be a member of whom this server has yet to learn, and perhaps its vote is the one
//!   that such a member needs: refused for good, it could leave a majority that is alive without a leader.
//!
//! So whoever holds a server's certificate and is no member disturbs no cluster that has a leader; in the moments without one
//! it is as much believed as a member that lies. A new server, which has no membership yet, hears everybody.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use openraft::async_runtime::WatchReceiver;

use super::wire;
use crate::{
    cluster::majority_silence,
    departed::Departed,
    peer::frame::{Frame, Method},
    runtime::Runtime,
    types::Raft,
};

/// A leader that was heard within this time leads: the engine's own lease, for which it elects no other.
const LEASE: Duration = Duration::from_millis(crate::open::ELECTION_MS.end);

/// What this server knows of whoever asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RequestSender {
    server: u64,
    member: bool,
    departed: bool,
    /// The leader, where it is a member and was heard of late.
    leader: Option<u64>,
}

impl RequestSender {
    /// # Errors
    /// Why it is not heard, for users.
    fn check(self) -> Result<(), String> {
        let Self { server, member, departed, leader } = self;
        match leader {
            _ if member => Ok(()),
            _ if departed => Err(format!(
                "server {server} was removed from this cluster: to take part again, start it with an empty data directory and --join"
            )),
            Some(leader) => Err(format!(
                "server {server} is not of this cluster as far as this server knows, and server {leader} leads it"
            )),
            None => Ok(()),
        }
    }
}

/// Judges whoever asks one server's engine.
pub(super) struct Senders {
    departed: Departed,
    /// The leader that was heard last, and when.
    last_heard: Mutex<Option<(u64, Duration)>>,
}

impl Senders {
    pub fn new(departed: Departed) -> Self {
        Self { departed, last_heard: Mutex::default() }
    }

    /// Whether what this server asks may be acted on.
    ///
    /// # Errors
    /// Why not, for users.
    pub fn check<R: Runtime>(&self, raft: &Raft<R>, server: u64, method: Method) -> Result<(), String> {
        let metrics = raft.metrics();
        let metrics = metrics.borrow_watched();
        let members = metrics.membership_config.membership();
        let is_member = |id: u64| members.get_node(&id).is_some();
        let mut last_heard = self.last_heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, led_by) = (R::now(), metrics.current_leader);
        if led_by == Some(server) && is_member(server) && matches!(method, Method::Append | Method::Heartbeat)
        {
            *last_heard = Some((server, now));
        }
        let own = majority_silence(&metrics).map(|silence| (metrics.id, silence));
        let others = last_heard.map(|(leader, at)| (leader, now.saturating_sub(at)));
        let leader = own
            .into_iter()
            .chain(others)
            .find(|(leader, silence)| *silence < LEASE && led_by == Some(*leader) && is_member(*leader));
        RequestSender {
            server,
            member: is_member(server),
            departed: self.departed.contains(server),
            leader: leader.map(|(leader, _)| leader),
        }
        .check()
    }
}

/// Whether a frame speaks as the server that has sent it. Pieces of snapshots speak as nobody: what they come to is installed
/// by a frame that does.
///
/// # Errors
/// When it speaks as another, or is damaged: the connection has no more to say.
pub(super) fn speaks_for_itself(server: u64, frame: &Frame) -> Result<(), String> {
    let Some(named) = wire::speaker(frame.method, &frame.body)? else { return Ok(()) };
    if named == server {
        return Ok(());
    }
    Err(format!("server {server} speaks as server {named} ({:?})", frame.method))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(member: bool, departed: bool, leader: Option<u64>) -> Result<(), String> {
        RequestSender { server: 9, member, departed, leader }.check()
    }

    #[test]
    fn members_are_heard_removed_ones_are_not_and_unknown_ones_only_where_nobody_leads() {
        for leader in [None, Some(2)] {
            assert_eq!(sender(true, false, leader), Ok(()));
            assert_eq!(
                sender(true, true, leader),
                Ok(()),
                "it was taken in again, and that is not committed yet"
            );
            assert!(sender(false, true, leader).unwrap_err().contains("server 9 was removed"));
        }
        assert!(sender(false, false, Some(2)).unwrap_err().contains("server 2 leads"));
        assert_eq!(sender(false, false, None), Ok(()), "it may be a member of whom nobody has told us yet");
    }
}
