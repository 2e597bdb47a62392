//! Lists of slots in chunks, so that adding one to a list of fifty thousand copies a hundred bytes.

use super::slab::{Slab, slot};

slot!(
    /// Where a chunk is.
    ChunkSlot
);

const CHUNK_SLOTS: usize = 30;

#[derive(Debug, Clone)]
struct Chunk {
    next: Option<ChunkSlot>,
    len: u16,
    slots: [u32; CHUNK_SLOTS],
}

/// A list; its slots live in [`Postings`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PostingList {
    head: Option<ChunkSlot>,
    len: u32,
}

impl PostingList {
    /// How many slots it has.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// The chunks of all lists of one kind. Only a list's first chunk may be partly filled.
#[derive(Debug, Clone, Default)]
pub struct Postings {
    chunks: Slab<ChunkSlot, Chunk>,
}

impl Postings {
    /// Adds a slot.
    pub fn push(&mut self, list: &mut PostingList, slot: u32) {
        list.len += 1;
        if let Some(head) = list.head {
            let chunk = self.chunks.get_mut(head).expect("a list's chunk exists");
            if usize::from(chunk.len) < CHUNK_SLOTS {
                chunk.slots[usize::from(chunk.len)] = slot;
                chunk.len += 1;
                return;
            }
        }
        let mut slots = [0; CHUNK_SLOTS];
        slots[0] = slot;
        list.head = Some(self.chunks.insert(Chunk { next: list.head, len: 1, slots }));
    }

    /// Takes a slot out, in time proportional to the list's length; false when it is not there.
    pub fn remove(&mut self, list: &mut PostingList, slot: u32) -> bool {
        let Some((chunk, at)) = self.find(list, slot) else { return false };
        let last = self.pop(list).expect("a list with a slot is not empty");
        if last != slot {
            self.chunks.get_mut(chunk).expect("found just now").slots[at] = last;
        }
        true
    }

    /// Keeps only the slots that `keep` says, in time proportional to the list's length.
    pub fn retain(&mut self, list: &mut PostingList, keep: impl Fn(u32) -> bool) {
        let kept: Vec<u32> = self.iter(list).filter(|slot| keep(*slot)).collect();
        self.clear(list);
        for slot in kept {
            self.push(list, slot);
        }
    }

    /// Takes all slots out.
    pub fn clear(&mut self, list: &mut PostingList) {
        while let Some(head) = list.head {
            list.head = self.chunks.remove(head).expect("a list's chunk exists").next;
        }
        list.len = 0;
    }

    /// The slots, in no stated order.
    pub fn iter(&self, list: &PostingList) -> impl Iterator<Item = u32> {
        let mut chunk = list.head;
        std::iter::from_fn(move || {
            let here = self.chunks.get(chunk?)?;
            chunk = here.next;
            Some(&here.slots[..usize::from(here.len)])
        })
        .flatten()
        .copied()
    }

    /// Bytes copied by writes because a clone still shared them.
    pub fn copied_bytes(&self) -> u64 {
        self.chunks.copied_bytes()
    }

    fn find(&self, list: &PostingList, slot: u32) -> Option<(ChunkSlot, usize)> {
        let mut chunk = list.head;
        while let Some(here) = chunk {
            let c = self.chunks.get(here).expect("a list's chunk exists");
            if let Some(at) = c.slots[..usize::from(c.len)].iter().position(|s| *s == slot) {
                return Some((here, at));
            }
            chunk = c.next;
        }
        None
    }

    fn pop(&mut self, list: &mut PostingList) -> Option<u32> {
        let head = list.head?;
        let chunk = self.chunks.get_mut(head).expect("a list's chunk exists");
        chunk.len -= 1;
        list.len -= 1;
        let slot = chunk.slots[usize::from(chunk.len)];
        if chunk.len == 0 {
            list.head = self.chunks.remove(head).expect("a list's chunk exists").next;
        }
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_behave_like_sets(ops in prop::collection::vec((0..3_u8, 0..2_usize, 0..200_u32), 1..1000)) {
            let mut postings = Postings::default();
            let mut lists = [PostingList::default(); 2];
            let mut sets = [BTreeSet::new(), BTreeSet::new()];
            for (op, which, slot) in ops {
                let (list, set) = (&mut lists[which], &mut sets[which]);
                if op == 0 {
                    prop_assert_eq!(postings.remove(list, slot), set.remove(&slot));
                } else if op == 1 && slot == 0 {
                    postings.retain(list, |s| s % 2 == 0);
                    set.retain(|s| s % 2 == 0);
                } else if set.insert(slot) {
                    postings.push(list, slot);
                }
            }
            for (mut list, set) in lists.into_iter().zip(sets) {
                prop_assert_eq!(list.len(), set.len());
                prop_assert_eq!(postings.iter(&list).collect::<BTreeSet<u32>>(), set);
                postings.clear(&mut list);
            }
            prop_assert!(postings.chunks.is_empty());
        }
    }
}
