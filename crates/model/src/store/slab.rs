//! A copy-on-write slab: values keep their slot until they are removed, and freed slots are used again. With the last value all
//! memory goes: a server that was busy once does not keep what that took.

use std::marker::PhantomData;

use super::page_tree::PageTree;

/// A typed position in a [`Slab`].
pub trait Slot: Copy {
    /// From a plain number.
    fn from_u32(at: u32) -> Self;
    /// As a plain number.
    fn to_u32(self) -> u32;
}

macro_rules! slot {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $crate::store::slab::Slot for $name {
            fn from_u32(at: u32) -> Self {
                Self(at)
            }

            fn to_u32(self) -> u32 {
                self.0
            }
        }
    };
}
pub(crate) use slot;

/// A slab of `T` addressed by `S`.
#[derive(Debug, Clone)]
pub struct Slab<S, T> {
    values: PageTree<Option<T>>,
    /// Freed slots; the first `free_len` count.
    free: PageTree<u32>,
    free_len: usize,
    slots: PhantomData<S>,
}

impl<S, T> Default for Slab<S, T> {
    fn default() -> Self {
        Self { values: PageTree::default(), free: PageTree::default(), free_len: 0, slots: PhantomData }
    }
}

impl<S: Slot, T: Clone> Slab<S, T> {
    /// How many values there are.
    pub fn len(&self) -> usize {
        self.values.len() - self.free_len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One more than the highest slot used since there was no value.
    pub fn slots(&self) -> usize {
        self.values.len()
    }

    /// The value in a slot; none when the slot is free.
    #[inline]
    pub fn get(&self, slot: S) -> Option<&T> {
        self.values.get(slot.to_u32() as usize)?.as_ref()
    }

    /// The value in a slot, to change.
    #[inline]
    pub fn get_mut(&mut self, slot: S) -> Option<&mut T> {
        self.values.get_mut(slot.to_u32() as usize)?.as_mut()
    }

    /// Puts a value into a free slot.
    ///
    /// # Panics
    /// With more than 2^32 - 1 values.
    pub fn insert(&mut self, value: T) -> S {
        if self.free_len == 0 {
            let at = self.values.push(Some(value));
            return S::from_u32(u32::try_from(at).expect("fewer than 2^32 values"));
        }
        self.free_len -= 1;
        let at = *self.free.get(self.free_len).expect("a freed slot was noted");
        *self.values.get_mut(at as usize).expect("a freed slot exists") = Some(value);
        S::from_u32(at)
    }

    /// Takes a value out; its slot is free again.
    pub fn remove(&mut self, slot: S) -> Option<T> {
        let value = self.values.get_mut(slot.to_u32() as usize)?.take()?;
        if self.free_len == self.free.len() {
            self.free.push(slot.to_u32());
        } else {
            *self.free.get_mut(self.free_len).expect("within its length") = slot.to_u32();
        }
        self.free_len += 1;
        if self.is_empty() {
            self.values.clear();
            self.free.clear();
            self.free_len = 0;
        }
        Some(value)
    }

    /// All values with their slots, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (S, &T)> {
        self.values
            .iter()
            .enumerate()
            .filter_map(|(at, value)| Some((S::from_u32(u32::try_from(at).ok()?), value.as_ref()?)))
    }

    /// Bytes copied by writes because a clone still shared them.
    pub fn copied_bytes(&self) -> u64 {
        self.values.copied_bytes() + self.free.copied_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    slot!(
        /// For this test.
        At
    );

    #[test]
    fn a_freed_slot_is_used_again_and_its_old_value_is_gone() {
        let mut slab: Slab<At, &str> = Slab::default();
        let (a, b) = (slab.insert("a"), slab.insert("b"));
        let snapshot = slab.clone();
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.insert("c"), a);
        assert_eq!(slab.iter().map(|(_, v)| *v).collect::<Vec<_>>(), ["c", "b"]);
        assert_eq!((slab.len(), snapshot.get(a), snapshot.get(b)), (2, Some(&"a"), Some(&"b")));
    }

    #[test]
    fn with_the_last_value_all_slots_are_gone() {
        let mut slab: Slab<At, u32> = Slab::default();
        let slots: Vec<At> = (0..5000).map(|value| slab.insert(value)).collect();
        let snapshot = slab.clone();
        for slot in slots.iter().rev() {
            assert!(slab.slots() == 5000 && slab.remove(*slot).is_some());
        }
        assert_eq!(
            (slab.slots(), slab.len(), slab.get(slots[7]), snapshot.get(slots[7])),
            (0, 0, None, Some(&7))
        );
        assert_eq!(slab.remove(slots[7]), None);
        assert_eq!((slab.insert(1), slab.insert(2)), (At(0), At(1)));
    }
}
