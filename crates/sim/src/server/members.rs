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

/// A leader that has not heard a majority for so long leads nobody.
const MAJORITY_MAX: Duration = Duration::from_secs(2);
/// Between two looks at what the servers know, in nanoseconds.
const LOOK_NS: u64 = 200_000_000;

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
        // Whatever comes of it, somebody leads in the end.
        spawn_for(self.owner(), async move { drop(log.transfer(to as u64 + 1, TRANSFER_MAX).await) });
    }

    /// This leader is to take another server out.
    pub fn remove(&self, server: usize) {
        let Some(log) = lock(&self.0.log).clone() else { return };
        if server != self.around().number {
            spawn_for(self.owner(), async move { drop(log.remove(server as u64 + 1).await) });
        }
    }

    /// Whether a server votes, as this leader knows.
    pub fn lets_vote(&self, server: usize) -> bool {
        let log = lock(&self.0.log).clone();
        let members = log.map(|log| log.members()).unwrap_or_default();
        !members.changing && members.find(server as u64 + 1).is_some_and(|member| member.voter)
    }

    /// This leader is to take a server in, which only follows until it has caught up, and votes then.
    pub fn take_in(&self, server: usize) {
        let Some(log) = lock(&self.0.log).clone() else { return };
        let id = server as u64 + 1;
        let members = log.members();
        if members.changing {
            return;
        }
        let come = log.progress().get(&id).copied().unwrap_or_default();
        let has_caught_up = come.log_index + BEHIND_MAX >= log.last_log();
        spawn_for(self.owner(), async move {
            // It is tried again.
            match members.find(id) {
                None => drop(log.set_member(id, wire::peer(server)).await),
                Some(_) if has_caught_up => drop(log.promote(id, BTreeSet::new()).await),
                Some(_) => {}
            }
        });
    }
}
