//! Disks whose syncs are slow, and processes that are killed in the middle of what they do to their disk: by a small library
//! that is loaded before the system's own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// The library, made once by the compiler that links everything else.
fn library() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/faulty_disk.c");
        let name = format!("faulty-disk-{}.so", std::process::id());
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let made = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(&source)
            .arg("-ldl")
            .status()
            .expect("cc is there: it links every program");
        assert!(made.success(), "{} cannot be compiled", source.display());
        library
    })
}

/// A server's disk.
#[derive(Clone)]
pub struct FaultyDisk {
    slow: PathBuf,
    dying: PathBuf,
    failing: PathBuf,
}

impl FaultyDisk {
    /// A disk without faults; what it is told later lies in files whose paths begin so.
    pub fn new(told: &Path) -> Self {
        let file = |name| told.with_extension(name);
        Self { slow: file("slow"), dying: file("dying"), failing: file("failing") }
    }

    /// Has a process use it.
    pub fn put_into(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library());
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
