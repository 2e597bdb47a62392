//! Reads of /proc about processes and the machine.

use std::fs;

use rustix::process::Pid;

/// The process of this number, as a record, a file or a runtime has it; none of 0, and of what cannot be one.
pub(crate) fn pid(number: i32) -> Option<Pid> {
    Pid::from_raw(number.max(0))
}

/// Changes with each boot of the machine.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The fields of /proc/PID/stat after the command's name, which may hold anything; the first is the state.
fn stat_fields(pid: Pid) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// When a process started, in ticks since boot: with its pid, this names it for as long as the machine runs. None for
/// one that has ended, reaped or not.
pub(crate) fn start_ticks(pid: Pid) -> Option<u64> {
    let fields = stat_fields(pid)?;
    let alive = !matches!(fields.first()?.as_str(), "Z" | "X");
    alive.then(|| fields.get(19)?.parse().ok()).flatten()
}

/// Processes whose parent is `parent`.
pub(crate) fn children(parent: Pid) -> Vec<Pid> {
    with_field(1, parent)
}

/// Processes of the session that `leader` leads, or once led.
pub(crate) fn members(leader: Pid) -> Vec<Pid> {
    with_field(3, leader)
}

/// Processes whose command lines, as words, are what is looked for.
pub(crate) fn with_words(is_so: impl Fn(&[&[u8]]) -> bool) -> Vec<Pid> {
    let matches = |pid: &Pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        is_so(&line.split(|&byte| byte == 0).collect::<Vec<_>>())
    };
    all().filter(matches).collect()
}

fn all() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(pid))
}

/// Processes of whose /proc/PID/stat this field, counted from the state, names `value`.
fn with_field(field: usize, value: Pid) -> Vec<Pid> {
    let is_so = |pid: &Pid| {
        stat_fields(*pid).and_then(|fields| fields.get(field)?.parse().ok()) == Some(value.as_raw_pid())
    };
    all().filter(is_so).collect()
}

#[cfg(test)]
mod tests {
    use rustix::process::{getpid, getppid, getsid};

    use super::*;

    #[test]
    fn this_process_is_found() {
        let me = getpid();
        assert!(start_ticks(me).is_some_and(|ticks| ticks > 0));
        assert!(children(getppid().expect("a parent")).contains(&me));
        assert!(members(getsid(None).expect("a session")).contains(&me));
        assert_eq!(boot_id().len(), 36);
    }
}
