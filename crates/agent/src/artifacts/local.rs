//! Artifacts that are files of the node.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};

use crate::images::registry::error::PullError;
use crate::resolve::resolve;

/// Opens the file, if it lies in a directory that the operator allows. Tasks may be able to write there: what is opened
/// is beneath that directory, and not what somebody puts there once it has been looked at.
pub(super) fn open(path: &Path, allowed: &[PathBuf]) -> Result<File, PullError> {
    let refused = |why: &str| PullError::permanent(format!("{}: {why}", path.display()));
    let plain = OFlags::RDONLY | OFlags::CLOEXEC;
    let beneath = allowed.iter().find_map(|dir| Some((dir, path.strip_prefix(dir).ok()?)));
    let (dir, rest) = beneath
        .ok_or_else(|| refused("it is in none of the directories that this node allows (--artifact-dirs)"))?;
    let open = || {
        let dir = rustix::fs::openat(CWD, dir, plain | OFlags::DIRECTORY, Mode::empty())?;
        // A pipe that nobody writes to must not hold this up.
        let links = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        resolve(|| openat2(&dir, rest, plain | OFlags::NONBLOCK, Mode::empty(), links))
    };
    match open() {
        Ok(file) => Ok(file.into()),
        Err(rustix::io::Errno::XDEV) => Err(refused("it leads out of the directory that this node allows")),
        Err(errno) => Err(refused(&errno.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn files_are_opened_beneath_what_is_allowed_and_nowhere_else() {
        let temp = tempfile::tempdir().expect("a directory");
        let path = |name: &str| temp.path().join(name);
        fs::create_dir_all(path("allowed/sub")).expect("made");
        fs::write(path("allowed/sub/file"), "inside").expect("written");
        fs::write(path("other"), "outside").expect("written");
        symlink("sub/file", path("allowed/link")).expect("linked");
        symlink("../other", path("allowed/out")).expect("linked");
        symlink(path("other"), path("allowed/absolute")).expect("linked");
        let open = |name: &str| open(&path(name), &[path("allowed")]).map_err(|error| error.reason);
        for name in ["allowed/sub/file", "allowed/link", "allowed/./sub/../link"] {
            let mut text = String::new();
            open(name).expect("opened").read_to_string(&mut text).expect("read");
            assert_eq!(text, "inside", "{name}");
        }
        for name in ["allowed/out", "allowed/absolute", "allowed/../other"] {
            assert!(open(name).expect_err("refused").contains("it leads out"), "{name}");
        }
        assert!(open("other").expect_err("refused").contains("--artifact-dirs"));
        assert!(open("allowed-too/file").expect_err("refused").contains("--artifact-dirs"));
    }
}
