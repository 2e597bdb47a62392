//! The event stream: what changed, as it changes, one JSON object a line.

mod filter;

use std::{sync::Arc, time::Duration};

use berth_api::http::{Event, EventFrame};

use super::{
    call::{Call, Reply},
    reply::JSON,
    stream::{Closed, Writer, stream},
};
use crate::{
    Batch, Change, EventHub, Subscription, SubscriptionError,
    convert::nomad::{self, Subject},
};
use filter::Filter;

/// How often the stream says that it still lives.
const HEARTBEAT_MS: u64 = 10_000;
/// Changes in one line.
const LINE_EVENTS_MAX: usize = 256;

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
            Ok(Ok(batch)) => send(writer, &batch, filter).await?,
            Ok(Err(error)) => return Ok(error),
            Err(Closed) => break,
        }
    }
    let left = if writer.is_stopping() { subscription.waiting() } else { 0 };
    for _ in 0..left {
        match subscription.try_next() {
            Ok(Some(batch)) => send(writer, &batch, filter).await?,
            Ok(None) => break,
            Err(error) => return Ok(error),
        }
    }
    Err(Closed)
}

/// Sends what the filter lets pass of a batch. Changes become JSON a line at a time: a batch may hold thousands.
async fn send(writer: &Writer, batch: &Batch, filter: &Filter) -> Result<(), Closed> {
    let wanted = wanted(batch, filter);
    let mut lines = wanted.chunks(LINE_EVENTS_MAX).peekable();
    while let Some(line) = lines.next() {
        let events = line.iter().map(|(subject, change)| event(batch, subject, change)).collect();
        let more = lines.peek().is_some();
        writer.line(&EventFrame { index: batch.index.0, events, more, ..EventFrame::default() }).await?;
    }
    Ok(())
}

fn wanted<'b>(batch: &'b Batch, filter: &Filter) -> Vec<(Subject, &'b Change)> {
    let subjects =
        batch.changes.iter().filter_map(|change| Some((nomad::subject(&batch.view, change)?, change)));
    subjects.filter(|(subject, _)| filter.passes(subject)).collect()
}

fn event(batch: &Batch, subject: &Subject, change: &Change) -> Event {
    Event {
        topic: subject.topic.to_owned(),
        kind: subject.kind.to_owned(),
        key: subject.key.clone(),
        namespace: subject.namespace.clone().unwrap_or_default(),
        filter_keys: subject.filter_keys.clone(),
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
