//! `berth quota list`: all quotas.

use berth_api::http::Quota;
use clap::Args;

use crate::{
    failure::Failure,
    filter::FilterArgs,
    output::{Column, Layout, Table, View},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `quota list`.
#[derive(Debug, Args)]
pub struct QuotaListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl QuotaListArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.show.show(&self.filter.of(remote), async |remote| remote.quotas().await).await
    }
}

impl View for Vec<Quota> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no quotas: `berth quota apply` makes one\n".into();
        }
        let mut table = Table::new(layout, &[Column::id("name"), Column::text("description")]);
        for quota in self {
            table.row([(&quota.name).into(), (&quota.description).into()]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|quota| quota.name.clone()).collect()
    }
}
