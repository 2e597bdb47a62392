//! Commands and entries that are encoded once: whoever cuts entries by their size knows it to the byte, and what it
//! measured is what is written.

use minicbor::Encoder;

use super::{Command, ENTRY_VERSION, Entry};
use crate::{ids::Index, time::Timestamp};

/// Most bytes of an entry besides its commands: the version, and the heads of its fields.
pub const ENTRY_HEAD_BYTES_MAX: usize = 1 + 1 + 9 + 9 + 9;

/// What most commands are smaller than: those need no second allocation while they are encoded.
const USUAL_BYTES: usize = 512;

/// The bytes of one command as they stand in an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedCommand(Vec<u8>);

impl EncodedCommand {
    /// Encodes a command.
    pub fn new(command: &Command) -> Self {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        minicbor::encode(command, &mut bytes).expect("encoding to memory does not fail");
        Self(bytes)
    }

    /// What the command adds to an entry's size, in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no command is encoded as nothing")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The command itself.
    pub fn decode(&self) -> Command {
        minicbor::decode(&self.0).expect("what was encoded here can be decoded")
    }

    /// The command in CBOR.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// An entry beside its bytes, so that who made it never encodes it again and never decodes it.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedEntry {
    entry: Entry,
    bytes: Vec<u8>,
}

impl EncodedEntry {
    /// Puts together an entry whose commands have been encoded one by one; `encoded` are those of `entry`, in order.
    ///
    /// # Panics
    /// When there are more or fewer than the entry has.
    pub fn assemble<'a>(entry: Entry, encoded: impl ExactSizeIterator<Item = &'a EncodedCommand>) -> Self {
        assert_eq!(entry.commands.len(), encoded.len(), "each command of an entry is encoded once");
        let bytes = Entry::assemble(entry.index, entry.at, encoded);
        debug_assert_eq!(bytes, entry.encode(), "an entry is made of its own commands");
        Self { entry, bytes }
    }

    /// The entry's index.
    pub fn index(&self) -> Index {
        self.entry.index
    }

    /// What it says.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// As [`Entry::encode`] writes it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The entry and its bytes.
    pub fn into_parts(self) -> (Entry, Vec<u8>) {
        (self.entry, self.bytes)
    }
}

impl From<Entry> for EncodedEntry {
    fn from(entry: Entry) -> Self {
        Self { bytes: entry.encode(), entry }
    }
}

impl Entry {
    /// The bytes of an entry of commands that are encoded already: those that [`Self::encode`] makes of the commands
    /// themselves. At most [`ENTRY_HEAD_BYTES_MAX`] more than the commands have.
    pub fn assemble<'a>(
        index: Index,
        at: Timestamp,
        commands: impl ExactSizeIterator<Item = &'a EncodedCommand>,
    ) -> Vec<u8> {
        let mut out = vec![ENTRY_VERSION];
        write_head(&mut out, index, at, commands.len()).expect("encoding to memory does not fail");
        commands.for_each(|command| out.extend_from_slice(&command.0));
        out
    }
}

/// Everything between the version and the commands, as the derived encoding of [`Entry`] has it.
fn write_head(
    out: &mut Vec<u8>,
    index: Index,
    at: Timestamp,
    commands: usize,
) -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
    const FIELDS: u64 = 3;
    Encoder::new(out).array(FIELDS)?.encode(index)?.encode(at)?.array(commands as u64)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::RestorePart;

    fn entry(index: u64, commands: usize) -> Entry {
        let command = |number: usize| match number % 3 {
            0 => Command::GrantIndexes(Index(number as u64)),
            1 => Command::DeleteNamespace(format!("namespace-{number}")),
            _ => Command::RestorePart(RestorePart { number: 7, bytes: vec![1; number], granted: Index(9) }),
        };
        Entry { index: Index(index), at: Timestamp(index), commands: (0..commands).map(command).collect() }
    }

    #[test]
    fn an_assembled_entry_is_the_encoded_one() {
        for index in [0, 23, 24, 255, 256, 65_536, u64::from(u32::MAX) + 1, u64::MAX] {
            for commands in [0, 1, 23, 24, 255, 256, 300] {
                let entry = entry(index, commands);
                let encoded: Vec<_> = entry.commands.iter().map(EncodedCommand::new).collect();
                let assembled = EncodedEntry::assemble(entry.clone(), encoded.iter());
                assert_eq!(assembled.as_bytes(), entry.encode(), "index {index}, {commands} commands");
                let of_commands: usize = encoded.iter().map(EncodedCommand::len).sum();
                assert!(assembled.as_bytes().len() <= of_commands + ENTRY_HEAD_BYTES_MAX);
                assert_eq!(assembled, EncodedEntry::from(entry));
            }
        }
    }

    #[test]
    fn an_encoded_command_is_as_long_as_it_was_counted() {
        for command in entry(1, 50).commands {
            assert_eq!(EncodedCommand::new(&command).len(), command.encoded_len());
        }
    }

    #[test]
    #[should_panic(expected = "each command of an entry is encoded once")]
    fn an_entry_without_one_of_its_commands_is_not_put_together() {
        EncodedEntry::assemble(entry(1, 2), [].iter());
    }
}
