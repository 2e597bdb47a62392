//! An agent is replaced by another copy of the program while its tasks run, gracefully and by force: tasks do not notice.

mod e2e;

use std::{
    fs,
    path::{Path, PathBuf},
};

use berth_api::http::Target;
use e2e::{
    busybox::busybox_images,
    dev::{Dev, task},
    eventually,
};
use serde_json::{Value, json};

/// Prints numbers in their order until it is asked to end, and says how it ends.
const COUNT: &str =
    "trap 'echo bye; exit 3' TERM INT; n=0; while :; do n=$((n + 1)); echo $n; sleep 0.1; done";

/// One copy of the program after the other: each is gone once the next one is there.
struct Copies {
    dir: tempfile::TempDir,
    number: usize,
}

impl Copies {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a directory"), number: 0 }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(self.number.to_string()).join("berth")
    }

    fn next(&mut self) -> PathBuf {
        let _ = fs::remove_file(self.path());
        self.number += 1;
        fs::create_dir(self.path().parent().expect("a directory")).expect("made");
        fs::copy(env!("CARGO_BIN_EXE_berth"), self.path()).expect("copied");
        self.path()
    }
}

/// What runs, as it must be after each change of the agent.
struct Counting {
    job: &'static str,
    alloc: String,
    /// The first line of its log that was not seen.
    next: u64,
}

impl Counting {
    /// It has printed more, all of it once, and was never started again.
    async fn goes_on(&mut self, dev: &Dev) {
        let Self { job, alloc, next } = self;
        assert_eq!(dev.allocs(job, 1, "running").await, std::slice::from_ref(alloc));
        let wanted = *next + 5;
        let numbers = eventually("it prints on", async || {
            let text = dev.berth(&["alloc", "logs", alloc]).stdout;
            let numbers: Vec<u64> =
                String::from_utf8_lossy(&text).lines().map(|line| line.parse().expect("a number")).collect();
            (numbers.len() as u64 >= wanted).then_some(numbers)
        })
        .await;
        *next = numbers.len() as u64;
        assert_eq!(numbers, (1..=*next).collect::<Vec<_>>(), "{job}");
        let text = dev.stdout_of(&["alloc", "exec", alloc, "/bin/sh", "-c", "echo $NOMAD_JOB_ID"]);
        assert_eq!(text.trim_end(), *job);
        let state = state(dev, alloc).await;
        assert_eq!((&state["State"], &state["Restarts"]), (&json!("running"), &json!(0)), "{state}");
    }

    async fn ends(&self, dev: &Dev) {
        let Self { job, alloc, .. } = self;
        dev.stdout_of(&["job", "stop", "-yes", job]);
        let state = eventually("it has ended", async || {
            let state = state(dev, alloc).await;
            (state["State"] == "dead").then_some(state)
        })
        .await;
        assert_eq!(ends(&state), [3], "{job}: {state}");
        assert!(dev.stdout_of(&["alloc", "logs", alloc]).ends_with("bye\n"), "{job}");
    }
}

/// Of the task `t`.
async fn state(dev: &Dev, alloc: &str) -> Value {
    let target = Target::new("/v1/allocation").part(alloc);
    dev.client().get::<Value>(&target).await.expect("it is known").value["TaskStates"]["t"].take()
}

/// Its exit codes.
fn ends(state: &Value) -> Vec<i64> {
    let events = state["Events"].as_array().expect("events");
    let ends = events.iter().filter(|event| event["Type"] == "Terminated");
    ends.map(|event| event["ExitCode"].as_i64().expect("a code")).collect()
}

fn job(id: &str, kind: &str, task: Value) -> Value {
    let group = json!({
        "Name": "g", "Tasks": [task],
        "RestartPolicy": {"Attempts": 0, "Mode": "fail"}, "ReschedulePolicy": {"Attempts": 0},
    });
    json!({"ID": id, "Name": id, "Type": kind, "TaskGroups": [group]})
}

/// It ends with a code once a file is there.
fn waits(file: &Path, code: i32) -> String {
    format!("while [ ! -e {} ]; do sleep 0.05; done; exit {code}", file.display())
}

#[tokio::test]
async fn tasks_run_on_while_their_agent_is_replaced() {
    let images = busybox_images();
    let dir = images.as_ref().map_or_else(String::new, |dir| dir.path().display().to_string());
    let mut copies = Copies::new();
    let containers = if images.is_some() { &["--image-dirs", &dir][..] } else { &["--containers=false"] };
    let mut dev = Dev::apart_from(&copies.next(), containers);
    let in_image = json!({"image": format!("{dir}/busybox"), "command": "/bin/sh",
                          "args": ["-c", format!("/bin/busybox --install -s /bin; {COUNT}")]});
    let resources = json!({"CPU": 1, "MemoryMB": 32});
    let own = |driver: &str, config: Value| json!({"Name": "t", "Driver": driver, "Config": config, "Resources": resources});
    let mut tasks = vec![("process", task("t", COUNT))];
    if images.is_some() {
        tasks.push(("container", own("container", in_image)));
        tasks.push(("caged", own("exec", json!({"command": "/bin/sh", "args": ["-c", COUNT]}))));
    }
    let mut counting = Vec::new();
    for (id, task) in tasks {
        dev.register(&job(id, "service", task)).await;
        let alloc = dev.allocs(id, 1, "running").await.remove(0);
        counting.push(Counting { job: id, alloc, next: 0 });
    }
    for counting in &mut counting {
        counting.goes_on(&dev).await;
    }
    for (round, by_force) in [true, false, true, false].into_iter().enumerate() {
        // One ends while there is no agent.
        let (id, code) = (format!("ends-{round}"), 40 + i32::try_from(round).expect("few"));
        let go = dev.home.path().join(&id);
        dev.register(&job(&id, "batch", task("t", &waits(&go, code)))).await;
        let ending = dev.allocs(&id, 1, "running").await.remove(0);
        let program = copies.next();
        if by_force {
            dev.kill_agent()
        } else {
            dev.stop_agent()
        }
        fs::write(go, "").expect("written");
        dev.start_agent_of(&program);
        for counting in &mut counting {
            counting.goes_on(&dev).await;
        }
        let state = eventually("its end is known", async || {
            let state = state(&dev, &ending).await;
            (state["State"] == "dead").then_some(state)
        })
        .await;
        assert_eq!(ends(&state), [i64::from(code)], "{state}");
    }
    for counting in &counting {
        counting.ends(&dev).await;
    }
}
