//! One cgroup: creates it, moves a process into it, sets its limits, and kills all that runs in it.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::{Failure, FailureContext};
use crate::proc;

/// How long its processes are given to die.
const END_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(2);

/// Cgroups within it that are looked into at a time: a task may make some itself.
const WITHIN_MAX: usize = 10_000;

/// A cgroup of a task, which need not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cgroup {
    dir: PathBuf,
}

impl Cgroup {
    pub(crate) fn at(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Makes it, if it is not there.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        fs::create_dir_all(&self.dir).doing(|| format!("make the cgroup {}", self.dir.display()))
    }

    /// Puts a process there; whatever that starts from now on is there too.
    pub(crate) fn join(&self, pid: Pid) -> Result<(), Failure> {
        let doing = || format!("put a process into the cgroup {}", self.dir.display());
        write(&self.dir.join("cgroup.procs"), &pid.to_string()).doing(doing)
    }

    /// Says what those in it may have, before they are.
    pub(crate) fn set(&self, file: &str, value: &str, optional: bool) -> Result<(), Failure> {
        match write(&self.dir.join(file), value) {
            Err(error) if optional && error.kind() == ErrorKind::NotFound => Ok(()),
            set => set.doing(|| format!("set {} of the cgroup {} to {value}", file, self.dir.display())),
        }
    }

    /// Kills all that is in it until there is nothing left, and removes it; false when something would not go.
    pub(crate) fn end(&self) -> bool {
        let deadline = Instant::now() + END_MAX;
        while !self.try_remove() {
            if Instant::now() > deadline {
                return false;
            }
            self.kill();
            std::thread::sleep(PAUSE);
        }
        true
    }

    /// Whether nothing runs in it or within.
    pub(super) fn is_empty(&self) -> bool {
        self.within().iter().all(|dir| processes(dir).is_empty())
    }

    /// All that run in it and within.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        self.within().iter().flat_map(|dir| processes(dir)).collect()
    }

    /// The kernel refuses to remove one in which something lives.
    pub(super) fn try_remove(&self) -> bool {
        // Those within it come after those that they are in.
        self.within().iter().rev().all(|dir| match fs::remove_dir(dir) {
            Err(error) => error.kind() == ErrorKind::NotFound,
            Ok(()) => true,
        })
    }

    fn kill(&self) {
        // Since Linux 5.14: all at once, and whatever is being forked.
        if write(&self.dir.join("cgroup.kill"), "1").is_err() {
            self.kill_each();
        }
    }

    fn kill_each(&self) {
        // What stands still neither forks nor ends, so that no pid is somebody else's by now.
        Freezer::of(&self.dir).freeze();
        let within = self.within();
        for pid in within.iter().flat_map(|dir| processes(dir)) {
            let _ = kill_process(pid, Signal::KILL);
        }
        // One that its task froze, too: in version 1 what is frozen does not die.
        within.iter().for_each(|dir| Freezer::of(dir).thaw());
    }

    /// It and all within, from the outside to the inside.
    pub(super) fn within(&self) -> Vec<PathBuf> {
        let mut found = vec![self.dir.clone()];
        let mut at = 0;
        while at < found.len() && found.len() < WITHIN_MAX {
            let entries = fs::read_dir(&found[at]).into_iter().flatten().flatten();
            let dirs = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            found.extend(dirs.map(|entry| entry.path()));
            at += 1;
        }
        found
    }
}

fn processes(dir: &Path) -> Vec<Pid> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| proc::pid(line.parse().ok()?)).collect()
}

/// Never makes a file: where there is none, this is no cgroup.
pub(super) fn write(file: &Path, text: &str) -> io::Result<()> {
    OpenOptions::new().write(true).open(file)?.write_all(text.as_bytes())
}

/// How a cgroup and all within are made to stand still.
struct Freezer {
    file: PathBuf,
    frozen: &'static str,
    thawed: &'static str,
}

impl Freezer {
    fn of(dir: &Path) -> Self {
        let first = dir.join("freezer.state");
        if first.exists() {
            Self { file: first, frozen: "FROZEN", thawed: "THAWED" }
        } else {
            Self { file: dir.join("cgroup.freeze"), frozen: "1", thawed: "0" }
        }
    }

    /// As well as it goes: who calls looks again until nothing is left.
    fn freeze(&self) {
        let _ = write(&self.file, self.frozen);
    }

    fn thaw(&self) {
        let _ = write(&self.file, self.thawed);
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;
    use crate::cgroups::mounts::candidates;

    /// In each hierarchy of this host that cgroups can be made in.
    fn each(name: &str, check: impl Fn(&Cgroup)) {
        for found in candidates(&crate::mountinfo::read().expect("mounts")) {
            let cgroup =
                Cgroup::at(found.mount.join("berth").join(format!("test-{name}-{}", std::process::id())));
            match cgroup.make() {
                Ok(()) => check(&cgroup),
                Err(failure) => eprintln!("skipped for version {}: {failure}", found.version),
            }
            assert!(cgroup.end() && !cgroup.path().exists());
        }
    }

    fn shell(cgroup: &Cgroup, script: &str) -> Child {
        let script = format!("read go; {script}");
        let mut child =
            Command::new("sh").args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("a shell");
        cgroup.join(Pid::from_child(&child)).expect("joined");
        drop(child.stdin.take());
        child
    }

    #[test]
    fn what_forks_again_and_again_is_ended() {
        each("forks", |cgroup| {
            let forks = "f() { (setsid sleep 1000 &) ; sleep 0.01; f; }; f & f & f & f";
            let mut child = shell(cgroup, forks);
            while processes(cgroup.path()).len() < 20 {
                assert_eq!(child.try_wait().expect("a child"), None);
                std::thread::sleep(PAUSE);
            }
            assert!(cgroup.end());
            child.wait().expect("an end");
        });
    }

    #[test]
    fn what_stands_still_in_cgroups_of_its_own_is_ended() {
        each("within", |cgroup| {
            let inner = Cgroup::at(cgroup.path().join("a/b/c"));
            inner.make().expect("made");
            let mut child = shell(&inner, "kill -STOP $$");
            Freezer::of(inner.path()).freeze();
            assert!(cgroup.end());
            child.wait().expect("an end");
        });
    }

    #[test]
    fn without_the_kernels_own_kill_it_goes_one_by_one() {
        each("slow", |cgroup| {
            let mut child = shell(cgroup, "setsid sleep 1000 & setsid sleep 1000 & wait");
            while processes(cgroup.path()).len() < 3 {
                assert_eq!(child.try_wait().expect("a child"), None);
                std::thread::sleep(PAUSE);
            }
            while !processes(cgroup.path()).is_empty() {
                cgroup.kill_each();
                std::thread::sleep(PAUSE);
            }
            child.wait().expect("an end");
        });
    }
}
