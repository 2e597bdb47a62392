//! Disks with slow syncs, and processes that are killed in the middle of a write or sync, by a small library that is loaded before
//! libc.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::preload::Preload;

static LIBRARY: Preload = Preload::new("faulty_disk");

/// A server's disk.
#[derive(Clone)]
pub struct FaultyDisk {
    slow: PathBuf,
    dying: PathBuf,
    failing: PathBuf,
}

impl FaultyDisk {
    /// A disk without faults; what it is to do later is in files whose paths begin with `control`.
    pub fn new(control: &Path) -> Self {
        let file = |name| control.with_extension(name);
        Self { slow: file("slow"), dying: file("dying"), failing: file("failing") }
    }

    /// Has a process use it.
    pub fn put_into(&self, command: &mut Command) {
        LIBRARY.put_into(command);
        command.env("SLOW_DISK_FILE", &self.slow).env("DYING_DISK_FILE", &self.dying);
        command.env("FAILING_DISK_FILE", &self.failing);
    }

    /// Each sync takes so much longer from now on.
    pub fn set_ms(&self, ms: u64) {
        tell(&self.slow, ms);
    }

    /// The process is killed at a step of what it does to the disk, counted from 1 and from now on: before an even one, after
    /// an odd one.
    pub fn die_at(&self, step: u64) {
        tell(&self.dying, step);
    }

    /// The next sync fails, once.
    pub fn fail_a_sync(&self) {
        tell(&self.failing, 1);
    }

    /// Nothing is wrong with it any more.
    pub fn mend(&self) {
        for file in [&self.slow, &self.dying, &self.failing] {
            if file.exists() {
                fs::remove_file(file).expect("it is ours");
            }
        }
    }
}

/// Written whole, or not at all: it is read at any time.
fn tell(file: &Path, number: u64) {
    let new = file.with_extension("new");
    fs::write(&new, number.to_string()).expect("the file may be written");
    fs::rename(&new, file).expect("it is ours");
}
