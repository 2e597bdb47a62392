//! A copy-on-write map from 128-bit ids to slots, ordered by id.
//!
//! A trie of the ids' bits, four a level, whose leaves are short sorted arrays. Ids are drawn at random, so it is balanced
//! without any search on the way down: with four million ids, a lookup waits for memory twice, where one in a tree of
//! sorted keys waits at every level.

use std::{
    array,
    marker::PhantomData,
    ops::{Bound, RangeBounds},
    slice,
    sync::Arc,
};

use super::slab::Slot;

/// Bits of an id that choose the branch of a level.
const DIGIT_BITS: u32 = 4;
/// Branches of a node. A write after a clone counts another owner of each of them, on every level.
const FANOUT: usize = 1 << DIGIT_BITS;
/// Ids of a leaf; one with more is split.
const LEAF_MAX: usize = 48;
/// Ids below a branch at which it becomes a leaf again. Far below what splits it, so that neither happens again soon.
const LEAF_AGAIN: usize = LEAF_MAX / 3;

/// A map from ids `K` to slots `S`. Clones in O(1); a write after a clone copies the path to one leaf.
#[derive(Debug)]
pub struct IdMap<K, S> {
    root: TreeNode,
    len: usize,
    types: PhantomData<(K, S)>,
}

#[derive(Debug, Clone)]
enum TreeNode {
    Branch(Arc<[Self; FANOUT]>),
    /// Sorted by id, without spare room: there are hundreds of thousands of them.
    Leaf(Arc<[IdSlot]>),
}

/// An id and its slot, in 20 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(Rust, packed(4))]
struct IdSlot {
    id: u128,
    slot: u32,
}

impl<K, S> Clone for IdMap<K, S> {
    fn clone(&self) -> Self {
        Self { root: self.root.clone(), len: self.len, types: PhantomData }
    }
}

impl<K, S> Default for IdMap<K, S> {
    fn default() -> Self {
        Self { root: TreeNode::default(), len: 0, types: PhantomData }
    }
}

impl Default for TreeNode {
    fn default() -> Self {
        Self::Leaf(Arc::default())
    }
}

/// The branch that an id takes on a level, counted from the root.
fn digit(id: u128, level: u32) -> usize {
    (id >> (u128::BITS - DIGIT_BITS * (level + 1))) as usize & (FANOUT - 1)
}

impl<K: Copy + Into<u128> + From<u128>, S: Slot> IdMap<K, S> {
    /// How many ids there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The slot of an id.
    #[inline]
    pub fn get(&self, id: K) -> Option<S> {
        let id: u128 = id.into();
        let (mut node, mut level) = (&self.root, 0);
        loop {
            match node {
                TreeNode::Branch(children) => node = &children[digit(id, level)],
                TreeNode::Leaf(entries) => {
                    let at = entries.binary_search_by(|entry| { entry.id }.cmp(&id)).ok()?;
                    return Some(S::from_u32(entries[at].slot));
                }
            }
            level += 1;
        }
    }

    /// Gives an id a slot; the one it had before.
    pub fn insert(&mut self, id: K, slot: S) -> Option<S> {
        let entry = IdSlot { id: id.into(), slot: slot.to_u32() };
        let before = self.root.insert(entry, 0);
        self.len += usize::from(before.is_none());
        before.map(S::from_u32)
    }

    /// Takes an id out; the slot it had.
    pub fn remove(&mut self, id: K) -> Option<S> {
        let removed = self.root.remove(id.into(), 0);
        self.len -= usize::from(removed.is_some());
        removed.map(S::from_u32)
    }

    /// The ids in a range with their slots, by id.
    pub fn range(&self, ids: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (K, S)> {
        let from = match ids.start_bound() {
            Bound::Included(id) => Some((*id).into()),
            Bound::Excluded(id) => Into::<u128>::into(*id).checked_add(1),
            Bound::Unbounded => Some(0),
        };
        let to = match ids.end_bound() {
            Bound::Included(id) => Some((*id).into()),
            Bound::Excluded(id) => Into::<u128>::into(*id).checked_sub(1),
            Bound::Unbounded => Some(u128::MAX),
        };
        let between = from.zip(to).filter(|(from, to)| from <= to);
        let range = IdRange { root: &self.root, between, front: [].iter(), back: [].iter() };
        range.map(|entry| (K::from(entry.id), S::from_u32(entry.slot)))
    }

    /// Makes a map at once, which takes a fraction of what inserting one by one does.
    ///
    /// # Errors
    /// The first id that comes twice.
    pub fn of(ids: impl IntoIterator<Item = (K, S)>) -> Result<Self, K> {
        let entry = |(id, slot): (K, S)| IdSlot { id: id.into(), slot: slot.to_u32() };
        let mut entries: Vec<IdSlot> = ids.into_iter().map(entry).collect();
        entries.sort_unstable_by_key(|entry| entry.id);
        if let Some(pair) = entries.windows(2).find(|pair| { pair[0].id } == { pair[1].id }) {
            return Err(K::from(pair[0].id));
        }
        Ok(Self { root: TreeNode::of(&entries, 0), len: entries.len(), types: PhantomData })
    }
}

impl TreeNode {
    /// Of sorted entries whose ids are equal in the digits above a level.
    fn of(entries: &[IdSlot], level: u32) -> Self {
        if entries.len() <= LEAF_MAX {
            return Self::Leaf(entries.into());
        }
        let mut rest = entries;
        Self::Branch(Arc::new(array::from_fn(|at| {
            let (of_child, others) =
                rest.split_at(rest.partition_point(|entry| digit(entry.id, level) <= at));
            rest = others;
            Self::of(of_child, level + 1)
        })))
    }

    fn insert(&mut self, entry: IdSlot, level: u32) -> Option<u32> {
        match self {
            Self::Branch(children) => {
                Arc::make_mut(children)[digit(entry.id, level)].insert(entry, level + 1)
            }
            Self::Leaf(entries) => match entries.binary_search_by(|at| { at.id }.cmp(&{ entry.id })) {
                Ok(at) => {
                    let before = &mut Arc::make_mut(entries)[at];
                    Some(std::mem::replace(before, entry).slot)
                }
                Err(at) => {
                    let (below, above) = entries.split_at(at);
                    let all = below.iter().chain(slice::from_ref(&entry)).chain(above).copied();
                    *self = if entries.len() < LEAF_MAX {
                        Self::Leaf(exactly(entries.len() + 1, all))
                    } else {
                        Self::of(&all.collect::<Vec<_>>(), level)
                    };
                    None
                }
            },
        }
    }

    fn remove(&mut self, id: u128, level: u32) -> Option<u32> {
        match self {
            Self::Branch(children) => {
                let children = Arc::make_mut(children);
                let removed = children[digit(id, level)].remove(id, level + 1)?;
                if let Some(entries) = few(children) {
                    *self = Self::Leaf(entries);
                }
                Some(removed)
            }
            Self::Leaf(entries) => {
                let at = entries.binary_search_by(|entry| { entry.id }.cmp(&id)).ok()?;
                let removed = entries[at].slot;
                let others = entries[..at].iter().chain(&entries[at + 1..]).copied();
                *entries = exactly(entries.len() - 1, others);
                Some(removed)
            }
        }
    }

    /// The entries from an id on of the first leaf that has any; none when there are none.
    fn first_from(&self, id: u128, level: u32) -> &[IdSlot] {
        match self {
            Self::Leaf(entries) => &entries[entries.partition_point(|entry| { entry.id } < id)..],
            Self::Branch(children) => {
                let at = digit(id, level);
                let here = children[at].first_from(id, level + 1);
                if !here.is_empty() {
                    return here;
                }
                // All that is further right is above the id.
                let mut others = children[at + 1..].iter().map(|child| child.first_from(0, level + 1));
                others.find(|entries| !entries.is_empty()).unwrap_or_default()
            }
        }
    }

    /// The entries up to an id of the last leaf that has any; none when there are none.
    fn last_to(&self, id: u128, level: u32) -> &[IdSlot] {
        match self {
            Self::Leaf(entries) => &entries[..entries.partition_point(|entry| { entry.id } <= id)],
            Self::Branch(children) => {
                let at = digit(id, level);
                let here = children[at].last_to(id, level + 1);
                if !here.is_empty() {
                    return here;
                }
                let mut others = children[..at].iter().rev().map(|child| child.last_to(u128::MAX, level + 1));
                others.find(|entries| !entries.is_empty()).unwrap_or_default()
            }
        }
    }
}

/// So many entries, without the copy that collecting an unknown number of them takes.
fn exactly(len: usize, mut entries: impl Iterator<Item = IdSlot>) -> Arc<[IdSlot]> {
    (0..len).map(|_| entries.next().expect("as many as were counted")).collect()
}

/// All entries below a branch, if they are few enough for a leaf.
fn few(children: &[TreeNode; FANOUT]) -> Option<Arc<[IdSlot]>> {
    let mut len = 0;
    for child in children {
        let TreeNode::Leaf(entries) = child else { return None };
        len += entries.len();
        if len > LEAF_AGAIN {
            return None;
        }
    }
    let leaves = children.iter().filter_map(|child| match child {
        TreeNode::Leaf(entries) => Some(&**entries),
        TreeNode::Branch(_) => None,
    });
    Some(exactly(len, leaves.flatten().copied()))
}

/// The entries of a range, leaf by leaf from both ends.
struct IdRange<'a> {
    root: &'a TreeNode,
    /// The first and the last id of what neither end has come to.
    between: Option<(u128, u128)>,
    front: slice::Iter<'a, IdSlot>,
    back: slice::Iter<'a, IdSlot>,
}

impl<'a> Iterator for IdRange<'a> {
    type Item = &'a IdSlot;

    fn next(&mut self) -> Option<&'a IdSlot> {
        if self.front.as_slice().is_empty()
            && let Some((from, to)) = self.between
        {
            let leaf = self.root.first_from(from, 0);
            let here = &leaf[..leaf.partition_point(|entry| { entry.id } <= to)];
            self.front = here.iter();
            let next = here.last().and_then(|last| { last.id }.checked_add(1));
            self.between = next.map(|next| (next, to)).filter(|(from, to)| from <= to);
        }
        self.front.next().or_else(|| self.back.next())
    }
}

impl<'a> DoubleEndedIterator for IdRange<'a> {
    fn next_back(&mut self) -> Option<&'a IdSlot> {
        if self.back.as_slice().is_empty()
            && let Some((from, to)) = self.between
        {
            let leaf = self.root.last_to(to, 0);
            let here = &leaf[leaf.partition_point(|entry| { entry.id } < from)..];
            self.back = here.iter();
            let next = here.first().and_then(|first| { first.id }.checked_sub(1));
            self.between = next.map(|next| (from, next)).filter(|(from, to)| from <= to);
        }
        self.back.next_back().or_else(|| self.front.next_back())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{ids::AllocId, store::AllocSlot};

    type Map = IdMap<AllocId, AllocSlot>;

    /// Ids close together, far apart, and all but equal.
    fn id() -> impl Strategy<Value = u128> {
        prop_oneof![
            0..300_u128,
            (0..300_u128).prop_map(|low| u128::MAX - low),
            (0..300_u128).prop_map(|high| high << 119),
            (0..2000_u128).prop_map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
        ]
    }

    fn is_alike(map: &Map, model: &BTreeMap<u128, u32>) -> Result<(), TestCaseError> {
        let all: Vec<(u128, u32)> = map.range(..).map(|(id, slot)| (id.0, slot.0)).collect();
        prop_assert_eq!(map.len(), model.len());
        prop_assert!(all.iter().copied().eq(model.iter().map(|(id, slot)| (*id, *slot))));
        Ok(())
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_sorted_map(
            ops in prop::collection::vec((0..10_u8, id(), any::<u32>()), 1..3000),
            bounds in prop::collection::vec((id(), id(), any::<bool>()), 20),
        ) {
            let (mut map, mut model) = (Map::default(), BTreeMap::new());
            let mut clones = Vec::new();
            let mut last = 0;
            for (op, id, slot) in ops {
                match op {
                    0 => clones.push((map.clone(), model.clone())),
                    1 | 2 => prop_assert_eq!(map.remove(AllocId(id)).map(|slot| slot.0), model.remove(&id)),
                    3 => prop_assert_eq!(map.remove(AllocId(last)).map(|slot| slot.0), model.remove(&last)),
                    _ => {
                        prop_assert_eq!(
                            map.insert(AllocId(id), AllocSlot(slot)).map(|slot| slot.0),
                            model.insert(id, slot)
                        );
                        last = id;
                    }
                }
                prop_assert_eq!(map.get(AllocId(id)).map(|slot| slot.0), model.get(&id).copied());
            }
            is_alike(&map, &model)?;
            let rebuilt = Map::of(model.iter().rev().map(|(id, slot)| (AllocId(*id), AllocSlot(*slot))));
            is_alike(&rebuilt.expect("no id comes twice"), &model)?;
            clones.iter().try_for_each(|(map, model)| is_alike(map, model))?;
            for (a, b, excluded) in bounds {
                let (from, to) = (a.min(b), a.max(b));
                let both = |found: Bound<u128>| found.map(AllocId);
                let end = if excluded { Bound::Excluded(to) } else { Bound::Included(to) };
                let start = if excluded && from < to { Bound::Excluded(from) } else { Bound::Included(from) };
                let found: Vec<u128> = map.range((both(start), both(end))).map(|(id, _)| id.0).collect();
                let expected: Vec<u128> = model.range((start, end)).map(|(id, _)| *id).collect();
                prop_assert_eq!(&found, &expected);
                let mut backwards: Vec<u128> =
                    map.range((both(start), both(end))).rev().map(|(id, _)| id.0).collect();
                backwards.reverse();
                prop_assert_eq!(&backwards, &expected);
                // From both ends in turn, until they meet.
                let mut ends = map.range((both(start), both(end)));
                let mut met = (Vec::new(), Vec::new());
                while let Some((id, _)) = ends.next() {
                    met.0.push(id.0);
                    met.1.extend(ends.next_back().map(|(id, _)| id.0));
                }
                met.1.reverse();
                prop_assert_eq!(&[met.0, met.1].concat(), &expected);
            }
            // What is taken out leaves nothing behind.
            for id in model.keys() {
                map.remove(AllocId(*id));
            }
            prop_assert!(map.is_empty() && matches!(&map.root, TreeNode::Leaf(entries) if entries.is_empty()));
        }
    }

    #[test]
    fn an_id_that_comes_twice_is_named() {
        let twice = [7, 9, 7].map(|id| (AllocId(id), AllocSlot(0)));
        assert_eq!(Map::of(twice).err(), Some(AllocId(7)));
    }

    /// Every page of memory that they take more counts four million times.
    #[test]
    fn its_parts_are_small() {
        assert_eq!((size_of::<IdSlot>(), size_of::<TreeNode>()), (20, 16));
    }
}
