//! Templates of tasks with a server that provides their data, also when their agent is killed.

#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs;

use berth_api::agent::{
    AllocStatus, ClientStatus, TaskEventKind, TaskSpec, TemplateChange, TemplateScript, TemplateSpec,
};
use common::eventually;
use world::{World, run, run_without_ports, shell};

const HOUR_MS: u64 = 3_600_000;

fn template(change: TemplateChange) -> TemplateSpec {
    TemplateSpec {
        destination: "local/file".into(),
        data: "{{ with nomadVar \"a/b\" }}{{ .user }}{{ end }}".into(),
        change: change.into(),
        signal: "SIGUSR1".into(),
        perms: 0o644,
        left_delimiter: "{{".into(),
        right_delimiter: "}}".into(),
        ..TemplateSpec::default()
    }
}

fn task(templates: Vec<TemplateSpec>) -> TaskSpec {
    TaskSpec { templates, ..shell("t", "echo $(cat local/file); exec sleep 1000") }
}

fn file(world: &World) -> String {
    fs::read_to_string(world.path(1, "tasks/t/local/file")).unwrap_or_default()
}

fn until_file(world: &mut World, text: &str) {
    while file(world) != text {
        world.server.listen();
    }
}

fn runs_after(restarts: u32) -> impl Fn(&AllocStatus) -> bool {
    move |status| status.tasks[0].restarts == restarts && status.status() == ClientStatus::Running
}

fn event_message(status: &AllocStatus, kind: TaskEventKind) -> Option<&str> {
    let event = status.tasks[0].events.iter().find(|event| event.kind == kind as i32);
    event.map(|event| event.message.as_str())
}

#[test]
fn a_start_waits_for_a_variable_and_ends_when_it_is_to() {
    let mut world = World::new();
    world.server.desire(vec![run(1, vec![task(vec![template(TemplateChange::Noop)])])], &[], &[], &[]);
    let status = world.server.wait_for(1, |status| event_message(status, TaskEventKind::Template).is_some());
    assert_eq!(event_message(&status, TaskEventKind::Template), Some("Missing: nomad.var.block(a/b)"));
    assert_eq!(status.status(), ClientStatus::Pending);
    world.server.show(Some(&[("user", "one")]));
    world.server.wait_for(1, runs_after(0));
    assert_eq!(file(&world), "one");
    world.server.show(None);
    world.server.desire(vec![run(2, vec![task(vec![template(TemplateChange::Noop)])])], &[], &[], &[]);
    world.server.wait_for(2, |status| event_message(status, TaskEventKind::Template).is_some());
    // What was there stays in its file.
    assert_eq!(file(&world), "one");
    world.server.desire(Vec::new(), &[2], &[], &[]);
    world.server.wait_for_status(2, ClientStatus::Complete);
}

#[test]
fn a_change_is_followed_by_whichever_agent_is_there() {
    let mut world = World::new();
    world.server.show(Some(&[("user", "one")]));
    world.server.desire(vec![run(1, vec![task(vec![template(TemplateChange::Restart)])])], &[], &[], &[]);
    world.server.wait_for(1, runs_after(0));
    world.kill_agent();
    let asked = world.server.watched;
    world.restart_agent();
    while world.server.watched == asked {
        world.server.listen();
    }
    world.server.show(Some(&[("user", "two")]));
    let status = world.server.wait_for(1, runs_after(1));
    let why = "Template with change_mode restart re-rendered";
    assert_eq!(event_message(&status, TaskEventKind::RestartSignaled), Some(why));
    assert_eq!(file(&world), "two");
    // Once more, with the change while there is no agent.
    world.kill_agent();
    world.server.show(Some(&[("user", "three")]));
    world.restart_agent();
    world.server.wait_for(1, runs_after(2));
    assert_eq!(file(&world), "three");
}

#[test]
fn a_notification_that_is_due_is_sent_by_the_next_agent() {
    let mut world = World::new();
    world.server.show(Some(&[("user", "one")]));
    let slow = TemplateSpec { splay_ms: 1_000 * HOUR_MS, ..template(TemplateChange::Restart) };
    world.server.desire(vec![run(1, vec![task(vec![slow])])], &[], &[], &[]);
    world.server.wait_for(1, runs_after(0));
    world.server.show(Some(&[("user", "two")]));
    until_file(&mut world, "two");
    world.kill_agent();
    world.restart_agent();
    world.server.wait_for(1, runs_after(1));
    let told = eventually("its output", || {
        let log = fs::read_to_string(world.path(1, "logs/t.stdout.0")).ok()?;
        (log.lines().count() == 2).then_some(log)
    });
    assert_eq!(told, "one\ntwo\n");
}

#[test]
fn a_file_that_shows_the_same_is_no_change() {
    let mut world = World::new();
    world.server.show(Some(&[("user", "one"), ("other", "x")]));
    world.server.desire(vec![run(1, vec![task(vec![template(TemplateChange::Restart)])])], &[], &[], &[]);
    world.server.wait_for(1, runs_after(0));
    world.server.show(Some(&[("user", "one"), ("other", "y")]));
    world.server.show(Some(&[("user", "two")]));
    let status = world.server.wait_for(1, |status| status.tasks[0].restarts > 0);
    assert_eq!(status.tasks[0].restarts, 1);
    assert_eq!(file(&world), "two");
}

#[test]
fn what_a_server_withholds_is_asked_for_again_only_once_it_is_something_else() {
    let mut world = World::new();
    world.server.withholds = true;
    world.server.show(Some(&[("user", "one")]));
    world.server.desire(vec![run(1, vec![task(vec![template(TemplateChange::Noop)])])], &[], &[], &[]);
    let status =
        world.server.wait_for(1, |status| event_message(status, TaskEventKind::HookFailed).is_some());
    let why = "render the task's templates: it is too large; it is tried again";
    assert_eq!(event_message(&status, TaskEventKind::HookFailed), Some(why));
    // The second request waits.
    while world.server.watched < 2 {
        world.server.listen();
    }
    until_heartbeat(&mut world);
    assert_eq!(world.server.watched, 2);
    world.server.withholds = false;
    world.server.show(Some(&[("user", "two")]));
    world.server.wait_for(1, runs_after(0));
    assert_eq!(file(&world), "two");

    world.server.withholds = true;
    world.server.show(Some(&[("user", "three")]));
    let status = world.server.wait_for(1, |status| event_message(status, TaskEventKind::Template).is_some());
    let why = "The files of templates stay as they are: it is too large";
    assert_eq!(event_message(&status, TaskEventKind::Template), Some(why));
    let asked = world.server.watched;
    until_heartbeat(&mut world);
    // One waits; it may have come before the event was heard of.
    assert!(world.server.watched <= asked + 1, "{} after {asked}", world.server.watched);
    world.server.withholds = false;
    world.server.show(Some(&[("user", "four")]));
    until_file(&mut world, "four");
}

fn until_heartbeat(world: &mut World) {
    let heartbeats = world.server.heartbeats;
    while world.server.heartbeats == heartbeats {
        world.server.listen();
    }
}

#[test]
fn a_task_is_notified_once_its_file_is_written_by_whichever_agent() {
    let mut world = World::new();
    world.server.show(Some(&[("user", "one")]));
    world.server.desire(vec![run(1, vec![task(vec![template(TemplateChange::Restart)])])], &[], &[], &[]);
    world.server.wait_for(1, runs_after(0));
    // A directory is in the way.
    let path = world.path(1, "tasks/t/local/file");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("made");
    let failed_at = |status: &AllocStatus| {
        let mut events = status.tasks[0].events.iter().rev();
        events.find(|event| event.message.ends_with("it is tried again")).map_or(0, |event| event.at_ns)
    };
    world.server.show(Some(&[("user", "two")]));
    let status = world.server.wait_for(1, |status| failed_at(status) > 0);
    assert_eq!(status.tasks[0].restarts, 0, "it was told of nothing");
    world.kill_agent();
    world.restart_agent();
    let before_ns = failed_at(&status);
    let status = world.server.wait_for(1, |status| failed_at(status) > before_ns);
    assert_eq!(status.tasks[0].restarts, 0, "it was told of nothing");
    fs::remove_dir(&path).expect("removed");
    world.server.wait_for(1, runs_after(1));
    assert_eq!(file(&world), "two");
}

#[test]
fn a_template_that_fails_holds_no_other_up() {
    let mut world = World::new();
    world.server.show(Some(&[("user", "1")]));
    let number = TemplateSpec {
        destination: "local/number".into(),
        data: "{{ with nomadVar \"a/b\" }}{{ .user | parseInt }}{{ end }}".into(),
        ..template(TemplateChange::Noop)
    };
    world.server.desire(
        vec![run(1, vec![task(vec![number, template(TemplateChange::Noop)])])],
        &[],
        &[],
        &[],
    );
    world.server.wait_for(1, runs_after(0));
    world.server.show(Some(&[("user", "word")]));
    until_file(&mut world, "word");
    let status = world.server.wait_for(1, |status| event_message(status, TaskEventKind::Template).is_some());
    let said = event_message(&status, TaskEventKind::Template).unwrap_or_default();
    assert!(said.contains("local/number") && !said.contains("word"), "{said}");
    let number = world.path(1, "tasks/t/local/number");
    assert_eq!(fs::read_to_string(&number).expect("read"), "1");
    world.server.show(Some(&[("user", "3")]));
    until_file(&mut world, "3");
    eventually("the number", || (fs::read_to_string(&number).ok()? == "3").then_some(()));
}

#[test]
fn what_is_rendered_once_is_not_asked_for_again() {
    let mut world = World::new();
    world.server.show(Some(&[("user", "one")]));
    let once = TemplateSpec { once: true, ..template(TemplateChange::Restart) };
    world.server.desire(vec![run(1, vec![task(vec![once])])], &[], &[], &[]);
    world.server.wait_for(1, runs_after(0));
    let asked = world.server.watched;
    world.server.show(Some(&[("user", "two")]));
    world.server.desire(vec![run_without_ports(2, vec![shell("t", "exec sleep 1000")])], &[], &[], &[]);
    world.server.wait_for(2, runs_after(0));
    assert_eq!((world.server.watched, file(&world)), (asked, "one".to_owned()));
}

#[test]
fn what_a_script_says_is_shown_without_what_is_secret() {
    let mut world = World::new();
    world.server.show(Some(&[("user", "first-secret")]));
    let script = TemplateScript {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), "cat local/file; exit 3".into()],
        timeout_ms: 60_000,
        fail_on_error: true,
    };
    let template = TemplateSpec { script: Some(script), ..template(TemplateChange::Script) };
    world.server.desire(vec![run(1, vec![task(vec![template])])], &[], &[], &[]);
    world.server.wait_for(1, runs_after(0));
    world.server.show(Some(&[("user", "other-secret")]));
    let status = world.server.wait_for_status(1, ClientStatus::Failed);
    let told: String = status.tasks[0].events.iter().map(|event| format!("{}\n", event.message)).collect();
    assert!(told.contains("it exited with 3: <variable.a/b.user>"), "{told}");
    assert!(!told.contains("secret"), "{told}");
}
