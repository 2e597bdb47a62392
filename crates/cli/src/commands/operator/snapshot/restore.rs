//! `berth operator snapshot restore`: a saved state, put in the place of the cluster's.

use std::{collections::BTreeSet, path::PathBuf};

use berth_model::{AclTokenId, Timestamp, store::Store};
use clap::{Args, ValueHint};

use super::read;
use crate::{ask::Ask, failure::Failure, output, remote::Remote};

/// Tokens that are named of those that come back.
const RETURNING_SHOWN_MAX: usize = 16;

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
        note_returning(&returning(&store, remote).await);
        self.ask.about(&deed, &file, &file)?;
        remote.restore(&self.file).await?;
        output::tell(&format!("the state of {file} is restored; agents report again by and by"));
        output::tell("next: berth node status");
        Ok(())
    }
}

/// Tokens that come back with a saved state: the cluster does not have them, be it that they were revoked. None where nobody is asked
/// for a token.
async fn returning(store: &Store, remote: &Remote) -> Vec<AclTokenId> {
    if store.acl().tokens_len() == 0 {
        return Vec::new();
    }
    let Ok(now) = remote.acl_tokens().await else { return Vec::new() };
    let known: BTreeSet<AclTokenId> = now.iter().filter_map(|token| token.accessor_id.parse().ok()).collect();
    store.acl().tokens_unknown(Timestamp(output::now_ns()), |id| known.contains(&id))
}

fn note_returning(returning: &[AclTokenId]) {
    let Some(count) = Some(returning.len()).filter(|count| *count > 0) else { return };
    let shown: Vec<String> = returning.iter().take(RETURNING_SHOWN_MAX).map(ToString::to_string).collect();
    let rest = if count > shown.len() { ", ..." } else { "" };
    output::tell(&format!(
        "note: {} in it that the cluster does not have is good again: delete those that were revoked: {}{rest}",
        output::count(count, "token"),
        shown.join(", ")
    ));
}
