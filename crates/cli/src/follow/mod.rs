//! Following a job from its evaluation until its allocations run, or have ended.
//!
//! [`Progress`] is pure: events go in, and it knows how far things are. The loop here only reads the event stream and
//! shows what has changed.

mod live;
mod progress;
mod screen;

use std::time::Instant;

use berth_api::http::{Event, EventFrame, Lines};

use self::screen::Screen;
use crate::{
    failure::{Exit, Failure},
    remote::Remote,
};

pub use progress::{Followed, Progress};

/// A change of a job, and the point from which on its consequences are seen.
pub struct Change<'a> {
    /// The job's id.
    pub job: &'a str,
    /// All consequences come after this index.
    pub index: u64,
}

/// Follows the consequences of a change until the goal is reached, or cannot be; shows them as they come. `since` is when
/// the change was asked for.
pub async fn follow(
    remote: &Remote,
    change: &Change<'_>,
    mut progress: Progress,
    since: Instant,
) -> Result<Progress, Failure> {
    let mut news = News::of(remote, change).await?;
    let mut screen = Screen::new(since);
    while !progress.is_settled() {
        tokio::select! {
            events = news.next(change.job) => progress.take(events?),
            () = screen.is_due() => {}
        }
        screen.show(&progress);
    }
    screen.finish(&progress);
    Ok(progress)
}

/// The same without showing anything.
pub async fn settle(
    remote: &Remote,
    change: &Change<'_>,
    mut progress: Progress,
) -> Result<Progress, Failure> {
    let mut news = News::of(remote, change).await?;
    while !progress.is_settled() {
        progress.take(news.next(change.job).await?);
    }
    Ok(progress)
}

/// The job's events.
struct News {
    frames: Lines<EventFrame>,
    /// Of the index that is being read. They are kept here so that a wait which is called off loses none.
    events: Vec<Event>,
}

impl News {
    async fn of(remote: &Remote, change: &Change<'_>) -> Result<Self, Failure> {
        Ok(Self { frames: remote.job_events(change.job, change.index).await?, events: Vec::new() })
    }

    /// The next events; all of an index before the last of them is judged.
    async fn next(&mut self, job: &str) -> Result<Vec<Event>, Failure> {
        loop {
            let frame = self.frames.next().await?;
            let frame = frame.ok_or_else(|| broken_off("the server ended the stream", job))?;
            if !frame.error.is_empty() {
                return Err(broken_off(&frame.error, job));
            }
            self.events.extend(frame.events);
            if !frame.more {
                return Ok(std::mem::take(&mut self.events));
            }
        }
    }
}

fn broken_off(why: &str, job: &str) -> Failure {
    Failure::new(Exit::Failed, format!("cannot follow the job any longer: {why}"))
        .help(format!("what was asked for is registered; see how it fares with `berth job status {job}`"))
}
