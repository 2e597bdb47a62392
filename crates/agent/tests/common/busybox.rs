//! Whether containers can run here, and images of busybox for them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tempfile::TempDir;

/// The OCI runtimes of this host; none, with the reason printed, where containers cannot run.
pub fn runtimes() -> Vec<&'static str> {
    let (runtimes, missing): (Vec<&str>, Vec<&str>) =
        ["/usr/bin/crun", "/usr/sbin/runc"].into_iter().partition(|path| Path::new(path).exists());
    missing.iter().for_each(|missing| eprintln!("skipped: {missing} is missing"));
    let lacking = match () {
        () if !rustix::process::geteuid().is_root() => "this is not root",
        () if runtimes.is_empty() => "there is no OCI runtime",
        () if !Path::new("/bin/busybox").exists() => "there is no busybox",
        () => return runtimes,
    };
    eprintln!("no containers: {lacking}");
    Vec::new()
}

/// A directory whose `root` is an image: busybox, by its own name and by these.
pub fn image(names: &[&str]) -> TempDir {
    let images = tempfile::tempdir().expect("a directory");
    let bin = images.path().join("root/bin");
    fs::create_dir_all(&bin).expect("made");
    fs::copy("/bin/busybox", bin.join("busybox")).expect("copied");
    for name in names {
        symlink("busybox", bin.join(name)).expect("linked");
    }
    images
}
