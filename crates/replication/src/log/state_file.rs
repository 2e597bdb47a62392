//! The small durable facts beside the records: the vote, which segment is the newest, and a removal that has begun.

use std::path::{Path, PathBuf};

use minicbor::{Decode, Encode};
use openraft::vote::leader_id_std::LeaderId;

use super::truncation::Truncation;
use crate::{
    OpenError,
    disk::{Disk, checked},
    error::Damage,
    types::Vote,
};

/// Replaced whole at every change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Encode, Decode)]
pub(crate) struct LogState {
    #[n(0)]
    vote: Option<SavedVote>,
    /// First record of the newest segment; a log without that segment has lost records.
    #[n(1)]
    pub newest: u64,
    /// The log ends here, whatever lies behind: its removal has begun, and may not have come to its end.
    #[n(2)]
    pub cut: Option<Truncation>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
struct SavedVote {
    #[n(0)]
    term: u64,
    #[n(1)]
    server: u64,
    #[n(2)]
    granted: bool,
}

impl LogState {
    /// For whom this server voted last.
    pub fn vote(&self) -> Option<Vote> {
        let vote = self.vote?;
        let leader_id = LeaderId { term: vote.term, voted_for: vote.server };
        Some(Vote { leader_id, committed: vote.granted })
    }

    pub fn set_vote(&mut self, vote: &Vote) {
        let LeaderId { term, voted_for } = vote.leader_id;
        self.vote = Some(SavedVote { term, server: voted_for, granted: vote.committed });
    }

    /// Of the last vote; 0 for none.
    pub fn term(&self) -> u64 {
        self.vote.map_or(0, |vote| vote.term)
    }

    pub fn path(log_dir: &Path) -> PathBuf {
        log_dir.join("state")
    }

    /// None when there is no such file.
    pub fn load(disk: &dyn Disk, log_dir: &Path) -> Result<Option<Self>, OpenError> {
        let path = Self::path(log_dir);
        let Some(bytes) = checked::load(disk, &path)? else { return Ok(None) };
        let state = minicbor::decode(&bytes).map_err(|error| Damage::new(&path, error.to_string()))?;
        Ok(Some(state))
    }

    /// Durable when it returns.
    pub fn save(&self, disk: &dyn Disk, log_dir: &Path) -> std::io::Result<()> {
        let bytes = minicbor::to_vec(self).expect("encoding to memory does not fail");
        checked::replace(disk, &Self::path(log_dir), &bytes)
    }
}
