//! Follows a job from its evaluation until its allocations run, or have ended.
//!
//! [`Progress`] is pure: events go in, and it knows how far things are. The loop here only reads the event stream and
//! shows what has changed.

mod job_events;
mod job_payload;
mod live;
mod progress;
mod screen;
mod steady;

use std::time::Instant;

use tokio::signal::unix::{SignalKind, signal};

use self::{job_events::JobEvents, screen::Screen, steady::Steady};
use crate::{
    failure::{Exit, Failure},
    remote::Remote,
};

pub use progress::{AllocProgress, Progress, trouble};

/// A change of a job, and the point from which on its consequences are seen.
pub struct JobChange<'a> {
    pub job: &'a str,
    /// All consequences come after this index.
    pub index: u64,
}

/// Follows the consequences of a change until the goal is reached, or cannot be; shows them as they come. `since` is when
/// the change was requested. Retries while the server does not answer for a moment; an interrupt only stops following.
pub async fn follow(
    remote: &Remote,
    change: &JobChange<'_>,
    mut progress: Progress,
    since: Instant,
) -> Result<Progress, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut job_events = JobEvents::of(remote, change).await?;
    let mut screen = Screen::new(since);
    let mut steady = Steady::default();
    while !steady.is_over(&progress, tokio::time::Instant::now()) {
        let is_away = job_events.is_away();
        tokio::select! {
            events = job_events.next() => progress.take(events?),
            () = screen.is_due(is_away) => {}
            () = steady.until() => {}
            _ = interrupt.recv() => return Err(interrupted(change.job)),
        }
        screen.show(&progress, job_events.is_away());
    }
    screen.finish(&progress, steady.since());
    Ok(progress)
}

/// The same without showing anything.
pub async fn settle(
    remote: &Remote,
    change: &JobChange<'_>,
    mut progress: Progress,
) -> Result<Progress, Failure> {
    let mut job_events = JobEvents::of(remote, change).await?;
    let mut steady = Steady::default();
    while !steady.is_over(&progress, tokio::time::Instant::now()) {
        tokio::select! {
            events = job_events.next() => progress.take(events?),
            () = steady.until() => {}
        }
    }
    Ok(progress)
}

fn interrupted(job: &str) -> Failure {
    Failure::new(Exit::Failed, "interrupted: the operation continues on the server")
        .help(format!("see its status with `berth job status {job}`"))
}
