//! The event stream: what change, as it changes, one JSON object a line.

mod filter;
mod line_cache;

use std::{collections::HashMap, sync::Arc, time::Duration};

use berth_api::http::{Event, EventFrame};
use berth_model::{AllocId, Index};
use bytes::Bytes;

use crate::{
    Change, FollowFrom, SubscriptionError,
    access::{CallerBatch, CallerChange, CallerEvents},
    http::{
        call::{Call, Reply},
        reply::JSON,
        stream::{Closed, StreamWriter, stream},
        text::Text,
    },
    nomad::convert::{self, Payload, Subject},
};
use filter::EventFilter;

pub(super) use line_cache::LineCache;

/// How often the stream says that it still lives.
const HEARTBEAT_MS: u64 = 10_000;
/// Changes in one line.
const LINE_EVENTS_MAX: usize = 256;
/// Batches taken together by a follower that is behind.
const CATCH_UP_MAX: usize = 256;

/// `GET /v1/event/stream`
///
/// With `index`, the stream begins with the changes at that index, or the first after it. A server that is behind sends nothing
/// that comes before `index`, even if it has yet to hear of it. Without one, or with 0, it begins with the latest changes that are
/// kept, as clients of Nomad know it, or, if they do not want those, with the next one.
pub(super) async fn read(call: Call, lines: Arc<LineCache>) -> Reply {
    let filter = Arc::new(EventFilter::of(&call)?);
    let from = match call.query.number("index")?.filter(|index| *index > 0) {
        Some(index) => FollowFrom::At(Index(index)),
        None if call.query.flag("recent", true)? => FollowFrom::Recent,
        None => FollowFrom::Now,
    };
    let events = call.follow(from);
    stream(&call, JSON, |writer| async move {
        let follower = Follower::new(writer, filter, lines);
        let error = match events {
            Ok(events) => follower.follow(events).await?,
            Err(error) => error,
        };
        follower.writer.line(&error_line(&error)).await
    })
}

/// Who is informed, and of what.
struct Follower {
    writer: StreamWriter,
    filter: Arc<EventFilter>,
    /// What others who want the same have been sent.
    lines: Arc<LineCache>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.lines.leave();
    }
}

impl Follower {
    fn new(writer: StreamWriter, filter: Arc<EventFilter>, lines: Arc<LineCache>) -> Self {
        lines.join();
        Self { writer, filter, lines }
    }

    /// Sends changes until they can be followed no more. When the server stops, those that have happened by then are
    /// sent.
    async fn follow(&self, mut events: CallerEvents) -> Result<SubscriptionError, Closed> {
        let beat = Some(Duration::from_millis(HEARTBEAT_MS));
        // A client knows from the first line on that it misses nothing.
        self.writer.beat().await?;
        loop {
            match self.writer.wait(beat, events.next()).await {
                Ok(Ok(first)) => self.catch_up(first, &mut events).await?,
                Ok(Err(error)) => return Ok(error),
                Err(Closed) => break,
            }
        }
        let mut remaining = if self.writer.is_stopping() { events.waiting() } else { 0 };
        while remaining > 0 {
            match events.try_next() {
                Ok(Some(first)) => self.catch_up(first, &mut events).await?,
                Ok(None) => break,
                Err(error) => return Ok(error),
            }
            remaining = events.waiting().min(remaining - 1);
        }
        Err(Closed)
    }

    /// Sends a batch and those that have come since. A follower that is behind is sent only the latest of what was
    /// observed of an allocation: it catches up however fast agents talk.
    async fn catch_up(&self, first: CallerBatch, events: &mut CallerEvents) -> Result<(), Closed> {
        let mut batches = vec![first];
        // Too slow a follower is refused when it asks for the next batch.
        while batches.len() < CATCH_UP_MAX
            && let Ok(Some(next)) = events.try_next()
        {
            batches.push(next);
        }
        let latest = if batches.len() > 1 { latest_observed(&batches) } else { LatestObserved::new() };
        for batch in &batches {
            self.send(batch, &latest).await?;
        }
        Ok(())
    }

    /// Sends the changes of a batch that pass the filter.
    async fn send(&self, batch: &CallerBatch, latest: &LatestObserved) -> Result<(), Closed> {
        let is_one_line = batch.len() <= LINE_EVENTS_MAX;
        if !is_one_line || batch.changes().any(|change| is_overtaken(batch, change, latest)) {
            return self.write(batch, latest).await;
        }
        let line = self.lines.find(&self.filter, batch.index()).unwrap_or_else(|| {
            let matches = matching(batch, latest, &self.filter);
            let line = if matches.is_empty() {
                Bytes::new()
            } else {
                self.writer.text(&frame(batch, matches, false))
            };
            self.lines.insert(&self.filter, batch.index(), &line);
            line
        });
        if line.is_empty() { Ok(()) } else { self.writer.send(line).await }
    }

    /// Encodes the changes of a batch for this follower alone, one line at a time: a batch may have thousands of changes.
    async fn write(&self, batch: &CallerBatch, latest: &LatestObserved) -> Result<(), Closed> {
        let mut matches = matching(batch, latest, &self.filter).into_iter().peekable();
        while matches.peek().is_some() {
            let line = matches.by_ref().take(LINE_EVENTS_MAX).collect();
            self.writer.line(&frame(batch, line, matches.peek().is_some())).await?;
        }
        Ok(())
    }
}

/// The index of the latest observation of each allocation.
type LatestObserved = HashMap<AllocId, Index>;

fn latest_observed(batches: &[CallerBatch]) -> LatestObserved {
    let observed = batches.iter().flat_map(|batch| {
        let ids = batch.changes().filter_map(|change| match change.change {
            Change::Observed(_, id) => Some(*id),
            Change::Logged(_) => None,
        });
        ids.map(|id| (id, batch.index()))
    });
    observed.collect()
}

/// Whether a later batch reports more than this change does.
fn is_overtaken(batch: &CallerBatch, change: CallerChange<'_>, latest: &LatestObserved) -> bool {
    match change.change {
        Change::Observed(_, id) => latest.get(id).is_some_and(|index| *index > batch.index()),
        Change::Logged(_) => false,
    }
}

/// The changes of a batch that pass a follower's filter.
fn matching<'b>(
    batch: &'b CallerBatch,
    latest: &LatestObserved,
    filter: &EventFilter,
) -> Vec<MatchedChange<'b>> {
    let changes = batch.changes().filter(|change| !is_overtaken(batch, *change, latest));
    let subjects = changes.filter_map(|change| Some((convert::subject(change)?, change)));
    subjects.filter(|(subject, _)| filter.passes(subject)).collect()
}

type MatchedChange<'b> = (Subject<'b>, CallerChange<'b>);

/// One line, and whether more of the same batch follow.
fn frame<'b>(
    batch: &'b CallerBatch,
    matches: Vec<MatchedChange<'b>>,
    more: bool,
) -> EventFrame<Option<Payload<'b>>, Text<'b>> {
    let events = matches.into_iter().map(|(subject, change)| event(batch, subject, change)).collect();
    EventFrame { index: batch.index().0, events, more, error: String::new(), resume_index: 0 }
}

fn event<'b>(
    batch: &'b CallerBatch,
    subject: Subject<'b>,
    change: CallerChange<'b>,
) -> Event<Option<Payload<'b>>, Text<'b>> {
    Event {
        topic: subject.topic.into(),
        kind: subject.kind.into(),
        key: subject.key,
        namespace: Text::maybe(subject.namespace),
        filter_keys: subject.filter_keys,
        index: batch.index().0,
        observed: subject.observed,
        payload: convert::payload(change),
    }
}

/// The last line of a stream that cannot go on.
fn error_line(error: &SubscriptionError) -> EventFrame {
    let SubscriptionError::TooOld { resume, .. } = error;
    EventFrame { error: error.to_string(), resume_index: resume.0, ..EventFrame::default() }
}
