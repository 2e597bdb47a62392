//! Periodic jobs with a real agent: a run that takes long keeps the next one from starting.

mod e2e;

use berth_api::http::{JobStub, Target};
use e2e::{cluster::Cluster, eventually};
use serde_json::Value;

/// Is due each second, and goes on for as long as a file is there.
fn often(lives: &str) -> String {
    format!(
        r#"job "often" {{
  type = "batch"
  periodic {{
    crons            = ["* * * * * * *"]
    prohibit_overlap = true
  }}
  group "g" {{
    task "t" {{
      driver = "raw_exec"
      config {{
        command = "/bin/sh"
        args    = ["-c", "while [ -e {lives} ]; do sleep 0.1; done"]
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

/// The ids of its runs so far.
async fn runs(cluster: &Cluster) -> Vec<String> {
    let target = Target::new("/v1/jobs").param("prefix", "often/periodic-");
    let jobs: Vec<JobStub> = cluster.client.get(&target).await.expect("a list").value;
    jobs.into_iter().map(|job| job.id).collect()
}

/// What is known of the job's launches.
async fn launch(cluster: &Cluster) -> Value {
    let job: Value = cluster.client.get(&Target::new("/v1/job/often")).await.expect("it is there").value;
    job["PeriodicLaunch"].clone()
}

#[tokio::test]
async fn a_run_that_goes_on_keeps_the_next_from_starting_and_the_job_says_so() {
    let cluster = Cluster::dev(&[]);
    let lives = cluster.path("lives");
    std::fs::write(&lives, "").expect("it is written");
    cluster.stdout_of(&["job", "run", "-detach", &cluster.job_file(&often(&lives.display().to_string()))]);
    eventually("a time was left out", async || (launch(&cluster).await["Overlapped"] == true).then_some(()))
        .await;
    let first = runs(&cluster).await;
    assert_eq!(first.len(), 1, "{first:?}");
    cluster.until_running("default", &first[0]).await;
    let left_out = launch(&cluster).await["Last"].clone();
    let status = cluster.stdout_of(&["job", "status", "often"]);
    assert!(status.contains("left out: the run before had not ended"), "{status}");
    eventually("another one was left out", async || {
        (launch(&cluster).await["Last"] != left_out).then_some(())
    })
    .await;
    assert_eq!(runs(&cluster).await, first, "one at a time");

    std::fs::remove_file(&lives).expect("it is there");
    let next = async || {
        let runs = runs(&cluster).await;
        let launch = launch(&cluster).await;
        (runs.len() > 1 && launch["Overlapped"] == false).then_some(())
    };
    eventually("the next one is started at its time", next).await;
    let status = cluster.stdout_of(&["job", "status", "often"]);
    assert!(!status.contains("left out"), "{status}");
    let ended = cluster.stdout_of(&["job", "status", &first[0]]);
    assert!(ended.contains("complete"), "{ended}");
    cluster.stdout_of(&["job", "stop", "-yes", "often"]);
}
