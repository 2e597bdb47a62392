//! `berth image pull`: has nodes pull an image before anything needs it.

use std::time::{Duration, Instant};

use clap::Args;

use super::{
    list::{ImageOn, Images},
    nodes::{Meant, Nodes},
};
use crate::{
    failure::Failure,
    output::{bytes, tell},
    remote::Remote,
    show::Print,
};

/// Between two words about how far it is.
const TOLD_EVERY: Duration = Duration::from_secs(5);

/// Arguments of `image pull`.
#[derive(Debug, Args)]
pub struct Pull {
    /// Image, as named in jobs
    #[arg(value_name = "IMAGE")]
    image: String,
    /// Ask the registry even if the node has the image, for a newer one
    #[arg(long)]
    always: bool,
    #[command(flatten)]
    nodes: Nodes,
    #[command(flatten)]
    print: Print,
}

impl Pull {
    /// Pulls it, on one node after the other, and prints what is there.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let mut pulled = Vec::new();
        for node in self.nodes.named_or_only(remote).await? {
            pulled.push(self.pull(remote, &node).await?);
        }
        self.print.print(&Images::sorted(pulled))
    }

    /// The node goes on for as long as it is asked; each answer waits a while.
    async fn pull(&self, remote: &Remote, node: &Meant) -> Result<ImageOn, Failure> {
        let mut told = Instant::now();
        loop {
            let pulled = remote.pull_image(&node.id, &self.image, self.always).await?;
            if let Some(image) = pulled.image {
                return Ok(ImageOn::new(node, image));
            }
            if told.elapsed() >= TOLD_EVERY {
                told = Instant::now();
                tell(&match pulled.total_bytes {
                    0 => format!("node {}: its registry is asked", node.name),
                    all => format!("node {}: {} of {}", node.name, bytes(pulled.done_bytes), bytes(all)),
                });
            }
        }
    }
}
