//! Lists in the order of their keys: whole, or page by page.

use std::{fmt::Display, str::FromStr, sync::Arc};

use serde::Serialize;

use super::{
    array::{PIECE_ITEMS, array},
    call::{Call, Reply},
    failure::Failure,
    reply,
};
use crate::state::View;

/// A table, or a part of it, in the order of its keys.
pub(super) trait Listing: Send + Unpin + 'static {
    /// What orders the items; its text is the token of a page.
    type Key: Display + FromStr + Clone + Send + Unpin + 'static;
    /// As it is sent.
    type Item: Serialize + 'static;

    /// The first key that can be in the list.
    fn start(&self) -> Self::Key;

    /// The items from a key on.
    fn items<'v>(
        &'v self,
        view: &'v View,
        from: Self::Key,
    ) -> impl Iterator<Item = (Self::Key, Self::Item)> + 'v;
}

/// Answers with a list: the page that is asked for, or all of it.
pub(super) fn list<L: Listing>(call: &Call, view: &Arc<View>, listing: L) -> Reply {
    let from = match call.query.text("next_token") {
        None => listing.start(),
        Some(token) => {
            token.parse().map_err(|_| Failure::value("next_token", token, "the token of a page"))?
        }
    };
    match call.query.number("per_page")?.filter(|items| *items > 0) {
        Some(items) => page(call, view, &listing, from, items),
        None => whole(call, view, listing, from),
    }
}

fn page<L: Listing>(call: &Call, view: &View, listing: &L, from: L::Key, items: u64) -> Reply {
    let items = usize::try_from(items).unwrap_or(usize::MAX).min(call.api.limits.page_items_max);
    let mut found: Vec<_> = listing.items(view, from).take(items + 1).collect();
    let next = if found.len() > items { found.pop() } else { None };
    let found: Vec<L::Item> = found.into_iter().map(|(_, item)| item).collect();
    let mut response = reply::json(&call.query, &found)?;
    if let Some((key, _)) = next {
        reply::stamp_next(response.headers_mut(), &key.to_string())?;
    }
    Ok(response)
}

fn whole<L: Listing>(call: &Call, view: &Arc<View>, listing: L, from: L::Key) -> Reply {
    let mut from = Some(from);
    array(&call.query, view, move |view| {
        let Some(start) = from.take() else { return Vec::new() };
        let mut found: Vec<_> = listing.items(view, start).take(PIECE_ITEMS + 1).collect();
        if found.len() > PIECE_ITEMS {
            from = found.pop().map(|(key, _)| key);
        }
        found.into_iter().map(|(_, item)| item).collect()
    })
}
