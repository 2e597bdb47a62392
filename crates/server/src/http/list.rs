//! Lists in the order of their keys: filtered, forwards or backwards, whole or page by page.

use std::{
    fmt::Display,
    ops::{Bound, RangeBounds},
    str::FromStr,
};

use berth_model::Index;
use serde::Serialize;
use serde_json::Value;

use super::{
    array::{ArrayItems, PIECE_BYTES_MAX, ROWS_HERE_MAX, ROWS_MAX, RowSource, array, shared},
    block,
    call::{Call, Reply},
    failure::Failure,
    filter::{Filter, ITEM_STEPS_MAX},
    reply,
};
use crate::{WatchKey, access::CallerView};

/// The keys between two ends.
pub(crate) type Span<K> = (Bound<K>, Bound<K>);

/// What [`Listing::rows`] gives, where that depends on what is listed.
pub(crate) type BoxedRows<'v, L> =
    Box<dyn DoubleEndedIterator<Item = (<L as Listing>::Key, Option<<L as Listing>::Row<'v>>)> + 'v>;

/// A table, or a part of it, in the order of its keys.
pub(crate) trait Listing: Clone + Send + 'static {
    /// Whether the rows have to be put in order first.
    const IS_SORTED_FIRST: bool = false;

    /// What orders the rows; its text is the token of a page.
    type Key: Display + FromStr + Ord + Clone + Send + 'static;
    /// A row, looked up.
    type Row<'v>;
    /// The keys that can be in the list.
    fn span(&self) -> Span<Self::Key>;

    /// The rows of some keys, in their order; none of those that the caller may not see. They are counted like others: what a list looks
    /// at in one go is bounded, whether or not it is in the list.
    fn rows<'v>(
        &self,
        view: &'v CallerView,
        span: Span<Self::Key>,
    ) -> impl DoubleEndedIterator<Item = (Self::Key, Option<Self::Row<'v>>)>;

    /// Whether a row is in the list.
    fn has(&self, _: &Self::Row<'_>) -> bool {
        true
    }

    /// A row with all that is known of it, for filters.
    fn whole(&self, view: &CallerView, row: &Self::Row<'_>) -> Value;

    /// A row as it is sent.
    fn item<'v>(&self, view: &'v CallerView, row: &Self::Row<'v>) -> impl Serialize;
}

/// Answers with a list once it has changed after the index that the reader knows: the requested page, or all.
pub(crate) async fn list<L: Listing>(
    call: &Call,
    keys: &[WatchKey],
    index_of: impl Fn(&CallerView) -> Index,
    listing: L,
) -> Reply {
    let filter = call.query.text("filter").map(Filter::parse).transpose()?;
    let reverse = call.query.flag("reverse", false)?;
    let rest = Some(span_of_page(call, listing.span(), reverse)?);
    let per_page = call.query.number("per_page")?.filter(|items| *items > 0);
    let render = async |view: CallerView| {
        let cursor = Cursor { view: view.clone(), listing, filter, reverse, rest };
        match per_page {
            Some(items) => page(call, cursor, items).await,
            None => {
                let first = cursor.clone();
                shared(call, cursor, view, move |view| Cursor { view, ..first.clone() }).await
            }
        }
    };
    block::answer(call, keys, index_of, render).await
}

fn span_of_page<K: FromStr + Ord>(call: &Call, span: Span<K>, reverse: bool) -> Result<Span<K>, Failure> {
    let Some(token) = call.query.text("next_token") else { return Ok(span) };
    let key = token.parse().ok().filter(|key| span.contains(key));
    let key = key.ok_or_else(|| Failure::value("next_token", token, "the token of a page of this list"))?;
    Ok(from_key(span, key, reverse))
}

/// The part of a span from a key on.
fn from_key<K>((first, last): Span<K>, key: K, reverse: bool) -> Span<K> {
    if reverse { (first, Bound::Included(key)) } else { (Bound::Included(key), last) }
}

/// A page ends with the item with which it reaches this size.
const PAGE_BYTES_MAX: usize = 8 << 20;
/// A piece ends when its rows have taken so many steps to filter, some milliseconds.
const PIECE_STEPS_MAX: u64 = ITEM_STEPS_MAX;
/// A piece ends when so many bytes of items have been built for the filter, some milliseconds.
const PIECE_BUILT_BYTES_MAX: u64 = 1 << 20;

/// A position in a list.
#[derive(Clone)]
struct Cursor<L: Listing> {
    view: CallerView,
    listing: L,
    filter: Option<Filter>,
    reverse: bool,
    /// None at the end.
    rest: Option<Span<L::Key>>,
}

impl<L: Listing> Cursor<L> {
    /// Writes the items among the next rows, until there are so many of them. The key of the first one beyond is given
    /// back, if there is one among these rows.
    fn write(
        &mut self,
        rows_max: usize,
        items_max: usize,
        items: &mut ArrayItems,
    ) -> Result<Option<L::Key>, Failure> {
        let Self { view, listing, filter, reverse, rest } = self;
        let Some(span) = rest.take() else { return Ok(None) };
        let mut rows = listing.rows(view, span.clone());
        let mut next = || if *reverse { rows.next_back() } else { rows.next() };
        let piece = PieceStart::begin(filter.as_ref(), items.bytes());
        for _ in 0..rows_max {
            let Some((key, row)) = next() else { return Ok(None) };
            let Some(row) = row.filter(|row| listing.has(row)) else { continue };
            if !passes(filter.as_mut(), || listing.whole(view, &row))? {
                if piece.is_full(filter.as_ref(), items.bytes()) {
                    break;
                }
                continue;
            }
            if items.count() == items_max {
                return Ok(Some(key));
            }
            items.push(&listing.item(view, &row));
            if piece.is_full(filter.as_ref(), items.bytes()) {
                break;
            }
        }
        *rest = next().map(|(key, _)| from_key(span, key, *reverse));
        Ok(None)
    }

    /// The key of the first row of the rest that is in the list, if it is among the next rows. The keys of other rows must not be shown to
    /// the caller, who may not see those rows.
    fn next_key(&mut self, rows_max: usize) -> Option<L::Key> {
        let Self { view, listing, reverse, rest, .. } = self;
        let span = rest.take()?;
        let mut rows = listing.rows(view, span.clone());
        let mut next = || if *reverse { rows.next_back() } else { rows.next() };
        for _ in 0..rows_max {
            let (key, row) = next()?;
            if row.is_some_and(|row| listing.has(&row)) {
                return Some(key);
            }
        }
        *rest = next().map(|(key, _)| from_key(span, key, *reverse));
        None
    }
}

/// Whether a row passes the filter if there is one; `whole` gives all that is known of it.
fn passes(filter: Option<&mut Filter>, whole: impl FnOnce() -> Value) -> Result<bool, Failure> {
    filter.map_or(Ok(true), |filter| filter.passes(&whole()))
}

/// The counts at the beginning of a piece.
struct PieceStart {
    bytes: usize,
    steps: u64,
    built_bytes: u64,
}

impl PieceStart {
    fn begin(filter: Option<&Filter>, bytes: usize) -> Self {
        let (steps, built_bytes) =
            filter.map_or((0, 0), |filter| (filter.steps_taken(), filter.built_bytes()));
        Self { bytes, steps, built_bytes }
    }

    /// Whether it is long enough, or took enough work.
    fn is_full(&self, filter: Option<&Filter>, bytes: usize) -> bool {
        let now = Self::begin(filter, bytes);
        now.bytes - self.bytes >= PIECE_BYTES_MAX
            || now.steps - self.steps >= PIECE_STEPS_MAX
            || now.built_bytes - self.built_bytes >= PIECE_BUILT_BYTES_MAX
    }
}

impl<L: Listing> RowSource for Cursor<L> {
    fn next(&mut self, rows_max: usize, items: &mut ArrayItems) -> Result<(), Failure> {
        self.write(rows_max, usize::MAX, items).map(drop)
    }

    fn is_done(&self) -> bool {
        self.rest.is_none()
    }

    fn is_heavy(&self) -> bool {
        self.filter.is_some() || L::IS_SORTED_FIRST
    }
}

/// A page, and the token of the next one if any further item passes. It ends early when it has become long, or when its
/// filter has taken as many steps as it may.
async fn page<L: Listing>(call: &Call, mut cursor: Cursor<L>, items_max: u64) -> Reply {
    let items_max = usize::try_from(items_max).unwrap_or(usize::MAX).min(call.api.limits.page_items_max);
    let mut items = ArrayItems::of(call)?;
    let mut next =
        if cursor.is_heavy() { None } else { cursor.write(ROWS_HERE_MAX, items_max, &mut items)? };
    while next.is_none() && !cursor.is_done() {
        if items.bytes() >= PAGE_BYTES_MAX || cursor.filter.as_ref().is_some_and(Filter::is_spent) {
            let find = move || (cursor.next_key(ROWS_MAX), cursor);
            (next, cursor) = call.api.lists.run(find).await;
            continue;
        }
        let write = move || (cursor.write(ROWS_MAX, items_max, &mut items), cursor, items);
        let outcome;
        (outcome, cursor, items) = call.api.lists.run(write).await;
        next = outcome?;
    }
    let mut response = reply::whole(items.end());
    if let Some(key) = next {
        reply::stamp_next(response.headers_mut(), &key.to_string())?;
    }
    Ok(response)
}

/// Rows that have been collected already: filtered, forwards or backwards.
struct Rows<R, F, W> {
    rows: std::vec::IntoIter<R>,
    filter: Option<Filter>,
    write: F,
    whole: W,
}

/// Answers with an array of some rows. `write` adds a row as it is sent, `whole` gives it with all that is known of it,
/// for filters.
pub(crate) async fn array_of<R: Send + 'static>(
    call: &Call,
    mut rows: Vec<R>,
    write: impl Fn(&R, &mut ArrayItems) + Send + 'static,
    whole: impl Fn(&R) -> Option<Value> + Send + 'static,
) -> Reply {
    let filter = call.query.text("filter").map(Filter::parse).transpose()?;
    if call.query.flag("reverse", false)? {
        rows.reverse();
    }
    array(call, Rows { rows: rows.into_iter(), filter, write, whole }).await
}

impl<R, F, W> RowSource for Rows<R, F, W>
where
    R: Send + 'static,
    F: Fn(&R, &mut ArrayItems) + Send + 'static,
    W: Fn(&R) -> Option<Value> + Send + 'static,
{
    fn next(&mut self, rows_max: usize, items: &mut ArrayItems) -> Result<(), Failure> {
        let piece = PieceStart::begin(self.filter.as_ref(), items.bytes());
        for row in self.rows.by_ref().take(rows_max) {
            let passes = match &mut self.filter {
                None => true,
                Some(filter) => (self.whole)(&row).map_or(Ok(false), |whole| filter.passes(&whole))?,
            };
            if passes {
                (self.write)(&row, items);
            }
            if piece.is_full(self.filter.as_ref(), items.bytes()) {
                break;
            }
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.rows.as_slice().is_empty()
    }

    fn is_heavy(&self) -> bool {
        self.filter.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_ends_when_much_was_built_for_the_filter() {
        let mut filter = Filter::parse(r#"ID == "other""#).expect("it is right");
        let item = serde_json::json!({ "ID": "web", "Meta": { "text": "x".repeat(256 << 10) } });
        let piece = PieceStart::begin(Some(&filter), 0);
        for _ in 0..3 {
            assert_eq!(filter.passes(&item), Ok(false));
            assert!(!piece.is_full(Some(&filter), 0));
        }
        assert_eq!(filter.passes(&item), Ok(false));
        assert!(piece.is_full(Some(&filter), 0), "{} bytes were built", filter.built_bytes());
        assert!(filter.steps_taken() >= 4 * 256, "the answer has taken {} steps", filter.steps_taken());
    }
}
