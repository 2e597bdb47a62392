//! Images of busybox for containers.

use std::path::Path;

use tempfile::TempDir;

/// A directory of images with a busybox in it; none, with the reason printed, where containers cannot run.
pub fn busybox_images() -> Option<TempDir> {
    let runtimes = ["/usr/bin/crun", "/usr/sbin/runc", "/usr/bin/runc"];
    if !rustix::process::geteuid().is_root() || !runtimes.iter().any(|path| Path::new(path).exists()) {
        eprintln!("skipped: containers need root, and crun or runc");
        return None;
    }
    let images = TempDir::new().expect("a directory");
    std::fs::create_dir_all(images.path().join("busybox/bin")).expect("a directory");
    if std::fs::copy("/bin/busybox", images.path().join("busybox/bin/busybox")).is_err() {
        eprintln!("skipped: /bin/busybox is missing");
        return None;
    }
    std::os::unix::fs::symlink("busybox", images.path().join("busybox/bin/sh")).expect("linked");
    Some(images)
}
