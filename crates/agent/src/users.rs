//! Users of the host, whoever the C library asks about them: files, or a directory service.

use std::ffi::CString;

use nix::unistd::initgroups;
use rustix::process::{Gid, Uid};
use rustix::thread::set_thread_groups;

use crate::failure::{Failure, FailureContext};

/// A user, and the group that is its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) uid: Uid,
    pub(crate) gid: Gid,
}

impl From<nix::unistd::User> for User {
    fn from(found: nix::unistd::User) -> Self {
        let (uid, gid) = (Uid::from_raw(found.uid.as_raw()), Gid::from_raw(found.gid.as_raw()));
        Self { name: found.name, uid, gid }
    }
}

impl User {
    /// Gives this process, which has no other thread, the groups of the user; the user's own alone where that is all it may have.
    pub(crate) fn join_groups(&self, doing: impl Fn() -> String) -> Result<(), Failure> {
        let name = CString::new(self.name.as_str()).map_err(|error| Failure::other(doing(), error))?;
        initgroups(&name, nix::unistd::Gid::from_raw(self.gid.as_raw()))
            .or_else(|_| set_thread_groups(&[self.gid]))
            .doing(doing)
    }
}

/// The user with this name, or else with this number.
pub(crate) fn find(name: &str) -> Result<User, Failure> {
    let doing = || format!("find the user {name}");
    let by_name = nix::unistd::User::from_name(name).doing(doing)?;
    let by_id = || {
        let uid = nix::unistd::Uid::from_raw(name.parse().ok()?);
        nix::unistd::User::from_uid(uid).ok().flatten()
    };
    by_name.or_else(by_id).map(User::from).ok_or_else(|| Failure::other(doing(), "there is none"))
}
