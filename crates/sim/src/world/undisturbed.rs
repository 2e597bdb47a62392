//! Since when nothing keeps the servers from their work: what is due then is to be done soon.

use super::Simulation;
use crate::{
    executor::{Owner, now_ns},
    faults::Fault,
    server::Server,
};

/// After what hinders servers has ended, they may need so long to find their way back, in nanoseconds.
const RECOVERY_NS: u64 = 2_000_000_000;
/// Between two looks, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// What is known of it.
#[derive(Default)]
pub(super) struct Undisturbed {
    /// Faults of servers may be felt until then, in nanoseconds.
    hindered_until_ns: u64,
    /// Who leads, and since when nothing is in its way.
    leader: Option<(Owner, u64)>,
    next_look_ns: u64,
}

impl Simulation {
    /// Something goes wrong with a server.
    pub(super) fn hinder(&mut self, fault: &Fault) {
        if !fault.is_of_nodes() {
            let until_ns = now_ns() + fault.lasts_ns() + RECOVERY_NS;
            self.undisturbed.hindered_until_ns = self.undisturbed.hindered_until_ns.max(until_ns);
        }
    }

    /// Has the rules look at what is due, now and then.
    pub(super) fn judge_time(&mut self) {
        if now_ns() < self.undisturbed.next_look_ns {
            return;
        }
        (0..self.machines.len()).for_each(|server| self.judge_promises(server));
        let leader = self.leader().filter(|_| now_ns() >= self.undisturbed.hindered_until_ns);
        let known = &mut self.undisturbed;
        known.next_look_ns = now_ns() + LOOK_NS;
        if known.leader.map(|(owner, _)| owner) != leader {
            known.leader = leader.map(|owner| (owner, now_ns()));
        }
        let since_ns = known.leader.map(|(_, since_ns)| since_ns);
        let facts = &mut *self.truth.facts();
        let result = facts.invariants.on_time(since_ns);
        facts.judge(result);
        if self.faults_ended {
            let servers = self.servers.all();
            let views = servers.iter().enumerate();
            let views = views.filter_map(|(number, server)| Some((number, server.as_ref()?.view())));
            let result = facts.invariants.on_shown(since_ns, views);
            facts.judge(result);
        }
    }

    /// Has the rules look at what a server has promised.
    pub(super) fn judge_promises(&self, server: usize) {
        let promises = self.servers.all()[server].as_ref().and_then(Server::promises);
        if let Some(promises) = promises {
            let facts = &mut *self.truth.facts();
            let result = facts.invariants.on_promises(server, promises);
            facts.judge(result);
        }
    }

    /// The run of the one server that leads, while all of them serve.
    fn leader(&self) -> Option<Owner> {
        let servers = self.servers.all();
        let all_serve = servers.iter().all(|server| server.as_ref().is_some_and(Server::is_open));
        let mut leaders = servers.iter().flatten().filter(|server| server.leads());
        let leader = leaders.next().filter(|_| all_serve)?;
        leaders.next().is_none().then(|| leader.owner())
    }
}
