//! Work that fails, as its owner sees it: with a real server and a real agent.

mod e2e;

use std::process::Output;

use berth_api::http::Target;
use e2e::{busybox::busybox_images, cluster::Cluster, eventually};
use serde_json::Value;

/// Batch work of two that ends at once with this exit code, and is tried so often.
fn batch(id: &str, exit_code: i32, attempts: u32) -> String {
    format!(
        r#"job "{id}" {{
  type = "batch"
  group "g" {{
    count = 2
    restart {{
      attempts = 0
    }}
    reschedule {{
      attempts  = {attempts}
      interval  = "1h"
      delay     = "5s"
      unlimited = false
    }}
    task "t" {{
      driver = "mock_driver"
      config {{
        exit_code = {exit_code}
      }}
      resources {{
        cpu    = 10
        memory = 10
      }}
    }}
  }}
}}
"#
    )
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[tokio::test]
async fn batch_work_is_followed_to_its_end_and_ends_by_what_became_of_it() {
    let cluster = Cluster::dev(&[]);
    for round in 0..3 {
        let good = cluster.berth(&["job", "run", &cluster.job_file(&batch(&format!("good-{round}"), 0, 0))]);
        assert!(good.status.success(), "{}", message(&good));
        assert!(message(&good).contains("is complete"), "{}", message(&good));
        let bad = cluster.berth(&["job", "run", &cluster.job_file(&batch(&format!("bad-{round}"), 3, 0))]);
        assert_eq!(bad.status.code(), Some(1), "{}", message(&bad));
        assert!(message(&bad).contains("2 allocations failed"), "{}", message(&bad));
    }
    let list = cluster.stdout_of(&["job", "status"]);
    let status_of =
        |id: &str| list.lines().find(|line| line.starts_with(id)).expect("it is listed").to_owned();
    assert!(status_of("good-0").contains("complete"), "{list}");
    assert!(status_of("bad-0").contains("failed"), "{list}");
    let detail = cluster.stdout_of(&["job", "status", "bad-0"]);
    assert!(detail.contains("exit 3"), "{detail}");

    // What is tried once more is waited for, and fails for good.
    let again = cluster.berth(&["job", "run", &cluster.job_file(&batch("again", 3, 1))]);
    assert_eq!(again.status.code(), Some(1), "{}", message(&again));
    assert!(message(&again).contains("4 allocations failed"), "{}", message(&again));
}

#[tokio::test]
async fn a_job_that_is_stopped_or_purged_meanwhile_is_waited_for_no_longer() {
    let cluster = Cluster::dev(&[]);
    for stop in [&["job", "stop", "-yes", "again"][..], &["job", "stop", "-yes", "-purge", "again"]] {
        let file = cluster.job_file(&batch("again", 3, 1));
        let (stopped, run) = std::thread::scope(|scope| {
            let run = scope.spawn(|| cluster.berth(&["job", "run", &file]));
            std::thread::sleep(std::time::Duration::from_secs(1));
            (cluster.berth(stop), run.join().expect("it ends"))
        });
        assert!(stopped.status.success(), "{}", message(&stopped));
        assert_eq!(run.status.code(), Some(1), "{}", message(&run));
        assert!(message(&run).contains("was stopped before it was done"), "{}", message(&run));
    }
}

#[tokio::test]
async fn an_oom_kill_is_shown_wherever_a_task_is() {
    let Some(images) = busybox_images() else { return };
    let cluster = Cluster::with_containers(&["--image-dirs", &images.path().to_string_lossy()]);
    let file = cluster.job_file(&format!(
        r#"job "hungry" {{
  type = "batch"
  group "g" {{
    reschedule {{
      attempts = 0
    }}
    restart {{
      attempts = 0
    }}
    task "t" {{
      driver = "container"
      config {{
        image   = "{}/busybox"
        command = "sh"
        args    = ["-c", "x=$(busybox tail -c 200000000 /dev/zero | busybox tr '\\0' x); echo survived"]
      }}
      resources {{
        memory = 16
      }}
    }}
  }}
}}
"#,
        images.path().display()
    ));
    let run = cluster.berth(&["job", "run", &file]);
    if run.status.success() {
        eprintln!("skipped: the kernel does not limit memory here");
        return;
    }
    assert!(message(&run).contains("out of memory"), "{}", message(&run));
    let alloc = cluster.allocs("default", "hungry").await[0]["ID"].as_str().expect("an id").to_owned();
    for args in [&["ps", "-a"][..], &["job", "status", "hungry"], &["alloc", "status", &alloc]] {
        let text = cluster.stdout_of(args);
        assert!(text.contains("out of memory"), "berth {args:?}: {text}");
    }
}

#[tokio::test]
async fn a_job_that_waits_for_its_reschedule_says_until_when_and_remembers_it() {
    let cluster = Cluster::dev(&[]);
    let file = cluster.job_file(&batch("flaky", 3, 1).replace("count = 2", "count = 1"));
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    let evaluations = async || {
        let evals = cluster.evaluations("default", "flaky").await;
        evals.into_iter().find(|eval| eval.triggered_by == "alloc-reschedule" && eval.status == "pending")
    };
    let waits = eventually("an evaluation waits", evaluations).await;
    let at = waits.wait_until.to_string();
    let status = cluster.stdout_of(&["job", "status", "flaky"]);
    assert!(status.contains(&format!("until {}", &at[..19])), "{at}: {status}");
    assert!(cluster.stdout_of(&["explain", "flaky"]).contains(&at[..19]), "{at}");
    let failed = cluster.allocs("default", "flaky").await[0].clone();
    assert_eq!(failed["FollowupEvalID"], waits.id.as_str());

    let second = async || {
        cluster.allocs("default", "flaky").await.into_iter().find(|alloc| alloc["ID"] != failed["ID"])
    };
    let second = eventually("it is tried again", second).await;
    let event = &second["RescheduleTracker"]["Events"][0];
    assert_eq!((&event["PrevAllocID"], &event["PrevNodeID"]), (&failed["ID"], &failed["NodeID"]));
    assert_eq!(event["Delay"], 5_000_000_000_u64);
    let short = &failed["ID"].as_str().expect("an id")[..8];
    let message = cluster.stdout_of(&["alloc", "status", second["ID"].as_str().expect("an id")]);
    assert!(message.contains(short) && message.contains("5s"), "{message}");
}

#[tokio::test]
async fn an_allocation_that_is_stopped_names_its_successor() {
    let cluster = Cluster::dev(&[]);
    let file = cluster.job_file(
        r#"job "web" {
  group "g" {
    task "t" {
      driver = "mock_driver"
      config {
        run_for = "1h"
      }
    }
  }
}
"#,
    );
    cluster.stdout_of(&["job", "run", "-detach", &file]);
    cluster.until_running("default", "web").await;
    let stopped = cluster.allocs("default", "web").await[0].clone();
    let message = cluster.berth(&["alloc", "stop", stopped["ID"].as_str().expect("an id")]).stderr;
    let message = String::from_utf8_lossy(&message);
    let linked = async || {
        let target = Target::new("/v1/allocation").part(stopped["ID"].as_str()?);
        let next = cluster.client.get::<Value>(&target).await.ok()?.value["NextAllocation"].clone();
        let target = Target::new("/v1/allocation").part(next.as_str().filter(|id| !id.is_empty())?);
        cluster.client.get::<Value>(&target).await.ok().map(|answer| answer.value)
    };
    let next = eventually("it names its successor", linked).await;
    assert_eq!(next["PreviousAllocation"], stopped["ID"]);
    let short = &next["ID"].as_str().expect("an id")[..8];
    assert!(
        message.contains(&format!("allocation {short} on ")) && message.contains("takes its place"),
        "{message}"
    );
}
