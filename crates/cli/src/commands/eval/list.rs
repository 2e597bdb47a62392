//! `berth eval list`: evaluations of one job or of all.

use berth_api::http::Evaluation;
use clap::{Args, builder::PossibleValuesParser};

use crate::{
    complete,
    failure::Failure,
    filter::{FilterArgs, PageStartArgs},
    output::{Cell, Column, Layout, Table, View, age, now_ns},
    remote::Remote,
    show::ShowArgs,
};

/// What an evaluation can be.
const STATUSES: [&str; 5] = ["pending", "blocked", "complete", "failed", "canceled"];
/// Evaluations in a list, unless someone wants more.
const LISTED_DEFAULT: u32 = 200;

/// Arguments of `eval list`.
#[derive(Debug, Args)]
pub struct EvalListArgs {
    /// Only of this job
    #[arg(long, value_name = "JOB", add = complete::jobs())]
    job: Option<String>,
    /// Only with this status
    #[arg(long, value_name = "STATUS", value_parser = PossibleValuesParser::new(STATUSES))]
    status: Option<String>,
    /// Maximum number of items
    #[arg(long = "per-page", short_alias = 'n', value_name = "COUNT", default_value_t = LISTED_DEFAULT)]
    most: u32,
    #[command(flatten)]
    begin: PageStartArgs,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl EvalListArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let (job, status) = (self.job.as_deref(), self.status.as_deref());
        let remote = self.begin.of(&self.filter.of(remote), Some(self.most));
        self.show.show(&remote, async |remote| remote.evaluations(job, status).await).await
    }
}

const COLUMNS: &[Column] = &[
    Column::id("evaluation"),
    Column::text("job"),
    Column::text("triggered by"),
    Column::text("status"),
    Column::number("unplaced"),
    Column::text("made"),
    Column::number("priority").wide(),
    Column::text("type").wide(),
    Column::text("namespace").wide(),
    Column::text("reason").wide(),
];

impl View for Vec<Evaluation> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no evaluations\n".into();
        }
        let mut table = Table::new(layout, COLUMNS);
        let now = now_ns();
        for eval in self {
            table.row(row(eval, layout, now));
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|eval| eval.id.clone()).collect()
    }
}

fn row(eval: &Evaluation, layout: Layout, now_ns: u64) -> [Cell; 10] {
    let unplaced: u32 = eval.queued_allocations.values().sum();
    [
        layout.id(&eval.id).into(),
        (&eval.job_id).into(),
        (&eval.triggered_by).into(),
        Cell::status(&eval.status),
        Cell::number(unplaced),
        age(eval.create_time, now_ns).into(),
        Cell::number(eval.priority),
        (&eval.job_type).into(),
        (&eval.namespace).into(),
        (&eval.status_description).into(),
    ]
}
