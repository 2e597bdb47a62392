//! Clocks that are wrong: those of one process, by as much as its test says at any time.

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
    told: PathBuf,
}

impl SteppedClock {
    /// A clock that is right; what it is told later lies in a file at that path.
    pub fn new(told: &Path) -> Self {
        let clock = Self { told: told.to_owned() };
        File::create(told).expect("the file may be made");
        clock.set_ahead_s(0);
        clock
    }

    /// Has a process go by it.
    pub fn put_into(&self, command: &mut Command) {
        LIBRARY.put_into(command);
        command.env("CLOCK_STEP_FILE", &self.told);
    }

    /// It is ahead by so many seconds from now on.
    pub fn set_ahead_s(&self, seconds: i64) {
        let file = File::options().write(true).open(&self.told).expect("it was made");
        file.write_all_at(&seconds.to_ne_bytes(), 0).expect("it may be written");
    }
}
