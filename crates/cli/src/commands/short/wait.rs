//! `berth run -wait`: prints the task's output, and exits with the task's exit code.

use berth_api::http::{Allocation, JobRegistered, TaskEvent};

use crate::{
    commands::alloc,
    failure::{Exit, Failure},
    follow::{JobChange, Progress, settle, trouble},
    output::{RawOutput, clean, funnels, short_id},
    remote::{Remote, StreamRead, StreamSource, StreamStart},
};

/// The task's name in the job of a one-liner.
const TASK: &str = "main";
/// Added to a signal's number, as shells do.
const SIGNALLED: i32 = 128;

/// Waits for the one allocation of the job, and for its end.
pub async fn until_it_ends(remote: &Remote, job: &str, registered: &JobRegistered) -> Result<(), Failure> {
    let change = JobChange { job, index: registered.job_modify_index };
    let progress = settle(remote, &change, Progress::starting(&registered.eval_id)).await?;
    if let Some(failures) = progress.unplaced() {
        let text = format!("error: {}", funnels(failures));
        return Err(Failure::report(Exit::Unplaced, &text)
            .help(format!("to stop waiting for resources: berth job stop {job}")));
    }
    let alloc = progress.allocs().keys().next().ok_or_else(|| {
        Failure::new(Exit::Failed, "nothing was placed").help(format!("berth job status {job}"))
    })?;
    let printed = tokio::try_join!(
        print(remote, alloc, "stdout", RawOutput::stdout()),
        print(remote, alloc, "stderr", RawOutput::stderr())
    );
    if let Err(failure) = printed {
        // What has ended without a log says more than that there is none.
        let ended = remote.allocation(alloc).await.ok().filter(has_ended);
        return ended.map_or(Ok(()), |alloc| verdict(&alloc)).and(Err(failure));
    }
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
    let remote = remote.recording_reads();
    loop {
        let alloc = remote.allocation(id).await?;
        if has_ended(&alloc) {
            return Ok(alloc);
        }
        remote.changed().await?;
    }
}

fn has_ended(alloc: &Allocation) -> bool {
    matches!(alloc.client_status.as_str(), "complete" | "failed" | "lost")
}

/// The task's own exit code, and why it ended unless that was its own doing: all that it printed has been printed, and a code
/// of its own needs no words.
fn verdict(of: &Allocation) -> Result<(), Failure> {
    let task = of.task_states.as_ref().and_then(|tasks| tasks.get(TASK));
    let events = || task.iter().flat_map(|task| &task.events);
    // What ended before a start that failed is not how it ended.
    let end = task.and_then(alloc::last_exit);
    let was_ended = events().any(|event| event.kind == "Killing" && event.fails_task);
    let code = end.map(|end| if end.signal == 0 { end.exit_code } else { SIGNALLED + end.signal });
    let exit = match code {
        Some(0) if !was_ended => return Ok(()),
        Some(0) | None => Exit::Failed,
        Some(code) => Exit::Task(u8::try_from(code).unwrap_or(u8::MAX)),
    };
    let is_own = |end: &TaskEvent| end.signal == 0 && end.exit_code >= 0 && !was_out_of_memory(end);
    if end.is_some_and(is_own) && !was_ended {
        return Err(Failure::silent(exit));
    }
    let why = match end.filter(|end| was_out_of_memory(end)) {
        Some(_) => out_of_memory(of),
        None => trouble(of.task_states.as_ref()).unwrap_or_else(|| of.client_description.clone()),
    };
    let id = short_id(&of.id);
    let text = clean(&format!("allocation {id} is {}: {why}", of.client_status)).into_owned();
    Err(Failure::new(exit, text).help(format!("berth alloc status {id}")))
}

fn was_out_of_memory(end: &TaskEvent) -> bool {
    end.details.get("oom_killed").is_some_and(|oom| oom == "true")
}

fn out_of_memory(alloc: &Allocation) -> String {
    let mib = alloc.allocated_resources.tasks.get(TASK).map(|task| task.memory.memory_mb);
    let limit =
        mib.map_or_else(String::new, |mib| format!(" at its limit of {mib} MiB (`-memory` gives it more)"));
    format!("{TASK}: out of memory{limit}")
}

#[cfg(test)]
mod tests {
    use berth_api::http::TaskState;

    use super::*;

    fn ended(events: &[(&str, i32)]) -> Allocation {
        let event = |(time, (kind, exit_code)): (u64, &(&str, i32))| TaskEvent {
            kind: (*kind).to_owned(),
            exit_code: *exit_code,
            time,
            message: format!("event {time}"),
            ..TaskEvent::default()
        };
        let events = (0..).zip(events).map(event).collect();
        let task = TaskState { failed: true, events, ..TaskState::default() };
        Allocation {
            client_status: "failed".into(),
            task_states: Some([(TASK.to_owned(), task)].into()),
            ..Allocation::default()
        }
    }

    #[test]
    fn a_start_that_failed_after_an_end_is_how_it_ended() {
        let exit = |events: &[(&str, i32)]| {
            verdict(&ended(events)).map_err(|failure| (failure.exit(), failure.to_string()))
        };
        assert_eq!(exit(&[("Terminated", 0)]), Ok(()));
        let (code, text) = exit(&[("Terminated", 7)]).expect_err("it failed");
        assert!(matches!(code, Exit::Task(7)) && text.is_empty(), "{text}");
        for code in [0, 7] {
            let (exit, text) = exit(&[("Terminated", code), ("Driver Failure", 0)]).expect_err("it failed");
            assert!(matches!(exit, Exit::Failed) && text.contains("Driver Failure: event 1"), "{text}");
        }
    }
}
