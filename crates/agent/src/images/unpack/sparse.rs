//! Sparse files, of which an archive has only what is not zero: GNU tar's old format, and those of pax (0.0, 0.1, 1.0).

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::blocks::Blocks;
use super::refused;

/// Parts of one file.
const PARTS_MAX: usize = 100_000;
/// The most digits of a number in a map that precedes the data.
const DIGITS_MAX: usize = 20;
const BLOCK_BYTES: u64 = 512;

/// Where the data of a sparse file belongs.
#[derive(Debug, Default)]
pub(super) struct SparseMap {
    parts: Vec<DataRange>,
    /// The size of the file with its holes.
    pub(super) bytes: u64,
}

#[derive(Debug)]
struct DataRange {
    offset: u64,
    bytes: u64,
}

/// What the records of a pax header say of a sparse file.
#[derive(Debug, Default)]
pub(super) struct PaxSparse {
    /// Its path: the header's is one of tar's own making.
    pub(super) name: Option<PathBuf>,
    /// The size of the file, its holes included.
    bytes: Option<u64>,
    /// Offsets and lengths in turn.
    numbers: Vec<u64>,
    /// The map stands before the data.
    is_in_data: bool,
}

impl PaxSparse {
    /// Takes in the record `GNU.sparse.` + `key`.
    pub(super) fn read(&mut self, key: &[u8], value: &[u8], path: impl Fn() -> PathBuf) -> io::Result<()> {
        match key {
            b"name" => self.name = Some(path()),
            b"size" | b"realsize" => self.bytes = Some(number(value)?),
            // 0.0 has them one by one, 0.1 in one list.
            b"offset" | b"numbytes" => self.push(value)?,
            b"map" => {
                self.numbers.clear();
                value.split(|byte| *byte == b',').try_for_each(|digits| self.push(digits))?;
            }
            b"major" => match number(value)? {
                0 => {}
                1 => self.is_in_data = true,
                _ => {
                    return Err(refused(
                        "a sparse file in a format that is not known: make the archive without",
                    ));
                }
            },
            // How many parts there are is seen.
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, digits: &[u8]) -> io::Result<()> {
        self.numbers.push(number(digits)?);
        if self.numbers.len() > 2 * PARTS_MAX { Err(too_many()) } else { Ok(()) }
    }

    /// The map of the file whose data `blocks` gives, of at most `bytes_max` with its holes.
    pub(super) fn map<R: Read>(mut self, blocks: &mut Blocks<R>, bytes_max: u64) -> io::Result<SparseMap> {
        let bytes = self.bytes.ok_or_else(|| refused("a sparse file without its size"))?;
        if self.is_in_data {
            self.numbers = in_data(blocks)?;
        }
        let pairs = self.numbers.as_chunks::<2>();
        if !pairs.1.is_empty() {
            return Err(refused("a sparse file whose map has an offset without a length"));
        }
        let parts = pairs.0.iter().map(|&[offset, bytes]| DataRange { offset, bytes }).collect();
        SparseMap { parts, bytes }.checked(blocks.left(), bytes_max)
    }
}

/// The numbers of a map that stands before the data, one a line, the first of which says how many pairs follow; it ends
/// with a block.
fn in_data<R: Read>(blocks: &mut Blocks<R>) -> io::Result<Vec<u64>> {
    let begin = blocks.left();
    let pairs = usize::try_from(line(blocks)?).unwrap_or(usize::MAX);
    if pairs > PARTS_MAX {
        return Err(too_many());
    }
    let numbers = (0..2 * pairs).map(|_| line(blocks)).collect::<io::Result<_>>()?;
    let padding = (begin - blocks.left()).wrapping_neg() % BLOCK_BYTES;
    io::copy(&mut blocks.take(padding), &mut io::sink())?;
    Ok(numbers)
}

fn line<R: Read>(blocks: &mut Blocks<R>) -> io::Result<u64> {
    let mut digits = Vec::new();
    loop {
        let mut byte = [0];
        blocks.read_exact(&mut byte)?;
        match byte {
            [b'\n'] => return number(&digits),
            [digit] if digits.len() < DIGITS_MAX => digits.push(digit),
            _ => return Err(refused("a sparse file whose map is damaged")),
        }
    }
}

fn number(digits: &[u8]) -> io::Result<u64> {
    let text = std::str::from_utf8(digits).ok();
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| refused("a sparse file whose map has something that is not a number"))
}

fn too_many() -> io::Error {
    refused(&format!("a sparse file of more than {PARTS_MAX} parts: make the archive without"))
}

impl SparseMap {
    /// That of the old format: it begins in the header, and goes on in blocks of its own.
    pub(super) fn of_header<R: Read>(
        header: &Header,
        blocks: &mut Blocks<R>,
        bytes_max: u64,
    ) -> io::Result<Self> {
        let gnu = header.as_gnu().ok_or_else(|| refused("a sparse file without its map"))?;
        let mut map = Self { parts: Vec::new(), bytes: gnu.real_size()? };
        map.add(&gnu.sparse)?;
        let mut goes_on = gnu.is_extended();
        while goes_on {
            let mut more = GnuExtSparseHeader::new();
            blocks.continued(more.as_mut_bytes())?;
            map.add(more.sparse())?;
            goes_on = more.is_extended();
        }
        map.checked(blocks.left(), bytes_max)
    }

    fn add(&mut self, parts: &[GnuSparseHeader]) -> io::Result<()> {
        for part in parts.iter().filter(|part| !part.is_empty()) {
            self.parts.push(DataRange { offset: part.offset()?, bytes: part.length()? });
        }
        if self.parts.len() > PARTS_MAX { Err(too_many()) } else { Ok(()) }
    }

    /// The parts are in order, within the file, and made of all the data there is.
    fn checked(self, data: u64, bytes_max: u64) -> io::Result<Self> {
        if self.bytes > bytes_max {
            return Err(refused(&format!(
                "a sparse file of {} bytes: all files together have {bytes_max} at most",
                self.bytes
            )));
        }
        let (mut end, mut sum) = (0, 0_u64);
        for part in &self.parts {
            let is_next = part.offset >= end;
            end =
                part.offset.checked_add(part.bytes).filter(|end| is_next && *end <= self.bytes).ok_or_else(
                    || refused("a sparse file whose map has parts that overlap, or lie beyond its end"),
                )?;
            // No overflow: the parts do not overlap.
            sum += part.bytes;
        }
        if sum == data {
            Ok(self)
        } else {
            Err(refused("a sparse file whose map has another length than its data"))
        }
    }

    /// Writes the data to where it belongs in the empty `file`.
    pub(super) fn write(&self, data: &mut impl Read, file: &mut File) -> io::Result<()> {
        for part in &self.parts {
            file.seek(SeekFrom::Start(part.offset))?;
            io::copy(&mut data.take(part.bytes), file)?;
        }
        file.set_len(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    use tar::{Builder, EntryType};

    use super::super::{BYTES_MAX, Content, unpack};
    use super::*;
    use crate::test_header::header;

    /// What all archives of these tests have: data at these offsets of a file of 2 MiB.
    const PARTS: [(u64, &str); 6] = [
        (0, "zero"),
        (4_096, "one"),
        (70_000, "two"),
        (80_000, "three"),
        (90_000, "four"),
        (1 << 20, "five"),
    ];
    const BYTES: u64 = 2 << 20;

    fn data() -> String {
        PARTS.iter().map(|(_, text)| *text).collect()
    }

    fn pairs() -> impl Iterator<Item = (u64, u64)> {
        // Tools end with an empty part where the file ends.
        PARTS.iter().map(|(offset, text)| (*offset, text.len() as u64)).chain([(BYTES, 0)])
    }

    /// An entry of an archive in the old format, of that many bytes with its holes.
    fn old(parts: &[(u64, u64)], bytes: u64, data: &str) -> Vec<u8> {
        let mut own = header("file", EntryType::GNUSparse, "", (0o644, 0), data.len() as u64);
        let (first, more) = parts.split_at(parts.len().min(4));
        let set = |slots: &mut [GnuSparseHeader], parts: &[(u64, u64)]| {
            for (slot, (offset, bytes)) in slots.iter_mut().zip(parts) {
                slot.set_offset(*offset);
                slot.set_length(*bytes);
            }
        };
        let gnu = own.as_gnu_mut().expect("of GNU");
        set(&mut gnu.sparse, first);
        gnu.set_real_size(bytes);
        gnu.set_is_extended(!more.is_empty());
        own.set_cksum();
        let mut archive = own.as_bytes().to_vec();
        let blocks = more.chunks(21).len();
        for (number, parts) in more.chunks(21).enumerate() {
            let mut block = GnuExtSparseHeader::new();
            set(&mut block.sparse, parts);
            block.set_is_extended(number + 1 < blocks);
            archive.extend_from_slice(block.as_bytes());
        }
        archive.extend_from_slice(data.as_bytes());
        archive.resize(archive.len().next_multiple_of(512), 0);
        // What follows is still found.
        archive.extend_from_slice(&plain("after", "after"));
        archive
    }

    fn plain(path: &str, data: &str) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        let header = header(path, EntryType::Regular, "", (0o644, 0), data.len() as u64);
        archive.append(&header, data.as_bytes()).expect("appended");
        archive.into_inner().expect("finished")
    }

    fn pax(records: &[(&str, &str)], data: &str) -> Vec<u8> {
        let mut archive = Builder::new(Vec::new());
        let records = records.iter().map(|(key, value)| (*key, value.as_bytes()));
        archive.append_pax_extensions(records).expect("appended");
        let mut bytes = archive.get_ref().clone();
        bytes.extend_from_slice(&plain("GNUSparseFile.7/file", data));
        bytes
    }

    fn unpacked(archive: &[u8]) -> (tempfile::TempDir, Result<(), String>) {
        let dir = tempfile::tempdir().expect("a directory");
        let unpacked = unpack(archive, dir.path(), Content::Files).map(drop);
        (dir, unpacked.map_err(|error| error.to_string()))
    }

    fn check(archive: &[u8], name: &str) {
        let (dir, unpacked) = unpacked(archive);
        assert_eq!(unpacked, Ok(()), "{name}");
        let mut expected = vec![0; BYTES as usize];
        for (offset, text) in PARTS {
            expected[offset as usize..][..text.len()].copy_from_slice(text.as_bytes());
        }
        let path = dir.path().join("file");
        assert!(fs::read(&path).expect("a file") == expected, "{name}");
        assert!(path.metadata().expect("a file").blocks() * 512 < BYTES / 2, "{name}: its holes take room");
    }

    #[test]
    fn each_format_becomes_the_same_file() {
        let pairs: Vec<_> = pairs().collect();
        check(&old(&pairs, BYTES, &data()), "old");
        let size = BYTES.to_string();
        let texts: Vec<_> =
            pairs.iter().map(|(offset, bytes)| [offset.to_string(), bytes.to_string()]).collect();
        let count = texts.len().to_string();
        let mut first = vec![("GNU.sparse.size", &*size), ("GNU.sparse.numblocks", &count), ("path", "file")];
        for [offset, bytes] in &texts {
            first.extend([("GNU.sparse.offset", &**offset), ("GNU.sparse.numbytes", &**bytes)]);
        }
        check(&pax(&first, &data()), "0.0");
        let map = texts.concat().join(",");
        let named = ("GNU.sparse.name", "file");
        check(&pax(&[("GNU.sparse.size", &size), ("GNU.sparse.map", &map), named], &data()), "0.1");
        let mut before = format!("{count}\n{}\n", texts.concat().join("\n"));
        before.push_str(&"\0".repeat(before.len().next_multiple_of(512) - before.len()));
        let last =
            [("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), named, ("GNU.sparse.realsize", &size)];
        check(&pax(&last, &(before + &data())), "1.0");
        let (dir, _) = unpacked(&old(&pairs, BYTES, &data()));
        assert_eq!(fs::read_to_string(dir.path().join("after")).expect("a file"), "after");
    }

    #[test]
    fn a_map_with_wrong_sizes_is_refused() {
        let size = ("GNU.sparse.size", "100");
        let modern = [("GNU.sparse.major", "1"), ("GNU.sparse.realsize", "100")];
        let over = format!("a sparse file of {} bytes: all files together have", BYTES_MAX + 1);
        for (archive, why) in [
            (old(&[(0, 4), (2, 4)], 100, "12345678"), "parts that overlap, or lie beyond its end"),
            (old(&[(8, 4), (0, 4)], 100, "12345678"), "parts that overlap"),
            (old(&[(98, 4)], 100, "1234"), "lie beyond its end"),
            (old(&[(u64::MAX - 1, 4)], 100, "1234"), "lie beyond its end"),
            (old(&[(0, 4)], 100, "12345678"), "another length than its data"),
            (old(&[(0, 8)], 100, "1234"), "another length than its data"),
            (old(&[(0, 4)], BYTES_MAX + 1, "1234"), &over),
            (old(&[(0, 4)], u64::MAX, "1234"), "a sparse file of 18446744073709551615 bytes"),
            (old(&[(0, 0); 4 + 21 * 4_800], 100, ""), "more than 100000 parts"),
            (pax(&[size, ("GNU.sparse.map", "0,4,8")], "1234"), "an offset without a length"),
            (pax(&[size, ("GNU.sparse.map", "0,-4")], "1234"), "not a number"),
            (pax(&[size, ("GNU.sparse.map", "")], ""), "not a number"),
            (pax(&[("GNU.sparse.map", "0,4")], "1234"), "without its size"),
            (pax(&[("GNU.sparse.major", "2"), size], "1234"), "a format that is not known"),
            (pax(&modern, "99999999999\n"), "more than 100000 parts"),
            (pax(&modern, "1\n0\n111111111111111111111111\n"), "whose map is damaged"),
            (pax(&modern, "1\n0\nfour\n"), "not a number"),
            (pax(&modern, "2\n0\n4\n"), "failed to fill whole buffer"),
            (pax(&[size, ("GNU.sparse.name", "../out"), ("GNU.sparse.map", "0,4")], "1234"), "leads out"),
        ] {
            let (dir, unpacked) = unpacked(&archive);
            let error = unpacked.expect_err(why);
            assert!(error.contains(why), "{why}: {error}");
            assert!(!dir.path().join("file").exists(), "{why}");
        }
    }

    /// Many small entries do not come to more than one large one may.
    #[test]
    fn holes_count_together() {
        let half = BYTES_MAX / 2 + 1;
        let one = old(&[(0, 4)], half, "1234");
        let one = &one[..1_024];
        let (_dir, unpacked) = unpacked(&[one, one].concat());
        let error = unpacked.expect_err("refused");
        assert!(error.contains(&format!("{} at most", BYTES_MAX - half)), "{error}");
    }
}
