//! Messages between servers besides the log: joins, writes, reads and membership changes.

#[cfg(test)]
mod golden;

use berth_model::{
    Index, KekId,
    command::{Command, Entry, Outcome, Refusal},
};
use berth_replication::Peer;
use minicbor::{Decode, Encode};

use super::{
    agents::{RelayedAnswer, RelayedRequest},
    keys::KekBytes,
};
use crate::shared::{Committed, ProposeError};

/// A request of another server.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) enum PeerRequest {
    /// To be added, or to change its address or name.
    #[n(0)]
    Join(#[n(0)] JoinRequest),
    /// To write commands: an entry of the log without an index and a time. Only the leader does, and passes it on to nobody.
    #[n(1)]
    Propose(
        #[n(0)]
        #[cbor(with = "minicbor::bytes")]
        Vec<u8>,
    ),
    /// The position in the log that a linearizable read has to wait for.
    #[n(2)]
    ReadPosition,
    /// To change the membership.
    #[n(3)]
    Change(#[n(0)] MembershipChange),
    /// To found a cluster together.
    #[n(4)]
    Meet(#[n(0)] FoundingPeers),
    /// To agree to the servers that found a cluster.
    #[n(5)]
    Agree(#[n(0)] Vec<u64>),
    /// The status of the server.
    #[n(6)]
    Ping,
    /// Something of an agent that is connected there.
    #[n(7)]
    Agent(#[n(0)] RelayedRequest),
    /// For a key-encryption key.
    #[n(8)]
    Kek(#[n(0)] KekId),
    /// To keep a key-encryption key, with which something is about to be encrypted.
    #[n(9)]
    HoldKek(#[n(0)] KekBytes),
    /// The requesting server is stopping, and must not become leader.
    #[n(10)]
    Stopping,
}

/// A server that asks to be added.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct JoinRequest {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub peer: Peer,
    /// It believes that it belongs to the cluster already.
    #[n(2)]
    pub member: bool,
}

/// A membership change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub(crate) enum MembershipChange {
    /// Takes a server out.
    #[n(0)]
    Remove(#[n(0)] u64),
    /// Lets a server vote.
    #[n(1)]
    Promote(#[n(0)] u64),
    /// Hands the leadership over, to this server or to the best.
    #[n(2)]
    Transfer(#[n(0)] Option<u64>),
}

/// A server without a cluster, and those that it knows.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct FoundingPeers {
    /// How many found a cluster.
    #[n(0)]
    pub expect: u32,
    /// Those that are known, itself among them.
    #[n(1)]
    pub known: Vec<KnownServer>,
}

/// A server that is known.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub(super) struct KnownServer {
    #[n(0)]
    pub id: u64,
    #[n(1)]
    pub peer: Peer,
}

/// The answer of a server.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) enum PeerAnswer {
    /// The request was carried out.
    #[n(0)]
    Done,
    /// Nothing was done: another server leads, or none.
    #[n(1)]
    NotLeader(#[n(0)] Option<KnownServer>),
    /// Nothing was done, and why.
    #[n(2)]
    Refused(#[n(0)] String),
    /// It is not known whether it was done, and why.
    #[n(3)]
    Unknown(#[n(0)] String),
    /// Commands were committed at an index; what came of each that was refused.
    #[n(4)]
    Committed(#[n(0)] Index, #[n(1)] Vec<Option<CommandRefusal>>),
    /// Commands were not committed: too much waits.
    #[n(5)]
    Busy(#[n(0)] u64),
    /// Commands were not committed: they are too large.
    #[n(6)]
    TooLarge(#[n(0)] u64, #[n(1)] u64),
    /// A position in the log, and the index up to which the leader's readers see everything.
    #[n(7)]
    Position(#[n(0)] u64, #[n(1)] Option<Index>),
    /// Those that a server without a cluster knows.
    #[n(8)]
    Met(#[n(0)] Vec<KnownServer>),
    /// It belongs to a cluster already, or has agreed to other servers.
    #[n(9)]
    Taken,
    /// The response to a relayed request.
    #[n(10)]
    Agent(#[n(0)] RelayedAnswer),
    /// The status of the server.
    #[n(11)]
    Here(#[n(0)] ServerPulse),
    /// A key-encryption key, if the server has it.
    #[n(12)]
    Kek(#[n(0)] Option<KekBytes>),
}

/// The status of a server, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Encode, Decode)]
pub(super) struct ServerPulse {
    /// How long a sync of its log takes, in milliseconds, when its disk is too slow to lead on.
    #[n(0)]
    pub slow_sync_ms: Option<u64>,
    /// The last record of its log.
    #[n(1)]
    pub log_index: u64,
    /// The newest term that it knows.
    #[n(2)]
    pub term: u64,
    /// The version of Berth that it runs.
    #[n(3)]
    pub version: String,
    /// Its disk has too little free space to lead; older servers do not report it.
    #[n(4)]
    pub disk_full: Option<bool>,
    /// How long the last syncs of its log took in the mean, in microseconds; older servers do not say.
    #[n(5)]
    pub mean_sync_us: Option<u64>,
    /// Whether the server that asks is of the cluster: reported by the leader, and by others that know it was removed.
    #[n(6)]
    pub knows_you: Option<bool>,
    /// Which key-encryption keys it has; older servers do not say.
    #[n(7)]
    pub keks: Option<Vec<KekId>>,
    /// Reported by the leader: the age of its contact with a majority in milliseconds, the greatest number for never; older servers do not
    /// say.
    #[n(8)]
    pub majority_ms: Option<u64>,
    /// Whether it leads; older servers do not say. Who does says [`Self::majority_ms`], too.
    #[n(9)]
    pub leads: Option<bool>,
    /// It is stopping; none while it is not.
    #[n(10)]
    pub stopping: Option<bool>,
}

impl ServerPulse {
    /// Whether it could lead, as far as its disk goes.
    pub fn has_good_disk(&self) -> bool {
        self.slow_sync_ms.is_none() && self.disk_full != Some(true)
    }
}

/// Why a command changed nothing. The text is for servers of another version, which may not know the refusal.
#[derive(Debug, Clone, Encode, Decode)]
pub(super) struct CommandRefusal {
    #[n(0)]
    #[cbor(with = "minicbor::bytes")]
    refusal: Vec<u8>,
    #[n(1)]
    text: String,
}

/// Commands as bytes. Encoded in the oldest version that has these commands, so that an older server reads them if it can.
pub(super) fn encode_commands(commands: Vec<Command>) -> Vec<u8> {
    let version = Entry::version_for(&commands);
    Entry::new(Index::default(), Default::default(), commands).of_version(version).encode()
}

/// Commands from bytes.
///
/// # Errors
/// When a newer version has written them.
pub(super) fn decode_commands(bytes: &[u8]) -> Result<Vec<Command>, String> {
    Entry::decode(bytes).map(|entry| entry.commands).map_err(|error| error.to_string())
}

/// A message as bytes.
pub(super) fn encode(message: &impl Encode<()>) -> Vec<u8> {
    minicbor::to_vec(message).expect("encoding to memory does not fail")
}

/// A message from bytes.
///
/// # Errors
/// When it is none that this version knows.
pub(super) fn decode<'b, T: Decode<'b, ()>>(bytes: &'b [u8]) -> Result<T, String> {
    minicbor::decode(bytes).map_err(|error| format!("read what another server says: {error}"))
}

impl From<Result<Committed, ProposeError>> for PeerAnswer {
    fn from(proposed: Result<Committed, ProposeError>) -> Self {
        match proposed {
            Ok(Committed { index, outcomes }) => {
                let refusal = |outcome: Outcome| {
                    let refusal = outcome.err()?;
                    Some(CommandRefusal { refusal: encode(&refusal), text: refusal.to_string() })
                };
                Self::Committed(index, outcomes.into_iter().map(refusal).collect())
            }
            Err(ProposeError::Busy(waiting)) => Self::Busy(waiting as u64),
            Err(ProposeError::TooLarge { bytes, max }) => Self::TooLarge(bytes as u64, max as u64),
            Err(ProposeError::NoLeader | ProposeError::Stopping) => Self::NotLeader(None),
            Err(ProposeError::TooNew(why) | ProposeError::NotWritten(why)) => Self::Refused(why),
            Err(ProposeError::Unknown(why)) => Self::Unknown(why),
        }
    }
}

/// What another server answered to commands; none when it does not lead.
pub(super) fn proposed(answer: PeerAnswer) -> Option<Result<Committed, ProposeError>> {
    Some(match answer {
        PeerAnswer::Committed(index, refused) => {
            let outcomes: Result<Vec<_>, _> = refused.into_iter().map(outcome).collect();
            outcomes.map(|outcomes| Committed { index, outcomes })
        }
        PeerAnswer::Busy(waiting) => Err(ProposeError::Busy(waiting as usize)),
        PeerAnswer::TooLarge(bytes, max) => {
            Err(ProposeError::TooLarge { bytes: bytes as usize, max: max as usize })
        }
        PeerAnswer::Refused(why) => Err(ProposeError::NotWritten(why)),
        PeerAnswer::Unknown(why) => Err(ProposeError::Unknown(why)),
        PeerAnswer::NotLeader(_) => return None,
        other => Err(ProposeError::Unknown(format!("the leader's answer makes no sense: {other:?}"))),
    })
}

fn outcome(refused: Option<CommandRefusal>) -> Result<Outcome, ProposeError> {
    let Some(CommandRefusal { refusal, text }) = refused else { return Ok(Ok(())) };
    // A newer leader refuses for a reason that this version has no name for.
    let refusal: Refusal = minicbor::decode(&refusal).map_err(|_| ProposeError::NotWritten(text))?;
    Ok(Err(refusal))
}
