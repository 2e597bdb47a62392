//! What the kernel counts for a container, in either version of cgroups.

use std::fs;
use std::path::{Path, PathBuf};

use berth_api::agent::MemoryUsage;
use nix::unistd::Pid;

/// How much a container was held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Throttled {
    pub(super) periods: u64,
    pub(super) ns: u64,
}

/// A cgroup that counts.
struct Counting {
    dir: PathBuf,
    version: u8,
}

impl Counting {
    /// That of a process whose cgroups are these, as cgroups(7) has them, where they are mounted below `root`, for what
    /// `controller` rules.
    fn find(root: &Path, cgroups: &str, controller: &str) -> Option<Self> {
        let own = |wanted: &str| {
            cgroups.lines().find_map(|line| {
                let (names, path) = line.split_once(':')?.1.split_once(':')?;
                names.split(',').any(|name| name == wanted).then(|| path.trim_start_matches('/').to_owned())
            })
        };
        let first = own(controller).map(|path| Self { dir: root.join(controller).join(path), version: 1 });
        first.or_else(|| own("").map(|path| Self { dir: root.join(path), version: 2 }))
    }

    fn memory(&self, own: MemoryUsage) -> MemoryUsage {
        let dir = &self.dir;
        let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
        let (cache, usage, most) = match self.version {
            1 => ("cache", "memory.usage_in_bytes", "memory.max_usage_in_bytes"),
            _ => ("file", "memory.current", "memory.peak"),
        };
        MemoryUsage {
            cache: value(&stat, cache),
            usage: number(dir, usage),
            usage_max: number(dir, most),
            ..own
        }
    }

    fn throttled(&self) -> Option<Throttled> {
        let stat = fs::read_to_string(self.dir.join("cpu.stat")).ok()?;
        let ns = match self.version {
            1 => value(&stat, "throttled_time")?,
            _ => value(&stat, "throttled_usec")?.saturating_mul(1_000),
        };
        Some(Throttled { periods: value(&stat, "nr_throttled")?, ns })
    }
}

fn number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
}

/// A value of a file of lines as `name 12`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The cgroups that count for a task, which stays in them as long as it runs.
pub(super) struct Counted {
    memory: Option<Counting>,
    cpu: Option<Counting>,
}

impl Counted {
    /// Those of its main process.
    pub(super) fn of(main: Pid) -> Self {
        let cgroups = fs::read_to_string(format!("/proc/{main}/cgroup")).unwrap_or_default();
        let find = |controller| Counting::find(Path::new("/sys/fs/cgroup"), &cgroups, controller);
        Self { memory: find("memory"), cpu: find("cpu") }
    }

    /// What processes hold, and what counts against their container's limit.
    pub(super) fn memory(&self, own: MemoryUsage) -> MemoryUsage {
        self.memory.as_ref().map_or(own, |counting| counting.memory(own))
    }

    /// None where nothing counts that.
    pub(super) fn throttled(&self) -> Option<Throttled> {
        self.cpu.as_ref()?.throttled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.1 has them for a container, with version 2 alone.
    #[test]
    fn what_version_2_counts_is_found_in_recorded_files() {
        let root = tempfile::tempdir().expect("a directory");
        let dir = root.path().join("berth/task");
        fs::create_dir_all(&dir).expect("made");
        for (file, text) in [
            ("memory.current", "6201344\n"),
            ("memory.peak", "9011200\n"),
            ("memory.stat", "anon 4194304\nfile 1351680\nkernel 552960\nfile_mapped 0\n"),
            (
                "cpu.stat",
                "usage_usec 912\nuser_usec 400\nsystem_usec 512\nnr_periods 9\nnr_throttled 4\nthrottled_usec 73\n",
            ),
        ] {
            fs::write(dir.join(file), text).expect("written");
        }
        let found = Counting::find(root.path(), "0::/berth/task\n", "memory").expect("a cgroup");
        let memory = found.memory(MemoryUsage::default());
        assert_eq!(
            (memory.usage, memory.usage_max, memory.cache),
            (Some(6_201_344), Some(9_011_200), Some(1_351_680))
        );
        assert_eq!(found.throttled(), Some(Throttled { periods: 4, ns: 73_000 }));
        // Beside version 1, whose hierarchy has the controller.
        let both = "5:cpu,cpuacct:/berth/task\n0::/\n";
        let found = Counting::find(root.path(), both, "cpu").expect("a cgroup");
        assert_eq!((found.version, found.dir), (1, root.path().join("cpu/berth/task")));
    }

    #[test]
    fn values_are_found_by_their_whole_names() {
        let stat = "nr_periods 3\nnr_throttled 2\nthrottled_time 500\n";
        assert_eq!(
            (value(stat, "nr_throttled"), value(stat, "throttled"), value(stat, "x")),
            (Some(2), None, None)
        );
    }
}
