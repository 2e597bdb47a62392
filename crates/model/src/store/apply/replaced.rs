//! What a plan replaces, while it is applied: whoever has no successor after all stays, and nobody comes after one that stays.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    alloc::{Placement, Stop},
    ids::AllocId,
};

/// The stops of a plan that stand for a successor each.
#[derive(Debug, Default)]
pub(super) struct ReplacedStops {
    stops: BTreeMap<AllocId, Stop>,
    /// Those of them that stay.
    kept: BTreeSet<AllocId>,
    /// Those of them that an allocation was placed after: they leave whatever becomes of their own successors, which would
    /// otherwise never start.
    followed: BTreeSet<AllocId>,
}

impl ReplacedStops {
    pub fn add(&mut self, stop: &Stop) {
        self.stops.insert(stop.alloc, *stop);
    }

    /// Looks ahead: whose successor cannot be placed stays, and then whose successor was to come after that one, and so on.
    pub fn keep_for(&mut self, placements: &[Placement], can_be: impl Fn(&Placement) -> bool) {
        if self.stops.is_empty() {
            return;
        }
        let (mut left, refused): (Vec<_>, Vec<_>) =
            placements.iter().partition(|placement| can_be(placement));
        refused.iter().for_each(|placement| self.keep(placement.previous));
        loop {
            let before = self.kept.len();
            left.retain(|placement| {
                let can_be = !self.is_after_kept(placement);
                if !can_be {
                    self.keep(placement.previous);
                }
                can_be
            });
            if self.kept.len() == before {
                return;
            }
        }
    }

    /// Those that a placement comes after, other than the one that it replaces.
    pub fn among(&self, placement: &Placement) -> Vec<AllocId> {
        if self.stops.is_empty() {
            return Vec::new();
        }
        placement.after_others().filter(|id| self.stops.contains_key(id)).collect()
    }

    /// Whether a placement may be, as far as those are concerned that it comes after.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admit(&self, placement: &Placement) -> Result<(), String> {
        match self.is_after_kept(placement) {
            true => Err("keeps an allocation that was to make room".to_owned()),
            false => Ok(()),
        }
    }

    /// An allocation was placed after these.
    pub fn placed_after(&mut self, others: Vec<AllocId>) {
        self.followed.extend(others);
    }

    /// The successor of this one was not placed.
    pub fn keep(&mut self, replaced: Option<AllocId>) {
        let Some(id) = replaced else { return };
        if self.stops.contains_key(&id) && !self.followed.contains(&id) {
            self.kept.insert(id);
        }
    }

    /// The stops of those that do not stay.
    pub fn leaving(self) -> impl Iterator<Item = Stop> {
        let kept = self.kept;
        self.stops.into_values().filter(move |stop| !kept.contains(&stop.alloc))
    }

    fn is_after_kept(&self, placement: &Placement) -> bool {
        !self.kept.is_empty() && placement.after.iter().any(|id| self.kept.contains(id))
    }
}
