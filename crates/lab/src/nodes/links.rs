//! What all connections of a process share: how many sessions are open, how they came about, and a break that befalls all.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

/// The sessions and connections of a process's nodes.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Sessions that are open.
    open: AtomicU32,
    /// Sessions that were opened so far.
    opened: AtomicU64,
    /// Connections whose handshake took up an earlier session of TLS.
    resumed: AtomicU64,
    cut: watch::Sender<()>,
}

impl Links {
    /// A node's session is open now: how many are.
    pub(super) fn open(&self) -> u32 {
        self.opened.fetch_add(1, Relaxed);
        self.open.fetch_add(1, Relaxed) + 1
    }

    /// A node's session is open no more.
    pub(super) fn close(&self) {
        self.open.fetch_sub(1, Relaxed);
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

    /// Sessions that are open now.
    pub fn are_open(&self) -> u32 {
        self.open.load(Relaxed)
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
