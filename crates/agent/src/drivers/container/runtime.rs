//! The OCI runtime of the host: where it is, and whether it is one.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::unistd::{Uid, mkdtemp};

use crate::program::{self, ProgramOutput};

/// In order of preference.
const RUNTIMES: [&str; 2] = ["crun", "runc"];

const SEARCHED: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// How long a runtime may take for each question.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A container that no host has.
const NO_CONTAINER: &str = "berth-no-such-container";

/// The path of the OCI runtime, or why there is none that can be used.
pub(super) fn find(configured: &str) -> Result<String, String> {
    if !Uid::effective().is_root() {
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

/// The version of a runtime, as `crun version 1.8.1`; why it cannot be used, if it does not do what every OCI runtime does. Another
/// program would be found out only by the first container, which it would fail or, worse, claim to have started.
pub(super) fn check(runtime: &str) -> Result<String, String> {
    let version = ask(runtime, &["--version"])?;
    if !version.status.success() {
        return Err(failed(runtime, "--version", &version));
    }
    // A state directory of its own: what the host's containers do meanwhile, and what is left of broken ones, changes nothing.
    let root = mkdtemp(&env::temp_dir().join("berth-runtime-XXXXXX"))
        .map_err(|error| format!("make a directory to check the OCI runtime in: {error}"))?;
    let checked = lists_no_containers(runtime, &root);
    let _ = fs::remove_dir_all(&root);
    checked.map(|()| first_line(&version.stdout))
}

/// Refuses what does not list the containers of an empty state directory, or knows one in it.
fn lists_no_containers(runtime: &str, root: &Path) -> Result<(), String> {
    let root = root.to_string_lossy();
    let list = ask(runtime, &["--root", &*root, "list"])?;
    if !list.status.success() {
        return Err(failed(runtime, "list", &list));
    }
    if ask(runtime, &["--root", &*root, "state", NO_CONTAINER])?.status.success() {
        return Err(format!(
            "{runtime} is not an OCI runtime: {runtime} state {NO_CONTAINER} succeeds, and there is no such container"
        ));
    }
    Ok(())
}

fn ask(runtime: &str, arguments: &[&str]) -> Result<ProgramOutput, String> {
    let answer = program::run(Command::new(runtime).args(arguments), b"", WAIT_MAX);
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

    #[test]
    fn what_answers_everything_is_no_runtime() {
        let dir = tempfile::tempdir().expect("a directory");
        let why = check(&program(dir.path(), "echo some version 1.0")).expect_err("it is none");
        assert!(why.contains("is not an OCI runtime"), "{why}");
    }

    #[test]
    fn what_lists_no_containers_is_no_runtime() {
        let dir = tempfile::tempdir().expect("a directory");
        let other = r#"[ "$1" = --version ] && exec echo other 1.0; echo "unknown command $3" >&2; exit 2"#;
        let why = check(&program(dir.path(), other)).expect_err("it is none");
        assert!(why.ends_with("unknown command list"), "{why}");
    }

    #[test]
    fn what_does_as_runtimes_do_is_one() {
        let dir = tempfile::tempdir().expect("a directory");
        let runtime = r#"[ "$3" = state ] && exit 1; echo runtime version 1.0"#;
        assert_eq!(check(&program(dir.path(), runtime)), Ok("runtime version 1.0".to_owned()));
    }
}
