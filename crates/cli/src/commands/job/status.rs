//! `berth job status`: the jobs in a list, or one in detail.

use berth_api::http::JobStub;
use clap::Args;

use super::detail::JobDetail;
use crate::{
    failure::Failure,
    output::{Align, Format, Table, age, now_ns, stdout_width},
    remote::Remote,
};

/// Arguments of `job status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The job's id, or its beginning; all jobs when left out
    #[arg(value_name = "JOB")]
    id: Option<String>,
    /// How to print it
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Format,
}

impl Status {
    /// Prints it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let Some(id) = &self.id else {
            return self.output.print(&remote.jobs().await?, |jobs| list(jobs));
        };
        let id = remote.find_job(id).await?;
        let (job, summary) = tokio::try_join!(remote.job(&id), remote.job_summary(&id))?;
        let (allocations, evaluations) =
            tokio::try_join!(remote.job_allocations(&id), remote.job_evaluations(&id))?;
        self.output.print(&JobDetail { job, summary, allocations, evaluations }, JobDetail::render)
    }
}

fn list(jobs: &[JobStub]) -> String {
    if jobs.is_empty() {
        return "no jobs\n".into();
    }
    let mut table = Table::new(&[
        ("id", Align::Left),
        ("type", Align::Left),
        ("priority", Align::Right),
        ("status", Align::Left),
        ("running", Align::Right),
        ("waiting", Align::Right),
        ("registered", Align::Left),
    ]);
    let now = now_ns();
    for job in jobs {
        table.row(row(job, now));
    }
    table.render(stdout_width())
}

fn row(job: &JobStub, now_ns: u64) -> [String; 7] {
    let groups = job.job_summary.summary.values();
    let running: u32 = groups.clone().map(|group| group.running).sum();
    let waiting: u32 = groups.map(|group| group.queued + group.starting).sum();
    let status = if job.stop { format!("{} (stopped)", job.status) } else { job.status.clone() };
    [
        job.id.clone(),
        job.job_type.clone(),
        job.priority.to_string(),
        status,
        running.to_string(),
        waiting.to_string(),
        age(job.submit_time, now_ns),
    ]
}
