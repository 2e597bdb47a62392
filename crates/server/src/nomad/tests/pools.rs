//! Node pools: created, listed and deleted, with the rights to it.

use std::sync::Arc;

use axum::{Router, body::Body, http::Request};
use berth_model::{
    EvalId, Index, NodeId,
    acl::{AclPolicy, ChangeAcl},
    command::Command,
    job::Job,
    node::Node,
};
use serde_json::{Value, json};

use super::{
    acl::{change, token},
    exchange::{Answer, answer, answer_with, api, get, governed, send},
    fake_engine::FakeEngine,
    world::{NODE_1, node, register, small_job, world},
};
use crate::access::Acls;

async fn put(router: &Router, target: &str, body: Value) -> Answer {
    answer(router, "PUT", target, body.to_string()).await
}

fn names(listed: &Answer) -> Vec<String> {
    let pools = listed.json();
    let names = pools.as_array().expect("a list").iter().map(|pool| pool["Name"].as_str().expect("text"));
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_pool_is_described_listed_and_deleted() {
    let world = world();
    let router = api(&world);
    let made =
        put(&router, "/v1/node/pools", json!({ "Name": "gpu", "Description": "d", "Meta": { "a": "b" } }));
    assert_eq!(made.await.status, 200);
    assert_eq!(put(&router, "/v1/node/pool/spot", json!({})).await.status, 200);
    assert_eq!(names(&get(&router, "/v1/node/pools").await), ["all", "default", "gpu", "spot"]);
    let read = get(&router, "/v1/node/pool/gpu").await.json();
    assert_eq!((&read["Description"], &read["Meta"]), (&json!("d"), &json!({ "a": "b" })));
    assert_eq!(read["CreateIndex"], 7);

    let in_pool = Node { pool: "gpu".to_owned(), ..node(NodeId(9), "n9") };
    world.apply(vec![Command::RegisterNode(Box::new(in_pool))]);
    let job = Job { node_pool: "spot".to_owned(), ..small_job("spotty") };
    world.apply(vec![register(job, EvalId(99))]);
    let jobs = get(&router, "/v1/node/pool/spot/jobs").await.json();
    assert_eq!((jobs.as_array().map(Vec::len), &jobs[0]["ID"]), (Some(1), &json!("spotty")));
    assert_eq!(get(&router, "/v1/node/pool/gpu/nodes").await.json()[0]["Name"], "n9");
    for (pool, status, why) in [
        ("gpu", 409, "it has nodes, as "),
        ("spot", 409, "it has non-terminal jobs, as default/spotty"),
        ("default", 409, "always there"),
        ("none", 404, "does not exist"),
    ] {
        let refused = answer(&router, "DELETE", &format!("/v1/node/pool/{pool}"), Body::empty()).await;
        assert_eq!(refused.status, status, "{pool}: {}", refused.body);
        assert!(refused.body.contains(why), "{pool}: {}", refused.body);
    }
    put(&router, "/v1/node/pools", json!({ "Name": "idle" })).await;
    assert_eq!(answer(&router, "DELETE", "/v1/node/pool/idle", Body::empty()).await.status, 200);
    assert_eq!(get(&router, "/v1/node/pool/idle").await.status, 404);
}

#[tokio::test]
async fn what_cannot_be_said_of_a_pool_is_refused_by_name() {
    let router = api(&world());
    for (body, why) in [
        (json!({ "Name": "" }), "a name has 1 to 128"),
        (json!({ "Name": "a b" }), "a name has 1 to 128"),
        (json!({ "Name": "default" }), "always there"),
        (
            json!({ "Name": "a", "SchedulerConfiguration": { "SchedulerAlgorithm": "spread" } }),
            "SchedulerConfiguration",
        ),
        (json!({ "Name": "a", "NodeIdentityTTL": 1 }), "NodeIdentityTTL"),
        (json!({ "Name": "a", "NodeIdentityTTL": "25h" }), "NodeIdentityTTL"),
        (json!({ "Name": "a", "Description": "x".repeat(5000) }), "Description has 5000 bytes"),
        (json!({ "Name": "a", "Meta": { "m": "x".repeat(20_000) } }), "Meta has"),
    ] {
        let refused = put(&router, "/v1/node/pools", body.clone()).await;
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.body.contains(why), "{}", refused.body);
    }
    for (ttl, config) in
        [(json!(""), Value::Null), (json!("24h0m0s"), json!({})), (json!(0), json!({ "A": "" }))]
    {
        let body = json!({ "Name": "a", "NodeIdentityTTL": ttl, "SchedulerConfiguration": config });
        assert_eq!(put(&router, "/v1/node/pools", body.clone()).await.status, 200, "{body}");
    }
    let named = put(&router, "/v1/node/pool/a", json!({ "Name": "b" })).await;
    assert_eq!(named.status, 400, "{}", named.body);
}

/// A world with some pools, and a token by rules.
fn with_token(rules: &str) -> (Arc<FakeEngine>, Router) {
    let engine = world();
    for (number, pool) in [(9, "gpu"), (10, "gpu-eu"), (11, "secret")] {
        let in_pool = Node { pool: pool.to_owned(), ..node(NodeId(number), pool) };
        engine.apply(vec![Command::RegisterNode(Box::new(in_pool))]);
    }
    let policy = AclPolicy {
        name: "p".to_owned(),
        description: String::new(),
        rules: rules.to_owned(),
        create_index: Index(0),
        modify_index: Index(0),
        job: None,
    };
    change(&engine, ChangeAcl::PutPolicy(Box::new(policy)));
    change(&engine, ChangeAcl::PutToken(Box::new(token(1, "secret", Some("p")))));
    let router = governed(&engine, Acls::default());
    (engine, router)
}

async fn request_of(router: &Router, method: &str, target: &str, body: Value) -> Answer {
    answer_with(router, method, target, ("secret", body.to_string())).await
}

#[tokio::test]
async fn pools_are_seen_and_changed_by_the_rule_that_fits_their_names_best() {
    let (_, router) = with_token(
        r#"
        node_pool "gpu*" { policy = "write" }
        node_pool "gpu-eu" { capabilities = ["read"] }
        node_pool "*" { policy = "read" }
        node_pool "secret" { policy = "deny" }
        "#,
    );
    let listed = request_of(&router, "GET", "/v1/node/pools", Value::Null).await;
    assert_eq!(names(&listed), ["all", "default", "gpu", "gpu-eu"]);
    for (method, target, status) in [
        ("GET", "/v1/node/pool/gpu", 200),
        ("GET", "/v1/node/pool/secret", 403),
        ("GET", "/v1/node/pool/none", 404),
        ("PUT", "/v1/node/pool/gpu", 200),
        ("PUT", "/v1/node/pool/gpu-eu", 403),
        ("PUT", "/v1/node/pool/other", 403),
        ("DELETE", "/v1/node/pool/gpu-eu", 403),
        ("DELETE", "/v1/node/pool/gpu", 409),
        ("GET", "/v1/node/pool/gpu/nodes", 403),
        ("GET", "/v1/node/pool/gpu/jobs", 403),
        ("GET", "/v1/nodes", 403),
    ] {
        let answer = request_of(&router, method, target, json!({})).await;
        assert_eq!(answer.status, status, "{method} {target}: {}", answer.body);
        assert!(!answer.body.contains("secret") || target.contains("secret"), "{}", answer.body);
    }
    let refused = request_of(&router, "PUT", "/v1/node/pools", json!({ "Name": "secret" })).await;
    assert_eq!(refused.status, 403);
    assert!(refused.body.contains(r#"node_pool:write on node pool "secret""#), "{}", refused.body);
    let searched =
        request_of(&router, "PUT", "/v1/search", json!({ "Prefix": "", "Context": "all" })).await.json();
    assert_eq!(searched["Matches"], json!({ "node_pools": ["all", "default", "gpu", "gpu-eu"] }));
}

/// As with Nomad: submitting jobs takes no right to the pool, and nodes are listed whatever pools they are in.
#[tokio::test]
async fn rules_about_pools_are_about_pools_alone() {
    let (_, router) = with_token(
        r#"
        namespace "default" { policy = "write" }
        node { policy = "read" }
        node_pool "gpu" { policy = "deny" }
        "#,
    );
    let job = Job { node_pool: "gpu".to_owned(), ..small_job("j") };
    let body = json!({ "Job": berth_jobfile::to_json(&job) });
    assert_eq!(request_of(&router, "PUT", "/v1/jobs", body).await.status, 200);
    let nodes = request_of(&router, "GET", "/v1/nodes", Value::Null).await.json();
    assert_eq!(nodes.as_array().map(Vec::len), Some(5));
    for target in ["/v1/node/pools", "/v1/node/pool/gpu", "/v1/node/pool/gpu/nodes", "/v1/node/pool/gpu/jobs"]
    {
        assert_eq!(request_of(&router, "GET", target, Value::Null).await.status, 403, "{target}");
    }
}

#[tokio::test]
async fn with_rights_to_nodes_only_search_and_events_have_only_nodes() {
    let (_, router) = with_token(r#"node { policy = "read" }"#);
    let searched =
        request_of(&router, "PUT", "/v1/search", json!({ "Prefix": "1111", "Context": "all" })).await.json();
    assert_eq!(searched["Matches"], json!({ "nodes": [NODE_1.to_string()] }));
    let fuzzy = request_of(&router, "PUT", "/v1/search/fuzzy", json!({ "Text": "n1", "Context": "all" }))
        .await
        .json();
    assert_eq!(fuzzy["Matches"]["nodes"][0]["ID"], "n1");
    for (context, word) in [
        ("jobs", "read-job"),
        ("allocs", "read-job"),
        ("deployments", "read-job"),
        ("vars", "variables:list"),
        ("quotas", "quota:read"),
        ("node_pools", "node_pool:read"),
        ("namespaces", "any capability"),
    ] {
        let refused =
            request_of(&router, "PUT", "/v1/search", json!({ "Prefix": "", "Context": context })).await;
        assert_eq!(refused.status, 403, "{context}: {}", refused.body);
        assert!(refused.body.contains(word), "{context}: {}", refused.body);
    }
    for (topic, status) in [
        ("", 403),
        ("?topic=Node", 200),
        ("?topic=*", 403),
        ("?topic=Job", 403),
        ("?topic=Node&topic=Allocation", 200),
        ("?topic=NodePool", 403),
        ("?topic=Variable", 403),
        ("?namespace=*&topic=Job", 403),
    ] {
        let target = format!("/v1/event/stream{topic}");
        let request = Request::builder().uri(&target).header("x-nomad-token", "secret");
        let answered = send(&router, request.body(Body::empty()).expect("it is a request")).await;
        assert_eq!(answered.status(), status, "{target}");
    }
}

#[tokio::test]
async fn a_job_for_a_missing_pool_is_refused() {
    let world = world();
    let router = api(&world);
    let warnings = async || {
        let job = json!({ "ID": "spotty", "NodePool": "spot", "TaskGroups": [{ "Name": "g", "Tasks": [{
            "Name": "t", "Driver": "mock_driver",
        }] }] });
        let registered = put(&router, "/v1/jobs", json!({ "Job": job })).await.json();
        registered["Warnings"].as_str().expect("text").to_owned()
    };
    let message = warnings().await;
    assert!(message.contains("node pool `spot` has no node, and no operator has described it"), "{message}");
    world.apply(vec![Command::RegisterNode(Box::new(Node {
        pool: "spot".to_owned(),
        ..node(NodeId(9), "n9")
    }))]);
    let message = warnings().await;
    assert!(!message.contains("spot"), "{message}");
}
