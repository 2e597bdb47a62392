//! The checksum that a job gives for an artifact: `sha256:HEX` and the like, or the hexadecimal digits alone.

use sha2::Digest;

/// A digest that is expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checksum {
    kind: ChecksumKind,
    expected: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChecksumKind {
    Md5,
    Sha1,
    Sha256,
    Sha512,
}

/// Kinds by their names, and how many bytes they have.
const KINDS: [(&str, ChecksumKind, usize); 4] = [
    ("md5", ChecksumKind::Md5, 16),
    ("sha1", ChecksumKind::Sha1, 20),
    ("sha256", ChecksumKind::Sha256, 32),
    ("sha512", ChecksumKind::Sha512, 64),
];

impl Checksum {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, digits) = text.split_once(':').map_or((None, text), |(name, digits)| (Some(name), digits));
        if name == Some("file") {
            return Err(
                "checksums from files are not implemented: write the digest itself, as `sha256:...`".into()
            );
        }
        let expected =
            hex(digits.trim()).ok_or_else(|| format!("the checksum {text:?} is no hexadecimal number"))?;
        let known = KINDS.iter().find(|(known, _, bytes)| match name {
            Some(name) => name == *known,
            None => expected.len() == *bytes,
        });
        match known {
            Some((_, kind, bytes)) if expected.len() == *bytes => Ok(Self { kind: *kind, expected }),
            Some((name, _, bytes)) => Err(format!("a checksum by {name} has {} digits", 2 * bytes)),
            None => Err(format!("the checksum {text:?} is of no known kind: md5, sha1, sha256 or sha512")),
        }
    }

    pub(super) fn hasher(&self) -> ChecksumHasher {
        match self.kind {
            ChecksumKind::Md5 => ChecksumHasher::Md5(md5::Md5::new()),
            ChecksumKind::Sha1 => ChecksumHasher::Sha1(sha1::Sha1::new()),
            ChecksumKind::Sha256 => ChecksumHasher::Sha256(sha2::Sha256::new()),
            ChecksumKind::Sha512 => ChecksumHasher::Sha512(Box::new(sha2::Sha512::new())),
        }
    }

    /// Whether it is what was expected; if not, what it is.
    pub(super) fn check(&self, hasher: ChecksumHasher) -> Result<(), String> {
        let found = hasher.finish();
        if found == self.expected {
            return Ok(());
        }
        let digits = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Err(format!(
            "its checksum is {}, and not {} as its job says: it is not what was meant, or has changed",
            digits(&found),
            digits(&self.expected)
        ))
    }
}

/// Computes a digest of the kind that a [`Checksum`] names.
pub(super) enum ChecksumHasher {
    Md5(md5::Md5),
    Sha1(sha1::Sha1),
    Sha256(sha2::Sha256),
    Sha512(Box<sha2::Sha512>),
}

impl ChecksumHasher {
    pub(super) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(hasher) => hasher.update(bytes),
            Self::Sha1(hasher) => hasher.update(bytes),
            Self::Sha256(hasher) => hasher.update(bytes),
            Self::Sha512(hasher) => hasher.update(bytes),
        }
    }

    fn finish(self) -> Vec<u8> {
        match self {
            Self::Md5(hasher) => hasher.finalize().to_vec(),
            Self::Sha1(hasher) => hasher.finalize().to_vec(),
            Self::Sha256(hasher) => hasher.finalize().to_vec(),
            Self::Sha512(hasher) => hasher.finalize().to_vec(),
        }
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> =
        digits.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    (digits.len().is_multiple_of(2) && !digits.is_empty())
        .then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), String> {
        let checksum = Checksum::parse(text)?;
        let mut hasher = checksum.hasher();
        hasher.update(b"hel");
        hasher.update(b"lo\n");
        checksum.check(hasher)
    }

    #[test]
    fn what_was_meant_passes_and_nothing_else() {
        let sha256 = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        for text in [
            "md5:b1946ac92492d2347c6235b4d2611184",
            "sha1:f572d396fae9206628714fb2ce00f72e94f2258f",
            "F572D396FAE9206628714FB2CE00F72E94F2258F",
            &format!("sha256:{sha256}"),
            sha256,
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let other = check(&sha256.replace('5', "6")).unwrap_err();
        assert!(other.starts_with(&format!("its checksum is {sha256}, and not 6891")), "{other}");
        for (text, why) in [
            ("sha256:12", "a checksum by sha256 has 64 digits"),
            ("crc32:12345678", "of no known kind"),
            ("sha256:x", "no hexadecimal number"),
            ("", "no hexadecimal number"),
            ("file:https://a.b/SUMS", "checksums from files are not implemented"),
        ] {
            let refused = Checksum::parse(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
