//! Versions of a job with a real agent: tagged, compared, reverted to, stopped and started again, and restarted in batches.

mod e2e;

use std::{process::Stdio, time::Duration};

use e2e::{berth, cluster::Cluster, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A service of three that says which version it is.
fn web(says: &str) -> String {
    format!(
        r#"job "web" {{
  group "g" {{
    count = 3
    update {{
      min_healthy_time  = "100ms"
      healthy_deadline  = "50s"
      progress_deadline = "55s"
      max_parallel      = 3
    }}
    task "t" {{
      driver       = "raw_exec"
      kill_timeout = "0s"
      config {{
        command = "/bin/sh"
        args    = ["-c", "echo {says}; sleep 300"]
      }}
    }}
  }}
}}
"#
    )
}

fn versions(cluster: &Cluster) -> Vec<Value> {
    let message = cluster.stdout_of(&["job", "history", "-o", "json", "web"]);
    serde_json::from_str::<Value>(&message).expect("JSON").as_array().expect("versions").clone()
}

/// How often the tasks of each running allocation have started, by the allocation's name.
async fn starts(cluster: &Cluster) -> Vec<(String, usize)> {
    let allocs = cluster.allocs("default", "web").await;
    let mut starts: Vec<_> = allocs
        .iter()
        .filter(|alloc| alloc["ClientStatus"] == "running")
        .map(|alloc| {
            let events = alloc["TaskStates"]["t"]["Events"].as_array().cloned().unwrap_or_default();
            let count = events.iter().filter(|event| event["Type"] == "Started").count();
            (alloc["Name"].as_str().expect("a name").to_owned(), count)
        })
        .collect();
    starts.sort();
    starts
}

#[tokio::test]
async fn a_version_with_a_tag_is_kept_compared_with_and_gone_back_to() {
    let cluster = Cluster::dev(&[]);
    let (one, two) = (web("one"), web("two"));
    cluster.stdout_of(&["job", "run", &cluster.job_file(&one)]);
    let stable = &versions(&cluster)[0]["Stable"];
    assert_eq!(*stable, true, "its deployment was successful");
    cluster.stdout_of(&["job", "tag", "apply", "-name", "first", "-description", "it began with it", "web"]);
    cluster.stdout_of(&["job", "run", &cluster.job_file(&two)]);
    let history = cluster.stdout_of(&["job", "history", "web"]);
    assert!(history.contains("first") && history.contains("yes"), "{history}");
    let diff = cluster.stdout_of(&["job", "history", "-diff-tag", "first", "-version", "1", "web"]);
    assert!(diff.contains("echo one") && diff.contains("echo two"), "{diff}");
    let twice = cluster.berth(&["job", "tag", "apply", "-name", "first", "web"]);
    assert_eq!(twice.status.code(), Some(6), "{twice:?}");

    let unknown = cluster.berth(&["job", "revert", "web", "last"]);
    assert_eq!(unknown.status.code(), Some(3), "{unknown:?}");
    assert_eq!(
        cluster.stdout_of(&["job", "inspect", "-hcl", "web"]),
        two,
        "what it was made of, to the letter"
    );
    assert_eq!(cluster.stdout_of(&["job", "inspect", "-hcl", "-version", "0", "web"]), one);
    cluster.stdout_of(&["job", "revert", "web", "first"]);
    assert_eq!(
        cluster.stdout_of(&["job", "inspect", "-hcl", "web"]),
        one,
        "what is gone back to was written down, too"
    );
    let back = &versions(&cluster)[0];
    assert_eq!(back["Version"], 2);
    assert!(back["TaskGroups"].to_string().contains("echo one"), "{back}");
    cluster.stdout_of(&["job", "tag", "unset", "-name", "first", "web"]);
    assert!(versions(&cluster).iter().all(|version| version["VersionTag"].is_null()));

    let running = cluster.berth(&["job", "start", "web"]);
    let message = String::from_utf8_lossy(&running.stderr).into_owned();
    assert!(!running.status.success() && message.contains("is not stopped"), "{message}");
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
    assert_eq!(cluster.running("default", "web").await, 0);
    let refused = cluster.berth(&["job", "restart", "-yes", "web"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("berth job start web"), "{message}");
    cluster.stdout_of(&["job", "start", "web"]);
    assert_eq!(cluster.running("default", "web").await, 3);
    assert!(versions(&cluster)[0]["TaskGroups"].to_string().contains("echo one"));
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}

#[tokio::test]
async fn values_of_the_environment_are_kept_with_the_version() {
    let cluster = Cluster::dev(&[]);
    let job = r#"variable "for" {}
variable "unset" { default = "" }
job "var" {
  group "g" {
    count = 0
    task "t" {
      driver = "mock_driver"
      config { run_for = var.for }
    }
  }
}"#;
    let mut run = berth(&["job", "run", "-detach", &cluster.job_file(job)]);
    run.env("BERTH_ADDR", cluster.address()).env("NOMAD_VAR_for", "61s").env("NOMAD_VAR_other", "hidden");
    let run = run.output().expect("it runs");
    assert!(run.status.success(), "{run:?}");
    let inspected = cluster.berth(&["job", "inspect", "-hcl", "-with-vars", "var"]);
    assert_eq!(String::from_utf8_lossy(&inspected.stderr), "-var for=61s\n", "{inspected:?}");
}

#[tokio::test]
async fn a_job_restarts_in_batches_and_an_interrupt_leaves_the_rest_alone() {
    let cluster = Cluster::dev(&[]);
    cluster.stdout_of(&["job", "run", &cluster.job_file(&web("one"))]);
    let before = starts(&cluster).await;
    assert_eq!(before.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [1, 1, 1]);
    let restarted = cluster.berth(&["job", "restart", "-yes", "-batch-size", "50%", "web"]);
    let message = String::from_utf8_lossy(&restarted.stderr).into_owned();
    assert!(restarted.status.success(), "{message}");
    for text in
        ["batch 1 of 2: 2 allocations", "batch 2 of 2: 1 allocation", "3 allocations of job web restarted"]
    {
        assert!(message.contains(text), "{text:?} is missing in {message}");
    }
    let after = starts(&cluster).await;
    assert_eq!(after.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [2, 2, 2], "{message}");

    let mut restart = berth(&["job", "restart", "-yes", "-batch-wait", "10m", "web"]);
    let restart =
        restart.env("BERTH_ADDR", cluster.address()).stderr(Stdio::piped()).spawn().expect("it runs");
    let one_more = async || {
        let counts: Vec<usize> = starts(&cluster).await.into_iter().map(|(_, count)| count).collect();
        (counts.len() == 3 && counts.iter().sum::<usize>() == 7).then_some(())
    };
    eventually("the first batch has restarted", one_more).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    kill_process(Pid::from_child(&restart), Signal::INT).expect("it is interrupted");
    let ended = restart.wait_with_output().expect("it ends");
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{message}");
    assert!(message.contains("interrupted") && message.contains("2 left as they were"), "{message}");
    one_more().await.expect("the rest is as it was");

    let ids = |allocs: Vec<Value>| -> Vec<String> {
        let runs = allocs.into_iter().filter(|alloc| alloc["ClientStatus"] == "running");
        runs.map(|alloc| alloc["ID"].to_string()).collect()
    };
    let old = ids(cluster.allocs("default", "web").await);
    cluster.stdout_of(&["job", "restart", "-yes", "-reschedule", "-batch-size", "3", "web"]);
    let new = ids(cluster.allocs("default", "web").await);
    assert_eq!(new.len(), 3);
    assert!(new.iter().all(|id| !old.contains(id)), "{old:?} {new:?}");
    for wrong in [&["-group", "h"][..], &["-task", "u"]] {
        let refused = cluster.berth(&[&["job", "restart", "-yes"], wrong, &["web"]].concat());
        assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    }
    cluster.stdout_of(&["job", "stop", "-yes", "web"]);
}

/// A batch job that prints this.
fn sum(says: &str) -> String {
    format!(
        r#"job "sum" {{
  type = "batch"
  group "g" {{
    task "t" {{
      driver = "raw_exec"
      config {{
        command = "/bin/sh"
        args    = ["-c", "echo {says}"]
      }}
    }}
  }}
}}
"#
    )
}

#[tokio::test]
async fn a_batch_job_is_followed_to_its_end_whatever_changes_it() {
    let cluster = Cluster::dev(&[]);
    cluster.stdout_of(&["job", "run", &cluster.job_file(&sum("one"))]);
    cluster.stdout_of(&["job", "run", &cluster.job_file(&sum("two"))]);
    let changes: [&[&str]; 5] = [
        &["job", "scale", "sum", "2"],
        &["job", "revert", "sum", "0"],
        // These change nothing that runs.
        &["job", "scale", "sum", "1"],
        &["job", "eval", "sum"],
        &["job", "scale", "sum", "0"],
    ];
    for change in changes {
        let done = cluster.berth(change);
        let message = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success() && message.contains("job sum is complete"), "{change:?}: {message}");
    }
}

#[tokio::test]
async fn a_batch_job_that_is_rescheduled_without_end_is_followed_until_three_more_have_failed() {
    let cluster = Cluster::dev(&[]);
    let endless = r#"type = "batch"
  reschedule {
    unlimited      = true
    delay          = "5s"
    delay_function = "constant"
  }
  group "g" {
    restart {
      attempts = 0
      mode     = "fail"
    }"#;
    let file = sum("no; exit 9").replacen("type = \"batch\"\n  group \"g\" {", endless, 1);
    let run = cluster.berth(&["job", "run", &cluster.job_file(&file)]);
    let message = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(1), "{message}");
    assert!(
        message.contains("fail again and again: sum.g[0]") && message.contains("Exit Code: 9"),
        "{message}"
    );
    assert!(message.contains("berth job stop sum"), "{message}");
    let allocs = cluster.allocs("default", "sum").await;
    let failed = allocs.iter().filter(|alloc| alloc["ClientStatus"] == "failed").count();
    assert!(failed >= 4, "the first and three in its place: {allocs:?}");
    cluster.stdout_of(&["job", "stop", "-yes", "sum"]);
}
