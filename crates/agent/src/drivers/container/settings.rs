//! The settings that a job may give a container. All others are refused by name, `privileged` among them; servers refuse them too,
//! by the table in the crate of job files, when the job is submitted.

use std::ops::RangeInclusive;
use std::time::Duration;

use berth_api::agent::PortBinding;
use serde::Deserialize;

use super::capabilities::Rights;
use super::mounts::{self, Collector, Mounts};
use super::one_or_list;
use crate::drivers::settings::setup;
use crate::drivers::{ImageRequest, TaskContext};
use crate::images::{ImageConfig, PullPolicy, RegistryCredentials};
use crate::lifecycle::{RunSpec, StartFailure};
use crate::network::Mapping;
use crate::volumes::AllowedDir;

/// Settings of Nomad's that a task can do without: whoever registers it has been warned.
pub(super) const IGNORED: [&str; 9] = [
    "advertise_ipv6_address",
    "auth_soft_fail",
    "container_exists_attempts",
    "healthchecks",
    "interactive",
    "labels",
    "logging",
    "network_aliases",
    "oom_score_adj",
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ContainerSettings {
    /// The name of an image in a registry, or the absolute path of a root directory or of an archive.
    image: String,
    command: String,
    args: Vec<String>,
    #[serde(deserialize_with = "one_or_list::many_unless_null")]
    entrypoint: Option<Vec<String>>,
    /// The working directory; by default the image's, else `/`.
    work_dir: String,
    network_mode: String,
    /// Labels of the group's ports, which lead to it; with the host's network there is nothing to forward.
    ports: Vec<String>,
    /// Processes and threads at a time.
    pids_limit: Option<i64>,
    /// It gets no more of the processors than its part, though nobody else wants them.
    cpu_hard_limit: bool,
    /// Microseconds within which that holds.
    cpu_cfs_period: Option<u64>,
    /// Whom to be to the image's registry.
    #[serde(deserialize_with = "one_or_list::at_most_one")]
    auth: Option<Auth>,
    /// Ask the registry at each start whether the image is still the same: the policy `always`.
    force_pull: bool,
    /// When its registry is asked for the image: `always`, `missing` or `never`; unless said, at each start for a tag
    /// `latest`, and else as `missing`.
    pull_policy: String,
    /// How long a task waits for its image.
    image_pull_timeout: String,
    hostname: String,
    /// Its own files cannot be changed; `/alloc`, `/local`, `/secrets` and what is mounted can.
    pub(super) readonly_rootfs: bool,
    /// `host` to have the host's users, where the operator allows that.
    userns_mode: String,
    /// Rights that it does without, of those that containers have; `all` for all.
    cap_drop: Vec<String>,
    cap_add: Vec<String>,
    /// What it sees of directories of the node and of its allocation, and memory.
    #[serde(deserialize_with = "one_or_list::many")]
    mount: Vec<mounts::MountBlock>,
    /// The same, as a list.
    #[serde(deserialize_with = "one_or_list::many")]
    mounts: Vec<mounts::MountBlock>,
    /// The same, as `SOURCE:DESTINATION`.
    volumes: Vec<String>,
    /// Its root is made of the host's files, and its user is not root: the rights that it names are that user's.
    #[serde(skip)]
    pub(super) is_of_host: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a block")]
struct Auth {
    username: String,
    password: String,
    /// Known from the image's name.
    #[serde(rename = "server_address")]
    _server_address: String,
    /// Accepted and not used: Nomad has it for people.
    #[serde(rename = "email")]
    _email: String,
}

/// How long a task waits for its image when its job does not say.
const IMAGE_PULL_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Processes and threads of a container that asks for no other limit.
const PIDS_LIMIT: i64 = 4_096;

/// The most that one may ask for.
const PIDS_LIMIT_MAX: i64 = 65_536;

/// Microseconds within which a hard limit of processor time holds, where the job does not say; and what the kernel takes.
const CPU_PERIOD_US: u64 = 100_000;
const CPU_PERIODS_US: RangeInclusive<u64> = 1_000..=1_000_000;

/// Which network a container sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NetworkMode {
    /// The host's network.
    Host,
    /// The network that the allocation's tasks share.
    Shared,
    /// One for itself alone: where the node has none to give, nothing but what connects to its ports.
    Own,
    /// A network namespace with nothing but a loopback device.
    Nothing,
}

fn wrong(why: impl AsRef<str>) -> StartFailure {
    setup(format!("read the container's settings: {}", why.as_ref()))
}

impl ContainerSettings {
    /// Of a command of the host: it has the rights that it names, and no others.
    pub(super) fn of_exec(
        command: String,
        args: Vec<String>,
        work_dir: String,
        cap_add: Vec<String>,
        mut cap_drop: Vec<String>,
    ) -> Self {
        cap_drop.push("all".into());
        let (readonly_rootfs, is_of_host) = (true, true);
        Self { command, args, work_dir, cap_add, cap_drop, readonly_rootfs, is_of_host, ..Self::default() }
    }

    /// What has to be there before it can start.
    pub(super) fn image_request(&self) -> Result<ImageRequest, StartFailure> {
        if self.image.is_empty() {
            return Err(wrong("there is no image"));
        }
        let timeout = match self.image_pull_timeout.as_str() {
            "" => IMAGE_PULL_TIMEOUT,
            text => berth_duration::parse(text).filter(|time| !time.is_zero()).ok_or_else(|| {
                wrong(format!("image_pull_timeout {text:?} is not a duration such as \"5m\""))
            })?,
        };
        let credentials = self.auth.as_ref().filter(|auth| !auth.username.is_empty()).map(|auth| {
            RegistryCredentials::Password { username: auth.username.clone(), password: auth.password.clone() }
        });
        Ok(ImageRequest { name: self.image.clone(), credentials, policy: self.pull_policy()?, timeout })
    }

    fn pull_policy(&self) -> Result<PullPolicy, StartFailure> {
        match (self.pull_policy.as_str(), self.force_pull) {
            ("always", _) | ("", true) => Ok(PullPolicy::Always),
            ("missing" | "never", true) => Err(wrong(format!(
                "force_pull contradicts pull_policy {:?}: leave one of them out",
                self.pull_policy
            ))),
            ("", false) => Ok(PullPolicy::ByTag),
            ("missing", false) => Ok(PullPolicy::Missing),
            ("never", false) => Ok(PullPolicy::Never),
            (other, _) => Err(wrong(format!("pull_policy {other:?} is none of always, missing and never"))),
        }
    }

    /// The command line: what the job says, else what the image says. A job that has an entrypoint of its own has no use
    /// for arguments that were meant for another.
    pub(super) fn command_line(&self, image: &ImageConfig) -> Result<Vec<String>, StartFailure> {
        let command = Some(self.command.clone()).filter(|command| !command.is_empty());
        let own: Vec<String> = command.into_iter().chain(self.args.iter().cloned()).collect();
        let entrypoint = self.entrypoint.as_ref();
        let rest = if own.is_empty() && entrypoint.is_none() { image.command.clone() } else { own };
        let line: Vec<_> = entrypoint.unwrap_or(&image.entrypoint).iter().cloned().chain(rest).collect();
        if line.first().is_none_or(String::is_empty) {
            Err(wrong("there is no command, and the image names none"))
        } else {
            Ok(line)
        }
    }

    /// The directory in which the process starts.
    pub(super) fn work_dir(&self, image: &ImageConfig) -> Result<String, StartFailure> {
        let dir = if self.work_dir.is_empty() { &image.work_dir } else { &self.work_dir };
        match dir.as_str() {
            "" => Ok("/".into()),
            dir if dir.starts_with('/') => Ok(dir.into()),
            dir => Err(wrong(format!("the working directory {dir:?} is not an absolute path"))),
        }
    }

    /// The name that it has for itself.
    pub(super) fn hostname(&self, run: &RunSpec, of_group: &str) -> Result<String, StartFailure> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        match if self.hostname.is_empty() { of_group } else { &self.hostname } {
            "" => Ok(run.alloc.to_string()[..8].into()),
            name if name.len() <= 64 && name.chars().all(fits) => Ok(name.into()),
            name => {
                Err(wrong(format!("the hostname {name:?} is not made of up to 64 letters, digits, - and .")))
            }
        }
    }

    /// The rights of its root, or of its user where it is a command of the host, on a node that lets containers add these too.
    pub(super) fn capabilities(&self, extra: &[&'static str]) -> Result<Vec<&'static str>, StartFailure> {
        let rights = if self.is_of_host { Rights::of_host() } else { Rights::of_containers(extra) };
        rights.granted(&self.cap_add, &self.cap_drop).map_err(wrong)
    }

    /// What it mounts, of what the operator allows.
    pub(super) fn mounts(
        &self,
        task: &TaskContext<'_>,
        allowed: &[AllowedDir],
    ) -> Result<Mounts, StartFailure> {
        let blocks = self.mount.iter().chain(&self.mounts);
        Collector::new(task, allowed).collect(blocks, &self.volumes)
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

    /// Microseconds of processor time that it may have in each period of so many; none where it may have what nobody else
    /// wants. A core of `core_mhz` gives a period's time in each period.
    pub(super) fn cpu_quota(&self, cpu_mhz: u32, core_mhz: u32) -> Result<Option<(u64, u64)>, StartFailure> {
        let period = self.cpu_cfs_period.unwrap_or(CPU_PERIOD_US);
        if !CPU_PERIODS_US.contains(&period) {
            let (least, most) = CPU_PERIODS_US.into_inner();
            return Err(wrong(format!("cpu_cfs_period {period} is none of {least} to {most} microseconds")));
        }
        if !self.cpu_hard_limit {
            return Ok(None);
        }
        if core_mhz == 0 {
            return Err(wrong("cpu_hard_limit needs to know what a core has, and this node does not"));
        }
        let quota = period.saturating_mul(cpu_mhz.into()) / u64::from(core_mhz);
        Ok(Some((quota.max(*CPU_PERIODS_US.start()), period)))
    }

    /// Whose root is the host's may do there whatever it gets at.
    pub(super) fn has_own_users(&self, host_allowed: bool) -> Result<bool, StartFailure> {
        match self.userns_mode.as_str() {
            "" | "private" => Ok(true),
            "host" if host_allowed => Ok(false),
            "host" => Err(wrong(
                "userns_mode \"host\" would make its root that of this node: leave it out, or have the agent started \
                 with --host-users",
            )),
            other => Err(wrong(format!("userns_mode {other:?} is none of \"private\" and \"host\""))),
        }
    }

    /// Whoever has the host's network reaches every service of the host: only where the operator allows it.
    pub(super) fn network(&self, run: &RunSpec, host_allowed: bool) -> Result<NetworkMode, StartFailure> {
        let refused = |why: String| Err(setup(format!("read the container's settings: network_mode {why}")));
        let of_group = run.group.network.as_ref().map_or("", |network| network.mode.as_str());
        match self.network_mode.as_str() {
            "host" | "none" if of_group == "bridge" => {
                refused(format!("{:?} contradicts the group's network of mode \"bridge\"", self.network_mode))
            }
            "host" if host_allowed => Ok(NetworkMode::Host),
            "host" => refused(
                "\"host\" would let it reach all that listens on this node, Berth's own API included: leave it out \
                 and name its ports in `ports`, or have the agent started with --host-network"
                    .into(),
            ),
            "none" if !self.ports.is_empty() => refused("\"none\" leaves no use for `ports`".into()),
            "none" => Ok(NetworkMode::Nothing),
            "" if of_group == "none" && !self.ports.is_empty() => {
                refused("is that of its group, \"none\", which leaves no use for `ports`".into())
            }
            "" if of_group == "none" => Ok(NetworkMode::Nothing),
            "" | "bridge" if of_group == "bridge" => Ok(NetworkMode::Shared),
            "" | "bridge" => Ok(NetworkMode::Own),
            other => refused(format!("{other:?} is none of \"bridge\", \"host\" and \"none\"")),
        }
    }

    /// The ports of an allocation that lead to a container with a network of its own.
    pub(super) fn mappings(
        &self,
        bindings: &[PortBinding],
        host_ip: &str,
    ) -> Result<Vec<Mapping>, StartFailure> {
        let mapping = |label: &String| {
            let Some(binding) = bindings.iter().find(|binding| binding.label == *label) else {
                let known: Vec<_> = bindings.iter().map(|binding| binding.label.as_str()).collect();
                return Err(setup(format!(
                    "read the container's settings: `ports` names {label:?}, and the group's network has {}",
                    if known.is_empty() { "no ports".to_owned() } else { known.join(", ") }
                )));
            };
            Ok(Mapping::of(binding, host_ip)?)
        };
        self.ports.iter().map(mapping).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Quota and period of a task of 500 MHz on cores of 2,000, or why there is none.
    fn quota(config: Value) -> Result<Option<(u64, u64)>, String> {
        let settings: ContainerSettings = serde_json::from_value(config).expect("settings");
        settings.cpu_quota(500, 2_000).map_err(|failure| failure.message)
    }

    #[test]
    fn a_hard_limit_is_the_tasks_part_of_a_core() {
        assert_eq!(quota(json!({})), Ok(None));
        assert_eq!(quota(json!({"cpu_hard_limit": true})), Ok(Some((25_000, 100_000))));
        let short = json!({"cpu_hard_limit": true, "cpu_cfs_period": 2_000});
        assert_eq!(quota(short), Ok(Some((1_000, 2_000))), "the kernel takes no less than a millisecond");
        let error = quota(json!({"cpu_cfs_period": 100})).expect_err("too short");
        assert!(error.contains("cpu_cfs_period 100 is none of 1000 to 1000000"), "{error}");
    }
}
