//! Files and output of running tasks, as users see them.

mod e2e;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use e2e::{
    berth,
    dev::{self, Dev},
    eventually,
};
use serde_json::{Value, json};

const WRITES: &str = "cd $NOMAD_TASK_DIR; echo hidden > $NOMAD_SECRETS_DIR/token; ln -s $NOMAD_SECRETS_DIR/token link; \
                      ln -s /etc/hostname host; mkdir data; printf 'one\\ntwo\\nthree\\n' > data/page; \
                      echo shared > $NOMAD_ALLOC_DIR/data/shared; echo ready; exec sleep 1000";

/// Bytes of each file of a log, and how many there are.
const LOG_FILE_BYTES: u64 = 1 << 20;
const LOG_FILES: u64 = 3;

#[tokio::test]
async fn a_task_that_floods_its_log_fills_no_disk_and_waits() {
    let dev = Dev::apart(&["--containers=false"]);
    let mut floods = dev::task("t", "head -c 200000000 /dev/zero; echo; echo at last; exec sleep 1000");
    floods["LogConfig"] = json!({"MaxFiles": LOG_FILES, "MaxFileSizeMB": LOG_FILE_BYTES >> 20});
    let group = json!({"Name": "g", "Tasks": [floods]});
    let since = Instant::now();
    dev.register(&json!({"ID": "floods", "Name": "floods", "Type": "service", "TaskGroups": [group]})).await;
    let alloc = dev.allocs("floods", 1, "running").await.remove(0);
    let logs = dev.alloc_dir(&alloc).join("logs");
    let mut largest = 0;
    let last = eventually("all of it is printed", async || {
        // Files come and go meanwhile.
        let files = logs
            .read_dir()
            .ok()?
            .flatten()
            .filter_map(|file| Some((file.path(), file.metadata().ok()?.len())));
        let files: Vec<_> = files.filter(|(path, _)| path.to_string_lossy().contains("t.stdout.")).collect();
        largest = largest.max(files.iter().map(|(_, bytes)| bytes).sum());
        let number = |path: &PathBuf| path.extension()?.to_str()?.parse::<u64>().ok();
        let last = files.iter().filter_map(|(path, _)| number(path)).max()?;
        (last >= 200_000_000 / LOG_FILE_BYTES).then_some(last)
    })
    .await;
    let passed = since.elapsed();
    dev.until_printed(&alloc, "at last").await;
    assert!(largest <= (LOG_FILES + 1) * LOG_FILE_BYTES, "{largest} bytes at once");
    let (burst, rate) = (64 << 20, 32 << 20);
    let most = burst + rate * passed.as_millis() as u64 / 1_000;
    assert!(last * LOG_FILE_BYTES <= most, "{last} files after {passed:?}");
}

#[tokio::test]
async fn files_of_an_allocation_are_listed_and_read() {
    let dev = Dev::start(&[]);
    let alloc = &dev.run_scripts("files", 1, &[("t", WRITES)]).await[0];
    eventually("it has written", async || {
        dev.stdout_of(&["alloc", "logs", alloc]).contains("ready").then_some(())
    })
    .await;
    let fs = |args: &[&str]| dev.stdout_of(&[&["alloc", "fs"], args].concat());
    assert_eq!(fs(&["-o", "name", alloc]), "alloc\nt\n");
    assert_eq!(fs(&["-o", "name", alloc, "alloc"]), "data\nlogs\ntmp\n");
    assert_eq!(fs(&["-o", "name", alloc, "t/local"]), "data\nhost\nlink\n");
    assert_eq!(fs(&[alloc, "t/local/data/page"]), "one\ntwo\nthree\n");
    assert_eq!(fs(&["-job", "files", "alloc/data/shared"]), "shared\n");
    assert_eq!(fs(&["-tail", "-n", "1", alloc, "t/local/data/page"]), "three\n");
    assert_eq!(fs(&["-c", "4", alloc, "t/local/data/page"]), "ree\n");
    assert_eq!(fs(&[alloc, "alloc/logs/t.stdout.0"]), "ready\n");
    let message = fs(&["-stat", "-H", alloc, "t/local/data/page"]);
    assert!(message.contains("-rw-r--r--") && message.contains(" 14 "), "{message}");
    for path in ["t/secrets/token", "t/secrets", "t/local/link", "t/local/host"] {
        let message = dev.complained(&["alloc", "fs", alloc, path]);
        assert!(message.contains("secrets cannot be read") || message.contains("leads out"), "{message}");
    }
    assert!(dev.complained(&["alloc", "fs", alloc, "t/none"]).contains("has no file t/none"));
    let message = dev.complained(&["alloc", "fs", "-f", alloc, "t/local"]);
    assert!(message.contains("which has no last lines"), "{message}");
    dev.stdout_of(&["job", "stop", "-yes", "files"]);
    assert_eq!(fs(&[alloc, "t/local/data/page"]), "one\ntwo\nthree\n", "what has ended is kept for a while");
}

#[tokio::test]
async fn a_file_is_followed_until_its_tasks_have_ended() {
    let dev = Dev::start(&[]);
    let script =
        "cd $NOMAD_TASK_DIR; echo begun > log; while [ ! -e go ]; do sleep 0.1; done; echo more >> log";
    let alloc = &dev.run_scripts("grows", 1, &[("t", script)]).await[0];
    let mut following = berth(&["alloc", "fs", "-f", alloc, "t/local/log"])
        .env("BERTH_ADDR", &dev.address)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "begun");
    let go = task_dir(&dev, alloc).join("local/go");
    std::fs::write(go, "").expect("written");
    assert_eq!(lines.next().expect("a line").expect("text"), "more");
    dev.stdout_of(&["job", "stop", "-yes", "grows"]);
    assert!(lines.next().is_none(), "it ends with the tasks");
    assert!(following.wait().expect("it ends").success());
}

/// Where the agent keeps what the task `t` writes.
fn task_dir(dev: &Dev, alloc: &str) -> PathBuf {
    let found = walk(dev.home.path(), alloc).expect("the allocation's directory");
    found.join("tasks/t")
}

fn walk(dir: &std::path::Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(dir).ok()?.filter_map(Result::ok);
    entries.map(|entry| entry.path()).find_map(|path| {
        if path.file_name().is_some_and(|found| found == name) {
            return Some(path);
        }
        let is_dir = path.symlink_metadata().is_ok_and(|found| found.is_dir());
        if is_dir { walk(&path, name) } else { None }
    })
}

#[tokio::test]
async fn all_allocations_of_a_job_are_followed_together() {
    let dev = Dev::start(&[]);
    let allocs = dev.run_scripts(
        "many",
        2,
        &[("a", "echo from a; exec sleep 1000"), ("b", "echo from b; exec sleep 1000")],
    );
    let allocs = allocs.await;
    let mut following = berth(&["logs", "-f", "many"])
        .env("BERTH_ADDR", &dev.address)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    let mut message: Vec<String> = lines.take(4).map(|line| line.expect("text")).collect();
    message.sort();
    let mut expected: Vec<String> = (0..2)
        .flat_map(|index| ["a", "b"].map(|task| (index, task)))
        .map(|(index, task)| format!("g[{index}] ID {task} | from {task}"))
        .collect();
    expected.sort();
    for line in &mut message {
        let id = allocs.iter().map(|alloc| &alloc[..8]).find(|id| line.contains(id)).expect("an id");
        *line = line.replace(id, "ID");
    }
    assert_eq!(message, expected);
    dev.stdout_of(&["job", "stop", "-yes", "many"]);
    assert!(following.wait().expect("it ends").success(), "it ends with the job");
}

/// One that ends sooner than anybody looks is shown all the same, and what ended before is not.
#[tokio::test]
async fn who_ends_at_once_is_followed_too() {
    let dev = Dev::start(&[]);
    let mark = dev.home.path().join("mark");
    let script =
        format!("if [ -e {} ]; then echo short; else echo long; exec sleep 1000; fi", mark.display());
    let group = json!({"Name": "g", "Count": 2, "Tasks": [dev::task("a", &script)]});
    dev.register(&json!({"ID": "mixed", "Name": "mixed", "Type": "batch", "TaskGroups": [group]})).await;
    let allocs = dev.allocs("mixed", 2, "running").await;
    let mut following = berth(&["logs", "-f", "mixed"])
        .env("BERTH_ADDR", &dev.address)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    assert!([next(), next()].iter().all(|line| line.ends_with("| long")));
    std::fs::write(&mark, "").expect("written");
    dev.stdout_of(&["alloc", "stop", "-detach", &allocs[0]]);
    assert!(next().ends_with("| short"));
    dev.stdout_of(&["job", "stop", "-yes", "mixed"]);
    assert!(following.wait().expect("it ends").success());
}

#[tokio::test]
async fn a_jobs_output_is_shown_together_without_being_followed() {
    let dev = Dev::start(&[]);
    let script = "echo out; echo err >&2; exec sleep 1000";
    dev.run_scripts("many", 2, &[("a", script)]).await;
    let shown = |args: &[&str]| {
        let mut lines: Vec<String> = dev.stdout_of(args).lines().map(str::to_owned).collect();
        lines.sort_by_key(|line| line.rsplit(' ').next().map(str::to_owned));
        lines.iter().map(|line| line.split(" a ").nth(1).unwrap_or(line).to_owned()).collect::<Vec<_>>()
    };
    let all = async || (shown(&["logs", "-both", "many"]).len() == 4).then_some(());
    eventually("all have printed", all).await;
    let name = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let both: Vec<String> = shown(&["logs", "-both", "many"]).iter().map(name).collect();
    assert_eq!(both, ["stderr | err", "stderr | err", "stdout | out", "stdout | out"]);
    assert_eq!(shown(&["logs", "many"]).iter().map(name).collect::<Vec<_>>(), ["| out", "| out"]);
}

/// What a command prints where it has a terminal.
fn on_a_terminal(dev: &Dev, line: &str, env: &[(&str, &str)]) -> std::process::Child {
    let mut command = Command::new("script");
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_berth"));
    command.args(["-qefc", &line, "/dev/null"]).env("BERTH_ADDR", &dev.address).env("TERM", "xterm");
    command.env_remove("NO_COLOR").envs(env.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("script is there")
}

/// SGR parameters of a line's beginning, and the rest without them.
fn coloured(line: &str) -> Option<(&str, &str)> {
    let (code, rest) = line.strip_prefix("\u{1b}[")?.split_once('m')?;
    Some((code, rest))
}

#[tokio::test]
async fn a_terminal_shows_by_colours_who_prints() {
    let dev = Dev::start(&[]);
    let tasks = [("a", "echo from a; exec sleep 1000"), ("b", "echo from b; exec sleep 1000")];
    dev.run_scripts("many", 1, &tasks).await;
    let mut coloured_now = on_a_terminal(&dev, "logs -f many", &[]);
    let mut plain_now = on_a_terminal(&dev, "logs -f many", &[("NO_COLOR", "1")]);
    let two_lines = |child: &mut std::process::Child| {
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        lines.take(2).map(|line| line.expect("text")).collect::<Vec<_>>()
    };
    let message = two_lines(&mut coloured_now);
    let mut codes: Vec<&str> = message
        .iter()
        .map(|line| {
            let (code, rest) = coloured(line).unwrap_or_else(|| panic!("no colour: {line:?}"));
            let name = if rest.contains("from a") { " a |" } else { " b |" };
            // The colour is that of the name alone.
            assert!(rest.contains(&format!("{name}\u{1b}[0m from ")), "{line:?}");
            code
        })
        .collect();
    codes.dedup();
    assert_eq!(codes.len(), 2, "{message:?}");
    for line in two_lines(&mut plain_now) {
        assert!(coloured(&line).is_none() && line.contains("| from "), "{line:?}");
    }
    dev.stdout_of(&["job", "stop", "-yes", "many"]);
    for child in [&mut coloured_now, &mut plain_now] {
        assert!(child.wait().expect("it ends").success(), "it ends with the job");
    }
}

#[tokio::test]
async fn usage_of_each_allocation_is_exported_to_prometheus() {
    let dev = Dev::start(&[]);
    let alloc = dev.run_scripts("busy", 1, &[("t", "while :; do :; done")]).await.remove(0);
    let idle = dev.run_scripts("idle", 1, &[("t", "exec sleep 1000")]).await.remove(0);
    let text = || {
        let address = dev.address.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).expect("it listens");
        let path = "/v1/client/stats/allocations?format=prometheus";
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).expect("text");
        text
    };
    let value = |text: &str, name: &str, alloc: &str| -> Option<f64> {
        let mut lines = text.lines().filter(|line| line.starts_with(&format!("{name}{{")));
        let line = lines.find(|line| line.contains(&format!("alloc_id=\"{alloc}\"")))?;
        assert!(line.contains("task=\"t\"") && line.contains("task_group=\"g\""), "{line}");
        line.rsplit(' ').next()?.parse().ok()
    };
    let message = eventually("both are measured", async || {
        let message = text();
        let measured = |alloc: &str| value(&message, "berth_task_cpu_percent", alloc);
        (measured(&alloc)? > 1.0 && measured(&idle).is_some()).then_some(message)
    })
    .await;
    for id in [&alloc, &idle] {
        let rss = value(&message, "berth_task_memory_rss_bytes", id).expect("measured");
        assert!(rss > 4096.0, "{message}");
    }
    assert!(message.contains("# TYPE berth_task_memory_bytes gauge"), "{message}");
    assert!(message.contains("berth_task_usage_nodes_silent 0"), "{message}");
    dev.stdout_of(&["job", "stop", "-yes", "busy"]);
    eventually("who has ended is told of no more", async || {
        let message = text();
        (value(&message, "berth_task_memory_bytes", &alloc).is_none()
            && value(&message, "berth_task_memory_bytes", &idle).is_some())
        .then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_allocations_use_is_listed() {
    let dev = Dev::start(&[]);
    let busy = dev.run_scripts("busy", 1, &[("t", "while :; do :; done")]).await.remove(0);
    let idle = dev.run_scripts("idle", 1, &[("t", "exec sleep 1000")]).await.remove(0);
    let top = |args: &[&str]| dev.stdout_of(&[&["top"], args].concat());
    // A machine with much else to do may give it nothing for as long as a measurement takes.
    let users: Vec<Value> = eventually("the busy one has been given time", async || {
        let users: Vec<Value> = serde_json::from_str(&top(&["-o", "json"])).expect("JSON");
        let spent = |id: &str| users.iter().find(|user| user["ID"] == id)?["CpuPercent"].as_f64();
        (spent(&busy).expect("measured") > 1.0).then_some(users)
    })
    .await;
    let ids: Vec<&str> = users.iter().map(|user| user["ID"].as_str().expect("an id")).collect();
    assert_eq!(ids, [&busy, &idle], "what uses most comes first");
    assert!(users.iter().all(|user| user["MemoryBytes"].as_u64().expect("measured") > 4096), "{users:?}");
    assert_eq!(top(&["-o", "name", "idle"]), format!("{idle}\n"));
    assert_eq!(top(&["idle"]).lines().count(), 2, "once, where nobody looks on");
    let message = dev.stdout_of(&["job", "status", "-stats", "busy"]);
    assert!(message.contains("OF A CORE") && message.contains("MiB"), "{message}");
    assert!(!dev.stdout_of(&["job", "status", "busy"]).contains("OF A CORE"));
}

#[test]
fn units_leave_tasks_alone() {
    for (daemon, arguments) in [("server", "server"), ("agent", "agent --config \"/etc/berth/agent.toml\"")] {
        let mut command = berth(&[daemon, "install-unit"]);
        if daemon == "agent" {
            command.args(["-config", "/etc/berth/agent.toml"]);
        }
        let unit = String::from_utf8(command.output().expect("it runs").stdout).expect("text");
        assert!(unit.contains("\nKillMode=process\n"), "{unit}");
        let start = unit.lines().find(|line| line.starts_with("ExecStart=")).expect("a command");
        assert!(start.ends_with(&format!("berth\" {arguments}")), "{start}");
    }
}
