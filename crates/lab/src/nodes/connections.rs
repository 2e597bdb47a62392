//! State that all connections of a process share: counts of sessions and traffic, and whether all are cut, frozen or away.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

use super::TaskChange;

/// The sessions and connections of a process's nodes.
#[derive(Debug, Default)]
pub(crate) struct SharedConnections {
    /// Sessions that are open, by the position of their server.
    open: Vec<AtomicU32>,
    /// Sessions that were opened so far.
    opened: AtomicU64,
    /// Connections whose handshake took up an earlier session of TLS.
    resumed: AtomicU64,
    /// Bytes that were written to servers.
    sent_bytes: AtomicU64,
    /// Starts and ends of tasks.
    started: AtomicU64,
    ended: AtomicU64,
    cut: watch::Sender<()>,
    presence: watch::Sender<Presence>,
}

/// Whether servers can reach the nodes of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Presence {
    #[default]
    There,
    /// They stand still, as a machine whose processes are all stopped: they send, read and do nothing, and keep their connections.
    Frozen,
    /// They have no connections. What they run runs on.
    Away,
}

impl SharedConnections {
    /// Those of nodes that have so many servers to dial.
    pub(super) fn to(servers: usize) -> Self {
        Self { open: (0..servers).map(|_| AtomicU32::new(0)).collect(), ..Self::default() }
    }

    /// A node's session with a server is open now: how many are, with all servers.
    pub(super) fn open(&self, server: usize) -> u32 {
        self.opened.fetch_add(1, Relaxed);
        if let Some(open) = self.open.get(server) {
            open.fetch_add(1, Relaxed);
        }
        self.are_open()
    }

    /// A node's session with a server is open no more.
    pub(super) fn close(&self, server: usize) {
        if let Some(open) = self.open.get(server) {
            open.fetch_sub(1, Relaxed);
        }
    }

    /// So many bytes were written to a server.
    pub(super) fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Relaxed);
    }

    /// A task has started or ended.
    pub(super) fn task(&self, change: TaskChange) {
        let count = match change {
            TaskChange::Started => &self.started,
            TaskChange::Ended => &self.ended,
        };
        count.fetch_add(1, Relaxed);
    }

    /// A connection goes on with an earlier session of TLS.
    pub(super) fn resume(&self) {
        self.resumed.fetch_add(1, Relaxed);
    }

    /// Tells when all connections are cut.
    pub(super) fn cuts(&self) -> watch::Receiver<()> {
        self.cut.subscribe()
    }

    /// Breaks all connections that are there, as a fault of the network would.
    pub fn cut(&self) {
        self.cut.send_replace(());
    }

    /// Tells of where the nodes are.
    pub(super) fn presences(&self) -> watch::Receiver<Presence> {
        self.presence.subscribe()
    }

    /// Has all nodes freeze, go away or come back, all at once: nodes that come back dial without a pause.
    pub fn be(&self, presence: Presence) {
        self.presence.send_replace(presence);
    }

    /// Sessions that are open now.
    pub fn are_open(&self) -> u32 {
        self.open.iter().map(|open| open.load(Relaxed)).sum()
    }

    /// Sessions that are open now with one of the servers, by its position.
    pub fn are_open_with(&self, server: usize) -> u32 {
        self.open.get(server).map_or(0, |open| open.load(Relaxed))
    }

    /// Bytes that were written to all servers so far, before TLS.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Relaxed)
    }

    /// Tasks that were started so far, and that have ended.
    pub fn tasks(&self) -> (u64, u64) {
        (self.started.load(Relaxed), self.ended.load(Relaxed))
    }

    /// Sessions that were opened so far, each of them by a node.
    pub fn opened(&self) -> u64 {
        self.opened.load(Relaxed)
    }

    /// Connections so far whose handshake took up an earlier session of TLS.
    pub fn resumed(&self) -> u64 {
        self.resumed.load(Relaxed)
    }
}
