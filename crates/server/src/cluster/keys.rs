//! Exchange of key-encryption keys between the servers of a cluster, so that each has those that open the root keys. Only members
//! of the cluster are sent any, and beyond loopback connections between servers are always encrypted.

use std::{fmt, sync::Arc, time::Duration};

use berth_model::KekId;
use berth_replication::peer::PeerAddress;
use futures_util::{StreamExt, stream::FuturesUnordered};
use minicbor::{Decode, Encode};
use zeroize::Zeroize;

use super::{
    Cluster,
    wire::{PeerAnswer, PeerRequest},
};
use crate::{PANICKED, keyring::Kek};

/// How long another server may take to write a key to its disk.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// The bytes of a key-encryption key in a message.
#[derive(Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub(super) struct KekBytes(
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    Vec<u8>,
);

impl KekBytes {
    #[cfg(test)]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&Kek> for KekBytes {
    fn from(kek: &Kek) -> Self {
        Self(kek.bytes().to_vec())
    }
}

impl Drop for KekBytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for KekBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KekBytes(..)")
    }
}

impl Cluster {
    /// Sends a key to the other servers, until a majority of the voters has it on disk: whatever loses the key would have lost the
    /// log as well.
    ///
    /// # Errors
    /// Why too few have it: for users.
    pub async fn share_kek(&self, kek: &Kek) -> Result<(), String> {
        let own = self.replication.server_id();
        let members = self.replication.members();
        let voters = members.voters().count();
        let others = members.all.iter().filter(|member| member.id != own);
        let mut answers: FuturesUnordered<_> = others
            .map(|member| async move {
                let to = (member.id, PeerAddress(member.peer.address.clone()));
                let request = PeerRequest::HoldKek(kek.into());
                let answer = self.ask_for(&to, &request, ANSWER_MAX).await;
                let outcome = match answer {
                    Ok(PeerAnswer::Done) => Ok(()),
                    Ok(PeerAnswer::Refused(why) | PeerAnswer::Unknown(why)) => Err(why),
                    Ok(_) => Err("its answer makes no sense".to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                (member, outcome)
            })
            .collect();
        let mut holders = members.voters().filter(|member| member.id == own).count();
        let mut failures = Vec::new();
        while holders <= voters / 2
            && let Some((member, outcome)) = answers.next().await
        {
            match outcome {
                Ok(()) => holders += usize::from(member.voter),
                Err(why) => failures.push(format!("{}: {why}", member.peer.address)),
            }
        }
        if holders > voters / 2 {
            return Ok(());
        }
        Err(format!(
            "too few servers have taken the new key-encryption key, {holders} of {voters} ({}); try again once they are reached",
            failures.join(", ")
        ))
    }

    /// Asks the other servers for a key that this one lacks, the leader first. Returns whether this server has it now.
    pub async fn ask_for_kek(&self, id: KekId) -> bool {
        let (own, leader) = (self.replication.server_id(), self.replication.leader());
        let mut members = self.replication.members().all;
        members.retain(|member| member.id != own);
        members.sort_by_key(|member| Some(member.id) != leader);
        for member in members {
            let to = (member.id, PeerAddress(member.peer.address));
            if let Ok(PeerAnswer::Kek(Some(bytes))) =
                self.ask_for(&to, &PeerRequest::Kek(id), ANSWER_MAX).await
                && self.store_kek(bytes).await == Ok(Some(id))
            {
                tracing::info!(kek = %id, from = %to.1, "got a key-encryption key");
                return true;
            }
        }
        false
    }

    /// Handles a request of another server of this cluster for a key.
    pub(super) fn on_kek_asked(&self, id: KekId) -> PeerAnswer {
        PeerAnswer::Kek(self.keyring.kek(id).map(|kek| (&*kek).into()))
    }

    /// Another server of this cluster sends a key, with which something is about to be encrypted.
    pub(super) async fn on_kek_given(&self, bytes: KekBytes) -> PeerAnswer {
        match self.store_kek(bytes).await {
            Ok(Some(_)) => PeerAnswer::Done,
            Ok(None) => PeerAnswer::Refused("that is no key-encryption key".to_owned()),
            Err(why) => PeerAnswer::Refused(why),
        }
    }

    /// Stores a key, and returns its id; none when the bytes are no key.
    async fn store_kek(&self, bytes: KekBytes) -> Result<Option<KekId>, String> {
        let keyring = Arc::clone(&self.keyring);
        let outcome = tokio::task::spawn_blocking(move || keyring.take(&bytes.0)).await;
        outcome.map_err(|_| PANICKED)?.map_err(|error| error.to_string())
    }
}
