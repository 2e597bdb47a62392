//! What people see of tasks that run: their files, their output, and what they use.

mod e2e;

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Output, Stdio},
};

use berth_api::http::{Client, Target};
use e2e::{Daemon, berth, client, eventually, http_address};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server and an agent in one process.
struct Dev {
    daemon: Daemon,
    address: String,
    home: TempDir,
}

impl Dev {
    fn start() -> Self {
        let home = TempDir::new().expect("a directory");
        let mut command = berth(&["dev", "--http-addr", "127.0.0.1:0"]);
        command.env("TMPDIR", home.path());
        let mut daemon = Daemon::spawn(command, &home.path().join("told"));
        let address = http_address(&daemon.ready_line());
        Self { daemon, address, home }
    }

    fn client(&self) -> Client {
        client(&format!("http://{}", self.address))
    }

    fn berth(&self, args: &[&str]) -> Output {
        berth(args).env("BERTH_ADDR", format!("http://{}", self.address)).output().expect("it runs")
    }

    /// What it prints; it must succeed.
    fn said(&self, args: &[&str]) -> String {
        let output = self.berth(args);
        assert!(output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What it complains of; it must fail.
    fn complained(&self, args: &[&str]) -> String {
        let output = self.berth(args);
        assert!(!output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs a job of shell scripts, by the names of their tasks, and waits until they run.
    async fn run(&self, id: &str, count: u32, tasks: &[(&str, &str)]) -> Vec<String> {
        let task = |(name, script): &(&str, &str)| {
            json!({
                "Name": name,
                "Driver": "raw_exec",
                "Config": {"command": "/bin/sh", "args": ["-c", script]},
                "Resources": {"CPU": 1, "MemoryMB": 10},
            })
        };
        let tasks: Vec<Value> = tasks.iter().map(task).collect();
        let group = json!({"Name": "g", "Count": count, "Tasks": tasks});
        let job = json!({"Job": {"ID": id, "Name": id, "Type": "service", "TaskGroups": [group]}});
        self.client().put::<Value>(&Target::new("/v1/jobs"), &job).await.expect("registered");
        eventually("its tasks run", async || {
            let target = Target::new("/v1/job").part(id).part("allocations");
            let allocs: Vec<Value> = self.client().get(&target).await.ok()?.value;
            let all = allocs.iter().all(|alloc| alloc["ClientStatus"] == "running");
            (all && allocs.len() == count as usize)
                .then(|| allocs.iter().map(|alloc| alloc["ID"].as_str().unwrap().to_owned()).collect())
        })
        .await
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        self.daemon.stop();
    }
}

const WRITES: &str = "cd $NOMAD_TASK_DIR; echo hidden > $NOMAD_SECRETS_DIR/token; ln -s $NOMAD_SECRETS_DIR/token link; \
                      ln -s /etc/hostname host; mkdir data; printf 'one\\ntwo\\nthree\\n' > data/page; \
                      echo shared > $NOMAD_ALLOC_DIR/data/shared; echo ready; exec sleep 1000";

#[tokio::test]
async fn files_of_an_allocation_are_listed_and_read() {
    let dev = Dev::start();
    let alloc = &dev.run("files", 1, &[("t", WRITES)]).await[0];
    eventually("it has written", async || {
        dev.said(&["alloc", "logs", alloc]).contains("ready").then_some(())
    })
    .await;
    let fs = |args: &[&str]| dev.said(&[&["alloc", "fs"], args].concat());
    assert_eq!(fs(&["-o", "name", alloc]), "alloc\nt\n");
    assert_eq!(fs(&["-o", "name", alloc, "alloc"]), "data\nlogs\ntmp\n");
    assert_eq!(fs(&["-o", "name", alloc, "t/local"]), "data\nhost\nlink\n");
    assert_eq!(fs(&[alloc, "t/local/data/page"]), "one\ntwo\nthree\n");
    assert_eq!(fs(&["-job", "files", "alloc/data/shared"]), "shared\n");
    assert_eq!(fs(&["-tail", "-n", "1", alloc, "t/local/data/page"]), "three\n");
    assert_eq!(fs(&["-c", "4", alloc, "t/local/data/page"]), "ree\n");
    assert_eq!(fs(&[alloc, "alloc/logs/t.stdout.0"]), "ready\n");
    let told = fs(&["-stat", "-H", alloc, "t/local/data/page"]);
    assert!(told.contains("-rw-r--r--") && told.contains(" 14 "), "{told}");
    for path in ["t/secrets/token", "t/secrets", "t/local/link", "t/local/host"] {
        let told = dev.complained(&["alloc", "fs", alloc, path]);
        assert!(told.contains("secrets are shown to nobody") || told.contains("leads out"), "{told}");
    }
    assert!(dev.complained(&["alloc", "fs", alloc, "t/none"]).contains("has no file t/none"));
    let told = dev.complained(&["alloc", "fs", "-f", alloc, "t/local"]);
    assert!(told.contains("which has no last lines"), "{told}");
    dev.said(&["job", "stop", "-yes", "files"]);
    assert_eq!(fs(&[alloc, "t/local/data/page"]), "one\ntwo\nthree\n", "what has ended is kept for a while");
}

#[tokio::test]
async fn a_file_is_followed_until_its_tasks_have_ended() {
    let dev = Dev::start();
    let script =
        "cd $NOMAD_TASK_DIR; echo begun > log; while [ ! -e go ]; do sleep 0.1; done; echo more >> log";
    let alloc = &dev.run("grows", 1, &[("t", script)]).await[0];
    let mut following = berth(&["alloc", "fs", "-f", alloc, "t/local/log"])
        .env("BERTH_ADDR", format!("http://{}", dev.address))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "begun");
    let go = task_dir(&dev, alloc).join("local/go");
    std::fs::write(go, "").expect("written");
    assert_eq!(lines.next().expect("a line").expect("text"), "more");
    dev.said(&["job", "stop", "-yes", "grows"]);
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
    let dev = Dev::start();
    let allocs =
        dev.run("many", 2, &[("a", "echo from a; exec sleep 1000"), ("b", "echo from b; exec sleep 1000")]);
    let allocs = allocs.await;
    let mut following = berth(&["logs", "-f", "many"])
        .env("BERTH_ADDR", format!("http://{}", dev.address))
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let lines = BufReader::new(following.stdout.take().expect("piped")).lines();
    let mut told: Vec<String> = lines.take(4).map(|line| line.expect("text")).collect();
    told.sort();
    let mut expected: Vec<String> = (0..2)
        .flat_map(|index| ["a", "b"].map(|task| (index, task)))
        .map(|(index, task)| format!("g[{index}] ID {task} | from {task}"))
        .collect();
    expected.sort();
    for line in &mut told {
        let id = allocs.iter().map(|alloc| &alloc[..8]).find(|id| line.contains(id)).expect("an id");
        *line = line.replace(id, "ID");
    }
    assert_eq!(told, expected);
    dev.said(&["job", "stop", "-yes", "many"]);
    assert!(following.wait().expect("it ends").success(), "it ends with the job");
}

#[tokio::test]
async fn what_allocations_use_is_listed() {
    let dev = Dev::start();
    let busy = dev.run("busy", 1, &[("t", "while :; do :; done")]).await.remove(0);
    let idle = dev.run("idle", 1, &[("t", "exec sleep 1000")]).await.remove(0);
    let top = |args: &[&str]| dev.said(&[&["top"], args].concat());
    let users: Vec<Value> = serde_json::from_str(&top(&["-o", "json"])).expect("JSON");
    let ids: Vec<&str> = users.iter().map(|user| user["ID"].as_str().expect("an id")).collect();
    assert_eq!(ids, [&busy, &idle], "what uses most comes first");
    assert!(users[0]["CpuPercent"].as_f64().expect("measured") > 1.0, "{users:?}");
    assert!(users.iter().all(|user| user["MemoryBytes"].as_u64().expect("measured") > 4096), "{users:?}");
    assert_eq!(top(&["-o", "name", "idle"]), format!("{idle}\n"));
    assert_eq!(top(&["idle"]).lines().count(), 2, "once, where nobody looks on");
    let told = dev.said(&["job", "status", "-stats", "busy"]);
    assert!(told.contains("OF A CORE") && told.contains("MiB"), "{told}");
    assert!(!dev.said(&["job", "status", "busy"]).contains("OF A CORE"));
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
