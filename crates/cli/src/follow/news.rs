//! A job's events, from a server that may be away for a moment.

use std::{future::Future, pin::Pin, time::Duration};

use berth_api::http::{Event, EventFrame, JsonLines};

use super::Change;
use crate::{
    failure::{Exit, Failure},
    remote::{Patience, Remote},
};

/// The job's events. They are asked for again, from the last index on, where the stream breaks off: what is sent twice says
/// the same.
pub(super) struct News<'a> {
    remote: &'a Remote,
    job: &'a str,
    /// All up to it have been shown.
    index: u64,
    source: Source<'a>,
    /// Of the index that is being read. They are kept here so that a wait which is called off loses none.
    events: Vec<Event>,
    /// What led to that index is no longer kept.
    lacks_state: bool,
    patience: Patience,
}

enum Source<'a> {
    Stream(JsonLines<EventFrame>),
    /// It is kept here so that a wait which is called off does not begin again.
    Opening(Pin<Box<dyn Future<Output = Result<Opened, Failure>> + 'a>>),
}

/// A stream, and the state from which it goes on, where what led there is no longer kept.
type Opened = (Vec<Event>, JsonLines<EventFrame>);

impl<'a> News<'a> {
    pub(super) async fn of(remote: &'a Remote, change: &Change<'a>) -> Result<Self, Failure> {
        let Change { job, index } = *change;
        let source = Source::Stream(remote.job_events(job, index).await?);
        Ok(Self {
            remote,
            job,
            index,
            source,
            events: Vec::new(),
            lacks_state: false,
            patience: Patience::default(),
        })
    }

    /// Whether the server does not answer at present.
    pub(super) fn is_away(&self) -> bool {
        self.patience.is_away()
    }

    /// The next events; all of an index before the last of them is judged. None where the server is away from now on, or
    /// answers again.
    pub(super) async fn next(&mut self) -> Result<Vec<Event>, Failure> {
        loop {
            match &mut self.source {
                Source::Opening(opening) => match opening.await {
                    Ok((state, stream)) => {
                        self.source = Source::Stream(stream);
                        self.lacks_state = false;
                        self.patience.answered();
                        return Ok(state);
                    }
                    Err(failure) => self.open_later(failure)?,
                },
                Source::Stream(stream) => match stream.next().await {
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

    /// Nothing has happened that is known of, but whoever looks on is to see that the server is away.
    fn lose(&mut self, why: &str) -> Result<Vec<Event>, Failure> {
        self.open_later(self.broken_off(why))?;
        Ok(Vec::new())
    }

    fn open_later(&mut self, failure: Failure) -> Result<(), Failure> {
        let pause = self.patience.bear(failure)?;
        self.open(pause, self.lacks_state);
        Ok(())
    }

    /// Begins to. What happens while the state is read is sent by the stream once more.
    fn open(&mut self, pause: Duration, lacks_state: bool) {
        self.events.clear();
        self.lacks_state = lacks_state;
        let (remote, job, index) = (self.remote, self.job, self.index);
        self.source = Source::Opening(Box::pin(async move {
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
