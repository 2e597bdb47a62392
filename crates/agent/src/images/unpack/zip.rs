//! Unpacks an untrusted zip archive: files for a task. Its directory of entries is at its end, so it is read from a file, not from a
//! stream.

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use flate2::read::DeflateDecoder;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ZipArchive};
use rustix::fs::{Mode, Timespec, UTIME_NOW};

use super::{Content, FILES_FREE_BYTES, FILES_RATIO_MAX, Meta, Unpacked, Unpacker, plain, refused, short};
use crate::images::digest::DigestHasher;

/// The longest target of a symbolic link.
const LINK_BYTES_MAX: u64 = 4_096;

/// As `unzip` does where nobody has said otherwise: nobody but the owner writes.
const MODE_KEPT: u32 = 0o755;

/// The files of one archive may not be distinguished by kinds that tasks have no use for.
const KIND: u32 = 0o170_000;
const KINDS: [u32; 3] = [0, 0o100_000, 0o040_000];

/// Unpacks `file` into the empty directory `target`.
pub(crate) fn unpack_zip(file: File, target: &Path) -> io::Result<Unpacked> {
    let content = Content::Files;
    let packed = file.metadata()?.len();
    let bytes_max = content.bytes_max().min(FILES_FREE_BYTES.max(packed.saturating_mul(FILES_RATIO_MAX)));
    let left = Cell::new(bytes_max);
    let unpacker = Unpacker::new(target, content)?;
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let archive = ZipArchive::from_file(file, &mut buffer).map_err(io::Error::other)?;
    let mut entries = archive.entries(&mut buffer);
    let mut number = 0;
    while let Some(entry) = entries.next_entry().map_err(io::Error::other)? {
        number += 1;
        if number > content.entries_max() {
            return Err(refused("the archive has too many entries"));
        }
        let name = entry.file_path();
        let path = Path::new(OsStr::from_bytes(name.as_bytes()));
        let at_path = |error: io::Error| io::Error::other(format!("{}: {error}", short(path)));
        let mode = entry.mode();
        let meta = Meta {
            owner: None,
            mode: Mode::from_bits_truncate(mode.value() & MODE_KEPT),
            changed: Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        };
        let plain = plain(path).map_err(at_path)?;
        if plain.as_os_str().is_empty() {
            continue;
        }
        if entry.is_dir() {
            unpacker.directory(meta, &plain).map_err(at_path)?;
            continue;
        }
        let found = archive.get_entry(entry.wayfinder()).map_err(io::Error::other)?;
        let packed = found.reader();
        let unpacked: Box<dyn Read + '_> = match entry.compression_method() {
            _ if entry.flags().is_encrypted() => return Err(at_path(refused("it is encrypted"))),
            CompressionMethod::STORE => Box::new(found.verifying_reader(packed)),
            CompressionMethod::DEFLATE => Box::new(found.verifying_reader(DeflateDecoder::new(packed))),
            method => {
                let why = format!(
                    "it is compressed by method {}, and stored and deflated ones are unpacked",
                    method.as_u16()
                );
                return Err(at_path(io::Error::other(why)));
            }
        };
        let mut bytes = BoundedReader { inner: unpacked, left: &left };
        if mode.is_symlink() {
            let mut link = Vec::new();
            bytes.by_ref().take(LINK_BYTES_MAX + 1).read_to_end(&mut link).map_err(at_path)?;
            if link.len() as u64 > LINK_BYTES_MAX {
                return Err(at_path(refused("a link to a path that is too long")));
            }
            unpacker.symlink(meta, &plain, Path::new(OsStr::from_bytes(&link))).map_err(at_path)?;
        } else if KINDS.contains(&(mode.value() & KIND)) {
            unpacker.file(&mut bytes, None, meta, &plain).map_err(at_path)?;
        } else {
            return Err(at_path(refused("only files, directories and links are unpacked")));
        }
    }
    // Files have no digest that anybody asks for.
    let diff_id = DigestHasher::default().finish();
    Ok(Unpacked { diff_id, bytes: bytes_max - left.get(), opaque: Vec::new(), links: Vec::new(), devices: 0 })
}

/// Ends with an error where all that is unpacked is more than it may be.
struct BoundedReader<'a, R> {
    inner: R,
    left: &'a Cell<u64>,
}

impl<R: Read> Read for BoundedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        let left = self.left.get().checked_sub(read as u64);
        self.left.set(left.ok_or_else(|| refused("the archive unpacks to too much for its size"))?);
        Ok(read)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    /// An archive, written byte by byte: tools would refuse what these tests are about.
    #[derive(Default)]
    pub(in super::super) struct Zip {
        bytes: Vec<u8>,
        directory: Vec<u8>,
        count: u16,
    }

    pub(in super::super) struct Entry<'a> {
        name: &'a str,
        method: u16,
        mode: u32,
        data: Vec<u8>,
        /// The checksum of the unpacked data.
        crc: u32,
        size: u32,
        flags: u16,
    }

    pub(in super::super) fn stored<'a>(name: &'a str, text: &[u8]) -> Entry<'a> {
        let crc = rawzip::crc32(text);
        Entry {
            name,
            method: 0,
            mode: 0o100_644,
            data: text.to_vec(),
            crc,
            size: text.len() as u32,
            flags: 0,
        }
    }

    impl Entry<'_> {
        pub(in super::super) fn with_mode(self, mode: u32) -> Self {
            Self { mode, ..self }
        }
    }

    fn deflated<'a>(name: &'a str, text: &[u8]) -> Entry<'a> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(text).expect("written");
        Entry { method: 8, data: encoder.finish().expect("written"), ..stored(name, text) }
    }

    impl Zip {
        pub(in super::super) fn add(mut self, entry: Entry<'_>) -> Self {
            let offset = self.bytes.len() as u32;
            let mut fixed = Vec::new();
            for word in [20, entry.flags, entry.method, 0, 33] {
                fixed.extend_from_slice(&word.to_le_bytes());
            }
            for number in [entry.crc, entry.data.len() as u32, entry.size] {
                fixed.extend_from_slice(&number.to_le_bytes());
            }
            fixed.extend_from_slice(&(entry.name.len() as u16).to_le_bytes());
            fixed.extend_from_slice(&[0; 2]);
            self.bytes.extend_from_slice(b"PK\x03\x04");
            self.bytes.extend_from_slice(&fixed);
            self.bytes.extend_from_slice(entry.name.as_bytes());
            self.bytes.extend_from_slice(&entry.data);
            // Made on Unix.
            self.directory.extend_from_slice(b"PK\x01\x02\x14\x03");
            self.directory.extend_from_slice(&fixed);
            self.directory.extend_from_slice(&[0; 6]);
            self.directory.extend_from_slice(&(entry.mode << 16).to_le_bytes());
            self.directory.extend_from_slice(&offset.to_le_bytes());
            self.directory.extend_from_slice(entry.name.as_bytes());
            self.count += 1;
            self
        }

        pub(in super::super) fn bytes(self) -> Vec<u8> {
            let mut bytes = self.bytes;
            let (begin, size) = (bytes.len() as u32, self.directory.len() as u32);
            bytes.extend_from_slice(&self.directory);
            bytes.extend_from_slice(b"PK\x05\x06\0\0\0\0");
            bytes.extend_from_slice(&self.count.to_le_bytes());
            bytes.extend_from_slice(&self.count.to_le_bytes());
            bytes.extend_from_slice(&size.to_le_bytes());
            bytes.extend_from_slice(&begin.to_le_bytes());
            bytes.extend_from_slice(&[0; 2]);
            bytes
        }

        fn unpack(self) -> (tempfile::TempDir, Result<u64, String>) {
            unpack_bytes(&self.bytes())
        }
    }

    fn unpack_bytes(bytes: &[u8]) -> (tempfile::TempDir, Result<u64, String>) {
        let dir = tempfile::tempdir().expect("a directory");
        let (archive, target) = (dir.path().join("a.zip"), dir.path().join("to"));
        fs::write(&archive, bytes).expect("written");
        fs::create_dir(&target).expect("made");
        let unpacked = unpack_zip(File::open(archive).expect("a file"), &target);
        (dir, unpacked.map(|unpacked| unpacked.bytes).map_err(|error| error.to_string()))
    }

    #[test]
    fn files_directories_and_links_are_unpacked() {
        let (dir, unpacked) = Zip::default()
            .add(Entry { mode: 0o040_775, ..stored("bin/", b"") })
            .add(Entry { mode: 0o100_777, ..deflated("bin/tool", b"#!/bin/sh\n") })
            .add(Entry { mode: 0o120_777, ..stored("link", b"bin/tool") })
            .add(stored("deep/er/text", b"text"))
            .unpack();
        assert_eq!(unpacked, Ok(22));
        let at = |name: &str| dir.path().join("to").join(name);
        assert_eq!(fs::read_to_string(at("link")).expect("a file"), "#!/bin/sh\n");
        assert_eq!(fs::read_to_string(at("deep/er/text")).expect("a file"), "text");
        let mode = |name: &str| at(name).metadata().expect("a file").permissions().mode() & 0o7777;
        assert_eq!((mode("bin"), mode("bin/tool"), mode("deep/er/text")), (0o755, 0o755, 0o644));
    }

    #[test]
    fn what_lies_is_refused() {
        let zeros = vec![0; 80 << 20];
        for (entry, why) in [
            (stored("../out", b"x"), "a path that leads out"),
            (stored("/etc/out", b"x"), "a path that leads out"),
            (Entry { mode: 0o060_644, ..stored("disk", b"x") }, "only files, directories and links"),
            (Entry { mode: 0o104_755, method: 14, ..stored("lzma", b"x") }, "compressed by method 14"),
            (Entry { flags: 1, ..stored("secret", b"x") }, "it is encrypted"),
            (Entry { crc: 7, ..stored("other", b"text") }, "other: "),
            (Entry { size: 9, ..deflated("short", b"text") }, "short: "),
            (Entry { mode: 0o120_777, ..stored("long", &[b'x'; 5_000]) }, "path that is too long"),
            (deflated("bomb", &zeros), "unpacks to too much"),
        ] {
            let (dir, unpacked) = Zip::default().add(entry).unpack();
            let error = unpacked.expect_err(why);
            assert!(error.contains(why), "{why}: {error}");
            assert!(!dir.path().join("out").exists());
        }
        for bytes in [&b""[..], b"PK", b"what is this", &[0; 100_000]] {
            assert!(unpack_bytes(bytes).1.is_err());
        }
    }

    /// A link of the archive leads nowhere but within it.
    #[test]
    fn links_do_not_lead_out() {
        let (dir, unpacked) = Zip::default()
            .add(Entry { mode: 0o120_777, ..stored("up", b"../..") })
            .add(stored("up/out", b"x"))
            .unpack();
        assert_eq!(unpacked, Ok(6));
        assert!(dir.path().join("to/out").is_file());
        assert!(!dir.path().parent().expect("a directory").join("out").exists());
    }
}
