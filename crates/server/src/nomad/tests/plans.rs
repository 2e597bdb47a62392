//! Dry runs of registrations, differences between versions, and reverting to one.

use berth_model::{
    AllocId, EvalId, JobKey,
    alloc::Placement,
    command::{Command, PlanRecord, SetSchedulerConfig},
    scheduling::{Preemption, SchedulerConfig},
};
use expect_test::{expect, expect_file};
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api, get},
    world::{NODE_1, RUNNING, placement, register, small_job, world},
};

async fn put(router: &axum::Router, target: &str, body: &Value) -> Answer {
    answer(router, "PUT", target, body.to_string()).await
}

#[tokio::test]
async fn a_plan_reports_changes_and_makes_none() {
    let world = world();
    let router = api(&world);
    let mut job = get(&router, "/v1/job/web").await.json();
    job["TaskGroups"][0]["Count"] = json!(4);
    job["TaskGroups"][0]["Tasks"][0]["Env"] = json!({ "MODE": "fast" });
    job["Meta"] = json!({ "owner": "ops" });
    job["Datacenters"] = json!(["dc1", "dc2"]);
    let before = world.view.load().index;
    let planned = put(&router, "/v1/job/web/plan", &json!({ "Job": job, "Diff": true })).await;
    expect_file!["golden/job_plan.txt"].assert_eq(&planned.show());
    assert_eq!(world.view.load().index, before, "nothing has changed");
}

#[tokio::test]
async fn a_plan_names_what_cannot_be_placed() {
    let router = api(&world());
    let mut job = berth_jobfile::to_json(&small_job("new"));
    job["TaskGroups"][0]["Tasks"][0]["Driver"] = json!("raw_exec");
    job["TaskGroups"][0]["Tasks"][0]["Resources"]["MemoryMB"] = json!(100_000);
    let planned = put(&router, "/v1/job/new/plan", &json!({ "Job": job })).await.json();
    expect![[r#"{"g":{"Canary":0,"DestructiveUpdate":0,"Ignore":0,"InPlaceUpdate":0,"Migrate":0,"Place":1,"Preemptions":0,"Stop":0}}"#]]
        .assert_eq(&planned["Annotations"]["DesiredTGUpdates"].to_string());
    expect![[r#"{"memory":2}"#]].assert_eq(&planned["FailedTGAllocs"]["g"]["DimensionExhausted"].to_string());
    assert_eq!((&planned["Diff"], &planned["JobModifyIndex"]), (&Value::Null, &json!(0)));
    let waits = &planned["CreatedEvals"][0];
    assert_eq!((&waits["Status"], &waits["TriggeredBy"]), (&json!("blocked"), &json!("queued-allocs")));
    assert_eq!((&waits["JobID"], &waits["QueuedAllocations"]), (&json!("new"), &json!({ "g": 1 })));
    let unknown = get(&router, &format!("/v1/evaluation/{}", waits["ID"].as_str().expect("an id"))).await;
    assert_eq!(unknown.status, 404, "it was not made");
}

#[tokio::test]
async fn a_plan_names_the_allocations_it_would_preempt() {
    let world = world();
    let config = SchedulerConfig {
        preemption: Preemption { service: true, ..Preemption::default() },
        ..SchedulerConfig::default()
    };
    world.apply(vec![Command::SetSchedulerConfig(Box::new(SetSchedulerConfig { config, only_if: None }))]);
    let mut job = small_job("urgent");
    job.priority = 90;
    job.groups[0].count = 2;
    job.groups[0].tasks[0].driver = "raw_exec".into();
    // So much that the allocation of job web has to go from its node.
    job.groups[0].tasks[0].resources.cpu_mhz = 3800;
    let body = json!({ "Job": berth_jobfile::to_json(&job) });
    let planned = put(&api(&world), "/v1/job/urgent/plan", &body).await.json();
    let annotations = &planned["Annotations"];
    assert_eq!(annotations["DesiredTGUpdates"]["g"]["Preemptions"], 1, "{annotations}");
    assert_eq!(annotations["PreemptedAllocs"][0]["ID"], RUNNING.to_string());
}

#[tokio::test]
async fn the_same_job_again_differs_in_nothing() {
    let router = api(&world());
    let job = get(&router, "/v1/job/web").await.json();
    let planned = put(&router, "/v1/job/web/plan", &json!({ "Job": job, "Diff": true })).await.json();
    assert_eq!(planned["Diff"]["Type"], "None");
    assert_eq!(planned["Diff"]["TaskGroups"], json!([]));
    assert_eq!((&planned["JobModifyIndex"], &planned["Index"]), (&json!(3), &json!(3)));
    let answer =
        put(&router, "/v1/job/web/plan", &json!({ "Job": get(&router, "/v1/job/web").await.json() })).await;
    assert!(
        answer.show().contains("x-nomad-index: 3\n"),
        "Go's client takes it from there: {}",
        answer.show()
    );
}

/// Servers of earlier versions gave services no `update` block. It is added by the next registration, and restarts nothing.
#[tokio::test]
async fn a_job_without_an_update_block_gets_one_once_and_restarts_nothing() {
    let world = world();
    let mut before = small_job("old");
    before.update = None;
    before.groups[0].update = None;
    before.groups[0].tasks[0].driver = "raw_exec".into();
    let body = json!({ "Job": berth_jobfile::to_json(&before), "Diff": true });
    let eval = EvalId(77);
    world.apply(vec![register(before, eval)]);
    let placed = PlanRecord {
        eval,
        job: JobKey::new("default", "old"),
        job_version: 0,
        snapshot_index: world.view.load().index,
        placements: vec![Placement { ports: Vec::new(), ..placement(AllocId(77), NODE_1, 0) }],
        stops: Vec::new(),
        deployment: None,
        outcome: None,
        updates: None,
    };
    world.apply(vec![Command::CommitPlan(Box::new(placed))]);
    let router = api(&world);
    assert_eq!(get(&router, "/v1/job/old").await.json()["Update"], Value::Null, "it is as it was");

    let planned = put(&router, "/v1/job/old/plan", &body).await.json();
    let added =
        |diff: &Value| json!([diff["Objects"][0]["Type"], diff["Objects"][0]["Name"], diff["Objects"][1]]);
    assert_eq!(added(&planned["Diff"]), json!(["Added", "Update", null]), "{planned}");
    assert_eq!(added(&planned["Diff"]["TaskGroups"][0]), json!(["Added", "Update", null]), "{planned}");
    expect![[r#"{"g":{"Canary":0,"DestructiveUpdate":0,"Ignore":0,"InPlaceUpdate":1,"Migrate":0,"Place":0,"Preemptions":0,"Stop":0}}"#]]
        .assert_eq(&planned["Annotations"]["DesiredTGUpdates"].to_string());

    for _ in 0..2 {
        assert_eq!(put(&router, "/v1/jobs", &body).await.status, 200);
        let job = get(&router, "/v1/job/old").await.json();
        assert_eq!((&job["Version"], &job["Update"]["MaxParallel"]), (&json!(1), &json!(1)));
    }
    let planned = put(&router, "/v1/job/old/plan", &body).await.json();
    assert_eq!(planned["Diff"]["Type"], "None");
}

#[tokio::test]
async fn versions_are_compared_and_gone_back_to() {
    let router = api(&world());
    let mut job = get(&router, "/v1/job/web").await.json();
    job["Priority"] = json!(70);
    job["TaskGroups"][0]["Networks"][0]["DynamicPorts"][0]["To"] = json!(80);
    job["TaskGroups"][0]["Networks"][0]["ReservedPorts"] = json!([]);
    job["Constraints"] = json!([{ "LTarget": "${attr.kernel.name}", "RTarget": "linux", "Operand": "=" }]);
    assert_eq!(put(&router, "/v1/jobs", &json!({ "Job": job })).await.status, 200);
    let versions = get(&router, "/v1/job/web/versions?diffs=true").await.json();
    expect_file!["golden/job_diff.txt"].assert_eq(&format!("{:#}\n", versions["Diffs"]));
    assert_eq!(get(&router, "/v1/job/web/versions?diffs=false").await.json()["Diffs"], Value::Null);

    let reverted = put(&router, "/v1/job/web/revert", &json!({ "JobID": "web", "JobVersion": 0 })).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 8
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalCreateIndex": 8,
          "EvalID": "e0000000-0000-0000-0000-000000000001",
          "Index": 8,
          "JobModifyIndex": 8,
          "KnownLeader": true,
          "LastContact": 0,
          "Warnings": ""
        }
    "#]]
    .assert_eq(&reverted.show());
    let now = get(&router, "/v1/job/web").await.json();
    assert_eq!((&now["Version"], &now["Priority"]), (&json!(2), &json!(50)));
}

#[tokio::test]
async fn a_version_that_would_be_refused_today_is_not_gone_back_to() {
    let world = world();
    let mut large = small_job("grown");
    large.groups[0].count = 200_000;
    let mut other_driver = small_job("moved");
    other_driver.groups[0].tasks[0].driver = "raw_exec".into();
    for (at, old) in (10..).step_by(2).zip([large, other_driver]) {
        let new = small_job(&old.key.id);
        world.apply(vec![register(old, EvalId(at))]);
        world.apply(vec![register(new, EvalId(at + 1))]);
    }
    let router = api(&world);
    let limit = json!({ "Name": "default", "Capabilities": { "DisabledTaskDrivers": ["raw_exec"] } });
    assert_eq!(put(&router, "/v1/namespace", &limit).await.status, 200);
    let revert = async |job: &str| {
        let message = put(&router, &format!("/v1/job/{job}/revert"), &json!({ "JobVersion": 0 })).await;
        (message.status.as_u16(), message.body)
    };
    let (status, message) = revert("grown").await;
    assert!(status == 413 && message.contains("100000"), "{status} {message}");
    let (status, message) = revert("moved").await;
    assert!(status == 400 && message.contains("does not allow"), "{status} {message}");
}

#[tokio::test]
async fn a_stopped_job_is_started_again_by_going_back() {
    let router = api(&world());
    answer(&router, "DELETE", "/v1/job/web", axum::body::Body::empty()).await;
    assert_eq!(put(&router, "/v1/job/web/revert", &json!({ "JobVersion": 0 })).await.status, 200);
    assert_eq!(get(&router, "/v1/job/web").await.json()["Stop"], false);
}

#[tokio::test]
async fn plans_and_reverts_that_make_no_sense_are_refused() {
    let router = api(&world());
    let mut shown = String::new();
    let job = berth_jobfile::to_json(&small_job("api"));
    for (target, body) in [
        ("/v1/job/web/plan", json!({ "Job": job })),
        ("/v1/job/web/plan", json!({ "Job": { "ID": "web" } })),
        ("/v1/job/web/revert", json!({ "JobVersion": 9 })),
        ("/v1/job/web/revert", json!({ "JobVersion": 0 })),
        ("/v1/job/web/revert", json!({ "JobVersion": 0, "EnforcePriorVersion": 3 })),
        ("/v1/job/web/revert", json!({ "JobID": "api", "JobVersion": 0 })),
        ("/v1/job/nope/revert", json!({ "JobVersion": 0 })),
    ] {
        let answer = put(&router, target, &body).await;
        shown += &format!("{target} -> {} {}\n", answer.status.as_u16(), answer.body);
    }
    expect![[r#"
        /v1/job/web/plan -> 400 the job's id is `api`, the request is about `web`
        /v1/job/web/plan -> 400 error: job has no group
         --> request body: Job

        /v1/job/web/revert -> 404 version 9 not found, the versions kept are 0
        /v1/job/web/revert -> 400 version 0 is the current one
        /v1/job/web/revert -> 409 the job has version 0, not the one that is enforced
        /v1/job/web/revert -> 400 the body is about job `api`, the path about `web`
        /v1/job/nope/revert -> 404 job not found
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn in_place_updates_are_distinguished_from_replacements() {
    let world = world();
    let router = api(&world);
    let mut job = get(&router, "/v1/job/web").await.json();
    job["TaskGroups"][0]["ReschedulePolicy"]["Delay"] = json!(90_000_000_000_u64);
    let planned = put(&router, "/v1/job/web/plan", &json!({ "Job": job })).await.json();
    let in_place = planned["Annotations"]["DesiredTGUpdates"].clone();
    job["TaskGroups"][0]["Tasks"][0]["Env"] = json!({ "NEW": "1" });
    let planned = put(&router, "/v1/job/web/plan", &json!({ "Job": job })).await.json();
    let replaced = planned["Annotations"]["DesiredTGUpdates"].clone();
    expect![[r#"
        {"app":{"Canary":0,"DestructiveUpdate":0,"Ignore":0,"InPlaceUpdate":1,"Migrate":0,"Place":2,"Preemptions":0,"Stop":0}}
        {"app":{"Canary":0,"DestructiveUpdate":1,"Ignore":0,"InPlaceUpdate":0,"Migrate":0,"Place":1,"Preemptions":0,"Stop":0}}
    "#]].assert_eq(&format!("{in_place}\n{replaced}\n"));
}
