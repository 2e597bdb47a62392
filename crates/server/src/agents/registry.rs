//! The registry of sessions by node.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use berth_api::agent::{
    AgentLogRead, AgentOutcome, AgentQuery, AgentRequest, Down, FileCancel, FileCredit, FileRead,
    RevokedServer, SERVERS_MAX, Servers,
};
use berth_controller::SessionId;
use berth_model::NodeId;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    agents::{files::CREDIT_BYTES, frame},
    engine::SessionLink,
    shared::{AgentError, Agents, ExecLink, ExecRequest, ReadPiece, ReadPieces, ReadRequest, ReadSource},
};

/// Pieces queued for a reader; each may be as large as the window.
const HANDED_MAX: usize = 2;
/// Timeout of an agent's response; its own timeouts are shorter.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// The welcomed sessions, and what all of them are informed of the servers.
#[derive(Default)]
pub(crate) struct Registry {
    sessions: Mutex<HashMap<NodeId, (SessionId, SessionLink)>>,
    servers: Mutex<Servers>,
}

impl Registry {
    pub fn insert(&self, session: SessionId, link: SessionLink) {
        self.lock().insert(link.node, (session, link));
    }

    /// Sends a session that begins which servers there are; nothing while there is only one, and none was revoked. The lock is
    /// held until that is sent, as in [`Self::send_to_all`].
    pub fn send_servers(&self, link: &SessionLink) {
        let servers = self.servers_sent();
        if servers.addresses.len() > 1 || !servers.revoked.is_empty() {
            link.outbound.send_now(frame(link.number, Down::Servers(servers.clone())));
        }
    }

    /// Servers take agents at these addresses: all sessions are sent what they do not know yet, and nothing while there has been
    /// but one.
    pub fn set_servers(&self, mut addresses: Vec<String>) {
        addresses.truncate(SERVERS_MAX);
        let mut servers_sent = self.servers_sent();
        if servers_sent.addresses == addresses {
            return;
        }
        // An agent that was given another way to the only server, as a proxy, keeps to that.
        let is_known_to_all = servers_sent.addresses.is_empty() && addresses.len() == 1;
        servers_sent.addresses = addresses;
        if is_known_to_all {
            return;
        }
        self.send_to_all(&servers_sent);
    }

    /// These servers were revoked, by name, with seconds since 1970: all sessions are informed.
    pub fn set_revoked(&self, revoked: &BTreeMap<String, u64>) {
        let one = |(name, at_secs): (&String, &u64)| RevokedServer { name: name.clone(), at_secs: *at_secs };
        let revoked: Vec<_> = revoked.iter().map(one).collect();
        let mut servers_sent = self.servers_sent();
        if servers_sent.revoked == revoked {
            return;
        }
        servers_sent.revoked = revoked;
        self.send_to_all(&servers_sent);
    }

    /// Called with the lock of `servers` held, so that of two changes the later is sent last: agents go by the last that they are
    /// sent. Nothing here waits, and nobody takes that lock while holding the one of `sessions`.
    fn send_to_all(&self, servers: &Servers) {
        let links: Vec<SessionLink> = self.lock().values().map(|(_, link)| link.clone()).collect();
        for link in links {
            link.outbound.send_now(frame(link.number, Down::Servers(servers.clone())));
        }
    }

    fn servers_sent(&self) -> MutexGuard<'_, Servers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn remove(&self, session: SessionId, node: NodeId) {
        let mut sessions = self.lock();
        if sessions.get(&node).is_some_and(|(current, _)| *current == session) {
            sessions.remove(&node);
        }
    }

    /// Whether the agent of a node is connected here.
    pub fn has(&self, node: NodeId) -> bool {
        self.lock().contains_key(&node)
    }

    /// How many agents are connected here.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn link(&self, node: NodeId) -> Result<SessionLink, AgentError> {
        self.lock().get(&node).map(|(_, link)| link.clone()).ok_or(AgentError::NotConnected(node))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, (SessionId, SessionLink)>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Agents for Registry {
    async fn read_file(&self, node: NodeId, request: ReadRequest) -> Result<ReadPieces, AgentError> {
        let link = self.link(node)?;
        let (number, chunks) = link.pending.files.open().ok_or(AgentError::NotConnected(node))?;
        let read = FileRead {
            request: number,
            alloc_id: request.alloc.to_bytes().to_vec(),
            offset: request.offset,
            from_end: request.from_end,
            follow: request.follow,
            credit_bytes: CREDIT_BYTES,
            ..FileRead::default()
        };
        let read = match request.source {
            ReadSource::Log { task, stream } => FileRead { task, stream, ..read },
            ReadSource::File { path, limit } => FileRead { path, limit, ..read },
            ReadSource::AgentLog(detail) => {
                let log_read = AgentLogRead { level: detail.level.to_string(), json: detail.is_json() };
                FileRead { agent_log: Some(log_read), ..read }
            }
        };
        let sent = link.send(Down::FileRead(read)).await;
        sent.map_err(|_| AgentError::NotConnected(node))?;
        let (reader, pieces) = mpsc::channel(HANDED_MAX);
        tokio::spawn(hand_over(link, number, chunks, reader));
        Ok(pieces)
    }

    async fn ask(&self, node: NodeId, query: AgentQuery) -> Result<AgentOutcome, AgentError> {
        let link = self.link(node)?;
        let too_many =
            || AgentError::Busy(format!("too much is asked of node {node}: try again in a moment"));
        let mut ask = link.pending.asks.open().ok_or_else(too_many)?;
        let sent = link.send(Down::Ask(AgentRequest { request: ask.number, query: Some(query) })).await;
        sent.map_err(|_| AgentError::NotConnected(node))?;
        match timeout(ANSWER_MAX, &mut ask.answer).await {
            Ok(Ok(AgentOutcome::Refused(refusal))) => Err(refusal.into()),
            Ok(Ok(outcome)) => Ok(outcome),
            Ok(Err(_)) => Err(AgentError::NotConnected(node)),
            Err(_) => Err(AgentError::Silent(node)),
        }
    }

    async fn exec(&self, node: NodeId, request: ExecRequest) -> Result<ExecLink, AgentError> {
        let link = self.link(node)?;
        link.pending.execs.clone().start(link, request).await
    }
}

/// Hands pieces to the reader, and allows the agent to send as many bytes as the reader took.
async fn hand_over(
    link: SessionLink,
    number: u64,
    mut chunks: ReadPieces,
    reader: mpsc::Sender<Result<ReadPiece, AgentError>>,
) {
    loop {
        let chunk = tokio::select! {
            chunk = chunks.recv() => chunk,
            () = reader.closed() => {
                let _ = link.send(Down::FileCancel(FileCancel { request: number })).await;
                break;
            }
        };
        let Some(chunk) = chunk else { break };
        let Ok(permit) = reader.reserve().await else { continue };
        let bytes = chunk.as_ref().map_or(0, |chunk| chunk.data.len() as u64);
        if let Ok(piece) = &chunk {
            link.pending.files.allow(number, piece);
        }
        permit.send(chunk);
        if bytes > 0 && link.send(Down::FileCredit(FileCredit { request: number, bytes })).await.is_err() {
            let _ = reader.send(Err(AgentError::NotConnected(link.node))).await;
            break;
        }
    }
    link.pending.files.close(number);
}
