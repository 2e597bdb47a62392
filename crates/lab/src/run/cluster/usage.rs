//! Usage of a process, as the kernel reports it.

use procfs::{ProcResult, process::Process};

/// What a process has used since it began.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in crate::run) struct Usage {
    /// Processor seconds, in it and in the kernel for it.
    pub cpu_s: f64,
    /// Resident memory, in bytes.
    pub rss_bytes: u64,
    /// The most that was ever resident.
    pub rss_max_bytes: u64,
    /// Bytes that it caused to be sent to disks.
    pub written_bytes: u64,
}

/// The usage of a process; none when it has ended.
pub(in crate::run) fn usage(pid: u32) -> Option<Usage> {
    read(pid).ok()
}

fn read(pid: u32) -> ProcResult<Usage> {
    let process = Process::new(i32::try_from(pid).unwrap_or(-1))?;
    let (stat, status) = (process.stat()?, process.status()?);
    Ok(Usage {
        cpu_s: (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64,
        rss_bytes: status.vmrss.unwrap_or_default() << 10,
        rss_max_bytes: status.vmhwm.unwrap_or_default() << 10,
        written_bytes: process.io()?.write_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_memory_and_the_next_one_is_not_there() {
        let used = usage(std::process::id()).unwrap();
        assert!(used.rss_bytes > 0 && used.rss_max_bytes >= used.rss_bytes, "{used:?}");
        assert_eq!(usage(u32::MAX), None);
    }
}
