//! Dispatched and periodic jobs.

use std::{collections::BTreeSet, sync::Arc};

use berth_model::{
    EvalId, JobKey, Timestamp,
    command::{Command, LaunchJob, RunJob},
    job::{Job, Parameterized, PayloadRule, Periodic},
};
use expect_test::expect;
use serde_json::{Value, json};

use super::{
    exchange::{Answer, answer, api, get},
    fake_engine::FakeEngine,
    world::{register, small_job, world},
};

/// A cluster with a parameterized and a periodic job.
fn templates() -> Arc<FakeEngine> {
    let world = world();
    let parameterized = Parameterized {
        payload: PayloadRule::Optional,
        meta_required: vec!["input".into()],
        meta_optional: vec!["level".into()],
    };
    let encode = Job { parameterized: Some(parameterized.into()), ..small_job("encode") };
    let nightly = Job { periodic: Some(Periodic::default().into()), ..small_job("nightly") };
    world.apply(vec![register(encode, EvalId(1)), register(nightly, EvalId(2))]);
    world
}

async fn dispatch(router: &axum::Router, job: &str, body: &Value) -> Answer {
    answer(router, "PUT", &format!("/v1/job/{job}/dispatch"), body.to_string()).await
}

#[tokio::test]
async fn a_dispatch_makes_a_job() {
    let router = api(&templates());
    let body = json!({ "Meta": { "input": "a.mp4" }, "Payload": "aGkK", "IdPrefixTemplate": "mine" });
    let dispatched = dispatch(&router, "encode", &body).await.json();
    let id = dispatched["DispatchedJobID"].as_str().expect("it has an id");
    assert!(id.starts_with("encode/dispatch-mine-") && id.ends_with("-e0000000"), "{id}");
    let child = get(&router, &format!("/v1/job/{}", id.replace('/', "%2F"))).await.json();
    assert_eq!(
        (&child["ParentID"], &child["Dispatched"], &child["Payload"], &child["Meta"]["input"]),
        (&json!("encode"), &json!(true), &json!("aGkK"), &json!("a.mp4"))
    );
    assert_eq!(child["Meta"]["level"], "", "it need not be given");
    let summary = get(&router, "/v1/job/encode/summary").await.json();
    assert_eq!(summary["Children"], json!({ "Pending": 1, "Running": 0, "Dead": 0 }));
    let filter = "filter=ParentID+%3D%3D+%22%22+and+ParameterizedJob+is+not+nil";
    let templates = get(&router, &format!("/v1/jobs?{filter}")).await.json();
    assert_eq!((templates.as_array().map(Vec::len), &templates[0]["ID"]), (Some(1), &json!("encode")));
    assert_eq!(templates[0]["Status"], "running", "it waits to be dispatched");
}

#[tokio::test]
async fn a_dispatch_that_is_tried_again_makes_no_second_job() {
    let router = api(&templates());
    let body = json!({ "Meta": { "input": "a.mp4" } }).to_string();
    let target = "/v1/job/encode/dispatch?idempotency_token=t1";
    let first = answer(&router, "PUT", target, body.clone()).await.json();
    let again = answer(&router, "PUT", target, body.clone()).await.json();
    assert_eq!(again["DispatchedJobID"], first["DispatchedJobID"]);
    assert_eq!(again["JobCreateIndex"], first["JobCreateIndex"]);
    assert_eq!(again["EvalID"], "", "nothing is evaluated");
    let summary = get(&router, "/v1/job/encode/summary").await.json();
    assert_eq!(summary["Children"]["Pending"], 1);
    let id = first["DispatchedJobID"].as_str().expect("it has an id").replace('/', "%2F");
    let child = get(&router, &format!("/v1/job/{id}")).await.json();
    assert_eq!(child["DispatchIdempotencyToken"], "t1");
    let long = format!("/v1/job/encode/dispatch?idempotency_token={}", "t".repeat(257));
    assert_eq!(answer(&router, "PUT", &long, body).await.status, 400);
}

#[tokio::test]
async fn dispatches_of_one_second_whose_ids_begin_alike_are_all_made() {
    // Ids that are minted here have their first eight digits in common.
    let router = api(&templates());
    let body = json!({ "Meta": { "input": "a.mp4" } });
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        let dispatched = dispatch(&router, "encode", &body).await;
        assert_eq!(dispatched.status, 200, "{}", dispatched.body);
        let id = dispatched.json()["DispatchedJobID"].as_str().expect("it has an id").to_owned();
        let child = get(&router, &format!("/v1/job/{}", id.replace('/', "%2F"))).await.json();
        assert_eq!((&child["ID"], &child["Name"]), (&json!(id), &json!(id)));
        ids.insert(id);
    }
    assert_eq!(ids.len(), 20);
    let summary = get(&router, "/v1/job/encode/summary").await.json();
    assert_eq!(summary["Children"]["Pending"], 20);
}

#[tokio::test]
async fn of_two_dispatches_at_once_with_one_token_one_is_made() {
    let (world, other) = (templates(), templates());
    let body = json!({ "Meta": { "input": "a.mp4" } }).to_string();
    let target = "/v1/job/encode/dispatch?idempotency_token=t1";
    // What another server would write for the same request, and this one sees only once it has proposed its own.
    let first = answer(&api(&other), "PUT", target, body.clone()).await.json()["DispatchedJobID"].clone();
    let view = other.view.load();
    let key = JobKey::new("default", first.as_str().expect("it has an id"));
    let job = view.store.job(&key).expect("it was made").job().clone();
    *world.preceded_by.lock().expect("no test panics here") =
        vec![Command::RunJob(Box::new(RunJob { job, eval: EvalId(99) }))];
    let router = api(&world);
    // Another prefix makes it no other dispatch.
    let prefixed = json!({ "Meta": { "input": "a.mp4" }, "IdPrefixTemplate": "mine" });
    let second = answer(&router, "PUT", target, prefixed.to_string()).await;
    assert_eq!((second.status.as_u16(), &second.json()["DispatchedJobID"]), (200, &first), "{}", second.body);
    let summary = get(&router, "/v1/job/encode/summary").await.json();
    assert_eq!(summary["Children"]["Pending"], 1);
}

#[tokio::test]
async fn a_token_is_of_one_job_and_free_again_once_its_run_is_gone() {
    let world = templates();
    let copy = Job { parameterized: Some(Parameterized::default().into()), ..small_job("copy") };
    world.apply(vec![register(copy, EvalId(3))]);
    let router = api(&world);
    let body = json!({ "Meta": { "input": "a.mp4" } });
    let dispatched = async |job: &str, body: &Value| {
        let target = format!("/v1/job/{job}/dispatch?idempotency_token=t1");
        let dispatched = answer(&router, "PUT", &target, body.to_string()).await.json();
        (dispatched["DispatchedJobID"].as_str().expect("it has an id").to_owned(), dispatched["EvalID"] != "")
    };
    let (first, _) = dispatched("encode", &body).await;
    assert!(dispatched("copy", &json!({})).await.1, "another job, another run");
    let prefixed = json!({ "Meta": { "input": "a.mp4" }, "IdPrefixTemplate": "mine" });
    assert_eq!(dispatched("encode", &prefixed).await, (first.clone(), false), "whatever else it says");
    let purge = format!("/v1/job/{}?purge=true", first.replace('/', "%2F"));
    assert_eq!(answer(&router, "DELETE", &purge, "").await.status, 200);
    let key = JobKey::new("default", &first);
    assert!(world.view.load().store.job(&key).is_none(), "nothing has its name");
    assert_eq!(dispatched("encode", &body).await, (first, true), "the token is free");
}

#[tokio::test]
async fn a_periodic_job_is_run_now() {
    let router = api(&templates());
    let forced = answer(&router, "PUT", "/v1/job/nightly/periodic/force", "").await;
    assert_eq!(forced.status, 200, "{}", forced.body);
    let jobs = get(&router, "/v1/jobs?prefix=nightly/periodic-").await.json();
    assert_eq!((&jobs[0]["ParentID"], &jobs[0]["Periodic"]), (&json!("nightly"), &json!(false)));
}

#[tokio::test]
async fn a_periodic_job_has_its_next_launch() {
    let world = templates();
    let periodic = Periodic { specs: vec!["0 0 1 1 * 2090-2091".into()], ..Periodic::default() };
    let job = Job { periodic: Some(periodic.into()), ..small_job("yearly") };
    world.apply(vec![register(job, EvalId(3))]);
    let router = api(&world);
    let launch = async |router| get(router, "/v1/job/yearly").await.json()["PeriodicLaunch"].clone();
    let (first, second) = (Timestamp(3_786_912_000_000_000_000), Timestamp(3_818_448_000_000_000_000));
    assert_eq!(
        launch(&router).await,
        json!({ "Last": 0, "Overlapped": false, "MissedSince": 0, "Next": first.0 })
    );
    let due = LaunchJob { job: JobKey::new("default", "yearly"), due: first, at: first, eval: EvalId(4) };
    world.apply(vec![Command::LaunchJob(Box::new(due))]);
    assert_eq!(
        launch(&router).await,
        json!({ "Last": first.0, "Overlapped": false, "MissedSince": 0, "Next": second.0 })
    );
    let run = get(&router, "/v1/job/yearly%2Fperiodic-3786912000/evaluations").await.json();
    assert_eq!(run[0]["TriggeredBy"], "periodic-job");
    let summary = get(&router, "/v1/job/yearly/summary").await.json();
    assert_eq!(summary["Children"], json!({ "Pending": 1, "Running": 0, "Dead": 0 }));
}

#[tokio::test]
async fn dispatches_that_make_no_sense_are_refused() {
    let router = api(&templates());
    let mut shown = String::new();
    let input = json!({ "input": "x" });
    let large = "A".repeat(24 << 10);
    for (job, body) in [
        ("web", json!({})),
        ("nope", json!({})),
        ("encode", json!({})),
        ("encode", json!({ "Meta": { "input": "x", "colour": "red" } })),
        ("encode", json!({ "Meta": input, "Payload": "%" })),
        ("encode", json!({ "Meta": input, "Payload": large })),
        ("encode", json!({ "Meta": input, "IdPrefixTemplate": "a/b" })),
        ("encode", json!({ "Meta": input, "JobID": "web" })),
    ] {
        let answer = dispatch(&router, job, &body).await;
        shown += &format!("{job} -> {} {}\n", answer.status.as_u16(), answer.body);
    }
    let forced = answer(&router, "PUT", "/v1/job/web/periodic/force", "").await;
    shown += &format!("{} {}\n", forced.status.as_u16(), forced.body);
    for job in ["encode", "nightly"] {
        assert_eq!(answer(&router, "DELETE", &format!("/v1/job/{job}"), "").await.status, 200);
    }
    let stopped = dispatch(&router, "encode", &json!({ "Meta": input })).await;
    shown += &format!("{} {}\n", stopped.status.as_u16(), stopped.body);
    let stopped = answer(&router, "PUT", "/v1/job/nightly/periodic/force", "").await;
    shown += &format!("{} {}\n", stopped.status.as_u16(), stopped.body);
    expect![[r#"
        web -> 400 the job is not parameterized: only such a job can be dispatched
        nope -> 404 job not found
        encode -> 400 Meta lacks what the job requires: input
        encode -> 400 Meta: the job takes no `colour`, only input, level
        encode -> 400 Payload is not base64: Invalid symbol 37, offset 0.
        encode -> 400 Payload has 18432 bytes, a dispatch carries at most 16384
        encode -> 400 IdPrefixTemplate: only letters, digits, `-`, `_` and `.` can stand in an id, at most 64
        encode -> 400 the body is about job `web`, the path about `encode`
        400 the job is not periodic: only such a job is run at set times
        400 job default/encode is stopped: register it again first
        400 job default/nightly is stopped: register it again first
    "#]]
    .assert_eq(&shown);
}
