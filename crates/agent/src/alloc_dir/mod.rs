//! The directory of an allocation, made ready for one of its tasks: what tasks share, what is a task's own, and what is
//! there before it starts.

pub(crate) mod deleted;
mod payload;
pub(crate) mod secrets;
pub(crate) mod size;
mod sticky;

use berth_api::agent::TaskSpec;
use nix::unistd::User;

use crate::dirs::Dir;
use crate::drivers::Base;
use crate::failure::Failure;
use crate::keeper::container::MEMORY;
use crate::lifecycle::RunSpec;
use crate::place::AllocPlace;
use crate::shell::make_dir;
use crate::users;

/// Who the tasks of a group are, as far as the directories that they share depend on it: all of them set the same modes,
/// whichever of them starts last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sharers {
    /// One that lives on the host has a user of its own, who has to pass.
    pub(crate) host_users: bool,
    /// One is a container, whose users are anybody.
    pub(crate) containers: bool,
}

impl Sharers {
    /// Of the allocation's root and the directory of its tasks: private to the agent's user if that can be.
    fn mode(self) -> u32 {
        if self.host_users { 0o711 } else { 0o700 }
    }

    /// Of the directory that they share.
    fn shared_mode(self) -> u32 {
        match (self.containers, self.host_users) {
            // The host's users come here, too: what one has made no other removes.
            (true, true) => 0o1777,
            (true, false) => 0o777,
            (false, _) => self.mode(),
        }
    }
}

/// Makes all of it, for the task of that number. `user` owns it; empty for the agent's own.
pub(crate) fn make(
    place: &AllocPlace,
    run: &RunSpec,
    task: u16,
    user: &str,
    base: Base,
    sharers: Sharers,
) -> Result<(), Failure> {
    let spec = &run.group.tasks[usize::from(task)];
    let user = if user.is_empty() { None } else { Some(users::find(user)?) };
    let mode = sharers.mode();
    make_dir(place.root(), mode)?;
    let root = Dir::open(place.root())?;
    let shared = root.make("alloc", sharers.shared_mode())?;
    let own = root.make("tasks", mode)?.make(&spec.name, 0o755)?;
    sticky::take_over(run.previous.iter().map(|id| place.of(*id)), place, &spec.name)?;
    ["data", "tmp"].iter().try_for_each(|name| shared.make(name, 0o1777).map(drop))?;
    root.make("logs", 0o700)?;
    let keeper = root.make("keepers", 0o700)?.make(&spec.name, 0o700)?;
    let local = make_own(&own, user.as_ref(), base, has_secrets(spec))?;
    if base == Base::Container && has_secrets(spec) {
        secrets::mount_for_keeper(&keeper.make(MEMORY, 0o700)?, &keeper)?;
    }
    if base == Base::Container {
        // What the logs are mounted on, so that a task can read what the others print.
        shared.make("logs", 0o755)?;
    }
    if !spec.payload_file.is_empty() {
        payload::write(&local, &spec.payload_file, &run.group.payload, user.as_ref())?;
    }
    Ok(())
}

/// Whether the agent puts anything into a task's directory of secrets: then a container sees that very directory, and has none
/// of its own.
pub(crate) fn has_secrets(spec: &TaskSpec) -> bool {
    !spec.identities.is_empty() || !spec.secrets.is_empty()
}

/// A task's own directories; answers with the one for its files.
fn make_own(own: &Dir, user: Option<&User>, base: Base, has_secrets: bool) -> Result<Dir, Failure> {
    // Nobody but a container's own user comes to its directories, and who that is is known once its image is mounted.
    let modes = if base == Base::Container { [0o777; 3] } else { [0o755, 0o755, 0o700] };
    let make = |name: &str, mode| {
        let dir = own.make(name, mode)?;
        user.map_or(Ok(()), |user| dir.give(user))?;
        Ok(dir)
    };
    let local = make("local", modes[0])?;
    make("tmp", modes[1])?;
    let secrets_mode = if has_secrets { 0o700 } else { modes[2] };
    let secrets = make("secrets", secrets_mode)?;
    if (base == Base::Host || has_secrets) && secrets::mount_on(&secrets, own)? {
        make("secrets", secrets_mode)?;
    }
    user.map_or(Ok(()), |user| own.give(user))?;
    Ok(local)
}
