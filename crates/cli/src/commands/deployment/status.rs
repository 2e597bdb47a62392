//! `berth deployment status`: the progress of each group, and its allocations.

use berth_api::http::{AllocationStub, Deployment};
use clap::Args;
use serde::Serialize;

use super::{evidence::Evidence, list};
use crate::{
    complete,
    failure::Failure,
    output::{Cell, Column, Fields, Layout, Table, View, age, now_ns, rfc3339, sections},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `deployment status`.
#[derive(Debug, Args)]
pub struct DeploymentStatusArgs {
    /// Id or prefix of the deployment; all deployments by default
    #[arg(value_name = "DEPLOYMENT", add = complete::deployments())]
    id: Option<String>,
    #[command(flatten)]
    show: ShowArgs,
}

/// All that `deployment status` shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct DeploymentDetail {
    deployment: Deployment,
    allocations: Vec<AllocationStub>,
    /// What it failed by.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
}

impl DeploymentStatusArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let Some(id) = &self.id else { return list::list(&self.show, remote).await };
        print(remote, &self.show, &remote.find_deployment(id).await?).await
    }
}

/// Prints the deployment with that whole id.
pub async fn print(remote: &Remote, show: &ShowArgs, id: &str) -> Result<(), Failure> {
    let read = async |remote: &Remote| {
        let (deployment, allocations) =
            tokio::try_join!(remote.deployment(id), remote.deployment_allocations(id))?;
        let evidence = Evidence::of(remote, &deployment).await;
        Ok(DeploymentDetail { deployment, allocations, evidence })
    };
    show.show(remote, read).await
}

impl View for DeploymentDetail {
    fn text(&self, layout: Layout) -> String {
        let evidence = self.evidence.as_ref().map(|evidence| evidence.report_lines().join("\n") + "\n");
        let parts = [self.fields(layout), self.groups(layout), self.allocations(layout)];
        sections(parts.into_iter().chain(evidence))
    }

    fn names(&self) -> Vec<String> {
        vec![self.deployment.id.clone()]
    }
}

impl DeploymentDetail {
    fn fields(&self, layout: Layout) -> String {
        let (of, now) = (&self.deployment, now_ns());
        Fields::new(layout)
            .with("ID", &of.id)
            .with("Job", &of.job_id)
            .with("Namespace", &of.namespace)
            .with("Version", of.job_version.to_string())
            .with_status("Status", &of.status)
            .with_some("Reason", &of.status_description)
            .with("Made", age(of.create_time, now))
            .with("Changed", age(of.modify_time, now))
            .render()
    }

    fn groups(&self, layout: Layout) -> String {
        let columns = [
            Column::id("group"),
            Column::text("promoted").spare(),
            Column::number("canaries"),
            Column::number("desired"),
            Column::number("placed"),
            Column::number("healthy"),
            Column::number("unhealthy"),
            Column::text("progress by"),
            Column::text("auto revert").wide(),
        ];
        let mut table = Table::new(layout, &columns);
        for (name, group) in &self.deployment.task_groups {
            let yes = |is: bool| if is { "yes" } else { "no" };
            let promoted = if group.desired_canaries == 0 { "" } else { yes(group.promoted) };
            table.row([
                name.into(),
                promoted.into(),
                Cell::number(group.desired_canaries),
                Cell::number(group.desired_total),
                Cell::number(group.placed_allocs),
                Cell::number(group.healthy_allocs),
                Cell::number(group.unhealthy_allocs),
                rfc3339(group.require_progress_by.0).into(),
                yes(group.auto_revert).into(),
            ]);
        }
        table.render()
    }

    fn allocations(&self, layout: Layout) -> String {
        if self.allocations.is_empty() {
            return "no allocations\n".into();
        }
        let columns = ["name", "node", "desired", "status", "health"].map(Column::text).into_iter();
        let columns: Vec<Column> = [Column::id("alloc")].into_iter().chain(columns).collect();
        let mut table = Table::new(layout, &columns);
        for alloc in &self.allocations {
            table.row([
                layout.id(&alloc.id).into(),
                (&alloc.name).into(),
                (&alloc.node_name).into(),
                (&alloc.desired_status).into(),
                Cell::status(&alloc.client_status),
                health(alloc).into(),
            ]);
        }
        table.render()
    }
}

/// What an allocation has shown.
fn health(alloc: &AllocationStub) -> String {
    let Some(status) = &alloc.deployment_status else { return String::new() };
    let shown = match status.healthy {
        Some(true) => "healthy",
        Some(false) => "unhealthy",
        None => "",
    };
    let canary = if status.canary { "canary" } else { "" };
    [shown, canary].into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(", ")
}
