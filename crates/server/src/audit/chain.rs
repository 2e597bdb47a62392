//! The hash chain: each line ends with a hash over itself and the hash of the line before, so that no line can be changed, removed or
//! moved without a change of all that follow.

use std::{fmt, io::Write, str::FromStr};

use sha2::{Digest, Sha256};

/// How each line begins.
const BEGIN: &[u8] = b"{\"sequence\":";
/// The text before the hash of a line. It and what follows are not hashed.
const MARK: &[u8] = b",\"hash\":\"";
/// How each line ends.
const END: &[u8] = b"\"}\n";
const HASH_BYTES: usize = 32;
/// Bytes of a line besides its fields: its beginning, a number of 20 digits, a comma, and its hash.
pub(super) const LINE_EXTRA_BYTES: usize = BEGIN.len() + 20 + 1 + MARK.len() + 2 * HASH_BYTES + END.len();

/// The hash with which a line ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChainHash([u8; HASH_BYTES]);

impl ChainHash {
    fn of(previous: Self, body: &[u8]) -> Self {
        Self(Sha256::new().chain_update(previous.0).chain_update(body).finalize().into())
    }
}

impl fmt::Display for ChainHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The text is not the hash of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not 64 hexadecimal digits in lower case")]
pub struct InvalidHash;

impl FromStr for ChainHash {
    type Err = InvalidHash;

    fn from_str(text: &str) -> Result<Self, InvalidHash> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(InvalidHash),
        };
        let mut hash = [0; HASH_BYTES];
        if text.len() != 2 * HASH_BYTES {
            return Err(InvalidHash);
        }
        for (byte, pair) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Ok(Self(hash))
    }
}

/// Writes a line after the one that ended with `previous`. `fields` is what stands between the braces of its JSON object.
pub(super) fn seal(previous: ChainHash, sequence: u64, fields: &[u8], lines: &mut Vec<u8>) -> ChainHash {
    let begin = lines.len();
    lines.extend_from_slice(BEGIN);
    // Writing to memory does not fail.
    let _ = write!(lines, "{sequence},");
    lines.extend_from_slice(fields);
    let hash = ChainHash::of(previous, &lines[begin..]);
    lines.extend_from_slice(MARK);
    let _ = write!(lines, "{hash}");
    lines.extend_from_slice(END);
    hash
}

/// A line taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct SealedLine<'l> {
    /// Its number.
    pub sequence: u64,
    /// The hash that it says it has.
    pub hash: ChainHash,
    body: &'l [u8],
}

impl<'l> SealedLine<'l> {
    /// Takes a line apart, its end included; none for what is no line of an audit log.
    pub fn read(line: &'l [u8]) -> Option<Self> {
        let rest = line.strip_suffix(END)?;
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(2 * HASH_BYTES)?)?;
        let body = rest.strip_suffix(MARK)?;
        let number = body.strip_prefix(BEGIN)?;
        let digits = number.split(|byte| *byte == b',').next()?;
        let sequence = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Self { sequence, hash: std::str::from_utf8(hash).ok()?.parse().ok()?, body })
    }

    /// Whether the line is unchanged and follows the one that ended with `previous`.
    pub fn follows(&self, previous: ChainHash) -> bool {
        ChainHash::of(previous, self.body) == self.hash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(previous: ChainHash, sequence: u64) -> (Vec<u8>, ChainHash) {
        let mut lines = Vec::new();
        let hash = seal(previous, sequence, br#""kind":"request","user":"\"hash\":\"x""#, &mut lines);
        (lines, hash)
    }

    #[test]
    fn a_line_is_json_and_follows_the_one_before_and_no_other() {
        let (first, hash) = line(ChainHash::default(), 1);
        let (second, _) = line(hash, 2);
        let json: serde_json::Value = serde_json::from_slice(&second).expect("it is JSON");
        assert_eq!(json["sequence"], 2);
        assert!(SealedLine::read(&first).is_some_and(|line| line.follows(ChainHash::default())));
        assert!(SealedLine::read(&second).is_some_and(|line| line.follows(hash) && line.sequence == 2));
        assert!(!SealedLine::read(&second).is_some_and(|line| line.follows(ChainHash::default())));
        assert!(second.len() <= LINE_EXTRA_BYTES + 60);
    }

    #[test]
    fn each_bit_counts() {
        let (whole, _) = line(ChainHash::default(), 7);
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let is_right = SealedLine::read(&changed)
                .is_some_and(|line| line.sequence == 7 && line.follows(ChainHash::default()));
            assert!(!is_right, "bit {bit}: {}", String::from_utf8_lossy(&changed));
        }
    }
}
