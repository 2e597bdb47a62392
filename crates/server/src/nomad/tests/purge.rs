//! A job that is purged while its allocations run.

use std::sync::Arc;

use axum::body::Body;
use berth_api::http::{Event, EventFrame};
use berth_model::{EvalId, Index, JobKey, command::Command, eval::EvalStatus};
use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::{
    exchange::{answer, api, get, request, send},
    fake_engine::FakeEngine,
    world::{RUNNING, end, register, small_job, world},
};

/// The world with its job purged, the evaluation that stops what is left of it, and where it was made.
async fn purged() -> (Arc<FakeEngine>, String, u64) {
    let world = world();
    let router = api(&world);
    let purged = answer(&router, "DELETE", "/v1/job/web?purge=true", Body::empty()).await;
    assert_eq!(purged.status, 200, "{}", purged.body);
    let purged = purged.json();
    (world, purged["EvalID"].as_str().expect("an id").to_owned(), purged["Index"].as_u64().expect("one"))
}

#[tokio::test]
async fn a_purged_job_is_not_found_and_its_allocations_are() {
    let (world, eval, _) = purged().await;
    let router = api(&world);
    for of in ["", "/versions", "/summary", "/submission?version=0", "/scale"] {
        let target = format!("/v1/job/web{of}");
        assert_eq!(get(&router, &target).await.status, 404, "{target}");
    }
    for list in ["allocations", "evaluations", "deployments"] {
        assert_eq!(get(&router, &format!("/v1/job/web/{list}")).await.json(), json!([]), "{list}");
    }
    for list in ["/v1/jobs", "/v1/jobs/statuses", "/v1/scaling/policies"] {
        let listed = get(&router, list).await.json().to_string();
        assert!(!listed.contains("\"web\"") && !listed.contains("purged"), "{list}: {listed}");
    }
    let found = answer(&router, "PUT", "/v1/search", json!({ "Prefix": "", "Context": "jobs" }).to_string());
    let found = found.await.json()["Matches"]["jobs"].to_string();
    assert!(!found.contains("\"web\"") && !found.contains("purged"), "{found}");
    let alloc = get(&router, &format!("/v1/allocation/{RUNNING}")).await.json();
    assert_eq!((&alloc["JobID"], &alloc["DesiredStatus"]), (&json!("web"), &json!("run")));
    let asks = get(&router, &format!("/v1/evaluation/{eval}")).await.json();
    assert_eq!((&asks["JobID"], &asks["Status"]), (&json!("web"), &json!("pending")));
    let listed = get(&router, "/v1/evaluations?job=web").await.json();
    let of_web = listed.as_array().expect("a list").iter().all(|eval| eval["JobID"] == "web");
    assert!(of_web && listed.to_string().contains(&eval), "{listed}");
    let key = format!("%01purged%2F{eval}%2Fweb");
    assert_eq!(get(&router, &format!("/v1/job/{key}")).await.status, 404);
    let again = answer(&router, "DELETE", &format!("/v1/job/{key}?purge=true"), Body::empty()).await;
    assert_eq!(again.status, 404, "{}", again.body);
}

#[tokio::test]
async fn what_is_left_of_a_purged_job_is_counted_as_no_job() {
    let jobs = async |world: &Arc<FakeEngine>| {
        let text = get(&api(world), "/metrics").await.body;
        text.lines().filter(|line| line.starts_with("berth_jobs{")).map(str::to_owned).collect::<Vec<_>>()
    };
    let none = ["pending", "running", "dead"].map(|status| format!("berth_jobs{{status=\"{status}\"}} 0"));
    let (world, ..) = purged().await;
    assert_eq!(jobs(&world).await, none, "its allocations still run");
    world.apply(vec![register(small_job("web"), EvalId(900))]);
    let pending = [r#"berth_jobs{status="pending"} 1"#.to_owned(), none[1].clone(), none[2].clone()];
    assert_eq!(jobs(&world).await, pending, "what has its name counts");
    world.apply(vec![Command::EndAllocs(vec![end(RUNNING)])]);
    assert_eq!(jobs(&world).await, pending);
}

#[tokio::test]
async fn what_is_registered_under_its_name_is_new() {
    let (world, ..) = purged().await;
    let at: Index = world.apply(vec![register(small_job("web"), EvalId(900))]).index;
    let router = api(&world);
    let job = get(&router, "/v1/job/web").await.json();
    assert_eq!((&job["Version"], &job["CreateIndex"]), (&json!(0), &json!(at.0)));
    assert_eq!(
        get(&router, "/v1/job/web/versions").await.json()["Versions"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(get(&router, "/v1/job/web/allocations").await.json(), json!([]));
    let summary = get(&router, "/v1/job/web/summary").await.json();
    assert!(summary.to_string().contains("\"Running\":0"), "{summary}");
    assert!(world.view.load().store.job(&JobKey::new("default", "web")).is_some());
}

/// What a stream tells from an index on, of some topics, until the key of a change is `until`.
async fn events_until(world: &Arc<FakeEngine>, at: u64, topics: &str, until: &str) -> Vec<Event> {
    let target = format!("/v1/event/stream?index={at}&{topics}");
    let mut body = send(&api(world), request("GET", &target, Body::empty())).await.into_body();
    let mut events: Vec<Event> = Vec::new();
    while events.iter().all(|event| event.key != until) {
        let line = body.frame().await.expect("it goes on").expect("it does not break");
        let frame: EventFrame = serde_json::from_slice(&line.into_data().expect("data")).expect("a frame");
        events.extend(frame.events);
    }
    events
}

#[tokio::test]
async fn the_stream_has_the_purge_of_a_job_and_nothing_of_its_remains() {
    let (world, eval, at) = purged().await;
    let id: EvalId = eval.parse().expect("an id");
    world.apply(vec![Command::SetEvalStatus(id, EvalStatus::Complete, String::new())]);
    world.apply(vec![register(small_job("last"), EvalId(900))]);
    let events = events_until(&world, at, "topic=Job&topic=Evaluation:web", "last").await;
    let of_jobs = events.iter().filter(|event| event.topic == "Job" && event.key != "last");
    let of_jobs: Vec<_> =
        of_jobs.map(|event| (&*event.kind, &*event.key, &event.payload["Job"]["ID"])).collect();
    assert_eq!(of_jobs, [("JobDeregistered", "web", &json!("web")), ("JobCollected", "web", &Value::Null)]);
    // Whoever stops the job waits for it.
    let of_eval = events.iter().filter(|event| event.key == eval).map(|event| &event.payload["Evaluation"]);
    let of_eval: Vec<_> = of_eval.map(|eval| (&eval["JobID"], &eval["Status"])).collect();
    assert_eq!(of_eval.last(), Some(&(&json!("web"), &json!("complete"))));
}
