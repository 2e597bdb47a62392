//! Resource usage of this process as the kernel reports it, under the names that Prometheus' client libraries use.

use std::fs;

use rustix::param::clock_ticks_per_second;

use crate::shared::{Measured, Metric};

const BYTES_PER_KIB: f64 = 1024.0;
/// Fields of `/proc/self/stat` behind the name, which may hold spaces: see proc_pid_stat(5), where the state is the third.
const USER_TICKS: usize = 14 - 3;
const SYSTEM_TICKS: usize = 15 - 3;
const STARTED_TICKS: usize = 22 - 3;

/// All that can be read; what the kernel does not say is left out.
pub(crate) fn metrics() -> Vec<Metric> {
    of(|path| fs::read_to_string(path).unwrap_or_default())
}

/// The same of the texts that are read at paths.
fn of(read: impl Fn(&str) -> String) -> Vec<Metric> {
    let (stat, status, boot) = (read("/proc/self/stat"), read("/proc/self/status"), read("/proc/stat"));
    let ticks = clock_ticks_per_second() as f64;
    let seconds = |field| field_of(&stat, field).map(|count| count / ticks);
    let cpu = seconds(USER_TICKS).zip(seconds(SYSTEM_TICKS)).map(|(user, system)| user + system);
    let start_time = seconds(STARTED_TICKS).zip(line_of(&boot, "btime")).map(|(after, boot)| boot + after);
    let files = open_files().map(|files| files as f64);
    let files_max = line_of(&read("/proc/self/limits"), "Max open files");
    let gauge = |name, help, value: Option<f64>| Some(Metric::one(name, help, Measured::Gauge(value?)));
    let kib = |name| line_of(&status, name).map(|kib| kib * BYTES_PER_KIB);
    let all = [
        cpu.map(|cpu| {
            let help = "CPU time of this process, in seconds.";
            Metric::one("process_cpu_seconds_total", help, Measured::Counter(cpu))
        }),
        gauge("process_max_fds", "Limit of open files of this process.", files_max),
        gauge("process_open_fds", "Open files of this process.", files),
        gauge("process_resident_memory_bytes", "Resident memory of this process.", kib("VmRSS:")),
        gauge("process_start_time_seconds", "Start of this process, in seconds since 1970.", start_time),
        gauge("process_threads", "Threads of this process.", line_of(&status, "Threads:")),
        gauge("process_virtual_memory_bytes", "Address space of this process.", kib("VmSize:")),
    ];
    all.into_iter().flatten().collect()
}

/// How many files this process has open. Kernels since 6.2 give the number as the size of the directory; before that it has to be
/// read, which takes 30 ms with the connections of 40,000 agents.
fn open_files() -> Option<u64> {
    const DIR: &str = "/proc/self/fd";
    match fs::metadata(DIR).ok()?.len() {
        // The directory that is read is one of them.
        0 => Some(fs::read_dir(DIR).ok()?.count().saturating_sub(1) as u64),
        files => Some(files),
    }
}

/// A field behind the name.
fn field_of(stat: &str, field: usize) -> Option<f64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(field)?.parse().ok()
}

/// The first number behind a name at the beginning of a line.
fn line_of(text: &str, name: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_moves_no_field() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 9 0 12345 1 2";
        let fields = [USER_TICKS, SYSTEM_TICKS, STARTED_TICKS].map(|field| field_of(stat, field));
        assert_eq!(fields, [Some(250.0), Some(50.0), Some(12345.0)]);
        assert_eq!(field_of("7 (a", USER_TICKS), None);
        assert_eq!(line_of("VmRSS:\t  512 kB\nThreads:\t4\n", "Threads:"), Some(4.0));
        assert_eq!(line_of("Max open files            unlimited", "Max open files"), None);
    }

    #[test]
    fn the_limit_of_open_files_is_what_the_kernel_says() {
        let with = |max: &str| {
            of(|path| match path {
                "/proc/self/limits" => {
                    format!("Max open files            {max}                 524288               files\n")
                }
                _ => String::new(),
            })
        };
        let moved = Metric::moved(&with("1024"), &with("524288"));
        assert!(moved.contains(&"process_max_fds"), "{moved:?}");
    }

    #[test]
    fn threads_are_as_many_as_the_kernel_says() {
        let with = |threads: u32| {
            of(|path| match path {
                "/proc/self/status" => format!("VmRSS:\t  512 kB\nThreads:\t{threads}\n"),
                _ => String::new(),
            })
        };
        let moved = Metric::moved(&with(4), &with(5));
        assert!(moved.contains(&"process_threads"), "{moved:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn an_open_file_and_used_memory_are_seen() {
        let of = |name: &str| {
            let value = metrics().into_iter().find(|metric| metric.name == name)?.samples.pop()?.1;
            match value {
                Measured::Gauge(value) | Measured::Counter(value) => Some(value),
                _ => None,
            }
        };
        for name in ["process_cpu_seconds_total", "process_start_time_seconds", "process_threads"] {
            assert!(of(name).is_some(), "{name}");
        }
        let (open, max) = (of("process_open_fds").unwrap(), of("process_max_fds").unwrap_or(f64::INFINITY));
        assert!(open >= 3.0 && open <= max, "{open} of {max}");
        // Other tests open and close files meanwhile: three hundred more are beyond that.
        let more: Vec<_> = (0..300).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        let now = of("process_open_fds").unwrap();
        assert!(now >= open + 100.0, "{open}, and {now} with {} more", more.len());
        let (resident, all) = (of("process_resident_memory_bytes"), of("process_virtual_memory_bytes"));
        assert!(resident > Some(1e6) && resident <= all, "{resident:?} of {all:?}");
    }
}
