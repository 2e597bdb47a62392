//! `berth ps`: running allocations.

use berth_api::http::AllocationStub;
use clap::Args;

use crate::{
    commands::alloc::{TaskExits, is_live, ports},
    complete,
    failure::Failure,
    filter::FilterArgs,
    global::Global,
    output::{Cell, Column, Layout, Table, View, age, now_ns},
    remote::{Remote, block_on},
    show::ShowArgs,
};

/// Arguments of `ps`.
#[derive(Debug, Args)]
pub struct PsArgs {
    /// Only allocations of this job, by id or prefix
    #[arg(value_name = "JOB", add = complete::jobs())]
    job: Option<String>,
    /// Include ended allocations
    #[arg(long, short, overrides_with = "all")]
    all: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl PsArgs {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        block_on(self.show(&global.remote()?))
    }

    async fn show(&self, remote: &Remote) -> Result<(), Failure> {
        let job = match &self.job {
            Some(id) => Some(remote.find_job(id).await?),
            None => None,
        };
        let read = async |remote: &Remote| {
            let mut allocs = match &job {
                Some(job) => remote.job_allocations_with_resources(job).await?,
                None => remote.allocations_with_resources().await?,
            };
            allocs.retain(|alloc| self.all || is_live(&alloc.client_status));
            allocs.sort_by_key(|alloc| std::cmp::Reverse(alloc.create_index));
            Ok(allocs)
        };
        self.show.show(&self.filter.of(remote), read).await
    }
}

const COLUMNS: &[Column] = &[
    Column::id("alloc"),
    Column::name("name"),
    Column::text("node"),
    Column::text("status"),
    Column::number("restarts"),
    Column::text("exit"),
    Column::text("placed"),
    Column::text("ports").extra(),
    Column::text("namespace").wide(),
    Column::text("type").wide(),
    Column::number("version").wide(),
    Column::text("desired").wide(),
    Column::text("reason").wide(),
];

impl View for Vec<AllocationStub> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "nothing runs: `berth ps -a` lists what has ended too\n".into();
        }
        let mut table = Table::new(layout, COLUMNS);
        let now = now_ns();
        for alloc in self {
            table.row(row(alloc, layout, now));
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|alloc| alloc.id.clone()).collect()
    }
}

fn row(alloc: &AllocationStub, layout: Layout, now_ns: u64) -> [Cell; 13] {
    let ends = TaskExits::of(alloc.task_states.as_ref());
    [
        layout.id(&alloc.id).into(),
        (&alloc.name).into(),
        (&alloc.node_name).into(),
        Cell::status(&alloc.client_status),
        Cell::number(ends.restarts),
        ends.exit_cell(),
        age(alloc.create_time, now_ns).into(),
        ports(alloc).into(),
        (&alloc.namespace).into(),
        (&alloc.job_type).into(),
        Cell::number(alloc.job_version),
        (&alloc.desired_status).into(),
        (&alloc.client_description).into(),
    ]
}
