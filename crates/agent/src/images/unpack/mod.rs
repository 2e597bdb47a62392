//! Unpacks a tar archive that nobody vouches for.
//!
//! Every path is resolved by the kernel with the target directory as its root, symlinks included, so that nothing can
//! be written or linked outside. Paths with `..` are refused, set-user-id bits dropped. A layer's pipes are made, and its
//! device nodes left out, as only a container's own /dev has any; files for a task have neither.
//!
//! What an archive says is not there any more (OCI's whiteouts) becomes what overlayfs understands: a device 0/0 in place
//! of a file, and a mark on a directory, which whoever has the rights must make: [`Unpacked::opaque`].

#[cfg(test)]
mod corpus;
mod extension;
mod whiteouts;
mod zip;
mod zstd;

use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{Mode, UtimensatFlags, fchmod, futimens, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{
    Gid, LinkatFlags, Uid, UnlinkatFlags, fchown, fchownat, linkat, mkfifoat, symlinkat, unlinkat,
};
use tar::{Archive, Entry, EntryType};

use self::extension::Extension;
use self::whiteouts::Whiteouts;
pub(crate) use self::zip::unpack_zip;
use self::zstd::Frames;
use crate::images::digest::{Digest, Hasher};
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
    /// That of the archive without its compression.
    pub(crate) diff_id: Digest,
    /// Of the archive without its compression.
    pub(crate) bytes: u64,
    /// Directories that hide those of the same name in lower layers, relative to the target.
    pub(crate) opaque: Vec<PathBuf>,
    /// Device nodes outside of /dev, which were left out.
    pub(crate) devices: u64,
}

/// Unpacks `archive`, compressed with gzip, with zstd or not at all, into the empty directory `target`. All of it is read.
pub(crate) fn unpack(archive: impl Read, target: &Path, content: Content) -> io::Result<Unpacked> {
    let packed_bytes = Cell::new(0);
    let mut archive = BufReader::new(Counted { inner: archive, bytes: &packed_bytes });
    let start = io::BufRead::fill_buf(&mut archive)?;
    let (is_zstd, is_gzip) = (zstd::begins(start), start.starts_with(&[0x1f, 0x8b]));
    let plain: Box<dyn Read + '_> = match () {
        () if is_zstd => Box::new(Frames::new(archive)),
        () if is_gzip => Box::new(MultiGzDecoder::new(archive)),
        () => Box::new(archive),
    };
    let packed = (content == Content::Files).then_some(&packed_bytes);
    let bytes_max = content.bytes_max();
    let mut plain = Limited { plain, left: bytes_max, bytes: 0, packed, hasher: Hasher::default() };
    let mut unpacker =
        Unpacker { root: File::open(target)?, whiteouts: Whiteouts::default(), content, devices: 0 };
    unpacker.all(Archive::new(&mut plain))?;
    io::copy(&mut plain, &mut io::sink())?;
    let opaque = unpacker.whiteouts.take().apply(&unpacker)?;
    Ok(Unpacked { diff_id: plain.hasher.finish(), bytes: plain.bytes, opaque, devices: unpacker.devices })
}

/// A path in a message.
fn short(path: &Path) -> String {
    path.to_string_lossy().chars().take(256).collect()
}

/// Ends with an error where an archive is longer than allowed: whatever it is made of has to be read.
struct Limited<'a, R> {
    plain: R,
    left: u64,
    /// What has come so far.
    bytes: u64,
    /// Of the archive as it is packed, where the one may be no more than so many times the other.
    packed: Option<&'a Cell<u64>>,
    hasher: Hasher,
}

impl<R: Read> Read for Limited<'_, R> {
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
struct Counted<'a, R> {
    inner: R,
    bytes: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

struct Unpacker {
    root: File,
    whiteouts: Whiteouts,
    content: Content,
    devices: u64,
}

/// An opened directory and a name in it.
type At = (OwnedFd, PathBuf);

impl Unpacker {
    fn all<R: Read>(&mut self, mut archive: Archive<R>) -> io::Result<()> {
        let (mut extension, mut last) = (Extension::default(), None);
        // Raw: what extends a header is read here, within limits, and not by the library, without any.
        for (entry, number) in archive.entries()?.raw(true).zip(1..) {
            let mut entry = entry.map_err(|error| unreadable(last.as_deref(), &error))?;
            if number > self.content.entries_max() {
                return Err(refused("the archive has too many entries"));
            }
            if extension.read(&mut entry)? {
                continue;
            }
            let extended = std::mem::take(&mut extension);
            let path =
                extended.path.clone().map_or_else(|| Ok(entry.path()?.into_owned()), Ok::<_, io::Error>)?;
            self.entry(&mut entry, &path, extended)
                .map_err(|error| io::Error::other(format!("{}: {error}", short(&path))))?;
            last = Some(path);
        }
        Ok(())
    }

    fn entry<R: Read>(
        &mut self,
        entry: &mut Entry<'_, R>,
        path: &Path,
        extended: Extension,
    ) -> io::Result<()> {
        let path = self.content.plain(path)?;
        if self.content == Content::Layer && self.whiteouts.read(&path)? {
            return Ok(());
        }
        let meta = Meta::of(entry, &extended, self.content)?;
        match entry.header().entry_type() {
            EntryType::Directory if path.as_os_str().is_empty() => Ok(()),
            _ if path.as_os_str().is_empty() => Err(refused("the root is a directory")),
            EntryType::Directory => self.directory(meta, &path),
            EntryType::Regular | EntryType::Continuous => self.file(entry, meta, &path),
            EntryType::Symlink => self.symlink(meta, &path, &target_of(entry, extended.link)?),
            EntryType::Link => self.link(&path, &target_of(entry, extended.link)?),
            // A container has a /dev of its own.
            EntryType::Char | EntryType::Block if path.starts_with("dev") => Ok(()),
            EntryType::Char | EntryType::Block if self.content == Content::Layer => {
                self.devices += 1;
                Ok(())
            }
            EntryType::Fifo if self.content == Content::Layer => self.pipe(&meta, &path),
            EntryType::GNUSparse => Err(refused("sparse files are not unpacked: make the archive without")),
            _ => Err(refused("only files, directories and links are unpacked")),
        }
    }

    /// Resolved with the target as root: `/` and `..` in symlinks lead nowhere else.
    fn open(&self, path: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let links = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new().flags(flags | OFlag::O_CLOEXEC).resolve(links);
        resolve(|| openat2(&self.root, path, how))
    }

    /// Opens the directory that `path` lies in, made where it is missing.
    fn parent(&self, path: &Path) -> io::Result<At> {
        let (parent, name) =
            (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or(OsStr::new("")));
        Ok((self.open_or_make(parent)?, name.into()))
    }

    fn open_or_make(&self, dir: &Path) -> io::Result<OwnedFd> {
        let flags = OFlag::O_PATH | OFlag::O_DIRECTORY;
        match self.open(dir, flags) {
            Err(Errno::ENOENT) if !dir.as_os_str().is_empty() => {
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
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        meta.finish(self.open(path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)?)
    }

    fn file(&self, content: &mut impl Read, meta: Meta, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let how = OpenHow::new()
            .flags(flags)
            .mode(Mode::S_IRUSR | Mode::S_IWUSR)
            .resolve(ResolveFlag::RESOLVE_BENEATH);
        let mut file = File::from(openat2(&parent, &name, how)?);
        io::copy(content, &mut file)?;
        meta.finish(file)
    }

    fn symlink(&self, meta: Meta, path: &Path, target: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        symlinkat(target, &parent, &name)?;
        if let Some((uid, gid)) = meta.owner {
            fchownat(&parent, &name, Some(uid), Some(gid), AtFlags::AT_SYMLINK_NOFOLLOW)?;
        }
        Ok(utimensat(&parent, &name, &meta.changed, &meta.changed, UtimensatFlags::NoFollowSymlink)?)
    }

    fn link(&self, path: &Path, target: &Path) -> io::Result<()> {
        let target = self.content.plain(target)?;
        let (from, from_name) = self.parent(&target)?;
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        match linkat(&from, &from_name, &parent, &name, LinkatFlags::empty()) {
            // Lower layers are not here: each is unpacked by itself, several at a time.
            Err(Errno::ENOENT) => Err(refused(&format!(
                "a hard link to {}, which the archive does not have before it: make the archive with the file itself",
                short(&target)
            ))),
            linked => Ok(linked?),
        }
    }

    fn pipe(&self, meta: &Meta, path: &Path) -> io::Result<()> {
        let (parent, name) = self.parent(path)?;
        clear(&parent, &name)?;
        mkfifoat(&parent, &name, Mode::S_IRUSR | Mode::S_IWUSR)?;
        // Without O_NONBLOCK this would wait for a writer.
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_BENEATH);
        meta.finish(openat2(&parent, &name, how)?)
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
fn target_of<R: Read>(entry: &Entry<'_, R>, extended: Option<PathBuf>) -> io::Result<PathBuf> {
    match extended {
        Some(link) => Ok(link),
        None => Ok(entry.link_name()?.ok_or_else(|| refused("a link to nowhere"))?.into_owned()),
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
    match unlinkat(parent, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// What a file has besides its content.
struct Meta {
    /// None for whoever unpacks it.
    owner: Option<(Uid, Gid)>,
    mode: Mode,
    changed: TimeSpec,
}

impl Meta {
    fn of<R: Read>(entry: &Entry<'_, R>, extended: &Extension, content: Content) -> io::Result<Self> {
        let header = entry.header();
        let owner = || {
            let number = |id: u64| u32::try_from(id).map_err(|_| refused("an owner out of range"));
            let uid = extended.uid.map_or_else(|| header.uid(), Ok)?;
            let gid = extended.gid.map_or_else(|| header.gid(), Ok)?;
            io::Result::Ok((Uid::from_raw(number(uid)?), Gid::from_raw(number(gid)?)))
        };
        Ok(Self {
            owner: if content == Content::Layer { Some(owner()?) } else { None },
            mode: Mode::from_bits_truncate(header.mode()? & 0o1777),
            changed: TimeSpec::new(i64::try_from(header.mtime()?).unwrap_or(0), 0),
        })
    }

    fn finish(&self, file: impl AsFd) -> io::Result<()> {
        if let Some((uid, gid)) = self.owner {
            fchown(&file, Some(uid), Some(gid))?;
        }
        fchmod(&file, self.mode)?;
        Ok(futimens(&file, &self.changed, &self.changed)?)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use tar::Builder;

    use super::*;
    use crate::test_header::header;

    struct Tar(Builder<Vec<u8>>);

    impl Tar {
        fn new() -> Self {
            Self(Builder::new(Vec::new()))
        }

        /// Writes the path as it is: the builder would refuse what these tests are about.
        fn add(mut self, path: &str, kind: EntryType, link: &str, data: &str) -> Self {
            let own = nix::unistd::getuid().as_raw().into();
            let header = header(path, kind, link, (0o6755, own), data.len() as u64);
            self.0.append(&header, data.as_bytes()).expect("appended");
            self
        }

        fn unpack(self) -> (tempfile::TempDir, Result<Vec<PathBuf>, String>) {
            let dir = tempfile::tempdir().expect("a directory");
            let bytes = self.0.into_inner().expect("finished");
            let unpacked = unpack(bytes.as_slice(), &dir.path().join("."), Content::Layer);
            (dir, unpacked.map(|unpacked| unpacked.opaque).map_err(|error| error.to_string()))
        }
    }

    #[test]
    fn files_and_links_are_unpacked() {
        let (dir, unpacked) = Tar::new()
            .add("./usr/bin/", EntryType::Directory, "", "")
            .add("usr/bin/tool", EntryType::Regular, "", "old")
            .add("usr/bin/tool", EntryType::Regular, "", "new")
            .add("bin", EntryType::Symlink, "/usr/bin", "")
            .add("bin/same", EntryType::Link, "usr/bin/tool", "")
            .unpack();
        assert_eq!(unpacked, Ok(Vec::new()));
        let same = dir.path().join("usr/bin/same");
        assert_eq!(fs::read_to_string(&same).expect("a file"), "new");
        assert_eq!(same.metadata().expect("a file").permissions().mode() & 0o7777, 0o755);
    }

    #[test]
    fn nothing_leads_out() {
        let regular = |path| Tar::new().add(path, EntryType::Regular, "", "x");
        for (hostile, why) in [
            (regular("../out"), "a path that leads out"),
            (regular("a/../../out"), "a path that leads out"),
            (Tar::new().add("hard", EntryType::Link, "../../etc/passwd", ""), "a path that leads out"),
            (Tar::new().add("/", EntryType::Regular, "", "x"), "the root is a directory"),
            (
                Tar::new().add("hard", EntryType::Link, "/etc/passwd", ""),
                "a hard link to etc/passwd, which the archive does not have before it: make the archive with the file itself",
            ),
            (
                Tar::new().add("volume", EntryType::new(b'V'), "", ""),
                "only files, directories and links are unpacked",
            ),
        ] {
            let (_dir, unpacked) = hostile.unpack();
            let error = unpacked.expect_err("refused");
            assert!(error.ends_with(why), "{error}");
        }
    }

    #[test]
    fn a_layer_may_have_pipes_and_its_devices_are_left_out() {
        use std::os::unix::fs::FileTypeExt;
        let tar = || {
            Tar::new()
                .add("var/pipe", EntryType::Regular, "", "old")
                .add("var/pipe", EntryType::Fifo, "", "")
                .add("var/same", EntryType::Link, "var/pipe", "")
                .add("dev/null", EntryType::Char, "", "")
                .add("jail/dev/null", EntryType::Char, "", "")
                .add("jail/disk", EntryType::Block, "", "")
        };
        let (dir, bytes) =
            (tempfile::tempdir().expect("a directory"), tar().0.into_inner().expect("finished"));
        let unpacked = unpack(bytes.as_slice(), dir.path(), Content::Layer).expect("unpacked");
        assert_eq!(unpacked.devices, 2);
        for name in ["var/pipe", "var/same"] {
            let found = dir.path().join(name).symlink_metadata().expect("a pipe");
            assert!(found.file_type().is_fifo(), "{name}");
            assert_eq!(found.permissions().mode() & 0o7777, 0o755, "{name}");
        }
        assert!(!dir.path().join("jail").exists() && !dir.path().join("dev").exists());
        for kind in [EntryType::Fifo, EntryType::Char, EntryType::Block] {
            let bytes = Tar::new().add("a", kind, "", "").0.into_inner().expect("finished");
            let refusal = unpack(bytes.as_slice(), dir.path(), Content::Files).expect_err("refused");
            assert_eq!(refusal.to_string(), "a: only files, directories and links are unpacked");
        }
    }

    #[test]
    fn a_layer_may_name_all_from_the_root_on() {
        let (dir, unpacked) = Tar::new()
            .add("/", EntryType::Directory, "", "")
            .add("/usr/bin/", EntryType::Directory, "", "")
            .add("/usr/bin/tool", EntryType::Regular, "", "tool")
            .add("//usr/bin/same", EntryType::Link, "/usr/bin/tool", "")
            .unpack();
        assert_eq!(unpacked, Ok(Vec::new()));
        assert_eq!(fs::read_to_string(dir.path().join("usr/bin/same")).expect("a file"), "tool");
        let absolute =
            Tar::new().add("/etc/out", EntryType::Regular, "", "x").0.into_inner().expect("finished");
        let files = unpack(absolute.as_slice(), dir.path(), Content::Files).expect_err("refused");
        assert!(files.to_string().ends_with("a path that leads out"), "{files}");
    }

    #[test]
    fn what_extends_a_header_is_small() {
        let long = "d/".repeat(100) + "file";
        let pax = |record: &str| format!("{} {record}\n", record.len() + 4);
        let (dir, unpacked) = Tar::new()
            .add("././@LongLink", EntryType::GNULongName, "", &format!("{long}\0"))
            .add("d/cut", EntryType::Regular, "", "x")
            .add("pax", EntryType::XHeader, "", &pax("path=by-pax"))
            .add("cut", EntryType::Regular, "", "x")
            .unpack();
        assert_eq!(unpacked, Ok(Vec::new()));
        assert!(dir.path().join(&long).is_file() && dir.path().join("by-pax").is_file());
        let bomb = "x".repeat(2 << 20);
        for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
            let (_dir, unpacked) = Tar::new().add("bomb", kind, "", &bomb).unpack();
            assert_eq!(unpacked, Err("a header of 2097152 bytes is over the limit of 1048576".to_owned()));
        }
    }

    #[test]
    fn an_archive_is_not_read_for_ever() {
        let mut endless = Limited {
            plain: io::repeat(0),
            left: 1 << 20,
            bytes: 0,
            packed: None,
            hasher: Hasher::default(),
        };
        let error = io::copy(&mut endless, &mut io::sink()).expect_err("refused");
        assert_eq!(error.to_string(), "the archive is too large");
    }

    #[test]
    fn symlinks_are_followed_within_the_image_only() {
        let (dir, unpacked) = Tar::new()
            .add("up", EntryType::Symlink, "../../../../..", "")
            .add("up/inside", EntryType::Regular, "", "x")
            .add("etc", EntryType::Directory, "", "")
            .add("abs", EntryType::Symlink, "/etc", "")
            .add("abs/inside", EntryType::Regular, "", "x")
            .add("file", EntryType::Symlink, "/etc/elsewhere", "")
            .add("file", EntryType::Regular, "", "x")
            .unpack();
        assert_eq!(unpacked, Ok(Vec::new()));
        assert!(["inside", "etc/inside", "file"].iter().all(|path| dir.path().join(path).is_file()));
        assert!(!dir.path().join("etc/elsewhere").exists());
    }

    #[test]
    fn what_a_layer_removes_becomes_what_overlayfs_understands() {
        use std::os::unix::fs::{FileTypeExt, MetadataExt};
        let (dir, unpacked) = Tar::new()
            .add("etc/.wh.gone", EntryType::Regular, "", "")
            .add("usr/.wh..wh..opq", EntryType::Regular, "", "")
            .add("usr/bin/new", EntryType::Regular, "", "x")
            .add("a/.wh.again", EntryType::Regular, "", "")
            .add("a/again/file", EntryType::Regular, "", "x")
            .add("b/.wh.same", EntryType::Regular, "", "")
            .add("b/same", EntryType::Regular, "", "x")
            .add(".wh..wh.plnk", EntryType::Regular, "", "")
            .unpack();
        if unpacked.as_ref().is_err_and(|error| error.contains("EPERM")) {
            eprintln!("skipped: this kernel lets only root make whiteouts");
            return;
        }
        let mut opaque = unpacked.expect("unpacked");
        opaque.sort();
        assert_eq!(opaque, [PathBuf::from("a/again"), PathBuf::from("usr")]);
        let gone = dir.path().join("etc/gone").symlink_metadata().expect("a whiteout");
        assert!(gone.file_type().is_char_device() && gone.rdev() == 0);
        assert!(dir.path().join("b/same").is_file() && dir.path().join("a/again/file").is_file());
        assert_eq!(dir.path().read_dir().expect("a directory").count(), 4);
        for hostile in ["a/.wh.", "a/.wh..", "a/.wh..."] {
            let (_dir, unpacked) = Tar::new().add(hostile, EntryType::Regular, "", "").unpack();
            assert!(unpacked.expect_err("refused").contains("removes no file"), "{hostile}");
        }
    }

    #[test]
    fn the_digest_is_that_of_the_archive_without_its_compression() {
        let bytes = Tar::new().add("file", EntryType::Regular, "", "x").0.into_inner().expect("finished");
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        io::Write::write_all(&mut gzip, &bytes).expect("written");
        let dir = tempfile::tempdir().expect("a directory");
        let unpacked =
            unpack(gzip.finish().expect("written").as_slice(), dir.path(), Content::Layer).expect("unpacked");
        assert_eq!((unpacked.diff_id, unpacked.bytes), (Digest::of(&bytes), bytes.len() as u64));
    }

    #[test]
    fn zstd_is_as_good_as_gzip() {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        let bytes = Tar::new().add("file", EntryType::Regular, "", &"x".repeat(300 << 10));
        let bytes = bytes.0.into_inner().expect("finished");
        // In two frames, as parallel compressors write them, with one between that says nothing.
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"toc"].concat();
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let [first, second] = [first, second].map(|part| compress_to_vec(part, CompressionLevel::Fastest));
        let packed = [first.clone(), skipped.clone(), second].concat();
        let dir = tempfile::tempdir().expect("a directory");
        let unpacked = unpack(packed.as_slice(), dir.path(), Content::Layer).expect("unpacked");
        assert_eq!((unpacked.diff_id, unpacked.bytes), (Digest::of(&bytes), bytes.len() as u64));
        for damaged in [&packed[..packed.len() - 1], &packed[..first.len() + 5], &first[..9], &skipped[..9]] {
            let dir = tempfile::tempdir().expect("a directory");
            unpack(damaged, dir.path(), Content::Layer).expect_err("refused");
        }
    }

    #[test]
    fn a_bomb_of_zstd_is_one_too() {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        check_bomb(&compress_to_vec(zeros(), CompressionLevel::Fastest));
    }

    /// An archive of nothing but zeros, larger than any that may be much smaller when it is packed.
    fn zeros() -> impl Read {
        let bytes = FILES_FREE_BYTES * 2;
        let header = header("zeros", EntryType::Regular, "", (0o644, 0), bytes);
        io::Cursor::new(header.as_bytes().to_vec()).chain(io::repeat(0).take(bytes + 1024))
    }

    fn check_bomb(bomb: &[u8]) {
        let dir = tempfile::tempdir().expect("a directory");
        let refusal = unpack(bomb, dir.path(), Content::Files).expect_err("refused").to_string();
        assert!(refusal.contains("more than 200 times its own size"), "{refusal}");
    }

    #[test]
    fn files_for_a_task_may_not_be_much_larger_than_their_archive() {
        let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        io::copy(&mut zeros(), &mut bomb).expect("written");
        check_bomb(&bomb.finish().expect("written"));
    }

    #[test]
    fn files_for_a_task_are_whose_process_unpacks_them() {
        let header = header(".wh.kept", EntryType::Regular, "", (0o4755, 12_345), 1);
        let mut archive = Builder::new(Vec::new());
        archive.append(&header, b"x".as_slice()).expect("appended");
        let bytes = archive.into_inner().expect("finished");
        let dir = tempfile::tempdir().expect("a directory");
        unpack(bytes.as_slice(), dir.path(), Content::Files).expect("unpacked");
        let found = dir.path().join(".wh.kept").metadata().expect("a file like any other");
        let own = nix::unistd::geteuid().as_raw();
        assert_eq!(
            (std::os::unix::fs::MetadataExt::uid(&found), found.permissions().mode() & 0o7777),
            (own, 0o755)
        );
    }
}
