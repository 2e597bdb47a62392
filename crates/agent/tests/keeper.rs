//! Keepers with real processes.

#[allow(dead_code)]
mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use berth_agent::keeper::REFUSED;
use berth_agent::keeper::plan::{ExitRecord, KeeperPlan, LogPlan, ProcessRun, Run, StartRecord};
use common::{agent_program, eventually};
use prost::Message;
use rustix::io::ioctl_fionbio;
use tempfile::TempDir;

/// What an agent tells the process that runs a command within a task.
#[derive(Clone, PartialEq, prost::Message)]
struct ExecPlan {
    #[prost(string, repeated, tag = "1")]
    keeper_args: Vec<String>,
    #[prost(oneof = "Run", tags = "4, 5")]
    run: Option<Run>,
}

/// A keeper's directory, and the tasks that run in it.
struct Keep {
    dir: TempDir,
}

impl Keep {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir(dir.path().join("logs")).expect("a directory");
        Self { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn plan(&self, attempt: u32, script: &str) -> KeeperPlan {
        let run = ProcessRun {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
            dir: self.path().to_string_lossy().into_owned(),
            ..ProcessRun::default()
        };
        let logs = LogPlan {
            dir: self.path().join("logs").to_string_lossy().into_owned(),
            task: "web".into(),
            files_max: 2,
            file_bytes_max: 10,
            disabled: false,
        };
        KeeperPlan { attempt, keeper_args: vec!["keeper".into()], logs, run: Some(Run::Process(run)) }
    }

    /// Starts a keeper and waits until it listens, or has ended.
    fn start(&self, plan: &KeeperPlan) -> Child {
        self.call(&[], &plan.encode_to_vec())
    }

    fn call(&self, verb: &[&str], input: &[u8]) -> Child {
        let mut command = Command::new(agent_program());
        command.arg("keeper").args(verb).arg(self.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a keeper");
        child.stdin.take().expect("a pipe").write_all(input).expect("written");
        child.stdout.take().expect("a pipe").read_to_end(&mut Vec::new()).expect("read");
        child
    }

    /// Runs a script to its end.
    fn run(&self, attempt: u32, script: &str) -> ExitRecord {
        let mut keeper = self.start(&self.plan(attempt, script));
        assert_eq!(keeper.wait().expect("an end").code(), Some(0));
        ExitRecord::read(self.path()).expect("readable").expect("an exit record")
    }

    /// Connects, and waits for the greeting.
    fn connect(&self) -> BufReader<UnixStream> {
        let stream = eventually("the socket", || UnixStream::connect(self.path().join("socket")).ok());
        let mut stream = BufReader::new(stream);
        assert_eq!(line(&mut stream), "running\n");
        stream
    }

    fn pid(&self) -> i32 {
        let record = StartRecord::read(self.path()).expect("readable").expect("a start record");
        assert_ne!(record.pid_start_ticks, 0);
        record.pid
    }

    fn log(&self, index: u32) -> String {
        fs::read_to_string(self.path().join(format!("logs/web.stdout.{index}"))).unwrap_or_default()
    }
}

fn line(stream: &mut BufReader<UnixStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a line");
    line
}

fn ask(stream: &mut BufReader<UnixStream>, request: &str) -> String {
    stream.get_mut().write_all(request.as_bytes()).expect("written");
    line(stream)
}

fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn the_exit_code_is_written_down() {
    let exit = Keep::new().run(1, "exit 7");
    assert_eq!((exit.attempt, exit.exit_code, exit.signal, exit.start_failed), (1, 7, 0, false));
    assert!(exit.finished_ns > 0);
}

#[test]
fn a_signal_is_passed_on_and_written_down() {
    let keep = Keep::new();
    let mut keeper = keep.start(&keep.plan(1, "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done"));
    let mut control = keep.connect();
    eventually("the trap", || (!keep.log(0).is_empty()).then_some(()));
    assert!(ask(&mut control, "signal 99\n").starts_with("error: "));
    assert_eq!(ask(&mut control, "nonsense\n"), "error: unknown request\n");
    assert_eq!(ask(&mut control, "signal 15\n"), "ok\n");
    assert_eq!(line(&mut control), "");
    keeper.wait().expect("an end");
    let exit = ExitRecord::read(keep.path()).expect("readable").expect("an exit record");
    assert_eq!((exit.exit_code, exit.signal), (3, 0));
}

/// Signals of real time have no names, and end a task like others.
#[test]
fn signals_of_real_time_are_passed_on_and_end_a_task() {
    let keep = Keep::new();
    let mut keeper = keep.start(&keep.plan(1, "trap 'exit 3' 37; echo up; while :; do sleep 0.01; done"));
    let mut control = keep.connect();
    eventually("the trap", || (!keep.log(0).is_empty()).then_some(()));
    assert_eq!(ask(&mut control, "signal 37\n"), "ok\n");
    keeper.wait().expect("an end");
    let exit = ExitRecord::read(keep.path()).expect("readable").expect("an exit record");
    assert_eq!((exit.exit_code, exit.signal), (3, 0));
    let exit = keep.run(2, "kill -37 $$; sleep 1000");
    assert_eq!((exit.exit_code, exit.signal), (165, 37));
}

#[test]
fn a_kill_takes_all_processes_along() {
    let keep = Keep::new();
    // One child in the group, one that left it, and one that left its parent.
    let script =
        "sleep 1000 & setsid sleep 1000 & (setsid sh -c 'echo $$ > orphan; exec sleep 1000' &) ; wait";
    let mut keeper = keep.start(&keep.plan(1, script));
    let mut control = keep.connect();
    let orphan = eventually("the orphan", || {
        fs::read_to_string(keep.path().join("orphan")).ok()?.trim().parse::<i32>().ok()
    });
    assert!(lives(orphan));
    assert_eq!(ask(&mut control, "kill\n"), "ok\n");
    keeper.wait().expect("an end");
    let exit = ExitRecord::read(keep.path()).expect("readable").expect("an exit record");
    assert_eq!((exit.exit_code, exit.signal), (137, 9));
    assert!(!lives(orphan), "an orphan lives on");
}

#[test]
fn leftovers_end_with_the_main_process() {
    let keep = Keep::new();
    let exit = keep.run(1, "setsid sleep 1000 & echo $! > left; exit 0");
    let left = fs::read_to_string(keep.path().join("left")).expect("a pid").trim().parse().expect("a pid");
    assert!(exit.exit_code == 0 && !lives(left));
}

#[test]
fn output_rotates_and_its_last_bytes_are_kept() {
    let keep = Keep::new();
    keep.run(1, "printf 0123456789abcdefghijKLM; printf err >&2");
    assert_eq!([0, 1, 2].map(|index| keep.log(index)), ["", "abcdefghij", "KLM"]);
    keep.run(2, "printf NOPQRSTU");
    assert_eq!([1, 2, 3].map(|index| keep.log(index)), ["", "KLMNOPQRST", "U"]);
    assert_eq!(fs::read_to_string(keep.path().join("logs/web.stderr.0")).expect("a log"), "err");
}

#[test]
fn a_task_has_three_files_open_and_a_session_of_its_own() {
    let keep = Keep::new();
    let exit = keep.run(
        1,
        "exec > out; sh -c 'exec ls /proc/self/fd' > fds; tr '\\n' ' ' < fds; readlink /proc/$$/fd/0; cut -d ' ' -f 6 /proc/$$/stat; echo $$; \
         grep -E 'SigBlk|SigIgn' /proc/self/status",
    );
    assert_eq!(exit.exit_code, 0);
    let out = fs::read_to_string(keep.path().join("out")).expect("output");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(lines[0], "0 1 2 3 /dev/null", "the fourth is the directory that ls lists");
    assert_eq!(lines[1], lines[2], "it does not lead its session");
    assert_eq!(lines[3], "SigBlk:\t0000000000000000");
    // The highest ones belong to the C library, and come from whoever runs the tests.
    assert!(lines[4].starts_with("SigIgn:") && lines[4].ends_with("0000000"), "{}", lines[4]);
}

#[test]
fn what_the_agent_ignores_a_task_does_not() {
    let keep = Keep::new();
    let mut command = Command::new("sh");
    // As under nohup, and more.
    command.args(["-c", "trap '' HUP INT USR1; exec \"$@\"", "sh"]).arg(agent_program());
    command.arg("keeper").arg(keep.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut keeper = command.spawn().expect("a keeper");
    let plan = keep.plan(1, "exec > out; grep SigIgn /proc/self/status; kill -HUP $$; sleep 10");
    keeper.stdin.take().expect("a pipe").write_all(&plan.encode_to_vec()).expect("written");
    keeper.wait().expect("an end");
    let ignored = fs::read_to_string(keep.path().join("out")).expect("output");
    assert!(ignored.trim().ends_with("0000000"), "{ignored}");
    let exit = ExitRecord::read(keep.path()).expect("readable").expect("an exit record");
    assert_eq!((exit.exit_code, exit.signal), (129, 1));
}

#[test]
fn what_the_agent_blocks_a_task_does_not_and_its_end_is_noticed() {
    let keep = Keep::new();
    let mut command = Command::new("env");
    command.arg("--block-signal").arg(agent_program());
    command.arg("keeper").arg(keep.path()).stdin(Stdio::piped());
    let mut keeper = command.spawn().expect("a keeper");
    let mut plan = keep.plan(1, "grep SigBlk /proc/self/status > out; sleep 0.3; date +%s%N > end");
    // A pipe that is closed would tell of the end, too.
    plan.logs.disabled = true;
    keeper.stdin.take().expect("a pipe").write_all(&plan.encode_to_vec()).expect("written");
    keeper.wait().expect("an end");
    let exit = ExitRecord::read(keep.path()).expect("readable").expect("an exit record");
    let read = |name: &str| fs::read_to_string(keep.path().join(name)).expect("written");
    assert_eq!(read("out"), "SigBlk:\t0000000000000000\n");
    // It looks for itself every ten seconds.
    let end_ns: u64 = read("end").trim().parse().expect("a number");
    assert!(exit.finished_ns < end_ns + 5_000_000_000, "{} ns later", exit.finished_ns - end_ns);
}

#[test]
fn a_program_that_cannot_be_run_is_named() {
    let keep = Keep::new();
    let mut plan = keep.plan(1, "");
    let Some(Run::Process(run)) = &mut plan.run else { unreachable!() };
    run.program = "/nowhere/at-all".into();
    keep.start(&plan).wait().expect("an end");
    let exit = ExitRecord::read(keep.path()).expect("readable").expect("an exit record");
    assert!(exit.start_failed && !exit.recoverable);
    assert!(exit.message.starts_with("run /nowhere/at-all in "), "{}", exit.message);
}

#[test]
fn a_start_is_never_made_twice() {
    let keep = Keep::new();
    let script = "echo x >> starts; while [ ! -e stop ]; do sleep 0.01; done";
    let mut first = keep.start(&keep.plan(1, script));
    keep.connect();
    let again = |attempt| keep.start(&keep.plan(attempt, script)).wait().expect("an end").code();
    assert_eq!(again(1), Some(REFUSED), "while it runs");
    fs::write(keep.path().join("stop"), "").expect("written");
    first.wait().expect("an end");
    assert_eq!(again(1), Some(REFUSED), "after its end");
    assert_eq!(again(2), Some(0));
    assert_eq!(again(1), Some(REFUSED), "after a later one");
    assert_eq!(fs::read_to_string(keep.path().join("starts")).expect("starts"), "x\nx\n");
}

#[test]
fn a_task_outlives_its_keeper_and_is_adopted() {
    let keep = Keep::new();
    let script =
        "i=0; while [ ! -e stop ]; do i=$((i+1)); echo $i > count; echo 1234567; sleep 0.01; done; exit 5";
    let mut first = keep.start(&keep.plan(1, script));
    keep.connect();
    let pid = keep.pid();
    first.kill().expect("killed");
    first.wait().expect("an end");
    let count = || fs::read_to_string(keep.path().join("count")).ok()?.trim().parse::<u32>().ok();
    let before = eventually("a count", count);
    eventually("the task to go on", || count().filter(|now| *now > before + 5));

    let mut second = keep.call(&["adopt"], &[]);
    keep.connect();
    assert_eq!(keep.call(&["adopt"], &[]).wait().expect("an end").code(), Some(REFUSED));
    assert!(lives(pid) && keep.pid() == pid);
    let written =
        || fs::read_dir(keep.path().join("logs")).expect("logs").flatten().last().map(|f| f.file_name());
    let logged = written();
    eventually("more output", || (written() != logged).then_some(()));
    fs::write(keep.path().join("stop"), "").expect("written");
    second.wait().expect("an end");
    let exit = ExitRecord::read(keep.path()).expect("readable").expect("an exit record");
    assert_eq!((exit.exit_code, exit.signal, exit.start_failed), (-1, 0, false));
    assert!(exit.message.starts_with("how it ended is unknown"));
}

#[test]
fn an_adopted_task_can_be_killed() {
    let keep = Keep::new();
    let mut first = keep.start(&keep.plan(1, "sleep 1000"));
    keep.connect();
    let pid = keep.pid();
    first.kill().expect("killed");
    first.wait().expect("an end");
    let mut second = keep.call(&["adopt"], &[]);
    assert_eq!(ask(&mut keep.connect(), "kill\n"), "ok\n");
    second.wait().expect("an end");
    assert!(!lives(pid));
}

#[test]
fn an_empty_plan_starts_nothing() {
    let keep = Keep::new();
    assert_ne!(keep.call(&[], &[]).wait().expect("an end").code(), Some(0));
    assert_eq!(StartRecord::read(keep.path()).expect("readable"), None);
}

/// What is said in a field of a process's status.
fn status_of(pid: u32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(field)).map(|value| value.trim().to_owned())
}

fn child_of(parent: u32) -> Option<u32> {
    let all = fs::read_dir("/proc").expect("processes").flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| status_of(*pid, "PPid:") == Some(parent.to_string()))
}

#[test]
fn what_unpacks_an_archive_ends_with_who_waits_for_it() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(agent_program());
    command.args(["keeper", "unpack"]).arg(dir.path()).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().expect("a process");
    let input = child.stdin.take().expect("a pipe");
    let pid = eventually("the process that unpacks", || child_of(child.id()));
    eventually("the last right to be given up", || {
        (status_of(pid, "NoNewPrivs:").expect("a status") == "1").then_some(())
    });
    child.kill().expect("killed");
    child.wait().expect("an end");
    eventually("its end", || {
        status_of(pid, "State:").is_none_or(|state| state.starts_with(['Z', 'X'])).then_some(())
    });
    drop(input);
}

/// Archives come from strangers: whoever finds a flaw in how they are read has won nothing.
#[test]
fn what_unpacks_an_archive_has_no_rights_but_to_write_files() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: not root");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(agent_program());
    command.args(["keeper", "unpack"]).arg(dir.path()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("a process");
    let pid = eventually("the process that unpacks", || child_of(child.id()));
    let proc = |name: &str| Path::new("/proc").join(pid.to_string()).join(name);
    let status = |field: &str| status_of(pid, field).expect("a status");
    eventually("the last right to be given up", || (status("NoNewPrivs:") == "1").then_some(()));
    // It is the first of those that it sees.
    assert_eq!(status("NSpid:").split_whitespace().last(), Some("1"));
    let rights = ["CapEff:", "CapPrm:", "CapBnd:", "CapInh:", "CapAmb:"].map(&status);
    let (kept, none) = ("000000000000001b", "0000000000000000");
    assert_eq!(rights, [kept, kept, kept, none, none], "CHOWN, DAC_OVERRIDE, FOWNER and FSETID");
    let place = |dir: &Path| {
        use std::os::unix::fs::MetadataExt;
        let found = dir.metadata().expect("a directory");
        (found.dev(), found.ino())
    };
    assert_eq!(place(&proc("root/")), place(dir.path()));
    let mounts = fs::read_to_string(proc("mountinfo")).expect("its mounts");
    assert_eq!(mounts.lines().count(), 1, "no disk of the host is kept in use: {mounts}");
    let network = |proc: &Path| fs::read_link(proc.join("ns/net")).expect("a network");
    assert_ne!(network(&proc("")), network(Path::new("/proc/self")));

    let mut header = tar::Header::new_gnu();
    header.set_uid(1_234);
    header.set_gid(1_234);
    header.set_mode(0o4755);
    header.set_size(2);
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_data(&mut header.clone(), "a/b", &b"hi"[..]).expect("appended");
    header.set_size(0);
    header.set_mode(0o6775);
    header.set_entry_type(tar::EntryType::Directory);
    archive.append_data(&mut header.clone(), "shared", &b""[..]).expect("appended");
    header.set_entry_type(tar::EntryType::new(b'V'));
    archive.append_data(&mut header, "a/volume", &b""[..]).expect("appended");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(&archive.into_inner().expect("an archive")).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "it reports, rather than fail");
    assert!(said.ends_with("a/volume: only files, directories and links are unpacked"), "{said}");
    let found = std::os::unix::fs::MetadataExt::uid(&dir.path().join("a/b").metadata().expect("a file"));
    assert_eq!(found, 1_234);
    let shared = dir.path().join("shared").metadata().expect("a directory");
    // Not set-user-id: that is of no use to a directory.
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&shared) & 0o7777, 0o2775);
}

#[test]
fn a_command_whose_agent_has_gone_before_it_started_is_ended() {
    let keep = Keep::new();
    let socket = UnixListener::bind(keep.path().join("exec")).expect("a socket");
    let mut command = Command::new(agent_program());
    command.args(["keeper", "exec", "exec"]).current_dir(keep.path());
    let mut runner = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts");
    let (mut agent, _) = socket.accept().expect("it connects");
    let KeeperPlan { keeper_args, run, .. } = keep.plan(1, "exec sleep 60");
    // Whatever it reports finds nobody, however early.
    agent.shutdown(Shutdown::Read).expect("shut down");
    agent.write_all(&ExecPlan { keeper_args, run }.encode_length_delimited_to_vec()).expect("written");
    drop(agent);
    runner.wait().expect("an end");
    // Whoever lives has the output open.
    let mut output = runner.stdout.take().expect("a pipe");
    ioctl_fionbio(&output, true).expect("set");
    assert_eq!(output.read(&mut [0]).expect("nobody writes any more"), 0);
}
