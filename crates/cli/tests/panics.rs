//! Servers, agents and keepers that panic while they handle a secret print the place of the panic and no more. Release builds have
//! no failpoints, and no such test.
#![cfg(debug_assertions)]

mod e2e;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use berth_api::http::Target;
use e2e::{Daemon, dev::Dev, eventually, http_address};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// At each point, what has it panic. What is to be found nowhere stands beside it.
const FAILPOINTS: &str = "http.body=boom-body,http.token=boom-token,keyring.open=boom-read,task.secret=boom-task,agent.frame=boom-frame,\
    keeper.plan=boom-plan";

fn canary(point: &str) -> String {
    format!("boom-{point} canary-{}", "x9".repeat(16))
}

fn assert_without_canaries(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    assert!(!text.contains("canary") && !text.contains("boom-"), "{what}: {text}");
}

fn assert_files_without_canaries(dir: &Path) -> usize {
    let mut seen = 0;
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let Ok(meta) = entry.path().symlink_metadata() else { continue };
        // What is given to tasks is in memory.
        if meta.is_dir() && entry.file_name() != "secrets" {
            seen += assert_files_without_canaries(&entry.path());
        } else if meta.is_file() {
            seen += 1;
            let bytes = fs::read(entry.path()).unwrap_or_default();
            assert_without_canaries(&entry.path().display().to_string(), &bytes);
        }
    }
    seen
}

/// How often that was told: a panic at a point, whose message was withheld.
fn panics(log: &Path) -> usize {
    let log = fs::read_to_string(log).expect("it is there");
    let log = log.lines().filter(|line| line.contains(" panicked at crates/api/src/failpoint.rs:"));
    log.filter(|line| line.ends_with("its message is withheld, as it may hold secrets")).count()
}

/// Sends a request by hand, which the server may break off; whatever is answered.
fn send_raw_request(dev: &Dev, token: &str, request: &str, body: &str) -> String {
    let host = dev.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).expect("it listens");
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: {host}\r\nx-nomad-token: {token}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("it is sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn with_secret(id: &str) -> Value {
    let mut task = e2e::dev::task("main", "exec sleep 1000");
    task["Secrets"] = json!([{
        "Name": "own", "Provider": "nomad", "Path": format!("nomad/jobs/{id}"), "Config": {"files": "secrets/own"},
    }]);
    let group = json!({
        "Name": "app", "Count": 1, "Tasks": [task],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0},
    });
    json!({ "ID": id, "Name": id, "Type": "service", "TaskGroups": [group] })
}

#[tokio::test]
async fn a_panic_with_a_secret_at_hand_names_its_place_and_no_secret() {
    let mut dev = Dev::apart_failing(FAILPOINTS, &["--acl"], &["--containers=false"]);
    let made: Value = serde_json::from_str(&dev.stdout_of(&["acl", "bootstrap", "-json"])).expect("JSON");
    dev.token = made["SecretID"].as_str().expect("text").to_owned();
    eventually("there is a root key", async || {
        dev.stdout_of(&["operator", "root", "keyring", "list"]).contains("active").then_some(())
    })
    .await;
    let (server, agent) = (dev.home.path().join("stderr"), dev.home.path().join("agent.stderr"));
    let variable = |value: &str| json!({ "Items": { "key": value } }).to_string();

    // A handler; one whose body is so large that it is read on another thread; one that decrypts; and whoever looks at tokens.
    let put = |path: &str, value: &str| {
        send_raw_request(&dev, &dev.token, &format!("PUT /v1/var/{path}"), &variable(value))
    };
    let large = canary("body") + &"y".repeat(20_000);
    let broken = [put("a", &canary("body")), put("a", &large)];
    assert!(put("b", &canary("read")).starts_with("HTTP/1.1 200"));
    let read = send_raw_request(&dev, &dev.token, "GET /v1/var/b", "");
    for answer in broken.iter().chain([&read]) {
        assert!(answer.starts_with("HTTP/1.1 500"), "{answer}");
    }
    let token = send_raw_request(&dev, &canary("token"), "GET /v1/jobs", "");
    for answer in broken.iter().chain([&read, &token]) {
        assert_without_canaries("an answer", answer.as_bytes());
    }
    assert_eq!(panics(&server), 4);

    // What prepares a task.
    assert!(put("nomad/jobs/prepared", &canary("task")).starts_with("HTTP/1.1 200"));
    dev.register(&with_secret("prepared")).await;
    let failed = dev.failed("prepared").await;
    let status = dev.berth(&["alloc", "status", &failed]);
    let status = [status.stdout, status.stderr].concat();
    assert!(String::from_utf8_lossy(&status).contains("internal error: a panic"));
    assert_without_canaries("its status", &status);
    assert_eq!(panics(&agent), 1);

    // What speaks with servers: without it an agent is nothing, and ends.
    assert!(put("nomad/jobs/sent", &canary("frame")).starts_with("HTTP/1.1 200"));
    dev.register(&with_secret("sent")).await;
    eventually("the agent ends", async || dev.agent_has_ended().then_some(())).await;
    assert_eq!(panics(&agent), 2);

    let events = Target::new("/v1/event/stream").param("topic", "*").param("index", 1);
    let mut events = dev.client().bytes(&events).await.expect("it follows");
    let mut heard = Vec::new();
    while let Ok(Ok(Some(piece))) =
        tokio::time::timeout(std::time::Duration::from_secs(1), events.next()).await
    {
        heard.extend_from_slice(&piece);
    }
    assert!(!heard.is_empty());
    assert_without_canaries("the events", &heard);
    dev.kill_server();
    assert!(assert_files_without_canaries(dev.home.path()) > 10);
}

#[test]
fn a_keeper_that_panics_does_not_tell_what_it_keeps() {
    let home = TempDir::new().expect("a directory");
    let mut keeper = e2e::berth(&["keeper", home.path().to_str().expect("plain")]);
    keeper.env("BERTH_FAILPOINTS", FAILPOINTS).env("RUST_BACKTRACE", "1");
    let mut keeper = keeper
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    keeper.stdin.take().expect("a pipe").write_all(canary("plan").as_bytes()).expect("it reads");
    let output = keeper.wait_with_output().expect("it ends");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        complaints.contains("failpoint.rs") && complaints.contains("its message is withheld"),
        "{complaints}"
    );
    assert!(complaints.contains("keep::main"), "a backtrace has no values: {complaints}");
    assert_without_canaries("what it says", &[output.stdout, output.stderr].concat());
}

/// A command that may leave cores as large as it likes, where it is started.
fn with_cores(program: &Command, dir: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]).arg(program.get_program());
    command.args(program.get_args()).current_dir(dir);
    command
}

/// Whether this machine writes cores of those who let it.
fn writes_cores(home: &Path) -> bool {
    let mut other = Command::new("sh");
    other.args(["-c", "kill -ABRT $$"]);
    let writes = with_cores(&other, home).status().expect("it runs").core_dumped();
    if !writes {
        eprintln!("skipped: this machine writes no cores");
    }
    writes
}

#[test]
fn what_keepers_have_in_memory_is_left_in_no_core() {
    let home = TempDir::new().expect("a directory");
    if !writes_cores(home.path()) {
        return;
    }
    let mut keeper = with_cores(&e2e::berth(&["keeper", home.path().to_str().expect("plain")]), home.path());
    let mut keeper = keeper.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("it starts");
    let mut stdin = keeper.stdin.take().expect("a pipe");
    // The beginning of what it is to keep, of which no more comes.
    stdin.write_all(&[0x80]).expect("it reads");
    while rustix::io::ioctl_fionread(&stdin).expect("a pipe") > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(Pid::from_child(&keeper), Signal::ABORT).expect("it is ours");
    let status = keeper.wait().expect("it ends");
    assert_eq!((status.signal(), status.core_dumped()), (Some(6), false), "{status:?}");
}

/// Files of a process below `/proc` are its user's as long as the kernel may write cores of it, and root's otherwise.
#[tokio::test]
async fn tasks_and_commands_within_them_are_as_dumpable_as_any_program() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root starts tasks of other users");
        return;
    }
    let dev = Dev::apart(&["--containers=false"]);
    let mut task = e2e::dev::task("main", "echo owner=$(stat -c %u /proc/$$/environ); exec sleep 1000");
    task["User"] = json!("nobody");
    let group = json!({ "Name": "app", "Count": 1, "Tasks": [task] });
    dev.register(&json!({ "ID": "plain", "Name": "plain", "Type": "service", "TaskGroups": [group] })).await;
    let alloc = dev.allocs("plain", 1, "running").await.remove(0);
    dev.until_printed(&alloc, "owner=65534").await;
    let uid = dev.stdout_of(&["exec", "plain", "sh", "-c", "stat -c %u /proc/$$/environ"]);
    assert_eq!(uid.trim(), "65534");
}

#[test]
fn what_servers_and_agents_have_in_memory_is_left_in_no_core() {
    let home = TempDir::new().expect("a directory");
    if !writes_cores(home.path()) {
        return;
    }
    let mut command = with_cores(&e2e::berth(&["dev", "--http-addr", "127.0.0.1:0"]), home.path());
    command.env("TMPDIR", home.path());
    let mut dev = Daemon::spawn(command, &home.path().join("stderr"));
    assert!(!http_address(&dev.ready_line()).is_empty());
    dev.signal(Signal::ABORT);
    let status = dev.wait();
    assert_eq!((status.signal(), status.core_dumped()), (Some(6), false), "{status:?}");
}
