//! What the node is: attributes with the names that job files use, and what it has to give.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use berth_api::agent::NodeSpec;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::AgentConfig;
use crate::devices::{self, Device};
use crate::drivers::{self, Driver};
use crate::network::Networks;
use crate::volumes::HostVolumes;

const MIB: u64 = 1 << 20;

/// Assumed where the kernel does not tell.
const CPU_MHZ_ASSUMED: u32 = 1_000;

/// Describes the node to the servers.
pub(crate) fn fingerprint(
    config: &AgentConfig,
    drivers: &[Box<dyn Driver>],
    devices: &[Device],
    networks: &Result<Arc<Networks>, String>,
    volumes: &HostVolumes,
    without_user_ids: Option<&str>,
) -> NodeSpec {
    let mut attributes = BTreeMap::new();
    let mut set = |name: &str, value: String| {
        attributes.insert(name.to_owned(), value);
    };
    let host_name = read("/proc/sys/kernel/hostname");
    let node_name = if config.node_name.is_empty() { host_name.clone() } else { config.node_name.clone() };
    let (cores, core_mhz) = (cores(), core_mhz());
    let count = u32::try_from(cores.len()).unwrap_or(u32::MAX);
    let cpu_mhz = if config.cpu_mhz == 0 { count.saturating_mul(core_mhz) } else { config.cpu_mhz };
    let memory_bytes = match config.memory_mb {
        0 => memory_bytes(),
        memory_mb => u64::from(memory_mb) * MIB,
    };
    let (disk_bytes, disk_free_bytes) = disk_bytes(&config.data_dir);
    let (os_name, os_version) = os_release(&read("/etc/os-release"));
    set("kernel.name", "linux".into());
    set("kernel.version", read("/proc/sys/kernel/osrelease"));
    set("arch", arch().into());
    set("cpu.arch", arch().into());
    set("os.name", os_name);
    set("os.version", os_version);
    set("cpu.numcores", count.to_string());
    set("cpu.frequency", core_mhz.to_string());
    set("cpu.totalcompute", cpu_mhz.to_string());
    set("memory.totalbytes", memory_bytes.to_string());
    set("unique.hostname", host_name);
    set("unique.network.ip-address", config.host_ip.clone());
    set("unique.storage.bytestotal", disk_bytes.to_string());
    set("unique.storage.bytesfree", disk_free_bytes.to_string());
    set("berth.version", env!("CARGO_PKG_VERSION").into());
    match networks {
        Ok(networks) => {
            set("network.bridge", "1".into());
            set("network.bridge.subnet", networks.subnets().to_string());
            set("network.bridge.outbound", networks.subnets().forwards().to_string());
        }
        Err(why) => set("network.bridge.health_description", why.clone()),
    }
    set("user_namespaces", without_user_ids.is_none().to_string());
    if let Some(why) = without_user_ids {
        set("user_namespaces.health_description", why.to_owned());
    }
    for driver in drivers {
        set(&format!("driver.{}", driver.name()), "1".into());
        driver.attributes().into_iter().for_each(|(name, value)| set(&name, value));
    }
    for (name, volume) in volumes {
        let access = if volume.read_only { "read-only" } else { "read-write" };
        set(&format!("host_volume.{name}"), access.into());
    }
    for (driver, reason) in drivers::lacking(config.drivers, &super::containers(config)) {
        tracing::warn!(driver, reason, "jobs cannot use this driver here");
        set(&format!("driver.{driver}.health_description"), reason);
    }
    NodeSpec {
        name: node_name,
        datacenter: config.datacenter.clone(),
        node_pool: config.node_pool.clone(),
        node_class: config.node_class.clone(),
        attributes,
        meta: config.meta.clone(),
        cpu_mhz,
        memory_mb: whole_mb(memory_bytes),
        disk_mb: whole_mb(disk_free_bytes),
        reserved_cpu_mhz: config.reserved_cpu_mhz,
        reserved_memory_mb: config.reserved_memory_mb,
        reserved_disk_mb: config.reserved_disk_mb,
        reserved_ports: config.reserved_ports.iter().copied().map(u32::from).collect(),
        host_ip: config.host_ip.clone(),
        dynamic_port_min: config.dynamic_ports.0.into(),
        dynamic_port_max: config.dynamic_ports.1.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        devices: devices::specs(devices),
        cores,
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn whole_mb(bytes: u64) -> u32 {
    u32::try_from(bytes / MIB).unwrap_or(u32::MAX)
}

/// The architecture as Go names it, which is what job files compare with.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The ids of the processor cores on which the agent may run, ascending: of others it has nothing to give.
fn cores() -> Vec<u32> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    let is_allowed = |core: &u32| allowed.is_set(*core as usize).unwrap_or(false);
    (0..u32::try_from(CpuSet::count()).unwrap_or(u32::MAX)).filter(is_allowed).collect()
}

/// MHz of one core: the most it can do, where the kernel tells, else what it does now.
fn core_mhz() -> u32 {
    let khz: Option<u32> = read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").parse().ok();
    khz.map(|khz| khz / 1_000).or_else(|| current_mhz(&read("/proc/cpuinfo"))).unwrap_or(CPU_MHZ_ASSUMED)
}

fn current_mhz(cpuinfo: &str) -> Option<u32> {
    let line = cpuinfo.lines().find(|line| line.starts_with("cpu MHz"))?;
    line.split_once(':')?.1.trim().parse::<f64>().ok().map(|mhz| mhz as u32)
}

fn memory_bytes() -> u64 {
    let meminfo = read("/proc/meminfo");
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(0) * 1024
}

/// Bytes in all, and bytes free, of the filesystem that `path` is on.
fn disk_bytes(path: &Path) -> (u64, u64) {
    let Ok(found) = nix::sys::statvfs::statvfs(path) else { return (0, 0) };
    let unit = found.fragment_size();
    (found.blocks() * unit, found.blocks_available() * unit)
}

fn os_release(text: &str) -> (String, String) {
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_default().trim_matches('"').to_owned()
    };
    (value("ID="), value("VERSION_ID="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_texts_are_understood() {
        let release = "NAME=\"Debian\"\nID=debian\nVERSION_ID=\"12\"\n";
        assert_eq!(os_release(release), ("debian".into(), "12".into()));
        assert_eq!(current_mhz("model name\t: x\ncpu MHz\t\t: 2445.406\n"), Some(2445));
        assert!(memory_bytes() > MIB && disk_bytes(Path::new("/")).0 > MIB);
    }

    #[test]
    fn a_node_tells_what_it_is() {
        let config =
            AgentConfig { cpu_mhz: 4_000, memory_mb: 512, ..AgentConfig::new("/", Vec::new(), Vec::new()) };
        let spec = fingerprint(&config, &[], &[], &Err("none".into()), &HostVolumes::new(), None);
        assert_eq!((spec.cpu_mhz, spec.memory_mb), (4_000, 512));
        assert_eq!(spec.cores.len().to_string(), spec.attributes["cpu.numcores"]);
        assert_eq!(spec.attributes["kernel.name"], "linux");
        assert_eq!(spec.attributes["memory.totalbytes"], "536870912");
    }
}
