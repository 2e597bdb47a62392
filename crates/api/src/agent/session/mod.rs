//! The agent's side of a session, without IO: messages and the time go in, messages come out.
//!
//! The shell that owns the connection calls [`AgentSession::hello`] when it is open, [`AgentSession::on_down`] for each
//! message, [`AgentSession::observe`] for each change of an allocation, and [`AgentSession::poll`] until nothing is left
//! to say; [`AgentSession::deadline`] says when to poll again. A session outlives its connections.

mod batching;
mod change;
mod error;
mod fence;
mod id;
mod incoming;
mod link;
mod patience;
mod table;
#[cfg(test)]
mod tests;

pub use batching::Batching;
pub use error::SessionError;
pub use fence::Fence;
pub use id::{AllocId, ClusterId};
pub use link::{ACK_MAX_NS_MIN, ack_max_ns};
pub use patience::DialPatience;

use crate::secrets::debug_shows;
use batching::BatchDelay;
use bytes::Bytes;
use link::SessionLink;
use prost::Message;
use table::AllocTable;

use super::{
    AgentRequest, AllocStatus, Desired, Digest, Down, ExecDown, FRAME_BYTES_MAX, FileCancel, FileCredit,
    FileRead, Heartbeat, Hello, NodeSpec, PROTOCOL_VERSION, SecretsRead, Servers, SessionRefused,
    SignedTokens, TaskApi, UPDATE_ALLOCS_MAX, Up, Update, VariablesWatched, Welcome, WelcomeMode,
};

/// The most that the statuses of one [`Update`] add up to; leaves space in a frame for all else.
pub const UPDATE_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;

/// How long a change that is not urgent waits for company, unless the shell says otherwise.
pub const UPDATE_DELAY_NS: u64 = 1_000_000_000;

/// Who opens a session.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentIdentity {
    /// The node's id, made at its agent's first start.
    pub node_id: [u8; 16],
    /// Proves that it is the same node.
    pub secret: Vec<u8>,
    /// Of the running kernel.
    pub boot_id: String,
    /// Made again at each start of the agent: distinguishes it from one with a copy of its data directory.
    pub instance: [u8; 16],
}

debug_shows!(AgentIdentity { node_id, boot_id, instance });

/// What the shell has to do for a message of the server; the session handles all others itself.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionAction {
    /// The node belongs to another cluster from now on: to be on its disk before anything that follows is acted on.
    Joined(Fence),
    /// Where the servers of the node's cluster take agents: whom to dial from now on; and which of them were revoked.
    Servers(Servers),
    /// Desired state has changed.
    Desired(DesiredChange),
    /// The session is not open; dial again when it says so.
    Refused(SessionRefused),
    /// The connection is to be given up, and another server tried after a pause.
    Broken(SessionError),
    /// Somebody reads a log.
    FileRead(FileRead),
    /// More of it may be sent.
    FileCredit(FileCredit),
    /// Nobody reads it any more.
    FileCancel(FileCancel),
    /// A request that waits for its response.
    Ask(AgentRequest),
    /// Somebody runs a command within a task.
    Exec(ExecDown),
    /// Tokens that the shell has requested.
    Signed(SignedTokens),
    /// Secrets of a task that the shell has requested.
    Secrets(SecretsRead),
    /// About a connection of a task to the HTTP API.
    TaskApi(TaskApi),
    /// Variables that templates of a task show.
    Watched(VariablesWatched),
}

/// A change of desired state.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DesiredChange {
    /// What the server says: one message, or all parts of a full list. Ids are 16 bytes long, and each part holds the
    /// groups that it refers to.
    pub parts: Vec<Desired>,
    /// What a full list did not name: to be stopped, and reported until it is forgotten.
    pub left_out: Vec<AllocId>,
}

/// One node's session with the servers.
#[derive(Debug)]
pub struct AgentSession {
    epoch: u64,
    seq: u64,
    waiting: BatchDelay,
    fence: Fence,
    table: AllocTable,
    link: SessionLink,
    patience: DialPatience,
    flush_at_ns: Option<u64>,
    /// Connections so far.
    dials: u64,
    changed: change::NodeChange,
}

impl AgentSession {
    /// A session of an agent's `epoch`-th start. Changes that are not urgent wait `delay_ns` for company, and up to three times
    /// as long where the server has much to take in.
    ///
    /// Sequence numbers start at `epoch << 32`, so that they grow across restarts without being kept on disk.
    pub fn new(epoch: u64, delay_ns: u64) -> Self {
        Self::with(epoch, delay_ns, Batching::default())
    }

    /// One that does not do all that makes updates few.
    pub fn with(epoch: u64, delay_ns: u64, batching: Batching) -> Self {
        Self {
            epoch,
            seq: epoch << 32,
            waiting: BatchDelay::new(delay_ns, batching),
            fence: Fence::default(),
            table: AllocTable::default(),
            link: SessionLink::Down,
            patience: DialPatience::default(),
            flush_at_ns: None,
            dials: 0,
            changed: change::NodeChange::default(),
        }
    }

    /// Takes up the fence that an earlier run of the agent kept; to be called before the first [`Self::hello`].
    pub fn restore_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Takes up what an earlier run of the agent held: as which revision it should run, none where it should stop. To be
    /// called before the first [`Self::hello`].
    pub fn restore(&mut self, alloc: AllocId, revision: Option<u64>, status: &AllocStatus) {
        self.seq += 1;
        self.table.restore(alloc, revision);
        self.table.observe(alloc, Bytes::from(status.encode_to_vec()), self.seq);
    }

    /// Opens the session on a new connection.
    pub fn hello(&mut self, identity: &AgentIdentity, node: NodeSpec, now_ns: u64) -> Hello {
        self.patience.begin(now_ns);
        self.link = SessionLink::Opening { seq: self.seq, until_ns: self.patience.until_ns() };
        self.dials += 1;
        self.changed.is_said();
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
            cluster_id: self.fence.cluster.map_or(Vec::new(), |cluster| cluster.0.to_vec()),
            instance: identity.instance.to_vec(),
            dial: self.dials,
            index: self.fence.index,
        }
    }

    /// The connection is gone.
    pub fn disconnected(&mut self) {
        self.link = SessionLink::Down;
    }

    /// Whether a message shows that the server receives from this node, and not only the other way round.
    pub fn is_answer(message: &Down) -> bool {
        matches!(message, Down::Welcome(_) | Down::Ack(_))
    }

    /// Takes in a message; answers with what the shell has to do about it.
    pub fn on_down(&mut self, message: Down, now_ns: u64) -> Option<SessionAction> {
        match message {
            Down::Welcome(welcome) => {
                return self.on_welcome(&welcome, now_ns).unwrap_or_else(|error| self.broken(error));
            }
            Down::Ack(ack) => {
                self.link.on_ack(ack.seq, now_ns);
                self.waiting.on_delay_requested(ack.delay_ms);
            }
            Down::HeartbeatEvery(every) => self.link.on_heartbeat_every(every.heartbeat_ms),
            Down::Desired(desired) => {
                return self.on_desired(desired, now_ns).unwrap_or_else(|error| self.broken(error));
            }
            Down::Refused(refused) => {
                self.link = SessionLink::Down;
                self.patience.answered();
                return Some(SessionAction::Refused(refused));
            }
            // Of another cluster's servers, or before any is known to be of this one, nothing is learned.
            Down::Servers(servers) if self.is_open() => return Some(SessionAction::Servers(servers)),
            Down::Servers(_) => {}
            Down::FileRead(read) => return Some(SessionAction::FileRead(read)),
            Down::FileCredit(credit) => return Some(SessionAction::FileCredit(credit)),
            Down::FileCancel(cancel) => return Some(SessionAction::FileCancel(cancel)),
            Down::Ask(ask) => return Some(SessionAction::Ask(ask)),
            Down::Exec(exec) => return Some(SessionAction::Exec(exec)),
            Down::Signed(signed) => return Some(SessionAction::Signed(signed)),
            Down::Secrets(read) => return Some(SessionAction::Secrets(read)),
            Down::Watched(watched) => return Some(SessionAction::Watched(watched)),
            Down::TaskApi(text) => return Some(SessionAction::TaskApi(text)),
        }
        None
    }

    fn broken(&mut self, error: SessionError) -> Option<SessionAction> {
        self.link = SessionLink::Down;
        Some(SessionAction::Broken(error))
    }

    fn on_welcome(&mut self, welcome: &Welcome, now_ns: u64) -> Result<Option<SessionAction>, SessionError> {
        let SessionLink::Opening { seq, .. } = self.link else { return Ok(None) };
        let fence = self.fence.after(welcome)?;
        let joins = std::mem::replace(&mut self.fence, fence) != fence;
        let sent_seq = match welcome.mode() {
            WelcomeMode::Equal => seq,
            WelcomeMode::FromSeq => welcome.observed_seq.min(seq),
            WelcomeMode::Full => 0,
        };
        let owes_resync = welcome.mode() != WelcomeMode::Equal;
        self.patience.welcomed(link::heartbeat_ns(welcome.heartbeat_ms));
        self.link = SessionLink::open(sent_seq, owes_resync, welcome.heartbeat_ms, now_ns);
        self.flush_at_ns = self.table.changed_after(sent_seq).next().map(|_| now_ns);
        Ok(joins.then_some(SessionAction::Joined(fence)))
    }

    /// Desired state from a server that lags behind what this agent already knows is dropped: it will catch up. A full
    /// list applies once it is whole; a connection that breaks before leaves nothing of it.
    fn on_desired(&mut self, desired: Desired, now_ns: u64) -> Result<Option<SessionAction>, SessionError> {
        let SessionLink::Open(open) = &mut self.link else { return Err(SessionError::BeforeWelcome) };
        incoming::check(&desired)?;
        open.incoming.count(&desired)?;
        let goes_on = desired.full && open.incoming.is_amid_list();
        if !goes_on && !self.fence.allows(desired.term, desired.index) {
            return Ok(None);
        }
        let Some(parts) = open.incoming.take_in(desired)? else { return Ok(None) };
        for part in &parts {
            self.fence.advance(part.term, part.index);
            self.table.apply(part);
        }
        let named = incoming::named(&parts);
        let left_out = named.map_or_else(Vec::new, |named| self.leave_out(&named, now_ns));
        Ok(Some(SessionAction::Desired(DesiredChange { parts, left_out })))
    }

    fn leave_out(&mut self, named: &[AllocId], now_ns: u64) -> Vec<AllocId> {
        let left_out = self.table.leave_out(named, &mut self.seq);
        if !left_out.is_empty() {
            self.flush_at_ns = Some(now_ns);
        }
        left_out
    }

    /// Notes the status of an allocation. Allocations that the servers have forgotten are dropped.
    pub fn observe(&mut self, alloc: AllocId, status: &AllocStatus, urgent: bool, now_ns: u64) {
        if !self.table.observe(alloc, Bytes::from(status.encode_to_vec()), self.seq + 1) {
            return;
        }
        self.seq += 1;
        let at_ns = self.waiting.due_at(urgent, now_ns);
        self.flush_at_ns = Some(self.flush_at_ns.map_or(at_ns, |flush_at_ns| flush_at_ns.min(at_ns)));
    }

    /// The node description differs from that of the last [`Self::hello`]. Only the latest is reported, and not too often.
    pub fn node_changed(&mut self, node: NodeSpec) {
        self.changed.set(node, false);
    }

    /// The same for a change that an operator has asked for: reported sooner.
    pub fn node_changed_by_operator(&mut self, node: NodeSpec) {
        self.changed.set(node, true);
    }

    /// The next thing to say by now, if any; to be called until there is none. A heartbeat follows the updates that are
    /// due, so that its digests can be compared.
    pub fn poll(&mut self, now_ns: u64) -> Option<Up> {
        if self.update_due_at().is_some_and(|at_ns| at_ns <= now_ns) {
            return Some(Up::Update(self.next_update(now_ns)));
        }
        if self.is_open()
            && let Some(changed) = self.changed.take(now_ns)
        {
            return Some(Up::Changed(changed));
        }
        let due = self.link.heartbeat_at().is_some_and(|at_ns| at_ns <= now_ns);
        due.then(|| {
            self.link.on_heartbeat(now_ns);
            Up::Heartbeat(self.heartbeat())
        })
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            seq: self.seq,
            desired_seq: self.link.desired_seq(),
            desired_digest: self.table.desired().to_bytes(),
            observed_digest: self.table.observed().to_bytes(),
        }
    }

    /// When [`Self::poll`] will next have something to say, or [`Self::is_deserted`] may become true, if nothing else
    /// happens before.
    pub fn deadline(&self) -> Option<u64> {
        let changed_at = self.changed.due_at().filter(|_| self.is_open());
        let times = [self.link.heartbeat_at(), self.update_due_at(), self.link.silent_at(), changed_at];
        times.into_iter().flatten().min()
    }

    /// Whether the server has owed an answer for too long: a welcome for longer than [`DialPatience`], or the acknowledgement of
    /// an update or a heartbeat for [`ack_max_ns`]. The connection swallows what is said on it; another one is to be dialed.
    pub fn is_deserted(&self, now_ns: u64) -> bool {
        self.link.silent_at().is_some_and(|at_ns| at_ns <= now_ns)
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
        let (resync_done, desired_seq) = (self.link.owes_resync(), self.link.desired_seq());
        let mut update = Update { seq: self.seq, allocs: Vec::new(), resync_done, desired_seq };
        let (mut bytes, allocs_max) = (0, self.waiting.allocs_max(UPDATE_ALLOCS_MAX));
        for (seq, status) in changed {
            bytes += status.len();
            let is_full = bytes > UPDATE_BYTES_MAX || update.allocs.len() == allocs_max;
            if is_full && !update.allocs.is_empty() {
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
        self.link.is_open()
    }

    /// Of the last change of observed state.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The node's cluster, and as of which log position its desired state holds.
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// The digests of (desired, observed) state.
    pub fn digests(&self) -> (Digest, Digest) {
        (self.table.desired(), self.table.observed())
    }
}
