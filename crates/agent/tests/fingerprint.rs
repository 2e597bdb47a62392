//! What an agent reports of its node, and that it reports changes.

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

use berth_api::agent::{
    AgentOutcome, AgentQuery, ChangeNodeMeta, ClientStatus, DynamicMeta, GetNodeMeta, NodeMeta, NodeSpec,
    RefusalKind,
};
use common::eventually;
use rustix::process::{Pid, Signal, kill_process};
use world::World;

const RUNTIME: &str = "/usr/bin/crun";

fn attribute<'a>(node: &'a NodeSpec, name: &str) -> Option<&'a str> {
    node.attributes.get(name).map(String::as_str)
}

#[test]
fn a_runtime_that_is_removed_is_reported_while_the_agent_runs() {
    if !fs::exists(RUNTIME).is_ok_and(|exists| exists) || !rustix::process::geteuid().is_root() {
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
    if !fs::exists(RUNTIME).is_ok_and(|exists| exists) || !rustix::process::geteuid().is_root() {
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
    kill_process(Pid::from_raw(agent).expect("a process"), Signal::TERM).expect("told to end");
    let ended = eventually("its end", || world.agent.try_wait().expect("is our child"));
    kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it hangs still");
    assert!(ended.success(), "{ended}");
    fs::remove_file(&hang).expect("removed");
}

/// The values of a node's metadata by the server's question.
fn meta_of(outcome: AgentOutcome) -> NodeMeta {
    match outcome {
        AgentOutcome::NodeMeta(meta) => meta,
        other => panic!("{other:?}"),
    }
}

fn change(pairs: &[(&str, Option<&str>)]) -> AgentQuery {
    let change = |(key, value): &(&str, Option<&str>)| DynamicMeta {
        key: (*key).to_owned(),
        value: value.map(str::to_owned),
    };
    AgentQuery::ChangeNodeMeta(ChangeNodeMeta { changes: pairs.iter().map(change).collect() })
}

#[test]
fn metadata_that_is_set_is_reported_and_outlives_the_agent() {
    let mut world = World::new();
    let applied = meta_of(world.server.ask(change(&[("rack", Some("r1")), ("row", Some("7"))])));
    assert_eq!(
        applied.effective,
        [("rack".to_owned(), "r1".to_owned()), ("row".to_owned(), "7".to_owned())].into()
    );
    assert!(applied.configured.is_empty());
    while world.server.node.as_ref().is_none_or(|node| node.meta != applied.effective) {
        world.server.listen();
    }
    // A task that starts from now on sees it.
    let tasks = vec![world::shell("t", "echo ${meta.rack}")];
    world.server.desire(vec![world::run_without_ports(1, tasks)], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(world.server.read_log(1, "t", 0, false).as_deref(), Ok("r1\n"));
    world.kill_agent();
    let (hello, _) = world.start_agent();
    assert_eq!(hello.node.meta, applied.effective);
    let unset = meta_of(world.server.ask(change(&[("rack", None)])));
    assert_eq!(unset.dynamic, [DynamicMeta { key: "row".into(), value: Some("7".into()) }]);
    let AgentOutcome::Refused(refusal) = world.server.ask(change(&[("a b", Some("c"))])) else {
        panic!("it is taken")
    };
    assert!(refusal.kind == RefusalKind::Invalid as i32 && refusal.text.contains("\"a b\""), "{refusal:?}");
    assert_eq!(
        meta_of(world.server.ask(AgentQuery::NodeMeta(GetNodeMeta {}))),
        unset,
        "nothing of it was taken"
    );
}

#[test]
fn metadata_that_cannot_be_read_is_not_done_without() {
    let mut world = World::new();
    meta_of(world.server.ask(change(&[("rack", Some("r1"))])));
    world.kill_agent();
    let record = world.data.path().join("meta");
    let kept = fs::read(&record).expect("it was kept");
    fs::write(&record, &kept[..kept.len() - 1]).expect("written");
    let out = std::process::Command::new(common::agent_program())
        .args(["run", world.data.path().to_str().expect("a plain path"), &world.server.address()])
        .output()
        .expect("it runs");
    assert!(!out.status.success() && String::from_utf8_lossy(&out.stderr).contains("meta"), "{out:?}");
    fs::write(&record, &kept).expect("written");
    let (hello, _) = world.start_agent();
    assert_eq!(hello.node.meta.get("rack").map(String::as_str), Some("r1"));
}
