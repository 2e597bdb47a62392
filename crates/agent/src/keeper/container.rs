//! A container, made and started by one call of an OCI runtime. Its id is on disk before that call, so that after a keeper that was
//! killed the next one can end the container, however far the call had come.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use super::mounts::{self, HostMounts};
use super::output::TaskEnds;
use super::plan::{ContainerRef, ContainerRun};
use super::rootfs;
use super::stage::{self, Stage};
use super::watch::readable;
use crate::cgroups::{self, end_all};
use crate::dirs;
use crate::failure::{Failure, FailureContext};
use crate::proc;

/// How long one call of the runtime may take.
const RUNTIME_WAIT_MAX: Duration = Duration::from_secs(60);

/// How long calls of the runtime are given to die.
const CALLS_END_MAX: Duration = Duration::from_secs(10);
const CALLS_LOOK_EVERY: Duration = Duration::from_millis(5);

/// How much of the runtime's own complaint is passed on.
const COMPLAINT_BYTES_MAX: usize = 400;

/// What the runtime is given, in the keeper's directory.
pub(crate) const BUNDLE: &str = "bundle";
/// Where the runtime keeps what it knows of the container.
const RUNTIME_STATE: &str = "runtime";
/// Where a container without an image finds what is its own of /etc, below its bundle.
pub(crate) const OWN_FILES: &str = "own";
/// What the container is, in its bundle.
pub(crate) const CONFIG_FILE: &str = "config.json";

/// In the keeper's directory of a task that is given secrets: memory, for what describes its environment.
pub(crate) const MEMORY: &str = "memory";

/// Where, of a keeper's directory, what may hold secrets is kept.
pub(crate) fn private_dir(keeper: &Path) -> PathBuf {
    let memory = keeper.join(MEMORY);
    if memory.is_dir() { memory } else { keeper.to_owned() }
}

impl From<&ContainerRun> for ContainerRef {
    fn from(run: &ContainerRun) -> Self {
        Self { runtime: run.runtime.clone(), id: run.id.clone() }
    }
}

/// A container that the runtime knows of.
pub(super) struct Container {
    runtime: String,
    id: String,
    /// The keeper's directory; runtimes are called with absolute paths.
    dir: PathBuf,
    /// Where the runtime says what it has to complain about.
    log: PathBuf,
}

impl Container {
    /// A container that runs, and its main process.
    pub(super) fn run(run: &ContainerRun, ends: TaskEnds) -> Result<(Self, Pid), Failure> {
        let container = Self::known(&run.into());
        let pid = container.in_own_mounts(run.binds.iter().any(|source| source.follows_host), || {
            let prepared = container.prepare(run, &ends);
            let begun = prepared.and_then(|()| container.begin(ends).inspect_err(|_| container.end()));
            if begun.is_err() {
                mounts::detach(&stage::root());
                container.remove_bundle();
            }
            begun
        })?;
        Ok((container, pid))
    }

    /// One that was created by another process.
    pub(super) fn known(of: &ContainerRef) -> Self {
        let dir = std::env::current_dir().unwrap_or_default();
        let (runtime, id, log) = (of.runtime.clone(), of.id.clone(), dir.join("runtime.log"));
        Self { runtime, id, dir, log }
    }

    /// The same, for somebody who calls the runtime while its keeper may, too.
    pub(super) fn with_log(self, name: &str) -> Self {
        Self { log: self.dir.join(name), ..self }
    }

    fn bundle(&self) -> PathBuf {
        self.dir.join(BUNDLE)
    }

    /// Where its description is, which may hold secrets.
    fn described(&self) -> PathBuf {
        private_dir(&self.dir).join(BUNDLE)
    }

    /// Where the runtime keeps what it knows of it, which is no less.
    fn runtime_state(&self) -> PathBuf {
        private_dir(&self.dir).join(RUNTIME_STATE)
    }

    fn prepare(&self, run: &ContainerRun, ends: &TaskEnds) -> Result<(), Failure> {
        let bundle = self.bundle();
        // What another start left would be within the container's root.
        dirs::remove_tree(&bundle)?;
        for dir in ["upper", "work"] {
            make_open_dir(&bundle.join(dir)).doing(|| format!("make {}", bundle.join(dir).display()))?;
        }
        let stage = Stage::make(run.first_id)?;
        let config = if run.image_roots.is_empty() {
            let own = bundle.join(OWN_FILES);
            make_open_dir(&own).doing(|| format!("make {}", own.display()))?;
            rootfs::furnish(&stage::root(), &own, None, run)?
        } else {
            // The owner of the upper directory becomes that of the container's root.
            stage.give(&bundle.join("upper"), 0, 0)?;
            let links = mounts::link_layers(&run.image_roots, Path::new(BUNDLE))?;
            mounts::overlay(&stage.layers(&links)?, Path::new(BUNDLE), &stage::root())?;
            rootfs::furnish(&stage::root(), &stage::root(), Some(stage.on_host(0)), run)?
        };
        stage.furnish(run, &config.user)?;
        stage.keep_writable(&config.writable)?;
        ends.give(stage.on_host(config.user.uid), stage.on_host(config.user.gid))?;
        let described = self.described();
        let doing = || "write the bundle's config.json".to_owned();
        fs::create_dir_all(&described).doing(doing)?;
        fs::write(described.join(CONFIG_FILE), config.text).doing(doing)
    }

    /// Does something in a mount namespace of this process's own, which ends with it: what a container is made of is mounted there, and
    /// runtimes mount something for themselves at each call, crun 1.8 below /tmp, and leave it where they are killed.
    fn in_own_mounts<T>(
        &self,
        follows_host: bool,
        step: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let host = HostMounts::leave(follows_host)?;
        let is_crun = self.runtime.ends_with("/crun");
        let hidden = if is_crun { mounts::hide_unified_cgroup() } else { Ok(()) };
        let done = hidden.and_then(|()| step());
        if let Err(failure) = host.enter() {
            // What the step did stands.
            eprintln!("{failure}");
        }
        done
    }

    fn begin(&self, ends: TaskEnds) -> Result<Pid, Failure> {
        let (bundle, pid_file) = (self.described(), self.pid_file(Path::new("pid")));
        let mut command = self.command("run");
        command.arg("--detach").arg("--bundle").arg(bundle).arg("--pid-file").arg(&pid_file).arg(&self.id);
        let TaskEnds { stdout, stderr } = ends.without_host_devices()?;
        command.stdin(stage::open_null()?).stdout(stdout).stderr(stderr);
        self.call(&mut command, "run")?;
        drop(command);
        read_pid(&pid_file)
    }

    /// Runs another process within it, which `process_file` describes; its standard input, output and error are those of
    /// this process, unless `console_socket` is to be sent its terminal.
    pub(super) fn exec(
        &self,
        process_file: &Path,
        pid_file: &Path,
        console_socket: &str,
    ) -> Result<Pid, Failure> {
        let (process_file, pid_file) = (self.dir.join(process_file), self.pid_file(pid_file));
        let mut command = self.command("exec");
        command.arg("--detach").arg("--process").arg(process_file).arg("--pid-file").arg(&pid_file);
        if console_socket.is_empty() {
            command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        } else {
            // Relative to the working directory: a socket's path must be short.
            command.arg("--console-socket").arg(console_socket);
        }
        self.in_own_mounts(false, || self.call(command.arg(&self.id), "run a command in"))?;
        read_pid(&pid_file)
    }

    /// Where the runtime is to write a process's id. runc writes to a hidden file beside it first and refuses to replace one,
    /// so that what a call that was killed left there would fail all that follow.
    fn pid_file(&self, name: &Path) -> PathBuf {
        let hidden = [OsStr::new("."), name.as_os_str()].into_iter().collect::<OsString>();
        for stale in [name, Path::new(&hidden)] {
            let _ = fs::remove_file(self.dir.join(stale));
        }
        self.dir.join(name)
    }

    /// Ends what a keeper that was killed while it began left under way: calls of the runtime, which do not end with it, and
    /// whatever they have started by then. Whether nothing is left.
    pub(super) fn end_interrupted(&self) -> bool {
        let deadline = Instant::now() + CALLS_END_MAX;
        loop {
            let calls = proc::with_words(|words| self.is_call(words));
            if calls.is_empty() {
                return end_all(&cgroups::of_container(&self.id));
            }
            if Instant::now() > deadline {
                return false;
            }
            for pid in calls {
                let _ = kill_process(pid, Signal::KILL);
            }
            sleep(CALLS_LOOK_EVERY);
        }
    }

    /// Whether a command line is that of a call about this container.
    fn is_call(&self, words: &[&[u8]]) -> bool {
        let has = |word: &OsStr| words.contains(&word.as_bytes());
        has(self.runtime_state().as_os_str()) && has(OsStr::new(&self.id))
    }

    /// Ends it and removes all that it had on the host but its logs.
    pub(super) fn delete(&self) {
        self.end();
        self.remove_bundle();
    }

    fn end(&self) {
        let delete = || self.call(self.command("delete").arg("--force").arg(&self.id), "delete");
        let mut is_called = false;
        let ended = self.in_own_mounts(false, || {
            is_called = true;
            delete()
        });
        // Where no namespace can be made, what is left of the container still has to go.
        if let Err(failure) = if is_called { ended } else { delete() } {
            eprintln!("{failure}");
        }
    }

    /// What it was made of.
    fn remove_bundle(&self) {
        // The container's user may have made directories that are too deep for a recursion.
        for dir in [self.bundle(), self.described()] {
            if let Err(failure) = dirs::remove_tree(&dir) {
                eprintln!("{failure}");
            }
        }
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.runtime);
        command.arg("--root").arg(self.runtime_state()).arg("--log").arg(&self.log).arg(verb);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn call(&self, command: &mut Command, verb: &str) -> Result<(), Failure> {
        let doing = || format!("{verb} the container with {}", self.runtime);
        let _ = fs::remove_file(&self.log);
        let mut child = command.spawn().doing(doing)?;
        if !has_ended(&child, RUNTIME_WAIT_MAX) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(Failure::other(doing(), "it takes too long"));
        }
        let status = child.wait().doing(doing)?;
        if status.success() {
            Ok(())
        } else {
            Err(Failure::other(doing(), self.complaint(&status.to_string())))
        }
    }

    fn complaint(&self, status: &str) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let last = log.trim().lines().last().unwrap_or(status);
        last.chars().take(COMPLAINT_BYTES_MAX).collect()
    }
}

/// Waits until a child has ended, for so long at most.
fn has_ended(child: &Child, at_most: Duration) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        // Its own wait is not bounded, but reports the same.
        return true;
    };
    let deadline = Instant::now() + at_most;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut [readable(pidfd.as_fd())], timeout.as_ref()) {
            Ok(ready) if ready > 0 => return true,
            Ok(_) if left.is_zero() => return false,
            Ok(_) | Err(_) => {}
        }
    }
}

/// Whatever the agent's umask: the upper directory's mode becomes that of the container's root.
fn make_open_dir(path: &Path) -> std::io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}

fn read_pid(file: &Path) -> Result<Pid, Failure> {
    let doing = || format!("read {}", file.display());
    let text = fs::read_to_string(file).doing(doing)?;
    let number = text.trim().parse().map_err(|error| Failure::other(doing(), error))?;
    proc::pid(number).ok_or_else(|| Failure::other(doing(), format!("{number} is no process")))
}

/// Whether the kernel killed any process of a cgroup for want of memory.
pub(super) fn was_out_of_memory(memory_events: &Path) -> bool {
    let events = fs::read_to_string(memory_events).unwrap_or_default();
    let kills = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
    kills.is_some_and(|count| count.trim() != "0")
}

/// The file of the process's memory cgroup that counts kills, in either version of cgroups.
pub(super) fn memory_events(pid: Pid) -> Option<PathBuf> {
    memory_events_of(&fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?, Path::new("/sys/fs/cgroup"))
}

fn memory_events_of(cgroups: &str, root: &Path) -> Option<PathBuf> {
    let path_of =
        |controller: &str| cgroups.lines().find_map(|line| line.split_once(controller).map(|(_, path)| path));
    let own = |mount: PathBuf, path: &str| mount.join(path.trim_start_matches('/'));
    if let Some(path) = path_of(":memory:") {
        return Some(own(root.join("memory"), path).join("memory.oom_control"));
    }
    path_of("0::").map(|path| own(cgroups::second_in(root), path).join("memory.events"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_for_want_of_memory_are_counted_by_either_version() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("memory.events");
        // As Linux 6.1 has them: memory.events of version 2, and memory.oom_control of version 1.
        for (text, killed) in [
            ("low 0\nhigh 0\nmax 31\noom 2\noom_kill 1\noom_group_kill 0\n", true),
            ("low 0\nhigh 7\nmax 0\noom 0\noom_kill 0\noom_group_kill 0\n", false),
            ("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n", true),
            ("oom_kill_disable 0\nunder_oom 1\noom_kill 0\n", false),
            ("", false),
        ] {
            fs::write(&file, text).expect("written");
            assert_eq!(was_out_of_memory(&file), killed, "{text}");
        }
        assert!(!was_out_of_memory(&dir.path().join("gone")));
    }

    #[test]
    fn the_cgroup_that_counts_oom_kills_is_found_for_a_process() {
        let dir = tempfile::tempdir().expect("a directory");
        let of = |cgroups: &str| {
            let found = memory_events_of(cgroups, dir.path())?;
            Some(found.strip_prefix(dir.path()).expect("within").to_string_lossy().into_owned())
        };
        let hybrid = "9:memory:/berth/c1\n3:pids:/berth/c1\n0::/berth/c1\n";
        let unified = "3:pids:/berth/c1\n0::/berth/c1\n";
        assert_eq!(of(hybrid).as_deref(), Some("memory/berth/c1/memory.oom_control"));
        assert_eq!(of("0::/berth/c1\n").as_deref(), Some("berth/c1/memory.events"));
        assert_eq!(of(""), None);
        // Beside version 1, version 2 has its own place.
        fs::create_dir(dir.path().join("unified")).expect("made");
        fs::write(dir.path().join("unified/cgroup.controllers"), "memory\n").expect("written");
        assert_eq!(of(unified).as_deref(), Some("unified/berth/c1/memory.events"));
        assert_eq!(of(hybrid).as_deref(), Some("memory/berth/c1/memory.oom_control"));
    }
}
