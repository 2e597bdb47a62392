//! Deployments with an allocation that does not become healthy in time, with a real agent: the message names what failed.

mod e2e;

use e2e::{cluster::Cluster, free_port};
use serde_json::Value;

/// A service that is healthy once something listens on a port, and has so long for it.
fn web(port: u16, script: &str) -> String {
    format!(
        r#"job "web" {{
  group "g" {{
    network {{
      port "http" {{
        static = {port}
      }}
    }}
    restart {{
      attempts = 20
      delay    = "100ms"
    }}
    update {{
      min_healthy_time  = "100ms"
      healthy_deadline  = "1500ms"
      progress_deadline = "0s"
    }}
    service {{
      name     = "web"
      provider = "nomad"
      port     = "http"
      check {{
        name     = "answers"
        type     = "tcp"
        interval = "1s"
        timeout  = "1s"
      }}
    }}
    task "t" {{
      driver       = "raw_exec"
      kill_timeout = "0s"
      config {{
        command = "/bin/sh"
        args    = ["-c", "{script}"]
      }}
      resources {{
        cpu    = 1
        memory = 10
      }}
    }}
  }}
}}
"#
    )
}

/// The newest deployment, with what it failed by.
fn newest(cluster: &Cluster) -> Value {
    let ids = cluster.stdout_of(&["deployment", "list", "-o", "name"]);
    let id = ids.lines().next().expect("one is listed");
    let output = cluster.stdout_of(&["deployment", "status", "-o", "json", id]);
    serde_json::from_str::<Value>(&output).expect("JSON")["Deployment"].clone()
}

#[tokio::test]
async fn what_is_not_healthy_in_time_is_named_with_its_last_event_and_its_last_words() {
    let cluster = Cluster::dev(&[]);
    let port = free_port();
    let run = |script: &str| {
        let (code, message) = cluster.refused(&["job", "run", &cluster.job_file(&web(port, script))]);
        assert_eq!(code, Some(1), "{message}");
        message
    };
    // It runs, and its check never passes.
    let message = run("echo listens nowhere >&2; echo so it goes; exec sleep 300");
    let alloc = cluster.allocs("default", "web").await[0]["ID"].as_str().expect("an id")[..8].to_owned();
    for part in [
        &*format!("allocation {alloc} of group g is unhealthy: "),
        "check \"answers\" of service web was not passing by the healthy_deadline of 1500ms",
        "the last lines of stderr of task t:\n  listens nowhere\n",
        "the last lines of stdout of task t:\n  so it goes\n",
    ] {
        assert!(message.contains(part), "{part:?} is missing in {message}");
    }
    let failed = newest(&cluster);
    let id = failed["ID"].as_str().expect("an id");
    assert_eq!(failed["Status"], "failed", "{failed}");
    let (_, message) = cluster.refused(&["deployment", "unblock", id]);
    assert!(message.contains("failed"), "{message}");
    let shown = cluster.stdout_of(&["deployment", "status", id]);
    assert!(shown.contains(&alloc) && shown.contains("listens nowhere"), "{shown}");

    // It ends again and again: its last event says how.
    let message = run("echo no configuration >&2; exit 7");
    for part in ["of group g is unhealthy: task t: Terminated: exit code 7", "no configuration"] {
        assert!(message.contains(part), "{part:?} is missing in {message}");
    }

    // A check has it restarted for the last time: what ended it is that check, and not its exit.
    let restarts = web(port, "exec sleep 300")
        .replace("attempts = 20", "attempts = 0")
        .replace(
            "timeout  = \"1s\"",
            "timeout  = \"1s\"\n        check_restart {\n          limit = 1\n        }",
        )
        .replace("\"1500ms\"", "\"60s\"");
    let (_, message) = cluster.refused(&["job", "run", &cluster.job_file(&restarts)]);
    let cause = "task t: Restart Signaled: healthcheck: check \"answers\" unhealthy; Not Restarting: ";
    assert!(message.contains(cause), "{cause:?} is missing in {message}");
    cluster.stdout_of(&["job", "stop", "-yes", "-purge", "web"]);
}
