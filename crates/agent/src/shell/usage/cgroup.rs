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

/// The directory of a process's cgroup that `controller` rules, and whether it is of version 1.
fn dir(pid: Pid, controller: &str) -> Option<(PathBuf, bool)> {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let own = |wanted: &str| {
        cgroups.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            names.split(',').any(|name| name == wanted).then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let version_1 =
        own(controller).map(|path| (Path::new("/sys/fs/cgroup").join(controller).join(path), true));
    version_1.or_else(|| own("").map(|path| (Path::new("/sys/fs/cgroup").join(path), false)))
}

fn number(dir: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()
}

/// A value of a file of lines as `name 12`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// What processes hold, and what counts against their container's limit.
pub(super) fn memory(pid: Pid, own: MemoryUsage) -> MemoryUsage {
    let Some((dir, version_1)) = dir(pid, "memory") else { return own };
    let stat = fs::read_to_string(dir.join("memory.stat")).unwrap_or_default();
    let (cache, usage, most) = if version_1 {
        ("cache", "memory.usage_in_bytes", "memory.max_usage_in_bytes")
    } else {
        ("file", "memory.current", "memory.peak")
    };
    MemoryUsage {
        cache: value(&stat, cache),
        usage: number(&dir, usage),
        usage_max: number(&dir, most),
        ..own
    }
}

/// None where nothing counts that.
pub(super) fn throttled(pid: Pid) -> Option<Throttled> {
    let (dir, version_1) = dir(pid, "cpu")?;
    let stat = fs::read_to_string(dir.join("cpu.stat")).ok()?;
    let ns = if version_1 {
        value(&stat, "throttled_time")?
    } else {
        value(&stat, "throttled_usec")?.saturating_mul(1_000)
    };
    Some(Throttled { periods: value(&stat, "nr_throttled")?, ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_names() {
        let stat = "nr_periods 3\nnr_throttled 2\nthrottled_time 500\n";
        assert_eq!(
            (value(stat, "nr_throttled"), value(stat, "throttled"), value(stat, "x")),
            (Some(2), None, None)
        );
    }
}
