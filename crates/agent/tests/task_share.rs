//! Cores and devices: tasks get those that they were assigned, and no others.

#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use berth_api::agent::{ClientStatus, DeviceGrantSpec, TaskDevices};
use common::agent_program;
use serde_json::json;
use server::Server;
use tempfile::TempDir;

const RUNTIMES: [&str; 2] = ["/usr/bin/crun", "/usr/sbin/runc"];

/// Device files that a host may have, which no container has by itself.
const FILES: [&str; 2] = ["/dev/fuse", "/dev/loop-control"];

/// An agent with two devices.
struct World {
    data: TempDir,
    image: TempDir,
    server: Server,
    agent: Child,
}

impl World {
    fn start(runtime: &str) -> Self {
        let dir = || tempfile::tempdir().expect("a directory");
        let (data, image, mut server) = (dir(), dir(), Server::new());
        let mut command = Command::new(agent_program());
        command.arg("run").arg(data.path()).arg(server.address()).arg(runtime).arg(image.path()).args(FILES);
        let agent = command.stdin(Stdio::null()).spawn().expect("an agent");
        server.accept();
        Self { data, image, server, agent }
    }

    /// One that can run containers; none, with the reason printed, where they cannot run.
    fn with_containers(runtime: &str) -> Option<Self> {
        let needed = [runtime, "/bin/busybox"].into_iter().chain(FILES);
        if let Some(missing) = needed.into_iter().find(|path| !Path::new(path).exists()) {
            eprintln!("skipped: {missing} is missing");
            return None;
        }
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: not root");
            return None;
        }
        let world = Self::start(runtime);
        for dir in ["root/bin", "root/tmp"] {
            fs::create_dir_all(world.image.path().join(dir)).expect("a directory");
        }
        fs::copy("/bin/busybox", world.image.path().join("root/bin/busybox")).expect("copied");
        Some(world)
    }

    /// What a script prints in a container.
    fn in_container(&mut self, number: u8, given: Option<TaskDevices>, script: &str) -> String {
        let script = format!("/bin/busybox --install -s /bin; {script}");
        let image = self.image.path().join("root").to_string_lossy().into_owned();
        let config = json!({"image": image, "command": "/bin/busybox", "args": ["sh", "-c", script]});
        self.run(number, "docker", given, config)
    }

    fn run(
        &mut self,
        number: u8,
        driver: &str,
        given: Option<TaskDevices>,
        config: serde_json::Value,
    ) -> String {
        let mut run = world::run(number, vec![world::task("t", driver, config)]);
        run.alloc.devices = given.into_iter().collect();
        self.server.desire(vec![run], &[], &[], &[]);
        let status = self.server.wait_for(number, |status| status.status().is_terminal());
        assert_eq!(status.status(), ClientStatus::Complete, "{:?}", status.tasks[0].events);
        self.server.read_log(number, "t", 0, false).expect("a log")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        common::end_agent(&mut self.agent);
        let mounts = fs::read_to_string("/proc/self/mounts").expect("mounts");
        assert!(!mounts.contains(&*self.data.path().to_string_lossy()), "{mounts}");
    }
}

fn given(ids: &[&str], cores: &[u32]) -> Option<TaskDevices> {
    let grant = DeviceGrantSpec {
        device: "acme/widget/W1".into(),
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        milli_each: 1000,
    };
    let grants = if ids.is_empty() { Vec::new() } else { vec![grant] };
    Some(TaskDevices { task: "t".into(), grants, cores: cores.to_vec() })
}

/// The last core on which this test may run.
fn last_core() -> u32 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
    list.trim().rsplit(['-', ',']).next().expect("a core").parse().expect("a number")
}

const CORES: &str = "grep Cpus_allowed_list /proc/self/status; echo $NOMAD_CPU_CORES";

#[test]
fn a_command_runs_on_its_cores_and_has_its_devices_in_its_environment() {
    let mut world = World::start("");
    let core = last_core();
    let script = format!("{CORES}; echo $BERTH_DEVICE_IDS $BERTH_DEVICE_FILES");
    let config = json!({"command": "/bin/sh", "args": ["-c", script]});
    let told = world.run(1, "raw_exec", given(&["w1"], &[core]), config);
    let expected = format!("Cpus_allowed_list:\t{core}\n{core}\nacme/widget/W1=w1 /dev/loop-control\n");
    assert_eq!(told, expected);
}

#[test]
fn a_container_runs_on_its_cores() {
    for runtime in RUNTIMES {
        let Some(mut world) = World::with_containers(runtime) else { return };
        let core = last_core();
        let told = world.in_container(10, given(&[], &[core]), CORES);
        assert_eq!(told, format!("Cpus_allowed_list:\t{core}\n{core}\n"), "{runtime}");
    }
}

#[test]
fn a_container_has_its_devices_and_no_others() {
    let script = "for file in /dev/fuse /dev/loop-control; do \
                    [ -c $file ] && (exec 3<>$file) && echo $file opens || echo no $file; \
                  done; \
                  mknod /tmp/mine c 10 229 2>/dev/null || echo no other file; echo $BERTH_DEVICE_FILES";
    for runtime in RUNTIMES {
        let Some(mut world) = World::with_containers(runtime) else { return };
        let told = world.in_container(20, given(&["w0"], &[]), script);
        assert_eq!(told, "/dev/fuse opens\nno /dev/loop-control\nno other file\n/dev/fuse\n", "{runtime}");
        let told = world.in_container(21, None, script);
        assert_eq!(told, "no /dev/fuse\nno /dev/loop-control\nno other file\n\n", "{runtime}");
    }
}

#[test]
fn a_device_that_the_node_has_no_more_is_named() {
    let mut world = World::start("");
    let mut run = world::run(30, vec![world::shell("t", "true")]);
    run.alloc.devices = given(&["w9"], &[]).into_iter().collect();
    world.server.desire(vec![run], &[], &[], &[]);
    let status = world.server.wait_for_status(30, ClientStatus::Failed);
    let told = format!("{:?}", status.tasks[0].events);
    assert!(told.contains("find device w9: this node has it no more"), "{told}");
}
