//! Those that wait for the same, and what is known of the capacity that they wait for.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_model::{
    EvalId, Index,
    eval::Eval,
    store::{NodeSlot, Store},
};

use super::{
    capacity::{FreedNodes, KnownAt, Promise, PromisedCapacity},
    shape::Shape,
};

/// Nodes with capacity that are distinguished; with more of them it may be anywhere.
const NODES_MAX: usize = 64;
/// Of one shape that are tried at the same time where nothing shows how many find capacity, once they have found some.
const WINDOW_MAX: usize = 64;

/// One tenant's of one priority.
type Tenant = (Reverse<u8>, Arc<str>);

/// All that wait for the same.
#[derive(Debug)]
pub(super) struct ShapeQueue {
    pub shape: Shape,
    /// Oldest first.
    waiting: BTreeMap<Tenant, BTreeMap<(Index, EvalId), Arc<Eval>>>,
    /// Of whom the first has its turn in the round.
    in_round: BTreeSet<Tenant>,
    /// How many are being tried.
    trying: usize,
    /// As of then there was no capacity for any of them.
    known: KnownAt,
    /// Nodes that may have capacity since then.
    nodes: BTreeSet<NodeSlot>,
    /// Capacity may have come anywhere, or a quota may allow more.
    anywhere: KnownAt,
    /// How many are tried at the same time where nothing shows how many find capacity: twice as many after each that did.
    window: usize,
}

/// What is tried on the strength of what.
pub(super) enum TrialReason {
    /// There is capacity on a node, which is meant for it.
    Promised(Promise),
    /// There may be capacity.
    Unknown,
}

impl ShapeQueue {
    pub fn new(shape: Shape) -> Self {
        Self {
            shape,
            waiting: BTreeMap::new(),
            in_round: BTreeSet::new(),
            trying: 0,
            known: KnownAt::default(),
            nodes: BTreeSet::new(),
            anywhere: KnownAt::default(),
            window: 1,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.trying == 0
    }

    pub fn known(&self) -> KnownAt {
        self.known
    }

    pub fn add(&mut self, eval: Arc<Eval>) {
        self.waiting.entry(tenant(&eval)).or_default().insert((eval.create_index, eval.id), eval);
    }

    pub fn remove(&mut self, eval: &Eval) {
        let tenant = tenant(eval);
        let Some(waiting) = self.waiting.get_mut(&tenant) else { return };
        waiting.remove(&(eval.create_index, eval.id));
        if waiting.is_empty() {
            self.waiting.remove(&tenant);
        }
    }

    /// One that was tried found no capacity, in a state of that moment.
    pub fn learn(&mut self, known: KnownAt) {
        if known > self.known {
            (self.known, self.window) = (known, 1);
        }
    }

    /// One that was tried is tried no more.
    pub fn tried(&mut self, found_room: bool) {
        self.trying = self.trying.saturating_sub(1);
        if found_room {
            self.window = (2 * self.window).min(WINDOW_MAX);
        }
    }

    /// A node may have capacity since that moment.
    pub fn offer(&mut self, node: NodeSlot, moment: KnownAt) {
        if self.nodes.len() < NODES_MAX {
            self.nodes.insert(node);
        } else if !self.nodes.contains(&node) {
            self.offer_anywhere(moment);
        }
    }

    /// Capacity may have come anywhere.
    pub fn offer_anywhere(&mut self, moment: KnownAt) {
        self.anywhere = self.anywhere.latest(moment);
    }

    /// Whether one of them may find capacity.
    pub fn is_awake(&self) -> bool {
        !self.waiting.is_empty() && (!self.nodes.is_empty() || self.anywhere.is_newer_than(self.known))
    }

    /// The first of each tenant that has no turn in the round; they have it from now on.
    pub fn firsts(&mut self) -> impl Iterator<Item = Arc<Eval>> {
        let Self { waiting, in_round, .. } = self;
        let firsts = waiting.iter().filter(|(tenant, _)| in_round.insert((*tenant).clone()));
        firsts.filter_map(|(_, of_tenant)| Some(of_tenant.first_key_value()?.1.clone()))
    }

    /// It is the turn of the tenant of this one, which may not wait any more.
    pub fn end_turn(&mut self, eval: &Eval) {
        self.in_round.remove(&tenant(eval));
    }

    /// Whether one of them is being tried.
    pub fn is_tried(&self) -> bool {
        self.trying > 0
    }

    /// The one that is tried next of the tenant of this one.
    pub fn first(&self, eval: &Eval) -> Option<&Arc<Eval>> {
        Some(self.waiting.get(&tenant(eval))?.first_key_value()?.1)
    }

    /// Takes one out to be tried.
    pub fn begin(&mut self, eval: &Eval) {
        self.remove(eval);
        self.trying += 1;
    }

    /// What one can be tried on the strength of; none as long as nothing more comes.
    pub fn find_room(
        &mut self,
        store: &Store,
        eased: &FreedNodes,
        promised: &mut PromisedCapacity,
        count: u32,
    ) -> Option<TrialReason> {
        let Self { nodes, shape, known, .. } = self;
        nodes.retain(|node| eased.at(*node).is_newer_than(*known) && shape.has_capacity(store, *node));
        let mut is_unknown = self.anywhere.is_newer_than(*known);
        for node in &*nodes {
            match shape.holds_on(store, *node) {
                Some(one) => match promised.make(store, *node, one, count) {
                    Some(promise) => return Some(TrialReason::Promised(promise)),
                    None => continue,
                },
                None => is_unknown = true,
            }
        }
        (is_unknown && self.trying < self.window).then_some(TrialReason::Unknown)
    }
}

fn tenant(eval: &Eval) -> Tenant {
    (Reverse(eval.priority), eval.job.namespace.clone())
}
