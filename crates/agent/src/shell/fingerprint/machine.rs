//! What the kernel reports of the machine: its processors and how they are arranged, memory, and the system on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, sched_getaffinity};

use crate::mountinfo::{self, MountEntry};

/// Assumed where the kernel does not report it.
const CPU_MHZ_ASSUMED: u32 = 1_000;

/// Its processors. None of it changes while the system runs, but for the frequency, of which the most counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Cpu {
    /// Ids of the cores on which the agent may run, ascending: of others it has nothing to give.
    pub(super) cores: Vec<u32>,
    /// The frequency of one core.
    pub(super) mhz: u32,
    model: String,
    /// Distinct packages and, within these, cores that share no execution units.
    sockets: usize,
    physical: usize,
    /// The cores of each NUMA node, as the kernel lists them: `0-3,8`.
    numa: BTreeMap<u32, String>,
}

impl Cpu {
    /// That of the machine whose `sys` and `proc` are below `root`.
    pub(super) fn find(root: &Path) -> Self {
        let cores = cores();
        let cpuinfo = read(&root.join("proc/cpuinfo"));
        let devices = root.join("sys/devices/system");
        let topology = |core: &u32, file: &str| {
            read(&devices.join(format!("cpu/cpu{core}/topology/{file}"))).parse::<i64>().ok()
        };
        let packages: BTreeSet<i64> =
            cores.iter().filter_map(|core| topology(core, "physical_package_id")).collect();
        let physical: BTreeSet<(i64, i64)> = cores
            .iter()
            .filter_map(|core| Some((topology(core, "physical_package_id")?, topology(core, "core_id")?)))
            .collect();
        Self {
            mhz: mhz(&devices, &cpuinfo),
            model: value(&cpuinfo, "model name").unwrap_or_default().to_owned(),
            sockets: packages.len(),
            physical: physical.len(),
            numa: numa(&devices.join("node")),
            cores,
        }
    }

    pub(super) fn attributes(&self, set: &mut impl FnMut(&str, String)) {
        set("cpu.arch", arch().into());
        set("cpu.numcores", self.cores.len().to_string());
        set("cpu.reservablecores", self.cores.len().to_string());
        set("cpu.frequency", self.mhz.to_string());
        let mut known = |name: &str, count: usize| {
            if count > 0 {
                set(name, count.to_string());
            }
        };
        known("cpu.sockets", self.sockets);
        known("cpu.physicalcores", self.physical);
        known("numa.node.count", self.numa.len());
        for (node, cores) in &self.numa {
            set(&format!("numa.node{node}.cores"), cores.clone());
        }
        if !self.model.is_empty() {
            set("cpu.modelname", self.model.clone());
        }
    }
}

/// What the system says of itself.
pub(super) fn attributes(set: &mut impl FnMut(&str, String)) {
    let (os_name, os_version) = os_release(&read("/etc/os-release".as_ref()));
    set("kernel.name", "linux".into());
    set("kernel.version", read("/proc/sys/kernel/osrelease".as_ref()));
    set("kernel.arch", std::env::consts::ARCH.into());
    set("arch", arch().into());
    set("os.name", os_name);
    set("os.version", os_version);
    set("os.signals", signals());
    if let Some((version, mount)) = cgroups(&mountinfo::read().unwrap_or_default()) {
        set("os.cgroups.version", version.to_string());
        set("unique.cgroup.version", format!("v{version}"));
        set("unique.cgroup.mountpoint", mount.display().to_string());
    }
}

/// Those that a task can be sent, by name.
fn signals() -> String {
    let mut names: Vec<&str> = crate::signals::all().collect();
    names.sort_unstable();
    names.join(",")
}

/// Which version of cgroups limits tasks, and where it is mounted: version 2 where it is alone.
fn cgroups(mounts: &[MountEntry]) -> Option<(u8, PathBuf)> {
    let first = mounts.iter().find(|mount| mount.kind == "cgroup");
    if let Some(first) = first {
        // Each controller has a mount of its own, all in one directory.
        return Some((1, first.point.parent()?.to_owned()));
    }
    mounts.iter().find(|mount| mount.kind == "cgroup2").map(|second| (2, second.point.clone()))
}

pub(super) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// The architecture as Go names it, which is what job files compare with.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn cores() -> Vec<u32> {
    let allowed = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .filter_map(|core| u32::try_from(core).ok())
        .collect()
}

/// MHz of one core: the most it can do, where the kernel reports, else what it does now.
fn mhz(devices: &Path, cpuinfo: &str) -> u32 {
    let khz: Option<u32> = read(&devices.join("cpu/cpu0/cpufreq/cpuinfo_max_freq")).parse().ok();
    let now = || value(cpuinfo, "cpu MHz")?.parse::<f64>().ok().map(|mhz| mhz as u32);
    khz.map(|khz| khz / 1_000).or_else(now).unwrap_or(CPU_MHZ_ASSUMED)
}

/// What follows a name and a colon, in the first line that has it.
fn value<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn numa(nodes: &Path) -> BTreeMap<u32, String> {
    let entries = fs::read_dir(nodes).into_iter().flatten().flatten();
    let node = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((number, read(&entry.path().join("cpulist"))))
    };
    entries.filter_map(node).collect()
}

/// The size of the machine's memory in bytes.
pub(super) fn memory_bytes() -> u64 {
    let meminfo = read("/proc/meminfo".as_ref());
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> = total.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    kib.unwrap_or(0) * 1024
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
        assert_eq!(mhz("/nowhere".as_ref(), "model name\t: x\ncpu MHz\t\t: 2445.406\n"), 2445);
        assert!(memory_bytes() > 1 << 20);
    }

    #[test]
    fn the_arrangement_of_processors_is_reported() {
        let root = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some CPU @ 2.60GHz\ncpu MHz\t\t: 2600.000\n");
        // Whatever cores this test may run on, all are threads of one core.
        for core in cores() {
            write(&format!("sys/devices/system/cpu/cpu{core}/topology/physical_package_id"), "0\n");
            write(&format!("sys/devices/system/cpu/cpu{core}/topology/core_id"), "3\n");
        }
        write("sys/devices/system/node/node0/cpulist", "0-3,8\n");
        write("sys/devices/system/node/node1/cpulist", "4-7\n");
        write("sys/devices/system/node/possible", "0-1\n");
        let mut found = BTreeMap::new();
        Cpu::find(root.path()).attributes(&mut |name, value| drop(found.insert(name.to_owned(), value)));
        let names = ["cpu.modelname", "cpu.frequency", "cpu.sockets", "cpu.physicalcores", "numa.node.count"];
        assert_eq!(names.map(|name| &*found[name]), ["Some CPU @ 2.60GHz", "2600", "1", "1", "2"]);
        assert_eq!([&*found["numa.node0.cores"], &*found["numa.node1.cores"]], ["0-3,8", "4-7"]);
    }

    #[test]
    fn the_version_of_cgroups_that_limits_tasks_is_reported() {
        let mount = |point: &str, kind: &str| MountEntry {
            point: point.into(),
            kind: kind.into(),
            source: String::new(),
            options: Vec::new(),
        };
        let (unified, memory) =
            (mount("/sys/fs/cgroup/unified", "cgroup2"), mount("/sys/fs/cgroup/memory", "cgroup"));
        assert_eq!(cgroups(&[unified, memory]), Some((1, "/sys/fs/cgroup".into())));
        assert_eq!(cgroups(&[mount("/sys/fs/cgroup", "cgroup2")]), Some((2, "/sys/fs/cgroup".into())));
        assert_eq!(cgroups(&[mount("/", "ext4")]), None);
    }
}
