//! Nodes, and what runs on them.

use expect_test::{expect, expect_file};

use super::{
    exchange::{answer, api, check_get, get},
    world::{NODE_1, RUNNING, world},
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
async fn a_nodes_secret_is_never_shown() {
    let router = api(&world());
    for target in ["/v1/nodes?resources=true&os=true".to_owned(), format!("/v1/node/{NODE_1}")] {
        let body = get(&router, &target).await.body;
        assert!(!body.contains("ecret") && !body.contains("must never"), "{body}");
    }
}
