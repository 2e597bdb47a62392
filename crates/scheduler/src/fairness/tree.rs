//! Claimants in a tree: what each holds counts for all above it, and siblings are kept in order of their shares.

use std::cmp::Ordering;

use super::{Amounts, Share, Weight};

/// A node of a [`Tree`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(u32);

/// A tree of claimants on one pool of resources. `T` is what the caller keeps at each.
///
/// Siblings stand in order of their shares, the smallest first; of equal ones, the one that was added first.
#[derive(Debug)]
pub struct Tree<T> {
    nodes: Vec<Option<TreeNode<T>>>,
    vacant: Vec<NodeIx>,
    total: Amounts,
    /// The total has changed since shares were computed.
    stale: bool,
    added: u64,
}

#[derive(Debug)]
struct TreeNode<T> {
    item: T,
    parent: Option<NodeIx>,
    depth: u32,
    weight: Weight,
    used: Amounts,
    rank: Rank,
    /// In order of their ranks.
    children: Vec<NodeIx>,
}

/// A node's rank among its siblings; no two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    share: Share,
    added: u64,
}

impl<T> Tree<T> {
    /// A tree of a root alone.
    pub fn new(root: T) -> Self {
        let mut tree =
            Self { nodes: Vec::new(), vacant: Vec::new(), total: Amounts::ZERO, stale: false, added: 0 };
        tree.insert(None, root, Weight::ONE);
        tree
    }

    /// The root, which is nobody's.
    pub fn root(&self) -> NodeIx {
        NodeIx(0)
    }

    /// Adds a node that holds nothing.
    pub fn add(&mut self, parent: NodeIx, item: T, weight: Weight) -> NodeIx {
        self.insert(Some(parent), item, weight)
    }

    /// Takes a node out, with what it holds.
    ///
    /// # Panics
    /// When it has children, or is the root.
    pub fn remove(&mut self, node: NodeIx) -> T {
        assert!(self.node(node).children.is_empty(), "a node with children is removed");
        self.discharge(node, self.node(node).used);
        let parent = self.node(node).parent.expect("the root stays");
        let at = self.position(parent, self.node(node).rank);
        self.node_mut(parent).children.remove(at);
        self.vacant.push(node);
        self.nodes[node.0 as usize].take().expect("it was just read").item
    }

    /// A node now holds more, and so does everything above it.
    pub fn charge(&mut self, node: NodeIx, amounts: Amounts) {
        self.change_used(node, |used| used.plus(amounts));
    }

    /// A node now holds less, and so does everything above it.
    pub fn discharge(&mut self, node: NodeIx, amounts: Amounts) {
        self.change_used(node, |used| used.minus(amounts));
    }

    /// How much more than its siblings a node should get.
    pub fn set_weight(&mut self, node: NodeIx, weight: Weight) {
        self.node_mut(node).weight = weight;
        if !self.stale {
            self.rerank(node);
        }
    }

    /// What all of them share. Takes effect with the next [`Self::refresh`]: changes of it come in crowds.
    pub fn set_total(&mut self, total: Amounts) {
        self.stale |= total != self.total;
        self.total = total;
    }

    /// Brings all shares in line with the total.
    pub fn refresh(&mut self) {
        if !std::mem::take(&mut self.stale) {
            return;
        }
        let total = self.total;
        for node in self.nodes.iter_mut().flatten() {
            node.rank.share = Share::of(node.used, total, node.weight);
        }
        for at in 0..self.nodes.len() {
            let Some(node) = &mut self.nodes[at] else { continue };
            let mut children = std::mem::take(&mut node.children);
            children.sort_unstable_by_key(|child| self.node(*child).rank);
            self.node_mut(NodeIx(at as u32)).children = children;
        }
    }

    /// What all of them share.
    pub fn total(&self) -> Amounts {
        self.total
    }

    /// What the caller keeps there.
    pub fn item(&self, node: NodeIx) -> &T {
        &self.node(node).item
    }

    /// What it and everything below it hold.
    pub fn used(&self, node: NodeIx) -> Amounts {
        self.node(node).used
    }

    /// Its share among its siblings.
    pub fn share(&self, node: NodeIx) -> Share {
        self.node(node).rank.share
    }

    /// What it hangs on.
    pub fn parent(&self, node: NodeIx) -> Option<NodeIx> {
        self.node(node).parent
    }

    /// Itself and all above it, the root last.
    pub fn path(&self, node: NodeIx) -> impl Iterator<Item = NodeIx> {
        std::iter::successors(Some(node), |node| self.parent(*node))
    }

    /// What hangs on it, the smallest share first.
    pub fn children(&self, node: NodeIx) -> impl Iterator<Item = NodeIx> {
        self.node(node).children.iter().copied()
    }

    /// Which of two nodes is served first: decided among the siblings where their paths part.
    pub fn compare(&self, a: NodeIx, b: NodeIx) -> Ordering {
        let (mut a, mut b) = (self.node(a), self.node(b));
        while a.depth > b.depth {
            a = self.above(a);
        }
        while b.depth > a.depth {
            b = self.above(b);
        }
        while a.parent != b.parent {
            (a, b) = (self.above(a), self.above(b));
        }
        a.rank.cmp(&b.rank)
    }

    fn insert(&mut self, parent: Option<NodeIx>, item: T, weight: Weight) -> NodeIx {
        self.added += 1;
        let node = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            NodeIx(u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 claimants"))
        });
        let rank = Rank { share: Share::default(), added: self.added };
        let depth = parent.map_or(0, |parent| self.node(parent).depth + 1);
        let (used, children) = (Amounts::ZERO, Vec::new());
        self.nodes[node.0 as usize] = Some(TreeNode { item, parent, depth, weight, used, rank, children });
        if let Some(parent) = parent {
            let at = self.position(parent, rank);
            self.node_mut(parent).children.insert(at, node);
        }
        node
    }

    fn change_used(&mut self, node: NodeIx, change: impl Fn(Amounts) -> Amounts) {
        let mut next = Some(node);
        while let Some(node) = next {
            let row = self.node_mut(node);
            row.used = change(row.used);
            next = row.parent;
            if !self.stale {
                self.rerank(node);
            }
        }
    }

    fn rerank(&mut self, node: NodeIx) {
        let row = self.node(node);
        let Some(parent) = row.parent else { return };
        let (old, new) = (row.rank, Rank { share: Share::of(row.used, self.total, row.weight), ..row.rank });
        let from = self.position(parent, old);
        let to = self.position(parent, new);
        self.node_mut(node).rank = new;
        let children = &mut self.node_mut(parent).children;
        if to > from {
            children[from..to].rotate_left(1);
        } else {
            children[to..=from].rotate_right(1);
        }
    }

    /// Where among a node's children one of that rank stands, or would.
    fn position(&self, parent: NodeIx, rank: Rank) -> usize {
        self.node(parent).children.partition_point(|child| self.node(*child).rank < rank)
    }

    fn above(&self, node: &TreeNode<T>) -> &TreeNode<T> {
        self.node(node.parent.expect("two nodes of a tree meet at its root"))
    }

    fn node(&self, node: NodeIx) -> &TreeNode<T> {
        self.nodes[node.0 as usize].as_ref().expect("a node is used after its removal")
    }

    fn node_mut(&mut self, node: NodeIx) -> &mut TreeNode<T> {
        self.nodes[node.0 as usize].as_mut().expect("a node is used after its removal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(amount: u64) -> Amounts {
        let mut amounts = Amounts::ZERO;
        amounts.0[Amounts::CPU] = amount;
        amounts
    }

    fn order(tree: &Tree<&'static str>, node: NodeIx) -> Vec<&'static str> {
        tree.children(node).map(|child| *tree.item(child)).collect()
    }

    #[test]
    fn siblings_stand_in_order_of_their_shares_and_then_of_age() {
        let mut tree = Tree::new("");
        tree.set_total(cpu(100));
        tree.refresh();
        let [a, b, c] = ["a", "b", "c"].map(|name| tree.add(tree.root(), name, Weight::ONE));
        assert_eq!(order(&tree, tree.root()), ["a", "b", "c"]);
        tree.charge(a, cpu(30));
        tree.charge(b, cpu(10));
        tree.charge(c, cpu(10));
        assert_eq!(order(&tree, tree.root()), ["b", "c", "a"]);
        tree.set_weight(a, Weight::from_milli(4000).unwrap());
        assert_eq!(order(&tree, tree.root()), ["a", "b", "c"]);
        tree.discharge(c, cpu(10));
        assert_eq!(order(&tree, tree.root()), ["c", "a", "b"]);
        assert_eq!(tree.remove(b), "b");
        assert_eq!(tree.used(tree.root()), cpu(30));
    }

    #[test]
    fn what_one_holds_counts_for_all_above_it() {
        let mut tree = Tree::new("");
        tree.set_total(cpu(100));
        tree.refresh();
        let [eng, ops] = ["eng", "ops"].map(|name| tree.add(tree.root(), name, Weight::ONE));
        let [dev, test] = ["dev", "test"].map(|name| tree.add(eng, name, Weight::ONE));
        tree.charge(dev, cpu(20));
        tree.charge(ops, cpu(10));
        assert_eq!(order(&tree, tree.root()), ["ops", "eng"]);
        assert_eq!(order(&tree, eng), ["test", "dev"]);
        assert!(tree.compare(ops, test).is_lt(), "their paths part below the root, where eng holds more");
        assert!(tree.compare(test, dev).is_lt());
        assert_eq!(tree.path(dev).map(|node| *tree.item(node)).collect::<Vec<_>>(), ["dev", "eng", ""]);
    }

    #[test]
    fn a_new_total_counts_from_the_next_refresh_on() {
        let memory = |amount| {
            let mut amounts = Amounts::ZERO;
            amounts.0[Amounts::MEMORY] = amount;
            amounts
        };
        let mut tree = Tree::new("");
        tree.set_total(cpu(10).plus(memory(100)));
        tree.refresh();
        let [a, b] = ["a", "b"].map(|name| tree.add(tree.root(), name, Weight::ONE));
        tree.charge(a, cpu(2));
        tree.charge(b, memory(10));
        assert_eq!(order(&tree, tree.root()), ["b", "a"]);
        tree.set_total(cpu(100).plus(memory(100)));
        assert_eq!(order(&tree, tree.root()), ["b", "a"]);
        tree.refresh();
        assert_eq!(order(&tree, tree.root()), ["a", "b"]);
    }
}
