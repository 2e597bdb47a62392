//! Digests: names of content, by its SHA-256.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error};
use sha2::{Digest as _, Sha256};

/// The SHA-256 of some content, written `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut hasher = DigestHasher::default();
        hasher.update(bytes);
        hasher.finish()
    }

    pub(crate) fn from_slice(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// 64 hexadecimal digits, which can name a file.
    pub(crate) fn hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let excerpt: String = text.chars().take(80).collect();
        let hex = text
            .strip_prefix("sha256:")
            .ok_or_else(|| format!("the digest {excerpt:?} is of another kind than sha256"))?;
        let digits = hex.as_bytes();
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let bytes: Option<Vec<u8>> =
            digits.chunks(2).map(|pair| Some(value(pair[0])? << 4 | value(*pair.get(1)?)?)).collect();
        let bytes = bytes.and_then(|bytes| Self::from_slice(&bytes));
        bytes.ok_or_else(|| format!("the digest {excerpt:?} is not sha256: and 64 hexadecimal digits"))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        String::deserialize(input)?.parse().map_err(D::Error::custom)
    }
}

/// Makes a digest of content that comes piece by piece.
#[derive(Clone, Default)]
pub(crate) struct DigestHasher(Sha256);

impl DigestHasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_written() {
        let digest = Digest::of(b"");
        assert_eq!(
            digest.to_string(),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let hex = digest.hex();
        for bad in ["", &hex, "sha512:00", &format!("sha256:{}", &hex[1..]), &format!("sha256:{hex}0")] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
        assert!(format!("sha256:{}", hex.to_uppercase()).parse::<Digest>().is_err());
    }
}
