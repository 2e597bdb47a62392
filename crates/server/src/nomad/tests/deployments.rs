//! Deployments over HTTP: listing, reading and changing them.

use berth_model::{
    DeploymentId, EvalId, Index, JobKey,
    command::{Command, EvalOutcome, PlanRecord},
    deployment::{DeploymentGroup, NewDeployment},
    eval::{Eval, EvalStatus, Trigger},
    job::JobType,
};
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api, get},
    world::{EVAL, world},
};

const ID: DeploymentId = DeploymentId(0xdddd_dddd_0000_4000_8000_0000_0000_0001);

async fn put(router: &axum::Router, target: &str, body: &Value) -> Answer {
    answer(router, "PUT", target, body.to_string()).await
}

/// A deployment of the job `web`, with this many canaries wanted.
fn deployed(canaries: u32) -> Vec<Command> {
    let key = JobKey::new("default", "web");
    let eval = Eval::pending(EvalId(77), key.clone(), JobType::Service, 50, Trigger::JobRegister);
    let group = DeploymentGroup {
        name: "g".into(),
        desired_total: 2,
        desired_canaries: canaries,
        promoted: canaries == 0,
        ..DeploymentGroup::default()
    };
    let plan = PlanRecord {
        eval: eval.id,
        job: key,
        job_version: 0,
        snapshot_index: Index(3),
        placements: Vec::new(),
        stops: Vec::new(),
        outcome: None,
        deployment: Some(Box::new(NewDeployment { id: ID, groups: vec![group] })),
        updates: None,
    };
    vec![Command::CreateEvals(vec![eval]), Command::CommitPlan(Box::new(plan))]
}

/// Clients follow an evaluation until it is planned, and then the deployment that it names.
#[tokio::test]
async fn an_evaluation_names_the_deployment_that_its_plan_began_or_found() {
    let world = world();
    let router = api(&world);
    let shown = async |id: EvalId| {
        let read = get(&router, &format!("/v1/evaluation/{id}")).await.json();
        let of_job = get(&router, "/v1/job/web/evaluations").await.json();
        let all = get(&router, "/v1/evaluations?namespace=*").await.json();
        for list in [of_job, all] {
            let same = list.as_array().into_iter().flatten().find(|eval| eval["ID"] == read["ID"]);
            assert_eq!(same.expect("it is listed")["DeploymentID"], read["DeploymentID"]);
        }
        read["DeploymentID"].as_str().expect("a text").to_owned()
    };
    let began = deployed(0);
    let Command::CommitPlan(plan) = &began[1] else { panic!("a plan comes second") };
    let finishing = PlanRecord {
        deployment: None,
        outcome: Some(EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: Vec::new().into(),
            next: Vec::new(),
        }),
        ..(**plan).clone()
    };
    world.apply(began);
    assert_eq!(shown(EvalId(77)).await, "", "it is not planned to its end yet");
    world.apply(vec![Command::CommitPlan(Box::new(finishing))]);
    assert_eq!(shown(EvalId(77)).await, ID.to_string());
    assert_eq!(shown(EVAL).await, "", "it was planned before there was any");
}

#[tokio::test]
async fn a_deployment_is_listed_read_held_and_given_up() {
    let world = world();
    let router = api(&world);
    assert_eq!(get(&router, "/v1/job/web/deployment").await.body, "null");
    let of_none = get(&router, "/v1/job/nope/deployment").await;
    assert_eq!((of_none.status.as_u16(), &*of_none.body), (200, "null"), "as of a job that has had none");
    world.apply(deployed(0));
    let listed = get(&router, "/v1/deployments").await.json();
    assert_eq!((listed[0]["ID"].as_str(), &listed[1]), (Some(&*ID.to_string()), &json!(null)));
    assert_eq!(listed, get(&router, "/v1/job/web/deployments").await.json());
    assert_eq!(listed[0], get(&router, "/v1/job/web/deployment").await.json());
    let read = get(&router, "/v1/deployment/dddddddd").await.json();
    assert_eq!((&read["JobID"], &read["Status"]), (&json!("web"), &json!("running")));
    assert_eq!(read["TaskGroups"]["g"]["DesiredTotal"], 2);

    let held = put(&router, &format!("/v1/deployment/pause/{ID}"), &json!({ "Pause": true })).await;
    assert_eq!(held.status, 200);
    assert_eq!(get(&router, "/v1/deployment/dddddddd").await.json()["Status"], "paused");
    let failed = put(&router, &format!("/v1/deployment/fail/{ID}"), &json!({})).await.json();
    assert_ne!(failed["EvalID"], "");
    let read = get(&router, "/v1/deployment/dddddddd").await.json();
    assert_eq!(
        (&read["Status"], &read["StatusDescription"]),
        (&json!("failed"), &json!("Deployment marked as failed"))
    );
}

#[tokio::test]
async fn the_scale_of_a_job_counts_what_was_found_of_its_allocations() {
    let world = world();
    let router = api(&world);
    let mut commands = deployed(0);
    if let Command::CommitPlan(plan) = &mut commands[1] {
        plan.deployment.as_mut().expect("there is one").groups[0].name = "app".into();
    }
    world.apply(commands);
    let scale = async || {
        let app = get(&router, "/v1/job/web/scale").await.json()["TaskGroups"]["app"].clone();
        (app["Healthy"].clone(), app["Unhealthy"].clone())
    };
    assert_eq!(scale().await, (json!(0), json!(0)));
    let allocs = get(&router, "/v1/job/web/allocations").await.json();
    let mut allocs = allocs.as_array().expect("a list").iter();
    let runs = allocs.find(|alloc| alloc["ClientStatus"] == "running").expect("one runs")["ID"].clone();
    let target = format!("/v1/deployment/allocation-health/{ID}");
    for (key, expected) in
        [("UnhealthyAllocationIDs", (json!(0), json!(1))), ("HealthyAllocationIDs", (json!(1), json!(0)))]
    {
        let message = put(&router, &target, &json!({ key: [runs.clone()] })).await;
        assert_eq!(message.status, 200, "{}", message.body);
        assert_eq!(scale().await, expected);
    }
}

#[tokio::test]
async fn what_cannot_be_done_with_a_deployment_is_refused_with_the_reason() {
    let world = world();
    let router = api(&world);
    world.apply(deployed(1));
    let of = |verb: &str| format!("/v1/deployment/{verb}/{ID}");
    let other = "eeeeeeee-0000-4000-8000-000000000001";
    let mut shown = String::new();
    for (target, body) in [
        (of("promote"), json!({ "All": true })),
        (of("promote"), json!({ "Groups": ["nope"] })),
        (of("promote"), json!({})),
        (of("promote"), json!({ "DeploymentID": other, "All": true })),
        (of("unblock"), json!({})),
        (of("allocation-health"), json!({ "HealthyAllocationIDs": [other] })),
        (of("fail"), json!({})),
        (of("pause"), json!({ "Pause": true })),
        (format!("/v1/deployment/fail/{other}"), json!({})),
    ] {
        let answer = put(&router, &target, &body).await;
        if answer.status != 200 {
            shown += &format!("{target} -> {} {}\n", answer.status.as_u16(), answer.body);
        }
    }
    expect_test::expect![[r#"
        /v1/deployment/promote/dddddddd-0000-4000-8000-000000000001 -> 400 deployment dddddddd-0000-4000-8000-000000000001 cannot be promoted: group "g" has 0 of 1 canaries healthy
        /v1/deployment/promote/dddddddd-0000-4000-8000-000000000001 -> 400 deployment dddddddd-0000-4000-8000-000000000001 cannot be promoted: it has no group "nope"
        /v1/deployment/promote/dddddddd-0000-4000-8000-000000000001 -> 400 promote either all groups (`All`) or those named in `Groups`
        /v1/deployment/promote/dddddddd-0000-4000-8000-000000000001 -> 400 the body is about deployment `eeeeeeee-0000-4000-8000-000000000001`, the path about `dddddddd-0000-4000-8000-000000000001`
        /v1/deployment/unblock/dddddddd-0000-4000-8000-000000000001 -> 400 deployment dddddddd-0000-4000-8000-000000000001 is running, and not blocked
        /v1/deployment/allocation-health/dddddddd-0000-4000-8000-000000000001 -> 400 allocation eeeeeeee-0000-4000-8000-000000000001 is not part of deployment dddddddd-0000-4000-8000-000000000001
        /v1/deployment/pause/dddddddd-0000-4000-8000-000000000001 -> 400 deployment dddddddd-0000-4000-8000-000000000001 is failed, and changes no more
        /v1/deployment/fail/eeeeeeee-0000-4000-8000-000000000001 -> 404 deployment not found
    "#]].assert_eq(&shown);
}
