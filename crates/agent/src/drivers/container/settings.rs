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
    pids_limit: Option<i64>,
}

/// Processes and threads of a container that asks for no other limit.
const PIDS_LIMIT: i64 = 4_096;

/// The most that one may ask for.
const PIDS_LIMIT_MAX: i64 = 65_536;

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

    /// How many processes and threads it may have at a time.
    pub(super) fn pids_limit(&self) -> Result<i64, StartFailure> {
        match self.pids_limit {
            None => Ok(PIDS_LIMIT),
            Some(limit) if (1..=PIDS_LIMIT_MAX).contains(&limit) => Ok(limit),
            Some(limit) => Err(setup(format!(
                "read the container's settings: pids_limit {limit} is none of 1 to {PIDS_LIMIT_MAX}; without it the \
                 limit is {PIDS_LIMIT}"
            ))),
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
