//! One cycle: guarantees first, then everybody by fair share.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use berth_model::Timestamp;
use fixedbitset::FixedBitSet;

use super::{
    Bundle,
    allocator::Allocator,
    event::Offer,
    roles::{Claimant, RoleIx},
};
use crate::fairness::{Amounts, NodeIx, Share};

/// Places walked past in the order of shares before it is asked whether comparing those that are allowed is cheaper.
const WALK_MAX: usize = 32;
/// So few that are allowed are compared rather than walked to.
const COMPARED_MAX: usize = 64;

impl Allocator {
    /// Offers what is free on nodes that have changed, nodes in the order in which they were added. A node is offered as one
    /// piece, but where a quota cuts it. Whoever is offered something holds it until it is recovered.
    pub fn cycle(&mut self, now: Timestamp) -> Vec<Offer> {
        let nodes = self.nodes.take_changed(now);
        if nodes.is_empty() {
            return Vec::new();
        }
        self.roles.tree.refresh();
        let offers = Vec::with_capacity(nodes.len());
        let mut cycle = OfferCycle {
            allocator: self,
            offers,
            made: BTreeMap::new(),
            allowed: FixedBitSet::new(),
            passed: LastWalk::default(),
        };
        if cycle.allocator.roles.has_quotas() {
            cycle.meet_guarantees(&nodes);
        }
        for node in nodes {
            cycle.share_out(node);
        }
        cycle.offers
    }
}

struct OfferCycle<'a> {
    allocator: &'a mut Allocator,
    offers: Vec<Offer>,
    /// Offers made of a node for the sake of guarantees, with their members: they grow, rather than that a second one is made.
    made: BTreeMap<usize, Vec<(usize, usize)>>,
    /// Members that may be offered the node at hand; kept to spare an allocation a node.
    allowed: FixedBitSet,
    passed: LastWalk,
}

/// Where the last walk ended. Nodes that the same members refuse come in rows, and who was passed by once is passed by
/// again: nothing is charged to it, and its place stays before that of whoever was served.
#[derive(Default)]
struct LastWalk {
    /// Members that were allowed.
    allowed: FixedBitSet,
    /// Among whose children, and how many of them have no one allowed.
    tree_node: Option<(NodeIx, usize)>,
}

impl OfferCycle<'_> {
    /// Roles that hold less than they are guaranteed come first, the one with the smallest share before others.
    fn meet_guarantees(&mut self, nodes: &[usize]) {
        let roles = &self.allocator.roles;
        let share = |role: RoleIx| roles.tree.share(roles.tree_node(role));
        let mut short: BTreeSet<(Share, RoleIx)> = roles.short().map(|role| (share(role), role)).collect();
        for node in nodes {
            if short.is_empty() {
                return;
            }
            self.look_at(*node);
            let mut next = short.first().copied();
            while let Some(at) = next.filter(|_| self.is_worth(*node) && !self.allowed.is_clear()) {
                let role = at.1;
                if self.meet_guarantee(*node, role) {
                    short.remove(&at);
                    let roles = &self.allocator.roles;
                    if !roles.shortfall(role).is_zero() {
                        short.insert((roles.tree.share(roles.tree_node(role)), role));
                    }
                }
                next = short.range((Bound::Excluded(at), Bound::Unbounded)).next().copied();
            }
        }
    }

    /// Offers a member of a role, or of one below it, what it is still guaranteed; reports whether there was one.
    fn meet_guarantee(&mut self, node: usize, role: RoleIx) -> bool {
        let tree_node = self.allocator.roles.tree_node(role);
        let Some(member) = self.poorest(tree_node) else { return false };
        let roles = &self.allocator.roles;
        let of = self.allocator.frameworks.member(member).role;
        let (entitled, spare) = (roles.entitled(of), self.spare());
        let free = self.free(node);
        let mut part = Amounts::ZERO;
        for at in 0..part.0.len() {
            // What it is not guaranteed, or has enough of, comes along as far as nobody else is guaranteed it.
            let most = if entitled.0[at] > 0 { entitled.0[at] } else { spare.0[at] };
            part.0[at] = free.0[at].min(most);
        }
        let part = part.min(roles.room(of));
        if part.min(roles.shortfall(role)).is_zero() {
            return false;
        }
        let Some(offer) = self.offer(node, member, part) else { return false };
        let offers = self.made.entry(node).or_default();
        if !offers.iter().any(|(of, _)| *of == member) {
            offers.push((member, offer));
        }
        true
    }

    /// Offers a node to whoever has the smallest share, and what a quota leaves of it to those that come next.
    fn share_out(&mut self, node: usize) {
        if !self.is_worth(node) {
            return;
        }
        self.look_at(node);
        let root = self.allocator.roles.tree.root();
        if !self.allocator.roles.has_quotas() {
            if let Some(member) = self.poorest(root) {
                self.offer(node, member, self.free(node));
            }
            return;
        }
        while self.is_worth(node) && self.allocator.config.is_worth(self.free(node).min(self.spare())) {
            let Some(member) = self.poorest(root) else { break };
            let part = self.part_for(member, self.free(node));
            if self.allocator.config.is_worth(part) {
                self.offer(node, member, part);
                self.allowed.set(member, false);
            } else {
                // What keeps it from one keeps it from all of the role, and of the roles below it.
                let role = self.allocator.frameworks.member(member).role;
                let members = self.allocator.roles.members_below(role);
                members.into_iter().for_each(|member| self.allowed.set(member, false));
            }
        }
        if self.is_worth(node) {
            self.allocator.nodes.note_capped(node);
        }
    }

    /// What of `free` a member may have, its role's limits and other roles' guarantees considered.
    fn part_for(&self, member: usize, free: Amounts) -> Amounts {
        let (roles, role) = (&self.allocator.roles, self.allocator.frameworks.member(member).role);
        free.min(self.spare().plus(roles.entitled(role))).min(roles.room(role))
    }

    /// What is free anywhere and guaranteed to nobody.
    fn spare(&self) -> Amounts {
        self.allocator.nodes.free().minus(self.allocator.roles.needed())
    }

    fn is_worth(&self, node: usize) -> bool {
        self.allocator.config.is_worth(self.free(node))
    }

    fn free(&self, node: usize) -> Amounts {
        self.allocator.nodes.node(node).free.amounts
    }

    /// Finds out who may be offered a node.
    fn look_at(&mut self, node: usize) {
        let node = self.allocator.nodes.node(node);
        self.allowed.clone_from(self.allocator.frameworks.active());
        node.refusals.subtract_from(&mut self.allowed, &node.free);
        // With quotas, who is passed by may be allowed again.
        if self.allocator.roles.has_quotas() || self.passed.allowed != self.allowed {
            self.passed.allowed.clone_from(&self.allowed);
            self.passed.tree_node = None;
        }
    }

    /// Offers part of a node, with all its ports, unless that is too little or was refused. Tells where the offer stands.
    fn offer(&mut self, node: usize, member: usize, part: Amounts) -> Option<usize> {
        let row = self.allocator.nodes.node(node);
        let bundle = Bundle { amounts: part, ports: row.free.ports.clone() };
        if !self.allocator.config.is_worth(part) || row.refusals.refuses(member, &bundle) {
            return None;
        }
        let id = row.id;
        self.allocator.hold(node, member, &bundle);
        let offer = self.made.get(&node).and_then(|offers| offers.iter().find(|(of, _)| *of == member));
        if let Some((_, offer)) = offer.copied() {
            self.offers[offer].bundle.add(&bundle);
            return Some(offer);
        }
        let member = self.allocator.frameworks.member(member);
        let role = self.allocator.roles.path(member.role).clone();
        self.offers.push(Offer { framework: member.framework, role, node: id, bundle });
        Some(self.offers.len() - 1)
    }

    /// Who is next among those that are allowed and stand below a place.
    fn poorest(&mut self, below: NodeIx) -> Option<usize> {
        let mut walk = self.walk(below, &mut { WALK_MAX });
        if matches!(walk, WalkEnd::TooFar) {
            if self.allowed.ones().nth(COMPARED_MAX).is_none() {
                return self.compare(below);
            }
            walk = self.walk(below, &mut { usize::MAX });
        }
        let WalkEnd::Found { member, tree_node, at } = walk else { return None };
        self.passed.tree_node = Some((tree_node, at));
        Some(member)
    }

    /// Walks in the order of shares to the first that is allowed.
    fn walk(&self, tree_node: NodeIx, steps: &mut usize) -> WalkEnd {
        let tree = &self.allocator.roles.tree;
        let passed = self.passed.tree_node.filter(|(of, _)| *of == tree_node).map_or(0, |(_, passed)| passed);
        for (at, child) in tree.children(tree_node).enumerate().skip(passed) {
            let Some(left) = steps.checked_sub(1) else { return WalkEnd::TooFar };
            *steps = left;
            match *tree.item(child) {
                Claimant::Member(member) if self.allowed.contains(member) => {
                    return WalkEnd::Found { member, tree_node, at };
                }
                Claimant::Member(_) => {}
                Claimant::Role | Claimant::Members => match self.walk(child, steps) {
                    WalkEnd::Nobody => {}
                    ended => return ended,
                },
            }
        }
        WalkEnd::Nobody
    }

    /// Compares all that are allowed.
    fn compare(&self, below: NodeIx) -> Option<usize> {
        let (tree, frameworks) = (&self.allocator.roles.tree, &self.allocator.frameworks);
        let tree_node = |member: &usize| frameworks.member(*member).tree_node;
        let inside =
            |member: &usize| below == tree.root() || tree.path(tree_node(member)).any(|at| at == below);
        let allowed = self.allowed.ones().filter(inside);
        allowed.min_by(|a, b| tree.compare(tree_node(a), tree_node(b)))
    }
}

/// How a walk ends.
enum WalkEnd {
    /// At a member; how many children of its place come before it.
    Found { member: usize, tree_node: NodeIx, at: usize },
    /// Nobody is allowed.
    Nobody,
    /// After as many steps as it may take.
    TooFar,
}
