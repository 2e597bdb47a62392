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
}
