//! Reads that wait, on as many connections as can be had.

use std::time::Duration;

use tokio::{net::TcpStream, time::timeout};

use crate::run::hostile::ground::Ground;

/// Addresses, and connections of each: in all as many as a process may have.
const ADDRESSES: u8 = 3;
const CONNECTIONS: u32 = 5_600;
/// Until a connection is no longer waited for.
const CONNECT_MAX: Duration = Duration::from_secs(1);
const HEAD: &str = "GET /v1/jobs?index=18446744073709551615&wait=10m";

/// Opens them one after the other, and holds them.
pub(super) async fn carry_out(ground: Ground) -> String {
    let each = ground.part(CONNECTIONS);
    let mut held: Vec<TcpStream> = Vec::new();
    for number in 0..each * u32::from(ADDRESSES) {
        if ground.is_over() {
            break;
        }
        let from = 2 + (number % u32::from(ADDRESSES)) as u8;
        if let Ok(Ok(connection)) = timeout(CONNECT_MAX, ground.http(from, HEAD)).await {
            held.push(connection);
        }
    }
    ground.over().await;
    // The server hangs up on those that are too many.
    let open = held.iter().filter(|connection| !is_closed(connection)).count();
    format!(
        "{ADDRESSES} addresses opened {} connections with reads that wait, {open} of them stayed",
        held.len()
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
