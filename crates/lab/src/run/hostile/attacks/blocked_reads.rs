//! Blocking reads on as many connections as the server accepts.

use std::time::Duration;

use serde_json::json;
use tokio::{net::TcpStream, time::timeout};

use crate::run::hostile::attacked_server::AttackedServer;

/// Addresses, and connections of each: in all as many as a process may have.
const ADDRESSES: u8 = 3;
const CONNECTIONS: u32 = 5_600;
/// Until a connection is no longer waited for.
const CONNECT_MAX: Duration = Duration::from_secs(1);
const HEAD: &str = "GET /v1/jobs?index=18446744073709551615&wait=10m";
const NAMED_HEAD: &str = "PUT /v1/jobs/statuses?index=18446744073709551615&wait=10m";
/// Jobs that one read names, and bytes of each name: as many as are taken.
const NAMED: usize = 64;
const NAME_BYTES: usize = 256;

/// Reads of any job.
pub(super) async fn of_all_jobs(attacked: AttackedServer) -> String {
    hold(&attacked, |_| (HEAD, String::new())).await
}

/// Reads of many jobs by their names.
pub(super) async fn of_named_jobs(attacked: AttackedServer) -> String {
    hold(&attacked, |number| (NAMED_HEAD, names(number))).await
}

fn names(number: u32) -> String {
    let name = |at: usize| format!("{:0>NAME_BYTES$}", format!("{}-{at}", number));
    let jobs: Vec<_> = (0..NAMED).map(|at| json!({ "ID": name(at) })).collect();
    json!({ "Jobs": jobs }).to_string()
}

/// Opens connections one after the other, and holds them; `read` is what each of them requests.
async fn hold(attacked: &AttackedServer, read: impl Fn(u32) -> (&'static str, String)) -> String {
    let each = attacked.part(CONNECTIONS);
    let mut connections: Vec<TcpStream> = Vec::new();
    for number in 0..each * u32::from(ADDRESSES) {
        if attacked.is_over() {
            break;
        }
        let from = 2 + (number % u32::from(ADDRESSES)) as u8;
        let (head, body) = read(number);
        if let Ok(Ok(connection)) = timeout(CONNECT_MAX, attacked.http_with(from, head, &body)).await {
            connections.push(connection);
        }
    }
    attacked.over().await;
    // The server hangs up on those that are too many.
    let open = connections.iter().filter(|connection| !is_closed(connection)).count();
    format!(
        "{ADDRESSES} addresses opened {} connections with reads that wait, {open} of them stayed",
        connections.len()
    )
}

fn is_closed(connection: &TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match connection.try_read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}
