//! Wrong clocks: the clock of one process, off by an amount that its test changes at any time.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::preload::Preload;

static LIBRARY: Preload = Preload::new("stepped_clock");

/// The time of day as one process sees it.
#[derive(Clone)]
pub struct SteppedClock {
    step_file: PathBuf,
}

impl SteppedClock {
    /// A clock that is right; later steps are written to a file at that path.
    pub fn new(step_file: &Path) -> Self {
        let clock = Self { step_file: step_file.to_owned() };
        File::create(step_file).expect("the file may be made");
        clock.set_ahead_s(0);
        clock
    }

    /// Has a process go by it.
    pub fn put_into(&self, command: &mut Command) {
        LIBRARY.put_into(command);
        command.env("CLOCK_STEP_FILE", &self.step_file);
    }

    /// It is ahead by so many seconds from now on.
    pub fn set_ahead_s(&self, seconds: i64) {
        let file = File::options().write(true).open(&self.step_file).expect("it was made");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("it may be written");
    }
}
