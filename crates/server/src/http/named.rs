//! Short lists of named objects, ordered by name: filtered, forwards or backwards, whole or page by page.

use serde::Serialize;

use super::{
    call::{Call, Reply},
    failure::Failure,
    filter::Filter,
    list::array_of,
    reply,
};

/// Answers with a list of collected rows, which are in order of `name`; that is also the token of a page.
pub(crate) async fn named<R: Serialize + Send + 'static>(
    call: &Call,
    mut rows: Vec<R>,
    name: fn(&R) -> String,
) -> Reply {
    let reverse = call.query.flag("reverse", false)?;
    if let Some(token) = call.query.text("next_token") {
        rows.retain(|row| if reverse { *name(row) <= *token } else { *name(row) >= *token });
    }
    let mut next = None;
    if let Some(items_max) = call.query.number("per_page")?.filter(|items| *items > 0) {
        let filter = call.query.text("filter").map(Filter::parse).transpose()?;
        let items_max = usize::try_from(items_max).unwrap_or(usize::MAX).min(call.api.limits.page_items_max);
        let cut = move || cut(rows, items_max, reverse, filter, name);
        (rows, next) = call.api.lists.run(cut).await?;
    }
    let write = |row: &R, items: &mut super::array::ArrayItems| items.push(row);
    let mut response = array_of(call, rows, write, |row| serde_json::to_value(row).ok()).await?;
    if let Some(next) = next {
        reply::stamp_next(response.headers_mut(), &next)?;
    }
    Ok(response)
}

/// The rows of a page, in the order of the whole list, and the name of the first that passes beyond it.
fn cut<R: Serialize>(
    mut rows: Vec<R>,
    items_max: usize,
    reverse: bool,
    mut filter: Option<Filter>,
    name: fn(&R) -> String,
) -> Result<(Vec<R>, Option<String>), Failure> {
    if reverse {
        rows.reverse();
    }
    let (mut page, mut next) = (Vec::new(), None);
    for row in rows {
        if let Some(filter) = &mut filter
            && !serde_json::to_value(&row).map_or(Ok(false), |whole| filter.passes(&whole))?
        {
            continue;
        }
        if page.len() == items_max {
            next = Some(name(&row));
            break;
        }
        page.push(row);
    }
    if reverse {
        page.reverse();
    }
    Ok((page, next))
}
