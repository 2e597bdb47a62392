//! The same containers by the OCI runtime alone: the cost of launching them without an agent.

use std::{
    ffi::CString,
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{PermissionsExt, chown},
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Instant,
};

use berth_agent::{starting_max, unshare};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::thread::UnshareFlags;
use serde_json::{Value, json};

use super::host::LaunchHost;
use crate::run::RunError;

/// How much of a runtime's error output is kept, in bytes.
const COMPLAINT_BYTES_MAX: usize = 400;

/// How long it took, s.
#[derive(Debug, Clone, Copy)]
pub(super) struct LaunchTimes {
    pub launch_s: f64,
    pub destroy_s: f64,
}

/// Where bundles are, and the configuration that all of them share.
struct BundleDir<'a> {
    host: &'a LaunchHost,
    /// Where everybody may pass: a runtime makes a container with the rights of the container's own root.
    dir: PathBuf,
    config: Value,
    /// What the root of a container is on this machine.
    root_id: u32,
}

/// One container's files.
struct Bundle<'a> {
    bundle_dir: &'a BundleDir<'a>,
    dir: PathBuf,
    id: String,
}

/// Launches `count` containers of a configuration, and ends them. Whatever fails, none is left.
pub(super) fn run(host: &LaunchHost, config: &Value, count: u32) -> Result<LaunchTimes, RunError> {
    let dir = PathBuf::from(format!("/run/berth-lab-{}", std::process::id()));
    let bundle_dir = BundleDir { host, dir, root_id: root_id(config), config: plain(config.clone()) };
    let failed = |source| RunError::io("prepare", &bundle_dir.dir, source);
    fs::create_dir_all(host.bundles()).and_then(|()| fs::create_dir_all(&bundle_dir.dir)).map_err(failed)?;
    let began = Instant::now();
    let launched = all(|| bundle_dir.enter(), count, |number| Bundle::new(&bundle_dir, number).launch());
    let launch_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let destroyed = all(|| bundle_dir.enter(), count, |number| Bundle::new(&bundle_dir, number).destroy());
    let destroy_s = began.elapsed().as_secs_f64();
    let _ = fs::remove_dir(&bundle_dir.dir);
    let _ = fs::remove_dir_all(host.bundles());
    launched.and(destroyed)?;
    Ok(LaunchTimes { launch_s, destroy_s })
}

/// Does something for each number, as many at a time as an agent starts.
fn all(
    enter: impl Fn() -> Result<(), RunError> + Sync,
    count: u32,
    work: impl Fn(u32) -> Result<(), RunError> + Sync,
) -> Result<(), RunError> {
    let next = AtomicU32::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..starting_max())
            .map(|_| {
                scope.spawn(|| {
                    let mut done = enter();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= count {
                            return done;
                        }
                        done = done.and(work(number));
                    }
                })
            })
            .collect();
        let ended = |worker: thread::ScopedJoinHandle<'_, Result<(), RunError>>| {
            worker.join().unwrap_or_else(|_| Err(RunError::Incomplete("a thread has panicked".into())))
        };
        workers.into_iter().map(ended).fold(Ok(()), Result::and)
    })
}

/// What of a configuration stands for itself: nothing that an agent has made for the one container.
fn plain(mut config: Value) -> Value {
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.retain(|mount| mount["type"] != "bind");
    }
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["path"].is_null());
    }
    config["root"]["path"] = json!("rootfs");
    config
}

/// What the root of a container of this configuration is on the machine.
fn root_id(config: &Value) -> u32 {
    let first = config["linux"]["uidMappings"][0]["hostID"].as_u64();
    first.and_then(|first| u32::try_from(first).ok()).unwrap_or(0)
}

impl BundleDir<'_> {
    /// From here on this thread, and what it starts, has mounts of its own, as a keeper has: bundles where everybody may
    /// pass, and no cgroups of version 2 beside version 1, with which crun starts nothing.
    fn enter(&self) -> Result<(), RunError> {
        let failed = |source: rustix::io::Errno| RunError::io("mount", &self.dir, source.into());
        unshare(UnshareFlags::NEWNS)
            .map_err(|error| RunError::io("unshare mounts of", &self.dir, error.into()))?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        mount_change("/", private).map_err(failed)?;
        mount_bind(self.host.bundles(), &self.dir).map_err(failed)?;
        // There is none on most machines.
        let _ = unmount("/sys/fs/cgroup/unified", UnmountFlags::DETACH);
        Ok(())
    }
}

impl<'a> Bundle<'a> {
    fn new(bundle_dir: &'a BundleDir<'a>, number: u32) -> Self {
        let id = format!("berth-lab-{}-{number}", std::process::id());
        Self { bundle_dir, dir: bundle_dir.dir.join(&id), id }
    }

    fn launch(&self) -> Result<(), RunError> {
        self.prepare().map_err(|source| RunError::io("prepare", &self.dir, source))?;
        let mut command = Command::new(&self.bundle_dir.host.runtime);
        self.call(command.arg("run").arg("--detach").arg("--bundle").arg(&self.dir).arg(&self.id))
    }

    fn prepare(&self) -> io::Result<()> {
        let BundleDir { host, config, root_id, .. } = self.bundle_dir;
        let at = |name: &str| self.dir.join(name);
        for dir in ["upper", "work", "rootfs"] {
            fs::create_dir_all(at(dir))?;
        }
        for dir in [self.dir.clone(), at("upper"), at("rootfs")] {
            fs::set_permissions(dir, Permissions::from_mode(0o755))?;
        }
        chown(at("upper"), Some(*root_id), Some(*root_id))?;
        let mut config = config.clone();
        // Beside those of the agent. A container is set up within its own share of the processors, which counts among its
        // siblings: at the top of the hierarchy that of 1 MHz would stand against all else that runs on the machine.
        config["linux"]["cgroupsPath"] = json!(format!("/berth/{}", self.id));
        fs::write(at("config.json"), config.to_string())?;
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            host.root().display(),
            at("upper").display(),
            at("work").display()
        );
        let options = CString::new(options).map_err(io::Error::other)?;
        Ok(mount("overlay", at("rootfs"), "overlay", MountFlags::empty(), options.as_c_str())?)
    }

    fn destroy(&self) -> Result<(), RunError> {
        let mut command = Command::new(&self.bundle_dir.host.runtime);
        self.call(command.arg("delete").arg("--force").arg(&self.id))
    }

    fn call(&self, command: &mut Command) -> Result<(), RunError> {
        let runtime = &self.bundle_dir.host.runtime;
        let failed = |source| RunError::io("run", runtime, source);
        // The container has what starts it for its input and output: a pipe would stay open as long as it lives, and
        // crun makes all of it the container's own, the machine's /dev/null as well.
        let output_path = self.dir.with_extension("told");
        let output = File::create(&output_path).map_err(failed)?;
        let (input, errors) =
            (File::open(&output_path).map_err(failed)?, output.try_clone().map_err(failed)?);
        let status = command.stdin(input).stdout(output).stderr(errors).status().map_err(failed)?;
        if status.success() {
            return Ok(());
        }
        let text = fs::read_to_string(output_path).unwrap_or_default();
        let message: String = text.trim().chars().take(COMPLAINT_BYTES_MAX).collect();
        Err(RunError::Incomplete(format!("{command:?} ended with {status}: {message}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_made_for_one_container_is_left_out() {
        let config = json!({
            "root": {"path": "/x/rootfs"},
            "mounts": [{"type": "proc", "source": "proc"}, {"type": "bind", "source": "/x/allocs/1/alloc"}],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "network", "path": "/x"}, {"type": "user"}],
                      "uidMappings": [{"hostID": 7_000}], "resources": {"pids": {"limit": 7}}},
        });
        assert_eq!(root_id(&config), 7_000);
        let expected = json!({
            "root": {"path": "rootfs"}, "mounts": [{"type": "proc", "source": "proc"}],
            "linux": {"namespaces": [{"type": "pid"}, {"type": "user"}],
                      "uidMappings": [{"hostID": 7_000}], "resources": {"pids": {"limit": 7}}},
        });
        assert_eq!(plain(config), expected);
    }

    #[test]
    fn all_are_done_and_the_first_failure_is_returned() {
        let done = AtomicU32::new(0);
        let work = |number: u32| {
            done.fetch_add(1, Ordering::Relaxed);
            if number == 3 { Err(RunError::Incomplete("three".into())) } else { Ok(()) }
        };
        let output_path = all(|| Ok(()), 20, work).expect_err("one fails").to_string();
        assert_eq!((&*output_path, done.into_inner()), ("three", 20));
    }
}
