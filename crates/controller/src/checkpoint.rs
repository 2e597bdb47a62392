//! What a server has kept on its disk of what an agent had reported, for when all that is in memory is gone: it stands in for
//! the agent's report where the agent's digest shows that it would say the same.

use std::{collections::BTreeSet, sync::Arc};

use berth_model::{
    AllocId, Index, NodeId,
    alloc::ClientStatus,
    observed::{Observed, ObservedAlloc},
    store::{NodeSlot, Store},
};

use crate::{
    event::{Hello, WelcomeMode},
    messages::ReportVersion,
};

/// What was recorded of one node at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeCheckpoint {
    /// The cluster of whose state it is.
    pub cluster: u128,
    /// Where that state was restored last.
    pub restored_at: Index,
    /// The node's registration.
    pub created_at: Index,
    /// How far the node's agent had come.
    pub version: ReportVersion,
    /// The latest of each of the node's allocations that had not ended in the log.
    pub allocs: Vec<Arc<ObservedAlloc>>,
}

/// What of it an agent that is let in need not report again.
#[derive(Debug, PartialEq)]
pub(crate) enum UsableCheckpoint {
    /// All that the agent holds is this.
    All(Vec<Arc<ObservedAlloc>>),
    /// What the agent holds is this, but for what it reports as changed after the change with this number.
    Before(u64, Vec<Arc<ObservedAlloc>>),
}

impl UsableCheckpoint {
    /// What the agent is to report.
    pub fn mode(&self) -> WelcomeMode {
        match self {
            Self::All(_) => WelcomeMode::Equal,
            Self::Before(seq, _) => WelcomeMode::FromSeq(*seq),
        }
    }
}

impl NodeCheckpoint {
    /// What is published of a node; none where its agent has reported nothing.
    pub fn of(store: &Store, observed: &Observed, slot: NodeSlot) -> Option<Self> {
        let row = store.nodes().row(slot)?;
        let reported = observed.reported(slot, row.id)?;
        let live = store.nodes().live(row);
        let seen = live.filter_map(|slot| Some(&observed.get(slot, store.allocs().row(slot)?.id)?.alloc));
        Some(Self {
            cluster: store.cluster().id,
            restored_at: store.restored_at(),
            created_at: row.create_index,
            version: ReportVersion {
                epoch: reported.epoch,
                seq: reported.seq,
                confirmed: reported.confirmed,
            },
            allocs: seen.filter(|alloc| alloc.hash != 0).cloned().collect(),
        })
    }

    /// What of this is as the agent says that it is, which introduces itself now. None when all is to be reported again.
    pub(crate) fn usable(&self, store: &Store, hello: &Hello) -> Option<UsableCheckpoint> {
        let id = hello.node_id();
        let (_, row) = store.node(id)?;
        let cluster = store.cluster().id;
        let is_of_this_state = (self.cluster, self.restored_at) == (cluster, store.restored_at());
        // An agent that held the state of another cluster is sent everything again, and reports everything again.
        if !is_of_this_state || self.created_at != row.create_index || hello.cluster != cluster {
            return None;
        }
        let all: BTreeSet<AllocId> = self.allocs.iter().map(|alloc| alloc.id).collect();
        if all.len() != self.allocs.len() {
            return None;
        }
        if digest(&self.allocs) == hello.observed_digest {
            return Some(UsableCheckpoint::All(self.allocs.clone()));
        }
        let is_live = |alloc: &&Arc<ObservedAlloc>| live_on(store, id, alloc.id);
        let (live, gone): (Vec<_>, Vec<_>) = self.allocs.iter().partition(is_live);
        let live: Vec<_> = live.into_iter().cloned().collect();
        if digest(&live) == hello.observed_digest {
            return Some(UsableCheckpoint::All(live));
        }
        let ReportVersion { epoch, seq, confirmed } = self.version;
        let goes_on = confirmed && epoch == hello.epoch && hello.seq > seq && !row.status.is_silent();
        (goes_on && gone.iter().all(|alloc| has_ended(store, alloc)))
            .then_some(UsableCheckpoint::Before(seq, live))
    }
}

/// As the agent computes it.
fn digest(allocs: &[Arc<ObservedAlloc>]) -> u128 {
    allocs.iter().map(|alloc| alloc.hash).fold(0, u128::wrapping_add)
}

/// Whether an allocation is on a node, and goes on by the log.
fn live_on(store: &Store, node: NodeId, alloc: AllocId) -> bool {
    let row = store.alloc(alloc).map(|(_, row)| row).filter(|row| !row.is_terminal());
    row.and_then(|row| store.nodes().row(row.node)).is_some_and(|owner| owner.id == node)
}

/// Whether the agent itself has said that an allocation has ended: of what was declared lost, or is gone, it may hold anything.
fn has_ended(store: &Store, alloc: &ObservedAlloc) -> bool {
    let by_the_log = || {
        let (_, row) = store.alloc(alloc.id)?;
        Some(row.is_terminal() && row.client != ClientStatus::Lost)
    };
    alloc.status.is_terminal() || by_the_log().unwrap_or(false)
}
