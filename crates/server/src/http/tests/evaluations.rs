//! Evaluations: their relatives, and why something could not be placed.

use expect_test::expect_file;
use serde_json::json;

use super::{
    exchange::{api, check_get, get},
    world::{BLOCKED, EVAL, RUNNING, world},
};

#[tokio::test]
async fn evaluations_are_read() {
    let world = world();
    check_get(&world, "/v1/evaluations", expect_file!["golden/evaluations.txt"]).await;
    let related = format!("/v1/evaluation/{EVAL}?related=true");
    check_get(&world, &related, expect_file!["golden/evaluation.txt"]).await;
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
