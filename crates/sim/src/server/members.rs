//! What an operator, and the leader itself, change about who is there.

use std::{collections::BTreeSet, time::Duration};

use berth_controller::{EntryVersions, Event};
use berth_model::Index;
use berth_replication::Replication;
use berth_server::{MajorityContact, OwnProgress};

use super::{Input, Server, lock, wire};
use crate::{
    bugs::Bug,
    executor::{Simulated, now_ns, sleep_ns, spawn, spawn_for},
};

/// How long a server may take to take over.
const TRANSFER_MAX: Duration = Duration::from_secs(2);
/// Records by which a server may be behind that is to vote.
const BEHIND_MAX: u64 = 64;

/// A leader that has heard a majority within this time leads: nobody is elected sooner.
const SURE_MAX: Duration = Duration::from_millis(300);

/// A leader that has not heard a majority for so long leads nobody.
const MAJORITY_MAX: Duration = Duration::from_secs(2);
/// Between two looks at what the servers know, in nanoseconds.
const LOOK_NS: u64 = 200_000_000;

/// What a server is to a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberRole {
    Stranger,
    Learner,
    Voter,
}

/// Under which id a server, counted from 0, is a member.
pub fn member_id(log: &Replication<Simulated>, number: usize) -> Option<u64> {
    log.members().all.iter().map(|member| member.id).find(|id| wire::number(*id) == number)
}

/// Nothing is written that one of the servers could not apply, and whoever leads nobody has no say about agents.
pub async fn tell_versions(server: Server, replication: Replication<Simulated>) {
    let (mut told, mut heard) = (EntryVersions::default(), true);
    loop {
        let (entries, held_by) = replication.entries_known();
        let now = EntryVersions { entries, held_by };
        if now != told {
            server.enqueue(Input::Event(Event::Versions(now.clone())));
            told = now;
        }
        let cut_off = server.is_one_of_several() && (server.is_cut_off() || server.is_leader_cut_off());
        // The lack of one is repeated: who follows another leader forgets what was said of the one before.
        if cut_off || !heard {
            heard = !cut_off;
            server.enqueue(Input::Event(Event::Majority { heard }));
        }
        sleep_ns(LOOK_NS).await;
    }
}

/// Asks whoever leads, again and again, how long ago it heard a majority: this server's state is only as fresh.
pub async fn ping_leader(server: Server, replication: Replication<Simulated>) {
    loop {
        sleep_ns(LOOK_NS).await;
        if let Some(leader) = replication.leader().filter(|leader| *leader != replication.server_id()) {
            spawn(server.clone().ping(replication.clone(), leader));
        }
    }
}

impl Server {
    /// Whether there are others.
    pub fn is_one_of_several(&self) -> bool {
        self.env().servers > 1
    }

    /// For how long this run has gone on.
    pub(super) fn uptime(&self) -> Duration {
        Duration::from_nanos(now_ns() - self.0.begun_ns)
    }

    /// Whether it leads, as it believes.
    pub fn leads(&self) -> bool {
        lock(&self.0.log).as_ref().is_some_and(berth_replication::Replication::is_leader)
    }

    /// Whether it leads and has not heard a majority for too long.
    fn is_cut_off(&self) -> bool {
        let log = lock(&self.0.log).clone();
        log.is_some_and(|log| log.is_leader() && log.majority_contact().is_none_or(|ago| ago >= MAJORITY_MAX))
    }

    /// What another server that leads said of its contact with a majority; none when it said nothing.
    fn leaders_majority(&self) -> Option<MajorityContact> {
        if self.env().bug == Some(Bug::IgnoresLeadersMajority) {
            return None;
        }
        let log = lock(&self.0.log).clone()?;
        Some(self.0.leaders_majority.of(log.leader()?, log.term(), self.uptime(), self.progress(&log)))
    }

    /// How far this server has come with the log, and its readers with it.
    pub(super) fn progress(&self, log: &Replication<Simulated>) -> OwnProgress {
        if self.env().bug == Some(Bug::FreshBeforeApplied) {
            let (log_index, newest) = (u64::MAX, Index(u64::MAX));
            return OwnProgress { log_index, applied: newest, published: newest };
        }
        let log_index = log.last_applied_log().unwrap_or_default();
        let applied = *lock(&self.0.applied);
        OwnProgress { log_index, applied, published: self.view().index }
    }

    /// Whether the server that leads says that it has not heard a majority for too long.
    pub(super) fn is_leader_cut_off(&self) -> bool {
        !self.leads() && self.leaders_majority().is_some_and(|contact| contact.is_cut_off)
    }

    /// Whether whoever leads says that it is not of the cluster any more.
    pub(super) fn is_removed(&self) -> bool {
        lock(&self.0.removed).is_some()
    }

    /// How old its state is at most, as it reports to those who read without waiting.
    pub fn age(&self) -> Duration {
        let Some(log) = lock(&self.0.log).clone() else { return Duration::MAX };
        if log.is_leader() {
            return match log.majority_contact() {
                Some(ago) if ago < MAJORITY_MAX => Duration::ZERO,
                ago => ago.unwrap_or(Duration::MAX),
            };
        }
        if let Some((at, age)) = *lock(&self.0.removed) {
            return age.saturating_add(self.uptime().saturating_sub(at));
        }
        self.age_as_a_follower(&log)
    }

    pub(super) fn age_as_a_follower(&self, log: &Replication<Simulated>) -> Duration {
        let silence = log.leader().and_then(|leader| log.peers().silence(leader)).unwrap_or(Duration::MAX);
        silence.max(self.leaders_majority().map_or(Duration::ZERO, |contact| contact.age))
    }

    /// This leader is to hand over to a server, counted from 0.
    pub fn hand_over(&self, to: usize) {
        let Some(log) = lock(&self.0.log).clone() else { return };
        let Some(to) = member_id(&log, to) else { return };
        // Whatever comes of it, somebody leads in the end.
        spawn_for(self.owner(), async move { drop(log.transfer(to, TRANSFER_MAX).await) });
    }

    /// This leader is to take another server out.
    pub fn remove(&self, server: usize) {
        let Some(log) = lock(&self.0.log).clone() else { return };
        let Some(id) = member_id(&log, server).filter(|_| server != self.env().number) else { return };
        spawn_for(self.owner(), async move { drop(log.remove(id).await) });
    }

    /// What a server is to the cluster; none where this one does not lead it for sure, or it is being changed.
    pub fn standing(&self, id: u64) -> Option<MemberRole> {
        let log = lock(&self.0.log).clone()?;
        let members = log.members();
        let leads = log.is_leader() && log.majority_contact().is_some_and(|ago| ago < SURE_MAX);
        (leads && !members.changing).then(|| match members.find(id) {
            None => MemberRole::Stranger,
            Some(member) if member.voter => MemberRole::Voter,
            Some(_) => MemberRole::Learner,
        })
    }

    /// This leader is to take a server in, which only follows until it has caught up, and votes then.
    pub fn take_in(&self, id: u64) {
        let Some(log) = lock(&self.0.log).clone() else { return };
        let members = log.members();
        let come = log.progress().get(&id).copied().unwrap_or_default();
        let has_caught_up = come.log_index + BEHIND_MAX >= log.last_log();
        spawn_for(self.owner(), async move {
            // It is tried again.
            match members.find(id) {
                None => drop(log.set_member(id, wire::peer(wire::number(id))).await),
                Some(_) if has_caught_up => drop(log.promote(id, BTreeSet::new()).await),
                Some(_) => {}
            }
        });
    }
}
