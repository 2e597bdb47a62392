//! `berth image rm`: removes images that no task uses.

use clap::Args;

use super::nodes::NodesArg;
use crate::{failure::Failure, output::eprint_line, remote::Remote};

/// Arguments of `image rm`.
#[derive(Debug, Args)]
pub struct ImageRmArgs {
    /// Images, as named in jobs or by `berth image list`
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<String>,
    #[command(flatten)]
    nodes: NodesArg,
}

impl ImageRmArgs {
    /// Removes them; what a task uses is refused.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        for node in self.nodes.named_or_only(remote).await? {
            for image in &self.images {
                remote.remove_image(&node.id, image).await?;
                eprint_line(&format!("image {image} is removed from node {}", node.name));
            }
        }
        Ok(())
    }
}
