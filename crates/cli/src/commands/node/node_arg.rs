//! The argument that names a node: one by id or name, or the only one of the cluster.

use clap::Args;

use crate::{
    complete,
    failure::{Exit, Failure},
    remote::Remote,
};

/// A node, by its name or by `-self`.
#[derive(Debug, Args)]
pub struct NodeArg {
    /// Id, prefix or name of the node
    #[arg(value_name = "NODE", required_unless_present = "self_", conflicts_with = "self_", add = complete::nodes())]
    id: Option<String>,
    /// The cluster's only node, e.g. that of `berth dev`
    #[arg(id = "self_", long = "self")]
    own: bool,
}

impl NodeArg {
    /// Resolves it to the node's whole id.
    pub async fn find(&self, remote: &Remote) -> Result<String, Failure> {
        match &self.id {
            Some(id) => remote.find_node(id).await,
            None => only(remote).await,
        }
    }
}

/// The node that `-self` means.
pub async fn only(remote: &Remote) -> Result<String, Failure> {
    let nodes = remote.nodes().await?;
    match &nodes[..] {
        [node] => Ok(node.id.clone()),
        _ => {
            let text = format!("-self means the only node there is, and there are {}", nodes.len());
            Err(Failure::new(Exit::Usage, text).help("name one: `berth node status` lists them"))
        }
    }
}
