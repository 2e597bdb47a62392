//! Allocations with a limit of run time, with a real agent.

mod e2e;

use e2e::cluster::Cluster;
use serde_json::Value;

#[tokio::test]
async fn what_runs_for_too_long_is_ended_says_so_and_has_failed() {
    let cluster = Cluster::dev(&[]);
    let file = cluster.job_file(
        r#"job "slow" {
  type = "batch"
  group "g" {
    max_run_duration = "2s"
    reschedule {
      attempts = 0
    }
    task "t" {
      driver       = "raw_exec"
      kill_timeout = "5s"
      config {
        command = "/bin/sh"
        args    = ["-c", "trap 'echo told to end; exit 0' TERM INT; while :; do sleep 0.1; done"]
      }
    }
  }
}
"#,
    );
    let run = cluster.berth(&["job", "run", "-detach", &file]);
    let message = String::from_utf8_lossy(&run.stderr);
    assert!(!message.contains("max_run_duration"), "it is acted upon: {message}");
    e2e::eventually("it has failed", async || {
        let allocs = cluster.allocs("default", "slow").await;
        allocs.first().is_some_and(|alloc| alloc["ClientStatus"] == "failed").then_some(())
    })
    .await;
    let allocs = cluster.allocs("default", "slow").await;
    let events: &Value = &allocs[0]["TaskStates"]["t"]["Events"];
    assert!(events.to_string().contains("has run for its max_run_duration, 2s"), "{events}");
    let id = allocs[0]["ID"].as_str().expect("an id");
    assert!(cluster.stdout_of(&["alloc", "logs", id]).contains("told to end"));
}
