//! `berth operator snapshot restore`: a saved state, put in the place of the cluster's.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::read;
use crate::{ask::Ask, failure::Failure, output, remote::Remote};

/// Arguments of `operator snapshot restore`.
#[derive(Debug, Args)]
pub struct Restore {
    /// The saved state
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    #[command(flatten)]
    ask: Ask,
}

impl Restore {
    /// Checks the file, asks, and restores.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let store = read(&self.file)?;
        let (jobs, allocs) = (store.jobs().len(), store.allocs().len());
        let file = self.file.display().to_string();
        let deed = format!(
            "forget all that the cluster at {} has, and go on with {} and {} of",
            remote.address(),
            output::count(jobs, "job"),
            output::count(allocs, "allocation"),
        );
        self.ask.about(&deed, &file, &file)?;
        remote.restore(&self.file).await?;
        output::tell(&format!("the state of {file} is restored; agents report again by and by"));
        output::tell("next: berth node status");
        Ok(())
    }
}
