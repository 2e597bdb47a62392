//! What an operator, and the leader itself, change about who is there.

use std::{collections::BTreeSet, time::Duration};

use berth_controller::{Event, Versions};
use berth_replication::Replication;

use super::{Input, Server, lock, wire};
use crate::executor::{Simulated, sleep_ns, spawn_for};

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
pub enum Standing {
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
    let (mut told, mut heard) = (Versions::default(), true);
    loop {
        let (entries, held_by) = replication.entries_known();
        let now = Versions { entries, held_by };
        if now != told {
            server.tell(Input::Event(Event::Versions(now.clone())));
            told = now;
        }
        let cut_off = server.is_one_of_several()
            && replication.is_leader()
            && replication.majority_contact().is_none_or(|ago| ago >= MAJORITY_MAX);
        if cut_off == heard {
            heard = !cut_off;
            server.tell(Input::Event(Event::Majority { heard }));
        }
        sleep_ns(LOOK_NS).await;
    }
}

impl Server {
    /// Whether there are others.
    pub fn is_one_of_several(&self) -> bool {
        self.around().servers > 1
    }

    /// Whether it leads, as it believes.
    pub fn leads(&self) -> bool {
        lock(&self.0.log).as_ref().is_some_and(berth_replication::Replication::is_leader)
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
        let Some(id) = member_id(&log, server).filter(|_| server != self.around().number) else { return };
        spawn_for(self.owner(), async move { drop(log.remove(id).await) });
    }

    /// What a server is to the cluster; none where this one does not lead it for sure, or it is being changed.
    pub fn standing(&self, id: u64) -> Option<Standing> {
        let log = lock(&self.0.log).clone()?;
        let members = log.members();
        let leads = log.is_leader() && log.majority_contact().is_some_and(|ago| ago < SURE_MAX);
        (leads && !members.changing).then(|| match members.find(id) {
            None => Standing::Stranger,
            Some(member) if member.voter => Standing::Voter,
            Some(_) => Standing::Learner,
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
