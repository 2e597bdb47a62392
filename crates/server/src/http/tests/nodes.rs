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
    expect![].assert_eq(&closed.show());
    let node = get(&router, &format!("/v1/node/{NODE_1}")).await.json();
    assert_eq!(node["SchedulingEligibility"], "ineligible");
    let wrong = answer(&router, "PUT", &target, r#"{"Eligibility":"maybe"}"#).await;
    expect![].assert_eq(&wrong.show());
    let unknown = answer(&router, "PUT", &target.replace('1', "3"), r#"{"Eligibility":"eligible"}"#).await;
    assert_eq!(unknown.status, 400, "that is no path");
}

#[tokio::test]
async fn a_nodes_secret_is_never_shown() {
    let router = api(&world());
    for target in ["/v1/nodes?resources=true&os=true".to_owned(), format!("/v1/node/{NODE_1}")] {
        let body = get(&router, &target).await.body;
        assert!(!body.contains("ecret") && !body.contains("must never"), "{body}");
    }
}
