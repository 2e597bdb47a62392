//! `berth job run`: registers a job, and follows it until its allocations run.

use std::time::Instant;

use clap::Args;

use super::file::JobFile;
use crate::{
    failure::{Exit, Failure},
    follow::{Change, Progress, follow},
    output::{self, clean, count, funnels, short_id},
    remote::Remote,
};

/// Arguments of `job run`.
#[derive(Debug, Args)]
pub struct Run {
    #[command(flatten)]
    file: JobFile,
    /// Do not wait: print the evaluation's id and leave
    #[arg(long)]
    detach: bool,
    /// Register only if the job was last changed at this index, 0 for a job that is not there yet
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
}

impl Run {
    /// Registers and follows.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let since = Instant::now();
        let job = self.file.parse()?;
        let (namespace, id) = (job.key.namespace.to_string(), job.key.id.to_string());
        let remote = remote.in_namespace(&namespace);
        let registered = remote.register(&job, self.check_index).await?;
        if !registered.warnings.is_empty() {
            output::tell(&format!("warning: {}", clean(&registered.warnings)));
        }
        if self.detach {
            return Ok(output::print(&format!("{}\n", registered.eval_id))?);
        }
        output::tell(&format!("job {id} is registered, evaluation {}", short_id(&registered.eval_id)));
        let change = Change { job: &id, index: registered.job_modify_index, since };
        let progress = follow(&remote, &change, Progress::starting(&registered.eval_id)).await?;
        judge(&id, &progress)
    }
}

/// What came of it, and what to do next.
fn judge(job: &str, progress: &Progress) -> Result<(), Failure> {
    if let Some(failures) = progress.unplaced() {
        return Err(Failure::report(Exit::Unplaced, &format!("error: {}", funnels(failures))).help(format!(
            "it is placed as soon as there is room; see `berth job status {job}` and `berth node status`"
        )));
    }
    if let Some(eval) = progress.eval().filter(|eval| eval.status == "failed" || eval.status == "canceled") {
        let told =
            format!("evaluation {} is {}: {}", short_id(&eval.id), eval.status, eval.status_description);
        return Err(Failure::new(Exit::Failed, clean(&told)).help(format!("berth job status {job}")));
    }
    let failed: Vec<_> = progress.failed().collect();
    if let [(id, alloc), ..] = failed[..] {
        let told = format!("{} failed: {}: {}", count(failed.len(), "allocation"), alloc.name, alloc.trouble);
        return Err(
            Failure::new(Exit::Failed, clean(&told)).help(format!("berth alloc status {}", short_id(id)))
        );
    }
    if let Some(id) = progress.allocs().keys().next() {
        output::tell(&format!("next: berth alloc logs {}", short_id(id)));
    }
    Ok(())
}
