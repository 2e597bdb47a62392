//! Users of the host.

use nix::unistd::{Uid, User};

use crate::failure::{Failure, FailureContext};

/// The user with this name, or else with this number.
pub(crate) fn find(name: &str) -> Result<User, Failure> {
    let doing = || format!("find the user {name}");
    let by_name = User::from_name(name).doing(doing)?;
    let by_id = || name.parse().ok().and_then(|uid| User::from_uid(Uid::from_raw(uid)).ok().flatten());
    by_name.or_else(by_id).ok_or_else(|| Failure::other(doing(), "there is none"))
}
