//! `berth run -wait`: prints what the task prints, and ends as the task ends.

use berth_api::http::{Allocation, JobRegistered};

use crate::{
    commands::alloc,
    failure::{Exit, Failure},
    follow::{Change, Progress, settle},
    output::{RawOutput, funnels, short_id},
    remote::{Remote, StreamRead, StreamSource, StreamStart},
};

/// The task's name in the job of a one-liner.
const TASK: &str = "main";
/// Added to a signal's number, as shells do.
const SIGNALLED: i32 = 128;

/// Waits for the one allocation of the job, and for its end.
pub async fn until_it_ends(remote: &Remote, job: &str, registered: &JobRegistered) -> Result<(), Failure> {
    let change = Change { job, index: registered.job_modify_index };
    let progress = settle(remote, &change, Progress::starting(&registered.eval_id)).await?;
    if let Some(failures) = progress.unplaced() {
        let told = format!("error: {}", funnels(failures));
        return Err(Failure::report(Exit::Unplaced, &told).help(format!("berth job stop {job} gives up")));
    }
    let alloc = progress.allocs().keys().next().ok_or_else(|| {
        Failure::new(Exit::Failed, "nothing was placed").help(format!("berth job status {job}"))
    })?;
    tokio::try_join!(
        print(remote, alloc, "stdout", RawOutput::stdout()),
        print(remote, alloc, "stderr", RawOutput::stderr())
    )?;
    verdict(&ended(remote, alloc).await?)
}

async fn print(
    remote: &Remote,
    alloc: &str,
    stream: &'static str,
    mut out: RawOutput,
) -> Result<(), Failure> {
    let source = StreamSource::Log { task: TASK, stream };
    let read = StreamRead { alloc, source, from: StreamStart::Offset(0), follow: true };
    alloc::print(remote, &read, &mut out).await
}

/// The allocation, once it has ended.
async fn ended(remote: &Remote, id: &str) -> Result<Allocation, Failure> {
    let remote = remote.noting();
    loop {
        let alloc = remote.allocation(id).await?;
        if matches!(alloc.client_status.as_str(), "complete" | "failed" | "lost") {
            return Ok(alloc);
        }
        remote.changed().await?;
    }
}

/// The task's own exit code; without one, what is known of its end.
fn verdict(alloc: &Allocation) -> Result<(), Failure> {
    let task = alloc.task_states.as_ref().and_then(|tasks| tasks.get(TASK));
    let end = task.and_then(|task| task.events.iter().rfind(|event| event.kind == "Terminated"));
    match end.map(|end| if end.signal == 0 { end.exit_code } else { SIGNALLED + end.signal }) {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::silent(Exit::Task(u8::try_from(code).unwrap_or(u8::MAX)))),
        None => {
            let told = format!(
                "allocation {} is {}: {}",
                short_id(&alloc.id),
                alloc.client_status,
                alloc.client_description
            );
            Err(Failure::new(Exit::Failed, told).help(format!("berth alloc status {}", short_id(&alloc.id))))
        }
    }
}
