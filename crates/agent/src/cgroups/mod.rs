//! Cgroups that hold the processes of a task together, whatever these do to their parents, groups and sessions.
//!
//! Version 2 wherever it is mounted, alone or beside version 1; else the freezer of version 1. All of Berth's lie in one
//! directory, `berth`, beside those that OCI runtimes make for containers.

mod cpuset;
mod group;
mod leftovers;
mod limits;
mod mounts;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use rustix::process::Pid;

use crate::failure::{Failure, FailureContext};
use crate::mountinfo;
pub(crate) use cpuset::{Cores, Cpuset};
pub(crate) use group::Cgroup;
pub(crate) use leftovers::remove_leftovers;
pub(crate) use limits::{CgroupLimits, Controllers};
use mounts::{Hierarchy, candidates};

/// The directory of all of Berth's.
const DIR: &str = "berth";

/// Where cgroups can be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroups {
    dir: PathBuf,
    /// The version of cgroups: 1 or 2.
    pub(crate) version: u8,
    pub(crate) controllers: Controllers,
    /// None where tasks cannot be kept to cores.
    pub(crate) cpuset: Option<Cpuset>,
}

/// Ends what is in any of them and removes them; whether all is gone.
pub(crate) fn end_all(cgroups: &[Cgroup]) -> bool {
    // Every one is asked to end, whatever the others say.
    let ended: Vec<bool> = cgroups.iter().map(Cgroup::end).collect();
    !ended.contains(&false)
}

/// Why containers cannot be limited on this host: a runtime that is asked for a limit that it cannot set starts nothing.
pub(crate) fn without_limits() -> Option<String> {
    lacks(&mountinfo::read().unwrap_or_default())
}

fn lacks(mounted: &[mountinfo::MountEntry]) -> Option<String> {
    let cannot = "containers cannot be limited here";
    let missing = Controllers::find(&mounts::of_runtimes(mounted)).lacking();
    if missing.is_empty() {
        return None;
    }
    let lacked_by_all = Controllers::find(&mounts::all(mounted)).lacking();
    if lacked_by_all.is_empty() {
        let names = missing.join(", ");
        return Some(format!(
            "{cannot}: the cgroup controllers {names} are in version 2, which runtimes do not use beside version 1: boot the \
             node with version 2 alone (systemd.unified_cgroup_hierarchy=1) or give these controllers to version 1"
        ));
    }
    let names = lacked_by_all.join(", ");
    Some(format!("{cannot}: this node lacks the cgroup controllers {names}, or the agent may not use them"))
}

/// Where version 2 is mounted whose mounts lie in `root`, the usual place: beside version 1 that has a directory of its own.
pub(crate) fn second_in(root: &Path) -> PathBuf {
    let beside = root.join("unified");
    if beside.join("cgroup.controllers").exists() { beside } else { root.to_owned() }
}

/// Those of the container of this name, which its runtime makes in each hierarchy.
pub(crate) fn of_container(id: &str) -> Vec<Cgroup> {
    let mounted = mountinfo::read().unwrap_or_default();
    let all = mounts::all(&mounted).into_iter().map(|found| found.mount.join(DIR).join(id));
    all.filter(|dir| dir.exists()).map(Cgroup::at).collect()
}

/// A cgroup that counts the processor time of all in it and within.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuAccount {
    pub(crate) cgroup: Cgroup,
    /// The version of cgroups: 1 or 2.
    pub(crate) version: u8,
}

/// That of the container of this name, whose main process is this one; none where it does not count that.
pub(crate) fn cpu_account(id: &str, main: Pid) -> Option<CpuAccount> {
    static FOUND: LazyLock<Option<Hierarchy>> =
        LazyLock::new(|| counting_cpu(&mountinfo::read().unwrap_or_default()));
    let Hierarchy { mount, version, .. } = FOUND.as_ref()?;
    let cgroup = Cgroup::at(mount.join(DIR).join(id));
    // A runtime might have put it elsewhere: then this one counts nothing, whatever the container does.
    cgroup.processes().contains(&main).then_some(CpuAccount { cgroup, version: *version })
}

/// Version 1 where it counts processor time: beside it, runtimes make no cgroups of version 2.
fn counting_cpu(mounted: &[mountinfo::MountEntry]) -> Option<Hierarchy> {
    let all = mounts::all(mounted);
    let first = all.iter().find(|found| found.has("cpuacct"));
    first.or_else(|| all.iter().find(|found| found.version == 2)).cloned()
}

impl Cgroups {
    /// Those that this process may make.
    ///
    /// # Errors
    /// When there are none, with the reason for each hierarchy that is mounted.
    pub(crate) fn find() -> Result<Self, Failure> {
        let doing = || "hold the processes of tasks in cgroups".to_owned();
        let mounted = mountinfo::read()?;
        let mut reasons = Vec::new();
        for Hierarchy { mount, version, .. } in candidates(&mounted) {
            let controllers = Controllers::find(&mounts::all(&mounted));
            let cpuset = Cpuset::find().ok();
            let found = Self { dir: mount.join(DIR), version, controllers, cpuset };
            match found.probe() {
                Ok(()) => return Ok(found),
                Err(failure) => reasons.push(failure.to_string()),
            }
        }
        if reasons.is_empty() {
            reasons.push("neither version 2 nor the freezer of version 1 is mounted".into());
        }
        Err(Failure::other(doing(), reasons.join("; ")))
    }

    /// Where the cgroup of this name is, or would be.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn probe(&self) -> Result<(), Failure> {
        let probe = Cgroup::at(self.dir.join(format!("probe-{}", std::process::id())));
        probe.make()?;
        fs::remove_dir(probe.path()).doing(|| format!("remove the cgroup {}", probe.path().display()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_host_without_cgroups_says_what_it_lacks() {
        let why = lacks(&[]).expect("nothing is there");
        assert!(why.contains("the cgroup controllers cpu, memory, pids"), "{why}");
    }

    /// A host that mounts both versions, `first` of the controllers in version 1 and all in version 2, where that has any.
    fn hybrid(first: &[&str], second: &Path) -> Vec<mountinfo::MountEntry> {
        let mount = |point: PathBuf, kind: &str, options: &str| mountinfo::MountEntry {
            point,
            kind: kind.into(),
            source: kind.into(),
            options: vec!["rw".into(), options.into()],
        };
        let of_first =
            first.iter().map(|name| mount(format!("/sys/fs/cgroup/{name}").into(), "cgroup", name));
        let tmpfs = mount("/sys/fs/cgroup".into(), "tmpfs", "mode=755");
        [tmpfs].into_iter().chain(of_first).chain([mount(second.into(), "cgroup2", "")]).collect()
    }

    #[test]
    fn processor_time_is_counted_by_version_1_where_that_counts_it() {
        let found = |first: &[&str]| {
            let found =
                counting_cpu(&hybrid(first, Path::new("/sys/fs/cgroup/unified"))).expect("it is counted");
            format!("{} v{}", found.mount.display(), found.version)
        };
        assert_eq!(found(&["cpu", "cpuacct"]), "/sys/fs/cgroup/cpuacct v1");
        assert_eq!(found(&["memory"]), "/sys/fs/cgroup/unified v2");
        assert_eq!(counting_cpu(&[]), None);
    }

    #[test]
    fn what_sleeps_spends_nothing_and_what_runs_does() {
        let Some(found) = counting_cpu(&mountinfo::read().expect("mounts")) else { return };
        let name = format!("test-cpu-{}", std::process::id());
        let cgroup = Cgroup::at(found.mount.join(DIR).join(&name));
        // Only root may make one.
        if cgroup.make().is_err() {
            return;
        }
        let pipes = (Stdio::piped(), Stdio::piped());
        let mut child = Command::new("cat").stdin(pipes.0).stdout(pipes.1).spawn().expect("a process");
        let main = Pid::from_child(&child);
        assert_eq!(cpu_account(&name, main), None, "it runs elsewhere");
        cgroup.join(main).expect("joined");
        let account = cpu_account(&name, main).expect("it counts");
        assert_eq!((&account.cgroup, account.version), (&cgroup, found.version));
        let file = if found.version == 1 { "cpuacct.usage" } else { "cpu.stat" };
        let spent = || fs::read_to_string(cgroup.path().join(file)).expect("counted");
        let (mut input, mut output) =
            (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let mut echo = || {
            input.write_all(b"x").expect("written");
            output.read_exact(&mut [0]).expect("read");
            // Until it waits for the next one.
            while !fs::read_to_string(format!("/proc/{main}/stat")).expect("it lives").contains(") S ") {
                std::thread::yield_now();
            }
            spent()
        };
        let first = echo();
        assert_eq!(spent(), first, "it has slept since");
        assert_ne!(echo(), first, "it has run");
        drop(input);
        child.wait().expect("an end");
        assert!(cgroup.end());
        assert_eq!(cpu_account(&name, main), None, "it has ended");
    }

    #[test]
    fn beside_version_1_runtimes_limit_nothing_in_version_2() {
        let dir = tempfile::tempdir().expect("a directory");
        let own = dir.path().join(DIR);
        fs::create_dir(&own).expect("made");
        for dir in [dir.path(), &own] {
            fs::write(dir.join("cgroup.controllers"), "memory\n").expect("written");
            fs::write(dir.join("cgroup.subtree_control"), "memory\n").expect("written");
        }
        let mounted = hybrid(&["cpu", "pids"], dir.path());
        let why = lacks(&mounted).expect("the runtime would not limit memory");
        assert!(why.contains("controllers memory are in version 2, which runtimes do not use"), "{why}");
        // A task that its keeper limits is limited where the controller lies.
        assert_eq!(Controllers::find(&mounts::all(&mounted)).lacking(), [""; 0]);
        assert_eq!(lacks(&hybrid(&["cpu", "memory", "pids"], dir.path())), None);
        let why = lacks(&hybrid(&["cpu"], dir.path())).expect("it has no pids anywhere");
        assert!(why.contains("lacks the cgroup controllers pids,"), "{why}");
    }
}
