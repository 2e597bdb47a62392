//! Lists a directory of an allocation, and describes a file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;

use berth_api::agent::{AllocFiles, FILES_MAX, FileSpec};
use rustix::fs::{AtFlags, Dir as Entries, FileType, Mode, OFlags, Stat, openat, statat};

use super::{FileError, OpenedEntry, ResolvedPath, find};
use crate::dirs::Dir;
use crate::paths::AllocPaths;

/// How much of a file its content's type is derived from.
const SAMPLE_BYTES: usize = 512;

/// What is at a path, or what the directory there holds. Looks at the disk, and at no more than [`FILES_MAX`] entries.
pub(crate) fn inspect(paths: &AllocPaths, path: &str, list: bool) -> Result<AllocFiles, FileError> {
    let spot = find(paths, path)?;
    let files = match (&spot, list) {
        (ResolvedPath::Top, true) => top(paths)?,
        (ResolvedPath::Shared, true) => shared(paths)?,
        (ResolvedPath::Entry(found), true) => entries(found)?,
        (ResolvedPath::Top, false) => vec![agents_own(paths, "", "/")?],
        (ResolvedPath::Shared, false) => vec![agents_own(paths, "alloc", "alloc")?],
        (ResolvedPath::Entry(found), false) => vec![whole(found)],
    };
    Ok(AllocFiles { files })
}

fn top(paths: &AllocPaths) -> Result<Vec<FileSpec>, FileError> {
    let shared = agents_own(paths, "alloc", "alloc")?;
    let tasks = match Dir::open(&paths.root().join("tasks")) {
        Ok(tasks) => entries_of(tasks.fd(), "the allocation's directory")?,
        // No task has started.
        Err(_) => Vec::new(),
    };
    Ok(std::iter::once(shared).chain(tasks).collect())
}

/// What the tasks share, and their output, which lies elsewhere, so that they cannot touch it.
fn shared(paths: &AllocPaths) -> Result<Vec<FileSpec>, FileError> {
    let dir = open(paths, "alloc")?;
    let mut files = entries_of(dir.fd(), "alloc")?;
    files.retain(|file| file.name != "logs");
    files.push(agents_own(paths, "logs", "logs")?);
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

/// A directory that no task can replace, under another name.
fn agents_own(paths: &AllocPaths, path: &str, name: &str) -> Result<FileSpec, FileError> {
    let dir = open(paths, path)?;
    let stat = rustix::fs::fstat(dir.fd()).map_err(|errno| FileError::of(name.as_ref(), errno))?;
    Ok(spec(name.as_ref(), &stat))
}

fn open(paths: &AllocPaths, path: &str) -> Result<Dir, FileError> {
    Dir::open(&paths.root().join(path)).map_err(|failure| FileError::Failed(failure.to_string()))
}

fn entries(dir: &OpenedEntry) -> Result<Vec<FileSpec>, FileError> {
    if dir.file_type() != FileType::Directory {
        return Err(FileError::Invalid(format!("{} is no directory", dir.path.display())));
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(&dir.fd, ".", flags, Mode::empty());
    let opened = opened.map_err(|errno| FileError::of(&dir.path, errno))?;
    entries_of(&opened, &dir.path.to_string_lossy())
}

fn entries_of(dir: impl std::os::fd::AsFd, path: &str) -> Result<Vec<FileSpec>, FileError> {
    let fail = |errno| FileError::of(path.as_ref(), errno);
    let mut files = Vec::new();
    for entry in Entries::read_from(&dir).map_err(fail)? {
        let entry = entry.map_err(fail)?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if files.len() == FILES_MAX {
            return Err(FileError::Invalid(format!(
                "{path} holds more than {FILES_MAX} files, which are too many to list: list what is in it with a \
                 command within the task"
            )));
        }
        // What is removed meanwhile is not there.
        if let Ok(stat) = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            files.push(spec(OsStr::from_bytes(name.to_bytes()), &stat));
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(files)
}

fn whole(found: &OpenedEntry) -> FileSpec {
    let name = found.path.file_name().unwrap_or_default();
    FileSpec { content_type: content_type(found).to_owned(), ..spec(name, &found.stat) }
}

/// Told by the beginning of the file; nothing where it cannot be read.
fn content_type(found: &OpenedEntry) -> &'static str {
    let Ok(file) = found.open() else { return "" };
    let mut sample = [0; SAMPLE_BYTES];
    let read = file.read_at(&mut sample, 0).unwrap_or(0);
    let sample = &sample[..read];
    let is_text = match std::str::from_utf8(sample) {
        Ok(text) => !text.contains('\0'),
        // A character may be cut at the sample's end.
        Err(error) => error.error_len().is_none() && !sample.contains(&0),
    };
    if is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" }
}

fn spec(name: &OsStr, stat: &Stat) -> FileSpec {
    let seconds = u64::try_from(stat.st_mtime).unwrap_or(0);
    FileSpec {
        name: name.to_string_lossy().into_owned(),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode,
        modified_ns: seconds.saturating_mul(1_000_000_000).saturating_add(stat.st_mtime_nsec),
        content_type: String::new(),
    }
}
