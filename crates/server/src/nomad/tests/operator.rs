//! Routes for operators: servers, pools, garbage collection; and those that agents do not support.

use axum::{Router, body::Body};
use berth_model::{AllocId, EvalId, command::Command, eval::EvalStatus, job::Job, node::NodeStatus};
use expect_test::{expect, expect_file};
use serde_json::json;

use super::{
    exchange::{answer, api, check_get, get},
    world::{FAILED, NODE_2, RUNNING, end, register, small_job, world, world_with_an_update},
};
use crate::shared::{ServerStatus, Servers};

#[tokio::test]
async fn servers_and_pools_are_read() {
    let world = world();
    check_get(&world, "/v1/operator/raft/configuration", expect_file!["golden/raft_configuration.txt"]).await;
    check_get(&world, "/v1/operator/autopilot/health", expect_file!["golden/autopilot_health.txt"]).await;
    check_get(&world, "/v1/node/pools", expect_file!["golden/node_pools.txt"]).await;
    check_get(&world, "/v1/deployments", expect_file!["golden/empty_list.txt"]).await;
    let router = api(&world);
    assert_eq!(get(&router, "/v1/node/pool/default").await.json()["Name"], "default");
    assert_eq!(get(&router, "/v1/node/pool/gpu").await.body, "node pool not found");
    assert_eq!(get(&router, "/v1/node/pools?prefix=def").await.json().as_array().map(Vec::len), Some(1));
    let none = get(&router, "/v1/deployment/dddddddd-0000-4000-8000-000000000001").await;
    assert_eq!((none.status.as_u16(), none.body.as_str()), (404, "deployment not found"));
}

#[tokio::test]
async fn a_transfer_names_the_old_and_the_new_leader() {
    let world = world();
    let server = |id: u64| ServerStatus {
        id,
        name: format!("s{id}"),
        agent_addr: format!("10.0.0.{id}:4647"),
        voter: true,
        ..ServerStatus::default()
    };
    let all = vec![server(1), server(2)];
    *world.servers.lock().expect("no test panics here") =
        Servers { own: 1, leader: Some(1), all, ..Servers::default() };
    let router = api(&world);
    let transfer = async |query: &str| {
        let message =
            answer(&router, "PUT", &format!("/v1/operator/raft/transfer-leadership{query}"), "").await.json();
        json!([message["From"]["Node"], message["To"]["Address"], message["To"]["Leader"], message["Noop"]])
    };
    assert_eq!(transfer("?id=2").await, json!(["s1.global", "10.0.0.2:4647", true, false]));
    assert_eq!(transfer("?id=2").await, json!(["s2.global", "10.0.0.2:4647", true, true]));
    assert_eq!(transfer("").await, json!(["s2.global", "10.0.0.1:4647", true, false]));
}

#[tokio::test]
async fn what_there_is_none_of_yet_is_listed_empty() {
    let router = api(&world());
    let of_alloc = format!("/v1/allocation/{RUNNING}/services");
    let services = ["/v1/services", "/v1/service/web", &of_alloc];
    for path in
        ["/v1/volumes?type=csi", "/v1/plugins?type=csi", "/v1/vars?prefix=a"].into_iter().chain(services)
    {
        let list = get(&router, path).await;
        expect_file!["golden/empty_list.txt"].assert_eq(&list.show());
        let filtered = get(&router, &format!("{}?filter=ID", path.split('?').next().unwrap_or(path))).await;
        assert_eq!(filtered.status, 400, "{path}: a filter that does not read is refused");
    }
}

#[tokio::test]
async fn what_has_ended_is_forgotten_when_asked() {
    let world = world_with_an_update();
    let router = api(&world);
    let ids = async |target: &str| {
        let list = get(&router, target).await.json();
        list.as_array().expect("a list").iter().map(|item| item["ID"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(answer(&router, "PUT", "/v1/system/reconcile/summaries", Body::empty()).await.status, 200);
    assert_eq!(answer(&router, "PUT", "/v1/system/gc", Body::empty()).await.status, 200);
    assert_eq!(ids("/v1/allocations").await, [json!(RUNNING.to_string())], "what runs stays");
    assert_eq!(ids("/v1/evaluations").await.len(), 2, "what is open stays");
    assert_eq!(ids("/v1/jobs").await, [json!("web")]);
    let index = world.view.load().index;
    assert_eq!(answer(&router, "PUT", "/v1/system/gc", Body::empty()).await.status, 200);
    assert_eq!(world.view.load().index, index, "nothing is left to forget");
}

/// Nomad's clients send a GET, its documentation says PUT.
#[tokio::test]
async fn what_has_ended_on_a_node_is_forgotten_alone() {
    for method in ["GET", "PUT"] {
        let world = world_with_an_update();
        let router = api(&world);
        let there = async || get(&router, &format!("/v1/allocation/{FAILED}")).await.status.as_u16();
        let which = answer(&router, method, "/v1/client/gc", Body::empty()).await;
        assert_eq!((which.status.as_u16(), which.body.contains("node_id")), (400, true), "{}", which.body);
        assert_eq!(answer(&router, "HEAD", "/v1/client/gc?node_id=2222", Body::empty()).await.status, 405);
        assert_eq!(answer(&router, method, "/v1/client/gc?node_id=1111", Body::empty()).await.status, 200);
        assert_eq!(there().await, 200, "it has ended on another node");
        let done = answer(&router, method, "/v1/client/gc?node_id=2222", Body::empty()).await;
        assert_eq!((done.status.as_u16(), &*done.body), (200, "{}"));
        assert_eq!(there().await, 404);
        assert_eq!(get(&router, &format!("/v1/allocation/{RUNNING}")).await.status, 200, "what runs stays");
    }
}

#[tokio::test]
async fn an_allocation_is_forgotten_once_it_has_ended() {
    for method in ["GET", "PUT"] {
        let gc_of = async |router: &Router, id: AllocId| {
            answer(router, method, &format!("/v1/client/allocation/{id}/gc"), Body::empty()).await
        };
        let failed = gc_of(&api(&world()), FAILED).await;
        assert_eq!(failed.status.as_u16(), 409, "it has its place: {}", failed.body);
        assert!(failed.body.contains("berth job eval -force-reschedule"), "{}", failed.body);
        let world = world_with_an_update();
        let router = api(&world);
        let gc = async |id: AllocId| gc_of(&router, id).await;
        let runs = gc(RUNNING).await;
        assert_eq!(
            (runs.status.as_u16(), runs.body.contains("berth alloc stop")),
            (409, true),
            "{}",
            runs.body
        );
        assert_eq!(gc(FAILED).await.status, 200);
        assert_eq!(gc(FAILED).await.status, 404, "it is gone");
        assert_eq!(get(&router, "/v1/allocations").await.json().as_array().map(Vec::len), Some(1));
    }
}

/// Each time that something is forgotten another job has ended: a request that went on for as long would never be answered.
#[tokio::test]
async fn what_ends_while_others_are_forgotten_is_left_for_later() {
    let world = world();
    let over = |number: u128| {
        let job = Job { stop: true, ..small_job(&format!("over-{number}")) };
        let is_answered = Command::SetEvalStatus(EvalId(number), EvalStatus::Complete, String::new());
        vec![register(job, EvalId(number)), is_answered]
    };
    world.apply(over(0));
    world.overtaken_by.lock().expect("no test panics here").extend((1..=50).map(over));
    assert_eq!(answer(&api(&world), "PUT", "/v1/system/gc", Body::empty()).await.status, 200);
    let left = world.overtaken_by.lock().expect("no test panics here").len();
    assert!((40..50).contains(&left), "{left} of 50 have not ended: the request was answered");
}

#[tokio::test]
async fn a_node_is_forgotten_once_it_is_down_and_empty() {
    let world = world();
    let router = api(&world);
    let target = format!("/v1/node/{NODE_2}/purge");
    let refused = answer(&router, "PUT", &target, Body::empty()).await;
    assert_eq!(
        (refused.status.as_u16(), refused.body.as_str()),
        (409, "the node is ready: stop its agent first")
    );
    world.apply(vec![Command::SetNodeStatus(NODE_2, NodeStatus::Down, None)]);
    let purged = answer(&router, "PUT", &target, Body::empty()).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 8
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalCreateIndex": 0,
          "EvalIDs": [],
          "Index": 8,
          "NodeModifyIndex": 8
        }
    "#]]
    .assert_eq(&purged.show());
    assert_eq!(get(&router, &format!("/v1/node/{NODE_2}")).await.status, 404);

    let other = super::world::NODE_1;
    world.apply(vec![Command::SetNodeStatus(other, NodeStatus::Down, None)]);
    let target = format!("/v1/node/{other}/purge");
    let refused = answer(&router, "PUT", &target, Body::empty()).await;
    expect!["1 allocations have not ended on the node yet: try again in a moment"].assert_eq(&refused.body);
    world.apply(vec![Command::EndAllocs(vec![end(RUNNING)])]);
    assert_eq!(answer(&router, "PUT", &target, Body::empty()).await.status, 200);
}
