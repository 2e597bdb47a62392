//! Membership changes, made by the leader.

use std::{collections::BTreeSet, time::Duration};

use berth_replication::{ChangeError, Member, Peer, peer::RequestError};

use super::{
    Cluster, LEADER_MAX, MembershipChange, POLL_INTERVAL,
    membership_audit::named,
    status::MAJORITY_MAX,
    wire::{JoinRequest, KnownServer, PeerAnswer, PeerRequest},
};

/// A server that has not answered for so long may be replaced by one of the same name.
const DEAD_AFTER: Duration = Duration::from_secs(3);
/// How lately a server must have been in contact for its vote to count.
const HEARD_MAX: Duration = Duration::from_secs(2);
/// Records by which a server may be behind that is to vote.
const BEHIND_MAX: u64 = 64;
/// How long another server may take to take over.
const TRANSFER_MAX: Duration = Duration::from_secs(5);

impl Cluster {
    /// Changes who is there, through the leader.
    ///
    /// # Errors
    /// Why it was not done, or may have been: for users.
    pub async fn change(&self, change: MembershipChange) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + LEADER_MAX;
        loop {
            let answer = match self.other_leader() {
                Some(leader) => match self.ask_leader(&leader, &PeerRequest::Change(change)).await {
                    Ok(answer) => answer,
                    Err(RequestError::NotSent(_)) => PeerAnswer::NotLeader(None),
                    Err(RequestError::Refused(why)) => PeerAnswer::Refused(why),
                    Err(RequestError::Unknown(why)) => PeerAnswer::Unknown(why),
                },
                None => self.change_here(change).await,
            };
            match answer {
                PeerAnswer::Done => {
                    self.until_led(deadline).await;
                    return Ok(());
                }
                PeerAnswer::Refused(why) => return Err(why),
                PeerAnswer::Unknown(why) => return Err(format!("whether it was done is not known: {why}")),
                _ if tokio::time::Instant::now() >= deadline => return Err(self.no_leader()),
                _ => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// The same on the server that leads.
    pub(super) async fn change_here(&self, change: MembershipChange) -> PeerAnswer {
        if !self.replication.is_leader() {
            return self.not_leader();
        }
        if self.replication.majority_contact().is_some_and(|ago| ago >= MAJORITY_MAX) {
            // What a leader begins that nobody hears is never over.
            return PeerAnswer::Refused(self.no_leader());
        }
        let done = match change {
            MembershipChange::Remove(id) => self.remove(id).await,
            MembershipChange::Promote(id) => self.promote(id).await,
            MembershipChange::Transfer(to) => self.transfer_as_asked(to).await,
        };
        self.answer(done)
    }

    /// Hands the leadership over, to the server that is named where one is.
    async fn transfer_as_asked(&self, to: Option<u64>) -> Result<(), ChangeError> {
        let refuse = |id, why: &str| Err(ChangeError::Refused(format!("server {} {why}", self.named(id))));
        let (own, members) = (self.replication.server_id(), self.replication.members());
        if let Some(member) = to.filter(|to| *to != own).and_then(|to| members.find(to)) {
            if !member.voter {
                return refuse(member.id, "does not vote yet: it cannot lead");
            }
            if !self.is_reachable(member.id) {
                return refuse(member.id, "is not reached: it cannot take over");
            }
        }
        let leads = self.transfer(to, TRANSFER_MAX).await?;
        match to {
            Some(to) if to != leads => {
                refuse(to, &format!("did not take over, and server {} leads now", self.named(leads)))
            }
            _ => Ok(()),
        }
    }

    /// Waits until this server knows the leader: whoever handed the leadership over asks next who has it.
    async fn until_led(&self, deadline: tokio::time::Instant) {
        while !self.has_leader() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Handles a request to join, or to change a member's address or name.
    pub(super) async fn take_in(&self, joining: JoinRequest) -> PeerAnswer {
        if !self.leads() {
            return self.not_leader();
        }
        let members = self.replication.members();
        // One that was removed may not know it; its id stays with what it had then.
        let was_member = joining.member || self.replication.was_removed(joining.id);
        if was_member && members.find(joining.id).is_none() {
            return PeerAnswer::Refused(format!(
                "server {} was removed from this cluster: to take part again, start it with an empty data directory and --join",
                joining.id
            ));
        }
        match self.check_unlike_others(&members.all, &joining) {
            Err(why) => PeerAnswer::Refused(why),
            Ok(()) => self.answer(self.take(joining).await),
        }
    }

    /// Whether no other server that is there has the address or the name of one that wants to join. Two cannot listen at one
    /// address, and by its name a server takes the place of a dead one: two of one name would take each other's.
    ///
    /// # Errors
    /// Which server has it, and what to do.
    fn check_unlike_others(&self, members: &[Member], joining: &JoinRequest) -> Result<(), String> {
        let Peer { address, name, .. } = &joining.peer;
        let own = self.replication.server_id();
        let is_reachable = |id| self.silence(id).is_some_and(|silence| silence <= DEAD_AFTER);
        let is_there = |other: &&Member| other.id == own || is_reachable(other.id);
        for other in members.iter().filter(|other| other.id != joining.id).filter(is_there) {
            if other.peer.address == *address {
                return Err(format!("server {} listens on {address} already", other.id));
            }
            if !name.is_empty() && other.peer.name == *name {
                return Err(format!(
                    "server {} at {} is named {name}, too: start this one with another --server-name",
                    other.id, other.peer.address
                ));
            }
        }
        Ok(())
    }

    /// Takes a server in, or learns how it is known now, and records that.
    async fn take(&self, JoinRequest { id, peer, .. }: JoinRequest) -> Result<(), ChangeError> {
        let known = self.replication.peer(id);
        if known.as_ref() == Some(&peer) {
            return Ok(());
        }
        let change = if known.is_some() { "change_server" } else { "join_server" };
        let recorded =
            self.record_asked(&peer, change, [named(id, &peer.name), peer.address.clone()]).await?;
        let done = self.replication.set_member(id, peer).await;
        recorded.end(done).await
    }

    async fn remove(&self, id: u64) -> Result<(), ChangeError> {
        if self.replication.members().find(id).is_none() {
            return Err(ChangeError::Refused(format!("no server has the id {id}")));
        }
        self.check_majority(&BTreeSet::from([id]), None)?;
        if id == self.replication.server_id() && self.replication.is_leader() {
            // Whoever leads next takes this one out: nothing is decided by a server that is on its way out.
            self.transfer(None, TRANSFER_MAX).await?;
            return Err(ChangeError::NotLeader { leader: self.replication.leader() });
        }
        self.replication.remove(id).await
    }

    /// Lets a server vote. One of the same name that is dead is taken out in the same change: a machine that was set up anew
    /// takes the place of its predecessor, and never adds to those whose answer is needed.
    pub(super) async fn promote(&self, id: u64) -> Result<(), ChangeError> {
        let members = self.replication.members();
        let Some(member) = members.find(id) else {
            return Err(ChangeError::Refused(format!("no server has the id {id}")));
        };
        let is_replaced = |other: &&Member| {
            other.id != id
                && other.id != self.replication.server_id()
                && !other.peer.name.is_empty()
                && other.peer.name == member.peer.name
                && self.silence(other.id).is_none_or(|silence| silence > DEAD_AFTER)
        };
        let replaced: BTreeSet<u64> = members.voters().filter(is_replaced).map(|member| member.id).collect();
        if member.voter && replaced.is_empty() {
            return Ok(());
        }
        if !member.voter {
            self.check_caught_up(id)?;
        }
        self.check_majority(&replaced, Some(id))?;
        if !replaced.is_empty() {
            tracing::warn!(
                server = id,
                name = member.peer.name,
                ?replaced,
                "a server takes the place of a dead one"
            );
        }
        let replaces = replaced.iter().map(|old| format!("in place of {}", self.named(*old)));
        let servers: Vec<String> = [self.named(id)].into_iter().chain(replaces).collect();
        let recorded = self.record_own("promote_server", servers);
        let done = self.replication.promote(id, replaced).await;
        recorded.end_now(&done);
        done
    }

    /// Whether a server may vote from now on: the answer of one that is not there, or far behind, may be needed for every change as
    /// soon as it votes.
    ///
    /// # Errors
    /// Why it may not yet.
    pub(super) fn check_caught_up(&self, id: u64) -> Result<(), ChangeError> {
        let refuse = |why: String| Err(ChangeError::Refused(format!("server {} {why}", self.named(id))));
        if !self.is_reachable(id) {
            return refuse(
                "is not reached: start it first, it votes by itself once it has caught up".to_owned(),
            );
        }
        let come = self.replication.progress().get(&id).copied().unwrap_or_default().log_index;
        if come == 0 {
            // It may reach this server, and not be reached by it.
            let peer = self.replication.peer(id).unwrap_or_default();
            let why = self.replication.peers().why_not(id).unwrap_or_default();
            return refuse(format!("has received nothing of the log yet at {}: {why}", peer.address));
        }
        let behind = self.replication.last_log().saturating_sub(come);
        if behind > BEHIND_MAX {
            return refuse(format!("is {behind} records behind: it votes by itself once it has caught up"));
        }
        Ok(())
    }

    /// Whether enough servers are reached to go on once some vote no more and another does: a change that takes the majority from
    /// those that are left is never over, and neither is anything after it.
    ///
    /// # Errors
    /// When they are too few, with what to do.
    fn check_majority(&self, without: &BTreeSet<u64>, with: Option<u64>) -> Result<(), ChangeError> {
        let (own, members) = (self.replication.server_id(), self.replication.members());
        let now: BTreeSet<u64> = members.voters().map(|member| member.id).collect();
        let next: BTreeSet<u64> = now.difference(without).copied().chain(with).collect();
        // Whoever takes out none of those that vote takes nothing from them, and of the last one it is refused anyway.
        if next == now || next.is_empty() {
            return Ok(());
        }
        let is_reached = |id: &u64| *id == own || self.is_reachable(*id);
        let lost: Vec<String> = next.iter().filter(|id| !is_reached(id)).map(|id| self.named(*id)).collect();
        let needed = next.len() / 2 + 1;
        if next.len() - lost.len() >= needed {
            return Ok(());
        }
        Err(ChangeError::Refused(format!(
            "{needed} of the {} servers that would vote are needed, and these are not reached: {}; start them first, or remove \
             them instead",
            next.len(),
            lost.join(", ")
        )))
    }

    /// Whether a server has responded lately, or was in contact before its first request; for the leader.
    fn is_reachable(&self, id: u64) -> bool {
        let answered = self.replication.progress().get(&id).and_then(|progress| progress.last_contact);
        answered.or_else(|| self.silence(id)).is_some_and(|silence| silence < HEARD_MAX)
    }

    /// How long there was no contact with a server; none for never. For the leader.
    pub(super) fn silence(&self, id: u64) -> Option<Duration> {
        let answered = self.replication.progress().get(&id).and_then(|progress| progress.last_contact);
        answered.into_iter().chain(self.replication.peers().silence(id)).min()
    }

    fn answer(&self, done: Result<(), ChangeError>) -> PeerAnswer {
        match done {
            Ok(()) => PeerAnswer::Done,
            Err(ChangeError::NotLeader { .. }) => self.not_leader(),
            Err(ChangeError::Refused(why)) => PeerAnswer::Refused(why),
            Err(error @ ChangeError::Unknown(_)) => PeerAnswer::Unknown(error.to_string()),
        }
    }

    /// The response that names the leader.
    pub(super) fn not_leader(&self) -> PeerAnswer {
        let leader = self.replication.leader().filter(|leader| *leader != self.replication.server_id());
        let known = |leader| Some(KnownServer { id: leader, peer: self.replication.peer(leader)? });
        PeerAnswer::NotLeader(leader.and_then(known))
    }
}
