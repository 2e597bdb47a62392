//! Unpacks a tar archive that nobody vouches for.
//!
//! Every path is resolved by the kernel with the target directory as its root, symlinks included, so that nothing can
//! be written or linked outside. Paths with `..` are refused. Set-user-id bits are dropped, and set-group-id bits but for
//! those of a layer's directories, which give no rights: files made there are of the directory's group. A layer's pipes are
//! made, and its device nodes left out, as only a container's own /dev has any; files for a task have neither.
//!
//! What an archive says is not there any more (OCI's whiteouts) becomes what overlayfs understands: a device 0/0 in place
//! of a file, and a mark on a directory, which whoever has the rights must make: [`Unpacked::opaque`].

mod blocks;
#[cfg(test)]
mod corpus;
mod extension;
mod links;
mod meta;
mod sparse;
#[cfg(test)]
mod tests;
mod whiteouts;
mod zip;
mod zstd;

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, chownat, linkat, mkdirat, mkfifoat, openat2, symlinkat, unlinkat,
    utimensat,
};
use rustix::io::Errno;
use tar::{EntryType, Header};

use self::blocks::Blocks;
use self::extension::Extension;
pub(crate) use self::links::LowerLink;
use self::links::LowerLinks;
use self::meta::Meta;
use self::sparse::{PaxSparse, SparseMap};
use self::whiteouts::Whiteouts;
pub(crate) use self::zip::unpack_zip;
use self::zstd::Frames;
use crate::images::digest::{Digest, DigestHasher};
use crate::resolve::resolve;

/// All files of an image together, and all of its archive: headers, and what no file is made of.
const BYTES_MAX: u64 = 16 << 30;
const ENTRIES_MAX: u64 = 1_000_000;

/// The same of files for a task, and how many bytes they may have for each byte of their archive. A layer comes with the
/// digest of what it unpacks to; they do not.
const FILES_BYTES_MAX: u64 = 16 << 30;
const FILES_ENTRIES_MAX: u64 = 100_000;
const FILES_RATIO_MAX: u64 = 200;
/// What an archive may unpack to whatever its own size.
const FILES_FREE_BYTES: u64 = 64 << 20;

/// What an archive holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// A layer of an image: owners count, and so does what is not there any more.
    Layer,
    /// Files for a task: they are all of the process that unpacks them.
    Files,
}

impl Content {
    fn bytes_max(self) -> u64 {
        if self == Self::Layer { BYTES_MAX } else { FILES_BYTES_MAX }
    }

    /// A path within the archive. Some builders of images write all of them from the root on, which is the target's.
    fn plain(self, path: &Path) -> io::Result<PathBuf> {
        match self {
            Self::Layer => plain(path.strip_prefix("/").unwrap_or(path)),
            Self::Files => plain(path),
        }
    }

    fn entries_max(self) -> u64 {
        if self == Self::Layer { ENTRIES_MAX } else { FILES_ENTRIES_MAX }
    }
}

/// What an archive came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unpacked {
    /// The digest of the archive without its compression.
    pub(crate) diff_id: Digest,
    /// The size of the archive without its compression.
    pub(crate) bytes: u64,
    /// Directories that hide those of the same name in lower layers, relative to the target.
    pub(crate) opaque: Vec<PathBuf>,
    /// Hard links to files that the archive does not have: of a layer, they may be in one below.
    pub(crate) links: Vec<LowerLink>,
    /// Device nodes outside of /dev, which were left out.
    pub(crate) devices: u64,
}

/// Unpacks `archive`, compressed with gzip, with zstd or not at all, into the empty directory `target`. All of it is read.
pub(crate) fn unpack(archive: impl Read, target: &Path, content: Content) -> io::Result<Unpacked> {
    let packed_bytes = Cell::new(0);
    let mut archive = BufReader::new(CountingReader { inner: archive, bytes: &packed_bytes });
    let start = io::BufRead::fill_buf(&mut archive)?;
    let (is_zstd, is_gzip) = (zstd::begins(start), start.starts_with(&[0x1f, 0x8b]));
    let plain: Box<dyn Read + '_> = match () {
        () if is_zstd => Box::new(Frames::new(archive)),
        () if is_gzip => Box::new(MultiGzDecoder::new(archive)),
        () => Box::new(archive),
    };
    let packed = (content == Content::Files).then_some(&packed_bytes);
    let bytes_max = content.bytes_max();
    let mut plain =
        LimitedReader { plain, left: bytes_max, bytes: 0, packed, hasher: DigestHasher::default() };
    let mut unpacker = Unpacker::new(target, content)?;
    unpacker.all(Blocks::new(&mut plain))?;
    io::copy(&mut plain, &mut io::sink())?;
    // What the layer removes is not yet there to be taken for a file in place of a link.
    let links = unpacker.links.take().left(&unpacker)?;
    let opaque = unpacker.whiteouts.take().apply(&unpacker)?;
    let (diff_id, bytes) = (plain.hasher.finish(), plain.bytes);
    Ok(Unpacked { diff_id, bytes, opaque, links, devices: unpacker.devices })
}

/// A path in a message.
fn short(path: &Path) -> String {
    path.to_string_lossy().chars().take(256).collect()
}

/// Ends with an error where an archive is longer than allowed: whatever it is made of has to be read.
struct LimitedReader<'a, R> {
    plain: R,
    left: u64,
    /// What has come so far.
    bytes: u64,
    /// Of the archive as it is packed, where the one may be no more than so many times the other.
    packed: Option<&'a Cell<u64>>,
    hasher: DigestHasher,
}

impl<R: Read> Read for LimitedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.plain.read(buffer)?;
        self.left = self.left.checked_sub(read as u64).ok_or_else(|| refused("the archive is too large"))?;
        self.bytes += read as u64;
        let most = |packed: &Cell<u64>| FILES_FREE_BYTES.max(packed.get().saturating_mul(FILES_RATIO_MAX));
        if self.packed.is_some_and(|packed| self.bytes > most(packed)) {
            return Err(refused("the archive unpacks to more than 200 times its own size"));
        }
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}

/// Counts what is read of it.
struct CountingReader<'a, R> {
    inner: R,
    bytes: &'a Cell<u64>,
}

impl<R: Read> Read for CountingReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

struct Unpacker {
    root: File,
    whiteouts: Whiteouts,
    links: LowerLinks,
    content: Content,
    devices: u64,
    /// The size of all sparse files with their holes.
    sparse_bytes: u64,
}

/// An opened directory and a name in it.
type OpenedParent = (OwnedFd, PathBuf);

impl Unpacker {
    fn new(target: &Path, content: Content) -> io::Result<Self> {
        let (whiteouts, links) = (Whiteouts::default(), LowerLinks::default());
        Ok(Self { root: File::open(target)?, whiteouts, links, content, devices: 0, sparse_bytes: 0 })
    }

    fn all<R: Read>(&mut self, mut blocks: Blocks<R>) -> io::Result<()> {
        let (mut extension, mut last) = (Extension::default(), None);
        let mut entries = 0;
        while let Some(header) = blocks.next().map_err(|error| unreadable(last.as_deref(), &error))? {
            entries += 1;
            if entries > self.content.entries_max() {
                return Err(refused("the archive has too many entries"));
            }
            if extension.read(&header, &mut blocks)? {
                continue;
            }
            let extended = std::mem::take(&mut extension);
            let path = extended.path(&header)?;
            self.entry(&header, &mut blocks, &path, extended)
                .map_err(|error| io::Error::other(format!("{}: {error}", short(&path))))?;
            last = Some(path);
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        header: &Header,
        blocks: &mut Blocks<R>,
        path: &Path,
        mut extended: Extension,
    ) -> io::Result<()> {
        let path = self.content.plain(path)?;
        if self.content == Content::Layer && self.whiteouts.read(&path)? {
            return Ok(());
        }
        let meta = Meta::of(header, &extended, self.content)?;
        match header.entry_type() {
            EntryType::Directory if path.as_os_str().is_empty() => Ok(()),
            _ if path.as_os_str().is_empty() => Err(refused("the root is a directory")),
            EntryType::Directory => self.directory(meta, &path),
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let map = self.map(header, blocks, extended.sparse.take())?;
                self.file(blocks, map.as_ref(), meta, &path)
            }
            EntryType::Symlink => self.symlink(meta, &path, &target_of(header, extended.link)?),
            EntryType::Link => self.link(&path, &target_of(header, extended.link)?),
            // A container has a /dev of its own.
            EntryType::Char | EntryType::Block if path.starts_with("dev") => Ok(()),
            EntryType::Char | EntryType::Block if self.content == Content::Layer => {
                self.devices += 1;
                Ok(())
            }
            EntryType::Fifo if self.content == Content::Layer => self.pipe(&meta, &path),
            _ => Err(refused("only files, directories and links are unpacked")),
        }
    }

    /// Where the data of a file belongs, if it has holes. Those take no room on most file systems, but count as if they did.
    fn map<R: Read>(
        &mut self,
        header: &Header,
        blocks: &mut Blocks<R>,
        pax: Option<PaxSparse>,
    ) -> io::Result<Option<SparseMap>> {
        let bytes_max = self.content.bytes_max() - self.sparse_bytes;
        let map = match pax {
            Some(pax) => pax.map(blocks, bytes_max)?,
            None if header.entry_type() == EntryType::GNUSparse => {
                SparseMap::of_header(header, blocks, bytes_max)?
            }
            None => return Ok(None),
        };
        self.sparse_bytes += map.bytes;
        Ok(Some(map))
    }

    /// Resolved with the target as root: `/` and `..` in symlinks lead nowhere else.
    fn open(&self, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let links = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        resolve(|| openat2(&self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), links))
    }

    /// Opens the directory that `path` lies in, made where it is missing.
    fn parent(&self, path: &Path) -> io::Result<OpenedParent> {
        let (parent, name) =
            (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or(OsStr::new("")));
        Ok((self.open_or_make(parent)?, name.into()))
    }

    fn open_or_make(&self, dir: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match self.open(dir, flags) {
            Err(Errno::NOENT) if !dir.as_os_str().is_empty() => {
                let (parent, name) = self.parent(dir)?;
                mkdirat(&parent, &name, Mode::from_bits_truncate(0o755))?;
                Ok(self.open(dir, flags)?)
            }
            other => Ok(other?),
        }
    }

    fn directory(&self, meta: Meta, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        match mkdirat(&parent, &name, Mode::from_bits_truncate(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        meta.finish(self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?)
    }

    fn file(
        &self,
        content: &mut impl Read,
        map: Option<&SparseMap>,
        meta: Meta,
        path: &Path,
    ) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let mut file = File::from(openat2(&parent, &name, flags, mode, ResolveFlags::BENEATH)?);
        match map {
            Some(map) => map.write(content, &mut file)?,
            None => drop(io::copy(content, &mut file)?),
        }
        meta.finish(file)
    }

    fn symlink(&self, meta: Meta, path: &Path, target: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        symlinkat(target, &parent, &name)?;
        if let Some((uid, gid)) = meta.owner {
            chownat(&parent, &name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(utimensat(&parent, &name, &meta.times(), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn link(&mut self, path: &Path, target: &Path) -> io::Result<()> {
        let target = self.content.plain(target)?;
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        // The target's directories are not made: they would stand for those of lower layers.
        let from = self.open(target.parent().unwrap_or(Path::new("")), OFlags::PATH | OFlags::DIRECTORY);
        let linked = from.and_then(|from| {
            let from_name = target.file_name().unwrap_or(OsStr::new(""));
            linkat(&from, from_name, &parent, &name, AtFlags::empty())
        });
        match linked {
            // Lower layers are not here: each is unpacked by itself, several at a time.
            Err(Errno::NOENT) if self.content == Content::Layer => self.links.add(path, &target),
            Err(Errno::NOENT) => Err(refused(&links::missing(&target))),
            linked => Ok(linked?),
        }
    }

    fn pipe(&self, meta: &Meta, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        mkfifoat(&parent, &name, Mode::RUSR | Mode::WUSR)?;
        // Without O_NONBLOCK this would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        meta.finish(openat2(&parent, &name, flags, Mode::empty(), ResolveFlags::BENEATH)?)
    }
}

/// Where in an archive the next entry could not be read.
fn unreadable(last: Option<&Path>, error: &io::Error) -> io::Error {
    io::Error::other(match last {
        Some(last) => format!("after {}: {error}", short(last)),
        None => format!("it does not begin as a tar archive does: {error}"),
    })
}

pub(super) fn refused(why: &str) -> io::Error {
    io::Error::other(why)
}

/// What an entry links to; `extended` stands for what its header says.
fn target_of(header: &Header, extended: Option<PathBuf>) -> io::Result<PathBuf> {
    match extended {
        Some(link) => Ok(link),
        None => Ok(header.link_name()?.ok_or_else(|| refused("a link to nowhere"))?.into_owned()),
    }
}

/// The path without `.`; one that is not made of names alone is refused.
fn plain(path: &Path) -> io::Result<PathBuf> {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    let normal = |part| {
        if matches!(part, Component::Normal(_)) { Ok(part) } else { Err(refused("a path that leads out")) }
    };
    parts.map(normal).collect()
}

/// Later entries replace earlier ones.
fn clear(parent: &OwnedFd, name: &Path) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
