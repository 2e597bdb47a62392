//! The scheduler's configuration.

use expect_test::expect;

use super::{
    exchange::{answer, api},
    world::world,
};

const PATH: &str = "/v1/operator/scheduler/configuration";

#[tokio::test]
async fn the_scheduler_is_configured() {
    let router = api(&world());
    let request = r#"{"SchedulerAlgorithm":"spread","NodePools":{"gpu":{"SchedulerAlgorithm":"binpack"}}}"#;
    let set = answer(&router, "PUT", PATH, request).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 7
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "Index": 7,
          "Updated": true
        }
    "#]]
    .assert_eq(&set.show());
}

#[tokio::test]
async fn the_scheduler_configuration_is_read() {
    let router = api(&world());
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "Index": 0,
          "KnownLeader": true,
          "LastContact": 0,
          "SchedulerConfig": {
            "CreateIndex": 0,
            "LostNodesMaxPercent": 40,
            "MemoryOversubscriptionEnabled": false,
            "ModifyIndex": 0,
            "NodePools": {},
            "PauseEvalBroker": false,
            "PreemptionConfig": {
              "BatchOnBatchEnabled": false,
              "BatchSchedulerEnabled": false,
              "ServiceSchedulerEnabled": false,
              "SysBatchSchedulerEnabled": false,
              "SystemSchedulerEnabled": true
            },
            "RejectJobRegistration": false,
            "SchedulerAlgorithm": "binpack"
          }
        }
    "#]]
    .assert_eq(&answer(&router, "GET", PATH, "").await.show());
}

#[tokio::test]
async fn what_cannot_be_configured_is_refused() {
    let router = api(&world());
    for request in [
        r#"{"SchedulerAlgorithm":"random"}"#,
        r#"{"NodePools":{"gpu":{"SchedulerAlgorithm":"worst"}}}"#,
        r#"{"PauseEvalBroker":true}"#,
    ] {
        let refused = answer(&router, "PUT", PATH, request).await;
        assert_eq!(refused.status, 400, "{}", refused.body);
    }
    let changed = answer(&router, "PUT", &format!("{PATH}?cas=99"), "{}").await;
    assert_eq!(changed.json()["Updated"], false);
}
