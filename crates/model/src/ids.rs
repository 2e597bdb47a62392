//! Names of things: 128-bit ids written as UUIDs, the job key, and the one index that orders every change.

use std::{fmt, str::FromStr, sync::Arc};

use minicbor::{Decode, Encode};

/// A text that is not a UUID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an id: expected 32 hexadecimal digits, as in 6f1c2b0a-9d41-4b53-8a0e-2f6c7d8e9f10")]
pub struct ParseIdError(pub String);

/// Parses a UUID with or without its dashes.
fn parse_uuid(text: &str) -> Result<u128, ParseIdError> {
    let error = || ParseIdError(text.chars().take(64).collect());
    let mut value: u128 = 0;
    let mut digits = 0;
    for c in text.chars().filter(|c| *c != '-') {
        let digit = c.to_digit(16).ok_or_else(error)?;
        digits += 1;
        if digits > 32 {
            return Err(error());
        }
        value = value << 4 | u128::from(digit);
    }
    if digits == 32 { Ok(value) } else { Err(error()) }
}

/// By hand: ids are most of what is written of a change, and the formatting machinery takes ten times as long.
fn read_uuid<T>(value: u128, read: impl FnOnce(&str) -> T) -> T {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    /// Where each byte stands, between the dashes.
    const PLACES: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let mut text = [b'-'; 36];
    for (byte, place) in value.to_be_bytes().into_iter().zip(PLACES) {
        text[place] = DIGITS[usize::from(byte >> 4)];
        text[place + 1] = DIGITS[usize::from(byte & 0xf)];
    }
    read(str::from_utf8(&text).expect("digits and dashes are text"))
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u128);

        impl $name {
            /// The first eight digits, as users write it.
            pub fn short(self) -> String {
                format!("{:08x}", (self.0 >> 96) as u32)
            }

            /// Reads it as text, which is not kept.
            pub fn read<T>(self, read: impl FnOnce(&str) -> T) -> T {
                read_uuid(self.0, read)
            }

            /// Big-endian bytes, the form used on disk and on the wire.
            pub fn to_bytes(self) -> [u8; 16] {
                self.0.to_be_bytes()
            }

            /// Reads the form that [`Self::to_bytes`] writes; none when it is not 16 bytes long.
            pub fn from_slice(bytes: &[u8]) -> Option<Self> {
                Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
            }
        }

        impl From<u128> for $name {
            fn from(number: u128) -> Self {
                Self(number)
            }
        }

        impl From<$name> for u128 {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.read(|text| f.write_str(text))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.read(|text| f.write_str(text))
            }
        }

        impl FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<Self, ParseIdError> {
                parse_uuid(text).map(Self)
            }
        }

        impl<C> Encode<C> for $name {
            fn encode<W: minicbor::encode::Write>(
                &self,
                e: &mut minicbor::Encoder<W>,
                _: &mut C,
            ) -> Result<(), minicbor::encode::Error<W::Error>> {
                e.bytes(&self.to_bytes())?.ok()
            }
        }

        impl<'b, C> Decode<'b, C> for $name {
            fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
                Self::from_slice(d.bytes()?)
                    .ok_or_else(|| minicbor::decode::Error::message("an id is not 16 bytes long"))
            }
        }
    };
}

uuid_id!(
    /// An allocation: one instance of a job's group, on one node.
    AllocId
);
uuid_id!(
    /// An evaluation: one request to bring a job's allocations in line with its desired state.
    EvalId
);
uuid_id!(
    /// A deployment: one version of a job taking the place of another.
    DeploymentId
);
uuid_id!(
    /// A node: one machine.
    NodeId
);
uuid_id!(
    /// A token; it is no secret.
    AclTokenId
);
uuid_id!(
    /// A role: a set of policies.
    AclRoleId
);
uuid_id!(
    /// A root key.
    RootKeyId
);
uuid_id!(
    /// A key-encryption key: follows from the key, and reveals nothing of it.
    KekId
);

/// Mints the ids of one command from one random seed, so that a command of a thousand placements carries 16 random
/// bytes and every id still looks, and collides, like a random one.
#[derive(Debug, Clone)]
pub struct IdSeed {
    seed: u64,
    count: u64,
}

impl IdSeed {
    /// Starts a sequence; the same seed gives the same ids.
    pub fn new(seed: u64) -> Self {
        Self { seed, count: 0 }
    }

    /// The next id, with the version and variant bits of a random UUID.
    pub fn mint(&mut self) -> u128 {
        self.count += 1;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.seed.to_le_bytes());
        bytes[8..].copy_from_slice(&self.count.to_le_bytes());
        let hash = xxhash_rust::xxh3::xxh3_128_with_seed(&bytes, self.seed);
        hash & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62
    }
}

/// The position of a change in the one order that all servers, readers and streams share.
///
/// Minted by the leader, for log entries and for observed changes alike; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Encode, Decode)]
#[cbor(transparent)]
pub struct Index(#[n(0)] pub u64);

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What names a job: its namespace and its id within it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
pub struct JobKey {
    /// The tenant that owns the job.
    #[n(0)]
    #[cbor(with = "crate::codec::shared_str")]
    pub namespace: Arc<str>,
    /// Unique within the namespace.
    #[n(1)]
    #[cbor(with = "crate::codec::shared_str")]
    pub id: Arc<str>,
}

impl JobKey {
    /// A key from its two parts.
    pub fn new(namespace: &str, id: &str) -> Self {
        Self { namespace: namespace.into(), id: id.into() }
    }

    /// The key of what is left of this job once the evaluation `by` has purged it: its own is free for another job at once.
    pub fn purged(&self, by: EvalId) -> Self {
        Self::new(&self.namespace, &format!("{PURGED}{by}/{}", self.id))
    }

    /// Whether this is the key of what is left of a job that was purged: nobody can ask for that by its key.
    pub fn is_purged(&self) -> bool {
        self.id.starts_with(PURGED)
    }

    /// The id by which users know the job, or knew it before it was purged.
    pub fn name(&self) -> &str {
        let rest = self.id.strip_prefix(PURGED).and_then(|rest| rest.split_once('/'));
        rest.map_or(&self.id, |(_, name)| name)
    }
}

/// How the ids of purged jobs begin: no job that is registered has a control character in its id.
const PURGED: &str = "\u{1}purged/";

impl fmt::Display for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_back_as_it_was_written() {
        let id = AllocId(0x6f1c2b0a_9d41_4b53_8a0e_2f6c7d8e9f10);
        assert_eq!(id.to_string(), "6f1c2b0a-9d41-4b53-8a0e-2f6c7d8e9f10");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("6f1c2b0a9d414b538a0e2f6c7d8e9f10".parse(), Ok(id));
        assert_eq!(AllocId::from_slice(&id.to_bytes()), Some(id));
    }

    #[test]
    fn what_is_not_an_id_is_refused() {
        for text in ["", "6f1c2b0a", "zz1c2b0a-9d41-4b53-8a0e-2f6c7d8e9f10", &"0".repeat(33)] {
            assert!(text.parse::<AllocId>().is_err(), "{text}");
        }
    }

    #[test]
    fn minted_ids_are_random_uuids_and_repeat_with_their_seed() {
        let mut seed = IdSeed::new(7);
        let ids: Vec<u128> = (0..1000).map(|_| seed.mint()).collect();
        let mut unique = ids.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 1000);
        for id in &ids {
            let text = AllocId(*id).to_string();
            assert_eq!(&text[14..15], "4", "{text}");
            assert!("89ab".contains(&text[19..20]), "{text}");
        }
        assert_eq!(IdSeed::new(7).mint(), ids[0]);
    }
}
