//! Writes: proposed here while this server leads, and otherwise forwarded to the leader, once.

use berth_model::command::{Command, ENTRY_BYTES_MAX, Entry};
use berth_replication::peer::RequestError;
use tokio::time::Instant;

use super::{
    Cluster, LEADER_MAX, POLL_INTERVAL,
    wire::{self, PeerAnswer, PeerRequest},
};
use crate::{
    gauge_guard::GaugeGuard,
    shared::{Committed, ProposeError},
};

impl Cluster {
    /// Proposes commands as one change, wherever the leader is. While servers elect one, it waits. Once this returns, the
    /// change can be read here.
    pub async fn write(&self, commands: Vec<Command>) -> Result<Committed, ProposeError> {
        if self.is_alone() {
            return self.write_here(commands).await;
        }
        // An older leader does not know this request.
        let needed = Entry::version_for(&commands);
        self.replication.check_version(needed).map_err(|error| ProposeError::TooNew(error.to_string()))?;
        let deadline = Instant::now() + LEADER_MAX;
        loop {
            if self.is_removed() {
                return Err(ProposeError::NotWritten(self.no_leader()));
            }
            let written = if self.leads() {
                Some(self.write_here(commands.clone()).await).filter(|written| !self.is_passing(written))
            } else {
                self.write_there(&commands).await
            };
            match written {
                Some(written) => return written,
                None if Instant::now() >= deadline => {
                    let why = self.writable().err().unwrap_or_else(|| self.no_leader());
                    return Err(ProposeError::NotWritten(why));
                }
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    }

    /// Whether nothing was written here, and soon will be somewhere: another leads, or this one is not yet sure that it does,
    /// or its disk is full and another's is not.
    pub(super) fn is_passing(&self, written: &Result<Committed, ProposeError>) -> bool {
        match written {
            Err(ProposeError::NoLeader) => true,
            Err(ProposeError::NotWritten(_)) => {
                self.replication.check_disk_space().is_ok() || self.successor_with_a_good_disk().is_some()
            }
            _ => false,
        }
    }

    /// Proposes commands to this server's own engine.
    pub(super) async fn write_here(&self, commands: Vec<Command>) -> Result<Committed, ProposeError> {
        let engine = self.engine.get().ok_or(ProposeError::NoLeader)?;
        let _writing = GaugeGuard::new(&self.writing);
        tokio::select! {
            biased;
            written = engine.propose_here(commands) => written,
            () = self.until_cut_off() => Err(ProposeError::Unknown(self.no_leader())),
        }
    }

    /// Until this server leads and hears no majority: what it has written may be kept by the leader next, or not, and it
    /// may not learn which for as long as it is cut off.
    async fn until_cut_off(&self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            if self.is_cut_off() {
                return;
            }
        }
    }

    /// Hands commands to the leader; none when nobody was reached who does, and nothing was done.
    async fn write_there(&self, commands: &[Command]) -> Option<Result<Committed, ProposeError>> {
        let leader = self.other_leader()?;
        let request = PeerRequest::Propose(wire::encode_commands(commands.to_vec()));
        if let PeerRequest::Propose(entry) = &request
            && entry.len() > ENTRY_BYTES_MAX
        {
            let too_large = ProposeError::TooLarge { bytes: entry.len(), max: ENTRY_BYTES_MAX };
            return Some(Err(too_large));
        }
        let committed = match self.ask_leader(&leader, &request).await {
            Ok(PeerAnswer::NotLeader(_)) | Err(RequestError::NotSent(_) | RequestError::Refused(_)) => {
                return None;
            }
            Ok(answer) => wire::proposed(answer)?,
            Err(RequestError::Unknown(why)) => Err(ProposeError::Unknown(why)),
        };
        if let Ok(Committed { index, .. }) = &committed {
            // Whoever wrote something through this server reads it here.
            let mut published = self.published.clone();
            let shown = published.wait_for(|(published, _)| published >= index);
            let _ = tokio::time::timeout(LEADER_MAX, shown).await;
        }
        Some(committed)
    }
}
