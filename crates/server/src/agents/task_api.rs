//! Connections of tasks to the HTTP API, carried by their agents. They are served like connections at the clients' port, but
//! always need a token.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use berth_api::agent::{
    Down, TASK_API_CONNECTIONS_MAX, TASK_API_IDLE_MAX, TASK_API_WINDOW_BYTES, TaskApi, TaskApiClose,
    TaskApiData, TaskApiEnd, TaskApiOpen, TaskApiPart, task_api_refusal,
};
use berth_model::NodeId;
use tokio::io::duplex;

use super::{encode::frame, listen::ListenContext, outbound::Outbound};
use crate::{net::NetStream, workload::TaskAt};

const NOT_SERVED: &str = "this server serves no tasks: it starts or stops; try again";
const NOT_KNOWN: &str =
    "this server knows of no such task on this node: it may have ended, or be new there; try again";
const NO_ROOM: &str = "the tasks of all nodes have too many connections to this server: try again";
const NO_ROOM_OF_NODE: &str = "the tasks of this node have too many connections to the API: try again";

/// The connections of one session. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct TaskApis(Arc<Mutex<OpenConnections>>);

#[derive(Default)]
struct OpenConnections {
    ended: bool,
    connections: HashMap<u64, Arc<TaskApiEnd>>,
}

/// The session that carries a connection.
pub(super) struct TaskApiSession<'a> {
    pub context: &'a ListenContext,
    pub node: NodeId,
    pub peer: SocketAddr,
    /// The session's number on its connection.
    pub number: u32,
    pub outbound: &'a Outbound,
}

impl TaskApis {
    /// The agent reports on a connection. One that is over a limit, or that is not for a task of the node, ends at
    /// once.
    pub(super) async fn on_message(&self, carrier: &TaskApiSession<'_>, message: TaskApi) {
        let TaskApi { connection, part } = message;
        match part {
            Some(TaskApiPart::Open(open)) => {
                if let Err(answer) = self.open(carrier, connection, &open).await {
                    let answer = answer.map(|(status, text)| {
                        TaskApiPart::Data(TaskApiData { data: task_api_refusal(status, text).into() })
                    });
                    for part in answer.into_iter().chain([TaskApiPart::Close(TaskApiClose {})]) {
                        let refusal = TaskApi { connection, part: Some(part) };
                        let _ = carrier.outbound.send(frame(carrier.number, Down::TaskApi(refusal))).await;
                    }
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

    /// The connection is served from now on.
    ///
    /// # Errors
    /// When it is not: what the task is answered. Nothing where the agent repeats itself, for a task may be speaking
    /// by that number.
    async fn open(
        &self,
        carrier: &TaskApiSession<'_>,
        connection: u64,
        request: &TaskApiOpen,
    ) -> Result<(), Option<(u16, &'static str)>> {
        let TaskApiSession { context, node, peer, number, outbound } = carrier;
        let (Some(state), Some(sender)) = (context.state(), context.task_api_sender()) else {
            return Err(Some((503, NOT_SERVED)));
        };
        let of_task = TaskAt::find(state, *node, request).map_err(|text| {
            tracing::debug!(%node, text, "request of a task refused");
            Some((503, NOT_KNOWN))
        })?;
        let Ok(permit) = context.task_apis.clone().try_acquire_owned() else {
            return Err(Some((429, NO_ROOM)));
        };
        let end = Arc::new(TaskApiEnd::default());
        {
            let mut open = self.lock();
            let is_new = !open.connections.contains_key(&connection);
            if open.ended || !is_new {
                return Err(None);
            }
            if open.connections.len() >= TASK_API_CONNECTIONS_MAX {
                return Err(Some((429, NO_ROOM_OF_NODE)));
            }
            open.connections.insert(connection, end.clone());
        }
        let (ours, theirs) = duplex(TASK_API_WINDOW_BYTES);
        if sender.send(NetStream::carried(theirs, *peer, of_task)).await.is_err() {
            self.lock().connections.remove(&connection);
            return Err(Some((503, NOT_SERVED)));
        }
        let (outbound, number, all) = ((*outbound).clone(), *number, self.clone());
        tokio::spawn(async move {
            let send = |part| {
                let message = frame(number, Down::TaskApi(TaskApi { connection, part: Some(part) }));
                let outbound = outbound.clone();
                async move { outbound.send(message).await.is_ok() }
            };
            let _ = end.carry(ours, TASK_API_IDLE_MAX, send).await;
            all.lock().connections.remove(&connection);
            send(TaskApiPart::Close(TaskApiClose {})).await;
            drop(permit);
        });
        Ok(())
    }

    /// The session is over, and with it what it carried.
    pub fn end(&self) {
        let mut open = self.lock();
        open.ended = true;
        open.connections.drain().for_each(|(_, end)| end.close());
    }

    fn lock(&self) -> MutexGuard<'_, OpenConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
