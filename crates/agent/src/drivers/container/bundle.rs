//! The config.json of a container: what the OCI runtime is given (opencontainers/runtime-spec 1.0.2).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::{Value, json};

use super::binds::Binds;
use super::device_files::{self, DeviceFile};
use super::settings::{ContainerSettings, NetworkMode};
use super::{Runtime, seccomp};
use crate::alloc_dir::has_secrets;
use crate::alloc_dir::secrets::API_SOCKET;
use crate::drivers::TaskContext;
use crate::images::ImageConfig;
use crate::keeper::plan::{BindSource, ContainerRun};
use crate::keeper::{IDS, oom_score, open_files, stage};
use crate::lifecycle::StartFailure;

/// Where programs are looked for when neither the image nor the job says.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a task keeps what nobody else is to read.
pub(crate) const SECRETS: &str = "/secrets";

/// The fewest cpu shares the kernel knows.
const CPU_SHARES_MIN: u32 = 2;

/// Parts of /proc and /sys that reveal too much of the host.
const MASKED: [&str; 24] = [
    "/proc/acpi",
    "/proc/asound",
    "/proc/buddyinfo",
    "/proc/interrupts",
    "/proc/iomem",
    "/proc/ioports",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/pagetypeinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/vmallocinfo",
    "/proc/zoneinfo",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

/// What is mounted besides what every container has.
#[derive(Default)]
pub(super) struct ExtraFiles {
    /// Mounted before all other mounts.
    pub(super) root: Vec<Value>,
    /// Mounted after all other mounts.
    pub(super) own: Vec<Value>,
    /// The sources that `root` and `own` bind.
    pub(super) binds: Binds,
}

/// What a keeper is given of a container, but for what its image alone says.
pub(super) fn container(
    task: &TaskContext<'_>,
    runtime: &Runtime,
    settings: &ContainerSettings,
    image: &ImageConfig,
    network: NetworkMode,
    mut files: ExtraFiles,
) -> Result<ContainerRun, StartFailure> {
    let devices = device_files::all(&task.share.device_files)?;
    let capabilities = settings.capabilities(&runtime.extra_capabilities)?;
    // Whoever is not root keeps only ambient ones.
    let ambient = if settings.is_of_host { capabilities.clone() } else { Vec::new() };
    let sys_network = sys_network(task, network);
    let (open_files, open_files_max) = open_files();
    let reserves_max = reserves_max(task, &files.own);
    let mounts = mounts(task, network, &devices, !sys_network.is_empty(), &mut files);
    let mut config = json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            // Who it runs as is known once its files are there: until then, root.
            "user": {"uid": 0, "gid": 0},
            "args": settings.command_line(image)?,
            "env": environment(task, image),
            "cwd": settings.work_dir(image)?,
            "capabilities": {
                "bounding": capabilities, "effective": capabilities, "permitted": capabilities,
                "inheritable": ambient, "ambient": ambient,
            },
            "noNewPrivileges": true,
            "oomScoreAdj": oom_score(),
            "rlimits": [{"type": "RLIMIT_NOFILE", "soft": open_files, "hard": open_files_max}],
        },
        "root": {"path": stage::root().to_string_lossy(), "readonly": settings.readonly_rootfs},
        "hostname": settings.hostname(task.run, &task.hostname)?,
        "mounts": mounts,
        "linux": {
            "cgroupsPath": format!("/berth/{}", task.start_name()),
            "namespaces": namespaces(task, network),
            "resources": resources(task, settings, &devices, runtime.limits_swap)?,
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp::profile(&capabilities, reserves_max),
        },
    });
    if let Some(first) = task.first_id {
        for ids in ["uidMappings", "gidMappings"] {
            config["linux"][ids] = json!([{"containerID": 0, "hostID": first, "size": IDS}]);
        }
    }
    if network != NetworkMode::Host && task.network.is_none() {
        // It has the ports below 1024 to itself, whoever it runs as.
        config["linux"]["sysctl"] = json!({"net.ipv4.ip_unprivileged_port_start": "0"});
    }
    let entries = task.network.as_ref();
    Ok(ContainerRun {
        runtime: runtime.path.clone(),
        id: task.start_name(),
        config_json: config.to_string(),
        address: entries.map_or(String::new(), |network| network.address.clone()),
        resolv_conf: entries.map_or(String::new(), |network| network.resolv_conf.clone()),
        binds: files.binds.into_sources(),
        first_id: task.first_id.unwrap_or(0),
        sys_network,
        devices: devices.iter().map(DeviceFile::node).collect(),
        ..ContainerRun::default()
    })
}

/// The network that `/sys` shows, where the container's own root has no right to mount it.
fn sys_network(task: &TaskContext<'_>, network: NetworkMode) -> String {
    match &task.network {
        _ if task.first_id.is_none() => String::new(),
        Some(network) => network.path.clone(),
        None if network == NetworkMode::Host => "/proc/self/ns/net".into(),
        None => String::new(),
    }
}

/// What the image says, overruled by what Berth and the job say.
fn environment(task: &TaskContext<'_>, image: &ImageConfig) -> Vec<String> {
    let pairs = image.env.iter().filter_map(|entry| entry.split_once('='));
    let mut env: BTreeMap<&str, &str> = [("PATH", PATH)].into();
    env.extend(pairs.filter(|(name, _)| !name.is_empty()));
    env.extend(task.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    env.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn namespaces(task: &TaskContext<'_>, network: NetworkMode) -> Vec<Value> {
    let own = ["pid", "mount", "ipc", "uts", "cgroup"].map(|kind| json!({"type": kind}));
    let network = match &task.network {
        Some(network) => Some(json!({"type": "network", "path": network.path})),
        None => (network != NetworkMode::Host).then(|| json!({"type": "network"})),
    };
    let user = task.first_id.map(|_| json!({"type": "user"}));
    own.into_iter().chain(network).chain(user).collect()
}

fn resources(
    task: &TaskContext<'_>,
    settings: &ContainerSettings,
    devices: &[DeviceFile],
    limits_swap: bool,
) -> Result<Value, StartFailure> {
    let bytes = |mb: u32| u64::from(mb) << 20;
    let nothing = json!({"allow": false, "access": "rwm"});
    let allowed = std::iter::once(nothing).chain(devices.iter().map(DeviceFile::allowed));
    let (own, most) = (bytes(task.spec.memory_mb), bytes(task.spec.memory_mb.max(task.spec.memory_max_mb)));
    let mut resources = json!({
        "devices": allowed.collect::<Vec<_>>(),
        "cpu": {"shares": task.share.cpu_mhz.max(CPU_SHARES_MIN)},
        "pids": {"limit": settings.pids_limit()?},
    });
    if let Some((quota, period)) = settings.cpu_quota(task.share.cpu_mhz, task.share.core_mhz)? {
        resources["cpu"]["quota"] = quota.into();
        resources["cpu"]["period"] = period.into();
    }
    if !task.cores().is_empty() {
        let cores: Vec<String> = task.cores().iter().map(u32::to_string).collect();
        resources["cpu"]["cpus"] = cores.join(",").into();
    }
    if most > own {
        // What it uses beyond its own is the first to be taken back when the node runs short.
        resources["memory"] = json!({"limit": most, "reservation": own});
    } else if own > 0 {
        resources["memory"] = json!({"limit": own});
    }
    if limits_swap && most > 0 {
        // Of memory and swap together: none of it is swap.
        resources["memory"]["swap"] = most.into();
    }
    Ok(resources)
}

/// How much of a file it may reserve in one call: what is written is noticed before it is much more than the allocation's
/// disk limit, but a reservation takes all of the node's disk at once. It may reserve memory in the same way, up to that
/// limit, and any amount of what is mounted from the host, which has none.
fn reserves_max(task: &TaskContext<'_>, mounts: &[Value]) -> Option<u64> {
    let bytes = |mb: u32| u64::from(mb) << 20;
    let (disk, memory) = (task.run.group.disk_mb, task.spec.memory_mb.max(task.spec.memory_max_mb));
    let is_bind = |mount: &Value| mount["type"] == "bind";
    let has_hosts = !task.share.mounts.is_empty() || mounts.iter().any(is_bind);
    (disk > 0 && memory > 0 && !has_hosts).then(|| bytes(disk.max(memory)))
}

/// The directory in which the agent puts a task's tokens and secrets, which become its user's.
fn secrets(task: &TaskContext<'_>) -> BindSource {
    let dir = task.paths.task_dir(&task.spec.name).join("secrets");
    let tokens = task.spec.identities.iter().map(|identity| identity.file.clone());
    let items = task.spec.secrets.iter().filter(|secret| !secret.files.is_empty()).flat_map(|secret| {
        let items = task.secrets.items(&secret.name).into_iter().flat_map(BTreeMap::keys);
        items.map(|item| format!("{}/{item}", secret.files))
    });
    let socket = (!task.spec.identities.is_empty()).then(|| API_SOCKET.to_owned());
    let rendered = task.secret_files.iter().cloned();
    let files = tokens.filter(|file| !file.is_empty()).chain(items).chain(rendered).chain(socket);
    let parts = files.flat_map(|file| {
        let ends = file.match_indices('/').map(|(end, _)| end).chain([file.len()]);
        ends.map(|end| file[..end].to_owned()).collect::<Vec<_>>()
    });
    let owned: BTreeSet<String> = std::iter::once(".".to_owned()).chain(parts).collect();
    BindSource { owned: owned.into_iter().collect(), ..BindSource::of(&dir) }
}

fn mounts(
    task: &TaskContext<'_>,
    network: NetworkMode,
    devices: &[DeviceFile],
    has_sys: bool,
    files: &mut ExtraFiles,
) -> Vec<Value> {
    let mut mounts = std::mem::take(&mut files.root);
    let is_of_image = mounts.is_empty();
    let hidden = ["nosuid", "noexec", "nodev"];
    let special = |kind: &str, target: &str, options: &[&str]| {
        let options: Vec<_> = hidden.iter().chain(options).collect();
        json!({"type": kind, "source": kind, "destination": target, "options": options})
    };
    mounts.extend([
        special("proc", "/proc", &[]),
        json!({"type": "tmpfs", "source": "tmpfs", "destination": "/dev",
               "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}),
        json!({"type": "devpts", "source": "devpts", "destination": "/dev/pts",
               "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]}),
        special("tmpfs", "/dev/shm", &["mode=1777", "size=65536k"]),
        special("mqueue", "/dev/mqueue", &[]),
    ]);
    mounts.push(if has_sys {
        json!({"type": "bind", "source": stage::sys().to_string_lossy(), "destination": "/sys",
               "options": ["bind", "rprivate", "nosuid", "noexec", "nodev", "ro"]})
    } else {
        special("sysfs", "/sys", &["ro"])
    });
    mounts.extend(devices.iter().enumerate().map(|(number, device)| device.bound(number)));
    let binds = &mut files.binds;
    // In memory. Whose it is, is known once the container's user is.
    mounts.push(if has_secrets(task.spec) {
        let mut mount = binds.add(secrets(task), SECRETS, false);
        mount["options"].as_array_mut().into_iter().for_each(|options| options.push(json!("noexec")));
        mount
    } else {
        special("tmpfs", SECRETS, &["mode=0700", "size=1024k", "nr_inodes=1024"])
    });
    let local = task.paths.task_dir(&task.spec.name).join("local");
    let dirs = [
        (task.paths.shared_dir(), "/alloc", false),
        (local, "/local", false),
        (task.paths.logs_dir(), "/alloc/logs", true),
    ];
    let dirs = dirs.map(|(path, target, read_only)| binds.add(BindSource::of(&path), target, read_only));
    mounts.extend(dirs);
    mounts.extend(task.share.mounts.iter().map(|mount| {
        let follows_host = mount.follows_host;
        let source = BindSource { recursive: true, follows_host, ..BindSource::of(&mount.source) };
        binds.add(source, &mount.destination, mount.read_only)
    }));
    if network == NetworkMode::Host && is_of_image {
        let named = ["/etc/resolv.conf", "/etc/hosts"].into_iter().filter(|file| Path::new(file).exists());
        mounts.extend(named.map(|file| binds.add(BindSource::of(Path::new(file)), file, true)));
    }
    mounts.append(&mut files.own);
    mounts
}

#[cfg(test)]
mod tests {
    use berth_api::agent::{RunAlloc, TaskSpec};

    use super::*;
    use crate::drivers::example::with_task;

    #[test]
    fn what_templates_put_into_secrets_becomes_the_containers_users() {
        let spec = TaskSpec { name: "t".into(), ..TaskSpec::default() };
        let owned = with_task(&spec, RunAlloc::default(), |task| {
            secrets(&TaskContext { secret_files: vec!["tls/key.pem".into()], ..task }).owned
        });
        assert_eq!(owned, [".", "tls", "tls/key.pem"]);
    }
}
