//! Blocking reads.

use std::sync::Arc;

use berth_model::{EvalId, alloc::ClientStatus, command::Command};
use tokio::task::{JoinHandle, yield_now};

use super::{
    exchange::{Answer, api, get},
    fake_engine::FakeEngine,
    world::{FAILED, RUNNING, observed, register, small_job, world},
};

/// Turns that a waiting task gets to come to rest.
const TURNS: usize = 20;

/// Starts a read that should wait, and lets it come to rest.
async fn start(engine: &Arc<FakeEngine>, target: &str) -> JoinHandle<Answer> {
    let (router, target) = (api(engine), target.to_owned());
    let read = tokio::spawn(async move { get(&router, &target).await });
    rest().await;
    assert!(!read.is_finished(), "it should wait");
    read
}

async fn rest() {
    for _ in 0..TURNS {
        yield_now().await;
    }
}

fn index(answer: &Answer) -> u64 {
    let line = answer.headers.lines().find_map(|line| line.strip_prefix("x-nomad-index: "));
    line.expect("it has an index").parse().expect("it is a number")
}

#[tokio::test]
async fn a_reader_that_is_behind_is_answered_at_once() {
    let router = api(&world());
    let answer = get(&router, "/v1/job/web?index=1&wait=5m").await;
    assert_eq!(
        (answer.status.as_u16(), index(&answer)),
        (200, 4),
        "a job's status changes with its first allocation"
    );
}

#[tokio::test]
async fn a_reader_wakes_when_what_it_reads_changes_and_only_then() {
    let world = world();
    let read = start(&world, "/v1/job/web?index=4&wait=5m").await;
    world.apply(vec![register(small_job("other"), EvalId(7))]);
    rest().await;
    assert!(!read.is_finished(), "another job changed");
    world.apply(vec![register(small_job("web"), EvalId(8))]);
    let answer = read.await.expect("it ends well");
    assert_eq!((index(&answer), &answer.json()["Version"]), (8, &1.into()));
}

#[tokio::test]
async fn observed_changes_wake_readers_of_allocations() {
    let world = world();
    let one = start(&world, &format!("/v1/allocation/{RUNNING}?index=5")).await;
    let of_job = start(&world, "/v1/job/web/allocations?index=6").await;
    let summary = start(&world, "/v1/job/web/summary?index=6").await;
    let all = start(&world, "/v1/allocations?index=6").await;
    let other = start(&world, &format!("/v1/allocation/{FAILED}?index=6&wait=1ms")).await;
    world.observe(observed(RUNNING, ClientStatus::Complete));
    let answer = one.await.expect("it ends well");
    assert_eq!((index(&answer), &answer.json()["ClientStatus"]), (7, &"complete".into()));
    for read in [of_job, summary, all] {
        assert_eq!(index(&read.await.expect("it ends well")), 7);
    }
    assert_eq!(index(&other.await.expect("it ends well")), 6, "it timed out and is told the index it knew");
}

#[tokio::test]
async fn a_reader_of_what_is_not_there_waits_until_it_is() {
    let world = world();
    let read = start(&world, "/v1/job/new?index=6").await;
    world.apply(vec![register(small_job("new"), EvalId(7))]);
    assert_eq!(read.await.expect("it ends well").status, 200);
    let timed_out = get(&api(&world), "/v1/job/newer?index=7&wait=1ms").await;
    assert_eq!((timed_out.status.as_u16(), timed_out.body.as_str()), (404, "job not found"));
    assert_eq!(index(&timed_out), 7, "what it waits for next comes after that");
    assert_eq!(index(&get(&api(&world), "/v1/job/newer").await), 7);
}

#[tokio::test]
async fn a_thousand_readers_are_all_woken() {
    let world = world();
    let router = api(&world);
    let read = |_| {
        let router = router.clone();
        tokio::spawn(async move { get(&router, "/v1/jobs?index=6").await })
    };
    let reads: Vec<_> = (0..1000).map(read).collect();
    rest().await;
    world.apply(vec![Command::CreateEvals(Vec::new()), register(small_job("new"), EvalId(7))]);
    for read in reads {
        assert_eq!(index(&read.await.expect("it ends well")), 7);
    }
}

#[tokio::test]
async fn readers_that_are_woken_together_each_get_their_own_answer() {
    let world = world();
    let router = api(&world);
    let start = |target: &'static str| {
        let router = router.clone();
        tokio::spawn(async move { get(&router, target).await })
    };
    let targets = [
        "/v1/jobs?index=6&prefix=new",
        "/v1/jobs?index=5&prefix=new&wait=5m",
        "/v1/jobs?index=6&prefix=web",
        "/v1/jobs?index=6&prefix=web&pretty",
        "/v1/job/new?index=6",
    ];
    let reads = targets.map(start);
    rest().await;
    world.apply(vec![register(small_job("new"), EvalId(7))]);
    let mut bodies = Vec::new();
    let mut headers = Vec::new();
    for read in reads {
        let answer = read.await.expect("it ends well");
        assert_eq!((answer.status.as_u16(), index(&answer)), (200, 7));
        bodies.push(answer.body);
        headers.push(answer.headers);
    }
    assert_eq!(headers[0], headers[1], "an answer that was written for another reader says as much");
    assert_eq!(bodies[0], bodies[1], "how long to wait makes no difference");
    assert!(bodies[0].contains("new") && bodies[2].contains("web") && !bodies[2].contains("new"));
    assert!(bodies[3].contains('\n') && !bodies[2].contains('\n'));
    assert!(bodies[4].starts_with('{'));
}

/// Clients of Nomad take 0 for a list in which nothing has ever been. One that waits is answered 1: with 0 it would ask again
/// at once, and never wait.
#[tokio::test]
async fn the_index_of_what_never_existed_is_0_except_for_blocking_reads() {
    let router = api(&Arc::new(FakeEngine::default()));
    for path in ["/v1/jobs", "/v1/nodes", "/v1/allocations", "/v1/evaluations", "/v1/deployments"] {
        let plain = get(&router, path).await;
        assert_eq!((plain.body.as_str(), index(&plain)), ("[]", 0), "{path}");
        assert_eq!(index(&get(&router, &format!("{path}?index=0")).await), 1, "{path}");
        assert_eq!(index(&get(&router, &format!("{path}?index=1&wait=1ms")).await), 1, "{path}");
    }
    for path in ["/v1/namespaces", "/v1/node/pools"] {
        assert_eq!(index(&get(&router, path).await), 1, "{path}: some have always been there");
    }
}

#[tokio::test]
async fn a_write_returns_its_index() {
    let router = api(&world());
    let job = serde_json::json!({ "Job": berth_jobfile::to_json(&small_job("new")) }).to_string();
    let eligible = r#"{"Eligibility":"ineligible"}"#;
    for (method, path, body) in [
        ("PUT", "/v1/jobs", job.as_str()),
        ("PUT", "/v1/job/new/evaluate", "{}"),
        ("PUT", &format!("/v1/node/{}/eligibility", super::world::NODE_1), eligible),
        ("PUT", &format!("/v1/allocation/{RUNNING}/stop"), ""),
        ("PUT", "/v1/namespace/ops", "{}"),
        ("DELETE", "/v1/job/new", ""),
    ] {
        let answer = super::exchange::answer(&router, method, path, body.to_owned()).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        if let Ok(body) = serde_json::from_str::<serde_json::Value>(&answer.body)
            && let Some(reported) = body["Index"].as_u64()
        {
            assert_eq!(index(&answer), reported, "{path}");
        }
        assert!(index(&answer) > 6, "{path}");
        assert!(answer.headers.contains("x-nomad-knownleader: true"), "{path}: {}", answer.headers);
        assert!(answer.headers.contains("x-nomad-lastcontact: 0"), "{path}: {}", answer.headers);
    }
}
