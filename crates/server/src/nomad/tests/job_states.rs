//! A reader of the event stream knows the same status of every job as the list shows.

use std::{collections::BTreeMap, sync::Arc};

use axum::body::Body;
use berth_api::http::{EventFrame, JobStub};
use berth_model::{
    AllocId, EvalId, JobKey,
    alloc::{AllocEnd, ClientStatus},
    command::{Collect, Command, DeregisterJob},
    eval::EvalStatus,
    job::{Job, JobType},
};
use http_body_util::BodyExt;

use super::{
    exchange::{api, get, request, send},
    fake_engine::FakeEngine,
    world::{self, end, register, small_job, world},
};

/// The last job that is registered: whoever has read of it has read all.
const LAST: &str = "last";

fn start(world: &FakeEngine, id: &str, job_type: JobType, alloc: u128) {
    world::start(world, Job { job_type, ..small_job(id) }, AllocId(alloc), None);
}

/// Wants a job to end, which is planned at once.
fn deregister(world: &FakeEngine, id: &str, purge: bool, eval: u128) {
    let eval = EvalId(eval);
    world.apply(vec![Command::DeregisterJob(DeregisterJob { job: JobKey::new("default", id), purge, eval })]);
    world.apply(vec![Command::SetEvalStatus(eval, EvalStatus::Complete, String::new())]);
}

fn ended(alloc: u128, status: ClientStatus) -> Command {
    Command::EndAllocs(vec![AllocEnd { status, ..end(AllocId(alloc)) }])
}

/// The status of each job by what the stream has told from its beginning.
async fn statuses_of(world: &Arc<FakeEngine>) -> BTreeMap<String, String> {
    let target = "/v1/event/stream?index=1&topic=Job";
    let mut body = send(&api(world), request("GET", target, Body::empty())).await.into_body();
    let mut jobs = BTreeMap::new();
    while !jobs.contains_key(LAST) {
        let line = body.frame().await.expect("it goes on").expect("it does not break");
        let frame: EventFrame = serde_json::from_slice(&line.into_data().expect("data")).expect("a frame");
        for event in frame.events {
            match event.payload["Job"]["Status"].as_str() {
                Some(status) => jobs.insert(event.key, status.to_owned()),
                None => jobs.remove(&event.key),
            };
        }
    }
    jobs
}

async fn listed(world: &Arc<FakeEngine>) -> BTreeMap<String, String> {
    let jobs = get(&api(world), "/v1/jobs").await.json();
    let jobs: Vec<JobStub> = serde_json::from_value(jobs).expect("jobs");
    jobs.into_iter().map(|job| (job.id, job.status)).collect()
}

#[tokio::test]
async fn a_reader_of_events_knows_the_status_of_every_job() {
    let world = world();
    start(&world, "done", JobType::Batch, 1);
    start(&world, "failed", JobType::Batch, 2);
    start(&world, "stopped", JobType::Service, 3);
    start(&world, "runs", JobType::Service, 4);
    start(&world, "purged", JobType::Service, 5);
    world.apply(vec![register(small_job("never-placed"), EvalId(6))]);
    world.apply(vec![ended(1, ClientStatus::Complete)]);
    world.apply(vec![ended(2, ClientStatus::Failed)]);
    deregister(&world, "stopped", false, 7);
    deregister(&world, "purged", true, 8);
    world.apply(vec![Command::SetEvalStatus(EvalId(6), EvalStatus::Complete, String::new())]);
    deregister(&world, "never-placed", false, 9);
    world.apply(vec![ended(3, ClientStatus::Complete), ended(5, ClientStatus::Complete)]);
    let purged =
        Collect { jobs: vec![JobKey::new("default", "purged").purged(EvalId(8))], ..Collect::default() };
    world.apply(vec![Command::Collect(Box::new(purged))]);
    world.apply(vec![register(small_job(LAST), EvalId(10))]);
    let statuses = statuses_of(&world).await;
    assert_eq!(statuses, listed(&world).await);
    let status = |id: &str| statuses.get(id).map(String::as_str);
    assert_eq!(
        [status("done"), status("stopped"), status("never-placed")],
        [Some("dead"); 3],
        "{statuses:?}"
    );
    assert_eq!((status("runs"), status("purged")), (Some("running"), None), "{statuses:?}");
}
