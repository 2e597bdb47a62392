//! Search.

use expect_test::expect;
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api},
    world::{register, small_job, world},
};
use berth_model::EvalId;

async fn search(router: &axum::Router, path: &str, body: Value) -> Answer {
    answer(router, "PUT", path, body.to_string()).await
}

#[tokio::test]
async fn what_begins_with_a_text_is_found() {
    let router = api(&world());
    let everywhere = search(&router, "/v1/search", json!({ "Prefix": "aa", "Context": "all" })).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 6
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "Matches": {
            "allocs": [
              "aaaaaaaa-0000-4000-8000-000000000001",
              "aaaabbbb-0000-4000-8000-000000000002"
            ],
            "deployment": [],
            "evals": [],
            "jobs": [],
            "namespaces": [],
            "node_pools": [],
            "nodes": [],
            "quotas": [],
            "scaling_policy": [],
            "vars": []
          },
          "Truncations": {
            "allocs": false,
            "deployment": false,
            "evals": false,
            "jobs": false,
            "namespaces": false,
            "node_pools": false,
            "nodes": false,
            "quotas": false,
            "scaling_policy": false,
            "vars": false
          }
        }
    "#]]
    .assert_eq(&everywhere.show());
    let jobs = search(&router, "/v1/search", json!({ "Prefix": "we", "Context": "jobs" })).await.json();
    assert_eq!(jobs, json!({ "Matches": { "jobs": ["web"] }, "Truncations": { "jobs": false } }));
    let other =
        search(&router, "/v1/search?namespace=other", json!({ "Prefix": "", "Context": "jobs" })).await;
    assert_eq!(other.json()["Matches"]["jobs"], json!([]));
    let vars = search(&router, "/v1/search", json!({ "Prefix": "", "Context": "vars" })).await;
    assert_eq!(vars.json()["Matches"], json!({ "vars": [] }));
    let nothing = search(&router, "/v1/search", json!({ "Prefix": "", "Context": "volumes" })).await;
    assert_eq!(nothing.json()["Matches"], json!({}));
}

#[tokio::test]
async fn too_many_matches_are_truncated_and_reported_so() {
    let world = world();
    world.apply((0..25).map(|at| register(small_job(&format!("job-{at:02}")), EvalId(at))).collect());
    let router = api(&world);
    for (path, body) in [
        ("/v1/search", json!({ "Prefix": "job", "Context": "jobs" })),
        ("/v1/search/fuzzy", json!({ "Text": "ob-", "Context": "jobs" })),
    ] {
        let found = search(&router, path, body).await.json();
        assert_eq!(found["Matches"]["jobs"].as_array().map(Vec::len), Some(20));
        assert_eq!(found["Truncations"]["jobs"], true);
    }
}

#[tokio::test]
async fn what_has_a_text_in_its_name_is_found() {
    let router = api(&world());
    let found = search(&router, "/v1/search/fuzzy", json!({ "Text": "ERV", "Context": "all" })).await;
    expect![[r#"{"Matches":{"tasks":[{"ID":"server","Scope":["default","web","app"]}]},"Truncations":{"tasks":false}}"#]].assert_eq(&found.body);
    let nodes = search(&router, "/v1/search/fuzzy", json!({ "Text": "n2", "Context": "nodes" })).await;
    expect![[r#"{"Matches":{"nodes":[{"ID":"n2","Scope":["22222222-0000-4000-8000-000000000002"]}]},"Truncations":{"nodes":false}}"#]].assert_eq(&nodes.body);
}

#[tokio::test]
async fn searches_that_make_no_sense_are_refused() {
    let router = api(&world());
    let mut shown = String::new();
    for (path, body) in [
        ("/v1/search", json!({ "Prefix": "a", "Context": "job" })),
        ("/v1/search/fuzzy", json!({ "Text": "a" })),
        ("/v1/search/fuzzy", json!({ "Text": "ab", "Context": "allocs" })),
    ] {
        let answer = search(&router, path, body).await;
        shown += &format!("{path} -> {} {}\n", answer.status.as_u16(), answer.body);
    }
    expect![[r#"
        /v1/search -> 400 Context: `job` is not one of all, allocs, deployment, evals, jobs, namespaces, node_pools, nodes, quotas, scaling_policy, vars
        /v1/search/fuzzy -> 400 Text has less than 2 characters
        /v1/search/fuzzy -> 400 Context: `allocs` is not one of all, classes, groups, jobs, namespaces, node_pools, nodes, quotas, tasks, vars
    "#]].assert_eq(&shown);
}
