//! Scaling a job's groups.

use berth_model::{
    EvalId,
    job::{Group, Job, JobType, Scaling},
};
use expect_test::{expect, expect_file};
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api, check_get, get},
    world::{register, small_job, world},
};

async fn scale(router: &axum::Router, id: &str, body: Value) -> Answer {
    answer(router, "PUT", &format!("/v1/job/{id}/scale"), body.to_string()).await
}

#[tokio::test]
async fn a_group_is_scaled_and_that_is_remembered() {
    let world = world();
    let router = api(&world);
    let body = json!({ "Count": 5, "Target": { "Group": "app" }, "Message": "more", "Meta": { "by": "me" } });
    let scaled = scale(&router, "web", body).await;
    expect![[r#"
        200 OK
        content-type: application/json
        x-nomad-index: 7
        x-nomad-knownleader: true
        x-nomad-lastcontact: 0

        {
          "EvalCreateIndex": 7,
          "EvalID": "e0000000-0000-0000-0000-000000000000",
          "Index": 7,
          "JobModifyIndex": 7,
          "KnownLeader": true,
          "LastContact": 0,
          "Warnings": ""
        }
    "#]]
    .assert_eq(&scaled.show());
    let message = json!({ "Message": "no nodes left", "Error": true, "Target": { "Group": "app" } });
    assert_eq!(scale(&router, "web", message).await.status, 200);
    check_get(&world, "/v1/job/web/scale", expect_file!["golden/job_scale.txt"]).await;
    let now = get(&router, "/v1/job/web").await.json();
    assert_eq!((&now["TaskGroups"][0]["Count"], &now["Version"]), (&json!(5), &json!(1)));
}

#[tokio::test]
async fn only_the_last_events_are_kept() {
    let router = api(&world());
    for count in 0..25 {
        assert_eq!(scale(&router, "web", json!({ "Count": count })).await.status, 200);
    }
    let status = get(&router, "/v1/job/web/scale").await.json();
    let events = status["TaskGroups"]["app"]["Events"].as_array().expect("a list");
    let counts: Vec<u64> = events.iter().filter_map(|event| event["Count"].as_u64()).collect();
    assert_eq!(counts, (5..25).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn scaling_that_makes_no_sense_is_refused() {
    let world = world();
    let mut two = small_job("two");
    two.groups.push(Group { name: "other".into(), ..two.groups[0].clone() });
    let each = Job { job_type: JobType::System, ..small_job("each") };
    world.apply(vec![register(two, EvalId(1)), register(each, EvalId(2))]);
    let router = api(&world);
    let mut shown = String::new();
    for (id, body) in [
        ("web", json!({ "Count": -1 })),
        ("web", json!({ "Count": 50_001 })),
        ("web", json!({ "Count": "many" })),
        ("web", json!({ "Count": 1, "Error": true })),
        ("web", json!({ "Count": 1, "Target": { "Group": "nope" } })),
        ("two", json!({ "Count": 1 })),
        ("each", json!({ "Count": 1 })),
        ("nope", json!({ "Count": 1 })),
        ("web", json!({ "Message": "x".repeat(5000) })),
        ("web", json!({ "Message": "why", "Meta": { "a": { "b": "x".repeat(9000) } } })),
    ] {
        let answer = scale(&router, id, body).await;
        shown += &format!("{id} -> {} {}\n", answer.status.as_u16(), answer.body);
    }
    expect![[r#"
        web -> 400 Count: `-1` is not between 0 and 50000
        web -> 400 Count: `50001` is not between 0 and 50000
        web -> 400 decode the request's body: invalid type: string "many", expected i64 at line 1 column 15
        web -> 400 Error is for a scaling that was not done: leave Count out
        web -> 400 Target.Group: the job has no group `nope`, its groups are app
        two -> 400 Target.Group must name one of the job's groups: g, other
        each -> 400 a system job runs on each node: it has no count
        nope -> 404 job not found
        web -> 400 Message has 5000 bytes, at most 4096 are kept
        web -> 400 Meta has 9014 bytes, at most 8192 are kept: shorten it
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn policies_are_read_from_jobs() {
    let world = world();
    let mut job = small_job("elastic");
    job.groups[0].scaling = Some(Box::new(Scaling { min: 1, max: 9, ..Scaling::default() }));
    world.apply(vec![register(job, EvalId(1))]);
    let router = api(&world);
    let policies = get(&router, "/v1/scaling/policies").await.json();
    assert_eq!(
        (policies.as_array().map(Vec::len), &policies[0]["Target"]["Job"]),
        (Some(1), &json!("elastic"))
    );
    assert_eq!(get(&router, "/v1/scaling/policies?job=web").await.json(), json!([]));
    let id = policies[0]["ID"].as_str().expect("it has an id");
    let policy = get(&router, &format!("/v1/scaling/policy/{id}")).await.json();
    assert_eq!((&policy["Min"], &policy["Max"]), (&json!(1), &json!(9)));
    let within = get(&router, "/v1/job/elastic").await.json()["TaskGroups"][0]["Scaling"].clone();
    assert_eq!((&within["ID"], &within["Target"]), (&policy["ID"], &policy["Target"]));
    for (count, status) in [(0, 400), (1, 200), (9, 200), (10, 400)] {
        let scaled = scale(&router, "elastic", json!({ "Count": count })).await;
        assert_eq!(scaled.status, status, "{count}: {}", scaled.body);
    }
    assert_eq!(get(&router, "/v1/scaling/policy/nope").await.status, 404);
}

#[tokio::test]
async fn a_count_beyond_its_group_s_limits_is_refused_with_their_names() {
    let world = world();
    let mut open = small_job("open");
    open.groups[0].scaling = Some(Box::new(Scaling { min: 3, max: 0, ..Scaling::default() }));
    let mut narrow = small_job("narrow");
    narrow.groups[0].scaling = Some(Box::new(Scaling { min: 1, max: 9, ..Scaling::default() }));
    world.apply(vec![register(open, EvalId(1)), register(narrow, EvalId(2))]);
    let router = api(&world);
    let mut shown = String::new();
    for (id, count) in [("open", 2), ("narrow", 0), ("narrow", 10)] {
        let answer = scale(&router, id, json!({ "Count": count })).await;
        shown += &format!("{id} -> {} {}\n", answer.status.as_u16(), answer.body);
    }
    expect![[r#"
        open -> 400 Count: 2 is not between 3 and 50000, the limits of group `g` in its `scaling` block
        narrow -> 400 Count: 0 is not between 1 and 9, the limits of group `g` in its `scaling` block
        narrow -> 400 Count: 10 is not between 1 and 9, the limits of group `g` in its `scaling` block
    "#]]
    .assert_eq(&shown);
}

#[tokio::test]
async fn no_request_makes_a_job_of_more_allocations_than_are_planned_at_once() {
    let world = world();
    let job = small_job("wide");
    let group = |name: &str| Group { name: name.into(), count: 50_000, ..job.groups[0].clone() };
    let groups = vec![group("a"), group("b"), Group { name: "c".into(), count: 0, ..job.groups[0].clone() }];
    let wide = Job { groups, ..job };
    world.apply(vec![register(wide.clone(), EvalId(1))]);
    let router = api(&world);
    let refused = scale(&router, "wide", json!({ "Count": 1, "Target": { "Group": "c" } })).await;
    expect![[r#"
        413 Payload Too Large
        connection: close
        content-type: text/plain; charset=utf-8

        the groups of the job want 100001 allocations in all, the limit is 100000: spread them over several jobs, or lower `count`
    "#]]
    .assert_eq(&refused.show());
    let mut huge = berth_jobfile::to_json(&wide);
    huge["TaskGroups"][2]["Count"] = json!(1);
    for (method, target) in [("PUT", "/v1/jobs"), ("PUT", "/v1/job/wide/plan")] {
        let refused = answer(&router, method, target, json!({ "Job": huge }).to_string()).await;
        assert_eq!(refused.status, 400, "{target}");
        assert!(
            refused.body.contains("want 100001 allocations in all, the limit is 100000"),
            "{}",
            refused.body
        );
    }
}
