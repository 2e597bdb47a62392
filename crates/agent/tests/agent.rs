//! The agent as a process, between a server and its tasks.

#[allow(dead_code)]
mod common;
#[path = "common/server.rs"]
#[allow(dead_code)]
mod server;
#[path = "common/world.rs"]
#[allow(dead_code)]
mod world;

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use berth_agent::keeper::plan::StartRecord;
use berth_api::agent::{
    AgentOutcome, AgentQuery, AllocStatus, ClientStatus, Done, Down, FileCredit, FileRead, GetAllocUsage,
    GetNodeUsage, RestartTasks, SessionRefused, SignalTasks, TaskPhase, TaskSpec, WelcomeMode,
};
use common::{PATIENCE, agent_program, alloc_id, eventually};
use rustix::process::{Pid, Signal, kill_process};
use server::Server;
use world::{World, run, shell, task};

fn events(status: &AllocStatus) -> Vec<&'static str> {
    status.tasks[0].events.iter().map(|event| event.kind().as_str()).collect()
}

#[test]
fn a_mock_task_runs_to_its_end() {
    let mut world = World::new();
    let config = serde_json::json!({"run_for": "50ms", "stdout_string": "hello\n", "stdout_repeat": 2});
    world.server.desire(vec![run(1, vec![task("m", "mock_driver", config)])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    let status = world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(events(&status), ["Received", "Task Setup", "Started", "Terminated"]);
    assert_eq!(world.server.read_log(1, "m", 0, false).as_deref(), Ok("hello\nhello\nhello\n"));
}

#[test]
fn a_reconnect_costs_nothing_when_nothing_changed() {
    let mut world = World::new();
    world.server.desire(vec![run(1, vec![shell("t", "echo hi; exec sleep 100")])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    world.server.disconnect();
    let (hello, mode) = world.server.accept();
    assert_eq!((hello.epoch, mode), (1, WelcomeMode::Equal));
    assert_eq!(hello.desired_digest, world.server.desired_digest().to_bytes());
    world.server.desire(Vec::new(), &[1], &[], &[]);
    let status = world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(events(&status)[3..], ["Killing", "Terminated", "Killed"]);
}

/// A server that lags behind would have it run again what is done.
#[test]
fn how_far_the_desired_state_had_come_outlives_the_records_of_what_is_removed() {
    let mut world = World::new();
    world.server.desire(vec![run(1, vec![shell("t", "true")])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    world.server.desire(Vec::new(), &[], &[], &[1]);
    let root = world.path(1, "");
    eventually("the directory to go", || (!root.exists()).then_some(()));
    world.kill_agent();
    let (hello, _) = world.start_agent();
    assert_eq!(hello.index, world.server.index);
}

#[test]
fn a_command_gets_its_environment_and_its_log_is_read() {
    let mut world = World::new();
    let mut spec = shell(
        "t",
        "echo $NOMAD_ALLOC_NAME $MINE ${NOMAD_PORT_http} > $NOMAD_TASK_DIR/f; cat $NOMAD_TASK_DIR/f",
    );
    spec.env = [("MINE".to_owned(), "at-${NOMAD_ADDR_http}".to_owned())].into();
    world.server.desire(vec![run(1, vec![spec])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(world.server.read_log(1, "t", 0, false).as_deref(), Ok("j.g[0] at-127.0.0.1:20000 20000\n"));
    assert_eq!(world.server.read_log(1, "t", 6, true).as_deref(), Ok("20000\n"));
    let missing = world.server.read_log(1, "nobody", 0, false).expect_err("no such task");
    assert!(missing.starts_with("not found: "), "{missing}");

    world.server.desire(Vec::new(), &[], &[1], &[]);
    assert_eq!(world.server.read_log(1, "t", 6, true).as_deref(), Ok("20000\n"), "forgotten, not gone");
    world.server.desire(Vec::new(), &[], &[], &[1]);
    let root = world.path(1, "");
    eventually("the directory to go", || (!root.exists()).then_some(()));
}

#[test]
fn a_log_is_followed_to_its_end_within_the_credit() {
    let mut world = World::new();
    let script = "echo 12345; while [ ! -e ../go ]; do sleep 0.01; done; echo 6789";
    world.server.desire(vec![run(1, vec![shell("t", script)])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    let (task, stream) = ("t".into(), "stdout".into());
    let read = FileRead {
        request: 3,
        alloc_id: alloc_id(1).to_vec(),
        task,
        stream,
        follow: true,
        ..FileRead::default()
    };
    world.server.say(Down::FileRead(FileRead { credit_bytes: 4, ..read }));
    let told =
        |server: &Server| server.chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect::<Vec<_>>();
    while told(&world.server).len() < 4 {
        world.server.listen();
    }
    assert_eq!(told(&world.server), b"1234");
    fs::write(world.path(1, "tasks/go"), "").expect("written");
    world.server.say(Down::FileCredit(FileCredit { request: 3, bytes: 100 }));
    while world.server.chunks.last().is_none_or(|chunk| !chunk.done) {
        world.server.listen();
    }
    assert_eq!(told(&world.server), b"12345\n6789\n");
}

#[test]
fn what_cannot_be_prepared_fails_with_a_reason() {
    let mut world = World::new();
    let bad = [
        task("t", "vm", serde_json::json!({})),
        task("t", "raw_exec", serde_json::json!({"command": "${attr.nonsense}"})),
        task("t", "raw_exec", serde_json::json!({"comand": "x"})),
        task("../t", "mock_driver", serde_json::json!({})),
        task("t", "raw_exec", serde_json::json!({"command": "/nowhere"})),
    ];
    let messages = bad.into_iter().zip(1..).map(|(spec, number)| {
        world.server.desire(vec![run(number, vec![spec])], &[], &[], &[]);
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        let event = &status.tasks[0].events[2];
        let message = event.message.split(" in /").next().unwrap_or_default();
        format!("{}: {message}", event.kind().as_str())
    });
    expect_test::expect![[r#"
        Setup Failure: find the driver "vm": this node has none of that name
        Setup Failure: replace ${attr.nonsense}: there is no such name
        Setup Failure: read the settings of raw_exec: unknown field `comand`, expected one of `command`, `args`, `work_dir`
        Setup Failure: prepare the allocation's directory: make the directory of task "../t": its name cannot name one
        Driver Failure: run /nowhere"#]].assert_eq(&messages.collect::<Vec<_>>().join("\n"));
}

/// Killing the agent costs no task, no exit code and no output.
#[test]
fn tasks_outlive_their_agent() {
    let mut world = World::new();
    let script =
        |code| format!("echo $$ > ../pid; while [ ! -e ../go ]; do sleep 0.01; done; echo bye; exit {code}");
    let runs = (1..=10).map(|number| run(number, vec![shell("t", &script(number))])).collect();
    world.server.desire(runs, &[], &[], &[]);
    (1..=10).for_each(|number| drop(world.server.wait_for_status(number, ClientStatus::Running)));
    let pid = |world: &World, number| {
        let path = world.path(number, "tasks/pid");
        eventually("the pid", || fs::read_to_string(&path).ok().filter(|pid| pid.ends_with('\n')))
    };
    let pids: Vec<_> = (1..=10).map(|number| pid(&world, number)).collect();

    world.kill_agent();
    for number in 1..=5 {
        fs::write(world.path(number, "tasks/go"), "").expect("written");
        eventually("the exit", || world.path(number, "keepers/t/exit").exists().then_some(()));
    }
    world.restart_agent();
    for number in 1..=5 {
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        assert_eq!((status.tasks[0].exit_code, status.tasks[0].restarts), (i32::from(number), 0));
        assert_eq!(world.server.read_log(number, "t", 0, false).as_deref(), Ok("bye\n"));
    }
    for number in 6..=10 {
        fs::write(world.path(number, "tasks/go"), "").expect("written");
        let status = world.server.wait_for_status(number, ClientStatus::Failed);
        assert_eq!(status.tasks[0].exit_code, i32::from(number));
    }
    assert_eq!((1..=10).map(|number| pid(&world, number)).collect::<Vec<_>>(), pids);
}

#[test]
fn a_mock_task_goes_on_where_its_schedule_is() {
    let mut world = World::new();
    let mock =
        |run_for: &str| task("m", "mock_driver", serde_json::json!({"run_for": run_for, "exit_code": 4}));
    world.server.desire(vec![run(1, vec![mock("100ms")]), run(2, vec![mock("1h")])], &[], &[], &[]);
    let before = world.server.wait_for_status(2, ClientStatus::Running);
    world.server.wait_for(1, |status| status.status() != ClientStatus::Pending);
    world.kill_agent();
    world.restart_agent();
    let ended = world.server.wait_for_status(1, ClientStatus::Failed);
    assert_eq!(ended.tasks[0].exit_code, 4);
    let ran_ms = (ended.tasks[0].finished_ns - ended.tasks[0].started_ns) / 1_000_000;
    assert!((100..PATIENCE.as_millis() as u64).contains(&ran_ms));
    world.server.desire(Vec::new(), &[2], &[], &[]);
    let stopped = world.server.wait_for_status(2, ClientStatus::Complete);
    assert_eq!((stopped.tasks[0].started_ns, stopped.tasks[0].restarts), (before.tasks[0].started_ns, 0));
}

#[test]
fn a_task_whose_keeper_is_killed_lives_on() {
    let mut world = World::new();
    let script = "echo $$ > ../pid; while [ ! -e ../go ]; do sleep 0.01; done";
    world.server.desire(vec![run(1, vec![shell("t", script)])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    let start = || {
        let dir = world.path(1, "keepers/t");
        berth_agent::keeper::plan::StartRecord::read(&dir).expect("readable").expect("a record")
    };
    let keeper = start().keeper_pid;
    kill_process(Pid::from_raw(keeper).expect("a process"), Signal::KILL).expect("killed");
    fs::write(world.path(1, "tasks/go"), "").expect("written");
    let status = world.server.wait_for_status(1, ClientStatus::Failed);
    assert_eq!((status.tasks[0].exit_code, status.tasks[0].state()), (-1, TaskPhase::Dead));
    let terminated = status.tasks[0].events.iter().find(|event| event.kind().as_str() == "Terminated");
    assert!(terminated.is_some_and(|event| event.message.starts_with("how it ended is unknown")));
}

#[test]
fn a_data_directory_serves_one_agent() {
    let world = World::new();
    let mut command = Command::new(agent_program());
    let output =
        command.arg("run").arg(world.data.path()).arg(world.server.address()).output().expect("an end");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains(&format!("used by the agent with pid {}", world.agent.id())), "{message}");
}

#[test]
fn an_agent_that_is_asked_to_end_takes_its_tasks_along() {
    let mut world = World::new();
    world.server.desire(vec![run(1, vec![shell("t", "echo $$ > ../pid; exec sleep 100")])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    let pid = eventually("the pid", || {
        fs::read_to_string(world.path(1, "tasks/pid")).ok()?.trim().parse::<u32>().ok()
    });
    let agent = Pid::from_child(&world.agent);
    kill_process(agent, Signal::TERM).expect("asked");
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert!(world.agent.wait().expect("an end").success());
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn a_command_may_have_a_user_of_its_own() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let mut world = World::new();
    let script = "id -un; echo x > $NOMAD_TASK_DIR/f && echo x > $NOMAD_ALLOC_DIR/data/f && cat $NOMAD_SECRETS_DIR/../local/f";
    let spec = TaskSpec { user: "nobody".into(), ..shell("t", script) };
    world.server.desire(vec![run(1, vec![spec])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert_eq!(world.server.read_log(1, "t", 0, false).as_deref(), Ok("nobody\nx\n"));
}

/// Wherever the agent is when it is killed: what it began is taken up, and nothing is begun twice.
#[test]
fn an_agent_killed_while_it_starts_tasks_starts_none_twice() {
    let mut world = World::new();
    for round in 0..12 {
        let numbers: Vec<u8> = (1..=6).map(|task| round * 6 + task).collect();
        let script = "echo $$ >> ../starts; while [ ! -e ../go ]; do sleep 0.01; done";
        let runs = || numbers.iter().map(|number| run(*number, vec![shell("t", script)])).collect::<Vec<_>>();
        world.server.desire(runs(), &[], &[], &[]);
        std::thread::sleep(std::time::Duration::from_millis(u64::from(round) * 2));
        world.kill_agent();
        world.respawn_agent();
        world.server.desire(runs(), &[], &[], &[]);
        for number in numbers {
            world.server.wait_for_status(number, ClientStatus::Running);
            fs::write(world.path(number, "tasks/go"), "").expect("written");
            world.server.wait_for_status(number, ClientStatus::Complete);
            let starts = fs::read_to_string(world.path(number, "tasks/starts")).expect("starts");
            assert_eq!(starts.lines().count(), 1, "allocation {number} in round {round}");
        }
    }
}

#[test]
fn a_task_is_restarted_and_signaled_where_it_is() {
    let mut world = World::new();
    let script = "trap 'echo hup' HUP; echo up; while :; do sleep 0.01; done";
    world.server.desire(vec![run(1, vec![shell("t", script)])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    while world.server.read_log(1, "t", 0, false).as_deref() != Ok("up\n") {}
    let (alloc_id, task) = (alloc_id(1).to_vec(), "t".to_owned());
    let signal = SignalTasks { alloc_id: alloc_id.clone(), task: task.clone(), signal: "SIGHUP".into() };
    assert_eq!(world.server.ask(AgentQuery::Signal(signal)), AgentOutcome::Done(Done {}));
    while world.server.read_log(1, "t", 0, false).as_deref() != Ok("up\nhup\n") {}
    let restart = RestartTasks { alloc_id: alloc_id.clone(), task, all: false };
    assert_eq!(world.server.ask(AgentQuery::Restart(restart)), AgentOutcome::Done(Done {}));
    let status = world
        .server
        .wait_for(1, |status| status.tasks[0].restarts == 1 && events(status).last() == Some(&"Started"));
    // Its policy allows none, and does not count this one.
    assert_eq!(
        events(&status)[3..],
        ["Signaling", "Restart Signaled", "Killing", "Terminated", "Restarting", "Started"]
    );

    let usage = GetAllocUsage { alloc_id, task: String::new() };
    let AgentOutcome::AllocUsage(usage) = world.server.ask(AgentQuery::AllocUsage(usage)) else {
        panic!("no usage")
    };
    let memory = usage.tasks[0].memory.expect("it is measured");
    assert!(memory.rss > 0 && usage.tasks[0].cpu.is_some() && usage.tasks[0].name == "t", "{usage:?}");
    let AgentOutcome::NodeUsage(usage) = world.server.ask(AgentQuery::NodeUsage(GetNodeUsage {})) else {
        panic!("no usage")
    };
    assert!(usage.memory.total > 0 && usage.disk.size > 0 && !usage.cores.is_empty(), "{usage:?}");

    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
}

#[test]
fn an_allocation_whose_record_is_damaged_is_ended_and_others_go_on() {
    let mut world = World::new();
    let script = "echo $$ > ../pid; exec sleep 1000";
    world.server.desire(
        vec![run(1, vec![shell("t", script)]), run(2, vec![shell("t", script)])],
        &[],
        &[],
        &[],
    );
    let mut pid = |number| {
        world.server.wait_for_status(number, ClientStatus::Running);
        let path = world.path(number, "tasks/pid");
        eventually("the pid", || fs::read_to_string(&path).ok()?.trim().parse::<u32>().ok())
    };
    let (first, second) = (pid(1), pid(2));
    let lives = |pid: u32| std::path::Path::new(&format!("/proc/{pid}")).exists();
    world.kill_agent();
    let record = world.path(1, "record");
    let mut bytes = fs::read(&record).expect("a record");
    *bytes.last_mut().expect("bytes") ^= 1;
    fs::write(&record, bytes).expect("written");

    world.respawn_agent();
    assert!(!lives(first) && lives(second));
    let id = berth_api::agent::AllocId(alloc_id(1));
    assert!(world.data.path().join(format!("damaged/{id}.0/record")).exists());
    world.server.desire(vec![run(1, vec![shell("t", script)])], &[], &[], &[]);
    let again = eventually("another pid", || {
        fs::read_to_string(world.path(1, "tasks/pid")).ok()?.trim().parse::<u32>().ok()
    });
    assert!(lives(again) && lives(second));
    world.server.desire(Vec::new(), &[1, 2], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    world.server.wait_for_status(2, ClientStatus::Complete);
}

#[test]
fn a_state_of_a_newer_version_is_refused_and_left_alone() {
    let mut world = World::new();
    let config = serde_json::json!({"run_for": "1h"});
    world.server.desire(vec![run(1, vec![task("m", "mock_driver", config)])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Running);
    world.kill_agent();
    let record = world.path(1, "record");
    let mut bytes = fs::read(&record).expect("a record");
    bytes[5] = 9;
    fs::write(&record, &bytes).expect("written");
    let mut command = Command::new(agent_program());
    let output =
        command.arg("run").arg(world.data.path()).arg(world.server.address()).output().expect("an end");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("it is of version 9, and this berth knows 2"), "{message}");
    assert_eq!(fs::read(&record).expect("a record"), bytes);
}

fn start_record(world: &World, number: u8) -> StartRecord {
    StartRecord::read(&world.path(number, "keepers/t")).expect("readable").expect("a record")
}

fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// A daemon of the task has left its parents, its group and its session; whoever kept the task is killed.
fn daemon_of_a_killed_keeper(world: &mut World, number: u8, and_then: &str) -> (i32, StartRecord) {
    let script =
        format!("(setsid sh -c 'echo $$ > ../daemon; exec sleep 1000' &) ; [ -s ../daemon ]; {and_then}");
    world.server.desire(vec![run(number, vec![shell("t", &script)])], &[], &[], &[]);
    world.server.wait_for_status(number, ClientStatus::Running);
    let path = world.path(number, "tasks/daemon");
    let daemon = eventually("the daemon", || fs::read_to_string(&path).ok()?.trim().parse::<i32>().ok());
    let start = start_record(world, number);
    let keeper = Pid::from_raw(start.keeper_pid).expect("a process");
    kill_process(keeper, Signal::KILL).expect("killed");
    (daemon, start)
}

#[test]
fn what_a_task_left_ends_with_it_though_its_keeper_was_killed() {
    let mut world = World::new();
    // One is stopped, one ends by itself.
    let (daemon, start) = daemon_of_a_killed_keeper(&mut world, 1, "exec sleep 1000");
    if start.cgroup.is_empty() {
        eprintln!("skipped: this host has no cgroups");
        return;
    }
    assert!(lives(daemon));
    world.server.desire(Vec::new(), &[1], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
    assert!(!lives(daemon) && !std::path::Path::new(&start.cgroup).exists());
    let (daemon, start) =
        daemon_of_a_killed_keeper(&mut world, 2, "while [ ! -e ../go ]; do sleep 0.01; done");
    fs::write(world.path(2, "tasks/go"), "").expect("written");
    let status = world.server.wait_for_status(2, ClientStatus::Failed);
    assert!(!lives(daemon) && !std::path::Path::new(&start.cgroup).exists(), "{:?}", status.tasks[0].events);
}

#[test]
fn no_cgroup_outlives_its_task() {
    let mut world = World::new();
    for number in 1..=20 {
        // Some cannot even be run.
        let script = ["exit 0", "setsid sleep 1000 & exit 0", "kill -9 $$"][usize::from(number) % 3];
        let mut spec = shell("t", script);
        if number % 4 == 0 {
            spec.config_json = serde_json::json!({"command": "/nowhere"}).to_string();
        }
        world.server.desire(vec![run(number, vec![spec])], &[], &[], &[]);
    }
    for number in 1..=20 {
        world.server.wait_for(number, |status| status.status().is_terminal());
        let cgroup = start_record(&world, number).cgroup;
        assert!(cgroup.is_empty() || !std::path::Path::new(&cgroup).exists(), "{cgroup} is left");
    }
}

/// Writing down which cluster the node belongs to takes as long as its disk does: the node is not silent meanwhile, and
/// nothing runs before it is written.
#[test]
fn a_disk_that_does_not_answer_holds_up_no_heartbeat() {
    let data = tempfile::tempdir().expect("a directory");
    // To open a pipe for writing takes until somebody reads.
    let slow = data.path().join("fence.new");
    rustix::fs::mkfifoat(rustix::fs::CWD, &slow, rustix::fs::Mode::RWXU).expect("a pipe");
    let mut world = World::with_data(data);
    world.server.desire(vec![run(1, vec![shell("t", "exit 0")])], &[], &[], &[]);
    while world.server.heartbeats < 2 {
        world.server.listen();
    }
    assert_eq!((world.server.status(1), world.path(1, "").exists()), (None, false));
    let reader = fs::File::open(&slow).expect("read");
    fs::remove_file(&slow).expect("removed");
    // A pipe cannot be synced: the agent comes again, for nothing it was told is its own yet.
    let (hello, _) = world.server.accept();
    assert_eq!(hello.cluster_id, [0; 0]);
    drop(reader);
    world.server.desire(vec![run(1, vec![shell("t", "exit 0")])], &[], &[], &[]);
    world.server.wait_for_status(1, ClientStatus::Complete);
}

/// An agent that cannot be helped by trying again says why, and leaves the servers alone for a while.
#[test]
fn an_agent_that_is_refused_for_good_says_why_and_does_not_insist() {
    let (data, mut server) = (tempfile::tempdir().expect("a directory"), Server::new());
    let refused = |retry| Some(SessionRefused { reason: "too old, go away".into(), retry });
    server.refuses = refused(true);
    let mut command = Command::new(agent_program());
    command.arg("run").arg(data.path()).arg(server.address()).env("AGENT_LOG", "").stderr(Stdio::piped());
    let mut agent = command.spawn().expect("an agent");
    // Where trying again may help, it comes again and again.
    (0..3).for_each(|_| drop(server.accept()));
    server.refuses = refused(false);
    server.accept();
    let mut told = BufReader::new(agent.stderr.take().expect("a pipe")).lines();
    let why =
        told.find(|line| line.as_ref().is_ok_and(|line| line.contains("no server is dialed before that")));
    agent.kill().expect("killed");
    agent.wait().expect("an end");
    let why = why.expect("it is said").expect("text");
    let seconds = why.split("seconds=").nth(1).and_then(|rest| rest.split(' ').next()?.parse::<u32>().ok());
    assert!(seconds.is_some_and(|seconds| seconds >= 60), "{why}");
}
