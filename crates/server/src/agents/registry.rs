//! Which node is reached through which session.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use berth_api::agent::{Down, FileCancel, FileCredit, FileRead};
use berth_controller::SessionId;
use berth_model::NodeId;
use tokio::sync::mpsc;

use super::{files::Chunks, outgoing::Outgoing};
use crate::{
    engine::Link,
    state::{LogChunk, LogError, LogRequest},
};

/// Bytes of one log on their way from an agent.
const CREDIT_BYTES: u64 = 256 << 10;
/// Pieces handed to a reader that it has not taken.
const HANDED_MAX: usize = 16;

/// The welcomed sessions.
#[derive(Default)]
pub(crate) struct Registry(Mutex<HashMap<NodeId, (SessionId, Link)>>);

impl Registry {
    pub fn insert(&self, session: SessionId, link: Link) {
        self.lock().insert(link.node, (session, link));
    }

    pub fn remove(&self, session: SessionId, node: NodeId) {
        let mut sessions = self.lock();
        if sessions.get(&node).is_some_and(|(current, _)| *current == session) {
            sessions.remove(&node);
        }
    }

    /// Reads a log from a node.
    pub async fn read_log(
        &self,
        node: NodeId,
        request: LogRequest,
    ) -> Result<mpsc::Receiver<Result<LogChunk, LogError>>, LogError> {
        let link =
            self.lock().get(&node).map(|(_, link)| link.clone()).ok_or(LogError::NotConnected(node))?;
        let (number, chunks) = link.files.open();
        let read = FileRead {
            request: number,
            alloc_id: request.alloc.to_bytes().to_vec(),
            task: request.task,
            stream: request.stream,
            offset: request.offset,
            from_end: request.from_end,
            follow: request.follow,
            credit_bytes: CREDIT_BYTES,
        };
        let sent = link.outgoing.send((link.number, Outgoing::Wire(Down::FileRead(read)))).await;
        sent.map_err(|_| LogError::NotConnected(node))?;
        let (reader, handed) = mpsc::channel(HANDED_MAX);
        tokio::spawn(hand_over(link, number, chunks, reader));
        Ok(handed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<NodeId, (SessionId, Link)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hands pieces to the reader, and allows the agent to send as many bytes as the reader took.
async fn hand_over(
    link: Link,
    number: u64,
    mut chunks: Chunks,
    reader: mpsc::Sender<Result<LogChunk, LogError>>,
) {
    let tell = |message| link.outgoing.send((link.number, Outgoing::Wire(message)));
    loop {
        let chunk = tokio::select! {
            chunk = chunks.recv() => chunk,
            () = reader.closed() => {
                let _ = tell(Down::FileCancel(FileCancel { request: number })).await;
                break;
            }
        };
        let Some(chunk) = chunk else { break };
        let bytes = chunk.as_ref().map_or(0, |chunk| chunk.data.len() as u64);
        if reader.send(chunk).await.is_err() {
            continue;
        }
        if bytes > 0 && tell(Down::FileCredit(FileCredit { request: number, bytes })).await.is_err() {
            let _ = reader.send(Err(LogError::NotConnected(link.node))).await;
            break;
        }
    }
    link.files.close(number);
}
