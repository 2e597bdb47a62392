//! For tests: replaces a task's directory by a link and back, again and again, while something is done there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// How often each operation is tried.
const RACES: usize = 10_000;

/// Of the directory that is nobody's business, and of the only file that lies there.
const MODE: u32 = 0o751;
const KEPT_BYTES: usize = 4 << 20;
/// Of what tasks alone may read.
const GIVEN_MODE: u32 = 0o600;

/// A directory that a task has, and another one that is nobody's business.
pub(crate) struct Race {
    temp: tempfile::TempDir,
    /// The names of the directory in which it lies, and its own.
    names: [&'static str; 2],
}

impl Race {
    pub(crate) fn new() -> Self {
        Self::of("root", "x")
    }

    pub(crate) fn of(root: &'static str, honest: &'static str) -> Self {
        let race = Self { temp: tempfile::tempdir().expect("a directory"), names: [root, honest] };
        for dir in [race.honest(), race.outside()] {
            fs::create_dir_all(dir).expect("made");
        }
        fs::write(race.outside().join("kept"), vec![b'k'; KEPT_BYTES]).expect("written");
        fs::set_permissions(race.outside().join("kept"), fs::Permissions::from_mode(0o644)).expect("set");
        fs::set_permissions(race.outside(), fs::Permissions::from_mode(MODE)).expect("set");
        race
    }

    /// Where the directory lies.
    pub(crate) fn root(&self) -> PathBuf {
        self.temp.path().join(self.names[0])
    }

    /// It itself: `x` in the root, unless somebody gave it a name.
    pub(crate) fn honest(&self) -> PathBuf {
        self.root().join(self.names[1])
    }

    /// Where the links lead.
    pub(crate) fn outside(&self) -> PathBuf {
        self.temp.path().join("outside")
    }

    /// What takes its place.
    fn other(&self) -> PathBuf {
        self.temp.path().join("other")
    }

    /// Makes the link again where it is lost.
    pub(crate) fn relink(&self) {
        if !self.other().is_symlink() && !self.honest().is_symlink() {
            let _ = fs::remove_dir(self.other()).or_else(|_| fs::remove_file(self.other()));
            let _ = symlink(self.outside(), self.other());
        }
    }

    /// Does something again and again, while a link takes the directory's place as often as it goes.
    pub(crate) fn run(&self, mut work: impl FnMut(usize) -> bool) {
        for target in [self.outside(), PathBuf::from("../outside")] {
            let other = self.other();
            symlink(&target, &other).expect("linked");
            let done = AtomicBool::new(false);
            let (mut good, mut bad) = (0, 0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        exchange(&self.honest(), &other);
                    }
                });
                for round in 0..RACES / 2 {
                    if work(round) { good += 1 } else { bad += 1 }
                }
                done.store(true, Ordering::Relaxed);
            });
            eprintln!("{good} times done, {bad} times refused");
            if self.honest().is_symlink() {
                exchange(&self.honest(), &other);
            }
            let _ = fs::remove_file(&other).or_else(|_| fs::remove_dir(&other));
            self.assert_untouched();
        }
    }

    fn assert_untouched(&self) {
        let names: Vec<_> =
            fs::read_dir(self.outside()).expect("listed").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["kept"]);
        let (dir, kept) = (self.outside(), self.outside().join("kept"));
        let (dir, kept) = (dir.metadata().expect("a directory"), kept.metadata().expect("a file"));
        assert_eq!((dir.permissions().mode() & 0o7777, kept.len()), (MODE, KEPT_BYTES as u64));
        let own = rustix::process::geteuid().as_raw();
        assert_eq!((dir.uid(), kept.uid()), (own, own), "it was given away");
        assert_ne!(kept.permissions().mode() & 0o7777, GIVEN_MODE, "its mode was set");
    }
}

fn exchange(one: &Path, other: &Path) {
    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
}
