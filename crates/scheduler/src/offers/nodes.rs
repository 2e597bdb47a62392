//! Nodes with what is free on them, who holds the rest, and which of them are worth a look.

use std::collections::{BTreeSet, HashMap};

use berth_model::{NodeId, Timestamp};
use fixedbitset::FixedBitSet;

use super::{Bundle, refusals::Refusals};
use crate::fairness::Amounts;

/// A node.
#[derive(Debug)]
pub struct OfferNode {
    /// Its id.
    pub id: NodeId,
    /// Resources that no member holds.
    pub free: Bundle,
    /// What was refused of it.
    pub refusals: Refusals,
    total: Bundle,
    /// What members hold; a member is in it once at most.
    held: Vec<(usize, Bundle)>,
    open: bool,
    /// When the first refusal ends, as noted in [`Nodes::wakes`].
    wake: Option<Timestamp>,
}

/// All nodes, by position.
#[derive(Debug, Default)]
pub struct Nodes {
    rows: Vec<Option<OfferNode>>,
    vacant: Vec<usize>,
    by_id: HashMap<NodeId, usize>,
    /// Something has changed since they were last looked at.
    dirty: FixedBitSet,
    /// A quota kept something of them from being offered.
    capped: FixedBitSet,
    /// Ends of refusals: one a node.
    wakes: BTreeSet<(Timestamp, usize)>,
    total: Amounts,
    /// Of the nodes that are open.
    free: Amounts,
}

impl Nodes {
    /// Where a node is.
    pub fn find(&self, id: NodeId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// What all nodes have.
    pub fn total(&self) -> Amounts {
        self.total
    }

    /// What is free on all open nodes.
    pub fn free(&self) -> Amounts {
        self.free
    }

    /// A node by its position.
    pub fn node(&self, at: usize) -> &OfferNode {
        self.rows[at].as_ref().expect("a node is used after its removal")
    }

    /// Adds a node on which nothing is held.
    pub fn insert(&mut self, id: NodeId, total: Bundle) {
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() - 1
        });
        self.total = self.total.plus(total.amounts);
        self.free = self.free.plus(total.amounts);
        let node = OfferNode {
            id,
            free: total.clone(),
            refusals: Refusals::default(),
            total,
            held: Vec::new(),
            open: true,
            wake: None,
        };
        self.rows[at] = Some(node);
        self.by_id.insert(id, at);
        self.dirty.grow_and_insert(at);
        self.capped.grow(at + 1);
    }

    /// Removes a node; returns who held what on it.
    pub fn remove(&mut self, at: usize) -> Vec<(usize, Bundle)> {
        let node = self.rows[at].take().expect("a node is removed once");
        self.total = self.total.minus(node.total.amounts);
        if node.open {
            self.free = self.free.minus(node.free.amounts);
        }
        self.by_id.remove(&node.id);
        self.vacant.push(at);
        self.dirty.set(at, false);
        self.capped.set(at, false);
        if let Some(until) = node.wake {
            self.wakes.remove(&(until, at));
        }
        node.held
    }

    /// Whether what is free on a node is offered.
    pub fn set_open(&mut self, at: usize, open: bool) {
        let node = self.rows[at].as_mut().expect("a node is used after its removal");
        if std::mem::replace(&mut node.open, open) != open {
            let free = node.free.amounts;
            self.free = if open { self.free.plus(free) } else { self.free.minus(free) };
            self.dirty.insert(at);
        }
    }

    /// A member holds more; the caller has seen that it is free.
    pub fn hold(&mut self, at: usize, member: usize, bundle: &Bundle) {
        let node = self.rows[at].as_mut().expect("a node is used after its removal");
        if node.open {
            self.free = self.free.minus(bundle.amounts);
        }
        node.free.remove(bundle);
        match node.held.iter_mut().find(|(holder, _)| *holder == member) {
            Some((_, held)) => held.add(bundle),
            None => node.held.push((member, bundle.clone())),
        }
    }

    /// What a member holds on a node.
    pub fn held(&self, at: usize, member: usize) -> Option<&Bundle> {
        self.node(at).held.iter().find(|(holder, _)| *holder == member).map(|(_, held)| held)
    }

    /// A member holds less; the caller has seen that it held it.
    pub fn release(&mut self, at: usize, member: usize, bundle: &Bundle) {
        let node = self.rows[at].as_mut().expect("a node is used after its removal");
        if let Some(position) = node.held.iter().position(|(holder, _)| *holder == member) {
            let held = &mut node.held[position].1;
            held.remove(bundle);
            if held.is_empty() {
                node.held.swap_remove(position);
            }
        }
        node.free.add(bundle);
        if node.open {
            self.free = self.free.plus(bundle.amounts);
        }
        self.dirty.insert(at);
    }

    /// A member refuses as much as `bundle`, or less, of a node.
    pub fn refuse(&mut self, at: usize, member: usize, bundle: &Bundle, until: Timestamp) {
        let node = self.rows[at].as_mut().expect("a node is used after its removal");
        node.refusals.add(member, bundle, until);
        self.note_wake(at);
    }

    /// Drops all refusals of a member, on whatever node.
    pub fn forget_refusals(&mut self, member: usize) {
        for at in 0..self.rows.len() {
            if self.rows[at].as_mut().is_some_and(|node| node.refusals.forget(member)) {
                self.note_wake(at);
            }
        }
    }

    /// Every node is worth a look: somebody wants offers who did not before.
    pub fn all_changed(&mut self) {
        for (at, node) in self.rows.iter().enumerate() {
            self.dirty.set(at, node.is_some());
        }
    }

    /// Nodes that a quota kept something of are worth a look.
    pub fn quotas_changed(&mut self) {
        self.dirty.union_with(&self.capped);
        self.capped.clear();
    }

    /// A quota kept something of a node from being offered.
    pub fn note_capped(&mut self, at: usize) {
        self.capped.insert(at);
    }

    /// The open nodes that are worth a look now; they will not be again until something changes.
    pub fn take_changed(&mut self, now: Timestamp) -> Vec<usize> {
        while let Some((_, at)) = self.wakes.first().filter(|(until, _)| *until <= now).copied() {
            let node = self.rows[at].as_mut().expect("only nodes that are there have refusals");
            node.refusals.expire(now);
            self.note_wake(at);
            self.dirty.insert(at);
        }
        if self.dirty.is_clear() {
            return Vec::new();
        }
        let changed = self.dirty.ones().filter(|at| self.node(*at).open).collect();
        self.dirty.clear();
        changed
    }

    /// All nodes, with what each has and who holds what.
    #[cfg(test)]
    pub fn books(&self) -> impl Iterator<Item = (&Bundle, &Bundle, &[(usize, Bundle)])> {
        self.rows.iter().flatten().map(|node| (&node.total, &node.free, node.held.as_slice()))
    }

    /// Positions on which a member holds something.
    pub fn held_by(&self, member: usize) -> Vec<usize> {
        let holds = |node: &OfferNode| node.held.iter().any(|(holder, _)| *holder == member);
        (0..self.rows.len()).filter(|at| self.rows[*at].as_ref().is_some_and(holds)).collect()
    }

    fn note_wake(&mut self, at: usize) {
        let node = self.rows[at].as_mut().expect("a node is used after its removal");
        let next = node.refusals.next_end();
        if let Some(old) = std::mem::replace(&mut node.wake, next).filter(|old| Some(*old) != next) {
            self.wakes.remove(&(old, at));
        }
        if let Some(until) = next {
            self.wakes.insert((until, at));
        }
    }
}
