//! Ends tasks that a killed `berth dev` left running: no later agent would take them over.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use berth_agent::{Agent, ShutdownMode};

use super::scratch::PREFIX;
use crate::{commands::agent, failure::Failure, settings::Settings};

/// As many are dealt with at a start.
const DIRS_MAX: usize = 100;

/// Ends the tasks of those whose directories would have gone with them, and removes these.
pub(super) async fn end(settings: &Settings) -> Result<(), Failure> {
    for dir in abandoned(&std::env::temp_dir()) {
        tracing::warn!(dir = %dir.display(), "ending tasks left by a berth dev that was killed");
        // Nobody is to be informed of it: the servers that it knew are gone.
        let _ = fs::remove_file(dir.join("agent/servers"));
        // An agent that is asked to stop before it has begun takes the tasks up and ends them, as it always does.
        let config = agent::config(settings, &dir, Vec::new(), &[])?;
        let ended = Agent::run(config, std::future::ready(()), ShutdownMode::StopTasks).await;
        let removed = ended.map_err(|failure| failure.to_string());
        let removed = removed.and_then(|()| fs::remove_dir_all(&dir).map_err(|error| error.to_string()));
        if let Err(reason) = removed {
            tracing::warn!(dir = %dir.display(), reason, "could not remove what a berth dev left");
        }
    }
    Ok(())
}

fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX));
    named.map(|entry| entry.path()).filter(|dir| is_own(dir) && is_abandoned(dir)).take(DIRS_MAX).collect()
}

/// Anybody may make a directory of such a name there.
fn is_own(dir: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    dir.symlink_metadata().is_ok_and(|found| found.is_dir() && found.uid() == me && found.mode() & 0o022 == 0)
}

/// Whoever uses it has locked it, and only then written who that is: one that has just been made is nobody's yet.
fn is_abandoned(dir: &Path) -> bool {
    let lock = dir.join("agent/lock");
    let was_used = fs::read_to_string(&lock).is_ok_and(|pid| !pid.is_empty());
    was_used && File::open(&lock).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_what_was_used_and_is_not_is_abandoned() {
        let parent = tempfile::tempdir().expect("a directory");
        let make = |name: &str, mode: u32, pid: Option<&str>| {
            let dir = parent.path().join(name);
            fs::create_dir_all(dir.join("agent")).expect("made");
            fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("set");
            if let Some(pid) = pid {
                fs::write(dir.join("agent/lock"), pid).expect("written");
            }
            dir
        };
        let left = make("berth-dev-left", 0o755, Some("1"));
        let used = make("berth-dev-used", 0o700, Some("2"));
        make("berth-dev-new", 0o700, None);
        make("berth-dev-begun", 0o700, Some(""));
        make("berth-dev-open", 0o777, Some("3"));
        make("other", 0o700, Some("4"));
        std::os::unix::fs::symlink(&left, parent.path().join("berth-dev-link")).expect("linked");
        let lock = File::open(used.join("agent/lock")).expect("open");
        lock.try_lock().expect("locked");
        assert_eq!(abandoned(parent.path()), [left]);
    }
}
