//! The event stream: what changed, as it changes, one JSON object a line.

mod filter;

use std::{collections::HashMap, sync::Arc, time::Duration};

use berth_api::http::{Event, EventFrame};
use berth_model::{AllocId, Index};

use super::{
    call::{Call, Reply},
    reply::JSON,
    stream::{Closed, Writer, stream},
};
use crate::{
    Batch, Change, EventHub, Subscription, SubscriptionError,
    convert::nomad::{self, Payload, Subject, Text},
};
use filter::Filter;

/// How often the stream says that it still lives.
const HEARTBEAT_MS: u64 = 10_000;
/// Changes in one line.
const LINE_EVENTS_MAX: usize = 256;
/// Batches taken together by a follower that is behind.
const CATCH_UP_MAX: usize = 256;

/// `GET /v1/event/stream`
///
/// With `index`, the stream begins with the first change after it; without, with the next one.
pub(super) async fn read(call: Call) -> Reply {
    let filter = Filter::of(&call.query, call.namespace())?;
    let from = call.query.number("index")?.filter(|index| *index > 0);
    let subscription = subscribe(&call.api.state.events, from);
    Ok(stream(&call.api, JSON, |writer| async move {
        let error = match subscription {
            Ok(subscription) => follow(&writer, subscription, &filter).await?,
            Err(error) => error,
        };
        writer.line(&ended(&error)).await
    }))
}

fn subscribe(hub: &Arc<EventHub>, from: Option<u64>) -> Result<Subscription, SubscriptionError> {
    match from {
        Some(index) => hub.subscribe_after(berth_model::Index(index)),
        None => Ok(hub.subscribe()),
    }
}

/// Sends changes until they can be followed no more. When the server stops, those that have happened by then are sent.
async fn follow(
    writer: &Writer,
    mut subscription: Subscription,
    filter: &Filter,
) -> Result<SubscriptionError, Closed> {
    let beat = Some(Duration::from_millis(HEARTBEAT_MS));
    loop {
        match writer.wait(beat, subscription.next()).await {
            Ok(Ok(first)) => catch_up(writer, first, &mut subscription, filter).await?,
            Ok(Err(error)) => return Ok(error),
            Err(Closed) => break,
        }
    }
    let mut left = if writer.is_stopping() { subscription.waiting() } else { 0 };
    while left > 0 {
        match subscription.try_next() {
            Ok(Some(first)) => catch_up(writer, first, &mut subscription, filter).await?,
            Ok(None) => break,
            Err(error) => return Ok(error),
        }
        left = subscription.waiting().min(left - 1);
    }
    Err(Closed)
}

/// Sends a batch and those that have come since. A follower that is behind is told only the latest of what was observed
/// of an allocation: it catches up however fast agents talk.
async fn catch_up(
    writer: &Writer,
    first: Arc<Batch>,
    subscription: &mut Subscription,
    filter: &Filter,
) -> Result<(), Closed> {
    let mut batches = vec![first];
    // Too slow a follower is told so when it asks for the next batch.
    while batches.len() < CATCH_UP_MAX
        && let Ok(Some(next)) = subscription.try_next()
    {
        batches.push(next);
    }
    let latest = if batches.len() > 1 { latest_observed(&batches) } else { HashMap::new() };
    for batch in &batches {
        send(writer, batch, &latest, filter).await?;
    }
    Ok(())
}

/// Where each allocation was observed last.
fn latest_observed(batches: &[Arc<Batch>]) -> HashMap<AllocId, Index> {
    let observed = batches.iter().flat_map(|batch| {
        let ids = batch.changes.iter().filter_map(|change| match change {
            Change::Observed(_, id) => Some(*id),
            Change::Logged(_) => None,
        });
        ids.map(|id| (id, batch.index))
    });
    observed.collect()
}

/// Sends what the filter lets pass of a batch. Changes become JSON a line at a time: a batch may hold thousands.
async fn send(
    writer: &Writer,
    batch: &Batch,
    latest: &HashMap<AllocId, Index>,
    filter: &Filter,
) -> Result<(), Closed> {
    let mut wanted = wanted(batch, latest, filter).into_iter().peekable();
    while wanted.peek().is_some() {
        let line = wanted.by_ref().take(LINE_EVENTS_MAX);
        let events = line.map(|(subject, change)| event(batch, subject, change)).collect();
        let (more, error) = (wanted.peek().is_some(), String::new());
        writer.line(&EventFrame { index: batch.index.0, events, more, error, resume_index: 0 }).await?;
    }
    Ok(())
}

fn wanted<'b>(
    batch: &'b Batch,
    latest: &HashMap<AllocId, Index>,
    filter: &Filter,
) -> Vec<(Subject<'b>, &'b Change)> {
    let overtaken = |change: &Change| match change {
        Change::Observed(_, id) => latest.get(id).is_some_and(|index| *index > batch.index),
        Change::Logged(_) => false,
    };
    let changes = batch.changes.iter().filter(|change| !overtaken(change));
    let subjects = changes.filter_map(|change| Some((nomad::subject(&batch.view, change)?, change)));
    subjects.filter(|(subject, _)| filter.passes(subject)).collect()
}

fn event<'b>(
    batch: &'b Batch,
    subject: Subject<'b>,
    change: &Change,
) -> Event<Option<Payload<'b>>, Text<'b>> {
    Event {
        topic: subject.topic.into(),
        kind: subject.kind.into(),
        key: subject.key,
        namespace: Text::maybe(subject.namespace),
        filter_keys: subject.filter_keys,
        index: batch.index.0,
        observed: subject.observed,
        payload: nomad::payload(&batch.view, change),
    }
}

/// The last line of a stream that cannot go on.
fn ended(error: &SubscriptionError) -> EventFrame {
    let SubscriptionError::TooOld { oldest, .. } = error;
    EventFrame { error: error.to_string(), resume_index: oldest.0, ..EventFrame::default() }
}
