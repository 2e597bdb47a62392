//! Outages of some nodes: silence, broken connections, restarts of the machine.

use berth_agent::lifecycle::{AllocRecord, Event, Node};
use berth_api::agent::AllocId;

use super::SimNode;
use crate::nodes::{
    NodesConfig, TaskChange,
    behaviour::OutageSequence,
    common::FleetContext,
    identity::{SeedPurpose, seed_of},
    timers::TimerEvent,
};

/// The outages of one node.
#[derive(Debug)]
pub(super) struct NodeOutages {
    flapping: Option<OutageSequence>,
    silence: Option<OutageSequence>,
    reboots: Option<OutageSequence>,
    /// The one that comes next.
    next: Option<Disconnection>,
}

/// A break of a node's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::nodes) struct Disconnection {
    /// How long the connection stays down, in nanoseconds.
    pub lasts_ns: u64,
    /// The machine restarts meanwhile.
    pub reboots: bool,
}

impl NodeOutages {
    pub fn of(config: &NodesConfig, number: u32) -> Option<Self> {
        let (behaviour, seed) = (&config.behaviour, |purpose| seed_of(config, number, purpose));
        let flapping = behaviour.flapping.of(seed(SeedPurpose::Flapping));
        let silence = behaviour.silence.of(seed(SeedPurpose::Silence));
        let reboots = behaviour.reboots.of(seed(SeedPurpose::Reboots));
        let any = flapping.is_some() || silence.is_some() || reboots.is_some();
        any.then_some(Self { flapping, silence, reboots, next: None })
    }

    /// When the connection breaks next, in nanoseconds from now; remembers how.
    fn plan_break(&mut self) -> Option<u64> {
        let flapping = self.flapping.as_mut().map(|recurring| (recurring.next(), false));
        let reboots = self.reboots.as_mut().map(|recurring| (recurring.next(), true));
        let ((after_ns, lasts_ns), reboots) = flapping.into_iter().chain(reboots).min()?;
        self.next = Some(Disconnection { lasts_ns, reboots });
        Some(after_ns)
    }
}

/// Whether a node's connection breaks by itself: then it must be its own.
pub(in crate::nodes) fn breaks(config: &NodesConfig, number: u32) -> bool {
    NodeOutages::of(config, number)
        .is_some_and(|outages| outages.flapping.is_some() || outages.reboots.is_some())
}

impl SimNode {
    /// Plans the first of each of its troubles.
    pub fn plan_troubles(&mut self, now_ns: u64, common: &mut FleetContext) {
        self.plan_break(now_ns, common);
        self.plan_silence(now_ns, common);
    }

    /// Plans the next break of its connection.
    pub fn plan_break(&mut self, now_ns: u64, common: &mut FleetContext) {
        if let Some(after_ns) = self.outages.as_mut().and_then(|outages| outages.plan_break()) {
            common.timers.add(now_ns.saturating_add(after_ns), self.position, TimerEvent::Break);
        }
    }

    /// The break that is due now.
    pub fn take_break(&mut self) -> Option<Disconnection> {
        self.outages.as_mut()?.next.take()
    }

    fn plan_silence(&mut self, now_ns: u64, common: &mut FleetContext) {
        let Some(silence) = self.outages.as_mut().and_then(|outages| outages.silence.as_mut()) else {
            return;
        };
        let (after_ns, lasts_ns) = silence.next();
        let from_ns = now_ns.max(self.silent_until_ns).saturating_add(after_ns);
        common.timers.add(from_ns, self.position, TimerEvent::Silence { lasts_ns });
    }

    pub(super) fn fall_silent(&mut self, lasts_ns: u64, now_ns: u64, common: &mut FleetContext) {
        self.silent_until_ns = now_ns.saturating_add(lasts_ns);
        self.plan_silence(now_ns, common);
    }

    /// Its machine starts again: the agent takes up what it had written down, and finds no task alive.
    pub fn reboot(&mut self, now_ns: u64, common: &mut FleetContext) {
        let records: Vec<AllocRecord> =
            self.life.allocs().filter_map(|alloc| self.life.record(alloc.id())).collect();
        let (fence, config) = (self.session.fence(), common.config.clone());
        self.mocks.iter().for_each(|mock| self.note(mock.of, TaskChange::Ended, common));
        self.boots += 1;
        self.session = super::session(&config, self.boots);
        self.session.restore_fence(fence);
        self.life = Node::new(seed_of(&config, self.number, SeedPurpose::Restarts));
        self.mocks.clear();
        (self.wake_ns, self.silent_until_ns) = (u64::MAX, 0);
        let mut actions = Vec::new();
        for record in records {
            let id = AllocId::from_slice(&record.alloc_id);
            if let (Some(id), Some(status), false) = (id, &record.status, record.forgotten) {
                self.session.restore(id, record.revision(), status);
            }
            let restored = self.life.restore(record, &mut common.groups, &mut actions);
            restored.expect("a record that was just made");
        }
        actions.into_iter().for_each(|action| self.act(action, now_ns, common));
        self.happens(Event::Tick, now_ns, common);
    }
}
