//! A disk of one test.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Command;

use berth_agent::unshare;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;
use tempfile::TempDir;

/// ext4 in a file. What is mounted is seen by this thread and whatever it starts, and is gone with the last of them.
pub struct Disk {
    _image: TempDir,
    pub dir: PathBuf,
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// From here on mounts of this thread are its own.
fn own_mounts() -> rustix::io::Result<()> {
    unshare(UnshareFlags::NEWNS)?;
    mount_change("/", MountPropagationFlags::REC | MountPropagationFlags::PRIVATE)
}

impl Disk {
    /// None, with the reason printed, where there can be none.
    pub fn of_mib(mib: u64) -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let (image, point) = (dir.path().join("image"), dir.path().join("disk"));
        fs::create_dir(&point).expect("made");
        File::create(&image).and_then(|file| file.set_len(mib << 20)).expect("a file");
        let made = own_mounts()
            .map_err(|errno| format!("mounts of its own: {errno}"))
            .and_then(|()| run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image)))
            .and_then(|()| run(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&point)));
        match made {
            Ok(()) => Some(Self { _image: dir, dir: point }),
            Err(why) => {
                eprintln!("skipped: there can be no disk of its own: {why}");
                None
            }
        }
    }

    /// Whether it has no room for one more block, whatever it keeps for itself.
    pub fn is_full(&self) -> bool {
        let probe = self.dir.join("probe");
        let refused = fs::write(&probe, [1; 4096]).is_err_and(|error| error.kind() == ErrorKind::StorageFull);
        let _ = fs::remove_file(probe);
        refused
    }

    pub fn free_bytes(&self) -> u64 {
        let found = rustix::fs::statvfs(&self.dir).expect("a disk");
        found.f_bfree * found.f_frsize
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg("-l").arg(&self.dir));
    }
}
