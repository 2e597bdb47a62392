//! `berth deployment list`.

use std::cmp::Reverse;

use berth_api::http::Deployment;
use clap::Args;

use crate::{
    failure::Failure,
    filter::FilterArgs,
    output::{Cell, Column, Layout, Table, View, age, now_ns},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `deployment list`.
#[derive(Debug, Args)]
pub struct DeploymentListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl DeploymentListArgs {
    /// Prints them, the newest first.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        list(&self.show, &self.filter.of(remote)).await
    }
}

/// Prints all that the server lists, the newest first.
pub(super) async fn list(show: &ShowArgs, remote: &Remote) -> Result<(), Failure> {
    let read = async |remote: &Remote| {
        let mut deployments = remote.deployments().await?;
        deployments.sort_by_key(|deployment| Reverse(deployment.create_index));
        Ok(deployments)
    };
    show.show(remote, read).await
}

const COLUMNS: &[Column] = &[
    Column::id("deployment"),
    Column::text("job"),
    Column::number("version"),
    Column::text("status"),
    Column::text("changed"),
    Column::text("description"),
    Column::text("namespace").wide(),
];

impl View for Vec<Deployment> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no deployments\n".into();
        }
        let mut table = Table::new(layout, COLUMNS);
        let now = now_ns();
        for of in self {
            table.row([
                layout.id(&of.id).into(),
                (&of.job_id).into(),
                Cell::number(of.job_version),
                Cell::status(&of.status),
                age(of.modify_time, now).into(),
                (&of.status_description).into(),
                (&of.namespace).into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|deployment| deployment.id.clone()).collect()
    }
}
