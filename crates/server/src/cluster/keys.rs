//! Key-encryption keys on their way between the servers of a cluster: each has those that open its root keys. What beyond
//! loopback carries them is encrypted, and only a server of this cluster is given any.

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

/// A key-encryption key on its way.
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
    /// Gives a key to the other servers, until most of those that vote have it on disk: what is encrypted with it is lost
    /// with no fewer servers than what the log holds.
    ///
    /// # Errors
    /// Why too few have it: for users.
    pub async fn share_kek(&self, kek: &Kek) -> Result<(), String> {
        let own = self.replication.server_id();
        let members = self.replication.members();
        let voters = members.voters().count();
        let others = members.all.iter().filter(|member| member.id != own);
        let mut given: FuturesUnordered<_> = others
            .map(|member| async move {
                let to = (member.id, PeerAddress(member.peer.address.clone()));
                let request = PeerRequest::HoldKek(kek.into());
                let answer = self.ask_for(&to, &request, ANSWER_MAX).await;
                let held = match answer {
                    Ok(PeerAnswer::Done) => Ok(()),
                    Ok(PeerAnswer::Refused(why) | PeerAnswer::Unknown(why)) => Err(why),
                    Ok(_) => Err("its answer makes no sense".to_owned()),
                    Err(error) => Err(error.to_string()),
                };
                (member, held)
            })
            .collect();
        let mut have_it = members.voters().filter(|member| member.id == own).count();
        let mut failed = Vec::new();
        while have_it <= voters / 2
            && let Some((member, held)) = given.next().await
        {
            match held {
                Ok(()) => have_it += usize::from(member.voter),
                Err(why) => failed.push(format!("{}: {why}", member.peer.address)),
            }
        }
        if have_it > voters / 2 {
            return Ok(());
        }
        Err(format!(
            "too few servers have taken the new key-encryption key, {have_it} of {voters} ({}); try again once they are reached",
            failed.join(", ")
        ))
    }

    /// Asks the other servers for a key that this one lacks, the leader first. Whether it has it now.
    pub async fn ask_for_kek(&self, id: KekId) -> bool {
        let (own, leader) = (self.replication.server_id(), self.replication.leader());
        let mut members = self.replication.members().all;
        members.retain(|member| member.id != own);
        members.sort_by_key(|member| Some(member.id) != leader);
        for member in members {
            let to = (member.id, PeerAddress(member.peer.address));
            if let Ok(PeerAnswer::Kek(Some(bytes))) =
                self.ask_for(&to, &PeerRequest::Kek(id), ANSWER_MAX).await
                && self.hold(bytes).await == Ok(Some(id))
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

    /// Another server of this cluster gives a key, with which something is about to be encrypted.
    pub(super) async fn on_kek_given(&self, bytes: KekBytes) -> PeerAnswer {
        match self.hold(bytes).await {
            Ok(Some(_)) => PeerAnswer::Done,
            Ok(None) => PeerAnswer::Refused("that is no key-encryption key".to_owned()),
            Err(why) => PeerAnswer::Refused(why),
        }
    }

    /// Keeps a key; which one it is. None when it is none.
    async fn hold(&self, bytes: KekBytes) -> Result<Option<KekId>, String> {
        let keyring = Arc::clone(&self.keyring);
        let held = tokio::task::spawn_blocking(move || keyring.take(&bytes.0)).await;
        held.map_err(|_| PANICKED)?.map_err(|error| error.to_string())
    }
}
