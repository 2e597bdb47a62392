//! What people ask of tasks, by way of the server.

use berth_api::agent::{
    AllocStatus, AskAllocUsage, ExecStart, Question, RestartTasks, SignalTasks, TaskEventKind,
};
use expect_test::expect;

use crate::{check, server::Server, wishes::id};

fn restart(task: &str) -> Question {
    Question::Restart(RestartTasks { alloc_id: id(1), task: task.into(), all: false })
}

fn signal(number: u8, signal: &str) -> Question {
    Question::Signal(SignalTasks { alloc_id: id(number), task: "t".into(), signal: signal.into() })
}

fn last_event(status: &AllocStatus) -> TaskEventKind {
    status.tasks[0].events.last().expect("an event").kind()
}

fn exec(server: &mut Server, number: u8, task: &str) {
    let (alloc_id, task) = (id(number), task.to_owned());
    server.exec(ExecStart { alloc_id, task, command: vec!["sh".into()], ..ExecStart::default() });
}

#[test]
fn tasks_are_restarted_signaled_and_asked_about() {
    check(
        |server| {
            server.open();
            server.start(1, r#"{"run_for": "1h"}"#);
            server.start(2, r#"{"run_for": "1h", "signal_error": "got signal"}"#);
            server.ask(signal(1, "SIGHUP"), |status| last_event(status) == TaskEventKind::Signaling);
            server.ask(signal(2, "SIGHUP"), |status| last_event(status) == TaskEventKind::Signaling);
            server.ask(restart("t"), |status| {
                status.tasks[0].restarts == 1 && last_event(status) == TaskEventKind::Started
            });
            let usage = AskAllocUsage { alloc_id: id(1), task: String::new() };
            server.ask_only(Question::AllocUsage(usage));
            server.ask_only(restart("x"));
            server.ask_only(signal(3, "SIGHUP"));
            server.ask_only(signal(1, "SIGNO"));
            exec(server, 1, "t");
            exec(server, 1, "x");
        },
        &expect![],
    );
}
