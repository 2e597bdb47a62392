//! One snapshot as a file: a preamble, a header, and the store as the model writes it.
//!
//! ```text
//!  0  magic "BERTHIMG"       16  payload bytes u64    28  crc32c of bytes 0..28
//!  8  version u32            24  crc32c of payload    32  header (CBOR), crc32c of header, payload
//! 12  header bytes u32
//! ```
//!
//! Numbers are little-endian. The preamble is written last, when the payload is known; before that the file has another
//! name.

use std::{
    io::{self, Read, Write},
    path::Path,
};

use berth_model::{
    Index,
    store::{
        Store,
        snapshot::{self, FORMAT_VERSION, SnapshotError},
    },
};
use minicbor::{Decode, Encode};

use crate::{
    OpenError,
    disk::{Disk, DiskFile},
    error::Damage,
    membership::StoredMembers,
    types::{LogId, StoredMembership, log_id, term_of},
};

const MAGIC: [u8; 8] = *b"BERTHIMG";
const VERSION: u32 = 1;
/// Of a file, before everything else; they hold the checksum of all that follows.
pub(crate) const PREAMBLE_BYTES: usize = 32;
const CRC_BYTES: usize = 4;
/// Memberships are small; more than this is damage.
const HEADER_BYTES_MAX: u32 = 1 << 20;
/// Written and read at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Why a snapshot is not read.
#[derive(Debug)]
enum Unreadable {
    /// It is not what was written.
    Damaged(String),
    /// It is whole, as far as can be known, and has a format of a newer version.
    Newer(String),
}

impl Unreadable {
    fn newer(format: u32, known: u32) -> Self {
        Self::Newer(format!("it has format {format}, this server knows up to {known}"))
    }

    fn at(self, path: &Path) -> OpenError {
        match self {
            Self::Damaged(what) => Damage::new(path, what).into(),
            Self::Newer(what) => OpenError::NewerSnapshot { file: path.to_owned(), what },
        }
    }
}

impl From<String> for Unreadable {
    fn from(what: String) -> Self {
        Self::Damaged(what)
    }
}

/// What a snapshot covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SnapshotCoverage {
    /// The last record in it.
    pub last: LogId,
    /// The last membership in it.
    pub membership: StoredMembership,
    /// Who was a member before.
    pub departed: Vec<u64>,
}

impl SnapshotCoverage {
    /// Whether another one names the same record and the same membership: who was a member before is not announced.
    pub fn covers_the_same(&self, other: &Self) -> bool {
        (&self.last, &self.membership) == (&other.last, &other.membership)
    }
}

#[derive(Encode, Decode)]
struct SnapshotHeader {
    #[n(0)]
    term: u64,
    #[n(1)]
    log_index: u64,
    #[n(2)]
    index: Index,
    #[n(3)]
    membership: StoredMembers,
    /// Snapshots of older versions do not know it.
    #[n(4)]
    #[cbor(default)]
    departed: Vec<u64>,
}

/// Writes a snapshot to a new file at `path`. Durable when it returns, but for the file's name.
pub(crate) fn write(disk: &dyn Disk, path: &Path, meta: &SnapshotCoverage, store: &Store) -> io::Result<()> {
    let header = SnapshotHeader {
        term: term_of(&meta.last),
        log_index: meta.last.index(),
        index: store.index(),
        membership: StoredMembers::of(&meta.membership),
        departed: meta.departed.clone(),
    };
    let header = minicbor::to_vec(header).expect("encoding to memory does not fail");
    let file = disk.create(path)?;
    let mut out =
        ChecksumWriter { file, at: PREAMBLE_BYTES as u64, buffer: Vec::with_capacity(BUFFER_BYTES), crc: 0 };
    out.write_all(&header)?;
    out.write_all(&crc32c::crc32c(&header).to_le_bytes())?;
    out.flush()?;
    let (start, _) = (out.at, std::mem::take(&mut out.crc));
    snapshot::write(store, &mut out)?;
    out.flush()?;
    let preamble =
        Preamble { header_bytes: header.len() as u32, payload_bytes: out.at - start, payload_crc: out.crc };
    out.file.write_at(&preamble.encode(), 0)?;
    out.file.sync()
}

/// Reads a snapshot and checks every byte of it.
///
/// # Errors
/// [`OpenError::Damaged`] when it is not what was written, [`OpenError::NewerSnapshot`] when it is and this version does not
/// know its format, [`OpenError::Read`] when the disk fails.
pub(crate) fn read(disk: &dyn Disk, path: &Path) -> Result<(SnapshotCoverage, Store), OpenError> {
    let mut file = disk.stream(path).map_err(OpenError::read(path))?;
    read_from(&mut file).map_err(|why| why.at(path))
}

/// Reads a snapshot as [`read`] does without keeping the state: what it covers, and the state's hash.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_hash(disk: &dyn Disk, path: &Path) -> Result<(SnapshotCoverage, u128), OpenError> {
    let mut file = disk.stream(path).map_err(OpenError::read(path))?;
    read_hash_from(&mut file).map_err(|why| why.at(path))
}

/// Checks every byte of a snapshot without making a state of it: it takes little memory, however large it is.
///
/// # Errors
/// As [`read`].
pub(crate) fn verify(disk: &dyn Disk, path: &Path) -> Result<SnapshotCoverage, OpenError> {
    let mut file = disk.stream(path).map_err(OpenError::read(path))?;
    verify_from(&mut file).map_err(|why| why.at(path))
}

fn read_from(file: &mut dyn Read) -> Result<(SnapshotCoverage, Store), Unreadable> {
    let (preamble, header) = read_head(file)?;
    let store = read_state(file, &preamble, |from| snapshot::read(from))?;
    Ok((header.into_meta_of(store.index())?, store))
}

fn read_hash_from(file: &mut dyn Read) -> Result<(SnapshotCoverage, u128), Unreadable> {
    let (preamble, header) = read_head(file)?;
    let (index, hash) = read_state(file, &preamble, |from| snapshot::read_hash(from))?;
    Ok((header.into_meta_of(index)?, hash))
}

fn verify_from(file: &mut dyn Read) -> Result<SnapshotCoverage, Unreadable> {
    let (preamble, header) = read_head(file)?;
    let mut payload = ChecksumReader { file: file.take(preamble.payload_bytes), crc: 0 };
    let mut buffer = vec![0; BUFFER_BYTES];
    while payload.read(&mut buffer).map_err(|error| error.to_string())? > 0 {}
    check_end(payload, &preamble)?;
    Ok(header.into_meta()?)
}

fn read_head(file: &mut dyn Read) -> Result<(Preamble, SnapshotHeader), Unreadable> {
    let text = |error: io::Error| error.to_string();
    let mut bytes = [0; PREAMBLE_BYTES];
    file.read_exact(&mut bytes).map_err(text)?;
    let preamble = Preamble::decode(&bytes)?;
    let mut header = vec![0; preamble.header_bytes as usize + CRC_BYTES];
    file.read_exact(&mut header).map_err(text)?;
    let (header, crc) = header.split_at(preamble.header_bytes as usize);
    if crc != crc32c::crc32c(header).to_le_bytes() {
        return Err("the checksum of its header does not match".to_owned().into());
    }
    let header = minicbor::decode(header).map_err(|error| error.to_string())?;
    Ok((preamble, header))
}

impl SnapshotHeader {
    /// The same where the state was found at an index.
    fn into_meta_of(self, index: Index) -> Result<SnapshotCoverage, String> {
        if index != self.index {
            return Err(format!("it holds the state at index {index}, not at {}", self.index));
        }
        self.into_meta()
    }

    fn into_meta(self) -> Result<SnapshotCoverage, String> {
        let last = log_id(self.term, self.log_index);
        Ok(SnapshotCoverage { last, membership: self.membership.into_stored()?, departed: self.departed })
    }
}

/// A snapshot's payload.
type PayloadReader<'a> = ChecksumReader<io::Take<&'a mut dyn Read>>;

/// Has `read` read the state that a snapshot holds. That a format is newer is believed once the checksum shows that it was written so.
fn read_state<T>(
    file: &mut dyn Read,
    preamble: &Preamble,
    read: impl FnOnce(&mut PayloadReader<'_>) -> Result<T, SnapshotError>,
) -> Result<T, Unreadable> {
    let mut payload = ChecksumReader { file: file.take(preamble.payload_bytes), crc: 0 };
    let state = match read(&mut payload) {
        Err(SnapshotError::Version(format)) if format > FORMAT_VERSION => {
            Err(Unreadable::newer(format.into(), FORMAT_VERSION.into()))
        }
        read => Ok(read.map_err(|error| error.to_string())?),
    };
    // What follows the store must not be there, and is read so that the checksum and the length say so.
    let more = io::copy(&mut payload, &mut io::sink()).map_err(|error| error.to_string())?;
    if more > 0 && state.is_ok() {
        return Err("there is more in it than a state".to_owned().into());
    }
    check_end(payload, preamble)?;
    state
}

/// Checks that a payload was read to its end, was what the preamble says, and that nothing follows it.
fn check_end(payload: PayloadReader<'_>, preamble: &Preamble) -> Result<(), String> {
    if payload.file.limit() > 0 || payload.crc != preamble.payload_crc {
        return Err("the checksum of its payload does not match".to_owned());
    }
    match payload.file.into_inner().read(&mut [0]) {
        Ok(0) => Ok(()),
        _ => Err("it goes on where it should end".to_owned()),
    }
}

struct Preamble {
    header_bytes: u32,
    payload_bytes: u64,
    payload_crc: u32,
}

impl Preamble {
    fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut out = [0; PREAMBLE_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.header_bytes.to_le_bytes());
        out[16..24].copy_from_slice(&self.payload_bytes.to_le_bytes());
        out[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = crc32c::crc32c(&out[..28]);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> Result<Self, Unreadable> {
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        if bytes[..8] != MAGIC {
            return Err("it is not a snapshot".to_owned().into());
        }
        if number(28) != crc32c::crc32c(&bytes[..28]) {
            return Err("the checksum of its preamble does not match".to_owned().into());
        }
        match number(8) {
            0 => return Err("it has format 0, which no version has written".to_owned().into()),
            format if format > VERSION => return Err(Unreadable::newer(format, VERSION)),
            _ => {}
        }
        if number(12) > HEADER_BYTES_MAX {
            return Err("its header is too large".to_owned().into());
        }
        let payload_bytes = u64::from(number(16)) | u64::from(number(20)) << 32;
        Ok(Self { header_bytes: number(12), payload_bytes, payload_crc: number(24) })
    }
}

/// Writes to a file in large pieces and sums up what it writes.
struct ChecksumWriter {
    file: Box<dyn DiskFile>,
    at: u64,
    buffer: Vec<u8>,
    crc: u32,
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_at(&self.buffer, self.at)?;
        self.crc = crc32c::crc32c_append(self.crc, &self.buffer);
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

/// Sums up what is read.
struct ChecksumReader<R> {
    file: R,
    crc: u32,
}

impl<R: Read> Read for ChecksumReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.crc = crc32c::crc32c_append(self.crc, &buffer[..read]);
        Ok(read)
    }
}
