//! Commands and entries that are encoded once, so that entries are cut by their real size in bytes.

use minicbor::{Decoder, Encoder};

use super::{Command, Entry};
use crate::{
    codec::{Buffer, encoded},
    ids::Index,
    time::Timestamp,
};

/// Most bytes of an entry besides its commands: the version, the head of the array of fields, index, time, and the head of the
/// array of commands.
pub const ENTRY_HEAD_BYTES_MAX: usize = 1 + 1 + 9 + 9 + 9;

/// Commands of one entry beside their bytes. They are encoded where they are made, on whatever thread that is.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedCommands {
    commands: Vec<Command>,
    bytes: CommandBytes,
}

/// The bytes of commands as they stand in an entry, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandBytes {
    bytes: Vec<u8>,
    commands: usize,
}

impl EncodedCommands {
    /// The commands.
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// What they add to an entry's size, in bytes.
    pub fn bytes_len(&self) -> usize {
        self.bytes.bytes.len()
    }

    /// The commands and their bytes.
    pub fn into_parts(self) -> (Vec<Command>, CommandBytes) {
        (self.commands, self.bytes)
    }
}

impl From<Vec<Command>> for EncodedCommands {
    fn from(commands: Vec<Command>) -> Self {
        let write = |buffer: &mut Buffer| {
            for command in &commands {
                minicbor::encode(command, &mut *buffer).expect("encoding to memory does not fail");
            }
        };
        let bytes = CommandBytes { bytes: encoded(write, <[u8]>::to_vec), commands: commands.len() };
        Self { commands, bytes }
    }
}

impl CommandBytes {
    /// How many commands they are.
    pub fn commands(&self) -> usize {
        self.commands
    }

    /// The commands themselves.
    pub fn decode(self) -> EncodedCommands {
        let mut decoder = Decoder::new(&self.bytes);
        let decoded = (0..self.commands).map(|_| decoder.decode());
        let commands = decoded.collect::<Result<_, _>>().expect("what was encoded here can be decoded");
        EncodedCommands { commands, bytes: self }
    }

    /// One after the other, in CBOR.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// An entry beside its bytes, so that who made it never encodes it again and never decodes it.
#[derive(Debug, Clone, PartialEq)]
pub struct EncodedEntry {
    entry: Entry,
    bytes: Vec<u8>,
}

impl EncodedEntry {
    /// Puts together an entry whose commands have been encoded before; `encoded` are those of `entry`, in order.
    ///
    /// # Panics
    /// When there are more or fewer than the entry has.
    pub fn assemble<'a>(entry: Entry, encoded: impl Iterator<Item = &'a CommandBytes> + Clone) -> Self {
        let bytes = Entry::assemble(&entry, encoded.clone());
        let count: usize = encoded.map(CommandBytes::commands).sum();
        assert_eq!(entry.commands.len(), count, "each command of an entry is encoded once");
        debug_assert_eq!(bytes, entry.encode(), "an entry is made of its own commands");
        Self { entry, bytes }
    }

    /// The entry's index.
    pub fn index(&self) -> Index {
        self.entry.index
    }

    /// The entry, decoded.
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
    /// The bytes of an entry whose commands are encoded already: those that [`Self::encode`] makes of the commands
    /// themselves. At most [`ENTRY_HEAD_BYTES_MAX`] more than the commands have.
    fn assemble<'a>(&self, encoded: impl Iterator<Item = &'a CommandBytes> + Clone) -> Vec<u8> {
        let parts = encoded.clone();
        let (commands, len) =
            parts.fold((0, 0), |(commands, len), part| (commands + part.commands, len + part.bytes.len()));
        let mut out = Vec::with_capacity(ENTRY_HEAD_BYTES_MAX + len);
        out.push(self.version);
        write_head(&mut out, self.index, self.at, commands).expect("encoding to memory does not fail");
        encoded.for_each(|part| out.extend_from_slice(&part.bytes));
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
            _ => Command::RestorePart(RestorePart {
                number: 7,
                bytes: vec![1; number],
                granted: Index(9),
                revives_tokens: None,
            }),
        };
        Entry::new(Index(index), Timestamp(index), (0..commands).map(command).collect())
    }

    fn encoded(commands: &[Command], each: usize) -> Vec<CommandBytes> {
        let parts = commands.chunks(each).map(|part| EncodedCommands::from(part.to_vec()).into_parts().1);
        parts.collect()
    }

    #[test]
    fn an_assembled_entry_is_the_encoded_one() {
        for index in [0, 23, 24, 255, 256, 65_536, u64::from(u32::MAX) + 1, u64::MAX] {
            for (commands, each) in [(0, 1), (1, 1), (23, 2), (24, 5), (255, 1), (256, 100), (300, 300)] {
                let entry = entry(index, commands);
                let encoded = encoded(&entry.commands, each);
                let assembled = EncodedEntry::assemble(entry.clone(), encoded.iter());
                assert_eq!(assembled.as_bytes(), entry.encode(), "index {index}, {commands} commands");
                let of_commands: usize = encoded.iter().map(|part| part.as_bytes().len()).sum();
                assert!(assembled.as_bytes().len() <= of_commands + ENTRY_HEAD_BYTES_MAX);
                assert_eq!(assembled, EncodedEntry::from(entry));
            }
        }
    }

    #[test]
    fn encoded_commands_are_as_long_as_they_were_counted_and_say_the_same() {
        let commands = entry(1, 50).commands;
        let encoded = EncodedCommands::from(commands.clone());
        assert_eq!(encoded.bytes_len(), commands.iter().map(Command::encoded_len).sum::<usize>());
        let (_, bytes) = encoded.clone().into_parts();
        assert_eq!((bytes.commands(), bytes.decode()), (50, encoded));
    }

    #[test]
    #[should_panic(expected = "each command of an entry is encoded once")]
    fn an_entry_without_one_of_its_commands_is_not_put_together() {
        EncodedEntry::assemble(entry(1, 2), [].iter());
    }
}
