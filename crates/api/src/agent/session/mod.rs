//! The agent's side of a session, without IO: messages and the time go in, messages come out.
//!
//! The shell that owns the connection calls [`AgentSession::hello`] when it is open, [`AgentSession::on_down`] for each
//! message, [`AgentSession::observe`] for each change of an allocation, and [`AgentSession::poll`] until nothing is left
//! to say; [`AgentSession::deadline`] tells when to poll again. A session outlives its connections.

mod id;
mod link;
mod table;
#[cfg(test)]
mod tests;

pub use id::AllocId;

use bytes::Bytes;
use link::Link;
use prost::Message;
use table::Table;

use super::{
    AllocStatus, Ask, Desired, Digest, Down, ExecDown, FRAME_BYTES_MAX, FileCancel, FileCredit, FileRead,
    Heartbeat, Hello, NodeSpec, PROTOCOL_VERSION, Refused, Up, Update, Welcome, WelcomeMode,
};

/// The most that the statuses of one [`Update`] add up to; leaves room in a frame for all else.
pub const UPDATE_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;

/// How long a change that is not urgent waits for company, unless the shell says otherwise.
pub const UPDATE_DELAY_NS: u64 = 1_000_000_000;

/// Who opens a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The node's id, made at its agent's first start.
    pub node_id: [u8; 16],
    /// Proves that it is the same node.
    pub secret: Vec<u8>,
    /// Of the running kernel.
    pub boot_id: String,
}

/// What a message of the server asks of the shell; all else the session settles by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// New wishes.
    Wishes(Desired),
    /// The session is not open; dial again when it says so.
    Refused(Refused),
    /// Somebody reads a log.
    FileRead(FileRead),
    /// More of it may be sent.
    FileCredit(FileCredit),
    /// Nobody reads it any more.
    FileCancel(FileCancel),
    /// Somebody asks something, and waits for the answer.
    Ask(Ask),
    /// Somebody runs a command within a task.
    Exec(ExecDown),
}

/// The log position of wishes: (term, index).
pub type Position = (u64, u64);

/// One node's session with the servers.
#[derive(Debug)]
pub struct AgentSession {
    epoch: u64,
    seq: u64,
    delay_ns: u64,
    position: Position,
    table: Table,
    link: Link,
    flush_at_ns: Option<u64>,
}

impl AgentSession {
    /// A session of an agent's `epoch`-th start. Changes that are not urgent wait `delay_ns` for company.
    ///
    /// Sequence numbers start at `epoch << 32`, so that they grow across restarts without being kept on disk.
    pub fn new(epoch: u64, delay_ns: u64) -> Self {
        Self {
            epoch,
            seq: epoch << 32,
            delay_ns,
            position: (0, 0),
            table: Table::default(),
            link: Link::Down,
            flush_at_ns: None,
        }
    }

    /// Takes up what an earlier run of the agent held; to be called before the first [`Self::hello`].
    pub fn restore(&mut self, alloc: AllocId, stop: bool, status: &AllocStatus, position: Position) {
        self.position = self.position.max(position);
        self.table.wish(alloc, stop);
        self.table.observe(alloc, Bytes::from(status.encode_to_vec()), self.seq);
    }

    /// Opens the session on a new connection.
    pub fn hello(&mut self, identity: &Identity, node: NodeSpec) -> Hello {
        self.link = Link::Opening { seq: self.seq };
        Hello {
            protocol_version: PROTOCOL_VERSION,
            node_id: identity.node_id.to_vec(),
            secret: identity.secret.clone(),
            epoch: self.epoch,
            seq: self.seq,
            desired_digest: self.table.desired().to_bytes(),
            observed_digest: self.table.observed().to_bytes(),
            boot_id: identity.boot_id.clone(),
            node,
        }
    }

    /// The connection is gone.
    pub fn disconnected(&mut self) {
        self.link = Link::Down;
    }

    /// Takes in a message; answers with what the shell has to do about it.
    pub fn on_down(&mut self, message: Down, now_ns: u64) -> Option<Told> {
        match message {
            Down::Welcome(welcome) => self.on_welcome(welcome, now_ns),
            Down::Ack(ack) => self.link.on_ack(ack.seq),
            Down::HeartbeatEvery(every) => self.link.on_heartbeat_every(every.heartbeat_ms),
            Down::Desired(desired) => return self.on_desired(desired),
            Down::Refused(refused) => {
                self.link = Link::Down;
                return Some(Told::Refused(refused));
            }
            Down::FileRead(read) => return Some(Told::FileRead(read)),
            Down::FileCredit(credit) => return Some(Told::FileCredit(credit)),
            Down::FileCancel(cancel) => return Some(Told::FileCancel(cancel)),
            Down::Ask(ask) => return Some(Told::Ask(ask)),
            Down::Exec(exec) => return Some(Told::Exec(exec)),
        }
        None
    }

    fn on_welcome(&mut self, welcome: Welcome, now_ns: u64) {
        let Link::Opening { seq } = self.link else { return };
        let sent_seq = match welcome.mode() {
            WelcomeMode::Equal => seq,
            WelcomeMode::FromSeq => welcome.observed_seq.min(seq),
            WelcomeMode::Full => 0,
        };
        let owes_resync = welcome.mode() != WelcomeMode::Equal;
        self.link = Link::open(sent_seq, owes_resync, welcome.heartbeat_ms, now_ns);
        self.flush_at_ns = self.table.changed_after(sent_seq).next().map(|_| now_ns);
    }

    /// Wishes from a server that lags behind what this agent already knows are dropped: it will catch up.
    fn on_desired(&mut self, desired: Desired) -> Option<Told> {
        let position = (desired.term, desired.index);
        if position < self.position {
            return None;
        }
        self.position = position;
        self.table.apply(&desired);
        Some(Told::Wishes(desired))
    }

    /// Notes how an allocation fares. What the servers no longer want to hear of is dropped.
    pub fn observe(&mut self, alloc: AllocId, status: &AllocStatus, urgent: bool, now_ns: u64) {
        if !self.table.observe(alloc, Bytes::from(status.encode_to_vec()), self.seq + 1) {
            return;
        }
        self.seq += 1;
        let at_ns = if urgent { now_ns } else { now_ns + self.delay_ns };
        self.flush_at_ns = Some(self.flush_at_ns.map_or(at_ns, |flush_at_ns| flush_at_ns.min(at_ns)));
    }

    /// The next thing to say by now, if any; to be called until there is none.
    pub fn poll(&mut self, now_ns: u64) -> Option<Up> {
        let heartbeat_due = self.link.heartbeat_at().is_some_and(|at_ns| at_ns <= now_ns);
        if self.update_due_at().is_some_and(|at_ns| at_ns <= now_ns) {
            return Some(Up::Update(self.next_update(now_ns)));
        }
        heartbeat_due.then(|| {
            self.link.on_sent(now_ns);
            Up::Heartbeat(Heartbeat { seq: self.seq })
        })
    }

    /// When [`Self::poll`] will next have something to say, if nothing else happens before.
    pub fn deadline(&self) -> Option<u64> {
        let heartbeat_at = self.link.heartbeat_at()?;
        Some(self.update_due_at().map_or(heartbeat_at, |at_ns| at_ns.min(heartbeat_at)))
    }

    fn update_due_at(&self) -> Option<u64> {
        if !self.link.may_update() {
            return None;
        }
        if self.link.owes_resync() { Some(0) } else { self.flush_at_ns }
    }

    /// What changed since the last update, in order of change, as much as fits a frame.
    fn next_update(&mut self, now_ns: u64) -> Update {
        let mut changed: Vec<_> = self.table.changed_after(self.link.sent_seq()).collect();
        changed.sort_unstable_by_key(|(seq, _)| *seq);
        let mut update = Update { seq: self.seq, allocs: Vec::new(), resync_done: self.link.owes_resync() };
        let mut bytes = 0;
        for (seq, status) in changed {
            bytes += status.len();
            if bytes > UPDATE_BYTES_MAX && !update.allocs.is_empty() {
                update.resync_done = false;
                self.link.on_update(update.seq, false, now_ns);
                return update;
            }
            update.seq = seq;
            update.allocs.push(status.clone());
        }
        update.seq = self.seq;
        self.flush_at_ns = None;
        self.link.on_update(update.seq, true, now_ns);
        update
    }

    /// Whether a server has welcomed this session on the present connection.
    pub fn is_open(&self) -> bool {
        self.link.heartbeat_at().is_some()
    }

    /// Of the last change of observed state.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// As of which log position the wishes hold.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The digests of (desired, observed) state.
    pub fn digests(&self) -> (Digest, Digest) {
        (self.table.desired(), self.table.observed())
    }
}
