//! The drivers of Berth and their settings.

/// A driver, under all its names.
pub(super) struct Driver {
    pub names: &'static [&'static str],
    /// Whether a task, and each command within it, is kept from the rest of its node.
    pub contains: bool,
    /// Nothing runs without this setting; empty for none.
    pub needs: &'static str,
    pub settings: &'static [Setting],
}

pub(super) struct Setting {
    pub name: &'static str,
    pub setting_type: SettingType,
    pub support: Support,
    /// The block in which it stands is nothing without it.
    pub is_needed: bool,
}

/// The type of a setting, with the values it allows.
#[derive(Clone, Copy)]
pub(super) enum SettingType {
    Text,
    Flag,
    /// A list of texts.
    Texts,
    /// A list of texts, or one.
    Words,
    /// A number of this range.
    WholeOf(i64, i64),
    /// How long, as Go writes it.
    Duration,
    /// The same, and not nothing.
    Positive,
    /// A list of capabilities of the kernel, or `all`: these.
    Capabilities(&'static [&'static str], &'static str),
    /// One of these texts; what to do about another.
    OneOf(&'static [&'static str], &'static str),
    /// A list of texts, each `SOURCE:DESTINATION` or `SOURCE:DESTINATION:MODE`.
    Volumes,
    /// An absolute path, or none.
    Absolute,
    /// Up to 64 letters, digits, `-` and `.`, or none.
    HostName,
    /// Blocks that have these settings.
    Blocks(&'static [Setting]),
    /// Any value; it is not checked.
    Any,
}

/// Whether anything acts upon a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Support {
    Supported,
    /// Nothing acts upon it, and the task is the same without it.
    Ignored,
    /// Nothing acts upon it, and the task would be another one: what to do instead.
    Refused(&'static str),
}

const fn supported(name: &'static str, setting_type: SettingType) -> Setting {
    Setting { name, setting_type, support: Support::Supported, is_needed: false }
}

const fn needed(name: &'static str, setting_type: SettingType) -> Setting {
    Setting { is_needed: true, ..supported(name, setting_type) }
}

const fn ignored(name: &'static str) -> Setting {
    Setting { support: Support::Ignored, ..supported(name, SettingType::Any) }
}

const fn refused(name: &'static str, instead: &'static str) -> Setting {
    Setting { support: Support::Refused(instead), ..supported(name, SettingType::Any) }
}

const WITHOUT: &str = "leave it out";
const PULLED: &str = "leave it out, and it is pulled where it is missing";
const VOLUMES: &str =
    "name a host volume in the group's `volume` and mount it with the task's `volume_mount`";
const NETWORK: &str = "leave it out: a container has a network of its own, into which `ports` lead";
const PORTS: &str = "name ports in the group's `network` and list their labels in `ports`";
const HOST: &str = "leave it out: nothing of a container reaches its host";

/// What nodes give to containers: what those have unless they drop it, and what operators can let them add.
static GIVEN: [&str; 14] = [
    "audit_write",
    "chown",
    "dac_override",
    "fowner",
    "fsetid",
    "kill",
    "net_bind_service",
    "net_raw",
    "setfcap",
    "setgid",
    "setpcap",
    "setuid",
    "sys_chroot",
    "sys_ptrace",
];

/// All that the kernel knows (capability.h of Linux 6.1).
static KNOWN: [&str; 41] = [
    "audit_control",
    "audit_read",
    "audit_write",
    "block_suspend",
    "bpf",
    "checkpoint_restore",
    "chown",
    "dac_override",
    "dac_read_search",
    "fowner",
    "fsetid",
    "ipc_lock",
    "ipc_owner",
    "kill",
    "lease",
    "linux_immutable",
    "mac_admin",
    "mac_override",
    "mknod",
    "net_admin",
    "net_bind_service",
    "net_broadcast",
    "net_raw",
    "perfmon",
    "setfcap",
    "setgid",
    "setpcap",
    "setuid",
    "sys_admin",
    "sys_boot",
    "sys_chroot",
    "sys_module",
    "sys_nice",
    "sys_pacct",
    "sys_ptrace",
    "sys_rawio",
    "sys_resource",
    "sys_time",
    "sys_tty_config",
    "syslog",
    "wake_alarm",
];

const ADDED: SettingType = SettingType::Capabilities(
    &GIVEN,
    "containers may have audit_write, chown, dac_override, fowner, fsetid, kill, net_bind_service, \
     setfcap, setgid, setpcap, setuid and sys_chroot, where agents have --extra-capabilities also net_raw \
     and sys_ptrace, and no others",
);
/// For a command of the host: with the others its user would reach all files of the host that its root shows.
static EXEC_ARGUMENTS: [&str; 4] = ["audit_write", "kill", "net_bind_service", "sys_chroot"];
const ADDED_TO_EXEC: SettingType = SettingType::Capabilities(
    &EXEC_ARGUMENTS,
    "a command of the host may have audit_write, kill, net_bind_service and sys_chroot, and no others",
);
const DROPPED: SettingType =
    SettingType::Capabilities(&KNOWN, "write a name as in capabilities(7), or `all`");

static AUTH: [Setting; 4] = [
    supported("username", SettingType::Text),
    supported("password", SettingType::Text),
    // The image's name says which registry it is for, and people what it is.
    supported("server_address", SettingType::Text),
    supported("email", SettingType::Text),
];

static MOUNT: [Setting; 7] = [
    needed("type", SettingType::OneOf(&["bind", "tmpfs"], VOLUMES)),
    needed("target", SettingType::Text),
    supported("source", SettingType::Text),
    supported("readonly", SettingType::Flag),
    supported("bind_options", SettingType::Blocks(&BIND_OPTIONS)),
    supported("tmpfs_options", SettingType::Blocks(&TMPFS_OPTIONS)),
    refused("volume_options", VOLUMES),
];

static BIND_OPTIONS: [Setting; 1] =
    [supported("propagation", SettingType::OneOf(&["private", "rprivate"], WITHOUT))];

static TMPFS_OPTIONS: [Setting; 2] = [
    supported("size", SettingType::WholeOf(1, i64::MAX)),
    supported("mode", SettingType::WholeOf(0, 0o7777)),
];

/// What a process may say of its end.
const EXIT: SettingType = SettingType::WholeOf(i32::MIN as i64, i32::MAX as i64);

pub(super) static DRIVERS: [Driver; 4] = [
    Driver {
        names: &["container", "docker"],
        contains: true,
        needs: "image",
        settings: &[
            supported("image", SettingType::Text),
            supported("command", SettingType::Text),
            supported("args", SettingType::Texts),
            supported("entrypoint", SettingType::Words),
            supported("work_dir", SettingType::Absolute),
            supported("network_mode", SettingType::OneOf(&["bridge", "host", "none"], NETWORK)),
            supported("ports", SettingType::Texts),
            supported("pids_limit", SettingType::WholeOf(1, 65_536)),
            supported("cpu_hard_limit", SettingType::Flag),
            supported("cpu_cfs_period", SettingType::WholeOf(1_000, 1_000_000)),
            supported("auth", SettingType::Blocks(&AUTH)),
            supported("force_pull", SettingType::Flag),
            supported("image_pull_timeout", SettingType::Positive),
            supported("pull_policy", SettingType::OneOf(&["always", "missing", "never"], PULLED)),
            supported("hostname", SettingType::HostName),
            supported("readonly_rootfs", SettingType::Flag),
            supported("userns_mode", SettingType::OneOf(&["host", "private"], HOST)),
            supported("cap_drop", DROPPED),
            supported("cap_add", ADDED),
            supported("mount", SettingType::Blocks(&MOUNT)),
            supported("mounts", SettingType::Blocks(&MOUNT)),
            supported("volumes", SettingType::Volumes),
            ignored("advertise_ipv6_address"),
            ignored("auth_soft_fail"),
            ignored("container_exists_attempts"),
            ignored("healthchecks"),
            ignored("interactive"),
            ignored("labels"),
            ignored("logging"),
            ignored("network_aliases"),
            ignored("oom_score_adj"),
            refused("cgroupns", HOST),
            refused("cpuset_cpus", "ask for `cores` in the task's `resources`"),
            refused("devices", "ask for a `device` in the task's `resources`"),
            refused("dns_options", NETWORK),
            refused("dns_search_domains", NETWORK),
            refused("dns_servers", NETWORK),
            refused("extra_hosts", NETWORK),
            refused("group_add", "name the group after the task's `user`, with a colon"),
            refused("init", WITHOUT),
            refused("ipc_mode", HOST),
            refused("ipv4_address", NETWORK),
            refused("ipv6_address", NETWORK),
            refused("isolation", WITHOUT),
            refused("load", "name the archive as the `image`, where the node allows it"),
            refused("mac_address", NETWORK),
            refused("memory_hard_limit", "say it as `memory_max` in the task's `resources`"),
            refused("pid_mode", HOST),
            refused("port_map", PORTS),
            refused("privileged", HOST),
            refused("runtime", "the node's operator chooses the runtime"),
            refused("security_opt", HOST),
            refused("shm_size", WITHOUT),
            refused("storage_opt", WITHOUT),
            refused("sysctl", HOST),
            refused("tty", WITHOUT),
            refused("ulimit", WITHOUT),
            refused("uts_mode", HOST),
            refused("volume_driver", VOLUMES),
            refused("windows_allow_insecure_container_admin", WITHOUT),
        ],
    },
    Driver {
        names: &["exec"],
        contains: true,
        needs: "command",
        settings: &[
            supported("command", SettingType::Text),
            supported("args", SettingType::Texts),
            supported("work_dir", SettingType::Absolute),
            supported("pid_mode", SettingType::OneOf(&["private"], HOST)),
            supported("ipc_mode", SettingType::OneOf(&["private"], HOST)),
            supported("cap_add", ADDED_TO_EXEC),
            supported("cap_drop", DROPPED),
            refused("cgroup_v1_override", WITHOUT),
            refused("cgroup_v2_override", WITHOUT),
            refused("denied_envvars", WITHOUT),
            refused("oom_score_adj", WITHOUT),
        ],
    },
    Driver {
        names: &["raw_exec"],
        contains: false,
        needs: "command",
        settings: &[
            supported("command", SettingType::Text),
            supported("args", SettingType::Texts),
            supported("work_dir", SettingType::Text),
            refused("cgroup_v1_override", WITHOUT),
            refused("cgroup_v2_override", WITHOUT),
            refused("denied_envvars", WITHOUT),
            refused("oom_score_adj", WITHOUT),
        ],
    },
    Driver {
        names: &["mock_driver"],
        contains: true,
        needs: "",
        settings: &[
            supported("start_events", SettingType::WholeOf(0, 65_535)),
            supported("start_event_gap", SettingType::Duration),
            supported("start_block_for", SettingType::Duration),
            supported("start_error", SettingType::Text),
            supported("start_error_recoverable", SettingType::Flag),
            supported("run_for", SettingType::Duration),
            supported("exit_code", EXIT),
            supported("exit_signal", EXIT),
            supported("exit_err_msg", SettingType::Text),
            supported("signal_error", SettingType::Text),
            supported("checks_fail_for", SettingType::Duration),
            supported("checks_fail_after", SettingType::Duration),
            supported("kill_after", SettingType::Duration),
            supported("stdout_string", SettingType::Text),
            supported("stdout_repeat", SettingType::WholeOf(0, i64::MAX)),
            supported("stdout_repeat_duration", SettingType::Duration),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    /// What the `docker` driver of Nomad takes, by its documentation.
    const NOMADS: &str = "advertise_ipv6_address args auth auth_soft_fail cap_add cap_drop cgroupns command \
        container_exists_attempts cpu_cfs_period cpu_hard_limit cpuset_cpus devices dns_options dns_search_domains \
        dns_servers entrypoint extra_hosts force_pull group_add healthchecks hostname image image_pull_timeout init \
        interactive ipc_mode ipv4_address ipv6_address isolation labels load logging mac_address memory_hard_limit mount \
        mounts network_aliases network_mode oom_score_adj pid_mode pids_limit port_map ports privileged readonly_rootfs \
        runtime security_opt shm_size storage_opt sysctl tty ulimit userns_mode uts_mode volume_driver volumes \
        windows_allow_insecure_container_admin work_dir";

    #[test]
    fn each_setting_of_nomads_docker_is_done_or_named_as_not_done() {
        let docker = DRIVERS.iter().find(|driver| driver.names.contains(&"docker")).expect("a driver");
        let unknown =
            NOMADS.split(' ').filter(|name| !docker.settings.iter().any(|setting| setting.name == *name));
        assert_eq!(unknown.collect::<Vec<_>>(), [""; 0]);
        // Whatever else it takes is Berth's own.
        let own = docker.settings.iter().map(|setting| setting.name);
        let own = own.filter(|name| !NOMADS.split(' ').any(|nomads| nomads == *name));
        assert_eq!(own.collect::<Vec<_>>(), ["pull_policy"]);
    }
}
