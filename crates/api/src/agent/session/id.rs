//! Ids of allocations and clusters.

use std::fmt;

/// Which allocation: 16 bytes, written as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AllocId(pub [u8; 16]);

/// Which cluster: 16 bytes, written as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterId(pub [u8; 16]);

impl AllocId {
    /// Reads the form on the wire; none when it is not 16 bytes long.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }

    /// Reads the form of a UUID; none when it is not one, or not written as [`fmt::Display`] writes it.
    pub fn from_uuid(text: &str) -> Option<Self> {
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        let (mut id, value) = ([0; 16], |digit: u8| (digit as char).to_digit(16).map(|value| value as u8));
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0])? << 4 | value(pair[1])?;
        }
        let read = Self(id);
        (read.to_string() == text).then_some(read)
    }
}

impl ClusterId {
    /// Reads the form on the wire; none when it is not 16 bytes long.
    pub fn from_slice(bytes: &[u8]) -> Option<Self> {
        Some(Self(bytes.try_into().ok()?))
    }
}

fn write_uuid(bytes: &[u8; 16], out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (position, byte) in bytes.iter().enumerate() {
        let dash = if matches!(position, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(out, "{dash}{byte:02x}")?;
    }
    Ok(())
}

impl fmt::Display for AllocId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, out)
    }
}

impl fmt::Debug for AllocId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, out)
    }
}

impl fmt::Display for ClusterId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, out)
    }
}

impl fmt::Debug for ClusterId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_uuid(&self.0, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_as_a_uuid() {
        let id = AllocId::from_slice(&[0xab; 16]).expect("16 bytes");
        assert_eq!(id.to_string(), "abababab-abab-abab-abab-abababababab");
        assert_eq!(ClusterId(id.0).to_string(), id.to_string());
        assert_eq!(AllocId::from_slice(&[0; 15]), None);
    }

    #[test]
    fn an_id_is_read_as_it_is_written() {
        let id = AllocId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255]);
        assert_eq!(AllocId::from_uuid(&id.to_string()), Some(id));
        let odd = ["", "00010203-0405-0607-0809-0a0b0c0d0e", "00010203040506070809-0a0b0c0d0eff", "é"];
        assert_eq!(odd.map(AllocId::from_uuid), [None; 4]);
        assert_eq!(AllocId::from_uuid(&id.to_string().to_uppercase()), None);
    }
}
