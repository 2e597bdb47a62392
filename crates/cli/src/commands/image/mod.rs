//! `berth image`: the images that nodes have.

mod list;
mod load;
mod nodes;
mod pull;
mod rm;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

/// What can be done with images.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// List the images that nodes have
    List(list::ImageListArgs),
    /// Have nodes pull an image before anything needs it
    Pull(pull::ImagePullArgs),
    /// Give nodes the images of an archive, or of a layout on this machine
    Load(load::ImageLoadArgs),
    /// Remove images that no task uses
    Rm(rm::ImageRmArgs),
}

impl ImageCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        match self {
            Self::List(list) => block_on(list.run(&remote)),
            Self::Pull(pull) => block_on(pull.run(&remote)),
            Self::Load(load) => block_on(load.run(&remote)),
            Self::Rm(remove) => block_on(remove.run(&remote)),
        }
    }
}
