//! Connections of tasks to the HTTP API, as agents carry them: each is served as if it had come in at the port for clients, but that
//! whoever asks has to show a token.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_api::agent::{
    Down, TASK_API_CONNECTIONS_MAX, TASK_API_IDLE_MAX, TASK_API_WINDOW_BYTES, TaskApi, TaskApiClose,
    TaskApiEnd, TaskApiOpen, TaskApiPart,
};
use berth_model::NodeId;
use tokio::io::duplex;

use super::{encode::frame, listen::Context, outbound::Outbound};
use crate::{net::Stream, workload::TaskAt};

/// The connections of one session. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct TaskApis(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    ended: bool,
    connections: HashMap<u64, Arc<TaskApiEnd>>,
}

/// The session that carries a connection.
pub(super) struct Carrier<'a> {
    pub context: &'a Context,
    pub node: NodeId,
    pub peer: SocketAddr,
    /// Of the session.
    pub number: u32,
    pub outbound: &'a Outbound,
}

impl TaskApis {
    /// The agent says something of a connection. One that there is no room for, or that is not for a task of the node, ends at
    /// once.
    pub(super) async fn on_said(&self, carrier: &Carrier<'_>, said: TaskApi) {
        let TaskApi { connection, part } = said;
        match part {
            Some(TaskApiPart::Open(open)) => {
                let is_served = self.open(carrier, connection, &open).await;
                if !is_served {
                    let close = TaskApiPart::Close(TaskApiClose {});
                    let close = TaskApi { connection, part: Some(close) };
                    let _ = carrier.outbound.send(frame(carrier.number, Down::TaskApi(close))).await;
                }
            }
            Some(part) => {
                let end = self.lock().connections.get(&connection).cloned();
                if let Some(end) = end {
                    end.on_part(part);
                }
            }
            None => {}
        }
    }

    /// Whether the connection is served from now on.
    async fn open(&self, carrier: &Carrier<'_>, connection: u64, asked: &TaskApiOpen) -> bool {
        let Carrier { context, node, peer, number, outbound } = carrier;
        let (Some(state), Some(door)) = (context.state(), context.task_door()) else { return false };
        let of_task = match TaskAt::find(state, *node, asked) {
            Ok(task) => task,
            Err(text) => {
                tracing::debug!(%node, text, "carries nothing for a task");
                return false;
            }
        };
        let Ok(room) = context.task_apis.clone().try_acquire_owned() else { return false };
        let end = Arc::new(TaskApiEnd::default());
        {
            let mut open = self.lock();
            let is_new = !open.connections.contains_key(&connection);
            if open.ended || !is_new || open.connections.len() >= TASK_API_CONNECTIONS_MAX {
                return false;
            }
            open.connections.insert(connection, end.clone());
        }
        let (ours, theirs) = duplex(TASK_API_WINDOW_BYTES);
        if door.send(Stream::carried(theirs, *peer, of_task)).await.is_err() {
            self.lock().connections.remove(&connection);
            return false;
        }
        let (outbound, number, all) = ((*outbound).clone(), *number, self.clone());
        tokio::spawn(async move {
            let tell = |part| {
                let told = frame(number, Down::TaskApi(TaskApi { connection, part: Some(part) }));
                let outbound = outbound.clone();
                async move { outbound.send(told).await.is_ok() }
            };
            let _ = end.carry(ours, TASK_API_IDLE_MAX, tell).await;
            all.lock().connections.remove(&connection);
            tell(TaskApiPart::Close(TaskApiClose {})).await;
            drop(room);
        });
        true
    }

    /// The session is over, and with it what it carried.
    pub fn end(&self) {
        let mut open = self.lock();
        open.ended = true;
        open.connections.drain().for_each(|(_, end)| end.close());
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
