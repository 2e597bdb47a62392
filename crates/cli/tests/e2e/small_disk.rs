//! Small disks: a file each with ext4, which can be full and lose power. They need the right to mount.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
    time::Duration,
};

/// Room for a log, its spare and its reserve, and some.
const MIB: u64 = 160;
/// How often an end of the mount is tried, and looked for: those who used it may still be ending.
const UNMOUNT_TRIES: usize = 1_500;

/// A disk; it is gone when this is dropped.
pub struct SmallDisk {
    image: PathBuf,
    dir: PathBuf,
}

/// The program that takes the power, made once by the compiler that links everything else.
fn power_cut() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/power_cut.c");
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("power-cut-{}", std::process::id()));
        let made = Command::new("cc").arg("-o").arg(&program).arg(&source).status();
        assert!(made.is_ok_and(|made| made.success()), "{} cannot be compiled", source.display());
        program
    })
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(Output { stderr, .. }) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

fn eventually(is_so: impl Fn() -> bool) -> bool {
    (0..UNMOUNT_TRIES).any(|_| {
        is_so() || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    })
}

impl SmallDisk {
    /// Makes a disk and mounts it at `dir`; none where that is not allowed, which is printed.
    pub fn mount(dir: &Path) -> Option<Self> {
        let disk = Self { image: dir.with_extension("image"), dir: dir.to_owned() };
        match disk.make() {
            Ok(()) => Some(disk),
            Err(reason) => {
                println!("skipped: there can be no disk of its own: {reason}");
                None
            }
        }
    }

    fn make(&self) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        fs::create_dir_all(&self.dir).map_err(text)?;
        fs::File::create(&self.image).and_then(|file| file.set_len(MIB << 20)).map_err(text)?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&self.image))?;
        self.plug_in()
    }

    fn plug_in(&self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.dir))
    }

    /// The power is gone.
    pub fn cut_power(&self) {
        run(Command::new(power_cut()).arg(&self.dir)).expect("it loses its power");
    }

    /// The power is back. Nobody may use it when this is called.
    pub fn restore_power(&self) {
        let unmount = || run(Command::new("umount").arg(&self.dir)).is_ok();
        assert!(eventually(unmount), "somebody uses {}", self.dir.display());
        // A mount namespace that something made meanwhile keeps the file system that is dead, and it would be mounted again.
        assert!(eventually(|| self.is_free()), "a mount namespace keeps {}", self.dir.display());
        self.plug_in().expect("its journal is replayed");
    }

    /// Whether no device is made of it.
    fn is_free(&self) -> bool {
        let devices = Command::new("losetup").arg("-j").arg(&self.image).output().expect("losetup runs");
        devices.stdout.is_empty()
    }

    fn filler(&self) -> PathBuf {
        self.dir.join("filler")
    }

    /// Somebody else writes until there is not a byte left.
    pub fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.filler()).expect("a file");
        let mut piece = 1 << 20;
        while piece > 0 {
            if file.write_all(&vec![1; piece]).and_then(|()| file.sync_data()).is_err() {
                piece /= 2;
            }
        }
    }

    /// Takes that away again.
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("-l").arg(&self.dir));
    }
}
