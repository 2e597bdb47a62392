//! `berth node status`: the nodes in a list, or one in detail.

use berth_api::http::NodeStub;
use clap::Args;

use super::{detail::NodeDetail, node_arg};
use crate::{
    complete,
    failure::Failure,
    filter::{FilterArgs, PageArgs},
    output::{Cell, Column, Layout, Table, View},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `node status`.
#[derive(Debug, Args)]
pub struct NodeStatusArgs {
    /// Id, prefix or name of the node; all nodes by default
    #[arg(value_name = "NODE", conflicts_with_all = ["filter", "per_page", "page_token"], add = complete::nodes())]
    id: Option<String>,
    /// The cluster's only node, e.g. that of `berth dev`
    #[arg(id = "self_", long = "self", conflicts_with_all = ["id", "filter", "per_page", "page_token"])]
    own: bool,
    #[command(flatten)]
    filter: FilterArgs,
    #[command(flatten)]
    pages: PageArgs,
    #[command(flatten)]
    show: ShowArgs,
}

impl NodeStatusArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = match &self.id {
            Some(id) => remote.find_node(id).await?,
            None if self.own => node_arg::only(remote).await?,
            None => {
                let remote = self.pages.of(&self.filter.of(remote));
                return self.show.show(&remote, async |remote| remote.nodes().await).await;
            }
        };
        print(remote, &self.show, &id).await
    }
}

/// Prints the node with that whole id.
pub async fn print(remote: &Remote, show: &ShowArgs, id: &str) -> Result<(), Failure> {
    let read = async |remote: &Remote| {
        let (node, allocations) = tokio::try_join!(remote.node(id), remote.node_allocations(id))?;
        Ok(NodeDetail { node, allocations })
    };
    show.show(remote, read).await
}

const COLUMNS: &[Column] = &[
    Column::id("id"),
    Column::text("name"),
    Column::text("datacenter"),
    Column::text("pool"),
    Column::text("class"),
    Column::text("status"),
    Column::text("eligibility"),
    Column::text("address").wide(),
    Column::text("drivers").wide(),
    Column::text("version").wide(),
];

impl View for Vec<NodeStub> {
    fn text(&self, layout: Layout) -> String {
        if self.is_empty() {
            return "no nodes: `berth agent` makes a machine one\n".into();
        }
        let mut table = Table::new(layout, COLUMNS);
        for node in self {
            table.row(row(node, layout));
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.iter().map(|node| node.id.clone()).collect()
    }
}

fn row(node: &NodeStub, layout: Layout) -> [Cell; 10] {
    let drivers = node.drivers.iter().filter(|(_, driver)| driver.healthy).map(|(name, _)| name.as_str());
    [
        layout.id(&node.id).into(),
        (&node.name).into(),
        (&node.datacenter).into(),
        (&node.node_pool).into(),
        (&node.node_class).into(),
        Cell::status(&node.status),
        if node.drain { Cell::status("draining") } else { Cell::status(&node.scheduling_eligibility) },
        (&node.address).into(),
        drivers.collect::<Vec<_>>().join(",").into(),
        (&node.version).into(),
    ]
}
