//! The same containers by the OCI runtime alone: what launching them costs whoever does it.

use std::{
    ffi::CString,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Instant,
};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};

use super::host::Host;
use crate::run::RunError;

/// Containers that are started at a time, as many as an agent starts.
pub(super) const AT_ONCE: u32 = 8;

/// How long it took, s.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alone {
    pub launch_s: f64,
    pub destroy_s: f64,
}

/// One container's files.
struct Bundle {
    dir: PathBuf,
    id: String,
}

/// Launches `count` containers of a configuration, and ends them. Whatever fails, none is left.
pub(super) fn run(host: &Host, config: &Value, count: u32) -> Result<Alone, RunError> {
    let config = plain(config.clone());
    let began = Instant::now();
    let launched = all(count, |number| Bundle::new(host, number).launch(host, &config));
    let launch_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let destroyed = all(count, |number| Bundle::new(host, number).destroy(host));
    let destroy_s = began.elapsed().as_secs_f64();
    let _ = fs::remove_dir_all(host.bundles());
    launched.and(destroyed)?;
    Ok(Alone { launch_s, destroy_s })
}

/// Does something for each number, [`AT_ONCE`] at a time.
fn all(count: u32, work: impl Fn(u32) -> Result<(), RunError> + Sync) -> Result<(), RunError> {
    let next = AtomicU32::new(0);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Ok(());
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
    let is_own = |mount: &Value| {
        mount["type"] == "bind" || mount["source"].as_str().is_some_and(|source| source.contains("/allocs/"))
    };
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.retain(|mount| !is_own(mount));
    }
    if let Some(namespaces) = config["linux"]["namespaces"].as_array_mut() {
        namespaces.retain(|namespace| namespace["path"].is_null() && namespace["type"] != "user");
    }
    if let Some(linux) = config["linux"].as_object_mut() {
        linux.remove("uidMappings");
        linux.remove("gidMappings");
    }
    config["root"]["path"] = json!("rootfs");
    config
}

impl Bundle {
    fn new(host: &Host, number: u32) -> Self {
        let id = format!("berth-lab-{}-{number}", std::process::id());
        Self { dir: host.bundles().join(&id), id }
    }

    fn launch(&self, host: &Host, config: &Value) -> Result<(), RunError> {
        let failed = |source| RunError::io("prepare", &self.dir, source);
        self.prepare(host, config).map_err(failed)?;
        let mut command = Command::new(&host.runtime);
        command.arg("run").arg("--detach").arg("--bundle").arg(&self.dir).arg(&self.id);
        self.done(command)
    }

    fn prepare(&self, host: &Host, config: &Value) -> io::Result<()> {
        for dir in ["upper", "work", "rootfs"] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        let mut config = config.clone();
        config["linux"]["cgroupsPath"] = json!(format!("/berth-lab/{}", self.id));
        fs::write(self.dir.join("config.json"), config.to_string())?;
        let at = |name: &str| self.dir.join(name);
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            host.root().display(),
            at("upper").display(),
            at("work").display()
        );
        let options = CString::new(options).map_err(io::Error::other)?;
        Ok(mount("overlay", at("rootfs"), "overlay", MountFlags::empty(), options.as_c_str())?)
    }

    fn destroy(&self, host: &Host) -> Result<(), RunError> {
        let mut command = Command::new(&host.runtime);
        command.arg("delete").arg("--force").arg(&self.id);
        let done = self.done(command);
        let _ = unmount(self.dir.join("rootfs"), UnmountFlags::DETACH);
        done
    }

    fn done(&self, mut command: Command) -> Result<(), RunError> {
        // Of what it starts the output is nobody's: a pipe would stay open as long as the container.
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(RunError::Incomplete(format!("{command:?} ended with {status}"))),
            Err(source) => Err(RunError::io("run", Path::new(command.get_program()), source)),
        }
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
                      "uidMappings": [{}], "resources": {"pids": {"limit": 7}}},
        });
        let expected = json!({
            "root": {"path": "rootfs"}, "mounts": [{"type": "proc", "source": "proc"}],
            "linux": {"namespaces": [{"type": "pid"}], "resources": {"pids": {"limit": 7}}},
        });
        assert_eq!(plain(config), expected);
    }

    #[test]
    fn all_are_done_and_the_first_failure_is_told() {
        let done = AtomicU32::new(0);
        let work = |number: u32| {
            done.fetch_add(1, Ordering::Relaxed);
            if number == 3 { Err(RunError::Incomplete("three".into())) } else { Ok(()) }
        };
        let told = all(20, work).expect_err("one fails").to_string();
        assert_eq!((&*told, done.into_inner()), ("three", 20));
    }
}
