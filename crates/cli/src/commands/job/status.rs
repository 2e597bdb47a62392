//! `berth job status`: the jobs in a list, or one in detail.

use berth_api::http::JobStub;
use clap::Args;

use super::detail::{DetailOptions, JobDetail};
use crate::{
    commands::{alloc, deployment, eval, node},
    complete,
    failure::{Exit, Failure},
    filter::FilterArgs,
    output::{Cell, Column, Layout, Table, View, age, now_ns},
    remote::{IdKind, Remote},
    show::ShowArgs,
};

/// Arguments of `job status`.
#[derive(Debug, Args)]
pub struct JobStatusArgs {
    /// Id or prefix of the job; all jobs by default
    #[arg(value_name = "JOB", conflicts_with = "filter", add = complete::jobs())]
    id: Option<String>,
    /// Include the current resource usage of its allocations
    #[arg(long, requires = "id")]
    stats: bool,
    /// Show the job and its status, without its groups and allocations
    #[arg(long, requires = "id", conflicts_with = "stats")]
    short: bool,
    /// Include its evaluations
    #[arg(long, requires = "id")]
    evals: bool,
    /// Allocations of earlier jobs with this id too; they are always listed
    #[arg(long, requires = "id", hide = true)]
    all_allocs: bool,
    /// The id may be of anything else that has one: `berth status`
    #[arg(long, hide = true)]
    any: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl JobStatusArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let Some(id) = &self.id else {
            return self.show.show(&self.filter.of(remote), async |remote| remote.jobs().await).await;
        };
        let id = match remote.find_job(id).await {
            Err(failure) if self.any && matches!(failure.exit(), Exit::NotFound | Exit::Denied) => {
                return self.of_anything(remote, id).await;
            }
            found => found?,
        };
        let read = async |remote: &Remote| {
            let parts = DetailOptions { short: self.short, evals: self.evals };
            let detail = JobDetail::read(remote, &id).await?.with(parts);
            if self.stats { detail.with_usage(remote).await } else { Ok(detail) }
        };
        self.show.show(remote, read).await
    }

    /// Prints what has this id and is no job.
    async fn of_anything(&self, remote: &Remote, id: &str) -> Result<(), Failure> {
        let (kind, id) = remote.find_anything(id).await?;
        let of_jobs = [
            ("stats", self.stats),
            ("evals", self.evals),
            ("short", self.short && kind != IdKind::Allocation),
        ];
        if let Some((flag, _)) = of_jobs.into_iter().find(|(_, given)| *given) {
            let text = format!("`-{flag}` is about jobs, and {id} is of the kind {}", kind.name());
            return Err(Failure::new(Exit::Usage, text).help("leave it out"));
        }
        match kind {
            IdKind::Allocation => alloc::status::print(remote, &self.show, &id, self.short).await,
            IdKind::Deployment => deployment::status::print(remote, &self.show, &id).await,
            IdKind::Evaluation => eval::status::print(remote, &self.show, &id).await,
            IdKind::Node => node::status::print(remote, &self.show, &id).await,
        }
    }
}

const COLUMNS: &[Column] = &[
    Column::id("id"),
    Column::text("namespace").wide(),
    Column::text("type"),
    Column::number("priority").spare(),
    Column::text("status"),
    Column::number("running"),
    Column::number("waiting"),
    Column::number("failed").wide(),
    Column::text("registered").spare(),
    Column::number("version").wide(),
    Column::text("pool").wide(),
    Column::text("datacenters").wide(),
];

impl View for Vec<JobStub> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no jobs: `berth job init` writes a job file to start from\n".into();
        }
        let mut table = Table::new(layout, COLUMNS);
        let now = now_ns();
        for job in self {
            table.row(row(job, now));
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|job| job.id.clone()).collect()
    }
}

fn row(job: &JobStub, now_ns: u64) -> [Cell; 12] {
    let groups = job.job_summary.summary.values();
    let running: u32 = groups.clone().map(|group| group.running).sum();
    let waiting: u32 = groups.clone().map(|group| group.queued + group.starting).sum();
    let failed: u32 = groups.map(|group| group.failed).sum();
    [
        (&job.id).into(),
        (&job.namespace).into(),
        (&job.job_type).into(),
        Cell::number(job.priority),
        Cell::status(outcome_or_status(job)),
        Cell::number(running),
        Cell::number(waiting),
        Cell::number(failed),
        age(job.submit_time, now_ns).into(),
        Cell::number(job.version),
        (&job.node_pool).into(),
        job.datacenters.join(",").into(),
    ]
}

/// In a word: a job that its owner stopped is dead as well, but not by itself.
pub fn outcome_or_status(job: &JobStub) -> &str {
    match (job.stop, job.status.as_str()) {
        (true, "dead") => "stopped",
        (true, _) => "stopping",
        (false, "dead") if !job.outcome.is_empty() => &job.outcome,
        (false, status) => status,
    }
}
