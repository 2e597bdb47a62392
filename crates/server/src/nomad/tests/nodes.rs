//! Nodes, and what runs on them.

use berth_model::{
    EvalId, JobKey,
    command::Command,
    job::{Job, JobType},
    node::NodeStatus,
};
use expect_test::{expect, expect_file};
use serde_json::{Value, json};

use super::{
    events::Stream,
    exchange::{answer, api, check_get, get},
    world::{NODE_1, NODE_2, RUNNING, register, small_job, world},
};

#[tokio::test]
async fn nodes_are_read() {
    let world = world();
    check_get(&world, "/v1/nodes?resources=true&prefix=1", expect_file!["golden/nodes.txt"]).await;
    check_get(&world, &format!("/v1/node/{NODE_1}"), expect_file!["golden/node.txt"]).await;
}

#[tokio::test]
async fn a_pools_nodes_are_listed() {
    let router = api(&world());
    for (pool, nodes) in [("default", 2), ("all", 2), ("gpu", 0)] {
        for target in [format!("/v1/node/pool/{pool}/nodes"), format!("/v1/nodes?node_pool={pool}")] {
            let listed = get(&router, &target).await.json();
            assert_eq!(listed.as_array().map(Vec::len), Some(nodes), "{target}");
        }
    }
}

#[tokio::test]
async fn a_nodes_allocations_come_with_their_jobs() {
    let router = api(&world());
    let allocs = get(&router, &format!("/v1/node/{NODE_1}/allocations")).await.json();
    assert_eq!(allocs.as_array().map(Vec::len), Some(1));
    assert_eq!((&allocs[0]["ID"], &allocs[0]["Job"]["ID"]), (&RUNNING.to_string().into(), &"web".into()));
}

#[tokio::test]
async fn a_node_is_closed_to_new_work() {
    let router = api(&world());
    let target = format!("/v1/node/{NODE_1}/eligibility");
    let closed = answer(&router, "PUT", &target, r#"{"Eligibility":"ineligible"}"#).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 7
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalCreateIndex": 0,
          "EvalIDs": [],
          "Index": 7,
          "NodeModifyIndex": 7
        }
    "#]]
    .assert_eq(&closed.show());
    let node = get(&router, &format!("/v1/node/{NODE_1}")).await.json();
    assert_eq!(node["SchedulingEligibility"], "ineligible");
    let wrong = answer(&router, "PUT", &target, r#"{"Eligibility":"maybe"}"#).await;
    expect![[r#"
        400 Bad Request
        content-type: text/plain; charset=utf-8

        Eligibility must be `eligible` or `ineligible`
    "#]]
    .assert_eq(&wrong.show());
    let unknown = "/v1/node/33333333-0000-4000-8000-000000000003/eligibility";
    let unknown = answer(&router, "PUT", unknown, r#"{"Eligibility":"eligible"}"#).await;
    assert_eq!((unknown.status.as_u16(), unknown.body.as_str()), (404, "node not found"));
}

#[tokio::test]
async fn the_jobs_that_a_node_concerns_are_evaluated() {
    let world = world();
    let mut everywhere = Job { job_type: JobType::System, ..small_job("everywhere") };
    world.apply(vec![register(everywhere.clone(), EvalId(21)), register(small_job("elsewhere"), EvalId(22))]);
    everywhere.key = JobKey::new("default", "of-another-pool");
    everywhere.node_pool = "gpu".into();
    world.apply(vec![register(everywhere, EvalId(23))]);
    let router = api(&world);
    let evaluated = answer(&router, "PUT", &format!("/v1/node/{NODE_1}/evaluate"), "").await.json();
    assert_eq!((&evaluated["EvalCreateIndex"], &evaluated["Index"]), (&json!(9), &json!(9)));
    assert_eq!(evaluated["NodeModifyIndex"], json!(2));
    let mut made = Vec::new();
    for id in evaluated["EvalIDs"].as_array().expect("a list") {
        let eval = get(&router, &format!("/v1/evaluation/{}", id.as_str().expect("an id"))).await.json();
        assert_eq!((&eval["NodeID"], &eval["Status"]), (&json!(NODE_1.to_string()), &json!("pending")));
        made.push(format!("{} {}", eval["JobID"], eval["TriggeredBy"]));
    }
    made.sort_unstable();
    assert_eq!(made, [r#""everywhere" "node-update""#, r#""web" "node-update""#]);
}

#[tokio::test]
async fn a_node_that_concerns_no_job_is_evaluated_without_an_evaluation() {
    let router = api(&world());
    let evaluated = answer(&router, "PUT", &format!("/v1/node/{NODE_2}/evaluate"), "").await;
    assert_eq!(
        (evaluated.status.as_u16(), evaluated.json()),
        (200, json!({ "EvalIDs": [], "EvalCreateIndex": 0, "NodeModifyIndex": 2, "Index": 2 }))
    );
    let unknown = answer(&router, "PUT", "/v1/node/33333333-0000-4000-8000-000000000003/evaluate", "").await;
    assert_eq!((unknown.status.as_u16(), unknown.body.as_str()), (404, "node not found"));
}

#[tokio::test]
async fn the_newest_events_of_a_node_are_kept_and_shown() {
    let world = world();
    let router = api(&world);
    let target = format!("/v1/node/{NODE_1}");
    let put = async |what: &str, body: &str| {
        assert_eq!(
            answer(&router, "PUT", &format!("{target}/{what}"), body.to_owned()).await.status,
            200,
            "{body}"
        );
    };
    put("eligibility", r#"{"Eligibility":"ineligible"}"#).await;
    put("eligibility", r#"{"Eligibility":"ineligible"}"#).await;
    put("drain", r#"{"DrainSpec":{"Deadline":0}}"#).await;
    put("drain", r#"{"DrainSpec":{"Deadline":60000000000}}"#).await;
    put("drain", r#"{"MarkEligible":true}"#).await;
    let down = |status| Command::SetNodeStatus(NODE_1, status, None);
    world.apply(vec![down(NodeStatus::Down)]);
    world.apply(vec![down(NodeStatus::Initializing)]);
    world.apply(vec![down(NodeStatus::Ready)]);
    let read_node = async || {
        let node = get(&router, &target).await.json();
        let events = node["Events"].as_array().expect("a list").clone();
        let shown = |event: &Value| {
            assert_eq!(event["Details"], json!({}));
            format!("{} {} {}\n", event["CreateIndex"], event["Subsystem"], event["Message"])
        };
        (events.iter().map(shown).collect::<String>(), events)
    };
    let (shown, events) = read_node().await;
    expect![[r#"
        1 "Cluster" "registered"
        7 "Cluster" "ineligible for new work"
        9 "Drain" "drain begun"
        10 "Drain" "drain changed"
        11 "Drain" "drain canceled"
        12 "Heartbeat" "down: its agent was not heard for too long"
    "#]]
    .assert_eq(&shown);
    assert_eq!(events[0]["Timestamp"], "2023-11-14T22:13:21Z");
    for number in 0..9 {
        put("eligibility", &format!(r#"{{"Eligibility":"{}ligible"}}"#, ["ine", "e"][number % 2])).await;
    }
    let (shown, events) = read_node().await;
    assert_eq!((events.len(), shown.contains("registered")), (10, false), "the newest: {shown}");
    assert_eq!(events[9]["Message"], "ineligible for new work");
    // The stream shows the node with them.
    let mut stream = Stream::open(&world, "topic=Node&index=7").await;
    let node = &stream.frame().await.events[0].payload["Node"];
    assert_eq!(
        (&node["Events"][1]["Message"], node["Events"].as_array().map(Vec::len)),
        (&json!("ineligible for new work"), Some(2))
    );
}

#[tokio::test]
async fn a_nodes_secret_is_never_shown() {
    let router = api(&world());
    for target in ["/v1/nodes?resources=true&os=true".to_owned(), format!("/v1/node/{NODE_1}")] {
        let body = get(&router, &target).await.body;
        assert!(!body.contains("ecret") && !body.contains("must never"), "{body}");
    }
}
