//! Deployments that users pause, resume, fail, promote group by group and revert, while servers are killed; and their events in the
//! stream.

mod e2e;

use std::time::Duration;

use berth_api::http::{Client, EventFrame, Target};
use e2e::{cluster::Cluster, eventually, nodes::Nodes, servers::Servers};
use serde_json::{Value, json};

const SECOND_NS: u64 = 1_000_000_000;

/// A service whose versions say different things, with these groups of three, each with an `update` block.
fn web(says: &str, groups: &[&str], update: &Value) -> Value {
    let group = |name: &&str| {
        let mut update = update.clone();
        update["HealthCheck"] = "task_states".into();
        update["HealthyDeadline"] = (50 * SECOND_NS).into();
        update["ProgressDeadline"] = (55 * SECOND_NS).into();
        json!({
            "Name": name,
            "Count": 3,
            "Update": update,
            "Tasks": [{
                "Name": "t",
                "Driver": "mock_driver",
                "Config": {"run_for": "1h", "stdout_string": says},
                "Resources": {"CPU": 1, "MemoryMB": 10},
            }],
        })
    };
    json!({"ID": "web", "TaskGroups": groups.iter().map(group).collect::<Vec<_>>()})
}

async fn register(client: &Client, job: &Value) {
    let body = json!({ "Job": job });
    client.put::<Value>(&Target::new("/v1/jobs"), &body).await.expect("it is registered");
}

/// The newest deployment of the job.
async fn newest(client: &Client) -> Option<Value> {
    Some(client.get(&Target::new("/v1/job/web/deployment")).await.ok()?.value)
}

/// Waits until the deployment of a version has that status, and returns it.
async fn until(client: &Client, version: u64, status: &str) -> Value {
    eventually(&format!("the deployment of version {version} is {status}"), async || {
        newest(client).await.filter(|of| of["JobVersion"] == version && of["Status"] == status)
    })
    .await
}

/// The allocations that are desired, by group and version.
async fn desired(client: &Client) -> Vec<(String, u64)> {
    let target = Target::new("/v1/job/web/allocations");
    let allocs: Vec<Value> = client.get(&target).await.expect("a list").value;
    let run = allocs.iter().filter(|alloc| alloc["DesiredStatus"] == "run");
    let of = |alloc: &Value| Some((alloc["TaskGroup"].as_str()?.to_owned(), alloc["JobVersion"].as_u64()?));
    let mut desired: Vec<_> = run.filter_map(of).collect();
    desired.sort_unstable();
    desired
}

/// Has the job planned once more, and waits until that is done.
async fn plan_again(cluster: &Cluster) {
    cluster.stdout_of(&["job", "eval", "web"]);
    let done = async || {
        let evals = cluster.evaluations("default", "web").await;
        evals.iter().all(|eval| eval.status != "pending").then_some(())
    };
    eventually("it is planned again", done).await;
}

fn id_of(deployment: &Value) -> &str {
    deployment["ID"].as_str().expect("an id")
}

#[tokio::test]
async fn a_deployment_is_held_goes_on_and_is_given_up() {
    let cluster = Cluster::simulated(2, &[]).await;
    let client = &cluster.client;
    let slowly = json!({"MaxParallel": 1, "MinHealthyTime": 3 * SECOND_NS, "AutoRevert": true});
    register(client, &web("one", &["g"], &json!({"MaxParallel": 3, "MinHealthyTime": SECOND_NS / 10}))).await;
    until(client, 0, "successful").await;
    register(client, &web("two", &["g"], &slowly)).await;
    let second = until(client, 1, "running").await;
    let id = id_of(&second);
    cluster.stdout_of(&["deployment", "pause", id]);
    until(client, 1, "paused").await;
    plan_again(&cluster).await;
    let held = desired(client).await;
    eventually("what was placed is healthy", async || {
        let of = newest(client).await?["TaskGroups"]["g"].clone();
        (of["HealthyAllocs"] == of["PlacedAllocs"]).then_some(())
    })
    .await;
    plan_again(&cluster).await;
    assert_eq!(desired(client).await, held, "one that is paused goes no further");
    assert!(held.iter().any(|(_, version)| *version == 0), "{held:?}");
    let blocked = cluster.berth(&["deployment", "unblock", id]);
    let message = String::from_utf8_lossy(&blocked.stderr).into_owned();
    assert!(!blocked.status.success() && message.contains("is paused, and not blocked"), "{message}");
    cluster.stdout_of(&["deployment", "resume", id]);
    until(client, 1, "successful").await;
    let over = cluster.berth(&["deployment", "pause", id]);
    let message = String::from_utf8_lossy(&over.stderr).into_owned();
    assert!(!over.status.success() && message.contains("successful"), "{message}");

    register(client, &web("three", &["g"], &slowly)).await;
    let third = until(client, 2, "running").await;
    let failed = cluster.berth(&["deployment", "fail", id_of(&third)]);
    let message = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.success() && message.contains("back to version 1 of its job"), "{message}");
    until(client, 3, "successful").await;
    let versions: Vec<Value> =
        serde_json::from_str(&cluster.stdout_of(&["job", "history", "-o", "json", "web"])).expect("JSON");
    let groups = |version: u64| {
        let version = versions.iter().find(|of| of["Version"] == version).expect("it is kept");
        version["TaskGroups"].to_string()
    };
    assert_eq!(groups(3), groups(1), "it went back to what was stable, byte for byte");
    let all = client.get::<Vec<Value>>(&Target::new("/v1/job/web/deployments")).await.expect("a list").value;
    let third = all.iter().find(|of| of["ID"] == third["ID"]).expect("it is kept");
    assert_eq!(third["Status"], "failed");
    assert!(desired(client).await.iter().all(|(_, version)| *version != 2), "nothing of what failed stays");
}

#[tokio::test]
async fn canaries_are_promoted_by_group_and_of_two_at_once_one_promotes() {
    let cluster = Cluster::simulated(2, &[]).await;
    let client = &cluster.client;
    let update = json!({"MaxParallel": 3, "MinHealthyTime": SECOND_NS / 10, "Canary": 1});
    register(client, &web("one", &["a", "b"], &update)).await;
    until(client, 0, "successful").await;
    register(client, &web("two", &["a", "b"], &update)).await;
    let healthy_canaries = async || {
        let deployment = newest(client).await.filter(|of| of["JobVersion"] == 1)?;
        let healthy = |group: &str| deployment["TaskGroups"][group]["HealthyAllocs"] == 1;
        (healthy("a") && healthy("b")).then_some(deployment)
    };
    let deployment = eventually("a canary of each group is healthy", healthy_canaries).await;
    let id = id_of(&deployment);
    let stranger = cluster.berth(&["deployment", "promote", "-group", "c", id]);
    let message = String::from_utf8_lossy(&stranger.stderr).into_owned();
    assert!(!stranger.status.success() && message.contains(r#"no group "c""#), "{message}");
    cluster.stdout_of(&["deployment", "promote", "-group", "a", id]);
    let of = |group: &str, versions: &[u64]| -> Vec<(String, u64)> {
        versions.iter().map(|version| (group.to_owned(), *version)).collect()
    };
    let all_of_a = [of("a", &[1, 1, 1]), of("b", &[0, 0, 0, 1])].concat();
    eventually("all of the first group is new", async || (desired(client).await == all_of_a).then_some(()))
        .await;
    until(client, 1, "running").await;

    let promote = || cluster.berth(&["deployment", "promote", id]);
    let outputs = std::thread::scope(|scope| {
        let other = scope.spawn(promote);
        [promote(), other.join().expect("it ends")]
    });
    assert_eq!(outputs.iter().filter(|output| output.status.success()).count(), 1, "{outputs:?}");
    let refused = outputs.iter().find(|output| !output.status.success()).expect("one of them");
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("no canaries to promote") || message.contains("successful"), "{message}");
    until(client, 1, "successful").await;
    assert_eq!(desired(client).await, [of("a", &[1, 1, 1]), of("b", &[1, 1, 1])].concat());
}

#[tokio::test]
async fn a_canary_promotes_itself_and_what_makes_no_progress_in_time_fails() {
    let cluster = Cluster::simulated(2, &[]).await;
    let client = &cluster.client;
    let update =
        json!({"MaxParallel": 3, "MinHealthyTime": SECOND_NS / 10, "Canary": 1, "AutoPromote": true});
    register(client, &web("one", &["g"], &update)).await;
    until(client, 0, "successful").await;
    register(client, &web("two", &["g"], &update)).await;
    let promoted = until(client, 1, "successful").await;
    assert_eq!(promoted["TaskGroups"]["g"]["DesiredCanaries"], 1, "{promoted}");
    assert_eq!(promoted["TaskGroups"]["g"]["Promoted"], true, "{promoted}");
    assert_eq!(desired(client).await, vec![("g".to_owned(), 1); 3]);

    // Its tasks never start: the canary is unhealthy in time, and so is the next one.
    let mut stuck = web("three", &["g"], &update);
    let group = &mut stuck["TaskGroups"][0];
    group["Update"]["HealthyDeadline"] = SECOND_NS.into();
    group["Update"]["ProgressDeadline"] = (3 * SECOND_NS).into();
    group["Update"]["AutoRevert"] = true.into();
    group["Tasks"][0]["Config"]["start_block_for"] = "1h".into();
    register(client, &stuck).await;
    until(client, 3, "successful").await;
    let all = client.get::<Vec<Value>>(&Target::new("/v1/job/web/deployments")).await.expect("a list").value;
    let failed = all.iter().find(|of| of["JobVersion"] == 2).expect("it is kept");
    let why = failed["StatusDescription"].as_str().expect("a text");
    assert_eq!(failed["Status"], "failed");
    assert!(why.contains("progress deadline") && why.contains("rolling back to job version 1"), "{why}");
    assert!(desired(client).await.iter().all(|(_, version)| *version != 2), "nothing of what failed stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_waits_through_the_death_of_its_server_and_a_revert_overtakes_it() {
    let mut servers = Servers::start(1).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[1], &servers);
    nodes.until_ready(&servers.all[&1].client, 1).await;
    let client = servers.all[&1].client.clone();
    let update = json!({"MaxParallel": 1, "MinHealthyTime": SECOND_NS / 10, "Canary": 1});
    register(&client, &web("one", &["g"], &update)).await;
    until(&client, 0, "successful").await;
    register(&client, &web("two", &["g"], &update)).await;
    let canary = async || {
        let deployment = newest(&client).await.filter(|of| of["JobVersion"] == 1)?;
        (deployment["TaskGroups"]["g"]["PlacedAllocs"] == 1).then_some(deployment)
    };
    let before = eventually("the canary is placed", canary).await;
    servers.kill(1);
    servers.run(1, &[]);
    let healthy = async || {
        let deployment = newest(&client).await?;
        (deployment["TaskGroups"]["g"]["HealthyAllocs"] == 1).then_some(deployment)
    };
    let after = eventually("the canary is healthy", healthy).await;
    assert_eq!((&after["ID"], &after["Status"]), (&before["ID"], &"running".into()));
    assert_eq!(desired(&client).await.len(), 4, "one canary beside the old ones, and no second one");
    servers.all[&1].stdout_of(&["deployment", "promote", id_of(&after)]);
    servers.kill(1);
    servers.run(1, &[]);
    until(&client, 1, "successful").await;

    // What is reverted while it is rolled out is overtaken.
    register(&client, &web("three", &["g"], &update)).await;
    until(&client, 2, "running").await;
    servers.all[&1].stdout_of(&["job", "revert", "web", "1"]);
    let all: Vec<Value> = client.get(&Target::new("/v1/job/web/deployments")).await.expect("a list").value;
    let third = all.iter().find(|of| of["JobVersion"] == 2).expect("it is kept");
    assert_eq!(third["Status"], "cancelled", "{third}");
    until(&client, 3, "successful").await;
    let back = desired(&client).await;
    assert_eq!(back.len(), 3);
    assert!(back.iter().all(|(_, version)| *version != 2), "{back:?}");
}

#[tokio::test]
async fn each_change_of_a_job_is_an_event_with_its_name() {
    let cluster = Cluster::simulated(1, &[]).await;
    let client = &cluster.client;
    let from = client.get::<Value>(&Target::new("/v1/jobs")).await.expect("it reads").index;
    let update = json!({"MaxParallel": 3, "MinHealthyTime": SECOND_NS / 10, "Canary": 1});
    register(client, &web("one", &["g"], &update)).await;
    until(client, 0, "successful").await;
    register(client, &web("two", &["g"], &update)).await;
    let healthy = async || {
        let deployment = newest(client).await.filter(|of| of["JobVersion"] == 1)?;
        (deployment["TaskGroups"]["g"]["HealthyAllocs"] == 1).then_some(deployment)
    };
    let deployment = eventually("the canary is healthy", healthy).await;
    cluster.stdout_of(&["deployment", "pause", id_of(&deployment)]);
    let resumed = cluster.berth(&["deployment", "resume", id_of(&deployment)]);
    let message = String::from_utf8_lossy(&resumed.stderr).into_owned();
    assert!(message.contains("it waits for its promotion; next: berth deployment promote"), "{message}");
    cluster.stdout_of(&["deployment", "promote", id_of(&deployment)]);
    until(client, 1, "successful").await;
    cluster.stdout_of(&["job", "scale", "-detach", "web", "g", "2"]);
    let nodes: Vec<Value> = client.get(&Target::new("/v1/nodes")).await.expect("a list").value;
    let node = nodes[0]["ID"].as_str().expect("an id");
    cluster.stdout_of(&["node", "eligibility", "-disable", node]);
    cluster.stdout_of(&["node", "drain", "-enable", "-force", node]);
    cluster.stdout_of(&["job", "stop", "-yes", "-purge", "web"]);

    let expected = [
        ("Job", "JobRegistered"),
        ("Job", "JobScaled"),
        ("Job", "JobDeregistered"),
        ("Evaluation", "EvaluationUpdated"),
        ("Deployment", "DeploymentStatusUpdate"),
        ("Deployment", "DeploymentAllocHealth"),
        ("Deployment", "DeploymentPromotion"),
        ("Allocation", "PlanResult"),
        ("Allocation", "AllocationUpdated"),
        ("Allocation", "AllocationUpdateDesiredStatus"),
        ("Node", "NodeEligibility"),
        ("Node", "NodeDrain"),
    ];
    let mut missing = expected.to_vec();
    let stream = Target::new("/v1/event/stream").param("index", from + 1);
    let mut lines = client.lines::<EventFrame>(&stream).await.expect("it answers");
    let read = async {
        while !missing.is_empty() {
            let frame = lines.next().await.expect("it goes on").expect("a line");
            assert!(frame.error.is_empty(), "{frame:?}");
            for event in &frame.events {
                missing.retain(|(topic, kind)| (*topic, *kind) != (&*event.topic, &*event.kind));
                if event.kind == "JobScaled" {
                    assert_eq!(event.payload["Group"], "g", "{event:?}");
                    assert_eq!(event.payload["ScalingEvent"]["Count"], 2, "{event:?}");
                    assert_eq!(event.payload["ScalingEvent"]["PreviousCount"], 3, "{event:?}");
                }
            }
        }
    };
    let message = tokio::time::timeout(Duration::from_secs(50), read).await;
    assert!(message.is_ok(), "never told of: {missing:?}");
}

#[tokio::test]
async fn a_plan_shows_what_becomes_of_each_allocation() {
    let cluster = Cluster::simulated(2, &[]).await;
    let client = &cluster.client;
    let update = json!({"MaxParallel": 2, "MinHealthyTime": SECOND_NS / 10});
    register(client, &web("one", &["g"], &update)).await;
    until(client, 0, "successful").await;
    let text = |says: &str, count: u32| {
        format!(
            r#"job "web" {{
  group "g" {{
    count = {count}
    update {{
      max_parallel      = 2
      health_check      = "task_states"
      min_healthy_time  = "100ms"
      healthy_deadline  = "50s"
      progress_deadline = "55s"
    }}
    task "t" {{
      driver = "mock_driver"
      config {{
        run_for       = "1h"
        stdout_string = "{says}"
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
    };
    let plan = |text: &str| {
        let output = cluster.berth(&["job", "plan", "-verbose", &cluster.job_file(text)]);
        let code = output.status.code();
        assert!(code == Some(0) || code == Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    for (change, message) in [
        // Two at a time are replaced, and the third waits for them.
        (text("two", 3), &["web.g[0]", "web.g[1]", "replacement", "2 create/destroy update, 1 ignore"][..]),
        (text("one", 4), &["web.g[3]", "new"]),
        (text("one", 2), &["web.g[2]", "stop"]),
    ] {
        let shown = plan(&change);
        for part in message {
            assert!(shown.contains(part), "{part:?} is missing in {shown}");
        }
    }
    assert_eq!(desired(client).await, vec![("g".to_owned(), 0); 3], "a plan changes nothing");
}

#[tokio::test]
async fn a_parameterized_job_that_is_stopped_takes_no_dispatches_until_it_is_started() {
    let cluster = Cluster::simulated(1, &[]).await;
    let job = json!({"ID": "encode", "Type": "batch", "ParameterizedJob": {}, "TaskGroups": [{
        "Name": "g", "Tasks": [{"Name": "t", "Driver": "mock_driver", "Config": {"run_for": "100ms"}}],
    }]});
    register(&cluster.client, &job).await;
    cluster.stdout_of(&["job", "dispatch", "encode"]);
    cluster.stdout_of(&["job", "stop", "-yes", "encode"]);
    let refused = cluster.berth(&["job", "dispatch", "encode"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("is stopped"), "{message}");
    cluster.stdout_of(&["job", "start", "encode"]);
    cluster.stdout_of(&["job", "dispatch", "encode"]);
}
