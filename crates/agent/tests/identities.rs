//! Tokens and secrets of tasks, from a server that grants or refuses them.

#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use berth_api::agent::{
    ClientStatus, IdentityChange, IdentitySpec, RestartSpec, SecretSpec, TaskEventKind, TaskSpec,
};
use common::eventually;
use world::{World, run, shell};

fn identity(name: &str, file: &str) -> IdentitySpec {
    IdentitySpec { name: name.into(), env: true, file: file.into(), ..IdentitySpec::default() }
}

fn task(script: &str, identities: Vec<IdentitySpec>) -> TaskSpec {
    TaskSpec { identities, ..shell("t", script) }
}

fn file(world: &World, number: u8, name: &str) -> PathBuf {
    world.path(number, "tasks/t/secrets").join(name)
}

/// Listens until a file says something else than it did.
fn until_changed(world: &mut World, number: u8, name: &str, old: &str) -> String {
    loop {
        let now = fs::read_to_string(file(world, number, name)).expect("the task has it");
        if now != old {
            return now;
        }
        world.server.listen();
    }
}

#[test]
fn a_task_waits_for_its_tokens_and_says_why() {
    let mut world = World::new();
    let script = "echo $NOMAD_TOKEN $NOMAD_TOKEN_aws $(cat $NOMAD_SECRETS_DIR/cloud/aws); exec sleep 1000";
    let task = task(script, vec![identity("default", ""), identity("aws", "cloud/aws")]);
    world.server.desire(vec![run(1, vec![task])], &[], &[], &[]);
    let waits = |kind: i32| kind == TaskEventKind::HookFailed as i32;
    let status =
        world.server.wait_for(1, |status| status.tasks[0].events.iter().any(|event| waits(event.kind)));
    let said = &status.tasks[0].events.iter().find(|event| waits(event.kind)).expect("it says so").message;
    assert!(said.contains("no server can sign at the moment; it is tried again"), "{said}");
    assert_eq!((status.status(), status.tasks[0].restarts), (ClientStatus::Pending, 0));
    world.server.tokens_live_ms = Some(3_600_000);
    world.server.wait_for_status(1, ClientStatus::Running);
    let text = eventually("its output", || {
        let log = fs::read_to_string(world.path(1, "logs/t.stdout.0")).ok()?;
        log.ends_with('\n').then_some(log)
    });
    assert_eq!(text.trim(), "default-1 aws-2 aws-2");
    let mode = file(&world, 1, "cloud/aws").metadata().expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_task_that_is_stopped_waits_no_longer() {
    let mut world = World::new();
    world.server.desire(
        vec![run(1, vec![task("exec sleep 1000", vec![identity("default", "")])])],
        &[],
        &[],
        &[],
    );
    world.server.wait_for(1, |status| status.tasks[0].events.len() > 2);
    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
}

#[test]
fn tokens_are_renewed_in_time_by_whichever_agent_is_there() {
    let mut world = World::new();
    world.server.tokens_live_ms = Some(3_000);
    let noop = identity("default", "nomad_token");
    world.server.desire(vec![run(1, vec![task("echo $$; exec sleep 1000", vec![noop])])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    let first = fs::read_to_string(file(&world, 1, "nomad_token")).expect("the task has it");
    let second = until_changed(&mut world, 1, "nomad_token", &first);
    // Nobody signs for a while: the task runs on, and has another one as soon as somebody does.
    world.server.tokens_live_ms = None;
    let fails = |kind: i32| kind == TaskEventKind::HookFailed as i32;
    let failed =
        world.server.wait_for(1, |status| status.tasks[0].events.iter().any(|event| fails(event.kind)));
    assert_eq!(failed.status(), ClientStatus::Running);
    world.kill_agent();
    world.server.tokens_live_ms = Some(3_000);
    world.restart_agent();
    let third = until_changed(&mut world, 1, "nomad_token", &second);
    until_changed(&mut world, 1, "nomad_token", &third);
    let status = world.server.wait_for(1, |status| status.status() == ClientStatus::Running);
    assert_eq!(status.tasks[0].restarts, 0);
}

#[test]
fn a_task_restarts_with_the_tokens_that_it_holds_while_nobody_signs() {
    let mut world = World::new();
    world.server.tokens_live_ms = Some(3_600_000);
    let script = "echo $NOMAD_TOKEN; [ -e ../again ] && exec sleep 1000; touch ../again; exit 1";
    let restart = RestartSpec { attempts: 3, interval_ms: 60_000, delay_ms: 10, mode: 0 };
    let again = TaskSpec { restart, ..task(script, vec![identity("default", "")]) };
    world.server.desire(vec![run(1, vec![again])], &[], &[], &[]);
    // The server answers while it listens: the first start asks it for the tokens.
    while !world.path(1, "tasks/again").exists() {
        world.server.listen();
    }
    world.server.tokens_live_ms = None;
    let status = world
        .server
        .wait_for(1, |status| status.tasks[0].restarts == 1 && status.status() == ClientStatus::Running);
    assert!(!status.tasks[0].events.iter().any(|event| event.kind == TaskEventKind::HookFailed as i32));
    let text = eventually("its output", || {
        let log = fs::read_to_string(world.path(1, "logs/t.stdout.0")).ok()?;
        (log.lines().count() == 2).then_some(log)
    });
    assert_eq!(text, "default-1\ndefault-1\n");
}

#[test]
fn a_renewal_restarts_a_task_or_is_signalled_to_it_as_its_job_says() {
    let mut world = World::new();
    world.server.tokens_live_ms = Some(3_000);
    let restarts = IdentitySpec { change: IdentityChange::Restart.into(), ..identity("default", "") };
    let signals = IdentitySpec {
        change: IdentityChange::Signal.into(),
        signal: "SIGUSR1".into(),
        ..identity("default", "")
    };
    let trap = "trap 'echo told' USR1; while true; do sleep 0.05; done";
    let runs =
        vec![run(1, vec![task("exec sleep 1000", vec![restarts])]), run(2, vec![task(trap, vec![signals])])];
    world.server.desire(runs, &[], &[], &[]);
    let kinds =
        |kind: TaskEventKind| move |event: &berth_api::agent::TaskEventEntry| event.kind == kind as i32;
    let status = world
        .server
        .wait_for(1, |status| status.tasks[0].restarts > 0 && status.status() == ClientStatus::Running);
    assert!(status.tasks[0].events.iter().any(kinds(TaskEventKind::RestartSignaled)));
    let status =
        world.server.wait_for(2, |status| status.tasks[0].events.iter().any(kinds(TaskEventKind::Signaling)));
    assert_eq!(status.tasks[0].restarts, 0);
    eventually("it is told", || {
        fs::read_to_string(world.path(2, "logs/t.stdout.0")).ok().filter(|log| log.contains("told"))
    });
}

fn given(script: &str) -> TaskSpec {
    let secrets = vec![SecretSpec { name: "one".into(), files: String::new() }];
    let env = [("GOT".to_owned(), "${secret.one.value}".to_owned())].into();
    TaskSpec { secrets, env, ..shell("t", script) }
}

/// Runs a task that is given its secrets, and starts again at once whenever it ends.
fn run_again_and_again(world: &mut World, script: &str) {
    let restart = RestartSpec { attempts: 9, interval_ms: 60_000, delay_ms: 10, mode: 0 };
    world.server.desire(vec![run(1, vec![TaskSpec { restart, ..given(script) }])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
}

fn items(value: &str) -> Option<BTreeMap<String, String>> {
    Some([("value".to_owned(), value.to_owned())].into())
}

fn printed(world: &World, lines: usize) -> String {
    eventually("its output", || {
        let log = fs::read_to_string(world.path(1, "logs/t.stdout.0")).ok()?;
        (log.lines().count() == lines && log.ends_with('\n')).then_some(log)
    })
}

#[test]
fn a_task_waits_for_its_secrets_and_says_why() {
    let mut world = World::new();
    world.server.desire(vec![run(1, vec![given("echo $GOT; exec sleep 1000")])], &[], &[], &[]);
    let waits = |kind: i32| kind == TaskEventKind::HookFailed as i32;
    let status =
        world.server.wait_for(1, |status| status.tasks[0].events.iter().any(|event| waits(event.kind)));
    let said = &status.tasks[0].events.iter().find(|event| waits(event.kind)).expect("it says so").message;
    assert_eq!(said, "get the task's secrets: there is no variable; it is tried again");
    // Nobody is there to be asked for a while.
    world.server.disconnect();
    world.server.items = items("late");
    world.server.accept();
    world.server.wait_for_status(1, ClientStatus::Running);
    assert_eq!(printed(&world, 1), "late\n");
}

#[test]
fn a_task_restarts_with_what_is_in_its_variables_or_what_it_had_where_nobody_gives_it() {
    let mut world = World::new();
    world.server.items = items("first");
    let script = "echo $GOT; echo x >> ../runs; n=$(grep -c x ../runs); while ! [ -e ../go$n ]; do sleep 0.05; done; exit 1";
    run_again_and_again(&mut world, script);
    assert_eq!(printed(&world, 1), "first\n");
    let end = |world: &World, number: u32| {
        fs::write(world.path(1, &format!("tasks/go{number}")), "").expect("written");
    };
    world.server.disconnect();
    end(&world, 1);
    assert_eq!(printed(&world, 2), "first\nfirst\n");
    world.server.items = items("second");
    world.server.accept();
    world.server.wait_for(1, |status| status.tasks[0].restarts == 1);
    end(&world, 2);
    world
        .server
        .wait_for(1, |status| status.tasks[0].restarts == 2 && status.status() == ClientStatus::Running);
    assert_eq!(printed(&world, 3), "first\nfirst\nsecond\n");
    // A server that cannot give them for now takes nothing away.
    world.server.items = items("third");
    world.server.is_busy = true;
    end(&world, 3);
    world
        .server
        .wait_for(1, |status| status.tasks[0].restarts == 3 && status.status() == ClientStatus::Running);
    assert_eq!(printed(&world, 4), "first\nfirst\nsecond\nsecond\n");
    // What a server takes away is not used any more.
    (world.server.items, world.server.is_busy) = (None, false);
    end(&world, 4);
    let waits = |kind: i32| kind == TaskEventKind::HookFailed as i32;
    world.server.wait_for(1, |status| status.tasks[0].events.iter().any(|event| waits(event.kind)));
    assert_eq!(printed(&world, 4), "first\nfirst\nsecond\nsecond\n");
}

#[test]
fn what_a_task_was_given_before_its_agent_started_again_is_known_to_that_agent() {
    let mut world = World::new();
    world.server.items = items("first");
    let script = "echo $GOT; while ! [ -e ../go ]; do sleep 0.05; done; rm ../go; exit 1";
    run_again_and_again(&mut world, script);
    world.kill_agent();
    world.restart_agent();
    let before = world.server.secrets_given;
    while world.server.secrets_given == before {
        world.server.listen();
    }
    // It has read what was said before this.
    let _ = world.server.read_log(1, "t", 0, false);
    // Only the agent itself can give it again now.
    world.server.disconnect();
    fs::write(world.path(1, "tasks/go"), "").expect("written");
    assert_eq!(printed(&world, 2), "first\nfirst\n");
    world.server.accept();
}
