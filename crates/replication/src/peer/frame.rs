//! What goes over a channel, byte for byte.
//!
//! ```text
//!  0  crc32c of all that follows u32     6  zero u16
//!  4  kind u8                            8  number of the call u64
//!  5  method u8                         16  body
//! ```
//!
//! Numbers are little-endian. The checksum is not the carrier's: what was damaged on its way must not become a vote or
//! a record.

use bytes::Bytes;

use super::port::FRAME_BYTES_MAX;

/// Bytes of a frame before its body.
pub(crate) const HEAD_BYTES: usize = 16;
/// Of a frame's body.
pub(crate) const BODY_BYTES_MAX: usize = FRAME_BYTES_MAX - HEAD_BYTES;

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameKind {
    /// Waits for an answer.
    Call,
    /// The answer to the call of that number.
    Answer,
    /// The call of that number is refused; the body says why, as text.
    Refusal,
    /// Needs no reply.
    Message,
}

/// What is asked of a server; also decides which frames go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Method {
    /// A leader's sign of life.
    Heartbeat,
    /// Records to be appended.
    Append,
    /// A vote.
    Vote,
    /// Whether there would be a vote.
    PreVote,
    /// To stand for election at once.
    Transfer,
    /// A snapshot is about to come.
    SnapshotBegin,
    /// A part of it.
    SnapshotPiece,
    /// All parts are there.
    SnapshotEnd,
    /// A request of the server above.
    Request,
    /// A message of the server above.
    Relay,
}

impl Method {
    const ALL: [(u8, Self); 10] = [
        (1, Self::Heartbeat),
        (2, Self::Append),
        (3, Self::Vote),
        (4, Self::PreVote),
        (5, Self::Transfer),
        (6, Self::SnapshotBegin),
        (7, Self::SnapshotPiece),
        (8, Self::SnapshotEnd),
        (9, Self::Request),
        (10, Self::Relay),
    ];

    fn number(self) -> u8 {
        Self::ALL.iter().find(|(_, method)| *method == self).expect("all methods are listed").0
    }

    fn of(number: u8) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == number).map(|(_, method)| *method)
    }
}

impl FrameKind {
    const ALL: [Self; 4] = [Self::Call, Self::Answer, Self::Refusal, Self::Message];
}

/// A frame that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Kind of the frame.
    pub kind: FrameKind,
    /// What it is about.
    pub method: Method,
    /// Of the call; 0 for a message.
    pub call: u64,
    /// Payload of the frame.
    pub body: Bytes,
}

/// Begins a frame; the body is appended to what it returns.
pub(crate) fn begin(kind: FrameKind, method: Method, call: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&[kind as u8 + 1, method.number(), 0, 0]);
    out.extend_from_slice(&call.to_le_bytes());
    out
}

/// Completes a frame.
///
/// # Errors
/// When it is too large for a channel, with its size.
pub(crate) fn finish(mut out: Vec<u8>) -> Result<Bytes, usize> {
    if out.len() > FRAME_BYTES_MAX {
        return Err(out.len());
    }
    let crc = crc32c::crc32c(&out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    Ok(out.into())
}

/// Reads a frame.
///
/// # Errors
/// When it is damaged, or of a kind that is not known: what is wrong with it.
pub(crate) fn decode(bytes: &Bytes) -> Result<Frame, String> {
    let head: &[u8; HEAD_BYTES] =
        bytes.first_chunk().ok_or_else(|| format!("a frame of {} bytes is cut short", bytes.len()))?;
    let crc = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    if crc != crc32c::crc32c(&bytes[4..]) {
        return Err("the checksum of a frame does not match".to_owned());
    }
    let kind = usize::from(head[4]).checked_sub(1).and_then(|kind| FrameKind::ALL.get(kind).copied());
    let kind = kind.ok_or_else(|| format!("a frame is of kind {}, which is not known", head[4]))?;
    let method = Method::of(head[5]).ok_or_else(|| format!("method {} is not known", head[5]))?;
    let call = u64::from_le_bytes(head[8..].try_into().expect("eight bytes"));
    Ok(Frame { kind, method, call, body: bytes.slice(HEAD_BYTES..) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Bytes {
        let mut out = begin(FrameKind::Call, Method::Append, 7);
        out.extend_from_slice(b"body");
        finish(out).unwrap()
    }

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let bytes = frame();
        let hex: String = bytes[4..].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "010200000700000000000000626f6479");
        let body = Bytes::from_static(b"body");
        let expected = Frame { kind: FrameKind::Call, method: Method::Append, call: 7, body };
        assert_eq!(decode(&bytes), Ok(expected));
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let bytes = frame();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&damaged.into()).is_err(), "bit {bit}");
        }
        assert!(decode(&bytes.slice(..HEAD_BYTES - 1)).is_err());
    }

    #[test]
    fn a_frame_larger_than_a_channel_takes_is_not_made() {
        let mut out = begin(FrameKind::Call, Method::Append, 7);
        out.resize(FRAME_BYTES_MAX + 1, 0);
        assert_eq!(finish(out), Err(FRAME_BYTES_MAX + 1));
    }
}
