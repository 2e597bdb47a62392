//! What a job may say of a container. All else is refused by name, `mounts`, `volumes` and `privileged` among it.

use serde::Deserialize;

use berth_api::agent::PortBinding;

use crate::drivers::settings::setup;
use crate::keeper::plan::Forward;
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
    /// Labels of the group's ports, which lead to it; with the host's network there is nothing to forward.
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
    /// Nothing but itself, and what connects to its ports.
    Own,
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

    /// Whoever has the host's network reaches every service of the host: only where the operator allows it.
    pub(super) fn network(&self, host_allowed: bool) -> Result<Network, StartFailure> {
        let refused = |why: String| Err(setup(format!("read the container's settings: network_mode {why}")));
        match self.network_mode.as_str() {
            "host" if host_allowed => Ok(Network::Host),
            "host" => refused(
                "\"host\" would let it reach all that listens on this node, Berth's own API included: leave it out \
                 and name its ports in `ports`, or have the agent started with --host-network"
                    .into(),
            ),
            "none" if !self.ports.is_empty() => refused("\"none\" leaves no use for `ports`".into()),
            "none" | "" => Ok(Network::Own),
            other => refused(format!("{other:?} is neither \"host\" nor \"none\"")),
        }
    }

    /// The ports of an allocation that lead to a container with a network of its own.
    pub(super) fn forwards(
        &self,
        bindings: &[PortBinding],
        host_ip: &str,
    ) -> Result<Vec<Forward>, StartFailure> {
        let forward = |label: &String| {
            let Some(binding) = bindings.iter().find(|binding| binding.label == *label) else {
                let known: Vec<_> = bindings.iter().map(|binding| binding.label.as_str()).collect();
                return Err(setup(format!(
                    "read the container's settings: `ports` names {label:?}, and the group's network has {}",
                    if known.is_empty() { "no ports".to_owned() } else { known.join(", ") }
                )));
            };
            let PortBinding { host_port, to, .. } = *binding;
            let port = if to == 0 { host_port } else { to };
            Ok(Forward { label: label.clone(), host_ip: host_ip.to_owned(), host_port, port })
        };
        self.ports.iter().map(forward).collect()
    }
}
