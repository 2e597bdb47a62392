//! One agent has the networks of one name: a socket in the host's network namespace says so, for as long as it lives.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use crate::failure::{Failure, FailureContext};

/// Held; gone with the process, however that ends. Abstract names belong to a network namespace, as interfaces do.
#[derive(Debug)]
pub(super) struct NameClaim(#[allow(dead_code, reason = "it is held, not used")] UnixListener);

impl NameClaim {
    pub(super) fn take(name: &str) -> Result<Self, Failure> {
        let doing = || format!("take the networks of the name {name:?}");
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if name.is_empty() || name.len() > 8 || !name.chars().all(is_plain) {
            return Err(Failure::other(doing(), "a name has up to 8 small letters and digits"));
        }
        let address = SocketAddr::from_abstract_name(format!("berth-networks-{name}")).doing(doing)?;
        match UnixListener::bind_addr(&address) {
            Ok(listener) => Ok(Self(listener)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(Failure::other(
                doing(),
                "another agent on this host has them: give this one its own --bridge-name and --bridge-subnet",
            )),
            Err(error) => Err(Failure::new(doing(), error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_agents() {
        let name = format!("t{}", std::process::id() % 1_000_000);
        let held = NameClaim::take(&name).expect("free");
        assert!(NameClaim::take(&name).expect_err("taken").to_string().contains("--bridge-name"));
        drop(held);
        NameClaim::take(&name).expect("free again");
        assert!(["", "ninechars", "a b", "A", "a-b"].iter().all(|name| NameClaim::take(name).is_err()));
    }
}
