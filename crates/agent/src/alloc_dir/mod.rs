//! The directories of an allocation: those that its tasks share are made before the first of them starts, a task's own before that
//! task starts.

pub(crate) mod deleted;
mod payload;
pub(crate) mod secrets;
pub(crate) mod size;
mod sticky;

use berth_api::agent::{TaskSpec, TemplateSpec};

use crate::dirs::Dir;
use crate::drivers::RootFs;
use crate::failure::Failure;
use crate::keeper::container::MEMORY;
use crate::lifecycle::RunSpec;
use crate::paths::AllocPaths;
use crate::shell::make_dir;
use crate::users::{self, User};

/// Who the tasks of a group are, as far as the directories that they share depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sharers {
    /// One that lives on the host has a user of its own, who has to pass.
    pub(crate) host_users: bool,
    /// One is a container, whose users are anybody.
    pub(crate) containers: bool,
}

impl Sharers {
    /// The mode of the allocation's root and of the directory of its tasks: private to the agent's user where possible.
    fn mode(self) -> u32 {
        if self.host_users { 0o711 } else { 0o700 }
    }

    /// The mode of the directory that the tasks share.
    fn shared_mode(self) -> u32 {
        match (self.containers, self.host_users) {
            // The host's users come here, too: what one has made no other removes.
            (true, true) => 0o1777,
            (true, false) => 0o777,
            (false, _) => self.mode(),
        }
    }
}

/// Makes what its tasks share, and takes over what its predecessors left to any of them. Their names are plain ones.
pub(crate) fn make_shared(paths: &AllocPaths, run: &RunSpec, sharers: Sharers) -> Result<(), Failure> {
    let (tasks, mode) = (run.group.tasks.iter().map(|task| task.name.as_str()), sharers.mode());
    make_dir(paths.root(), mode)?;
    let root = Dir::open(paths.root())?;
    let shared = root.make("alloc", sharers.shared_mode())?;
    let own = root.make("tasks", mode)?;
    tasks.clone().try_for_each(|task| own.make(task, 0o755).map(drop))?;
    sticky::take_over(run.previous.iter().map(|id| paths.of(*id)), paths, tasks)?;
    fill_shared(&shared, sharers.containers)?;
    ["logs", "keepers"].iter().try_for_each(|name| root.make(name, 0o700).map(drop))
}

/// Again before each start of a task: one that ran may have removed what the next relies on, or put a link there.
fn fill_shared(shared: &Dir, for_containers: bool) -> Result<(), Failure> {
    ["data", "tmp"].iter().try_for_each(|name| shared.make(name, 0o1777).map(drop))?;
    if for_containers {
        // What the logs are mounted on, so that a task can read what the others print.
        shared.make("logs", 0o755)?;
    }
    Ok(())
}

/// Makes what is one task's own, beside what they share. `user` owns it; empty for the agent's own.
pub(crate) fn make_own(
    paths: &AllocPaths,
    run: &RunSpec,
    task: u16,
    user: &str,
    root_fs: RootFs,
) -> Result<(), Failure> {
    let spec = &run.group.tasks[usize::from(task)];
    let user = if user.is_empty() { None } else { Some(users::find(user)?) };
    let dir = |name: &str| Dir::open(&paths.root().join(name));
    fill_shared(&dir("alloc")?, root_fs == RootFs::Container)?;
    let own = dir("tasks")?.make(&spec.name, 0o755)?;
    let keeper = dir("keepers")?.make(&spec.name, 0o700)?;
    let local = make_dirs(&own, user.as_ref(), root_fs, has_secrets(spec))?;
    if root_fs == RootFs::Container && has_secrets(spec) {
        secrets::mount_for_keeper(&keeper.make(MEMORY, 0o700)?, &keeper)?;
    }
    if !spec.payload_file.is_empty() {
        payload::write(&local, &spec.payload_file, &run.group.payload, user.as_ref())?;
    }
    Ok(())
}

/// Whether the agent puts anything into a task's directory of secrets: then a container sees that very directory, and has none
/// of its own.
pub(crate) fn has_secrets(spec: &TaskSpec) -> bool {
    let is_secret = |template: &TemplateSpec| template.env || mentions_secrets(&template.destination);
    !spec.identities.is_empty() || !spec.secrets.is_empty() || spec.templates.iter().any(is_secret)
}

/// As a path, or by the name of a variable.
fn mentions_secrets(destination: &str) -> bool {
    destination.contains("secrets") || destination.contains("SECRETS")
}

/// A task's own directories; answers with the one for its files.
fn make_dirs(own: &Dir, user: Option<&User>, root_fs: RootFs, has_secrets: bool) -> Result<Dir, Failure> {
    // Nobody but a container's own user comes to its directories, and who that is is known once its image is mounted.
    let modes = if root_fs == RootFs::Container { [0o777; 3] } else { [0o755, 0o755, 0o700] };
    let make = |name: &str, mode| {
        let dir = own.make(name, mode)?;
        user.map_or(Ok(()), |user| dir.give(user))?;
        Ok(dir)
    };
    let local = make("local", modes[0])?;
    make("tmp", modes[1])?;
    let secrets_mode = if has_secrets { 0o700 } else { modes[2] };
    let secrets = make("secrets", secrets_mode)?;
    if (root_fs == RootFs::Host || has_secrets) && secrets::mount_on(&secrets, own)? {
        make("secrets", secrets_mode)?;
    }
    user.map_or(Ok(()), |user| own.give(user))?;
    Ok(local)
}
