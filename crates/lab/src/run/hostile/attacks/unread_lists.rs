//! Large lists that nobody reads.

use serde_json::json;
use tokio::net::TcpStream;

use crate::run::{RunError, hostile::attacked_server::AttackedServer};

/// Jobs, and bytes of the label of each: the largest that the server takes.
const JOBS: u32 = 60;
const LABEL_BYTES: [usize; 4] = [900_000, 120_000, 30_000, 4_000];
/// Clients that do not read.
const CLIENTS: u32 = 40;

/// Jobs that make lists large.
pub(super) async fn prepare(attacked: &AttackedServer) -> Result<(), RunError> {
    let mut sizes = LABEL_BYTES.into_iter().peekable();
    for number in 0..attacked.part(JOBS) {
        while let Some(bytes) = sizes.peek() {
            match attacked.register(&job(number, *bytes)).await {
                Ok(()) => break,
                Err(_) => sizes.next(),
            };
        }
    }
    match sizes.peek() {
        Some(_) => Ok(()),
        None => Err(RunError::Http {
            doing: "register jobs with long labels".to_owned(),
            reason: "none is short enough".to_owned(),
        }),
    }
}

/// Asks and does not read.
pub(super) async fn carry_out(attacked: AttackedServer) -> String {
    let mut connections: Vec<TcpStream> = Vec::new();
    for number in 0..attacked.part(CLIENTS) {
        connections.extend(attacked.http(2 + (number % 3) as u8, "GET /v1/jobs?meta=true").await);
    }
    attacked.over().await;
    format!(
        "{} clients asked for a list of {} large jobs and did not read it",
        connections.len(),
        attacked.part(JOBS)
    )
}

fn job(number: u32, label_bytes: usize) -> serde_json::Value {
    json!({
        "ID": format!("long-label-{number}"),
        "Meta": {"label": "n".repeat(label_bytes)},
        "Datacenters": ["nowhere"],
        "TaskGroups": [{"Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}]}],
    })
}
