//! What an agent tells of its node, and that it tells again what has changed.

#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use berth_api::agent::NodeSpec;
use common::eventually;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use world::World;

const RUNTIME: &str = "/usr/bin/crun";

fn attribute<'a>(node: &'a NodeSpec, name: &str) -> Option<&'a str> {
    node.attributes.get(name).map(String::as_str)
}

#[test]
fn a_runtime_that_goes_is_told_of_while_the_agent_runs() {
    if !fs::exists(RUNTIME).is_ok_and(|exists| exists) || !nix::unistd::Uid::effective().is_root() {
        return eprintln!("skipped: there is no {RUNTIME}, or this is not root");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let runtime = dir.path().join("crun");
    fs::copy(RUNTIME, &runtime).expect("copied");
    let mut world = World::with_runtime(runtime.to_str().expect("a plain path"), dir.path());
    let told = |world: &mut World| loop {
        if let Some(node) = world.server.node.take() {
            break node;
        }
        world.server.listen();
    };
    fs::remove_file(&runtime).expect("removed");
    let node = told(&mut world);
    assert_eq!(attribute(&node, "driver.docker"), None);
    let why = attribute(&node, "driver.docker.health_description").expect("a reason");
    assert!(why.contains("OCI runtime") && why.contains(runtime.to_str().expect("a plain path")), "{why}");
    for name in ["cpu.modelname", "numa.node.count", "os.cgroups.version", "kernel.arch"] {
        assert!(attribute(&node, name).is_some_and(|value| !value.is_empty()), "{name}: {node:?}");
    }
    // A task that comes now is told so.
    let config = serde_json::json!({"image": "x", "command": "x"});
    world.server.desire(vec![world::run(1, vec![world::task("t", "docker", config)])], &[], &[], &[]);
    let status = world.server.wait_for(1, |status| status.status().is_terminal());
    let events = format!("{:?}", status.tasks[0].events);
    assert!(events.contains("this node has none of that name"), "{events}");
}

#[test]
fn a_look_that_never_ends_does_not_hold_up_the_end_of_the_agent() {
    if !fs::exists(RUNTIME).is_ok_and(|exists| exists) || !nix::unistd::Uid::effective().is_root() {
        return eprintln!("skipped: there is no {RUNTIME}, or this is not root");
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (runtime, hang, hangs) = (dir.path().join("crun"), dir.path().join("hang"), dir.path().join("hangs"));
    let script = format!(
        "#!/bin/sh\nif [ -e {} ]; then echo $$ > {}; exec sleep 1000; fi\nexec {RUNTIME} \"$@\"\n",
        hang.display(),
        hangs.display()
    );
    fs::write(&runtime, script).expect("written");
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).expect("made executable");
    let mut world = World::with_runtime(runtime.to_str().expect("a plain path"), dir.path());
    fs::write(&hang, "").expect("written");
    let pid = eventually("a look that hangs", || {
        fs::read_to_string(&hangs).ok()?.strip_suffix('\n')?.parse::<i32>().ok()
    });
    let agent = i32::try_from(world.agent.id()).expect("a pid");
    kill(Pid::from_raw(agent), Signal::SIGTERM).expect("told to end");
    let ended = eventually("its end", || world.agent.try_wait().expect("is our child"));
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("it hangs still");
    assert!(ended.success(), "{ended}");
    fs::remove_file(&hang).expect("removed");
}
