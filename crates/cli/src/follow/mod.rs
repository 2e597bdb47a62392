//! Following a job from its evaluation until its allocations run, or have ended.
//!
//! [`Progress`] is pure: events go in, and it knows how far things are. The loop here only reads the event stream and
//! shows what has changed.

mod progress;
mod screen;

use std::time::Instant;

use berth_api::http::{EventFrame, Lines};

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
    /// When it was asked for.
    pub since: Instant,
}

/// Follows the consequences of a change until the goal is reached, or cannot be.
pub async fn follow(
    remote: &Remote,
    change: &Change<'_>,
    mut progress: Progress,
) -> Result<Progress, Failure> {
    let mut frames = remote.job_events(change.job, change.index).await?;
    let mut screen = Screen::new(change.since);
    while !progress.is_settled() {
        progress.take(next(&mut frames, change.job).await?);
        screen.show(&progress);
    }
    screen.finish(&progress);
    Ok(progress)
}

/// The next events; all of an index before the last of them is judged.
async fn next(frames: &mut Lines<EventFrame>, job: &str) -> Result<Vec<berth_api::http::Event>, Failure> {
    let mut events = Vec::new();
    loop {
        let frame = frames.next().await?.ok_or_else(|| broken_off("the server ended the stream", job))?;
        if !frame.error.is_empty() {
            return Err(broken_off(&frame.error, job));
        }
        events.extend(frame.events);
        if !frame.more {
            return Ok(events);
        }
    }
}

fn broken_off(why: &str, job: &str) -> Failure {
    Failure::new(Exit::Failed, format!("cannot follow the job any longer: {why}"))
        .help(format!("what was asked for is registered; see how it fares with `berth job status {job}`"))
}
