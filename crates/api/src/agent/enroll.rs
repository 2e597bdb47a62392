//! Enrollment of agents: one request and one response, on a connection of its own with its own ALPN protocol, in which an agent
//! receives its certificate.

use std::{fmt, str::FromStr};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::secrets::debug_shows;

/// Longest request, in bytes.
pub const ENROLL_BYTES_MAX: usize = 4 << 10;
/// Longest response, in bytes.
pub const ENROLLED_BYTES_MAX: usize = 256 << 10;

/// Begins what is signed, so that it can be taken for nothing else.
const SIGNED: &[u8] = b"berth enroll 1";
/// Begins a join token, and says how the rest is to be read.
const JOIN: &str = "berth-join-1-";
/// Of a fingerprint, and of a secret.
const PART_BYTES: usize = 32;

/// Asks for a certificate.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct Enroll {
    /// Of the join token; empty for an agent that renews the certificate that it shows.
    #[prost(bytes = "vec", tag = "1")]
    pub secret: Vec<u8>,
    /// 16 bytes.
    #[prost(bytes = "vec", tag = "2")]
    pub node_id: Vec<u8>,
    /// For which key: a point of P-256, uncompressed.
    #[prost(bytes = "vec", tag = "3")]
    pub public_key: Vec<u8>,
    /// Of [`Self::signed`], with the private half of the key.
    #[prost(bytes = "vec", tag = "4")]
    pub signature: Vec<u8>,
    /// The node's own, by which servers know it, from one that renews: a certificate alone makes no new one.
    #[prost(bytes = "vec", tag = "5")]
    pub node_secret: Vec<u8>,
}

debug_shows!(Enroll { node_id });

impl Enroll {
    /// The bytes that the signature covers.
    pub fn signed(&self) -> Vec<u8> {
        [SIGNED, &self.node_id, &self.secret].concat()
    }
}

/// The response to [`Enroll`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Enrolled {
    /// In DER; empty where it was refused.
    #[prost(bytes = "vec", tag = "1")]
    pub certificate: Vec<u8>,
    /// The authorities that the cluster believes, each in DER.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub authorities: Vec<Vec<u8>>,
    /// Why it was refused, for users.
    #[prost(string, tag = "3")]
    pub refused: String,
}

/// A join token: whom to believe, and what to show. Written as one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JoinCode {
    /// SHA-256 of the authority's certificate.
    pub authority: [u8; PART_BYTES],
    /// What the servers know the hash of.
    pub secret: [u8; PART_BYTES],
}

impl fmt::Display for JoinCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.authority, self.secret].concat();
        write!(f, "{JOIN}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

/// Does not print the secret.
impl fmt::Debug for JoinCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinCode(..)")
    }
}

impl FromStr for JoinCode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = text.trim().strip_prefix(JOIN).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
        let parts = bytes.as_deref().and_then(|bytes| bytes.split_first_chunk::<PART_BYTES>());
        match parts.map(|(authority, secret)| (*authority, secret.try_into())) {
            Some((authority, Ok(secret))) => Ok(Self { authority, secret }),
            _ => Err("it is no join token: `berth node token` makes one".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_token_is_one_word_that_is_read_back() {
        let code = JoinCode { authority: [7; 32], secret: [9; 32] };
        let text = code.to_string();
        assert!(text.starts_with("berth-join-1-") && !text.contains(char::is_whitespace));
        assert_eq!(text.parse(), Ok(code));
        assert!(!format!("{code:?}").contains('9'));
        for bad in [
            "",
            "berth-join-1-",
            &text[..text.len() - 4],
            &text.replace("-1-", "-2-"),
            &format!("{text}AAAA"),
        ] {
            assert!(bad.parse::<JoinCode>().is_err(), "{bad}");
        }
    }
}
