//! Changes of who is there, made by who leads.

use std::{collections::BTreeSet, time::Duration};

use berth_replication::{ChangeError, Member, Peer, peer::RequestError};

use super::{
    Change, Cluster, LEADER_MAX, LOOK,
    recorded::named,
    wire::{Answer, Joining, Known, Request},
};

/// A server that has not answered for so long may be replaced by one of the same name.
const DEAD_AFTER: Duration = Duration::from_secs(3);
/// How long another server may take to take over.
const TRANSFER_MAX: Duration = Duration::from_secs(5);

impl Cluster {
    /// Changes who is there, through whoever leads.
    ///
    /// # Errors
    /// Why it was not done, or may have been: for people.
    pub async fn change(&self, change: Change) -> Result<(), String> {
        let deadline = tokio::time::Instant::now() + LEADER_MAX;
        loop {
            let answer = match self.other_leader() {
                Some(leader) => match self.ask(&leader, &Request::Change(change)).await {
                    Ok(answer) => answer,
                    Err(RequestError::NotSent(_)) => Answer::NotLeader(None),
                    Err(RequestError::Refused(why)) => Answer::Refused(why),
                    Err(RequestError::Unknown(why)) => Answer::Unknown(why),
                },
                None => self.change_here(change).await,
            };
            match answer {
                Answer::Done => {
                    self.until_led(deadline).await;
                    return Ok(());
                }
                Answer::Refused(why) => return Err(why),
                Answer::Unknown(why) => return Err(format!("whether it was done is not known: {why}")),
                _ if tokio::time::Instant::now() >= deadline => return Err(self.no_leader()),
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    /// The same on the server that leads.
    pub(super) async fn change_here(&self, change: Change) -> Answer {
        let done = match change {
            Change::Remove(id) => self.remove(id).await,
            Change::Promote(id) => self.promote(id).await,
            Change::Transfer(to) => self.transfer(to, TRANSFER_MAX).await.map(drop),
        };
        self.answer(done)
    }

    /// Waits until this server knows who leads: whoever handed the leadership over asks next who has it.
    async fn until_led(&self, deadline: tokio::time::Instant) {
        while !self.has_leader() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A server asks to be taken in, or to be known otherwise.
    pub(super) async fn take_in(&self, joining: Joining) -> Answer {
        if !self.leads() {
            return self.not_leader();
        }
        let members = self.replication.members();
        if joining.member && members.find(joining.id).is_none() {
            return Answer::Refused(format!(
                "server {} was removed from this cluster: to take part again, start it with an empty data directory and --join",
                joining.id
            ));
        }
        if let Some(other) = same_address(&members.all, &joining) {
            let silent = self.silence(other.id).is_none_or(|silence| silence > DEAD_AFTER);
            if !silent {
                return Answer::Refused(format!(
                    "server {} listens on {} already",
                    other.id, other.peer.address
                ));
            }
        }
        self.answer(self.take(joining).await)
    }

    /// Takes a server in, or learns how it is known now, and records that.
    async fn take(&self, Joining { id, peer, .. }: Joining) -> Result<(), ChangeError> {
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

    /// How long a server has not been heard; none for never. For who leads.
    pub(super) fn silence(&self, id: u64) -> Option<Duration> {
        let answered = self.replication.progress().get(&id).and_then(|progress| progress.last_contact);
        answered.into_iter().chain(self.replication.peers().silence(id)).min()
    }

    fn answer(&self, done: Result<(), ChangeError>) -> Answer {
        match done {
            Ok(()) => Answer::Done,
            Err(ChangeError::NotLeader { .. }) => self.not_leader(),
            Err(ChangeError::Refused(why)) => Answer::Refused(why),
            Err(error @ ChangeError::Unknown(_)) => Answer::Unknown(error.to_string()),
        }
    }

    /// Who leads instead.
    pub(super) fn not_leader(&self) -> Answer {
        let leader = self.replication.leader().filter(|leader| *leader != self.replication.server_id());
        let known = |leader| Some(Known { id: leader, peer: self.replication.peer(leader)? });
        Answer::NotLeader(leader.and_then(known))
    }
}

/// Another server with the same address: two cannot listen there.
fn same_address<'m>(members: &'m [Member], joining: &Joining) -> Option<&'m Member> {
    let Peer { address, .. } = &joining.peer;
    members.iter().find(|member| member.id != joining.id && member.peer.address == *address)
}
