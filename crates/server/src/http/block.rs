//! Reads that wait for a change: register, read, compare the index of what was read, wait.

use std::time::Duration;

use berth_model::Index;
use hyper::StatusCode;
use tokio::time::Instant;

use super::{
    call::{Call, Reply},
    failure::Failure,
    leader_contact::NO_CONTACT,
    query::Query,
    reply,
};
use crate::{
    WatchKey,
    access::CallerView,
    watch::{Changes, Watch},
};

/// Keys that one reader may wait for: it registers for each of them, and checks each when it is woken.
pub(crate) const KEYS_MAX: usize = 65;
/// Longest wait, and the default.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Up to this part of the wait is added at random, so that readers do not all come back at once.
const JITTER_PART: u32 = 16;

/// Answers a read: at once, or once what is read has changed after the index that the reader knows.
///
/// `keys` are what to wait for. `index_of` returns the index of the last change; it is called at every wake-up, and so must be
/// cheap. `render` is called once.
pub(crate) async fn read(
    call: &Call,
    keys: &[WatchKey],
    index_of: impl Fn(&CallerView) -> Index,
    render: impl FnOnce(&CallerView) -> Reply,
) -> Reply {
    answer(call, keys, index_of, async |view| render(&view)).await
}

/// The same with an asynchronous `render`.
pub(crate) async fn answer(
    call: &Call,
    keys: &[WatchKey],
    index_of: impl Fn(&CallerView) -> Index,
    render: impl AsyncFnOnce(CallerView) -> Reply,
) -> Reply {
    let Some(known_index) = known_index(&call.query)? else {
        return render_stamped(call, call.view(), index_of, render).await;
    };
    // Before the wait: thousands of readers may be woken at once, and each should then have little to do.
    let target = call.target();
    let (view, has_waited) = wait_for_change(call, keys, known_index, &index_of).await?;
    let index = index_of(&view);
    // A request in a body is not part of the target.
    let is_shared = call.query.contract().body.is_none() && !call.query.contract().is_personal;
    if !has_waited || !is_shared {
        return render_stamped(call, view, index_of, render).await;
    }
    let rights = call.access().rights();
    if let Some(mut response) = call.api.response_cache.find(rights, &target, index) {
        reply::stamp_moment(response.headers_mut(), &view);
        return Ok(response);
    }
    let response = render_stamped(call, view, index_of, render).await?;
    call.api.response_cache.insert(rights, target, index, &response);
    Ok(response)
}

/// Renders the response, with the headers of its index and freshness. A response that an object was not found has the index too.
async fn render_stamped(
    call: &Call,
    view: CallerView,
    index_of: impl Fn(&CallerView) -> Index,
    render: impl AsyncFnOnce(CallerView) -> Reply,
) -> Reply {
    let mut response = render(view.clone()).await.map_err(|failure| match failure.status {
        StatusCode::NOT_FOUND => failure.at(index_of(&view)),
        _ => failure,
    })?;
    let view = response.extensions_mut().remove().map_or(view, |reply::ShownView(newer)| newer);
    reply::stamp_read(response.headers_mut(), index_of(&view), &view, call.query.waits());
    Ok(response)
}

/// The index after which the reader waits for a change; none when it does not want to wait.
fn known_index(query: &Query) -> Result<Option<Index>, Failure> {
    query.flag("stale", false)?;
    query.duration("wait")?;
    Ok(query.number("index")?.filter(|index| *index > 0).map(Index))
}

/// Waits until a condition holds of the state, for `at_most`. Returns whether it does.
pub(crate) async fn until(
    call: &Call,
    key: WatchKey,
    at_most: Duration,
    holds: impl Fn(&CallerView) -> bool,
) -> bool {
    let deadline = Instant::now() + at_most;
    let watches = [call.api.state.watchers.watch(key)];
    let mut changes = Changes::of(&watches);
    while !holds(&call.view()) {
        tokio::select! {
            () = changes.next() => {}
            () = tokio::time::sleep_until(deadline) => return false,
            () = call.api.stopping.cancelled() => return false,
        }
    }
    true
}

/// The state to answer with, and whether the reader had to wait for it.
async fn wait_for_change(
    call: &Call,
    keys: &[WatchKey],
    known_index: Index,
    index_of: &impl Fn(&CallerView) -> Index,
) -> Result<(CallerView, bool), Failure> {
    debug_assert!(keys.len() <= KEYS_MAX, "{} keys: their number is not the caller's to choose", keys.len());
    let deadline = Instant::now() + wait_time(call)?;
    let watches: Vec<Watch<'_>> = keys.iter().map(|key| call.api.state.watchers.watch(key.clone())).collect();
    let mut changes = Changes::of(&watches);
    let mut waiter = None;
    loop {
        let view = call.view();
        if index_of(&view) > known_index {
            if waiter.is_some() {
                check_lease(call, deadline).await?;
            }
            return Ok((view, waiter.is_some()));
        }
        // A waiting reader must not keep an old state in memory.
        drop(view);
        if waiter.is_none() {
            waiter = Some(call.begin_to_wait()?);
        }
        tokio::select! {
            () = changes.next() => {}
            () = tokio::time::sleep_until(deadline) => return Ok((call.view(), false)),
            () = call.api.stopping.cancelled() => return Ok((call.view(), false)),
        }
    }
}

/// A reader that has waited is answered only while this server is in contact with a leader, and so would know of a revocation.
async fn check_lease(call: &Call, deadline: Instant) -> Result<(), Failure> {
    let Some(lease) = call.lease() else { return Ok(()) };
    let contact = lease.contact();
    tokio::select! {
        () = contact.until_contact_again() => lease.check(),
        () = tokio::time::sleep_until(deadline) => Err(Failure::new(StatusCode::SERVICE_UNAVAILABLE, NO_CONTACT)),
        () = call.api.stopping.cancelled() => Ok(()),
    }
}

fn wait_time(call: &Call) -> Result<Duration, Failure> {
    let requested = call.query.duration("wait")?.filter(|wait| !wait.is_zero()).unwrap_or(WAIT_MAX);
    let wait = requested.min(WAIT_MAX);
    let jitter_max = (wait / JITTER_PART).as_nanos();
    let jitter = call.mint_id() % (jitter_max + 1);
    Ok(wait + Duration::from_nanos(u64::try_from(jitter).unwrap_or_default()))
}
