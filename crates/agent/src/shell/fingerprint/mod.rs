//! Fingerprints the node: attributes with the names that job files use, and its resources. It is done when the agent starts, and at
//! intervals from then on.

mod disk;
mod interfaces;
mod machine;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use berth_api::agent::{FEATURES, FEATURES_ATTRIBUTE, NodeSpec};

use self::disk::Disk;
use self::interfaces::Interfaces;
use self::machine::Cpu;
use super::{AgentConfig, Host};
use crate::HOST_LOG_TARGET;
use crate::devices::{self, Device, DeviceFiles};
use crate::drivers::{self, ContainerConfig, Driver, Drivers, WorkingDrivers};
use crate::failure::Failure;
use crate::mountinfo;
use crate::network::Networks;
use crate::secrets::NO_SECRETS;
use crate::volumes::{self, HostVolumes};

const MIB: u64 = 1 << 20;

/// The version of Nomad whose job files and API Berth follows, which jobs compare with.
const NOMAD_VERSION: &str = "1.11.0";

/// What the node has for tasks, as it was found last.
#[derive(Clone)]
pub(super) struct Equipment {
    /// As it is reported to the servers.
    pub(super) node: NodeSpec,
    /// Those that are on and work.
    pub(super) drivers: Vec<Arc<dyn Driver>>,
    pub(super) device_files: DeviceFiles,
    /// The volumes that exist.
    pub(super) volumes: HostVolumes,
    disk: Disk,
    /// Drivers that do not work, with the reason.
    missing: Vec<(&'static str, String)>,
}

/// Where to look, and what is as it was when the agent started.
pub(super) struct Inventory {
    config: AgentConfig,
    drivers: Drivers,
    cpu: Cpu,
    host_name: String,
    networks: Result<Arc<Networks>, String>,
    /// Why containers have the users of the node, where they do.
    without_user_ids: Option<String>,
}

impl Equipment {
    /// Where tasks are resolved.
    pub(super) fn host<'a>(&'a self, node_id: &'a str) -> Host<'a> {
        let Self { node, drivers, device_files, volumes, .. } = self;
        Host { node_id, node, drivers, device_files, volumes, secrets: &NO_SECRETS }
    }

    /// Whatever of the node is another than before, with what it is now.
    pub(super) fn changes_since(&self, before: &Self) -> Vec<String> {
        let (was, is) = (&before.node, &self.node);
        let of_devices = (is.devices != was.devices).then(|| "devices".to_owned());
        let amounts = [("disk", was.disk_mb, is.disk_mb), ("memory", was.memory_mb, is.memory_mb)];
        let of_amounts = amounts.into_iter().filter(|(_, was, is)| was != is);
        let of_amounts = of_amounts.map(|(name, _, is)| format!("{name} = {is} MiB"));
        let (old, new) = (&was.attributes, &is.attributes);
        let gone = old.keys().filter(|name| !new.contains_key(*name)).map(|name| format!("{name} is gone"));
        let is_new = |(name, value): &(&String, &String)| old.get(*name) != Some(*value);
        let changed = new.iter().filter(is_new).map(|(name, value)| format!("{name} = {value}"));
        gone.chain(changed).chain(of_amounts).chain(of_devices).collect()
    }
}

impl Inventory {
    pub(super) fn new(
        config: &AgentConfig,
        containers: ContainerConfig,
        networks: Result<Arc<Networks>, String>,
        without_user_ids: Option<String>,
    ) -> Self {
        let cpu = Cpu::find(&config.root);
        let host_name = machine::read("/proc/sys/kernel/hostname".as_ref());
        let drivers = Drivers::new(config.drivers, containers);
        Self { config: config.clone(), drivers, cpu, host_name, networks, without_user_ids }
    }

    /// # Errors
    /// When more is reserved than the node has: nothing could ever be placed there.
    pub(super) fn check_reserved(&self) -> Result<(), Failure> {
        let NodeSpec { cpu_mhz, memory_mb, reserved_cpu_mhz, reserved_memory_mb, .. } = self.node();
        let reserved =
            [("CPU", "MHz", reserved_cpu_mhz, cpu_mhz), ("memory", "MiB", reserved_memory_mb, memory_mb)];
        match reserved.into_iter().find(|(_, _, reserved, all)| reserved > all) {
            None => Ok(()),
            Some((what, unit, reserved, all)) => {
                let why = format!("{reserved} {unit} of {what} are reserved, and the node has {all} {unit}");
                Err(Failure::other("leave anything to allocations", why))
            }
        }
    }

    /// What is there now; `held` are the bytes of disk that allocations hold, `before` what was found last. Takes its
    /// time: programs are asked for their version.
    pub(super) fn scan(&self, held_bytes: u64, before: Option<&Equipment>) -> Equipment {
        let config = &self.config;
        let devices = devices::all(&config.devices, &config.root);
        let volumes = volumes::usable(&config.host_volumes);
        let disk = Disk::of(&config.data_dir, held_bytes).after(before.map(|before| before.disk));
        self.equipment(self.drivers.find(), &devices, volumes, disk)
    }

    /// What can be reported before the first scan is over: without running programs or reading other disks.
    pub(super) fn quick_scan(&self) -> Equipment {
        let working = self
            .drivers
            .unasked("the agent is still looking: a program or a disk of this node does not answer");
        let disk = Disk::of(&self.config.data_dir, 0).after(None);
        self.equipment(working, &[], HostVolumes::new(), disk)
    }

    fn equipment(
        &self,
        working: WorkingDrivers,
        devices: &[Device],
        volumes: HostVolumes,
        disk: Disk,
    ) -> Equipment {
        let node = NodeSpec {
            attributes: self.attributes(&working, &volumes, disk),
            devices: devices::specs(devices),
            disk_mb: whole_mb(disk.available),
            ..self.node()
        };
        let (device_files, WorkingDrivers { drivers, missing }) = (devices::files(devices), working);
        Equipment { node, drivers, device_files, volumes, disk, missing }
    }

    fn node(&self) -> NodeSpec {
        let config = &self.config;
        NodeSpec {
            name: if config.node_name.is_empty() { &self.host_name } else { &config.node_name }.clone(),
            datacenter: config.datacenter.clone(),
            node_pool: config.node_pool.clone(),
            node_class: config.node_class.clone(),
            meta: config.meta.clone(),
            cpu_mhz: self.cpu_mhz(),
            memory_mb: whole_mb(self.memory_bytes()),
            reserved_cpu_mhz: config.reserved_cpu_mhz,
            reserved_memory_mb: config.reserved_memory_mb,
            reserved_disk_mb: config.reserved_disk_mb,
            reserved_ports: config.reserved_ports.iter().copied().map(u32::from).collect(),
            host_ip: config.host_ip.clone(),
            dynamic_port_min: config.dynamic_ports.0.into(),
            dynamic_port_max: config.dynamic_ports.1.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            cores: self.cpu.cores.clone(),
            ..NodeSpec::default()
        }
    }

    fn cpu_mhz(&self) -> u32 {
        let count = u32::try_from(self.cpu.cores.len()).unwrap_or(u32::MAX);
        if self.config.cpu_mhz == 0 { count.saturating_mul(self.cpu.mhz) } else { self.config.cpu_mhz }
    }

    fn memory_bytes(&self) -> u64 {
        match self.config.memory_mb {
            0 => machine::memory_bytes(),
            memory_mb => u64::from(memory_mb) * MIB,
        }
    }

    fn attributes(
        &self,
        working: &WorkingDrivers,
        volumes: &HostVolumes,
        disk: Disk,
    ) -> BTreeMap<String, String> {
        let mut attributes = BTreeMap::new();
        let mut set = |name: &str, value: String| {
            attributes.insert(name.to_owned(), value);
        };
        machine::attributes(&mut set);
        self.cpu.attributes(&mut set);
        let interfaces = Interfaces::find(&format!("{}-", self.config.network.name));
        interfaces.attributes(&mut set);
        for (name, network) in &self.config.host_networks {
            if let Some(address) = network.address(interfaces.addresses()) {
                set(&format!("host_network.{name}"), address.to_string());
            }
        }
        let total_mhz = self.cpu_mhz();
        set("cpu.totalcompute", total_mhz.to_string());
        set("cpu.usablecompute", total_mhz.saturating_sub(self.config.reserved_cpu_mhz).to_string());
        set("memory.totalbytes", self.memory_bytes().to_string());
        set("unique.hostname", self.host_name.clone());
        set("unique.network.ip-address", self.config.host_ip.clone());
        set("unique.storage.bytestotal", disk.total.to_string());
        set("unique.storage.bytesfree", disk.free.to_string());
        if let Some(volume) = volume(&self.config.data_dir) {
            set("unique.storage.volume", volume);
        }
        set("nomad.version", NOMAD_VERSION.into());
        set("berth.version", env!("CARGO_PKG_VERSION").into());
        set(FEATURES_ATTRIBUTE, FEATURES.join(","));
        self.of_networks(&mut set);
        for driver in &working.drivers {
            set(&format!("driver.{}", driver.name()), "1".into());
            driver.attributes().into_iter().for_each(|(name, value)| set(&name, value));
        }
        for (driver, reason) in &working.missing {
            set(&format!("driver.{driver}.health_description"), reason.clone());
        }
        for (name, volume) in volumes {
            let access = if volume.read_only { "read-only" } else { "read-write" };
            set(&format!("host_volume.{name}"), access.into());
        }
        attributes
    }

    fn of_networks(&self, set: &mut impl FnMut(&str, String)) {
        match &self.networks {
            Ok(networks) => {
                set("network.bridge", "1".into());
                set("network.bridge.subnet", networks.subnets().to_string());
                set("network.bridge.outbound", networks.subnets().forwards().to_string());
            }
            Err(why) => set("network.bridge.health_description", why.clone()),
        }
        set("user_namespaces", self.without_user_ids.is_none().to_string());
        if let Some(why) = &self.without_user_ids {
            set("user_namespaces.health_description", why.clone());
        }
    }

    /// Says what jobs cannot have here, of what the operator meant them to have.
    pub(super) fn warn_of_missing(&self, found: &Equipment) {
        // Off unless an operator turns it on: nothing is amiss.
        for (driver, reason) in found.missing.iter().filter(|(driver, _)| *driver != drivers::RAW_EXEC) {
            tracing::warn!(target: HOST_LOG_TARGET, driver, reason, "jobs cannot use this driver here");
        }
        let volumes = self.config.host_volumes.iter();
        for (name, volume) in volumes.filter(|(name, _)| !found.volumes.contains_key(*name)) {
            tracing::warn!(name, path = %volume.path.display(), "no directory: jobs cannot use this volume here");
        }
    }
}

/// What the disk of the data directory is called, as `/dev/sda1`.
fn volume(data_dir: &Path) -> Option<String> {
    let path = data_dir.canonicalize().ok()?;
    mountinfo::source_of(&path, &mountinfo::read().ok()?).filter(|source| !source.is_empty())
}

fn whole_mb(bytes: u64) -> u32 {
    u32::try_from(bytes / MIB).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory() -> Inventory {
        let config = AgentConfig {
            cpu_mhz: 4_000,
            reserved_cpu_mhz: 500,
            memory_mb: 512,
            ..AgentConfig::new("/", Vec::new(), Vec::new())
        };
        Inventory::new(&config, ContainerConfig::default(), Err("none".into()), None)
    }

    #[test]
    fn a_node_reports_its_attributes_and_resources() {
        let spec = inventory().scan(0, None).node;
        assert_eq!((spec.cpu_mhz, spec.memory_mb), (4_000, 512));
        assert_eq!(spec.cores.len().to_string(), spec.attributes["cpu.numcores"]);
        let names = ["kernel.name", "memory.totalbytes", "cpu.usablecompute"];
        assert_eq!(names.map(|name| &*spec.attributes[name]), ["linux", "536870912", "3500"]);
        assert!(spec.attributes["os.signals"].contains("SIGHUP,SIGILL,SIGINT"));
        assert_eq!(spec.attributes["nomad.version"], NOMAD_VERSION);
        assert!(spec.attributes.contains_key("unique.storage.volume"));
        let why = &spec.attributes["driver.raw_exec.health_description"];
        assert!(why.contains("--raw-exec"), "{why}");
    }

    #[test]
    fn no_more_is_reserved_than_there_is() {
        let mut inventory = inventory();
        assert!(inventory.check_reserved().is_ok());
        inventory.config.reserved_memory_mb = 513;
        let refused = inventory.check_reserved().unwrap_err().to_string();
        assert!(refused.contains("513 MiB of memory are reserved, and the node has 512 MiB"), "{refused}");
    }

    #[test]
    fn what_has_changed_is_named() {
        let mut inventory = inventory();
        let dir = tempfile::tempdir().expect("a directory");
        let volume = |path: &std::path::Path| volumes::HostVolume { path: path.to_owned(), read_only: true };
        inventory.config.host_volumes = [("data".to_owned(), volume(dir.path()))].into();
        let before = inventory.scan(0, None);
        let after = inventory.scan(0, Some(&before));
        assert_eq!((after.changes_since(&before), &after.node), (Vec::new(), &before.node));
        inventory.config.host_volumes = [("other".to_owned(), volume(dir.path()))].into();
        let after = inventory.scan(0, Some(&before));
        let changes = ["host_volume.data is gone", "host_volume.other = read-only"];
        assert_eq!(after.changes_since(&before), changes);
        inventory.config.memory_mb = 256;
        let (before, after) = (&after, inventory.scan(0, Some(&after)));
        assert_eq!(after.changes_since(before), ["memory.totalbytes = 268435456", "memory = 256 MiB"]);
    }
}
