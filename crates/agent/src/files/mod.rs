//! Files of allocations, read through the API. Tasks may write to the same directories meanwhile: every path is
//! resolved by the kernel, beneath a directory that no task can replace, and what was found is what is read.

mod list;
mod read;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat2};
use rustix::io::Errno;

pub(crate) use self::list::inspect;
pub(crate) use self::read::FileReader;
use crate::paths::{AllocPaths, is_plain_name};
use crate::resolve::resolve;

/// The directory of a task that is never shown.
const SECRETS: &str = "secrets";

/// Why a file is not shown.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("not found: {0}")]
    NotFound(String),
    #[error("invalid: {0}")]
    Invalid(String),
    #[error("{0}")]
    Failed(String),
}

impl FileError {
    /// The error that the kernel returned for a path.
    fn of(path: &Path, errno: Errno) -> Self {
        let path = path.display();
        match errno {
            Errno::NOENT | Errno::NOTDIR => {
                Self::NotFound(format!("the allocation's directory has no file {path}"))
            }
            Errno::XDEV | Errno::LOOP => Self::Invalid(format!(
                "{path} leads out of its directory, by a link or a mount: only what lies in the allocation's \
                 directory is shown"
            )),
            errno => Self::Failed(format!("read {path}: {errno}")),
        }
    }
}

/// What a path of an allocation leads to.
enum ResolvedPath {
    /// The allocation itself: the shared directory, and one for each task.
    Top,
    /// The shared directory. The logs look as if they lay there.
    Shared,
    /// A file or directory.
    Entry(OpenedEntry),
}

/// A file or directory, opened without a right to read it.
struct OpenedEntry {
    fd: OwnedFd,
    stat: Stat,
    /// The path as errors name it.
    path: PathBuf,
}

impl OpenedEntry {
    fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Opens for reading what was found: whatever has been put at its path meanwhile is not followed.
    fn open(&self) -> Result<File, FileError> {
        if self.file_type() != FileType::RegularFile {
            let what =
                if self.file_type() == FileType::Directory { "a directory" } else { "no regular file" };
            return Err(FileError::Invalid(format!("{} is {what}", self.path.display())));
        }
        let same = format!("/proc/self/fd/{}", self.fd.as_raw_fd());
        File::open(same).map_err(|error| FileError::Failed(format!("read {}: {error}", self.path.display())))
    }
}

/// Finds what `path` leads to from the top of the allocation's directory: `alloc/...`, or `TASK/...`.
fn find(paths: &AllocPaths, path: &str) -> Result<ResolvedPath, FileError> {
    let path = plain(path)?;
    let mut parts = path.iter().map(|part| part.to_str().unwrap_or(""));
    let (first, second) = (parts.next(), parts.next());
    let rest: PathBuf = parts.collect();
    let (base, second) = match (first, second) {
        (None, _) => return check_exists(paths).map(|()| ResolvedPath::Top),
        (Some("alloc"), None) => return check_exists(paths).map(|()| ResolvedPath::Shared),
        (Some("alloc"), Some("logs")) => (paths.logs_dir(), None),
        (Some("alloc"), second) => (paths.shared_dir(), second),
        (Some(_), Some(SECRETS)) => {
            return Err(FileError::Invalid(format!("{}: a task's secrets cannot be read", path.display())));
        }
        (Some(task), second) if is_plain_name(task) => (paths.task_dir(task), second),
        (Some(_), _) => return Err(FileError::of(&path, Errno::NOENT)),
    };
    let fail = |errno| FileError::of(&path, errno);
    // No task can replace these directories, nor what leads to them.
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let base = rustix::fs::open(&base, flags, Mode::empty()).map_err(fail)?;
    // The first step takes no link: the next ones are bound to the directory that it leads to, so that none of them leads
    // from one directory of a task to its secrets.
    let base = match second {
        Some(second) => step(&base, second.as_ref(), ResolveFlags::NO_SYMLINKS).map_err(fail)?,
        None => base,
    };
    let fd = if rest.as_os_str().is_empty() {
        base
    } else {
        step(&base, &rest, ResolveFlags::NO_MAGICLINKS).map_err(fail)?
    };
    let stat = fstat(&fd).map_err(fail)?;
    Ok(ResolvedPath::Entry(OpenedEntry { fd, stat, path }))
}

/// Opens a path beneath a directory, on the same disk, without touching what it leads to.
fn step(base: impl AsFd, path: &Path, links: ResolveFlags) -> rustix::io::Result<OwnedFd> {
    let links = links | ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    resolve(|| openat2(&base, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), links))
}

/// Whether there is anything of the allocation.
fn check_exists(paths: &AllocPaths) -> Result<(), FileError> {
    if paths.shared_dir().is_dir() {
        return Ok(());
    }
    let text =
        "the node holds no files of the allocation: none of its tasks has started, or they were removed";
    Err(FileError::NotFound(text.to_owned()))
}

/// The path without `/` in front and without `.`; one with `..` is refused.
fn plain(path: &str) -> Result<PathBuf, FileError> {
    let mut plain = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(FileError::Invalid(format!("{path} holds `..`: write the whole path without")));
            }
        }
    }
    Ok(plain)
}
