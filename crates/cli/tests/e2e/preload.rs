//! Small libraries that are loaded into a process before libc (`LD_PRELOAD`).

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// One of them, made when it is first needed.
pub struct Preload {
    /// Of its source, beside this file.
    name: &'static str,
    made: OnceLock<PathBuf>,
}

impl Preload {
    pub const fn new(name: &'static str) -> Self {
        Self { name, made: OnceLock::new() }
    }

    /// Has a process load it, besides what it loads already.
    pub fn put_into(&self, command: &mut Command) {
        const VARIABLE: &str = "LD_PRELOAD";
        let before = command.get_envs().find(|(name, _)| *name == VARIABLE).and_then(|(_, value)| value);
        let mut all: OsString = before.map(ToOwned::to_owned).unwrap_or_default();
        if !all.is_empty() {
            all.push(":");
        }
        all.push(self.library());
        command.env(VARIABLE, all);
    }

    /// Made by the compiler that links everything else.
    fn library(&self) -> &Path {
        self.made.get_or_init(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/e2e/{}.c", self.name));
            let library = format!("{}-{}.so", self.name.replace('_', "-"), std::process::id());
            let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(library);
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
}
