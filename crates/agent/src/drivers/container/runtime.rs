//! The OCI runtime of the host: where it is, and whether it is one.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::geteuid;

use crate::program::{self, ProgramOutput};

/// Names of OCI runtimes, in order of preference.
const RUNTIMES: [&str; 2] = ["crun", "runc"];

const SEARCHED: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// How long a runtime may take for all that it is asked.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A state directory that stays empty: what the host's containers do meanwhile, and what is left of broken ones, changes nothing.
const NO_CONTAINERS: &str = "/run/berth/no-containers";

/// A container that is not there.
const NO_CONTAINER: &str = "berth-no-such-container";

/// The path of the OCI runtime, or why there is none that can be used.
pub(super) fn find(configured: &str) -> Result<String, String> {
    if !geteuid().is_root() {
        return Err("the agent does not run as root, which making containers needs".into());
    }
    if !configured.is_empty() {
        let exists = Path::new(configured).is_file();
        return if exists {
            Ok(configured.into())
        } else {
            Err(format!("there is no OCI runtime at {configured}"))
        };
    }
    let mut paths = RUNTIMES.iter().flat_map(|name| SEARCHED.map(|dir| Path::new(dir).join(name)));
    let found = paths.find(|path| path.is_file()).map(|path| path.to_string_lossy().into_owned());
    found.ok_or_else(|| "there is no OCI runtime: install crun or runc".into())
}

/// The runtime that was found to be one. A node is fingerprinted every few seconds: what does not change is not checked again.
#[derive(Debug, Default)]
pub(in crate::drivers) struct CheckedRuntime(Mutex<Option<FoundRuntime>>);

/// A program, and what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FoundRuntime {
    path: String,
    version: String,
}

impl CheckedRuntime {
    /// The version of a runtime, as `crun version 1.8.1`; why it cannot be used, if it does not do what every OCI runtime does.
    /// Another program would be found out only by the first container, which it would fail or, worse, claim to have started.
    pub(super) fn version_of(&self, runtime: &str) -> Result<String, String> {
        self.version_with(runtime, Path::new(NO_CONTAINERS))
    }

    fn version_with(&self, runtime: &str, state: &Path) -> Result<String, String> {
        let deadline = Instant::now() + WAIT_MAX;
        let answer = ask(runtime, &["--version"], deadline)?;
        if !answer.status.success() {
            return Err(failed(runtime, "--version", &answer));
        }
        let found = FoundRuntime { path: runtime.to_owned(), version: first_line(&answer.stdout) };
        let mut checked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if checked.as_ref() != Some(&found) {
            has_no_containers(runtime, state, deadline)?;
            *checked = Some(found.clone());
        }
        Ok(found.version)
    }
}

/// Refuses what does not list the containers of an empty state directory, or knows one in it.
fn has_no_containers(runtime: &str, state: &Path, deadline: Instant) -> Result<(), String> {
    let root = state.to_string_lossy();
    fs::create_dir_all(state).map_err(|error| format!("make the directory {root}: {error}"))?;
    let list = ask(runtime, &["--root", &*root, "list"], deadline)?;
    if !list.status.success() {
        return Err(failed(runtime, "list", &list));
    }
    if ask(runtime, &["--root", &*root, "state", NO_CONTAINER], deadline)?.status.success() {
        return Err(format!(
            "{runtime} is not an OCI runtime: {runtime} state {NO_CONTAINER} succeeds, and there is no such container"
        ));
    }
    Ok(())
}

fn ask(runtime: &str, arguments: &[&str], deadline: Instant) -> Result<ProgramOutput, String> {
    let remaining = deadline.saturating_duration_since(Instant::now());
    let answer = program::run(Command::new(runtime).args(arguments), b"", remaining);
    answer.map_err(|error| format!("the OCI runtime {runtime} cannot be run: {error}"))
}

fn failed(runtime: &str, command: &str, answer: &ProgramOutput) -> String {
    let (status, why) = (answer.status, first_line(&answer.stderr));
    format!("the OCI runtime does not work: {runtime} {command} ended with {status}: {why}")
}

fn first_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A program of that script.
    fn program(dir: &Path, script: &str) -> String {
        let path = dir.join("program");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it may be executed");
        path.to_str().expect("a path of text").to_owned()
    }

    /// What is found of a program of that script.
    fn check(script: &str) -> Result<String, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let program = program(dir.path(), script);
        CheckedRuntime::default().version_with(&program, &dir.path().join("state"))
    }

    #[test]
    fn what_answers_everything_is_no_runtime() {
        let why = check("echo some version 1.0").expect_err("it is none");
        assert!(why.contains("is not an OCI runtime"), "{why}");
    }

    #[test]
    fn what_lists_no_containers_is_no_runtime() {
        let other = r#"[ "$1" = --version ] && exec echo other 1.0; echo "unknown command $3" >&2; exit 2"#;
        let why = check(other).expect_err("it is none");
        assert!(why.ends_with("unknown command list"), "{why}");
    }

    #[test]
    fn what_does_as_runtimes_do_is_one() {
        let runtime = r#"[ "$3" = state ] && exit 1; echo runtime version 1.0"#;
        assert_eq!(check(runtime), Ok("runtime version 1.0".to_owned()));
    }

    #[test]
    fn a_runtime_is_checked_again_only_where_it_changes() {
        let dir = tempfile::tempdir().expect("a directory");
        let (checked, state) = (CheckedRuntime::default(), dir.path().join("state"));
        let runtime =
            r#"[ "$3" = state ] && exit 1; echo "$3" >> "${0%/*}/asked"; echo runtime version VERSION"#;
        for (version, lists) in [("1", 1), ("1", 1), ("2", 2)] {
            let program = program(dir.path(), &runtime.replace("VERSION", version));
            checked.version_with(&program, &state).expect("it is one");
            let asked = fs::read_to_string(dir.path().join("asked")).expect("it was asked");
            assert_eq!(asked.lines().filter(|line| *line == "list").count(), lists, "{asked}");
        }
    }
}
