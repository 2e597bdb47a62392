//! Who votes, as it is written to records and snapshots.

use std::collections::{BTreeMap, BTreeSet};

use minicbor::{Decode, Encode};

use crate::types::{Membership, Peer, StoredMembership, log_id, term_of};

/// A membership on disk.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct EncodedMembers {
    /// One set of voters, or two while the cluster goes from the one to the other.
    #[n(0)]
    configs: Vec<BTreeSet<u64>>,
    /// All servers, voters or not, and their addresses.
    #[n(1)]
    addresses: BTreeMap<u64, String>,
    /// What else is known of them; none where nothing is.
    #[n(2)]
    peers: Option<BTreeMap<u64, Peer>>,
}

/// A membership and the record that brought it: its term and index.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(crate) struct StoredMembers {
    #[n(0)]
    at: Option<(u64, u64)>,
    #[n(1)]
    members: EncodedMembers,
}

impl EncodedMembers {
    pub fn of(membership: &Membership) -> Self {
        let addresses: BTreeMap<_, _> =
            membership.nodes().map(|(id, peer)| (*id, peer.address.clone())).collect();
        let more = |peer: &Peer| *peer != Peer { address: peer.address.clone(), ..Peer::default() };
        let known = membership.nodes().filter(|(_, peer)| more(peer));
        let peers: BTreeMap<_, _> = known.map(|(id, peer)| (*id, peer.clone())).collect();
        let configs = membership.get_joint_config().clone();
        Self { configs, addresses, peers: Some(peers).filter(|peers| !peers.is_empty()) }
    }

    /// What was written, unless it is no membership at all, as one without voters.
    pub fn into_membership(self) -> Result<Membership, String> {
        if self.configs.is_empty() {
            return Ok(Membership::default());
        }
        let mut known = self.peers.unwrap_or_default();
        let mut peer = |id: &u64, address| Peer { address, ..known.remove(id).unwrap_or_default() };
        let peers: BTreeMap<u64, Peer> =
            self.addresses.into_iter().map(|(id, address)| (id, peer(&id, address))).collect();
        Membership::new(self.configs, peers).map_err(|error| error.to_string())
    }
}

impl StoredMembers {
    pub fn of(stored: &StoredMembership) -> Self {
        let at = stored.log_id().as_ref().map(|id| (term_of(id), id.index()));
        Self { at, members: EncodedMembers::of(stored.membership()) }
    }

    pub fn into_stored(self) -> Result<StoredMembership, String> {
        let at = self.at.map(|(term, index)| log_id(term, index));
        Ok(StoredMembership::new(at, self.members.into_membership()?))
    }
}
