//! Disks whose syncs are slow: a small library, loaded before the system's own, waits before each.

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
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/slow_disk.c");
        let name = format!("slow-disk-{}.so", std::process::id());
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
pub struct SlowDisk(PathBuf);

impl SlowDisk {
    /// A disk that is as fast as it is; `told` is where it is told otherwise.
    pub fn new(told: PathBuf) -> Self {
        Self(told)
    }

    /// Has a process use it.
    pub fn put_into(&self, command: &mut Command) {
        command.env("LD_PRELOAD", library()).env("SLOW_DISK_FILE", &self.0);
    }

    /// Each sync takes so much longer from now on.
    pub fn set_ms(&self, ms: u64) {
        fs::write(&self.0, ms.to_string()).expect("the file may be written");
    }
}
