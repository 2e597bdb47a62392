//! `berth namespace list`: all namespaces.

use berth_api::http::Namespace;
use clap::Args;

use crate::{
    failure::Failure,
    filter::FilterArgs,
    output::{Column, Layout, Table, View},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `namespace list`.
#[derive(Debug, Args)]
pub struct NamespaceListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl NamespaceListArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.show.show(&self.filter.of(remote), async |remote| remote.namespaces().await).await
    }
}

const COLUMNS: &[Column] = &[
    Column::id("name"),
    Column::text("parent"),
    Column::number("weight"),
    Column::text("quota"),
    Column::text("description"),
];

impl View for Vec<Namespace> {
    fn text(&self, layout: Layout) -> String {
        let mut table = Table::new(layout, COLUMNS);
        for namespace in self {
            table.row([
                (&namespace.name).into(),
                (&namespace.parent).into(),
                namespace.weight.to_string().into(),
                (&namespace.quota).into(),
                (&namespace.description).into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|namespace| namespace.name.clone()).collect()
    }
}
