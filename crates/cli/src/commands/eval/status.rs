//! `berth eval status`: an evaluation, what it placed, and why it could not place the rest.

use std::time::Duration;

use berth_api::http::{AllocationStub, Evaluation, PlanTrace};
use clap::Args;
use serde::Serialize;

use crate::{
    complete,
    failure::Failure,
    output::{Cell, Column, Fields, Layout, Table, View, age, funnels, now_ns, sections},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `eval status`.
#[derive(Debug, Args)]
pub struct EvalStatusArgs {
    /// Id or prefix of the evaluation
    #[arg(value_name = "EVALUATION", add = complete::evaluations())]
    id: String,
    #[command(flatten)]
    show: ShowArgs,
}

/// All that `eval status` shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct EvalDetail {
    evaluation: Evaluation,
    plans: Vec<PlanTrace>,
    allocations: Vec<AllocationStub>,
}

impl EvalStatusArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        print(remote, &self.show, &remote.find_evaluation(&self.id).await?).await
    }
}

/// Prints the evaluation with that whole id.
pub async fn print(remote: &Remote, show: &ShowArgs, id: &str) -> Result<(), Failure> {
    let read = async |remote: &Remote| {
        let (evaluation, plans, allocations) = tokio::try_join!(
            remote.evaluation(id),
            remote.evaluation_plans(id),
            remote.evaluation_allocations(id)
        )?;
        Ok(EvalDetail { evaluation, plans, allocations })
    };
    show.show(remote, read).await
}

impl View for EvalDetail {
    fn text(&self, layout: Layout) -> String {
        let failures = self.evaluation.failed_tg_allocs.as_ref().map(funnels).unwrap_or_default();
        let (relatives, plans) = (self.relatives(layout), self.plans(layout));
        sections([self.fields(layout), failures, relatives, plans, self.allocations(layout)])
    }

    fn names(&self) -> Vec<String> {
        vec![self.evaluation.id.clone()]
    }
}

impl EvalDetail {
    fn fields(&self, layout: Layout) -> String {
        let (eval, now) = (&self.evaluation, now_ns());
        Fields::new(layout)
            .with("ID", &eval.id)
            .with("Job", &eval.job_id)
            .with("Namespace", &eval.namespace)
            .with("Type", &eval.job_type)
            .with("Priority", eval.priority.to_string())
            .with("Triggered by", &eval.triggered_by)
            .with_some("Node", layout.id(&eval.node_id))
            .with_status("Status", &eval.status)
            .with_some("Reason", &eval.status_description)
            .with("Made", age(eval.create_time, now))
            .with("Changed", age(eval.modify_time, now))
            .render()
    }

    fn relatives(&self, layout: Layout) -> String {
        let columns = [
            Column::id("related"),
            Column::text("triggered by"),
            Column::text("status"),
            Column::text("reason"),
        ];
        let mut table = Table::new(layout, &columns);
        for relative in self.evaluation.related_evals.iter().flatten() {
            let (id, status) = (layout.id(&relative.id).into(), Cell::status(&relative.status));
            table.row([id, (&relative.triggered_by).into(), status, (&relative.status_description).into()]);
        }
        if table.is_empty() { String::new() } else { table.render() }
    }

    /// Why it was created, for one that repeats another.
    fn plans(&self, layout: Layout) -> String {
        if self.plans.is_empty() {
            return String::new();
        }
        let columns = [
            Column::number("planner"),
            Column::number("on state"),
            Column::number("took"),
            Column::number("overtaken"),
            Column::number("committed"),
            Column::number("refused"),
            Column::text("refused on"),
        ];
        let mut table = Table::new(layout, &columns);
        for plan in &self.plans {
            let took = Duration::from_nanos(plan.ended_at.saturating_sub(plan.begun_at));
            let nodes: Vec<String> = plan.refused_node_ids.iter().map(|id| layout.id(id)).collect();
            table.row([
                plan.planner.to_string().into(),
                plan.snapshot_index.to_string().into(),
                format!("{took:.1?}").into(),
                plan.overtaken.to_string().into(),
                plan.committed.to_string().into(),
                plan.refused.to_string().into(),
                nodes.join(" ").into(),
            ]);
        }
        table.render()
    }

    fn allocations(&self, layout: Layout) -> String {
        if self.allocations.is_empty() {
            return "no allocations\n".into();
        }
        let columns =
            [Column::id("alloc"), Column::text("name"), Column::text("node"), Column::text("status")];
        let mut table = Table::new(layout, &columns);
        for alloc in &self.allocations {
            let (id, status) = (layout.id(&alloc.id).into(), Cell::status(&alloc.client_status));
            table.row([id, (&alloc.name).into(), (&alloc.node_name).into(), status]);
        }
        table.render()
    }
}
