//! A command within a container: the OCI runtime starts it there, and it becomes a child of this process.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, getpid};
use serde_json::{Value, json};

use crate::failure::{Failure, FailureContext};
use crate::keeper::container::{Container, private_dir};
use crate::keeper::keep::keeper_dir;
use crate::keeper::plan::{ContainerRun, StartRecord};

/// Starts it with the environment, user and limits of the container's own process.
pub(super) fn start(run: &ContainerRun, console_socket: &str) -> Result<Pid, Failure> {
    let mine = format!("exec-{}", getpid());
    // What is in the environment is no more for the disk than the container's own.
    let (process_file, pid_file) =
        (private_dir(keeper_dir()).join(format!("{mine}.json")), format!("{mine}.pid"));
    fs::write(&process_file, &run.config_json).doing(|| format!("write {}", process_file.display()))?;
    give_output(&run.config_json)?;
    let container = Container::known(&run.into()).with_log(&format!("{mine}.log"));
    let started = container.exec(&process_file, Path::new(&pid_file), console_socket);
    for file in [process_file, pid_file.into(), format!("{mine}.log").into()] {
        let _ = fs::remove_file(file);
    }
    started
}

/// Lets the command open its output again.
fn give_output(process: &str) -> Result<(), Failure> {
    let doing = || "read the command's description".to_owned();
    let process: Value = serde_json::from_str(process).map_err(|error| Failure::other(doing(), error))?;
    let first = StartRecord::read(keeper_dir())?.map_or(0, |start| start.first_id);
    let on_host = |name: &str| {
        process["user"][name].as_u64().and_then(|id| u32::try_from(id).ok()).unwrap_or(0) + first
    };
    super::process::ends()?.give(on_host("uid"), on_host("gid"))
}

/// The description of a process within the container that `config_json` describes, but with another command.
///
/// # Errors
/// When it describes none.
pub(crate) fn process_json(config_json: &str, command: &[String], tty: bool) -> Result<String, Failure> {
    let doing = || "read the container's config.json".to_owned();
    let mut config: Value =
        serde_json::from_str(config_json).map_err(|error| Failure::other(doing(), error))?;
    let mut process = config["process"].take();
    if !process.is_object() {
        return Err(Failure::other(doing(), "it describes no process"));
    }
    process["args"] = json!(command);
    process["terminal"] = json!(tty);
    Ok(process.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_all_that_the_container_has_but_its_own_arguments() {
        let config = r#"{"process": {"args": ["serve"], "cwd": "/srv", "env": ["A=1"], "terminal": false}, "root": {}}"#;
        let process = process_json(config, &["sh".into(), "-i".into()], true).unwrap();
        assert_eq!(process, r#"{"args":["sh","-i"],"cwd":"/srv","env":["A=1"],"terminal":true}"#);
        assert!(process_json("{}", &[], false).unwrap_err().to_string().ends_with("it describes no process"));
    }
}
