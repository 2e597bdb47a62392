//! The messages' bytes: a version, which way it goes, and CBOR with numbered fields. A newer version refuses nothing that
//! an older one wrote; the files in `tests/golden` are what each has written.

use std::sync::Arc;

use berth_model::{observed::ObservedAlloc, store::AllocSlot};
use minicbor::{Decode, Decoder, Encode, Encoder, decode as de, encode as en};

use super::{DownMessage, NodeRecovery, ObservationBatch, ServerMessage};

/// Of the messages; a server refuses what it does not know by both numbers.
pub const MESSAGE_VERSION: u8 = 1;

const UP: u8 = 0;
const DOWN: u8 = 1;

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// It was written by a newer version.
    #[error("read a server's message: it has version {0}, this server knows up to {MESSAGE_VERSION}")]
    Version(u8),
    /// It is not one.
    #[error("read a server's message: {0}")]
    Malformed(String),
}

impl ServerMessage {
    /// Appends the encoded form.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(MESSAGE_VERSION);
        let written = match self {
            Self::Up(frame) => {
                out.push(UP);
                minicbor::encode(frame, out)
            }
            Self::Down(frame) => {
                out.push(DOWN);
                minicbor::encode(frame, out)
            }
        };
        written.expect("memory takes whatever is written");
    }

    /// Reads the encoded form.
    ///
    /// # Errors
    /// When it was written by a newer version, or is not a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let malformed = |error: de::Error| MessageError::Malformed(error.to_string());
        match bytes {
            [version, ..] if !(1..=MESSAGE_VERSION).contains(version) => Err(MessageError::Version(*version)),
            [_, UP, body @ ..] => minicbor::decode(body).map(Self::Up).map_err(malformed),
            [_, DOWN, body @ ..] => minicbor::decode(body).map(Self::Down).map_err(malformed),
            _ => Err(MessageError::Malformed("it says neither up nor down".to_owned())),
        }
    }
}

impl<C> Encode<C> for DownMessage {
    fn encode<W: en::Write>(&self, e: &mut Encoder<W>, context: &mut C) -> Result<(), en::Error<W::Error>> {
        match self {
            Self::LeadershipBegan(index, after) => {
                e.array(3)?.u8(0)?.encode_with(index, context)?.encode_with(after, context)?.ok()
            }
            Self::Batch(batch) => {
                e.array(2)?.u8(1)?;
                e.writer_mut().write_all(batch.encoded()).map_err(en::Error::write)
            }
            Self::UpTo(index, recovery) => {
                let NodeRecovery { unconfirmed, unheard, grace_until, held, held_nodes } = recovery;
                let fields = if *recovery == NodeRecovery::of(*unconfirmed) { 3 } else { 7 };
                e.array(fields)?.u8(2)?.encode_with(index, context)?.u64(*unconfirmed)?;
                if fields > 3 {
                    e.u64(*unheard)?.encode_with(grace_until, context)?;
                    e.u64(*held)?.encode_with(held_nodes, context)?;
                }
                Ok(())
            }
            Self::EndSession(end) => e.array(2)?.u8(3)?.encode_with(end, context)?.ok(),
            Self::ReportNode(node) => e.array(2)?.u8(4)?.encode_with(node, context)?.ok(),
        }
    }
}

impl<'b, C> Decode<'b, C> for DownMessage {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        let fields = d.array()?;
        let kind = d.u8()?;
        match (kind, fields) {
            (0, Some(3)) => Ok(Self::LeadershipBegan(d.decode_with(context)?, d.decode_with(context)?)),
            (1, Some(2)) => Ok(Self::Batch(Arc::new(d.decode_with(context)?))),
            (2, Some(3)) => Ok(Self::UpTo(d.decode_with(context)?, NodeRecovery::of(d.u64()?))),
            (2, Some(7)) => Ok(Self::UpTo(
                d.decode_with(context)?,
                NodeRecovery {
                    unconfirmed: d.u64()?,
                    unheard: d.u64()?,
                    grace_until: d.decode_with(context)?,
                    held: d.u64()?,
                    held_nodes: d.decode_with(context)?,
                },
            )),
            (3, Some(2)) => Ok(Self::EndSession(d.decode_with(context)?)),
            (4, Some(2)) => Ok(Self::ReportNode(d.decode_with(context)?)),
            _ => Err(de::Error::message(format!("there is no message {kind} of {fields:?} fields"))),
        }
    }
}

impl ObservationBatch {
    /// The CBOR form: an array of index, last entry before, and reports.
    fn encoded(&self) -> &[u8] {
        self.encoded.get_or_init(|| {
            let mut e = Encoder::new(Vec::new());
            let reports = u64::try_from(self.reports.len()).unwrap_or(u64::MAX);
            let head = e.array(3).and_then(|e| e.encode(self.index)).and_then(|e| e.encode(self.after));
            let head = head.and_then(|e| e.array(reports)).map(|_| ());
            let all = self.reports.iter().try_for_each(|report| e.encode(report.as_ref()).map(|_| ()));
            head.and(all).expect("memory takes whatever is written");
            e.into_writer()
        })
    }
}

impl<'b, C> Decode<'b, C> for ObservationBatch {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        if d.array()? != Some(3) {
            return Err(de::Error::message("a batch has three fields"));
        }
        let (index, after) = (d.decode_with(context)?, d.decode_with(context)?);
        let reports: Vec<super::NodeReport> = d.decode_with(context)?;
        Ok(Self::new(index, after, reports.into_iter().map(Arc::new).collect()))
    }
}

impl<'b, C> Decode<'b, C> for super::ReportedAlloc {
    fn decode(d: &mut Decoder<'b>, context: &mut C) -> Result<Self, de::Error> {
        /// [`super::ReportedAlloc`] as it is read.
        #[derive(Decode)]
        struct DecodedAlloc {
            #[n(0)]
            #[cbor(with = "slot")]
            slot: AllocSlot,
            #[n(1)]
            #[cbor(with = "berth_model::codec::shared")]
            alloc: Arc<ObservedAlloc>,
        }
        let DecodedAlloc { slot, alloc } = DecodedAlloc::decode(d, context)?;
        Ok(Self::new(slot, alloc))
    }
}

/// A session's number.
pub(super) mod session {
    use super::{Decoder, Encoder, de, en};
    use crate::event::SessionId;

    pub fn encode<C, W: en::Write>(
        session: &SessionId,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.u64(session.0)?.ok()
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<SessionId, de::Error> {
        d.u64().map(SessionId)
    }
}

/// A session's number, or none.
pub(super) mod session_option {
    use super::{Decode, Decoder, Encode, Encoder, de, en};
    use crate::event::SessionId;

    pub fn encode<C, W: en::Write>(
        session: &Option<SessionId>,
        e: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        session.map(|session| session.0).encode(e, context)
    }

    pub fn decode<C>(d: &mut Decoder<'_>, context: &mut C) -> Result<Option<SessionId>, de::Error> {
        Ok(Option::<u64>::decode(d, context)?.map(SessionId))
    }
}

/// A slot's number.
pub(super) mod slot {
    use berth_model::store::AllocSlot;

    use super::{Decoder, Encoder, de, en};

    pub fn encode<C, W: en::Write>(
        slot: &AllocSlot,
        e: &mut Encoder<W>,
        _: &mut C,
    ) -> Result<(), en::Error<W::Error>> {
        e.u32(slot.0)?.ok()
    }

    pub fn decode<C>(d: &mut Decoder<'_>, _: &mut C) -> Result<AllocSlot, de::Error> {
        d.u32().map(AllocSlot)
    }
}
