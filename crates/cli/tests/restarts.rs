//! `berth job restart` with a real agent: what it does about allocations that stay unhealthy, what it asks between batches, and which
//! tasks it restarts.

mod e2e;

use e2e::{berth, cluster::Cluster, eventually, terminal::OnTerminal};
use rustix::process::{Pid, Signal, kill_process};

/// A service of three, of which none starts without a file, and all end without another.
struct Web {
    cluster: Cluster,
}

impl Web {
    /// Three of them run.
    fn start() -> Self {
        let web = Self { cluster: Cluster::dev(&[]) };
        let [lives, starts] = ["lives", "starts"].map(|name| web.cluster.path(name).display().to_string());
        web.let_start(true);
        std::fs::write(&lives, "").expect("it is written");
        let file = web.cluster.job_file(&format!(
            r#"job "web" {{
  group "g" {{
    count = 3
    restart {{
      attempts = 0
    }}
    reschedule {{
      attempts  = 0
      unlimited = false
    }}
    update {{
      max_parallel      = 3
      min_healthy_time  = "100ms"
      healthy_deadline  = "50s"
      progress_deadline = "55s"
    }}
    task "prepare" {{
      driver = "raw_exec"
      lifecycle {{
        hook = "prestart"
      }}
      config {{
        command = "/bin/true"
      }}
      resources {{
        cpu    = 1
        memory = 10
      }}
    }}
    task "t" {{
      driver       = "raw_exec"
      kill_timeout = "0s"
      config {{
        command = "/bin/sh"
        args    = ["-c", "[ -e {starts} ] || exit 3; while [ -e {lives} ]; do sleep 0.1; done"]
      }}
      resources {{
        cpu    = 1
        memory = 10
      }}
    }}
  }}
}}
"#
        ));
        web.cluster.stdout_of(&["job", "run", &file]);
        web
    }

    /// Whether its tasks may start from now on.
    fn let_start(&self, may: bool) {
        let path = self.cluster.path("starts");
        if may {
            std::fs::write(path, "").expect("it is written");
        } else {
            std::fs::remove_file(path).expect("it is there");
        }
    }

    /// How often a task has started, in each allocation that was ever placed; sorted.
    async fn starts(&self, task: &str) -> Vec<usize> {
        let count = |alloc: &serde_json::Value| {
            let events = alloc["TaskStates"][task]["Events"].as_array();
            events.map_or(0, |events| events.iter().filter(|event| event["Type"] == "Started").count())
        };
        let mut starts: Vec<usize> = self.cluster.allocs("default", "web").await.iter().map(count).collect();
        starts.sort_unstable();
        starts
    }

    /// Starts `job restart` with these arguments where somebody sits before it.
    fn restart_on_terminal(&self, args: &[&str]) -> OnTerminal {
        let mut command = berth(&[&["job", "restart", "-yes"], args, &["web"]].concat());
        command.env("BERTH_ADDR", self.cluster.address());
        OnTerminal::start(command)
    }
}

/// Each of these stands on the screen.
fn assert_shows(screen: &[String], parts: &[&str]) {
    for part in parts {
        assert!(screen.iter().any(|line| line.contains(part)), "{part:?} is missing in {screen:#?}");
    }
}

#[tokio::test]
async fn an_allocation_that_stays_unhealthy_ends_a_restart_and_the_rest_is_left_alone() {
    let web = Web::start();
    web.let_start(false);
    let (code, message) = web.cluster.refused(&["job", "restart", "-yes", "-on-error", "fail", "web"]);
    assert_eq!(code, Some(1), "{message}");
    for part in [
        "batch 1 of 3: 1 allocation",
        "it is failed: ",
        "error: 1 allocation did not become healthy again",
        "0 allocations of 3 restarted; 1 did not become healthy again; 2 left as they were",
        "berth job status web",
    ] {
        assert!(message.contains(part), "{part:?} is missing in {message}");
    }
    assert_eq!(web.cluster.running("default", "web").await, 2);
    assert_eq!(web.starts("t").await, [1, 1, 2]);

    // Where nobody can be asked, that is an end as well.
    let (code, message) = web.cluster.refused(&["job", "restart", "-yes", "-batch-size", "1", "web"]);
    assert!(code == Some(1) && message.contains("batch 1 of 2") && message.contains("1 left"), "{message}");
    assert_eq!(web.starts("t").await, [1, 2, 2]);
}

#[tokio::test]
async fn somebody_at_the_terminal_says_whether_to_go_on_after_an_error() {
    let web = Web::start();
    web.let_start(false);
    let mut restart = web.restart_on_terminal(&["-on-error", "ask"]);
    restart.until_written("go on all the same? [y/N]").await;
    web.let_start(true);
    restart.types("y");
    let (code, _, screen) = restart.ends();
    assert_eq!(code, Some(1), "one of them is not well: {screen:#?}");
    let left = "2 allocations of 3 restarted; 1 did not become healthy again; 0 left as they were";
    assert_shows(&screen, &["batch 3 of 3", "1 allocation did not become healthy again", left]);
    assert_eq!(web.starts("t").await, [2, 2, 2]);

    web.let_start(false);
    let mut restart = web.restart_on_terminal(&[]);
    restart.until_written("go on all the same? [y/N]").await;
    restart.types("");
    let (code, _, screen) = restart.ends();
    assert_eq!(code, Some(1), "{screen:#?}");
    assert_shows(&screen, &["batch 1 of 2", "1 left as they were"]);
    assert_eq!(web.cluster.running("default", "web").await, 1);
}

#[tokio::test]
async fn between_two_batches_somebody_is_asked_and_may_leave() {
    let web = Web::start();
    let (code, message) = web.cluster.refused(&["job", "restart", "-yes", "-batch-wait", "ask", "web"]);
    assert!(code == Some(2) && message.contains("cannot ask between two batches"), "{code:?}: {message}");
    assert_eq!(web.starts("t").await, [1, 1, 1], "nothing was begun that nobody can go on with");

    let mut restart = web.restart_on_terminal(&["-batch-wait", "ask"]);
    restart.until_written("go on with batch 2 of 3? [y/N]").await;
    assert_eq!(web.starts("t").await, [1, 1, 2]);
    restart.types("y");
    restart.until_written("go on with batch 3 of 3? [y/N]").await;
    assert_eq!(web.starts("t").await, [1, 2, 2]);
    restart.types("n");
    let (code, _, screen) = restart.ends();
    assert_eq!(code, Some(1), "{screen:#?}");
    assert_shows(&screen, &["the rest is left alone", "2 allocations of 3 restarted; 1 left as they were"]);
    assert_eq!(web.starts("t").await, [1, 2, 2]);

    // An interrupt is an answer, too.
    let restart = web.restart_on_terminal(&["-batch-wait", "ask", "-batch-size", "2"]);
    restart.until_written("go on with batch 2 of 2? [y/N]").await;
    kill_process(Pid::from_child(&restart.child), Signal::INT).expect("it runs");
    let (code, _, screen) = restart.ends();
    assert_eq!(code, Some(1), "{screen:#?}");
    assert_shows(&screen, &["interrupted", "2 allocations of 3 restarted; 1 left as they were"]);
    assert_eq!(web.cluster.running("default", "web").await, 3);
}

#[tokio::test]
async fn completed_tasks_start_again_where_all_are_restarted() {
    let web = Web::start();
    let restart = |more: &[&str]| {
        let args = [&["job", "restart", "-yes", "-batch-size", "100%"], more, &["web"]].concat();
        web.cluster.stdout_of(&args);
    };
    assert_eq!(web.starts("prepare").await, [1, 1, 1]);
    restart(&[]);
    assert_eq!((web.starts("prepare").await, web.starts("t").await), (vec![1; 3], vec![2; 3]));
    restart(&["-all-tasks"]);
    eventually("all tasks have started again", async || {
        (web.starts("prepare").await == [2, 2, 2] && web.starts("t").await == [3, 3, 3]).then_some(())
    })
    .await;
    let (code, message) = web.cluster.refused(&["job", "restart", "-yes", "-all-tasks", "-task", "t", "web"]);
    assert!(code == Some(2) && message.contains("-all-tasks"), "{code:?}: {message}");
}

/// A job of one, which fails at once, with the attributes of its `reschedule` block.
fn fails(cluster: &Cluster, id: &str, reschedule: &str) -> String {
    cluster.job_file(&format!(
        r#"job "{id}" {{
  group "g" {{
    restart {{
      attempts = 0
      mode     = "fail"
    }}
    reschedule {{
      {reschedule}
    }}
    update {{
      max_parallel = 0
    }}
    task "t" {{
      driver = "raw_exec"
      config {{
        command = "/bin/false"
      }}
      resources {{
        cpu    = 1
        memory = 10
      }}
    }}
  }}
}}
"#
    ))
}

#[tokio::test]
async fn what_failed_is_replaced_at_once_when_that_is_forced() {
    let cluster = Cluster::dev(&[]);
    let until_failed = async |id: &str, count: usize| {
        eventually("it to have failed", async || {
            let allocs = cluster.allocs("default", id).await;
            let failed = allocs.iter().filter(|alloc| alloc["ClientStatus"] == "failed").count();
            (allocs.len() == count && failed == count).then_some(())
        })
        .await;
    };
    let hour = "delay     = \"1h\"\n      max_delay = \"2h\"\n      unlimited = true";
    let spent = "attempts  = 1\n      interval  = \"24h\"\n      delay     = \"5s\"\n      unlimited = false";
    let never = "attempts  = 0\n      unlimited = false";
    for (id, reschedule) in [("hour", hour), ("never", never), ("spent", spent)] {
        cluster.stdout_of(&["job", "run", "-detach", &fails(&cluster, id, reschedule)]);
        until_failed(id, 1).await;
    }
    // The one attempt that it has.
    cluster.stdout_of(&["job", "eval", "-detach", "-force-reschedule", "spent"]);
    until_failed("spent", 2).await;
    cluster.stdout_of(&["job", "eval", "-detach", "spent"]);
    cluster.stdout_of(&["job", "eval", "-detach", "hour"]);
    cluster.stdout_of(&["job", "eval", "-detach", "-force-reschedule", "never"]);
    // Those that are not forced, or that no policy allows at all, are settled before these have failed again.
    cluster.stdout_of(&["job", "eval", "-detach", "-force-reschedule", "hour"]);
    until_failed("hour", 2).await;
    cluster.stdout_of(&["job", "eval", "-detach", "-force-reschedule", "spent"]);
    until_failed("spent", 3).await;
    for (id, count) in [("hour", 2), ("never", 1), ("spent", 3)] {
        assert_eq!(cluster.allocs("default", id).await.len(), count, "{id}");
    }
    let allocs = cluster.allocs("default", "hour").await;
    let of = |allocs: &[serde_json::Value], key: &str| {
        allocs.iter().any(|alloc| alloc[key].as_str().is_some_and(|id| !id.is_empty()))
    };
    assert!(of(&allocs, "PreviousAllocation") || of(&allocs, "NextAllocation"), "{allocs:#?}");
}
