//! The config.json of a container: what the OCI runtime is told (opencontainers/runtime-spec 1.0.2).

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::device_files::{self, DeviceFile};
use super::seccomp;
use super::settings::{Network, Settings};
use crate::drivers::TaskContext;
use crate::images::ImageConfig;
use crate::lifecycle::StartFailure;

/// Where programs are looked for when neither the image nor the job says.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Where a task keeps what nobody else is to read.
pub(crate) const SECRETS: &str = "/secrets";
/// What is mounted on either side later is not seen on the other.
const PRIVATE: &str = "rprivate";

/// The fewest cpu shares the kernel knows.
const CPU_SHARES_MIN: u32 = 2;

/// Parts of /proc and /sys that tell too much of the host.
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
pub(super) struct Files {
    /// Before all else.
    pub(super) root: Vec<Value>,
    /// After all else.
    pub(super) own: Vec<Value>,
}

/// What the OCI runtime is told. `limits_swap` says whether this host's kernel can.
pub(super) fn config_json(
    task: &TaskContext<'_>,
    settings: &Settings,
    image: &ImageConfig,
    network: Network,
    limits_swap: bool,
    files: Files,
) -> Result<String, StartFailure> {
    let devices = device_files::all(&task.given.device_files)?;
    let capabilities = settings.capabilities()?;
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
                "inheritable": [], "ambient": [],
            },
            "noNewPrivileges": true,
        },
        "root": {"path": "rootfs", "readonly": settings.readonly_rootfs},
        "hostname": settings.hostname(task.run, &task.hostname)?,
        "mounts": mounts(task, network, files),
        "linux": {
            "cgroupsPath": format!("/berth/{}", task.start_name()),
            "namespaces": namespaces(task, network),
            "devices": devices.iter().map(DeviceFile::made).collect::<Vec<_>>(),
            "resources": resources(task, settings, &devices, limits_swap)?,
            "maskedPaths": MASKED,
            "readonlyPaths": READ_ONLY,
            "seccomp": seccomp::profile(),
        },
    });
    if network != Network::Host && task.network.is_none() {
        // It has the ports below 1024 to itself, whoever it runs as.
        config["linux"]["sysctl"] = json!({"net.ipv4.ip_unprivileged_port_start": "0"});
    }
    Ok(config.to_string())
}

/// What the image says, overruled by what Berth and the job say.
fn environment(task: &TaskContext<'_>, image: &ImageConfig) -> Vec<String> {
    let pairs = image.env.iter().filter_map(|entry| entry.split_once('='));
    let mut env: BTreeMap<&str, &str> = [("PATH", PATH)].into();
    env.extend(pairs.filter(|(name, _)| !name.is_empty()));
    env.extend(task.env.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    env.into_iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn namespaces(task: &TaskContext<'_>, network: Network) -> Vec<Value> {
    let own = ["pid", "mount", "ipc", "uts", "cgroup"].map(|kind| json!({"type": kind}));
    let network = match &task.network {
        Some(network) => Some(json!({"type": "network", "path": network.path})),
        None => (network != Network::Host).then(|| json!({"type": "network"})),
    };
    own.into_iter().chain(network).collect()
}

fn resources(
    task: &TaskContext<'_>,
    settings: &Settings,
    devices: &[DeviceFile],
    limits_swap: bool,
) -> Result<Value, StartFailure> {
    let bytes = |mb: u32| u64::from(mb) << 20;
    let nothing = json!({"allow": false, "access": "rwm"});
    let allowed = std::iter::once(nothing).chain(devices.iter().map(DeviceFile::allowed));
    let (own, most) = (bytes(task.spec.memory_mb), bytes(task.spec.memory_mb.max(task.spec.memory_max_mb)));
    let mut resources = json!({
        "devices": allowed.collect::<Vec<_>>(),
        "cpu": {"shares": task.given.cpu_mhz.max(CPU_SHARES_MIN)},
        "pids": {"limit": settings.pids_limit()?},
    });
    if !task.given.cores.is_empty() {
        let cores: Vec<String> = task.given.cores.iter().map(u32::to_string).collect();
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

fn mounts(task: &TaskContext<'_>, network: Network, files: Files) -> Vec<Value> {
    let Files { root, own } = files;
    let is_empty = root.is_empty();
    let hidden = ["nosuid", "noexec", "nodev"];
    let special = |kind: &str, target: &str, options: &[&str]| {
        let options: Vec<_> = hidden.iter().chain(options).collect();
        json!({"type": kind, "source": kind, "destination": target, "options": options})
    };
    let mut mounts = root;
    mounts.extend([
        special("proc", "/proc", &[]),
        json!({"type": "tmpfs", "source": "tmpfs", "destination": "/dev",
               "options": ["nosuid", "strictatime", "mode=755", "size=65536k"]}),
        json!({"type": "devpts", "source": "devpts", "destination": "/dev/pts",
               "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]}),
        special("tmpfs", "/dev/shm", &["mode=1777", "size=65536k"]),
        special("mqueue", "/dev/mqueue", &[]),
        special("sysfs", "/sys", &["ro"]),
    ]);
    // In memory, and gone with the container. Whose it is, is known once its user is.
    mounts.push(special("tmpfs", SECRETS, &["mode=0700", "size=1024k", "nr_inodes=1024"]));
    let local = task.place.task_dir(&task.spec.name).join("local");
    let dirs = [(task.place.shared_dir(), "/alloc"), (local, "/local")];
    mounts.extend(dirs.iter().map(|(source, target)| bind(source, target, "rw", PRIVATE)));
    mounts.push(bind(&task.place.logs_dir(), "/alloc/logs", "ro", PRIVATE));
    mounts.extend(task.given.mounts.iter().map(|mount| {
        let mode = if mount.read_only { "ro" } else { "rw" };
        let propagation = if mount.follows_host { "rslave" } else { PRIVATE };
        bind(&mount.source, &mount.destination, mode, propagation)
    }));
    if network == Network::Host && is_empty {
        let files = ["/etc/resolv.conf", "/etc/hosts"].into_iter().filter(|file| Path::new(file).exists());
        mounts.extend(files.map(|file| bind(Path::new(file), file, "ro", PRIVATE)));
    }
    mounts.extend(own);
    mounts
}

fn bind(source: &Path, target: &str, mode: &str, propagation: &str) -> Value {
    let options = ["rbind", propagation, "nosuid", "nodev", mode];
    json!({"type": "bind", "source": source.to_string_lossy(), "destination": target, "options": options})
}
