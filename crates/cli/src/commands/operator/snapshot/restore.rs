//! `berth operator snapshot restore`: replaces the cluster's state by that of a snapshot.

use std::path::PathBuf;

use berth_api::http::SnapshotRestored;
use clap::{Args, ValueHint};

use super::read;
use crate::{confirm::ConfirmArgs, failure::Failure, output, remote::Remote};

/// Tokens that are named of those that come back.
const RETURNING_SHOWN_MAX: usize = 16;

/// Arguments of `operator snapshot restore`.
#[derive(Debug, Args)]
pub struct SnapshotRestoreArgs {
    /// Snapshot file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Restore tokens that were revoked since the snapshot was taken
    #[arg(long)]
    revive_tokens: bool,
    #[command(flatten)]
    confirm: ConfirmArgs,
}

impl SnapshotRestoreArgs {
    /// Checks the file, asks, and restores.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let store = read(&self.file)?;
        let (jobs, allocs) = (store.jobs().len(), store.allocs().len());
        let file = self.file.display().to_string();
        let action = format!(
            "replace the state of the cluster at {} with {} and {} of",
            remote.address(),
            output::count(jobs, "job"),
            output::count(allocs, "allocation"),
        );
        self.confirm.always(&action, &file, &file)?;
        let restored = remote.restore(&self.file, self.revive_tokens).await?;
        output::eprint_line(&format!("the state of {file} is restored; agents are reconnecting"));
        note_tokens(&restored);
        output::eprint_line("next: berth node status");
        Ok(())
    }
}

/// Says which tokens were restored that the cluster did not have, and how many stay revoked.
fn note_tokens(restored: &SnapshotRestored) {
    let SnapshotRestored { tokens_returned, tokens_returned_count, tokens_still_revoked } = restored;
    if let Some(count) = Some(*tokens_returned_count).filter(|count| *count > 0) {
        let shown: Vec<&str> = tokens_returned.iter().take(RETURNING_SHOWN_MAX).map(String::as_str).collect();
        let rest = if count > shown.len() as u64 { ", ..." } else { "" };
        output::eprint_line(&format!(
            "note: restored {} that the cluster did not have: delete those that were revoked: {}{rest}",
            output::count(usize::try_from(count).unwrap_or(usize::MAX), "token"),
            shown.join(", ")
        ));
    }
    if *tokens_still_revoked > 0 {
        let (stay, them) = if *tokens_still_revoked == 1 { ("stays", "it") } else { ("stay", "them") };
        output::eprint_line(&format!(
            "note: {} in the snapshot {stay} revoked: --revive-tokens restores {them}",
            output::count(usize::try_from(*tokens_still_revoked).unwrap_or(usize::MAX), "token"),
        ));
    }
}
