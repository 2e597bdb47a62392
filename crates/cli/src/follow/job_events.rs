//! A job's events, from a server that may be away for a moment.

use std::{future::Future, pin::Pin, time::Duration};

use berth_api::http::{Event, EventFrame, JsonLines};

use super::JobChange;
use crate::{
    failure::{Exit, Failure},
    remote::{Remote, ServerOutage},
};

/// The job's events. Where the stream breaks off they are requested again from the last index on; an event that is sent twice
/// is the same each time.
pub(super) struct JobEvents<'a> {
    remote: &'a Remote,
    job: &'a str,
    /// All up to it have been shown.
    index: u64,
    source: EventSource<'a>,
    /// Of the index that is being read. Stored here so that a wait that is cancelled (by `select!`) loses none.
    events: Vec<Event>,
    /// The events before that index are no longer retained, so the state has to be read instead.
    lacks_state: bool,
    outage: ServerOutage,
}

enum EventSource<'a> {
    Stream(JsonLines<EventFrame>),
    /// Stored here so that a wait that is cancelled (by `select!`) does not start over.
    Opening(Pin<Box<dyn Future<Output = Result<OpenedStream, Failure>> + 'a>>),
}

/// A stream, and the state that it continues from where earlier events are no longer retained.
type OpenedStream = (Vec<Event>, JsonLines<EventFrame>);

impl<'a> JobEvents<'a> {
    pub(super) async fn of(remote: &'a Remote, change: &JobChange<'a>) -> Result<Self, Failure> {
        let JobChange { job, index } = *change;
        let source = EventSource::Stream(remote.job_events(job, index).await?);
        Ok(Self {
            remote,
            job,
            index,
            source,
            events: Vec::new(),
            lacks_state: false,
            outage: ServerOutage::default(),
        })
    }

    /// Whether the server does not answer at present.
    pub(super) fn is_away(&self) -> bool {
        self.outage.is_away()
    }

    /// The next events; all of an index before the last of them is judged. None where the server is away from now on, or
    /// answers again.
    pub(super) async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        loop {
            match &mut self.source {
                EventSource::Opening(opening) => match opening.await {
                    Ok((state, stream)) => {
                        self.source = EventSource::Stream(stream);
                        self.lacks_state = false;
                        self.outage.answered();
                        return Ok(state);
                    }
                    Err(failure) => self.open_later(failure)?,
                },
                EventSource::Stream(stream) => match stream.next().await {
                    Ok(Some(frame)) if !frame.error.is_empty() && frame.resume_index > 0 => {
                        self.index = frame.resume_index;
                        self.open(Duration::ZERO, true);
                    }
                    Ok(Some(frame)) if !frame.error.is_empty() => {
                        return Err(self.broken_off(&frame.error));
                    }
                    Ok(Some(frame)) => {
                        self.events.extend(frame.events);
                        if !frame.more {
                            self.index = self.index.max(frame.index);
                            return Ok(std::mem::take(&mut self.events));
                        }
                    }
                    Ok(None) => return self.lose("the server ended the stream"),
                    Err(error) => return self.lose(&error.to_string()),
                },
            }
        }
    }

    /// No event was received, but the caller must redraw to show that the server does not answer.
    fn lose(&mut self, why: &str) -> Result<Vec<Event>, Failure> {
        self.open_later(self.broken_off(why))?;
        Ok(Vec::new())
    }

    fn open_later(&mut self, failure: Failure) -> Result<(), Failure> {
        let pause = self.outage.retry_after(failure)?;
        self.open(pause, self.lacks_state);
        Ok(())
    }

    /// Begins to. What happens while the state is read is sent by the stream once more.
    fn open(&mut self, pause: Duration, lacks_state: bool) {
        self.events.clear();
        self.lacks_state = lacks_state;
        let (remote, job, index) = (self.remote, self.job, self.index);
        self.source = EventSource::Opening(Box::pin(async move {
            tokio::time::sleep(pause).await;
            let stream = remote.job_events(job, index).await?;
            let state = if lacks_state { remote.job_state(job).await? } else { Vec::new() };
            Ok((state, stream))
        }));
    }

    fn broken_off(&self, why: &str) -> Failure {
        Failure::new(Exit::Failed, format!("cannot follow the job any longer: {why}")).help(format!(
            "what was asked for is registered; see its status with `berth job status {}`",
            self.job
        ))
    }
}
