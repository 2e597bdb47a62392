//! Usage of processes, as /proc reports it.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Read;

use berth_api::agent::MemoryUsage;
use rustix::param::clock_ticks_per_second;

/// How much of /proc/PID/stat is read; the fields that are used come before that.
const STAT_BYTES_MAX: usize = 1_024;

/// Seconds of cpu time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct CpuSeconds {
    pub(super) user_s: f64,
    pub(super) system_s: f64,
}

/// All processes of the machine, at one time.
#[derive(Default)]
pub(in crate::shell) struct ProcessTree {
    all: BTreeMap<i32, ProcessStat>,
    /// The pids of children, by the pids of their parents.
    children: HashMap<i32, Vec<i32>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProcessStat {
    parent: i32,
    user_ticks: u64,
    system_ticks: u64,
}

impl ProcessTree {
    pub(in crate::shell) fn read() -> Self {
        let Ok(entries) = fs::read_dir("/proc") else { return Self::default() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        // One read takes it whole: of many processes, each call of the kernel counts.
        let mut bytes = [0; STAT_BYTES_MAX];
        let process = |pid| {
            let read =
                File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut bytes)).ok()?;
            Some((pid, ProcessStat::parse(&String::from_utf8_lossy(&bytes[..read]))?))
        };
        Self::of(pids.filter_map(process).collect())
    }

    fn of(all: BTreeMap<i32, ProcessStat>) -> Self {
        let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
        for (pid, process) in &all {
            children.entry(process.parent).or_default().push(*pid);
        }
        Self { all, children }
    }

    /// The processes of a task: all below its keeper, for what leaves its parent becomes the keeper's child; without a
    /// keeper, the main process and all below that. None of a task that has no main process yet: 0 is the parent of all that
    /// run on the machine.
    pub(in crate::shell) fn of_task(&self, keeper: i32, main: i32) -> Vec<i32> {
        if main <= 0 {
            return Vec::new();
        }
        let has_keeper = self.all.get(&main).is_some_and(|process| process.parent == keeper);
        let mut found: Vec<i32> = if has_keeper { vec![keeper] } else { vec![main] };
        let mut at = 0;
        while at < found.len() {
            let parent = found[at];
            found.extend(self.children.get(&parent).into_iter().flatten());
            at += 1;
        }
        found.retain(|pid| self.all.contains_key(pid) && !(has_keeper && *pid == keeper));
        found
    }

    pub(super) fn spent(&self, pids: &[i32]) -> CpuSeconds {
        let per_second = clock_ticks_per_second() as f64;
        let sum = |ticks: fn(&ProcessStat) -> u64| {
            pids.iter().filter_map(|pid| self.all.get(pid)).map(ticks).sum::<u64>() as f64 / per_second
        };
        CpuSeconds {
            user_s: sum(|process| process.user_ticks),
            system_s: sum(|process| process.system_ticks),
        }
    }
}

impl ProcessStat {
    /// Reads /proc/PID/stat; the command's name may hold anything.
    fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let parent = fields.get(1)?.parse().ok()?;
        Some(Self { parent, user_ticks: number(11)?, system_ticks: number(12)? })
    }
}

/// What processes hold of memory; what they share counts for each of them.
pub(super) fn memory(pids: &[i32]) -> MemoryUsage {
    let mut sum = MemoryUsage::default();
    for status in pids.iter().filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/status")).ok()) {
        sum.rss += kib(&status, "VmRSS:") << 10;
        sum.swap += kib(&status, "VmSwap:") << 10;
    }
    sum
}

/// A value of a file of lines as `Name:  12 kB`; 0 when it is not there.
pub(super) fn kib(text: &str, name: &str) -> u64 {
    let rest = text.lines().find_map(|line| line.strip_prefix(name));
    rest.and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: i32) -> ProcessStat {
        ProcessStat { parent, user_ticks: 10, system_ticks: 5 }
    }

    #[test]
    fn a_task_is_all_that_its_keeper_keeps() {
        let parents = [(1, 0), (10, 1), (11, 10), (12, 11), (13, 10), (20, 1)];
        let tree = ProcessTree::of(parents.into_iter().map(|(pid, parent)| (pid, process(parent))).collect());
        assert_eq!(tree.of_task(10, 11), [11, 13, 12]);
        assert_eq!(tree.of_task(99, 11), [11, 12], "adopted: its first keeper is gone");
        assert_eq!(tree.of_task(10, 77), [0; 0], "ended");
        assert_eq!(tree.of_task(10, 0), [0; 0], "claimed, and not begun");
        let spent = tree.spent(&[11, 12]);
        assert_eq!(spent.user_s, 2.0 * spent.system_s);
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a) b (c) S 3 7 7 0 -1 4194560 1 0 0 0 42 17 0 0 20 0 1 0 100 1 1";
        assert_eq!(
            ProcessStat::parse(stat),
            Some(ProcessStat { parent: 3, user_ticks: 42, system_ticks: 17 })
        );
        assert_eq!(ProcessStat::parse("7 (x"), None);
        assert_eq!(kib("VmPeak:\t 9 kB\nVmRSS:\t  120 kB\n", "VmRSS:"), 120);
    }

    #[test]
    fn this_process_holds_memory() {
        let me = std::process::id() as i32;
        assert!(ProcessTree::read().of_task(0, me).contains(&me));
        assert!(memory(&[me]).rss > 1 << 16);
    }
}
