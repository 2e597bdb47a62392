//! Evaluations: related ones, and the reasons of failed placements.

use berth_model::{Index, JobKey, NodeId, Timestamp, eval::Trigger};
use expect_test::expect_file;
use serde_json::json;

use super::{
    exchange::{answer, api, check_get, get},
    world::{BLOCKED, EVAL, NODE_1, RUNNING, world},
};
use crate::shared::PlanTrace;

#[tokio::test]
async fn evaluations_are_read() {
    let world = world();
    check_get(&world, "/v1/evaluations", expect_file!["golden/evaluations.txt"]).await;
    let related = format!("/v1/evaluation/{EVAL}?related=true");
    check_get(&world, &related, expect_file!["golden/evaluation.txt"]).await;
}

#[tokio::test]
async fn an_evaluation_may_force_failed_allocations_to_be_replaced() {
    let world = world();
    let router = api(&world);
    for (body, forced) in [
        (json!({}), false),
        (json!({ "JobID": "web", "EvalOptions": { "ForceReschedule": false } }), false),
        (json!({ "EvalOptions": { "ForceReschedule": true } }), true),
    ] {
        let made = answer(&router, "PUT", "/v1/job/web/evaluate", body.to_string()).await;
        assert_eq!(made.status, 200, "{}", made.body);
        let id = made.json()["EvalID"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        let eval = world.view.load().store.evals().get(id).cloned().expect("it is there");
        assert_eq!((eval.force_reschedule, eval.trigger), (forced, Trigger::JobRegister), "{body}");
    }
}

#[tokio::test]
async fn evaluations_are_filtered() {
    let router = api(&world());
    let ids = async |query: &str| {
        let list = get(&router, &format!("/v1/evaluations?{query}")).await.json();
        list.as_array().expect("a list").iter().map(|eval| eval["ID"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids("status=blocked").await, [json!(BLOCKED.to_string())]);
    assert_eq!(ids("prefix=eeee").await, [json!(EVAL.to_string())]);
    assert_eq!(ids("job=other").await, [json!(null); 0]);
    assert_eq!(ids("namespace=other").await, [json!(null); 0]);
    assert_eq!(ids("namespace=*").await.len(), 2);
}

#[tokio::test]
async fn what_an_evaluation_placed_is_listed() {
    let router = api(&world());
    let placed = get(&router, &format!("/v1/evaluation/{EVAL}/allocations")).await.json();
    assert_eq!(placed.as_array().map(Vec::len), Some(2));
    assert!(placed.as_array().expect("a list").iter().any(|alloc| alloc["ID"] == RUNNING.to_string()));
    let nothing = get(&router, &format!("/v1/evaluation/{BLOCKED}/allocations")).await.json();
    assert_eq!(nothing, json!([]));
}

#[tokio::test]
async fn the_plan_traces_of_an_evaluation_are_listed() {
    let world = world();
    let plan = |eval, planner, refused_nodes: Vec<NodeId>| PlanTrace {
        eval,
        job: JobKey::new("default", "web"),
        planner,
        snapshot_index: Index(4),
        begun_at: Timestamp(1_000),
        ended_at: Timestamp(2_000),
        overtaken: 1,
        committed: 2,
        refused: refused_nodes.len(),
        refused_nodes,
    };
    let plans = vec![plan(EVAL, 0, vec![NODE_1]), plan(BLOCKED, 1, Vec::new()), plan(EVAL, 1, Vec::new())];
    *world.plans.lock().unwrap() = plans;
    let target = format!("/v1/evaluation/{EVAL}/plans");
    check_get(&world, &target, expect_file!["golden/evaluation_plans.txt"]).await;
    let router = api(&world);
    let all = get(&router, "/v1/operator/scheduler/plans").await.json();
    assert_eq!(all.as_array().map(Vec::len), Some(3));
    let unknown = get(&router, "/v1/evaluation/dddd/plans").await;
    assert_eq!((unknown.status.as_u16(), unknown.body.as_str()), (404, "eval not found"));
}
