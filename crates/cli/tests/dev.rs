//! `berth dev` from start to stop, and the commands that talk to it, as a person would use them.

#[path = "dev/containers.rs"]
mod containers;
mod e2e;
#[path = "dev/updates.rs"]
mod updates;

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Output, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const BERTH: &str = env!("CARGO_BIN_EXE_berth");
/// Nothing here takes longer, even on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(30);

/// A `berth dev` of its own for each test; what it keeps is below `home`.
struct Dev {
    process: Child,
    out: BufReader<ChildStdout>,
    address: String,
    home: TempDir,
}

impl Dev {
    fn start(args: &[&str]) -> Self {
        Self::start_below(TempDir::new().expect("a directory"), args)
    }

    fn start_below(home: TempDir, args: &[&str]) -> Self {
        let mut process = Command::new(BERTH)
            .args(["dev", "--http-addr", "127.0.0.1:0"])
            .args(args)
            .env("TMPDIR", home.path())
            // Rules of the host that runs the tests are its own.
            .env("BERTH_BRIDGE", "false")
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut out = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut ready = String::new();
        out.read_line(&mut ready).expect("it says when it is ready");
        let address = ready.split_whitespace().find(|word| word.starts_with("http://"));
        let address = address.unwrap_or_else(|| panic!("no address in {ready:?}")).to_owned();
        Self { process, out, address, home }
    }

    fn berth(&self, args: &[&str]) -> Output {
        Command::new(BERTH)
            .args(args)
            .env("BERTH_ADDR", &self.address)
            .stdin(Stdio::null())
            .output()
            .expect("it runs")
    }

    /// What it prints; it must succeed.
    fn stdout_of(&self, args: &[&str]) -> String {
        let output = self.berth(args);
        assert!(output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn job_file(&self, source: &str) -> String {
        let path: PathBuf = self.home.path().join("job.nomad.hcl");
        std::fs::File::create(&path)
            .and_then(|mut file| file.write_all(source.as_bytes()))
            .expect("it is written");
        path.to_string_lossy().into_owned()
    }

    fn alloc_of(&self, job: &str) -> String {
        let detail: serde_json::Value =
            serde_json::from_str(&self.stdout_of(&["job", "status", "-o", "json", job])).unwrap();
        detail["Allocations"][0]["ID"].as_str().expect("it has an allocation").to_owned()
    }

    fn node(&self) -> String {
        self.stdout_of(&["node", "status", "-o", "name"]).trim().to_owned()
    }

    /// Asks it to stop, and says whether it did so well.
    fn stop(&mut self) -> bool {
        kill_process(Pid::from_child(&self.process), Signal::TERM).expect("it lives");
        let success = self.process.wait().expect("it ends").success();
        let mut rest = String::new();
        self.out.read_line(&mut rest).expect("its output ends");
        assert_eq!(rest, "", "one line is all it says");
        success
    }
}

impl Drop for Dev {
    /// A test that fails leaves no tasks behind either.
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
            let _ = self.process.wait();
        }
    }
}

/// Tries for a while.
fn eventually(what: &str, mut happens: impl FnMut() -> bool) {
    let since = Instant::now();
    while !happens() {
        assert!(since.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn data_dirs(home: &Path) -> usize {
    let entries = std::fs::read_dir(home).expect("it is there");
    entries.filter_map(Result::ok).filter(|entry| entry.path().is_dir()).count()
}

/// A service that says something and then waits. It has a deployment if what is added has an `update` block.
fn service(id: &str, extra: &str) -> String {
    let update = if extra.contains("update {") { "" } else { "update {\n max_parallel = 0\n }" };
    format!(
        r#"job "{id}" {{
             group "g" {{
               {update}
               {extra}
               task "t" {{
                 driver = "raw_exec"
                 config {{
                   command = "/bin/sh"
                   args    = ["-c", "echo one; echo two; exec sleep 1000"]
                 }}
                 resources {{
                   cpu    = 10
                   memory = 10
                 }}
               }}
             }}
           }}"#
    )
}

#[test]
fn a_job_runs_logs_and_stops_and_nothing_is_left() {
    let mut dev = Dev::start(&[]);
    let file = dev.job_file(&service("web", ""));
    dev.stdout_of(&["job", "run", &file]);
    assert!(dev.stdout_of(&["job", "status"]).contains("running"));
    let alloc = dev.alloc_of("web");
    eventually("it logs", || dev.stdout_of(&["alloc", "logs", &alloc]) == "one\ntwo\n");
    assert_eq!(dev.stdout_of(&["alloc", "logs", "-n", "1", &alloc[..6]]), "two\n");
    assert!(dev.stdout_of(&["alloc", "status", &alloc]).contains("task t is running"));
    assert_eq!(dev.berth(&["job", "stop", "we"]).status.code(), Some(2), "nobody is there to be asked");
    dev.stdout_of(&["job", "stop", "web"]);
    assert!(dev.stdout_of(&["alloc", "status", &alloc]).contains("task t is dead"));
    dev.stdout_of(&["job", "run", &file]);
    assert_eq!(data_dirs(dev.home.path()), 1);
    assert!(dev.stop(), "it stops its tasks and ends well");
    assert_eq!(data_dirs(dev.home.path()), 0, "its data is gone");
}

#[test]
fn a_task_gets_the_devices_and_cores_that_it_asks_for() {
    let mut dev = Dev::start(&[
        "--devices",
        "nvidia/gpu/T4=GPU-a,nvidia/gpu/T4=GPU-b,\
         acme/fpga/A1=f0;file=/dev/zero;memory=8 GiB,acme/fpga/A2=f1;memory=2 GiB",
    ]);
    let asking = |id: &str, resources: &str| {
        let message = "grep -c Cpus_allowed_list:.$NOMAD_CPU_CORES$ /proc/self/status; \
                    echo $BERTH_DEVICE_IDS $BERTH_DEVICE_FILES $NVIDIA_VISIBLE_DEVICES $NOMAD_CPU_CORES; \
                    exec sleep 1000";
        let source = service(id, "").replace("echo one; echo two; exec sleep 1000", message);
        dev.job_file(&source.replace("cpu    = 10", resources))
    };
    let whole = asking("whole", "cores = 1\n device \"nvidia/gpu\" {}");
    dev.stdout_of(&["job", "run", &whole]);
    let alloc = dev.alloc_of("whole");
    eventually("it tells its devices", || {
        dev.stdout_of(&["alloc", "logs", &alloc]) == "1\nnvidia/gpu/T4=GPU-a GPU-a 0\n"
    });
    let shared = asking("shared", "cpu = 10\n device \"gpu\" {\n share = 250\n }");
    dev.stdout_of(&["job", "run", &shared]);
    let alloc = dev.alloc_of("shared");
    eventually("it tells its share", || {
        dev.stdout_of(&["alloc", "logs", &alloc]) == "0\nnvidia/gpu/T4=GPU-b:250 GPU-b\n"
    });
    let memory = "attribute = \"${device.attr.memory}\"\n operator = \">=\"\n value = \"4 GiB\"";
    let large = format!("cpu = 10\n device \"acme/fpga\" {{\n constraint {{\n {memory}\n }}\n }}");
    dev.stdout_of(&["job", "run", &asking("large", &large)]);
    let alloc = dev.alloc_of("large");
    eventually("it tells its device and the file of it", || {
        dev.stdout_of(&["alloc", "logs", &alloc]) == "0\nacme/fpga/A1=f0 /dev/zero\n"
    });
    let refused = dev.berth(&["job", "run", &asking("much", "cpu = 10\n device \"gpu\" {}")]);
    assert_eq!(refused.status.code(), Some(8), "{}", String::from_utf8_lossy(&refused.stderr));
    assert!(dev.stop());
}

#[test]
fn exit_codes_tell_what_went_wrong() {
    let mut dev = Dev::start(&[]);
    let nowhere = r#"constraint {
        attribute = "${attr.kernel.name}"
        value     = "plan9"
    }"#;
    let unplaced = dev.berth(&["job", "run", &dev.job_file(&service("nowhere", nowhere))]);
    let message = String::from_utf8_lossy(&unplaced.stderr);
    assert_eq!(unplaced.status.code(), Some(8), "{message}");
    assert!(message.contains("1 node is excluded by filters") && message.contains("= plan9"), "{message}");
    let never = service("never", "restart {\n attempts = 0\n }").replace("/bin/sh", "/does/not/exist");
    let failed = dev.berth(&["job", "run", &dev.job_file(&never)]);
    assert_eq!(failed.status.code(), Some(1), "{}", String::from_utf8_lossy(&failed.stderr));
    let file = dev.job_file(&service("web", ""));
    assert_eq!(dev.berth(&["job", "run", "-check-index", "7", &file]).status.code(), Some(6));
    assert_eq!(dev.berth(&["job", "status", "web"]).status.code(), Some(3));
    assert_eq!(dev.berth(&["alloc", "status", "ffffffff"]).status.code(), Some(3));
    assert!(dev.stop());
}

#[test]
fn with_a_data_directory_tasks_outlive_it() {
    let data = TempDir::new().expect("a directory");
    let data_dir = data.path().join("data");
    let args = ["--data-dir", data_dir.to_str().expect("it is text")];
    let mut dev = Dev::start(&args);
    dev.stdout_of(&["job", "run", &dev.job_file(&service("web", ""))]);
    let alloc = dev.alloc_of("web");
    assert!(dev.stop());
    let mut dev = Dev::start(&args);
    assert_eq!(dev.alloc_of("web"), alloc);
    eventually("the task is taken up", || {
        dev.stdout_of(&["alloc", "status", &alloc]).contains("task t is running")
    });
    assert!(!dev.stdout_of(&["alloc", "status", &alloc]).contains("restarted"));
    dev.stdout_of(&["job", "stop", "web"]);
    assert!(dev.stop());
}

#[test]
fn what_one_that_was_killed_left_is_ended_by_the_next() {
    let mut killed = Dev::start(&[]);
    let pid_file = killed.home.path().join("pid");
    let says_its_pid = format!("echo $$ > {};", pid_file.display());
    let job = service("left", "").replace("echo one; echo two;", &says_its_pid);
    killed.stdout_of(&["job", "run", "-detach", &killed.job_file(&job)]);
    let read_pid = || std::fs::read_to_string(&pid_file).ok()?.trim().parse::<i32>().ok();
    eventually("the task runs", || read_pid().is_some());
    let task = PathBuf::from(format!("/proc/{}", read_pid().expect("a pid")));
    killed.process.kill().expect("it lives");
    killed.process.wait().expect("it ends");
    assert!(task.exists() && data_dirs(killed.home.path()) == 1);
    let home = std::mem::replace(&mut killed.home, TempDir::new().expect("a directory"));
    let mut next = Dev::start_below(home, &[]);
    assert!(!task.exists(), "the task lives on");
    assert_eq!(data_dirs(next.home.path()), 1);
    assert!(next.stop());
    assert_eq!(data_dirs(next.home.path()), 0);
}

#[test]
fn two_run_side_by_side_with_simulated_nodes() {
    let (mut one, mut other) = (Dev::start(&["--sim-nodes", "20"]), Dev::start(&[]));
    eventually("the simulated nodes come", || {
        one.stdout_of(&["node", "status"]).matches(" ready ").count() == 21
    });
    assert_eq!(other.stdout_of(&["node", "status"]).matches(" ready ").count(), 1);
    assert!(one.stop() && other.stop());
}

#[test]
fn a_watch_prints_again_when_something_has_changed() {
    let mut dev = Dev::start(&[]);
    let mut watch = Command::new(BERTH)
        .args(["job", "status", "-watch", "-o", "json"])
        .env("BERTH_ADDR", &dev.address)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut states = BufReader::new(watch.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    assert_eq!(states.next().as_deref(), Some("[]"));
    // It starts long after it was placed, when nothing changes but how many run.
    let slow = r#"driver = "mock_driver"
                 config {
                   start_block_for = "2s"
                   run_for         = "1h""#;
    let (command, args) =
        (r#"command = "/bin/sh""#, r#"args    = ["-c", "echo one; echo two; exec sleep 1000"]"#);
    let raw_exec = r#"driver = "raw_exec"
                 config {"#;
    let source = service("web", "").replace(raw_exec, slow).replace(command, "").replace(args, "");
    dev.stdout_of(&["job", "run", "-detach", &dev.job_file(&source)]);
    let is_running = |state: String| state.contains(r#""Running":1"#);
    assert!(states.any(is_running), "it ends without having seen the job run");
    watch.kill().and_then(|()| watch.wait()).expect("it is ours");
    dev.stdout_of(&["job", "stop", "web"]);
    assert!(dev.stop());
}

#[test]
fn a_task_that_is_waited_for_ends_the_command_as_it_ends() {
    let mut dev = Dev::start(&[]);
    let waited = dev.berth(&["run", "-exec", "-wait", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(waited.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&waited.stdout), "out\n");
    assert_eq!(String::from_utf8_lossy(&waited.stderr), "err\n");
    let absent = dev.berth(&["run", "-exec", "-wait", "/does/not/exist"]);
    assert_eq!(absent.status.code(), Some(1));
    let message = String::from_utf8_lossy(&absent.stderr).into_owned();
    assert!(message.contains("/does/not/exist") && message.contains("help: berth alloc status"), "{message}");
    // Who ended it, when it did not end by itself, is said.
    let killed = dev.berth(&["run", "-exec", "-wait", "sh", "-c", "echo out; kill -9 $$"]);
    assert_eq!((killed.status.code(), killed.stdout.as_slice()), (Some(137), &b"out\n"[..]));
    let message = String::from_utf8_lossy(&killed.stderr).into_owned();
    assert!(message.contains("is failed: main: Terminated") && message.contains("ignal: 9"), "{message}");
    assert!(dev.stop());
}

#[test]
fn people_reach_into_a_task_that_runs() {
    let dev = Dev::start(&[]);
    let script = "trap 'echo hup' HUP; echo begun; while :; do sleep 0.05; done";
    let source = service("web", "").replace("echo one; echo two; exec sleep 1000", script);
    dev.stdout_of(&["job", "run", &dev.job_file(&source)]);
    let alloc = dev.alloc_of("web");
    assert_eq!(
        dev.stdout_of(&["exec", "web", "sh", "-c", "echo $NOMAD_JOB_NAME; pwd"]).lines().next(),
        Some("web")
    );
    let exited = dev.berth(&["alloc", "exec", "-task", "t", &alloc, "sh", "-c", "echo oops >&2; exit 7"]);
    assert_eq!((exited.status.code(), exited.stderr.as_slice()), (Some(7), &b"oops\n"[..]));
    let mut cat = Command::new(BERTH)
        .args(["exec", "-i", &alloc[..6], "cat"])
        .env("BERTH_ADDR", &dev.address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    // More than all windows and pipes hold together.
    let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at / 7) as u8).collect();
    let (mut stdin, typed) = (cat.stdin.take().expect("it is piped"), sent.clone());
    let typing = std::thread::spawn(move || stdin.write_all(&typed));
    let read = cat.wait_with_output().expect("it ends");
    typing.join().expect("no panic").expect("all is taken");
    assert!(read.status.success() && read.stdout == sent, "{} bytes came back", read.stdout.len());

    dev.stdout_of(&["alloc", "signal", "-s", "SIGHUP", &alloc]);
    eventually("the signal is seen", || dev.stdout_of(&["alloc", "logs", &alloc]).contains("hup"));
    assert!(dev.stdout_of(&["alloc", "stats", &alloc]).contains(" MiB"));
    assert!(dev.stdout_of(&["node", "stats", &dev.node()]).contains("cpu0"));
    dev.stdout_of(&["alloc", "restart", &alloc, "t"]);
    eventually("it has restarted", || {
        let status = dev.stdout_of(&["alloc", "status", &alloc]);
        status.contains("restarted once") && status.contains("task t is running")
    });
    assert_eq!(dev.berth(&["alloc", "restart", &alloc, "nope"]).status.code(), Some(3));
    let refused = dev.berth(&["alloc", "signal", "-s", "SIGNO", &alloc]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("known are SIGHUP, "), "{refused:?}");
}

/// Its first start is no success: whoever runs a job wants to know whether it stays up.
#[test]
fn a_service_that_ends_at_once_is_not_reported_as_running() {
    let mut dev = Dev::start(&[]);
    let failing =
        service("web", "restart {\n attempts = 0\n }").replace("exec sleep 1000", "sleep 0.3; exit 3");
    let output = dev.berth(&["job", "run", &dev.job_file(&failing)]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("failed: web.") && message.contains("Exit Code: 3"), "{message}");
    assert!(dev.stop());
}

#[test]
fn a_service_whose_task_is_started_again_and_again_is_not_followed_without_end() {
    let mut dev = Dev::start(&[]);
    let patient = "restart {\n attempts = 1000\n delay = \"1s\"\n interval = \"1h\"\n }";
    let failing = service("web", patient).replace("exec sleep 1000", "exit 3");
    let output = dev.berth(&["job", "run", &dev.job_file(&failing)]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(
        message.contains("fail again and again: web.g[0]") && message.contains("Exit Code: 3"),
        "{message}"
    );
    assert!(dev.stop());
}

#[test]
fn a_job_that_waits_for_its_reschedule_says_so_and_is_stopped_at_once() {
    let mut dev = Dev::start(&[]);
    let failing = service("web", "restart {\n attempts = 0\n }").replace("exec sleep 1000", "exit 3");
    dev.berth(&["job", "run", &dev.job_file(&failing)]);
    eventually("it says until when it waits", || {
        dev.stdout_of(&["explain", "web"]).contains("failed allocations are replaced from")
    });
    dev.stdout_of(&["job", "stop", "web"]);
    eventually("it is dead", || dev.stdout_of(&["job", "status", "web"]).contains("dead (stopped)"));
    assert!(dev.stop());
}

/// Whoever types one line is told why it cannot work, and nothing of it is left.
#[test]
fn three_servers_are_started_by_one_command_and_each_answers() {
    let mut dev = Dev::start(&["--servers", "3"]);
    let members = || -> Vec<serde_json::Value> {
        serde_json::from_str(&dev.stdout_of(&["server", "members", "-o", "json"])).expect("JSON")
    };
    let votes = |member: &serde_json::Value| member["Status"] == "alive" && member["Tags"]["voter"] == "true";
    eventually("three servers vote", || members().len() == 3 && members().iter().all(votes));
    dev.stdout_of(&["job", "run", &dev.job_file(&service("web", ""))]);
    let before = members();
    let name = |member: &serde_json::Value| member["Name"].as_str().expect("a name").to_owned();
    let next = before.iter().find(|member| member["Leader"] == false).expect("two follow");
    dev.stdout_of(&["server", "transfer", &name(next)]);
    eventually("another leads", || {
        members().iter().any(|member| member["Leader"] == true && name(member) == name(next))
    });
    for member in members() {
        let http = member["Tags"]["http_addr"].as_str().expect("an address").to_owned();
        let asked = dev.stdout_of(&["--address", &format!("http://{http}"), "job", "status", "web"]);
        assert!(asked.contains("running"), "through {http}: {asked}");
    }
    assert!(dev.stop(), "all of it ends well");
    assert_eq!(data_dirs(dev.home.path()), 0, "its data is gone");
}
