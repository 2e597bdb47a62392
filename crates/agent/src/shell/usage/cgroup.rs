//! Counters of a container's cgroups, in either version: reading them takes a third of what reading its processes takes, and they
//! include processes that have ended.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use berth_api::agent::MemoryUsage;
use rustix::param::clock_ticks_per_second;
use rustix::process::{Pid, Resource, getrlimit};

use super::processes::CpuSeconds;
use crate::cgroups::{CpuAccount, second_in};

/// The most that is read of a file of a cgroup.
const BYTES_MAX: usize = 16 << 10;

/// What a file is read into, one after the other.
pub(super) struct Buffer([u8; BYTES_MAX]);

impl Buffer {
    pub(super) fn new() -> Self {
        Self([0; BYTES_MAX])
    }
}

/// How much a container was held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Throttled {
    pub(super) periods: u64,
    pub(super) ns: u64,
}

/// A slot among the files that are kept open: a quarter of those that this process may open.
struct OpenFileSlot;

static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);
static OPEN_FILES_MAX: LazyLock<usize> = LazyLock::new(|| {
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / 4;
    usize::try_from(most).unwrap_or(usize::MAX)
});

impl OpenFileSlot {
    fn take() -> Option<Self> {
        let next = |taken: usize| (taken < *OPEN_FILES_MAX).then_some(taken + 1);
        OPEN_FILES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).ok().map(|_| Self)
    }
}

impl Drop for OpenFileSlot {
    fn drop(&mut self) {
        OPEN_FILES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file that is read for every sample, and kept open while there is a slot: finding it takes longer than reading it.
struct Counter {
    path: PathBuf,
    open: Option<(File, OpenFileSlot)>,
}

impl Counter {
    fn at(path: PathBuf) -> Self {
        let open = OpenFileSlot::take().and_then(|slot| Some((File::open(&path).ok()?, slot)));
        Self { path, open }
    }

    /// None once its cgroup is gone.
    fn read<'a>(&self, buffer: &'a mut Buffer) -> Option<&'a [u8]> {
        let read = match &self.open {
            Some((file, _)) => read_whole(file, buffer),
            None => read_whole(&File::open(&self.path).ok()?, buffer),
        };
        buffer.0.get(..read?)
    }

    fn number(&self, buffer: &mut Buffer) -> Option<u64> {
        number(self.read(buffer)?.trim_ascii())
    }
}

/// All of it at once: the kernel generates it again for each read.
fn read_whole(file: &File, buffer: &mut Buffer) -> Option<usize> {
    file.read_at(&mut buffer.0, 0).ok()
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Values of a file of lines as `name 12`, in the order of their names. Each line is read once.
fn values<const N: usize>(text: &[u8], names: [&str; N]) -> [Option<u64>; N] {
    let mut found = [None; N];
    for line in text.split(|&byte| byte == b'\n') {
        let of = |name: &&str| line.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b" "));
        let named = names.iter().enumerate().find_map(|(at, name)| Some((at, of(name)?)));
        if let Some((at, value)) = named {
            found[at] = number(value.trim_ascii());
            if !found.contains(&None) {
                break;
            }
        }
    }
    found
}

/// The cgroup of a process whose cgroups are these, as cgroups(7) has them, where they are mounted below `root`, for what
/// `controller` rules; and of which version it is.
fn find(root: &Path, cgroups: &str, controller: &str) -> Option<(PathBuf, u8)> {
    let own = |controller_name: &str| {
        cgroups.lines().find_map(|line| {
            let (names, path) = line.split_once(':')?.1.split_once(':')?;
            names
                .split(',')
                .any(|name| name == controller_name)
                .then(|| path.trim_start_matches('/').to_owned())
        })
    };
    let first = own(controller).map(|path| (root.join(controller).join(path), 1));
    first.or_else(|| own("").map(|path| (second_in(root).join(path), 2)))
}

/// Counters of memory, including those of nested cgroups.
struct MemoryCounters {
    /// With what is called so there, in bytes: of no file, of files, and swapped out unless that has its own file.
    stat: Counter,
    names: [&'static str; 3],
    /// In bytes; none where it is a line of `stat`.
    swap: Option<Counter>,
    usage: Counter,
    most: Counter,
}

impl MemoryCounters {
    fn of((dir, version): (PathBuf, u8)) -> Self {
        let at = |name: &str| Counter::at(dir.join(name));
        let stat = at("memory.stat");
        match version {
            1 => Self {
                stat,
                names: ["total_rss", "total_cache", "total_swap"],
                swap: None,
                usage: at("memory.usage_in_bytes"),
                most: at("memory.max_usage_in_bytes"),
            },
            _ => Self {
                stat,
                names: ["anon", "file", "swap"],
                swap: Some(at("memory.swap.current")),
                usage: at("memory.current"),
                most: at("memory.peak"),
            },
        }
    }

    fn read(&self, buffer: &mut Buffer) -> Option<MemoryUsage> {
        let [rss, cache, swap] = values(self.stat.read(buffer)?, self.names);
        // Where nothing is swapped out, nothing may count it either.
        let swap = self.swap.as_ref().map_or(swap, |swap| swap.number(buffer));
        Some(MemoryUsage {
            rss: rss?,
            swap: swap.unwrap_or_default(),
            cache,
            usage: self.usage.number(buffer),
            usage_max: self.most.number(buffer),
        })
    }
}

/// Counters of processor time.
enum CpuCounters {
    /// In version 1, by two controllers: ticks spent, and how it was held back.
    First(Counter, Counter),
    Second(Counter),
}

impl CpuCounters {
    fn find(root: &Path, cgroups: &str) -> Option<Self> {
        let (dir, version) = find(root, cgroups, "cpu")?;
        let held_back = Counter::at(dir.join("cpu.stat"));
        if version == 2 {
            return Some(Self::Second(held_back));
        }
        let (dir, _) = find(root, cgroups, "cpuacct")?;
        Some(Self::First(Counter::at(dir.join("cpuacct.stat")), held_back))
    }

    fn read(&self, buffer: &mut Buffer) -> Option<(CpuSeconds, Option<Throttled>)> {
        let (user, system, per_second, periods, throttled, unit_ns) = match self {
            Self::First(spent, stat) => {
                let [user, system] = values(spent.read(buffer)?, ["user", "system"]);
                // None where nothing counts that.
                let stat = stat.read(buffer).unwrap_or_default();
                let [periods, throttled] = values(stat, ["nr_throttled", "throttled_time"]);
                (user, system, clock_ticks_per_second() as f64, periods, throttled, 1)
            }
            Self::Second(stat) => {
                let names = ["user_usec", "system_usec", "nr_throttled", "throttled_usec"];
                let [user, system, periods, throttled] = values(stat.read(buffer)?, names);
                (user, system, 1e6, periods, throttled, 1_000)
            }
        };
        let spent = CpuSeconds { user_s: user? as f64 / per_second, system_s: system? as f64 / per_second };
        let throttled = periods.zip(throttled);
        Some((
            spent,
            throttled.map(|(periods, time)| Throttled { periods, ns: time.saturating_mul(unit_ns) }),
        ))
    }
}

/// The counters of the cgroups of a container, which stays in them as long as it runs.
pub(super) struct CgroupCounters {
    memory: MemoryCounters,
    cpu: CpuCounters,
}

/// The usage of a container.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CgroupUsage {
    pub(super) spent: CpuSeconds,
    /// None where the kernel does not count throttling.
    pub(super) throttled: Option<Throttled>,
    /// What it holds and counts against its limit.
    pub(super) memory: MemoryUsage,
}

impl CgroupCounters {
    /// Those of its main process; none where nothing counts.
    pub(super) fn of(main: Pid) -> Option<Self> {
        let cgroups = fs::read_to_string(format!("/proc/{main}/cgroup")).ok()?;
        let cgroup = Self::find(Path::new("/sys/fs/cgroup"), &cgroups)?;
        cgroup.read(&mut Buffer::new()).map(|_| cgroup)
    }

    fn find(root: &Path, cgroups: &str) -> Option<Self> {
        let memory = MemoryCounters::of(find(root, cgroups, "memory")?);
        Some(Self { memory, cpu: CpuCounters::find(root, cgroups)? })
    }

    /// None once it has ended.
    pub(super) fn read(&self, buffer: &mut Buffer) -> Option<CgroupUsage> {
        let (spent, throttled) = self.cpu.read(buffer)?;
        Some(CgroupUsage { spent, throttled, memory: self.memory.read(buffer)? })
    }
}

/// The processor time that a container has spent so far, to the least unit that is counted. It changes whenever any of its
/// processes runs.
pub(in crate::shell) struct CpuTime {
    counter: Counter,
    version: u8,
}

impl CpuTime {
    pub(in crate::shell) fn of(account: &CpuAccount) -> Self {
        let file = if account.version == 1 { "cpuacct.usage" } else { "cpu.stat" };
        Self { counter: Counter::at(account.cgroup.path().join(file)), version: account.version }
    }

    /// None once the container has ended.
    pub(in crate::shell) fn read(&self) -> Option<u64> {
        let mut buffer = Buffer::new();
        if self.version == 1 {
            return self.counter.number(&mut buffer);
        }
        let [spent] = values(self.counter.read(&mut buffer)?, ["usage_usec"]);
        spent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroups::Cgroup;

    fn write(dir: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(dir).expect("made");
        files.iter().for_each(|(file, text)| fs::write(dir.join(file), text).expect("written"));
    }

    /// As Linux 6.1 has them for a container, with version 2 alone.
    #[test]
    fn what_version_2_counts_is_found_in_recorded_files() {
        let root = tempfile::tempdir().expect("a directory");
        let cpu = "usage_usec 912\nuser_usec 400\nsystem_usec 512\nnr_periods 9\nnr_throttled 4\nthrottled_usec 73\n";
        let files = [
            ("memory.current", "6201344\n"),
            ("memory.peak", "9011200\n"),
            ("memory.swap.current", "8192\n"),
            ("memory.stat", "anon 4194304\nfile 1351680\nkernel 552960\nfile_mapped 0\n"),
            ("cpu.stat", cpu),
        ];
        write(&root.path().join("berth/task"), &files);
        let found = CgroupCounters::find(root.path(), "0::/berth/task\n").expect("a cgroup");
        let read = |found: &CgroupCounters| found.read(&mut Buffer::new()).expect("it is there");
        let CgroupUsage { spent, throttled, memory } = read(&found);
        let expected = MemoryUsage {
            rss: 4_194_304,
            swap: 8_192,
            cache: Some(1_351_680),
            usage: Some(6_201_344),
            usage_max: Some(9_011_200),
        };
        assert_eq!((spent, memory), (CpuSeconds { user_s: 0.000_4, system_s: 0.000_512 }, expected));
        assert_eq!(throttled, Some(Throttled { periods: 4, ns: 73_000 }));
        let account = CpuAccount { cgroup: Cgroup::at(root.path().join("berth/task")), version: 2 };
        assert_eq!(CpuTime::of(&account).read(), Some(912));
        fs::remove_file(root.path().join("berth/task/memory.swap.current")).expect("removed");
        let found = CgroupCounters::find(root.path(), "0::/berth/task\n").expect("a cgroup");
        assert_eq!(read(&found).memory, MemoryUsage { swap: 0, ..expected });
    }

    /// As Linux 6.1 has them for a container, where version 1 has these controllers.
    #[test]
    fn what_version_1_counts_is_found_in_recorded_files() {
        let root = tempfile::tempdir().expect("a directory");
        let of = |controller: &str| root.path().join(controller).join("berth/task");
        write(&of("cpu"), &[("cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 73000\n")]);
        write(&of("cpuacct"), &[("cpuacct.stat", "user 300\nsystem 50\n")]);
        let stat = "cache 1\nrss 2\nswap 3\nhierarchical_memory_limit 67108864\ntotal_cache 1351680\ntotal_rss 4194304\n\
                    total_rss_huge 0\ntotal_swap 8192\n";
        let files = [
            ("memory.stat", stat),
            ("memory.usage_in_bytes", "6201344\n"),
            ("memory.max_usage_in_bytes", "9011200\n"),
        ];
        write(&of("memory"), &files);
        let cgroups = "7:memory:/berth/task\n5:cpu,cpuacct:/berth/task\n0::/\n";
        let found = CgroupCounters::find(root.path(), cgroups).expect("a cgroup");
        let CgroupUsage { spent, throttled, memory } = found.read(&mut Buffer::new()).expect("it is there");
        let ticks = clock_ticks_per_second() as f64;
        assert_eq!(spent, CpuSeconds { user_s: 300.0 / ticks, system_s: 50.0 / ticks });
        let (rss, swap, cache) = (4_194_304, 8_192, Some(1_351_680));
        assert_eq!(
            memory,
            MemoryUsage { rss, swap, cache, usage: Some(6_201_344), usage_max: Some(9_011_200) }
        );
        assert_eq!(throttled, Some(Throttled { periods: 4, ns: 73_000 }));
        // A controller that does not count that hides nothing else.
        fs::remove_file(of("cpu").join("cpu.stat")).expect("removed");
        let found = CgroupCounters::find(root.path(), cgroups).expect("a cgroup");
        assert_eq!(found.read(&mut Buffer::new()), Some(CgroupUsage { spent, throttled: None, memory }));
        write(&of("cpuacct"), &[("cpuacct.usage", "3500000123\n")]);
        let account = CpuAccount { cgroup: Cgroup::at(of("cpuacct")), version: 1 };
        assert_eq!(CpuTime::of(&account).read(), Some(3_500_000_123));
    }

    #[test]
    fn counters_are_current_whether_their_files_stay_open_or_not() {
        let root = tempfile::tempdir().expect("a directory");
        let path = root.path().join("memory.current");
        fs::write(&path, "1\n").expect("written");
        let open = Counter::at(path.clone());
        assert!(open.open.is_some(), "few are");
        let closed = Counter { path: path.clone(), open: None };
        let both = || [&open, &closed].map(|counter| counter.number(&mut Buffer::new()));
        assert_eq!(both(), [Some(1); 2]);
        fs::write(&path, "20\n").expect("written");
        assert_eq!(both(), [Some(20); 2]);
    }

    #[test]
    fn values_are_found_by_their_whole_names() {
        let stat = b"nr_periods 3\nnr_throttled 2\nthrottled_time 500\nodd x\n";
        let found = values(stat, ["nr_throttled", "throttled", "x", "odd", "nr_periods"]);
        assert_eq!(found, [Some(2), None, None, None, Some(3)]);
        assert_eq!(values(b"", ["a"]), [None]);
    }
}
