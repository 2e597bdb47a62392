//! Versions of jobs: tags, differences from a tagged version, and stability.

use axum::body::Body;
use expect_test::expect;
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api, get},
    world::world,
};

async fn put(router: &axum::Router, target: &str, body: &Value) -> Answer {
    answer(router, "PUT", target, body.to_string()).await
}

#[tokio::test]
async fn a_version_is_named_compared_with_and_found_again() {
    let router = api(&world());
    let tagged = json!({ "Version": 0, "Description": "the first" });
    let answered = put(&router, "/v1/job/web/versions/gold/tag", &tagged).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 7
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "Index": 7,
          "JobModifyIndex": 7,
          "KnownLeader": true,
          "LastContact": 0
        }
    "#]]
    .assert_eq(&answered.show());
    let mut job = get(&router, "/v1/job/web").await.json();
    assert_eq!(job["VersionTag"]["Name"], "gold");
    for priority in [60, 70] {
        job["Priority"] = json!(priority);
        assert_eq!(put(&router, "/v1/jobs", &json!({ "Job": job })).await.status, 200);
    }
    let now = get(&router, "/v1/job/web").await.json();
    assert_eq!(now["VersionTag"], Value::Null, "a new version has no tag");
    for base in ["diff_tag=gold", "diff_version=0&diffs=true"] {
        let versions = get(&router, &format!("/v1/job/web/versions?{base}")).await.json();
        let diffs = versions["Diffs"].as_array().expect("diffs");
        let priorities: Vec<_> = diffs.iter().map(|diff| &diff["Fields"][0]["New"]).collect();
        assert_eq!(priorities, [&json!("70"), &json!("60"), &Value::Null], "{base}");
    }
    let versions = get(&router, "/v1/job/web/versions").await.json();
    assert_eq!(
        (&versions["Diffs"], &versions["Versions"][2]["VersionTag"]["Description"]),
        (&Value::Null, &json!("the first"))
    );

    let gone = answer(&router, "DELETE", "/v1/job/web/versions/gold/tag", Body::empty()).await;
    assert_eq!(gone.status, 200);
    assert_eq!(get(&router, "/v1/job/web/versions?diff_tag=gold").await.status, 404);
}

#[tokio::test]
async fn a_version_is_marked_stable_and_unmarked() {
    let router = api(&world());
    for stable in [true, false] {
        let message = json!({ "JobID": "web", "JobVersion": 0, "Stable": stable });
        assert_eq!(put(&router, "/v1/job/web/stable", &message).await.status, 200);
        assert_eq!(get(&router, "/v1/job/web").await.json()["Stable"], stable);
    }
}

#[tokio::test]
async fn what_cannot_be_a_tag_is_refused_by_name() {
    let router = api(&world());
    let mut shown = String::new();
    let long = "x".repeat(129);
    for (target, body) in [
        ("/v1/job/web/versions/7/tag", json!({})),
        ("/v1/job/web/versions/a%20b/tag", json!({})),
        (&*format!("/v1/job/web/versions/{long}/tag"), json!({})),
        ("/v1/job/web/versions/gold/tag", json!({ "Description": "x".repeat(5_000) })),
        ("/v1/job/web/versions/gold/tag", json!({ "Version": 9 })),
        ("/v1/job/nope/versions/gold/tag", json!({})),
        ("/v1/job/web/stable", json!({ "JobVersion": 9, "Stable": true })),
        ("/v1/job/web/stable", json!({ "JobID": "api", "JobVersion": 0 })),
    ] {
        let answer = put(&router, target, &body).await;
        shown += &format!("{} {}\n", answer.status.as_u16(), answer.body);
    }
    let gone = answer(&router, "DELETE", "/v1/job/web/versions/gold/tag", Body::empty()).await;
    shown += &format!("{} {}\n", gone.status.as_u16(), gone.body);
    expect![[r#"
        400 the tag's name is a number: it could be taken for that version
        400 the tag's name holds a space, a slash or a control character
        400 the tag's name has 129 bytes, it may have 1 to 128
        400 the tag's description has 5000 bytes, at most 4096 are kept
        404 job default/web has no version 9: `berth job history web` lists those that are kept
        404 job not found
        404 job default/web has no version 9: `berth job history web` lists those that are kept
        400 the body is about job `api`, the path about `web`
        404 no version of job default/web has the tag "gold"
    "#]]
    .assert_eq(&shown);
}
