//! The server's own policy: the scheduler's fleet, which learns from the arrivals so far.

use berth_scheduler::devices::{DeviceHost, Fleet, FleetAsk};

use super::{Policy, ties::TieBreak};

/// The scheduler's own policy.
pub(super) struct LeastStranded {
    fleet: Fleet,
}

impl LeastStranded {
    pub fn new(hosts: &[DeviceHost]) -> Self {
        let mut fleet = Fleet::default();
        hosts.iter().enumerate().for_each(|(at, host)| fleet.add(at, host.clone()));
        Self { fleet }
    }
}

impl Policy for LeastStranded {
    fn choose(&mut self, _: &[DeviceHost], ask: &FleetAsk, ties: &mut TieBreak) -> Option<(usize, usize)> {
        self.fleet.learn(ask);
        let at = self.fleet.prices(ask).least(|equal| ties.replace(equal))?;
        Some((at, self.fleet.best_device(&ask.take, at)?))
    }

    fn placed(&mut self, at: usize, left: &DeviceHost) {
        self.fleet.set(at, left.clone());
    }
}
