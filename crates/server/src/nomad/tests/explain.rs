//! Why a job waits.

use expect_test::expect;

use super::{
    exchange::{answer, api},
    world::{NODE_1, world},
};

#[tokio::test]
async fn a_job_is_explained() {
    let router = api(&world());
    let explained = answer(&router, "GET", &format!("/v1/job/web/explain?node={NODE_1}"), "").await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "Groups": [
            {
              "Changes": [
                {
                  "Change": "use another port than 9000",
                  "Nodes": 2
                }
              ],
              "Failure": {
                "CoalescedFailures": 0,
                "ConstraintFiltered": null,
                "DimensionExhausted": {
                  "network: port admin=9000 is taken": 2
                },
                "NodesAvailable": {
                  "dc1": 2
                },
                "NodesConsidered": 2,
                "NodesEvaluated": 2,
                "NodesExhausted": 2,
                "NodesFiltered": 0,
                "NodesInPool": 2,
                "QuotaExhausted": null
              },
              "Missing": 1,
              "Name": "app",
              "Obstacles": [
                "port 9000 is taken"
              ],
              "PreemptedAllocations": []
            }
          ],
          "Index": 6,
          "JobID": "web",
          "Namespace": "default",
          "Queue": {
            "JobsAhead": 0,
            "NamespacesAhead": 0,
            "Share": 0.02564102564102564
          },
          "RetryAt": "0001-01-01T00:00:00Z"
        }
    "#]]
    .assert_eq(&explained.show());
}

#[tokio::test]
async fn what_cannot_be_explained_is_refused() {
    let router = api(&world());
    for (path, status) in [("/v1/job/nothing/explain", 404), ("/v1/job/web/explain?node=abc", 400)] {
        let refused = answer(&router, "GET", path, "").await;
        assert_eq!(refused.status, status, "{}", refused.body);
    }
}
