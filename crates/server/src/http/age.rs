//! The order of allocations and evaluations in lists, as in Nomad: oldest first; by id where the request has a prefix.

use std::{fmt, ops::Bound, str::FromStr};

use berth_model::Index;

use super::{ids::IdRange, list::Span};

/// A position in such a list. As the token of a page it is `INDEX.ID`, or the id alone in a list by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age<I> {
    /// The index at which it was created; 0 in a list by id.
    pub created: Index,
    pub id: I,
}

impl<I> Age<I> {
    /// The positions of a range of ids.
    pub fn span(ids: &IdRange, id: impl Fn(u128) -> I) -> Span<Self> {
        if *ids == IdRange::ALL {
            // Nothing is created at index 0, so a position in a list by id (index 0) is outside this span.
            return (Bound::Included(Self { created: Index(1), id: id(0) }), Bound::Unbounded);
        }
        let (first, last) = ids.span(id);
        let by_id = |id| Self { created: Index(0), id };
        (first.map(by_id), last.map(by_id))
    }
}

impl<I> From<(Index, I)> for Age<I> {
    fn from((created, id): (Index, I)) -> Self {
        Self { created, id }
    }
}

/// The same bounds, as the store has them.
pub(crate) fn ages<I>((first, last): Span<Age<I>>) -> Span<(Index, I)> {
    let age = |position: Age<I>| (position.created, position.id);
    (first.map(age), last.map(age))
}

/// The ids of positions in a list by id.
pub(crate) fn ids<I>((first, last): Span<Age<I>>) -> Span<I> {
    (first.map(|position| position.id), last.map(|position| position.id))
}

impl<I: fmt::Display> fmt::Display for Age<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.created > Index(0) {
            write!(f, "{}.", self.created)?;
        }
        write!(f, "{}", self.id)
    }
}

impl<I: FromStr> FromStr for Age<I> {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (created, id) = text.split_once('.').unwrap_or(("0", text));
        let created = created.parse().map(Index).map_err(|_| ())?;
        Ok(Self { created, id: id.parse().map_err(|_| ())? })
    }
}
