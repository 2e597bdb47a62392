//! `berth node status`: the nodes in a list, or one in detail.

use berth_api::http::NodeStub;
use clap::Args;

use super::detail::NodeDetail;
use crate::{
    failure::Failure,
    output::{Align, Format, Table, short_id, stdout_width},
    remote::Remote,
};

/// Arguments of `node status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The node's id, its beginning, or the node's name; all nodes when left out
    #[arg(value_name = "NODE")]
    id: Option<String>,
    /// How to print it
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Format,
}

impl Status {
    /// Prints it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let Some(id) = &self.id else {
            return self.output.print(&remote.nodes().await?, |nodes| list(nodes));
        };
        let id = remote.find_node(id).await?;
        let (node, allocations) = tokio::try_join!(remote.node(&id), remote.node_allocations(&id))?;
        self.output.print(&NodeDetail { node, allocations }, NodeDetail::render)
    }
}

fn list(nodes: &[NodeStub]) -> String {
    if nodes.is_empty() {
        return "no nodes: `berth agent` makes a machine one\n".into();
    }
    let columns = ["id", "name", "datacenter", "pool", "class", "status", "eligibility"];
    let mut table = Table::new(&columns.map(|name| (name, Align::Left)));
    for node in nodes {
        table.row([
            short_id(&node.id),
            node.name.clone(),
            node.datacenter.clone(),
            node.node_pool.clone(),
            node.node_class.clone(),
            node.status.clone(),
            node.scheduling_eligibility.clone(),
        ]);
    }
    table.render(stdout_width())
}
