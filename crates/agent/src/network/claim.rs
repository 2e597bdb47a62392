//! One agent has the networks of one name: a locked file says so, for as long as it lives.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::failure::{Failure, FailureContext};
use crate::locked_file::LockedFile;
use crate::shell::make_dir;

/// Where the files are. Root alone may open them: whoever could lock one could take a node's networks away.
pub(super) const CLAIMS_DIR: &str = "/run/berth/networks";

/// Held; gone with the process, however that ends.
#[derive(Debug)]
pub(super) struct NameClaim(#[allow(dead_code, reason = "it is held, not used")] LockedFile);

impl NameClaim {
    /// Of this thread's network namespace, which interfaces belong to: its number is part of the file's name.
    pub(super) fn take(dir: &Path, name: &str) -> Result<Self, Failure> {
        let doing = || format!("take the networks of the name {name:?}");
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if name.is_empty() || name.len() > 8 || !name.chars().all(is_plain) {
            return Err(Failure::other(doing(), "a name has up to 8 small letters and digits"));
        }
        make_dir(dir, 0o700)?;
        let namespace = fs::metadata("/proc/thread-self/ns/net").doing(doing)?.ino();
        let path = dir.join(format!("{name}-{namespace}"));
        let file = File::options().create(true).append(true).mode(0o600).open(&path).doing(doing)?;
        match file.try_lock() {
            Ok(()) => Ok(Self(LockedFile(file))),
            Err(TryLockError::WouldBlock) => Err(Failure::other(
                doing(),
                "another agent on this host has them: give this one its own --bridge-name and --bridge-subnet",
            )),
            Err(TryLockError::Error(error)) => Err(Failure::new(doing(), error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::{SocketAddr, UnixListener};

    use rustix::thread::UnshareFlags;

    use super::*;

    #[test]
    fn a_name_is_one_agents() {
        let dir = tempfile::tempdir().expect("a directory");
        let take = |name: &str| NameClaim::take(dir.path(), name);
        let held = take("berth").expect("free");
        assert!(take("berth").expect_err("taken").to_string().contains("--bridge-name"));
        take("other").expect("another name");
        drop(held);
        take("berth").expect("free again");
        assert!(["", "ninechars", "a b", "A", "a-b"].iter().all(|name| take(name).is_err()));
    }

    #[test]
    fn who_may_not_open_the_file_cannot_take_the_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let claims = dir.path().join("claims");
        // As any process of the host can, without a right to anything.
        let name = format!("t{}", std::process::id() % 1_000_000);
        let socket = SocketAddr::from_abstract_name(format!("berth-networks-{name}")).expect("a name");
        let _squatter = UnixListener::bind_addr(&socket).expect("bound");
        let _held = NameClaim::take(&claims, &name).expect("free");
        assert_eq!(claims.metadata().expect("a directory").permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_name_is_free_in_another_network_namespace() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let _held = NameClaim::take(dir.path(), "berth").expect("free");
        let elsewhere = std::thread::scope(|scope| {
            let take = || {
                crate::namespaces::unshare(UnshareFlags::NEWNET).expect("a namespace");
                NameClaim::take(dir.path(), "berth")
            };
            scope.spawn(take).join().expect("no panic")
        });
        elsewhere.expect("free there");
    }
}
