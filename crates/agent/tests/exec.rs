//! Commands within tasks: real processes, real terminals, and clients that misbehave.

#[allow(dead_code)]
mod common;
#[path = "common/exec.rs"]
#[allow(dead_code)]
mod exec;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use berth_api::agent::{ClientStatus, EXEC_STDIN_BYTES_MAX, ExecStream, Refusal, RefusalKind};
use common::eventually;
use exec::{CREDIT, Exec, lives};
use world::{World, run, shell, task};

/// An agent with a task that waits.
fn world() -> World {
    let mut world = World::new();
    let mut spec = shell("t", "exec sleep 1000");
    spec.env = [("MINE".to_owned(), "yes".to_owned())].into();
    world.server.desire(vec![run(1, vec![spec])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    world
}

fn refusal(end: Result<i32, Refusal>) -> (RefusalKind, String) {
    let refusal = end.expect_err("it is refused");
    (refusal.kind(), refusal.text)
}

#[test]
fn a_command_sees_what_the_task_sees() {
    let mut world = world();
    let script = r#"echo "$MINE $NOMAD_TASK_NAME"; pwd; cat; echo oops >&2; exit 7"#;
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", script], false);
    exec.input(&mut world.server, b"typed\n");
    exec.close(&mut world.server);
    assert_eq!(exec.end(&mut world.server), Ok(7));
    let dir = world.path(1, "tasks/t");
    assert_eq!(exec.shown(), format!("yes t\n{}\ntyped\n", dir.display()));
    assert_eq!(exec.stderr, b"oops\n");
}

#[test]
fn an_end_by_a_signal_has_the_exit_code_of_shells() {
    let mut world = world();
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", "kill -9 $$"], false);
    assert_eq!(exec.end(&mut world.server), Ok(137));
}

#[test]
fn what_cannot_run_is_refused_with_the_reason() {
    let mut world = world();
    let mock = task("t", "mock_driver", serde_json::json!({"run_for": "1000s"}));
    world.server.desire(vec![run(2, vec![mock])], &[], &[], &[]);
    world.server.wait_for_status(2, ClientStatus::Running);
    let mut refused = |number, command: &[&str]| {
        let mut exec = Exec::start(&mut world.server, 1, number, command, false);
        refusal(exec.end(&mut world.server))
    };
    let (kind, text) = refused(1, &["/nowhere/at-all"]);
    assert!(kind == RefusalKind::Invalid && text.contains("run /nowhere/at-all in "), "{text}");
    assert_eq!(refused(1, &[]), (RefusalKind::Invalid, "there is no command to run".into()));
    assert_eq!(refused(3, &["true"]).0, RefusalKind::NotFound);
    let (kind, text) = refused(2, &["true"]);
    assert!(kind == RefusalKind::Invalid && text.contains("only pretended"), "{text}");
    // Nothing is left in the keeper's directory.
    let left = std::fs::read_dir(world.path(1, "keepers/t")).expect("a directory").flatten();
    let left: Vec<_> = left.filter(|entry| entry.file_name().to_string_lossy().contains("exec")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_terminal_is_real() {
    let mut world = world();
    let script = "tty; stty size; trap 'echo caught' INT; while read line; do echo \"got $line\"; stty size; done; \
                  test -w /dev/tty && echo mine";
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", script], true);
    exec.resize(&mut world.server, 31, 97);
    exec.until(&mut world.server, |exec| exec.shown().lines().count() >= 2);
    assert!(exec.shown().starts_with("/dev/pts/"), "{}", exec.shown());
    exec.resize(&mut world.server, 42, 120);
    // The latest size is another stream than what is typed: which of the two comes first is open.
    for typed in 1.. {
        exec.input(&mut world.server, b"hello\n");
        exec.until(&mut world.server, |exec| exec.shown().lines().count() >= 2 + 3 * typed);
        if exec.shown().contains("got hello\n42 120\n") {
            break;
        }
    }
    exec.close(&mut world.server);
    assert_eq!(exec.end(&mut world.server), Ok(0));
    assert!(exec.shown().ends_with("mine\n") && exec.stderr.is_empty(), "{}", exec.shown());
}

#[test]
fn ctrl_c_reaches_the_foreground_process() {
    let mut world = world();
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", "echo up; exec sleep 1000"], true);
    exec.until(&mut world.server, |exec| exec.shown().contains("up"));
    exec.input(&mut world.server, &[3]);
    assert_eq!(exec.end(&mut world.server), Ok(130));
}

#[test]
fn who_does_not_read_holds_the_command_up_and_takes_no_room() {
    let mut world = world();
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", "yes & yes >&2"], false);
    exec.reads = false;
    let full = CREDIT as usize;
    exec.until(&mut world.server, |exec| exec.stdout.len() == full && exec.stderr.len() == full);
    // Only who is allowed more sends more, and exactly that much.
    exec.allow(&mut world.server, ExecStream::Stderr, 10);
    exec.until(&mut world.server, |exec| exec.stderr.len() == full + 10);
    assert_eq!(exec.stdout.len(), full);
    exec.cancel(&mut world.server);
}

#[test]
fn input_waits_for_a_command_that_is_slow_to_begin() {
    let mut world = world();
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", "sleep 0.2; wc -c"], false);
    for _ in 0..2_000 {
        exec.input(&mut world.server, b"x");
    }
    exec.close(&mut world.server);
    assert_eq!(exec.end(&mut world.server), Ok(0));
    assert_eq!(exec.shown().trim(), "2000");
}

#[test]
fn input_that_nobody_reads_is_bounded() {
    let mut world = world();
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", "echo $$; exec sleep 1000"], false);
    let pid = exec.pid(&mut world.server);
    // The pipe takes some, and is followed by credit; whoever sends more than that is cut off.
    let sent = vec![b'x'; EXEC_STDIN_BYTES_MAX];
    (0..8).for_each(|_| exec.input(&mut world.server, &sent));
    let (kind, text) = refusal(exec.end(&mut world.server));
    assert_eq!(
        (kind, text.as_str()),
        (RefusalKind::Failed, "take its input: more was sent than was allowed")
    );
    eventually("the command's end", || (!lives(pid)).then_some(()));
}

#[test]
fn a_command_ends_with_all_that_it_started_when_nobody_waits_for_it() {
    let mut world = world();
    let script = "setsid sleep 1000 & echo $!; sleep 1000 & exec sleep 1000";
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", script], false);
    let left = exec.pid(&mut world.server);
    exec.cancel(&mut world.server);
    eventually("the leftover's end", || (!lives(left)).then_some(()));
    // The task does not mind.
    assert_eq!(world.server.status(1).expect("known").status(), ClientStatus::Running);
}

#[test]
fn a_command_ends_with_its_task() {
    let mut world = world();
    let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", "echo $$; exec sleep 1000"], true);
    let pid = exec.pid(&mut world.server);
    world.server.desire(Vec::new(), &[1], &[], &[]);
    let (kind, text) = refusal(exec.end(&mut world.server));
    assert_eq!(
        (kind, text.as_str()),
        (RefusalKind::Invalid, "task t has ended, and with it all that ran within it")
    );
    eventually("the command's end", || (!lives(pid)).then_some(()));
}

#[test]
fn a_command_ends_with_the_connection_and_with_the_agent() {
    let mut world = world();
    let script = ["sh", "-c", "echo $$; exec sleep 1000"];
    let pid = Exec::start(&mut world.server, 1, 1, &script, false).pid(&mut world.server);
    world.server.disconnect();
    world.server.accept();
    eventually("the command's end", || (!lives(pid)).then_some(()));
    let pid = Exec::start(&mut world.server, 1, 1, &script, true).pid(&mut world.server);
    world.kill_agent();
    eventually("the command's end", || (!lives(pid)).then_some(()));
}

#[test]
fn commands_are_limited_in_number() {
    let mut world = world();
    let mut first = Exec::start(&mut world.server, 0, 1, &["sh", "-c", "echo $$; exec sleep 1000"], false);
    first.pid(&mut world.server);
    for request in 1..32 {
        Exec::start(&mut world.server, request, 1, &["sleep", "1000"], false);
    }
    let mut late = Exec::start(&mut world.server, 32, 1, &["true"], false);
    assert_eq!(refusal(late.end(&mut world.server)).0, RefusalKind::Busy);
    first.cancel(&mut world.server);
    let mut next = Exec::start(&mut world.server, 33, 1, &["true"], false);
    assert_eq!(next.end(&mut world.server), Ok(0));
}

#[test]
fn a_command_has_the_tasks_user() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let mut world = World::new();
    let mut spec = shell("t", "exec sleep 1000");
    spec.user = "nobody".into();
    world.server.desire(vec![run(1, vec![spec])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    for tty in [false, true] {
        let script = "id -un; echo x > /proc/self/fd/1; exit 0";
        let mut exec = Exec::start(&mut world.server, 1, 1, &["sh", "-c", script], tty);
        assert_eq!(exec.end(&mut world.server), Ok(0), "{}", exec.shown());
        assert!(exec.shown().starts_with("nobody\n"), "{}", exec.shown());
    }
}
