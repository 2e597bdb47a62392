//! Tasks that end as soon as they begin are reported correctly each time, in a container and without one.

#[path = "common/busybox.rs"]
mod busybox;
#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use berth_api::agent::{AllocStatus, ClientStatus, TaskPhase, TaskSpec};
use serde_json::json;
use world::{World, run_without_ports, shell, task};

const TIMES: u8 = 100;

/// How a task of this number ends: every fifth by a signal, as far as it may; the others with its number.
fn script(number: u8) -> String {
    if number.is_multiple_of(5) {
        format!("echo {number}; kill -KILL $$")
    } else {
        format!("echo {number}; exit {number}")
    }
}

fn check(world: &mut World, spec: impl Fn(u8) -> TaskSpec, signal: i32) {
    world.server.desire(
        (1..=TIMES).map(|number| run_without_ports(number, vec![spec(number)])).collect(),
        &[],
        &[],
        &[],
    );
    for number in 1..=TIMES {
        let status = world.server.wait_for(number, |status: &AllocStatus| status.status().is_terminal());
        let task = &status.tasks[0];
        let expected = if number.is_multiple_of(5) && signal > 0 {
            (128 + signal, signal)
        } else if number.is_multiple_of(5) {
            (0, 0)
        } else {
            (i32::from(number), 0)
        };
        assert_eq!((task.exit_code, task.signal), expected, "{number}: {task:?}");
        let wanted = if expected.0 == 0 { ClientStatus::Complete } else { ClientStatus::Failed };
        assert_eq!(
            (status.status(), task.state(), task.restarts),
            (wanted, TaskPhase::Dead, 0),
            "{number}: {status:?}"
        );
        assert!(task.started_ns > 0 && task.started_ns <= task.finished_ns, "{number}: {task:?}");
        let log = world.server.read_log(number, "t", 0, false);
        assert_eq!(log.as_deref(), Ok(&*format!("{number}\n")), "{number}");
    }
}

#[test]
fn processes_that_end_at_once_are_reported_correctly() {
    check(&mut World::new(), |number| shell("t", &script(number)), 9);
}

#[test]
fn containers_that_end_at_once_are_reported_correctly() {
    let images = busybox::image(&["sh"]);
    for runtime in busybox::runtimes() {
        let mut world = World::with_runtime(runtime, images.path());
        let root = images.path().join("root");
        let spec = |number| {
            let config = json!({"image": root, "command": "/bin/sh", "args": ["-c", script(number)]});
            TaskSpec { memory_mb: 16, ..task("t", "docker", config) }
        };
        // The first process of a container is not ended by its own signals.
        check(&mut world, spec, 0);
    }
}
