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
    use std::{
        io::{BufRead, BufReader},
        process::{Command, Stdio},
    };

    use rustix::process::{WaitId, WaitIdOptions, getpid, waitid};

    use super::*;

    /// This process may itself have a parent and a session that its PID namespace has no numbers for.
    #[test]
    fn a_process_is_found_by_its_parent_and_its_session_until_it_ends() {
        let mut child = Command::new("setsid")
            .args(["sh", "-c", "echo started; read line"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let id = pid(child.id().cast_signed()).expect("a PID");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("it says that it has started");

        assert!(start_ticks(id).is_some_and(|ticks| ticks > 0));
        assert!(children(getpid()).contains(&id));
        assert_eq!(members(id), [id]);

        drop(child.stdin.take());
        waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("it ends");
        assert_eq!(start_ticks(id), None, "it has ended, though nobody has reaped it");
        child.wait().expect("it is reaped");
    }

    #[test]
    fn a_boot_has_an_identifier() {
        assert_eq!(boot_id().len(), 36);
    }
}
