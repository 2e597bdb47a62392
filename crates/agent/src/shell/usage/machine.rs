//! Usage of the machine.

use std::fs;
use std::path::Path;

use berth_api::agent::{CoreUsage, DiskUsage, NodeMemoryUsage, NodeUsage};

use super::processes::kib;

/// How its cores have spent their time so far.
pub(super) struct MachineTimes {
    cores: Vec<Core>,
}

/// One core's time, in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Core {
    name: String,
    user: u64,
    system: u64,
    idle: u64,
}

impl MachineTimes {
    pub(super) fn read() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Self { cores: stat.lines().filter_map(Core::parse).collect() }
    }

    /// What was used since an earlier look; memory and disk as they are now.
    pub(super) fn since(&self, before: &Self, core_mhz: f64, data_dir: &Path, at_ns: u64) -> NodeUsage {
        let cores: Vec<_> = self.cores.iter().zip(&before.cores).map(|(now, then)| now.since(then)).collect();
        let busy = |core: &CoreUsage| (100.0 - core.idle_percent) / 100.0 * core_mhz;
        let uptime = fs::read_to_string("/proc/uptime").unwrap_or_default();
        NodeUsage {
            at_ns,
            uptime_s: uptime.split('.').next().and_then(|whole| whole.parse().ok()).unwrap_or_default(),
            memory: memory(),
            mhz: cores.iter().map(busy).sum(),
            cores,
            disk: disk(data_dir),
        }
    }
}

impl Core {
    /// Reads a line as `cpu0 USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL ...`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_whitespace();
        let name = words.next().filter(|name| name.len() > 3 && name.starts_with("cpu"))?;
        let times: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [user, nice, system, idle, iowait, irq, softirq, ..] = times[..] else { return None };
        Some(Self {
            name: name.to_owned(),
            user: user + nice,
            system: system + irq + softirq,
            idle: idle + iowait,
        })
    }

    fn since(&self, before: &Self) -> CoreUsage {
        let spent = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let (user, system) = (spent(self.user, before.user), spent(self.system, before.system));
        let all = user + system + spent(self.idle, before.idle);
        // A span without a tick was idle.
        let percent = |part: f64| if all > 0.0 { part / all * 100.0 } else { 0.0 };
        let (user_percent, system_percent) = (percent(user), percent(system));
        let idle_percent = 100.0 - user_percent - system_percent;
        CoreUsage { name: self.name.clone(), user_percent, system_percent, idle_percent }
    }
}

fn memory() -> NodeMemoryUsage {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = |name| kib(&meminfo, name) << 10;
    NodeMemoryUsage { total: bytes("MemTotal:"), available: bytes("MemAvailable:"), free: bytes("MemFree:") }
}

fn disk(path: &Path) -> DiskUsage {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let (device, mountpoint) = mount_of(&mounts, path);
    let Ok(found) = rustix::fs::statvfs(path) else {
        return DiskUsage { device, mountpoint, ..DiskUsage::default() };
    };
    let unit = found.f_frsize;
    let inodes_used = found.f_files.saturating_sub(found.f_ffree) as f64;
    DiskUsage {
        device,
        mountpoint,
        size: found.f_blocks * unit,
        used: found.f_blocks.saturating_sub(found.f_bfree) * unit,
        available: found.f_bavail * unit,
        inodes_used_percent: if found.f_files > 0 { inodes_used / found.f_files as f64 * 100.0 } else { 0.0 },
    }
}

/// What is mounted where a path lies: of the mounts above it the deepest, and of these the last.
fn mount_of(mounts: &str, path: &Path) -> (String, String) {
    let words = mounts.lines().filter_map(|line| line.split_once(' '));
    let above = words.filter_map(|(device, rest)| {
        let mountpoint = rest.split(' ').next()?;
        path.starts_with(mountpoint).then_some((device, mountpoint))
    });
    let deepest = above.max_by_key(|(_, mountpoint)| mountpoint.len());
    deepest.map(|(device, mountpoint)| (device.to_owned(), mountpoint.to_owned())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_shared_out_among_what_a_core_did() {
        let parse = |line| Core::parse(line).unwrap();
        let (before, after) = (parse("cpu1 10 0 10 100 0 0 0 0"), parse("cpu1 35 5 20 150 5 0 5 0"));
        let usage = after.since(&before);
        assert_eq!(usage.name, "cpu1");
        assert_eq!((usage.user_percent, usage.system_percent, usage.idle_percent), (30.0, 15.0, 55.0));
        assert_eq!(before.since(&before).idle_percent, 100.0);
        assert_eq!((Core::parse("cpu 1 2 3 4 5 6 7"), Core::parse("intr 5")), (None, None));
    }

    #[test]
    fn the_deepest_mount_holds_a_path() {
        let mounts = "/dev/a / ext4 rw 0 0\n/dev/b /var xfs rw 0 0\n/dev/c /var/lib xfs rw 0 0\n";
        let mount = |path: &str| mount_of(mounts, Path::new(path)).0;
        assert_eq!(
            [mount("/var/lib/berth"), mount("/var/library"), mount("/home")],
            ["/dev/c", "/dev/b", "/dev/a"]
        );
    }

    #[test]
    fn this_machine_can_be_measured() {
        let before = MachineTimes::read();
        let usage = MachineTimes::read().since(&before, 1_000.0, Path::new("/"), 7);
        assert!(!usage.cores.is_empty() && usage.uptime_s > 0 && usage.disk.size > 0);
        assert!(usage.memory.total >= usage.memory.available && usage.memory.available > 0);
    }
}
