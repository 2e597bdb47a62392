//! `berth image pull`: has nodes pull an image in advance.

use std::time::{Duration, Instant};

use clap::Args;

use super::{
    list::{ImageList, ImageOnNode},
    nodes::{NodesArg, TargetNode},
};
use crate::{
    failure::Failure,
    output::{bytes, eprint_line},
    remote::Remote,
    show::PrintArgs,
};

/// Between two words about how far it is.
const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Arguments of `image pull`.
#[derive(Debug, Args)]
pub struct ImagePullArgs {
    /// Image, as named in jobs
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Ask the registry even if the node has the image, for a newer one
    #[arg(long)]
    always: bool,
    #[command(flatten)]
    nodes: NodesArg,
    #[command(flatten)]
    print: PrintArgs,
}

impl ImagePullArgs {
    /// Pulls it, on one node after the other, and prints what is there.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let mut pulled = Vec::new();
        for node in self.nodes.named_or_only(remote).await? {
            pulled.push(self.pull(remote, &node).await?);
        }
        self.print.print(&ImageList::sorted(pulled))
    }

    /// The node goes on for as long as it is asked; each answer waits a while.
    async fn pull(&self, remote: &Remote, node: &TargetNode) -> Result<ImageOnNode, Failure> {
        let mut reported_at = Instant::now();
        loop {
            let pulled = remote.pull_image(&node.id, &self.image, self.always).await?;
            if let Some(image) = pulled.image {
                return Ok(ImageOnNode::new(node, image));
            }
            if reported_at.elapsed() >= REPORT_EVERY {
                reported_at = Instant::now();
                eprint_line(&match pulled.total_bytes {
                    0 => format!("node {}: contacting its registry", node.name),
                    all => format!("node {}: {} of {}", node.name, bytes(pulled.done_bytes), bytes(all)),
                });
            }
        }
    }
}
