//! The nodes that a command about images is for.

use berth_api::http::NodeStub;
use clap::Args;

use crate::{
    complete,
    failure::{Exit, Failure},
    output::clean,
    remote::Remote,
};

/// Nodes that a refusal names.
const NAMED_MAX: usize = 8;

/// The nodes of an image command.
#[derive(Debug, Args)]
pub struct NodesArg {
    /// Node, by id, prefix or name; repeatable
    #[arg(long = "node", value_name = "NODE", add = complete::nodes())]
    named: Vec<String>,
}

/// A node that the command acts on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetNode {
    /// Its whole id.
    pub id: String,
    /// Its name.
    pub name: String,
}

impl NodesArg {
    /// Those that are named; without a name all that are ready.
    pub async fn named_or_all(&self, remote: &Remote) -> Result<Vec<TargetNode>, Failure> {
        let ready = ready(remote).await?;
        if self.named.is_empty() { Ok(ready) } else { self.find(remote).await }
    }

    /// Those that are named; without a name the only one that there is.
    pub async fn named_or_only(&self, remote: &Remote) -> Result<Vec<TargetNode>, Failure> {
        if !self.named.is_empty() {
            return self.find(remote).await;
        }
        let ready = ready(remote).await?;
        match ready.len() {
            0 => Err(Failure::new(Exit::NotFound, "no node is ready").help("berth node status")),
            1 => Ok(ready),
            many => {
                let names = ready.iter().take(NAMED_MAX).map(|node| clean(&node.name).into_owned());
                let names = names.collect::<Vec<_>>().join(", ");
                let more = if many > NAMED_MAX { ", ..." } else { "" };
                let message = format!("which of {many} nodes? name one or more with -node: {names}{more}");
                Err(Failure::new(Exit::Usage, message))
            }
        }
    }

    async fn find(&self, remote: &Remote) -> Result<Vec<TargetNode>, Failure> {
        let mut found: Vec<TargetNode> = Vec::new();
        for named in &self.named {
            let id = remote.find_node(named).await?;
            if !found.iter().any(|node| node.id == id) {
                found.push(TargetNode { name: remote.node(&id).await?.name, id });
            }
        }
        Ok(found)
    }
}

async fn ready(remote: &Remote) -> Result<Vec<TargetNode>, Failure> {
    let nodes = remote.nodes().await?.into_iter().filter(|node| node.status == "ready");
    Ok(nodes.map(|NodeStub { id, name, .. }| TargetNode { id, name }).collect())
}
