//! Piles on the shelves of some groups of nodes: for each group, a shelf for each size.

use berth_model::store::NodeSlot;
use rustc_hash::FxHashMap;

use super::{
    PlaceableNode,
    pile::{NodeRank, Pile, PileKind},
    shelf::{PileEntry, PilePosition, Shelf},
    size::Sizes,
};
use crate::scores::Powers;

/// Nodes in piles on shelves.
#[derive(Debug, Default)]
pub struct Shelves {
    /// Those of no nodes wait to be used again.
    piles: Vec<Pile>,
    unused: Vec<u32>,
    by_kind: FxHashMap<PileKind, u32>,
    /// The pile of each node and its seat there, by slot.
    nodes: Vec<Option<(u32, NodeRank)>>,
    shelves: Vec<Shelf>,
    by_size: FxHashMap<(u32, u32), u32>,
    groups: Vec<Vec<u32>>,
}

impl Shelves {
    /// All shelves, by number.
    pub fn all(&self) -> &[Shelf] {
        &self.shelves
    }

    /// The numbers of a group's shelves.
    pub fn of(&self, group: u32) -> &[u32] {
        self.groups.get(group as usize).map_or(&[], Vec::as_slice)
    }

    /// A pile.
    pub fn pile(&self, pile: u32) -> &Pile {
        &self.piles[pile as usize]
    }

    /// A node is of this kind now, or of none.
    pub fn set(&mut self, slot: NodeSlot, now: Option<(PileKind, PlaceableNode)>, sizes: &mut Sizes) {
        let at = slot.0 as usize;
        if at >= self.nodes.len() {
            self.nodes.resize(at + 1, None);
        }
        if let Some((pile, rank)) = self.nodes[at] {
            self.take(pile, rank);
        }
        self.nodes[at] = now.map(|(kind, node)| (self.put(kind, node, sizes), node.rank));
    }

    fn put(
        &mut self,
        kind: PileKind,
        PlaceableNode { rank, class, .. }: PlaceableNode,
        sizes: &mut Sizes,
    ) -> u32 {
        if let Some(pile) = self.by_kind.get(&kind) {
            self.piles[*pile as usize].add((rank, class));
            return *pile;
        }
        let id =
            self.unused.pop().unwrap_or_else(|| u32::try_from(self.piles.len()).expect("no more than nodes"));
        let size = sizes.size_of(kind.capacity);
        let powers = Powers::of(kind.free, kind.capacity);
        let position = self.lay(PileEntry { kind, pile: id, powers }, size);
        let pile = Pile::new(kind, position, (rank, class));
        match self.piles.get_mut(id as usize) {
            Some(unused) => *unused = pile,
            None => self.piles.push(pile),
        }
        self.by_kind.insert(kind, id);
        id
    }

    fn lay(&mut self, entry: PileEntry, size: u32) -> PilePosition {
        let shelf = self.shelf(entry.kind.group, size);
        let on = &mut self.shelves[shelf as usize];
        if on.is_crowded() {
            on.refine();
            on.positions(shelf).for_each(|(pile, position)| self.piles[pile as usize].position = position);
        }
        on.put(shelf, entry)
    }

    fn take(&mut self, id: u32, rank: NodeRank) {
        let pile = &mut self.piles[id as usize];
        pile.remove(rank);
        let Pile { kind, position, .. } = *pile;
        if pile.is_empty() {
            if let Some(moved) = self.shelves[position.shelf as usize].take(position) {
                self.piles[moved as usize].position = position;
            }
            self.by_kind.remove(&kind);
            self.unused.push(id);
        }
    }

    fn shelf(&mut self, group: u32, size: u32) -> u32 {
        *self.by_size.entry((group, size)).or_insert_with(|| {
            let shelf = u32::try_from(self.shelves.len()).expect("no more shelves than nodes");
            self.shelves.push(Shelf::new(size));
            let at = group as usize;
            if at >= self.groups.len() {
                self.groups.resize(at + 1, Vec::new());
            }
            self.groups[at].push(shelf);
            shelf
        })
    }
}
