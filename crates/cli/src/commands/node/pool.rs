//! `berth node pool`: groups of nodes that jobs choose between.

use berth_api::http::NodePool;
use clap::{Args, Subcommand};

use crate::{
    failure::Failure,
    output::{Column, Layout, Table, View},
    remote::Remote,
    show::Show,
};

/// What can be done with node pools.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// List the node pools
    List(List),
}

/// Arguments of `node pool list`.
#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    show: Show,
}

impl Verb {
    /// Does it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        match self {
            Self::List(list) => list.show.show(remote, async |remote| remote.node_pools().await).await,
        }
    }
}

impl View for Vec<NodePool> {
    fn text(&self, layout: Layout) -> String {
        let mut table = Table::new(layout, &[Column::id("name"), Column::text("description")]);
        for pool in self {
            table.row([(&pool.name).into(), (&pool.description).into()]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|pool| pool.name.clone()).collect()
    }
}
