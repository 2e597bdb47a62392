//! Opens files that jobs and operators name only if they are regular: opening a pipe waits for its other end, which may never come,
//! and opening a device may have effects.

use std::fs::{File, FileType};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};

/// Opens a regular file for reading, links followed.
///
/// # Errors
/// Of the system; for anything else than a regular file, what it is.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let found = File::from(openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?);
    let kind = found.metadata()?.file_type();
    if !kind.is_file() {
        return Err(io::Error::other(format!("it is {}, and no regular file", kind_of(kind))));
    }
    // Whatever has been put at its path meanwhile is not followed.
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// What something is called that is no regular file.
pub(crate) fn kind_of(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "a directory",
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_block_device() || kind.is_char_device() => "a device",
        _ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_regular_files_are_opened_and_all_else_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("file"), "text").expect("written");
        symlink(path("file"), path("link")).expect("linked");
        rustix::fs::mkfifoat(CWD, path("pipe"), Mode::RWXU).expect("a pipe");
        let _socket = UnixListener::bind(path("socket")).expect("a socket");
        let mut text = String::new();
        open(&path("link")).and_then(|mut file| file.read_to_string(&mut text)).expect("read");
        assert_eq!(text, "text");
        for (name, what) in [("pipe", "a named pipe"), ("socket", "a socket"), ("", "a directory")] {
            let why = open(&path(name)).expect_err("refused").to_string();
            assert!(why.contains(what), "{name}: {why}");
        }
        let why = open(Path::new("/dev/zero")).expect_err("refused").to_string();
        assert!(why.contains("a device"), "{why}");
        assert_eq!(open(&path("gone")).expect_err("none").kind(), io::ErrorKind::NotFound);
    }
}
