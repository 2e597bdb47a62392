//! Prestart, poststart and poststop tasks, and sidecars, with a real server and a real agent.

mod e2e;

use e2e::{cluster::Cluster, eventually};

/// A task that writes its name when it begins, and once more when it ends by itself.
fn task(name: &str, hook: &str, script: &str) -> String {
    format!(
        r#"    task "{name}" {{
      driver = "raw_exec"
      kill_timeout = "1s"
      {hook}
      config {{
        command = "/bin/sh"
        args    = ["-c", "echo {name} >> $NOMAD_ALLOC_DIR/data/order; {script}; echo {name} ends >> $NOMAD_ALLOC_DIR/data/order"]
      }}
      resources {{
        cpu    = 10
        memory = 10
      }}
    }}
"#
    )
}

/// With one task of each kind, declared in an order in which none can run.
fn job(id: &str, kind: &str, main: &str) -> String {
    let hook =
        |name: &str, sidecar: bool| format!("lifecycle {{\nhook = \"{name}\"\nsidecar = {sidecar}\n}}");
    let tasks = [
        task("bye", &hook("poststop", false), "sleep 0.2"),
        task("hello", &hook("poststart", false), "true"),
        task("main", "", main),
        task("proxy", &hook("prestart", true), "while :; do sleep 0.1; done"),
        task("init", &hook("prestart", false), "sleep 0.2"),
    ];
    let restart =
        "restart {\nattempts = 0\nmode = \"fail\"\n}\nreschedule {\nattempts = 0\nunlimited = false\n}";
    format!("job \"{id}\" {{\ntype = \"{kind}\"\ngroup \"g\" {{\n{restart}\n{}}}\n}}\n", tasks.concat())
}

/// The lines of one task among what all of them wrote.
async fn order(cluster: &Cluster, id: &str) -> Vec<String> {
    let alloc = cluster.allocs("default", id).await[0]["ID"].as_str().expect("an id").to_owned();
    let text = cluster.stdout_of(&["alloc", "fs", &alloc, "alloc/data/order"]);
    text.lines().filter(|line| *line != "proxy").map(str::to_owned).collect()
}

#[tokio::test]
async fn tasks_run_in_the_order_of_their_hooks() {
    let cluster = Cluster::dev(&[]);
    let file = cluster.job_file(&job("done", "batch", "sleep 0.5"));
    let run = cluster.berth(&["job", "run", &file]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let all = ["init", "init ends", "main", "hello", "hello ends", "main ends", "bye", "bye ends"];
    assert_eq!(order(&cluster, "done").await, all);

    // One that is stopped cleans up after itself, and so does one that has failed before its main task could run.
    cluster.stdout_of(&[
        "job",
        "run",
        "-detach",
        &cluster.job_file(&job("stopped", "service", "sleep 1000")),
    ]);
    eventually("the main task has been followed", async || {
        let allocs = cluster.allocs("default", "stopped").await;
        let hello = allocs.first().map(|alloc| alloc["TaskStates"]["hello"]["State"] == "dead");
        hello.unwrap_or(false).then_some(())
    })
    .await;
    // Those whose turn has not come have no log, and nothing is wrong with that.
    let logs = cluster.berth(&["logs", "stopped"]);
    assert_eq!((logs.status.code(), String::from_utf8_lossy(&logs.stderr)), (Some(0), "".into()));
    cluster.stdout_of(&["job", "stop", "-yes", "stopped"]);
    let all = ["init", "init ends", "main", "hello", "hello ends", "bye", "bye ends"];
    assert_eq!(order(&cluster, "stopped").await, all);

    let failing =
        job("failed", "batch", "true").replace("sleep 0.2; echo init ends", "exit 3; echo init ends");
    let run = cluster.berth(&["job", "run", &cluster.job_file(&failing)]);
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(order(&cluster, "failed").await, ["init", "bye", "bye ends"]);
    let alloc = &cluster.allocs("default", "failed").await[0];
    assert_eq!(
        (&alloc["ClientStatus"], &alloc["TaskStates"]["init"]["Failed"]),
        (&"failed".into(), &true.into())
    );
}

#[tokio::test]
async fn tasks_that_take_turns_share_their_room() {
    // 1,000 MiB have room for a turn of 900, and not for the 1,700 of all of them together.
    let cluster = Cluster::simulated(1, &["--shape", "cpu=4000,memory=1000,disk=10000"]).await;
    let task = |name: &str, lifecycle: &str, run_for: &str, memory: u32| {
        format!(
            "task \"{name}\" {{\n{lifecycle}\ndriver = \"mock_driver\"\nconfig {{\nrun_for = \"{run_for}\"\n}}\n\
             resources {{\ncpu = 10\nmemory = {memory}\n}}\n}}\n"
        )
    };
    let hook = |name: &str| format!("lifecycle {{\nhook = \"{name}\"\n}}");
    let job = |id: &str, tasks: &[String]| {
        format!("job \"{id}\" {{\ntype = \"batch\"\ngroup \"g\" {{\n{}}}\n}}\n", tasks.concat())
    };
    let turns = [
        task("init", &hook("prestart"), "100ms", 900),
        task("main", "", "100ms", 500),
        task("bye", &hook("poststop"), "100ms", 300),
    ];
    let run = cluster.berth(&["job", "run", &cluster.job_file(&job("turns", &turns))]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let at_once = [task("main", "", "100ms", 900), task("beside", "", "100ms", 500)];
    cluster.stdout_of(&["job", "run", "-detach", &cluster.job_file(&job("at-once", &at_once))]);
    cluster.blocked("default", "at-once").await;
}
