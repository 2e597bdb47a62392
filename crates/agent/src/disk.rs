//! Records on disk: a header with version, length and checksum, then a protobuf message. Written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use prost::Message;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::failure::{Failure, FailureContext};

const MAGIC: [u8; 4] = *b"BRTH";
/// The version of records that are written. Every version up to this one is read.
pub(crate) const VERSION: u16 = 2;
const HEADER_BYTES: usize = 16;
const SHORT: &str = "shorter than its header";

/// What is kept for a record that must be written on a full disk: one of how a task ended.
const RESERVED_BYTES: u64 = 4 << 10;

/// Waits for the disk that are under way at a time. A journal takes all that wait for it with one write of its own, so that many
/// take little longer than one.
const PARALLEL_MAX: usize = 16;

/// The largest record that is read.
const RECORD_BYTES_MAX: u64 = 16 << 20;

fn encode(message: &impl Message) -> Vec<u8> {
    let body = message.encode_to_vec();
    let mut out = Vec::with_capacity(HEADER_BYTES + body.len());
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.extend_from_slice(&crc32c::crc32c(&body).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

/// Why a record cannot be read.
enum Unreadable {
    Damaged(&'static str),
    Newer(u16),
}

fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, Unreadable> {
    let (header, _) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(Unreadable::Damaged(SHORT))?;
    let version = u16::from_be_bytes([header[4], header[5]]);
    if header[..4] == MAGIC && version > VERSION {
        return Err(Unreadable::Newer(version));
    }
    decode_known(bytes).map_err(Unreadable::Damaged)
}

fn decode_known<M: Message + Default>(bytes: &[u8]) -> Result<M, &'static str> {
    let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>().ok_or(SHORT)?;
    let number = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    if header[..4] != MAGIC {
        return Err("not a record of berth");
    }
    if header[4..6] == [0; 2] {
        return Err("version 0, which no berth has written");
    }
    if number(8) as usize != body.len() || number(12) != crc32c::crc32c(body) {
        return Err("damaged: the checksum does not match");
    }
    M::decode(body).map_err(|_| "damaged: not the message expected")
}

/// Writes a record so that a crash at any moment, of the machine too, leaves the old one or the new one.
pub(crate) fn write(dir: &Path, name: &str, message: &impl Message) -> Result<(), Failure> {
    let record = UnnamedRecord::write(dir, name, message)?;
    record.sync()?;
    record.name()?;
    sync_dir(dir).doing(|| format!("write {}", dir.join(name).display()))
}

/// Writes a record of what lasts no longer than the machine runs: all other processes see the old one or the new one,
/// whatever becomes of this one, and nothing is waited for. After a crash of the machine there may be something that cannot
/// be read.
pub(crate) fn write_unsynced(dir: &Path, name: &str, message: &impl Message) -> Result<(), Failure> {
    UnnamedRecord::write(dir, name, message)?.name()
}

/// A record that is written, and does not have its name yet: many can be synced together before they get theirs.
pub(crate) struct UnnamedRecord {
    file: File,
    temp: PathBuf,
    path: PathBuf,
}

impl UnnamedRecord {
    pub(crate) fn write(dir: &Path, name: &str, message: &impl Message) -> Result<Self, Failure> {
        let (temp, path) = (dir.join(format!("{name}.new")), dir.join(name));
        let written = || {
            let (mut file, bytes) = (open_temp(&temp)?, encode(message));
            file.write_all(&bytes)?;
            // Not before: on a full disk others take what is given back.
            file.set_len(bytes.len() as u64)?;
            Ok::<_, io::Error>(file)
        };
        let file = written().doing(|| format!("write {}", path.display()))?;
        Ok(Self { file, temp, path })
    }

    /// Returns once its bytes are on disk.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        self.file.sync_data().doing(|| format!("write {}", self.path.display()))
    }

    /// Renames it over what has its name. Durable only once its directory is synced.
    pub(crate) fn name(self) -> Result<(), Failure> {
        fs::rename(&self.temp, &self.path).doing(|| format!("write {}", self.path.display()))
    }
}

/// The disk space that was reserved for it stays reserved.
fn open_temp(temp: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(temp)
}

/// Reserves disk space for the next record of this name, so that it can be written though the disk is full by then.
pub(crate) fn reserve(dir: &Path, name: &str) -> Result<(), Failure> {
    let temp = dir.join(format!("{name}.new"));
    let reserved = || {
        fallocate(open_temp(&temp)?, FallocateFlags::empty(), 0, RESERVED_BYTES)?;
        Ok::<_, io::Error>(())
    };
    match reserved() {
        // A file system without reservations has nothing to reserve.
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
        done => done.doing(|| format!("keep room for {}", dir.join(name).display())),
    }
}

/// Does work that waits for the disk on several items in parallel. The results are in the order of the items.
pub(crate) fn in_parallel<T: Sync, R: Send>(things: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let all = |things: &[T]| things.iter().map(&work).collect::<Vec<R>>();
    if things.len() < 2 {
        return all(things);
    }
    let part = things.len().div_ceil(PARALLEL_MAX);
    thread::scope(|scope| {
        let threads: Vec<_> = things
            .chunks(part)
            .map(|part| (part, thread::Builder::new().spawn_scoped(scope, move || all(part))))
            .collect();
        let done = threads.into_iter().flat_map(|(part, thread)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
            // Where there can be no more threads, it takes longer.
            Err(_) => all(part),
        });
        done.collect()
    })
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_data()
}

/// Reads a record; none when there is no such file.
pub(crate) fn read<M: Message + Default>(dir: &Path, name: &str) -> Result<Option<M>, Failure> {
    let path = dir.join(name);
    let doing = || format!("read {}", path.display());
    // Opening a pipe would wait for somebody to write to it.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.doing(doing)?,
    };
    let found = file.metadata().doing(doing)?;
    if !found.is_file() {
        return Err(Failure::other(doing(), "it is not a file"));
    }
    if found.len() > RECORD_BYTES_MAX {
        return Err(Failure::other(doing(), "too long for a record"));
    }
    let mut bytes = Vec::new();
    file.take(RECORD_BYTES_MAX).read_to_end(&mut bytes).doing(doing)?;
    decode(&bytes).map(Some).map_err(|cause| match cause {
        Unreadable::Damaged(cause) => Failure::other(doing(), cause),
        Unreadable::Newer(version) => Failure::newer(
            doing(),
            format!("it is of version {version}, and this berth knows {VERSION}: start a newer berth"),
        ),
    })
}

#[cfg(test)]
mod tests {
    use berth_api::agent::PortBinding;

    use super::*;

    #[test]
    fn what_is_no_file_or_of_a_newer_version_is_refused_by_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("port");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).expect("a pipe");
        let refusal = read::<PortBinding>(dir.path(), "port").expect_err("refused");
        assert!(refusal.to_string().ends_with("/port: it is not a file") && !refusal.is_newer(), "{refusal}");
        fs::remove_file(&path).expect("removed");
        let mut bytes = encode(&PortBinding::default());
        bytes[4..6].copy_from_slice(&7_u16.to_be_bytes());
        fs::write(&path, bytes).expect("written");
        let refusal = read::<PortBinding>(dir.path(), "port").expect_err("refused");
        let reason = "it is of version 7, and this berth knows 2: start a newer berth";
        assert!(refusal.to_string().ends_with(reason) && refusal.is_newer(), "{refusal}");
    }

    #[test]
    fn what_is_done_together_is_answered_in_order() {
        for number in [0_usize, 1, 2, 15, 16, 17, 64, 1_000] {
            let things: Vec<usize> = (0..number).collect();
            let threads = std::sync::Mutex::new(std::collections::HashSet::new());
            let done = in_parallel(&things, |thing| {
                threads.lock().expect("no panic").insert(thread::current().id());
                if thing % 7 == 3 { Err(*thing) } else { Ok(*thing) }
            });
            let expected = things.iter().map(|thing| if thing % 7 == 3 { Err(*thing) } else { Ok(*thing) });
            assert_eq!(done, expected.collect::<Vec<Result<usize, usize>>>());
            assert!(threads.lock().expect("no panic").len() <= PARALLEL_MAX);
        }
    }

    #[test]
    fn a_record_is_read_as_written_and_damage_is_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let message = PortBinding { label: "http".into(), host_port: 80, to: 0, ..PortBinding::default() };
        assert_eq!(read::<PortBinding>(dir.path(), "port").expect("no file"), None);
        write(dir.path(), "port", &message).expect("written");
        assert_eq!(read(dir.path(), "port").expect("a record"), Some(message));

        let path = dir.path().join("port");
        let good = fs::read(&path).expect("bytes");
        for at in (0..good.len()).filter(|at| !(6..8).contains(at)) {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&path, bad).expect("written");
            assert!(read::<PortBinding>(dir.path(), "port").is_err(), "a change at byte {at} went unseen");
        }
    }
}
