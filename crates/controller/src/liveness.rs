//! Which nodes have been silent for too long. Silence is measured by the time in which this server listened, so that
//! neither a pause of the server nor a step of its clock is taken for the death of nodes.

use std::{collections::BTreeMap, time::Duration};

use berth_model::{
    NodeId, Timestamp,
    store::{NodeRow, NodeSlot, Store},
};

/// Time between heartbeats on a cluster of up to [`NODES_AT_SHORT_HEARTBEAT`] nodes.
const HEARTBEAT_SHORT: Duration = Duration::from_secs(5);
/// Time between heartbeats on a larger one.
const HEARTBEAT_LONG: Duration = Duration::from_secs(9);
const NODES_AT_SHORT_HEARTBEAT: usize = 10_000;
/// A node is down after this many heartbeats have not come.
const MISSED_MAX: u32 = 2;
/// Agents whose server is gone have at least this long to come back before their nodes are declared down: twice the longest
/// time that an agent waits between two tries, so that one try may fail.
pub const GRACE_MIN: Duration = Duration::from_secs(27);
/// They have so many heartbeats at least: an agent learns of a server that says nothing only from the heartbeat after, which
/// goes unanswered for two more.
const GRACE_HEARTBEATS: u32 = 5;
/// Nodes that were declared lost within this time count among those that are lost at a time.
const LOST_WINDOW: Duration = Duration::from_secs(300);
/// So many nodes may be lost at a time however few there are.
const LOST_ALWAYS: usize = 5;

/// How often agents are to give a sign of life.
pub(crate) fn heartbeat_every(store: &Store) -> Duration {
    if store.nodes().len() > NODES_AT_SHORT_HEARTBEAT { HEARTBEAT_LONG } else { HEARTBEAT_SHORT }
}

/// How long agents may take to come back once the server that they spoke through is gone.
pub(crate) fn grace(store: &Store) -> Duration {
    GRACE_MIN.max(heartbeat_every(store) * GRACE_HEARTBEATS)
}

/// When each node was last heard, since this server leads.
#[derive(Debug)]
pub(crate) struct Liveness {
    heard_at: BTreeMap<NodeId, Duration>,
    /// Nodes that were up when this server began to lead, or when the server that they spoke through fell silent, and have not
    /// been heard since: until when they may be.
    unheard: BTreeMap<NodeId, Duration>,
}

impl Liveness {
    /// This server leads from now on: nobody has been heard.
    pub fn begin(store: &Store, now: Duration) -> Self {
        let up = store.nodes().iter().filter(|(_, row)| !row.status.is_silent());
        let until = now + grace(store);
        Self { heard_at: BTreeMap::new(), unheard: up.map(|(_, row)| (row.id, until)).collect() }
    }

    /// The server through which a node spoke is gone: its agent has to notice, and to find another. A node that is waited
    /// for already gets no more time, or a server that comes and goes would keep a dead node alive.
    pub fn excuse(&mut self, node: NodeId, store: &Store, now: Duration) {
        if self.heard_at.remove(&node).is_some() {
            self.unheard.insert(node, now + grace(store));
        }
    }

    /// This server was cut off for so long, and is heard again: nobody could reach it meanwhile. As with [`Self::excuse`], those
    /// who are waited for already get no more than that time.
    pub fn resume(&mut self, cut: Duration, store: &Store, now: Duration) {
        self.unheard.values_mut().for_each(|until| *until += cut);
        let until = now + grace(store);
        self.unheard.extend(std::mem::take(&mut self.heard_at).into_keys().map(|node| (node, until)));
    }

    /// A sign of life.
    pub fn heard(&mut self, node: NodeId, now: Duration) {
        if self.heard_at.insert(node, now).is_none() {
            self.unheard.remove(&node);
        }
    }

    /// A node is down: it is heard of again when its agent comes back.
    pub fn down(&mut self, node: NodeId) {
        self.unheard.remove(&node);
        self.heard_at.remove(&node);
    }

    /// What is to become of the nodes that have been silent for too long and are not declared lost yet.
    ///
    /// Where many fall silent at once, a switch or the network of this server is broken more often than the nodes are: to
    /// take their work for lost would start all of it again, on what is left. None of them is declared lost then.
    pub fn judge(&self, store: &Store, now: Duration, time: Timestamp) -> SilenceVerdict {
        let overdue: Vec<NodeId> = self.silent(store, now, MISSED_MAX + 1).collect();
        if overdue.is_empty() || !self.are_too_many(store, now, time) {
            return SilenceVerdict { lost: overdue, held: Vec::new() };
        }
        let (held, lost) = overdue.into_iter().partition(|id| store.node(*id).is_some_and(counts));
        SilenceVerdict { lost, held }
    }

    /// How many nodes have not been heard since the server that they spoke through is gone, or since this one leads.
    pub fn unheard(&self) -> usize {
        self.unheard.len()
    }

    /// The nodes that are up and have not been heard for so many heartbeats.
    fn silent(&self, store: &Store, now: Duration, missed: u32) -> impl Iterator<Item = NodeId> {
        let allowed = heartbeat_every(store) * missed;
        let stopped = self.heard_at.iter().filter(move |(_, at)| now.saturating_sub(**at) > allowed);
        let never = self.unheard.iter().filter(move |(_, until)| now >= **until);
        let is_up = |id: &NodeId| store.node(*id).is_some_and(|(_, row)| !row.status.is_silent());
        stopped.map(|(id, _)| id).chain(never.map(|(id, _)| id)).copied().filter(is_up)
    }

    /// Whether more nodes are silent than may be lost at a time. A heartbeat earlier than each may be declared so: what
    /// fell silent together is seen together, and not bit by bit.
    fn are_too_many(&self, store: &Store, now: Duration, time: Timestamp) -> bool {
        let late =
            self.silent(store, now, MISSED_MAX).filter(|id| store.node(*id).is_some_and(counts)).count();
        let (mut up, mut lost) = (0, 0);
        for (slot, row) in store.nodes().iter() {
            if !row.status.is_silent() {
                up += 1;
            } else if counts((slot, row)) && is_recent(store, slot, time) {
                lost += 1;
            }
        }
        let percent = usize::from(store.scheduler_config().lost_nodes_max_percent());
        let allowed = if percent >= 100 { usize::MAX } else { (up + lost) * percent / 100 };
        late + lost > allowed.max(LOST_ALWAYS)
    }
}

/// What is to become of silent nodes.
#[derive(Debug, Default)]
pub(crate) struct SilenceVerdict {
    /// They are to be declared lost.
    pub lost: Vec<NodeId>,
    /// They would be, were not too many silent at once; ascending but for those that were never heard.
    pub held: Vec<NodeId>,
}

/// Whether a node is one of those of which not too many may be lost: operators take away those that are closed to work once
/// nothing runs there, as many as they like.
fn counts((_, row): (NodeSlot, &NodeRow)) -> bool {
    row.eligible || !row.live.is_empty()
}

fn is_recent(store: &Store, slot: NodeSlot, time: Timestamp) -> bool {
    let lost_at = store.nodes().detail(slot).map_or(Timestamp::default(), |detail| detail.status_at);
    u128::from(time.0.saturating_sub(lost_at.0)) < LOST_WINDOW.as_nanos()
}

#[cfg(test)]
mod tests {
    use berth_model::{Index, command::Command, command::Entry, node::Node, resources::Resources};

    use super::*;

    #[test]
    fn a_majority_that_comes_and_goes_does_not_keep_a_dead_node_alive() {
        let mut store = Store::default();
        for (index, name) in [(1, "dead"), (2, "well")] {
            let node = Node::new(NodeId(index.into()), name, Resources::default());
            let register = Command::RegisterNode(Box::new(node));
            store.apply(Entry::new(Index(index), Timestamp(0), vec![register]));
        }
        let seconds = Duration::from_secs;
        let mut liveness = Liveness::begin(&store, seconds(0));
        for id in [1, 2] {
            liveness.heard(NodeId(id), seconds(1));
        }
        let mut lost = Vec::new();
        // Cut off for two seconds of twenty.
        for round in 1..10 {
            let now = seconds(round * 20);
            liveness.resume(seconds(2), &store, now);
            liveness.heard(NodeId(2), now + seconds(5));
            lost.extend(
                liveness.judge(&store, now + seconds(5), Timestamp(0)).lost.first().map(|id| (round, *id)),
            );
        }
        assert_eq!(lost.first(), Some(&(3, NodeId(1))), "its grace and the time of the cuts are over");
        assert!(lost.iter().all(|(_, id)| *id == NodeId(1)), "{lost:?}");
    }
}
