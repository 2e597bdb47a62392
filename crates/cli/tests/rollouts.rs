//! Updates of system jobs on simulated nodes.

mod e2e;

use std::time::Duration;

use e2e::{cluster::Cluster, eventually};

/// Each version says how long its tasks run.
fn system(hours: u32) -> String {
    format!(
        r#"job "log" {{
  type = "system"
  group "g" {{
    update {{
      max_parallel      = 3
      canary            = 33
      stagger           = "1s"
      min_healthy_time  = "100ms"
      healthy_deadline  = "50s"
      progress_deadline = "55s"
    }}
    task "t" {{
      driver = "mock_driver"
      config {{
        run_for = "{hours}h"
      }}
    }}
  }}
}}
"#
    )
}

/// The versions of the allocations that are to run.
async fn versions(cluster: &Cluster) -> Vec<u64> {
    let allocs = cluster.allocs("default", "log").await;
    let desired = allocs.iter().filter(|alloc| alloc["DesiredStatus"] == "run");
    let mut versions: Vec<u64> = desired.filter_map(|alloc| alloc["JobVersion"].as_u64()).collect();
    versions.sort_unstable();
    versions
}

#[tokio::test]
async fn a_new_version_of_a_system_job_is_tried_on_a_part_of_the_nodes() {
    let cluster = Cluster::simulated(3, &[]).await;
    cluster.stdout_of(&["job", "run", &cluster.job_file(&system(1))]);
    assert_eq!(versions(&cluster).await, [0, 0, 0]);
    let file = cluster.job_file(&system(2));
    let plan = cluster.berth(&["job", "plan", "-verbose", &file]);
    let message = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(message.contains("canary") && message.contains("log.g[0]"), "{message}");

    let run = cluster.berth(&["job", "run", &file]);
    let message = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(run.status.success() && message.contains("berth job promote log"), "{message}");
    assert_eq!(versions(&cluster).await, [0, 0, 1], "a third of the nodes, each with one allocation");
    cluster.stdout_of(&["job", "promote", "log"]);
    eventually("all nodes have the new version", async || {
        (versions(&cluster).await == [1, 1, 1]).then_some(())
    })
    .await;
    eventually("it is successful", async || {
        (!cluster.stdout_of(&["job", "deployments", "log"]).contains("running")).then_some(())
    })
    .await;
    cluster.stdout_of(&["job", "stop", "-yes", "log"]);
}

#[tokio::test]
async fn the_nodes_of_a_system_job_are_updated_one_after_the_other_with_time_between() {
    let stagger = Duration::from_secs(2);
    let cluster = Cluster::simulated(3, &[]).await;
    let one_by_one = |hours| {
        let text = system(hours).replace("canary            = 33", "canary            = 0");
        text.replace("max_parallel      = 3", "max_parallel      = 1").replace("\"1s\"", "\"2s\"")
    };
    for hours in [1, 2] {
        cluster.stdout_of(&["job", "run", &cluster.job_file(&one_by_one(hours))]);
    }
    let allocs = cluster.allocs("default", "log").await;
    let new = allocs.iter().filter(|alloc| alloc["JobVersion"] == 1);
    let mut placed: Vec<u64> = new.filter_map(|alloc| alloc["CreateTime"].as_u64()).collect();
    placed.sort_unstable();
    let between: Vec<Duration> =
        placed.windows(2).map(|pair| Duration::from_nanos(pair[1] - pair[0])).collect();
    assert!(between.len() == 2 && between.iter().all(|between| *between >= stagger), "{between:?}");
    cluster.stdout_of(&["job", "stop", "-yes", "log"]);
}
