//! The client of `berth_api` against this server, over a real connection.

use berth_api::http::{
    Allocation, ApiError, Client, Evaluation, EventFrame, JobRegistered, JobServerFields, JobStub, NodeStub,
    StreamFrame, Target,
};
use expect_test::expect;
use serde_json::json;

use super::{
    limits::Server,
    world::{EVAL, RUNNING, small_job},
};
use crate::http::Limits;

async fn start() -> (Server, Client) {
    let server = Server::start(Limits::default()).await;
    let client = Client::new(format!("http://{}", server.address).parse().expect("it is an address"));
    (server, client)
}

#[tokio::test]
async fn what_the_server_writes_the_client_reads() {
    let (server, client) = start().await;
    let jobs = client.get::<Vec<JobStub>>(&Target::new("/v1/jobs")).await.expect("it answers");
    assert_eq!(
        (jobs.index, jobs.value[0].id.as_str(), jobs.value[0].job_summary.summary["app"].running),
        (4, "web", 1)
    );
    let alloc = Target::new("/v1/allocation").part(&RUNNING.to_string());
    let alloc = client.get::<Allocation>(&alloc).await.expect("it answers").value;
    assert_eq!(alloc.task_states.expect("it has run")["server"].state, "running");
    let eval = Target::new("/v1/evaluation").part(&EVAL.to_string()).param("related", true);
    let eval = client.get::<Evaluation>(&eval).await.expect("it answers").value;
    let failed = &eval.failed_tg_allocs.expect("it failed")["app"];
    assert_eq!((failed.nodes_filtered, failed.nodes_exhausted), (1, 1));
    let nodes = client
        .get::<Vec<NodeStub>>(&Target::new("/v1/nodes").param("per_page", 1))
        .await
        .expect("it answers");
    assert_eq!((nodes.value.len(), nodes.next_token.is_some()), (1, true));
    server.stop().await;
}

#[tokio::test]
async fn a_client_registers_a_job_and_stops_it() {
    let (server, client) = start().await;
    let body = json!({ "Job": berth_jobfile::to_json(&small_job("a/b")) });
    let registered =
        client.put::<JobRegistered>(&Target::new("/v1/jobs"), &body).await.expect("it is taken").value;
    let job = Target::new("/v1/job").part("a/b");
    let standing = client.get::<JobServerFields>(&job).await.expect("it answers").value;
    assert_eq!(
        (standing.status.as_str(), standing.job_modify_index),
        ("pending", registered.job_modify_index)
    );
    client.delete::<serde_json::Value>(&job).await.expect("it is stopped");
    server.stop().await;
}

#[tokio::test]
async fn a_client_follows_events_and_logs() {
    let (server, client) = start().await;
    let mut events = client
        .lines::<EventFrame>(&Target::new("/v1/event/stream").param("index", 5))
        .await
        .expect("it is open");
    let frame = events.next().await.expect("it lives").expect("a frame");
    assert_eq!((frame.index, frame.events[0].observed), (5, true));
    let logs = Target::new("/v1/client/fs/logs").part(&RUNNING.to_string());
    let mut frames = client.lines::<StreamFrame>(&logs).await.expect("it is open");
    assert_eq!(frames.next().await, Ok(None));
    server.stop().await;
    assert_eq!(events.next().await.map(|frame| frame.map(|frame| frame.index)), Ok(Some(6)));
    assert_eq!(events.next().await, Ok(None));
}

#[tokio::test]
async fn a_clients_errors_say_what_happened() {
    let (server, client) = start().await;
    let missing =
        client.get::<JobStub>(&Target::new("/v1/job").part("nope")).await.expect_err("it is not there");
    assert_eq!((missing.status(), missing.to_string().as_str()), (Some(404), "job not found"));
    let wrong =
        client.get::<JobStub>(&Target::new("/v1/status/leader")).await.expect_err("it is something else");
    assert!(matches!(wrong, ApiError::Decode { .. }), "{wrong}");
    let address = server.address.to_string();
    server.stop().await;
    let gone = client.get::<JobStub>(&Target::new("/v1/jobs")).await.expect_err("nobody listens");
    expect!["cannot reach the server at http://ADDRESS: Connection refused (os error 111); is berth running? start one with `berth dev`"].assert_eq(&gone.to_string().replace(&address, "ADDRESS"));
}
