//! The server itself, and its metrics.

use std::sync::{Arc, atomic::Ordering};

use berth_model::{command::Command, node::NodeStatus};
use expect_test::{expect, expect_file};

use super::{
    exchange::{answer, api, check_get, get},
    fake_engine::FakeEngine,
    world::{NODE_1, NODE_2, node, world},
};

#[tokio::test]
async fn the_server_reports_its_identity() {
    let world = world();
    check_get(&world, "/v1/agent/self", expect_file!["golden/agent_self.txt"]).await;
    check_get(&world, "/v1/agent/members", expect_file!["golden/agent_members.txt"]).await;
    check_get(&world, "/v1/namespaces", expect_file!["golden/namespaces.txt"]).await;
    let router = api(&world);
    let body = async |target: &str| get(&router, target).await.body;
    expect![[r#"{"server":{"ok":true,"message":"ok"}}"#]].assert_eq(&body("/v1/agent/health").await);
    expect![[r#"
        ok
    "#]]
    .assert_eq(&body("/healthz").await);
    expect![[r#""127.0.0.1:4647""#]].assert_eq(&body("/v1/status/leader").await);
    expect![[r#"["127.0.0.1:4647"]"#]].assert_eq(&body("/v1/status/peers").await);
    expect![[r#"["global"]"#]].assert_eq(&body("/v1/regions").await);
    assert_eq!(get(&router, "/v1/namespace/team").await.status, 404);
}

/// Nomad's `-self` asks for it.
#[tokio::test]
async fn a_server_with_one_node_names_it_as_its_own() {
    let engine = Arc::new(FakeEngine::default());
    let own = async || get(&api(&engine), "/v1/agent/self").await.json()["stats"]["client"].clone();
    engine.apply(vec![Command::RegisterNode(Box::new(node(NODE_1, "n1")))]);
    assert_eq!(own().await["node_id"], NODE_1.to_string());
    engine.apply(vec![Command::RegisterNode(Box::new(node(NODE_2, "n2")))]);
    assert!(own().await.is_null(), "which one is meant?");
}

#[tokio::test]
async fn the_only_agent_is_healthy_when_its_node_is_ready() {
    let engine = Arc::new(FakeEngine::default());
    let health = async |query: &str| {
        let answer = get(&api(&engine), &format!("/v1/agent/health{query}")).await;
        (answer.status.as_u16(), answer.body)
    };
    let server = r#""server":{"ok":true,"message":"ok"}"#;
    assert_eq!(health("").await, (200, format!("{{{server}}}")), "there is no agent");
    assert_eq!(health("?type=client").await, (200, "{}".to_owned()));
    engine.apply(vec![Command::RegisterNode(Box::new(node(NODE_1, "n1")))]);
    let client = format!(r#""client":{{"ok":false,"message":"node {NODE_1} is initializing"}}"#);
    assert_eq!(health("").await, (200, format!("{{{server},{client}}}")));
    assert_eq!(health("?type=client").await, (500, format!("{{{client}}}")));
    assert_eq!(health("?type=server").await, (200, format!("{{{server}}}")));
    engine.apply(vec![Command::SetNodeStatus(NODE_1, NodeStatus::Ready, None)]);
    assert_eq!(health("?type=client").await, (200, r#"{"client":{"ok":true,"message":"ok"}}"#.to_owned()));
    let (status, response) = health("?type=both").await;
    assert!(status == 400 && response.contains("`client` or `server`"), "{status} {response}");
}

#[tokio::test]
async fn the_servers_of_agents_are_listed_and_not_changed_here() {
    let router = api(&world());
    expect![[r#"["127.0.0.1:4647"]"#]].assert_eq(&get(&router, "/v1/agent/servers").await.body);
    let put = async |query: &str| answer(&router, "PUT", &format!("/v1/agent/servers{query}"), "").await;
    let refused = put("?address=10.0.0.1&address=10.0.0.2:4647").await;
    assert_eq!(
        (refused.status.as_u16(), refused.body.contains("--servers")),
        (501, true),
        "{}",
        refused.body
    );
    for nothing in ["", "?address="] {
        let refused = put(nothing).await;
        assert_eq!((refused.status.as_u16(), refused.body.contains("?address=")), (400, true), "{nothing}");
    }
}

#[tokio::test]
async fn a_server_without_a_state_is_not_well() {
    let world = world();
    world.has_no_state.store(true, Ordering::Relaxed);
    let router = api(&world);
    let answer = async |target: &str| {
        let answer = get(&router, target).await;
        (answer.status.as_u16(), answer.body)
    };
    let expected = "this server has no state to be read yet".to_owned();
    assert_eq!(answer("/healthz").await, (503, expected.clone()));
    let health = format!(r#"{{"server":{{"ok":false,"message":"{expected}"}}}}"#);
    assert_eq!(answer("/v1/agent/health").await, (500, health));
    assert_eq!(answer("/v1/jobs?stale").await.0, 503);
    world.has_no_state.store(false, Ordering::Relaxed);
    assert_eq!(answer("/healthz").await, (200, "ok\n".to_owned()));
}

#[tokio::test]
async fn a_server_with_a_full_disk_is_unhealthy_although_others_accept_writes() {
    let world = world();
    world.disk_is_full.store(true, Ordering::Relaxed);
    let answer = get(&api(&world), "/healthz").await;
    assert_eq!((answer.status.as_u16(), &*answer.body), (200, "ok\nthis server's disk: disk full\n"));
}

/// Leaves out what differs from run to run.
fn without_times(text: &str) -> String {
    let varies = |line: &&str| {
        line.starts_with("berth_http_request_duration_seconds_")
            || line.contains("process_")
            || line.contains("berth_store_copied_bytes_total")
    };
    let lines = text.lines().filter(|line| !varies(line));
    lines.map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn metrics_are_served_in_both_formats() {
    let router = api(&world());
    get(&router, "/v1/jobs").await;
    get(&router, "/v1/job/nope").await;
    let text = get(&router, "/v1/metrics?format=prometheus").await;
    expect![[r#"
        200 OK
        content-type: text/plain; version=0.0.4; charset=utf-8
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        # HELP berth_allocations Allocations, by status; unknown are those on disconnected nodes.
        # TYPE berth_allocations gauge
        berth_allocations{status="pending"} 0
        berth_allocations{status="running"} 1
        berth_allocations{status="complete"} 0
        berth_allocations{status="failed"} 1
        berth_allocations{status="lost"} 0
        berth_allocations{status="unknown"} 0
        # HELP berth_cluster_cpu_allocated_mhz CPU reserved by allocations on connected nodes, in MHz.
        # TYPE berth_cluster_cpu_allocated_mhz gauge
        berth_cluster_cpu_allocated_mhz 200
        # HELP berth_cluster_cpu_mhz CPU of all connected nodes that allocations may reserve, in MHz.
        # TYPE berth_cluster_cpu_mhz gauge
        berth_cluster_cpu_mhz 7800
        # HELP berth_cluster_disk_allocated_bytes Disk reserved by allocations on connected nodes.
        # TYPE berth_cluster_disk_allocated_bytes gauge
        berth_cluster_disk_allocated_bytes 314572800
        # HELP berth_cluster_disk_bytes Disk of all connected nodes that allocations may reserve.
        # TYPE berth_cluster_disk_bytes gauge
        berth_cluster_disk_bytes 104857600000
        # HELP berth_cluster_memory_allocated_bytes Memory reserved by allocations on connected nodes.
        # TYPE berth_cluster_memory_allocated_bytes gauge
        berth_cluster_memory_allocated_bytes 67108864
        # HELP berth_cluster_memory_bytes Memory of all connected nodes that allocations may reserve.
        # TYPE berth_cluster_memory_bytes gauge
        berth_cluster_memory_bytes 16642998272
        # HELP berth_deployments_active Active deployments.
        # TYPE berth_deployments_active gauge
        berth_deployments_active 0
        # HELP berth_evaluations Evaluations, by status; delayed ones are planned at a later time.
        # TYPE berth_evaluations gauge
        berth_evaluations{status="pending"} 0
        berth_evaluations{status="blocked"} 1
        berth_evaluations{status="complete"} 1
        berth_evaluations{status="failed"} 0
        berth_evaluations{status="canceled"} 0
        berth_evaluations{status="delayed"} 0
        # HELP berth_evaluations_blocked_age_seconds Age of the oldest evaluation blocked for lack of resources; 0 without one.
        # TYPE berth_evaluations_blocked_age_seconds gauge
        berth_evaluations_blocked_age_seconds 2
        # HELP berth_evaluations_pending_age_seconds Age of the oldest evaluation ready to be planned; 0 without one.
        # TYPE berth_evaluations_pending_age_seconds gauge
        berth_evaluations_pending_age_seconds 0
        # HELP berth_http_connections Open HTTP connections.
        # TYPE berth_http_connections gauge
        berth_http_connections 0
        # HELP berth_http_connections_refused_total HTTP connections refused because their address has too many open.
        # TYPE berth_http_connections_refused_total counter
        berth_http_connections_refused_total 0
        # HELP berth_http_request_duration_seconds Time until the answer begins, by route; blocking queries and streams are left out.
        # TYPE berth_http_request_duration_seconds histogram
        # HELP berth_http_requests_limited_total Requests refused because their address or token exceeded its rate.
        # TYPE berth_http_requests_limited_total counter
        berth_http_requests_limited_total{limit="address"} 0
        berth_http_requests_limited_total{limit="token"} 0
        # HELP berth_http_requests_open Requests in progress.
        # TYPE berth_http_requests_open gauge
        berth_http_requests_open 1
        # HELP berth_http_requests_total Requests answered, by route and class of status code.
        # TYPE berth_http_requests_total counter
        berth_http_requests_total{code="2xx",method="GET",route="/v1/jobs"} 1
        berth_http_requests_total{code="4xx",method="GET",route="/v1/job/{id}"} 1
        # HELP berth_jobs Jobs, by status.
        # TYPE berth_jobs gauge
        berth_jobs{status="pending"} 0
        berth_jobs{status="running"} 1
        berth_jobs{status="dead"} 0
        # HELP berth_log_bytes_total Bytes written to the log.
        # TYPE berth_log_bytes_total counter
        berth_log_bytes_total 512
        # HELP berth_nodes Nodes, by status and scheduling eligibility.
        # TYPE berth_nodes gauge
        berth_nodes{status="initializing",scheduling="eligible"} 0
        berth_nodes{status="initializing",scheduling="ineligible"} 0
        berth_nodes{status="initializing",scheduling="draining"} 0
        berth_nodes{status="ready",scheduling="eligible"} 2
        berth_nodes{status="ready",scheduling="ineligible"} 0
        berth_nodes{status="ready",scheduling="draining"} 0
        berth_nodes{status="down",scheduling="eligible"} 0
        berth_nodes{status="down",scheduling="ineligible"} 0
        berth_nodes{status="down",scheduling="draining"} 0
        berth_nodes{status="disconnected",scheduling="eligible"} 0
        berth_nodes{status="disconnected",scheduling="ineligible"} 0
        berth_nodes{status="disconnected",scheduling="draining"} 0
        # HELP berth_nodes_held Nodes that missed their heartbeats and are not marked down, because too many did at once.
        # TYPE berth_nodes_held gauge
        berth_nodes_held 0
        # HELP berth_nodes_unconfirmed Nodes that have not confirmed their allocations since this server began to lead.
        # TYPE berth_nodes_unconfirmed gauge
        berth_nodes_unconfirmed 0
    "#]]
    .assert_eq(&without_times(&text.show()));
    let times = r#"berth_http_request_duration_seconds_count{method="GET",route="/v1/jobs"} 1"#;
    assert!(text.body.lines().any(|line| line == times), "{}", text.body);
    assert_eq!(get(&router, "/metrics").await.headers, text.headers);
    let json = get(&router, "/v1/metrics").await.json();
    let counters = json["Counters"].as_array().expect("counters");
    let requests = counters.iter().find(|counter| counter["Name"] == "berth_http_requests_total");
    expect![[r#"{"Count":1,"Labels":{"code":"2xx","method":"GET","route":"/v1/jobs"},"Name":"berth_http_requests_total","Sum":1.0}"#]].assert_eq(&requests.expect("requests are counted").to_string());
    expect![[r#"{"Labels":{"status":"pending"},"Name":"berth_allocations","Value":0.0}"#]]
        .assert_eq(&json["Gauges"][0].to_string());
    assert_eq!(get(&router, "/v1/metrics?format=xml").await.status, 400);
}
