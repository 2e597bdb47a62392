//! Namespaces and quotas over HTTP: creating, reading, changing and deleting them, and refusals.

use axum::body::Body;
use berth_model::{EvalId, JobKey, command::Command, eval::EvalStatus, job::Job};
use expect_test::expect;
use serde_json::json;

use super::{
    exchange::{Answer, answer, api, get},
    world::{register, small_job, world},
};

const TEAM: &str = r#"{"Name": "team", "Description": "The team", "Quota": "small", "Parent": "dept", "Weight": 2.5,
    "Capabilities": {"DisabledTaskDrivers": ["raw_exec"]}, "Meta": {"owner": "kim"}}"#;
const SMALL: &str = r#"{"Name": "small", "Limits": [{"Region": "global", "RegionLimit":
    {"CPU": 2000, "MemoryMB": 1024, "DiskMB": -1, "Devices": [{"Name": "nvidia/gpu", "Count": 2}]}}],
    "Guarantee": {"MemoryMB": 512}}"#;

fn refusal(answer: &Answer) -> String {
    format!("{} {}", answer.status.as_u16(), answer.body)
}

#[tokio::test]
async fn a_namespace_reads_back_as_it_was_made() {
    let world = world();
    let router = api(&world);
    assert_eq!(answer(&router, "PUT", "/v1/quota", SMALL).await.status, 200);
    assert_eq!(answer(&router, "PUT", "/v1/namespace/dept", "{}").await.status, 200);
    let made = answer(&router, "POST", "/v1/namespace", TEAM).await;
    assert_eq!((made.status.as_u16(), made.body.as_str()), (200, ""));
    let mut read = get(&router, "/v1/namespace/team").await.json();
    let object = read.as_object_mut().expect("an object");
    let indexes = [object.remove("CreateIndex"), object.remove("ModifyIndex")];
    assert_eq!(indexes[0], indexes[1]);
    assert_eq!(
        read,
        json!({
            "Name": "team", "Description": "The team", "Parent": "dept", "Weight": 2.5, "Quota": "small",
            "Capabilities": {"EnabledTaskDrivers": null, "DisabledTaskDrivers": ["raw_exec"]},
            "Meta": {"owner": "kim"},
        })
    );
    let list = get(&router, "/v1/namespaces").await.json();
    let names: Vec<_> = list.as_array().expect("a list").iter().map(|row| row["Name"].clone()).collect();
    assert_eq!(names, ["default", "dept", "team"]);
    let changed = answer(&router, "PUT", "/v1/namespace/team", r#"{"Weight": 1}"#).await;
    assert_eq!(changed.status, 200);
    let read = get(&router, "/v1/namespace/team").await.json();
    assert_eq!(
        (&read["Quota"], &read["CreateIndex"]),
        (&json!(""), &indexes[0].clone().expect("it is there"))
    );
}

#[tokio::test]
async fn a_quota_reads_back_with_what_counts_for_it() {
    let world = world();
    let router = api(&world);
    assert_eq!(answer(&router, "PUT", "/v1/quota/small", SMALL).await.status, 200);
    let read = get(&router, "/v1/quota/small").await.json();
    assert_eq!(
        (&read["Limits"], &read["Guarantee"]["MemoryMB"]),
        (
            &json!([{"Region": "global", "RegionLimit": {"CPU": 2000, "MemoryMB": 1024, "DiskMB": -1,
                "Devices": [{"Name": "nvidia/gpu", "Count": 2}]}}]),
            &json!(512)
        )
    );
    let used = |usage: &Answer| usage.json()["Used"]["global"]["RegionLimit"].clone();
    let nothing = json!({"CPU": 0, "MemoryMB": 0, "DiskMB": 0, "Devices": null});
    assert_eq!(used(&get(&router, "/v1/quota/usage/small").await), nothing);
    answer(&router, "PUT", "/v1/namespace/default", r#"{"Quota": "small"}"#).await;
    let one_of_web = json!({"CPU": 200, "MemoryMB": 64, "DiskMB": 300, "Devices": null});
    assert_eq!(used(&get(&router, "/v1/quota/usage/small").await), one_of_web);
    assert_eq!(get(&router, "/v1/quota-usages").await.json()[0]["Name"], "small");
    assert_eq!(get(&router, "/v1/quotas?prefix=t").await.json(), json!([]));
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_reason() {
    let world = world();
    let router = api(&world);
    answer(&router, "PUT", "/v1/quota", SMALL).await;
    answer(&router, "PUT", "/v1/namespace/top", r#"{"Quota": "small"}"#).await;
    answer(&router, "PUT", "/v1/namespace/below", r#"{"Parent": "top"}"#).await;
    let mut response = String::new();
    for (method, target, body) in [
        ("PUT", "/v1/namespace/team", r#"{"Name": "other"}"#),
        ("PUT", "/v1/namespace/te%20am", "{}"),
        ("PUT", "/v1/namespace/team", r#"{"Weight": 0}"#),
        ("PUT", "/v1/namespace/team", r#"{"Parent": "nobody"}"#),
        ("PUT", "/v1/namespace/team", r#"{"Quota": "none"}"#),
        ("PUT", "/v1/namespace/top", r#"{"Parent": "below"}"#),
        ("DELETE", "/v1/namespace/top", ""),
        ("DELETE", "/v1/namespace/default", ""),
        ("DELETE", "/v1/namespace/nobody", ""),
        ("DELETE", "/v1/quota/small", ""),
        ("DELETE", "/v1/quota/none", ""),
        ("GET", "/v1/quota/none", ""),
        ("PUT", "/v1/quota/q", r#"{"Limits": [{}, {}]}"#),
        ("PUT", "/v1/quota/q", r#"{"Limits": [{"Region": "eu"}]}"#),
        ("PUT", "/v1/quota/q", r#"{"Limits": [{"RegionLimit": {"CPU": 5}}], "Guarantee": {"CPU": 6}}"#),
    ] {
        response += &format!("{}\n", refusal(&answer(&router, method, target, body).await));
    }
    expect![[r#"
        400 the body names `other`, the path `team`
        400 namespace "te am": a name has 1 to 128 letters, digits, dashes and underscores
        400 Weight 0 is not from 0.001 to 1000
        400 namespace "nobody" does not exist: create it with `berth namespace apply`
        400 quota "none" does not exist: create it with `berth quota apply`
        400 namespace "top": it cannot be below below, which is below it
        409 namespace "top" cannot be deleted: namespace below is below it: move or delete that first
        409 namespace "default" cannot be deleted: it is always there
        404 namespace not found
        409 quota "small" cannot be deleted: namespace "top" refers to it
        404 quota not found
        404 quota not found
        400 quota "q": it has 2 limits: there is one region, give one
        400 quota "q": it limits region "eu": the only one is "global"
        400 quota "q": what it guarantees is more than its limit
    "#]]
    .assert_eq(&response);
    assert_eq!(answer(&router, "DELETE", "/v1/namespace/below", "").await.status, 200);
    assert_eq!(answer(&router, "DELETE", "/v1/namespace/top", "").await.status, 200);
    assert_eq!(answer(&router, "DELETE", "/v1/quota/small", "").await.status, 200);
}

#[tokio::test]
async fn a_job_needs_a_namespace_that_allows_its_drivers() {
    let world = world();
    let router = api(&world);
    let job = |namespace: &str| {
        json!({"Job": {"ID": "web", "Namespace": namespace, "TaskGroups": [{"Name": "g", "Tasks": [
            {"Name": "t", "Driver": "raw_exec", "Config": {"command": "serve"}}]}]}})
        .to_string()
    };
    let unknown = answer(&router, "PUT", "/v1/jobs", job("team")).await;
    assert_eq!(
        refusal(&unknown),
        "400 namespace `team` does not exist: create it with `berth namespace apply team`"
    );
    let strict = r#"{"Capabilities": {"EnabledTaskDrivers": ["container"]}}"#;
    answer(&router, "PUT", "/v1/namespace/team", strict).await;
    let denied = answer(&router, "PUT", "/v1/jobs", job("team")).await;
    assert_eq!(
        refusal(&denied),
        "400 task `t` uses driver `raw_exec`, which namespace `team` does not allow"
    );
    answer(&router, "PUT", "/v1/namespace/team", "{}").await;
    assert_eq!(answer(&router, "PUT", "/v1/jobs", job("team")).await.status, 200);
    let kept = answer(&router, "DELETE", "/v1/namespace/team", "").await;
    let why = "409 namespace \"team\" cannot be deleted: it has non-terminal jobs, as web: stop and purge its jobs first";
    assert_eq!(refusal(&kept), why);
}

#[tokio::test]
async fn jobs_that_are_over_do_not_keep_their_namespace_and_others_do() {
    let world = world();
    let router = api(&world);
    assert_eq!(answer(&router, "PUT", "/v1/namespace", r#"{"Name":"team"}"#).await.status, 200);
    let in_team = |id: &str, stop: bool, eval: u128| {
        let job = Job { key: JobKey::new("team", id), stop, ..small_job(id) };
        world.apply(vec![register(job, EvalId(eval))]);
        let done = Command::SetEvalStatus(EvalId(eval), EvalStatus::Complete, String::new());
        world.apply(vec![done]);
    };
    in_team("over", true, 71);
    in_team("waits", false, 72);
    let refused = answer(&router, "DELETE", "/v1/namespace/team", Body::empty()).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    let jobs = answer(&router, "GET", "/v1/jobs?namespace=team", Body::empty()).await.json();
    assert_eq!(jobs.as_array().map(Vec::len), Some(2), "nothing is forgotten where it stays");
    in_team("waits", true, 73);
    let below = r#"{"Name":"below","Parent":"team"}"#;
    assert_eq!(answer(&router, "PUT", "/v1/namespace", below).await.status, 200);
    let refused = answer(&router, "DELETE", "/v1/namespace/team", Body::empty()).await;
    assert_eq!(refused.status, 409, "{}", refused.body);
    assert!(world.view.load().store.job(&JobKey::new("team", "over")).is_some(), "nor here");
    assert_eq!(answer(&router, "DELETE", "/v1/namespace/below", Body::empty()).await.status, 200);
    let deleted = answer(&router, "DELETE", "/v1/namespace/team", Body::empty()).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    assert_eq!(answer(&router, "GET", "/v1/namespace/team", Body::empty()).await.status, 404);
    assert!(world.view.load().store.job(&JobKey::new("team", "over")).is_none());
}
