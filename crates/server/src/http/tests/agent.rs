//! The server itself, and its measurements.

use expect_test::{expect, expect_file};

use super::{
    exchange::{api, check_get, get},
    world::world,
};

#[tokio::test]
async fn the_server_tells_who_it_is() {
    let world = world();
    check_get(&world, "/v1/agent/self", expect_file!["golden/agent_self.txt"]).await;
    check_get(&world, "/v1/agent/members", expect_file!["golden/agent_members.txt"]).await;
    check_get(&world, "/v1/namespaces", expect_file!["golden/namespaces.txt"]).await;
    let router = api(&world);
    let body = async |target: &str| get(&router, target).await.body;
    expect![].assert_eq(&body("/v1/agent/health").await);
    expect![].assert_eq(&body("/healthz").await);
    expect![].assert_eq(&body("/v1/status/leader").await);
    expect![].assert_eq(&body("/v1/status/peers").await);
    expect![].assert_eq(&body("/v1/regions").await);
    assert_eq!(get(&router, "/v1/namespace/team").await.status, 404);
}

#[tokio::test]
async fn measurements_are_told_in_both_forms() {
    let router = api(&world());
    get(&router, "/v1/jobs").await;
    get(&router, "/v1/job/nope").await;
    let text = get(&router, "/v1/metrics?format=prometheus").await;
    expect![].assert_eq(&text.show());
    assert_eq!(get(&router, "/metrics").await.headers, text.headers);
    let json = get(&router, "/v1/metrics").await.json();
    expect![].assert_eq(&json["Counters"][1].to_string());
    expect![].assert_eq(&json["Gauges"][0].to_string());
    assert_eq!(get(&router, "/v1/metrics?format=xml").await.status, 400);
}
