//! The directory of a test. At its end agents are killed while their tasks run on until they find their files gone; what agents have
//! mounted for them has to be unmounted, or the directory could not be removed.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use tempfile::TempDir;

/// The directory; it is removed with all in it when this is dropped.
pub struct Home(TempDir);

impl Home {
    /// An empty one.
    pub fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for point in points.filter(|point| Path::new(point).starts_with(self.path())) {
            // Whatever cannot be detached keeps the directory, and the test has its own verdict.
            let _ = Command::new("umount").args(["--lazy", point]).stderr(Stdio::null()).status();
        }
    }
}
