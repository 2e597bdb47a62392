//! Shelves, one for each group of nodes and size, which follow what becomes of piles: only when somebody is about to
//! look, and then each pile once.

use rustc_hash::FxHashMap;

use super::{
    pile::{Kind, Pile},
    shelf::{Entry, Place, Shelf},
};
use crate::scores::Powers;

/// Piles on shelves.
#[derive(Debug, Default)]
pub struct Shelves {
    all: Vec<Shelf>,
    /// The shelves of each group.
    groups: Vec<Vec<u32>>,
    by_size: FxHashMap<(usize, u32), u32>,
    /// By pile.
    followed: Vec<Followed>,
    /// Piles that are no longer what they were, each once.
    changed: Vec<u32>,
}

/// What is known of a pile.
#[derive(Debug, Clone, Copy, Default)]
struct Followed {
    /// Where it lies, and its serial when it was put there.
    lies: Option<(Place, u32)>,
    is_changed: bool,
}

impl Shelves {
    /// All shelves, by number.
    pub fn all(&self) -> &[Shelf] {
        &self.all
    }

    /// The numbers of a group's shelves.
    pub fn of(&self, group: usize) -> &[u32] {
        self.groups.get(group).map_or(&[], Vec::as_slice)
    }

    /// A pile was opened or closed.
    pub fn note(&mut self, pile: u32) {
        let at = pile as usize;
        if at >= self.followed.len() {
            self.followed.resize(at + 1, Followed::default());
        }
        if !std::mem::replace(&mut self.followed[at].is_changed, true) {
            self.changed.push(pile);
        }
    }

    /// Follows all that was noted; `group` tells where piles belong.
    pub fn arrange(&mut self, piles: &[Pile], group: impl Fn(&Kind) -> usize) {
        while let Some(id) = self.changed.pop() {
            let pile = &piles[id as usize];
            let Followed { lies, is_changed } = &mut self.followed[id as usize];
            *is_changed = false;
            let as_before = !pile.is_empty() && lies.is_some_and(|(_, serial)| serial == pile.serial);
            if as_before {
                continue;
            }
            if let Some((place, _)) = lies.take() {
                self.take(place);
            }
            if !pile.is_empty() {
                let shelf = self.shelf(group(&pile.kind), pile.size);
                self.put(shelf, id, pile);
            }
        }
    }

    fn put(&mut self, shelf: u32, id: u32, pile: &Pile) {
        let Pile { kind, serial, .. } = pile;
        let entry = Entry { kind: *kind, pile: id, powers: Powers::of(kind.free, kind.capacity) };
        let on = &mut self.all[shelf as usize];
        if on.is_crowded() {
            on.refine();
            for (pile, place) in on.places(shelf) {
                let lies = &mut self.followed[pile as usize].lies;
                *lies = lies.map(|(_, serial)| (place, serial));
            }
        }
        self.followed[id as usize].lies = Some((on.put(shelf, entry), *serial));
    }

    fn take(&mut self, place: Place) {
        if let Some(moved) = self.all[place.shelf as usize].take(place) {
            let lies = &mut self.followed[moved as usize].lies;
            *lies = lies.map(|(_, serial)| (place, serial));
        }
    }

    fn shelf(&mut self, group: usize, size: u32) -> u32 {
        *self.by_size.entry((group, size)).or_insert_with(|| {
            let shelf = u32::try_from(self.all.len()).expect("no more shelves than nodes");
            self.all.push(Shelf::new(size));
            if group >= self.groups.len() {
                self.groups.resize(group + 1, Vec::new());
            }
            self.groups[group].push(shelf);
            shelf
        })
    }
}
