//! Requests about tasks through the server.

use berth_api::agent::{
    AgentQuery, AllocStatus, ExecStart, GetAllocUsage, RestartTasks, SignalTasks, TaskEventKind,
};
use expect_test::expect;

use crate::{check, desired::id, server::Server};

fn restart(task: &str) -> AgentQuery {
    AgentQuery::Restart(RestartTasks { alloc_id: id(1), task: task.into(), all: false })
}

fn signal(number: u8, signal: &str) -> AgentQuery {
    AgentQuery::Signal(SignalTasks { alloc_id: id(number), task: "t".into(), signal: signal.into() })
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
            let usage = GetAllocUsage { alloc_id: id(1), task: String::new() };
            server.ask_only(AgentQuery::AllocUsage(usage));
            server.ask_only(restart("x"));
            server.ask_only(signal(3, "SIGHUP"));
            server.ask_only(signal(1, "SIGNO"));
            exec(server, 1, "t");
            exec(server, 1, "x");
        },
        &expect![[r#"
            hello version=2 cluster=none epoch=1 seq=0 desired=equal observed=equal
            update seq=1
              1 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=2
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            update seq=3
              2 Pending: No tasks have started modified
                t Pending restarts=0 exit=0/0/false [Received; Task Setup "Building Task Directory"]
            update seq=4
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started]
            > asked: Some(Done(Done))
            update seq=5
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Signaling "Task being sent signal SIGHUP"]
            > asked: Some(Refused(Refusal { kind: Failed, text: "send the signal: got signal" }))
            update seq=6
              2 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Signaling "Task being sent signal SIGHUP"]
            > asked: Some(Done(Done))
            update seq=7
              1 Running: Tasks are running modified
                t Running restarts=0 exit=0/0/false started [Received; Task Setup "Building Task Directory"; Started; Signaling "Task being sent signal SIGHUP"; Restart Signaled "User requested task to restart"; Killing "Sent interrupt. Waiting 5s before force killing"]
            update seq=8
              1 Pending: Tasks are between two starts modified
                t Pending restarts=1 exit=0/0/false started restarted [Received; Task Setup "Building Task Directory"; Started; Signaling "Task being sent signal SIGHUP"; Restart Signaled "User requested task to restart"; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Restarting "Restart asked for"]
            update seq=9
              1 Running: Tasks are running modified
                t Running restarts=1 exit=0/0/false started restarted [Received; Task Setup "Building Task Directory"; Started; Signaling "Task being sent signal SIGHUP"; Restart Signaled "User requested task to restart"; Killing "Sent interrupt. Waiting 5s before force killing"; Terminated 0/0/false; Restarting "Restart asked for"; Started]
            > asked: [TaskUsage { name: "t", cpu: None, memory: None }]
            > asked: Some(Refused(Refusal { kind: NotFound, text: "Could not find task \"x\": the allocation has t" }))
            > asked: Some(Refused(Refusal { kind: NotFound, text: "allocation 03030303-0303-0303-0303-030303030303 is not on its node: it has not been received yet, or it has been removed" }))
            > asked: Some(Refused(Refusal { kind: Invalid, text: "there is no signal \"SIGNO\": known are SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGSTKFLT, SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGPWR, SIGSYS, SIGCLD, SIGIOT, SIGPOLL, SIGUNUSED, SIGRTMIN to SIGRTMIN+30, and numbers" }))
            > a command: Some(Refused(Refusal { kind: Invalid, text: "task t is only pretended by mock_driver: no command can run within it" }))
            > a command: Some(Refused(Refusal { kind: NotFound, text: "Could not find task \"x\": the allocation has t" }))
        "#]],
    );
}
