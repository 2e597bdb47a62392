//! What a job may say of a container. All else is refused by name, `mounts`, `volumes` and `privileged` among it.

use serde::Deserialize;

use crate::drivers::settings::setup;
use crate::lifecycle::StartFailure;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// The absolute path of a root directory, or of a tar archive of one, gzipped or not.
    pub(super) image: String,
    command: String,
    args: Vec<String>,
    entrypoint: Vec<String>,
    /// `/` unless said.
    pub(super) work_dir: String,
    network_mode: String,
    /// Labels of the group's ports; with the host's network there is nothing to map.
    ports: Vec<String>,
    /// Processes and threads at a time.
    pub(super) pids_limit: Option<i64>,
}

/// Which network a container sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Network {
    /// The host's own.
    Host,
    /// Nothing but itself.
    None,
}

impl Settings {
    /// The command line.
    pub(super) fn command_line(&self) -> Result<Vec<String>, StartFailure> {
        let command = Some(self.command.clone()).filter(|command| !command.is_empty());
        let line: Vec<_> =
            self.entrypoint.iter().cloned().chain(command).chain(self.args.iter().cloned()).collect();
        if line.is_empty() {
            Err(setup("read the container's settings: there is no command"))
        } else {
            Ok(line)
        }
    }

    /// Who needs no port needs no network, unless the job says so.
    pub(super) fn network(&self) -> Result<Network, StartFailure> {
        match self.network_mode.as_str() {
            "host" => Ok(Network::Host),
            "none" => Ok(Network::None),
            "" if self.ports.is_empty() => Ok(Network::None),
            "" => Ok(Network::Host),
            other => Err(setup(format!(
                "read the container's settings: network_mode {other:?} is neither \"host\" nor \"none\""
            ))),
        }
    }
}
