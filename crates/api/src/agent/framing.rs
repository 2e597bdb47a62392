//! Frames between agents and servers: a length (u32, big-endian), a protobuf message, and a checksum of it.
//!
//! The checksum is a field of its own at the end of the message, which peers that do not know it skip. The sum of TCP is too weak for
//! links that damage what they carry, and a damaged frame can still be a message: it would run something else, or nothing at all,
//! and both sides would believe that they agree.

use bytes::{Buf, BufMut, BytesMut};
use prost::{
    DecodeError, Message,
    encoding::{DecodeContext, WireType, decode_key, encode_key, key_len, skip_field},
};

use crate::failpoint;

/// The field of the checksum (crc32c of the bytes before it, little-endian), which no message has otherwise.
const CHECKSUM_FIELD: u32 = 1000;
const CHECKSUM_BYTES: usize = 4;

/// Begins every answer in HTTP.
const HTTP: [u8; 4] = *b"HTTP";

/// A frame that breaks the protocol.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than the reader allows at this point of the conversation.
    #[error("a frame of {len} bytes is over the limit of {max} bytes")]
    TooLong {
        /// Bytes that the length prefix announces.
        len: usize,
        /// Bytes that are allowed.
        max: usize,
    },
    /// The beginning of an answer in HTTP stands where a frame should.
    #[error("this is an HTTP port: agents connect to the port of --agent-addr, 4647 by default")]
    Http,
    /// A record of TLS stands where a frame should: the other side speaks TLS, and this one does not.
    #[error("the other side speaks TLS, and this one does not")]
    Tls,
    /// Its bytes are not those that were sent.
    #[error("a frame of {0} bytes was damaged on its way")]
    Damaged(usize),
    /// Not the protobuf message that was expected.
    #[error("decode frame: {0}")]
    Decode(#[from] prost::DecodeError),
}

impl FrameError {
    /// What is wrong with a length that is over the limit: other protocols begin with one, too.
    fn of_prefix(prefix: [u8; 4], len: usize, max: usize) -> Self {
        match prefix {
            HTTP => Self::Http,
            // An alert, or the beginning of a handshake.
            [0x15 | 0x16, 3, ..] => Self::Tls,
            _ => Self::TooLong { len, max },
        }
    }
}

/// Appends one frame to `out`.
pub fn encode_frame<M: Message>(message: &M, out: &mut BytesMut) {
    let len = message.encoded_len() + key_len(CHECKSUM_FIELD) + CHECKSUM_BYTES;
    out.reserve(4 + len);
    out.put_u32(u32::try_from(len).unwrap_or(u32::MAX));
    let begin = out.len();
    message.encode(out).expect("a growing buffer has room");
    let checksum = crc32c::crc32c(&out[begin..]);
    encode_key(CHECKSUM_FIELD, WireType::ThirtyTwoBit, out);
    out.put_u32_le(checksum);
}

/// Takes one frame of at most `bytes_max` bytes from the front of `input`; none when it is not complete yet. Where more than one
/// frame comes, [`FrameDecoder`] misses no damage.
///
/// # Errors
/// When the frame is too long, damaged, or not the message expected; the connection cannot be used any further.
pub fn decode_frame<M: Message + Default>(
    input: &mut BytesMut,
    bytes_max: usize,
) -> Result<Option<M>, FrameError> {
    FrameDecoder::default().decode(input, bytes_max)
}

/// Decodes the frames of one connection in one direction.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    /// Whether the other side sends checksums. Who has sent one sends them always: a frame without is damaged where its checksum was.
    has_checksums: bool,
}

impl FrameDecoder {
    /// As [`decode_frame`].
    ///
    /// # Errors
    /// The same.
    pub fn decode<M: Message + Default>(
        &mut self,
        input: &mut BytesMut,
        bytes_max: usize,
    ) -> Result<Option<M>, FrameError> {
        let Some(prefix) = input.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > bytes_max {
            return Err(FrameError::of_prefix(*prefix, len, bytes_max));
        }
        if input.len() < 4 + len {
            return Ok(None);
        }
        input.advance(4);
        let frame = input.split_to(len).freeze();
        failpoint("agent.frame", &frame);
        match checksum(&frame)? {
            Some((begin, checksum)) if crc32c::crc32c(&frame[..begin]) == checksum => {
                self.has_checksums = true
            }
            None if !self.has_checksums => {}
            _ => return Err(FrameError::Damaged(len)),
        }
        Ok(Some(M::decode(frame)?))
    }
}

/// Where the checksum of a frame begins, and what it is; none of a peer that sends none. Fields are skipped by their lengths, and a
/// frame has two or three of them.
fn checksum(frame: &[u8]) -> Result<Option<(usize, u32)>, DecodeError> {
    let mut rest = frame;
    while !rest.is_empty() {
        let begin = frame.len() - rest.len();
        let (field, wire_type) = decode_key(&mut rest)?;
        if (field, wire_type) == (CHECKSUM_FIELD, WireType::ThirtyTwoBit) && rest.len() == CHECKSUM_BYTES {
            return Ok(Some((begin, rest.get_u32_le())));
        }
        skip_field(wire_type, field, &mut rest, DecodeContext::default())?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{AllocStatus, DownFrame, FRAME_BYTES_MAX, Up, UpFrame, Update};

    #[test]
    fn another_protocol_is_known_by_its_first_bytes() {
        let error = |bytes: &[u8]| {
            let read = decode_frame::<DownFrame>(&mut BytesMut::from(bytes), FRAME_BYTES_MAX);
            read.map_err(|error| error.to_string())
        };
        assert!(
            error(b"HTTP/1.1 400 Bad Request\r\n")
                .is_err_and(|response| response.contains("--agent-addr, 4647"))
        );
        let tls = "the other side speaks TLS, and this one does not".to_owned();
        assert_eq!(error(&[0x15, 3, 3, 0, 2, 2, 40]), Err(tls.clone()));
        assert_eq!(error(&[0x16, 3, 1, 2, 0]), Err(tls));
        let long = "a frame of 1195725856 bytes is over the limit of 4194304 bytes".to_owned();
        assert_eq!(error(b"GET / HTTP/1.1"), Err(long));
        assert_eq!(error(b"HTT"), Ok(None), "it is not complete yet");
    }

    fn update() -> UpFrame {
        let status = AllocStatus { alloc_id: vec![7; 16], ..AllocStatus::default() };
        let update = Update { seq: 3, allocs: vec![status.encode_to_vec().into()], ..Update::default() };
        UpFrame { session: 9, message: Some(Up::Update(update)) }
    }

    #[test]
    fn a_frame_with_any_flipped_bit_is_none() {
        let mut sent = BytesMut::new();
        encode_frame(&update(), &mut sent);
        for bit in 4 * 8..sent.len() * 8 {
            let mut damaged = sent.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let mut decoder = FrameDecoder::default();
            let first = decoder.decode::<UpFrame>(&mut sent.clone(), FRAME_BYTES_MAX);
            assert_eq!(first.expect("it is whole"), Some(update()));
            let read = decoder.decode::<UpFrame>(&mut damaged, FRAME_BYTES_MAX);
            assert!(read.is_err(), "bit {bit} was flipped: {read:?}");
        }
    }

    #[test]
    fn who_sends_no_checksums_is_understood_and_understands() {
        let mut sent = BytesMut::new();
        let bytes = update().encode_to_vec();
        sent.put_u32(u32::try_from(bytes.len()).expect("it is short"));
        sent.put_slice(&bytes);
        let mut decoder = FrameDecoder::default();
        let read = decoder.decode::<UpFrame>(&mut sent, FRAME_BYTES_MAX);
        assert_eq!(read.expect("it is whole"), Some(update()));
        encode_frame(&update(), &mut sent);
        assert_eq!(UpFrame::decode(&sent[4..]).expect("what it does not know is skipped"), update());
    }
}
