//! Frames of the agents' protocol that never end.

use std::time::Duration;

use tokio::{io::AsyncWriteExt, task::JoinSet, time::timeout};

use crate::run::hostile::attacked_server::AttackedServer;

/// Connections, all from one address.
const CONNECTIONS: u32 = 300;
/// The largest frame that the protocol knows.
const FRAME_BYTES: usize = 4 << 20;
const CHUNK_BYTES: usize = 64 << 10;
/// A server that takes nothing more for so long has had enough.
const WRITE_MAX: Duration = Duration::from_secs(5);

/// Sends all but the last byte of a frame on each connection, and holds it.
pub(super) async fn carry_out(attacked: AttackedServer) -> String {
    let connections = attacked.part(CONNECTIONS);
    let mut peers = JoinSet::new();
    for _ in 0..connections {
        let attacked = attacked.clone();
        peers.spawn(async move {
            let mut sent = 0;
            let Ok(mut stream) = attacked.agent(2).await else { return sent };
            let head = u32::try_from(FRAME_BYTES).unwrap_or(u32::MAX).to_be_bytes();
            if stream.write_all(&head).await.is_err() {
                return sent;
            }
            while sent + 1 < FRAME_BYTES && !attacked.is_over() {
                let chunk = vec![0x0a; CHUNK_BYTES.min(FRAME_BYTES - 1 - sent)];
                match timeout(WRITE_MAX, stream.write_all(&chunk)).await {
                    Ok(Ok(())) => sent += chunk.len(),
                    _ => break,
                }
            }
            attacked.over().await;
            sent
        });
    }
    let sent: usize = peers.join_all().await.into_iter().sum();
    format!("{connections} connections sent {} MiB of unfinished frames", sent >> 20)
}
