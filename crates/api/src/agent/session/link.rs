//! The state of a session on its current connection.

use super::incoming::IncomingDesired;

/// Updates sent and not yet acknowledged; further changes wait and overwrite each other meanwhile.
pub(super) const UPDATES_IN_FLIGHT_MAX: u8 = 4;

/// The longest time between heartbeats, should a server ask for none.
pub(super) const HEARTBEAT_MS_DEFAULT: u64 = 10_000;

/// How long updates and heartbeats may go unacknowledged at least, in nanoseconds: a server that is busy is no silent one.
pub const ACK_MAX_NS_MIN: u64 = 8_000_000_000;

/// They may for so many times the time between heartbeats. With the heartbeat before, that is over well before the servers
/// take the node for lost whose agent is left with a server that says nothing.
const ACK_HEARTBEATS: u64 = 2;

#[derive(Debug)]
pub(super) enum SessionLink {
    /// No connection.
    Down,
    /// The hello is sent; what it covers ends at `seq`. Its response is due at `until_ns`.
    Opening { seq: u64, until_ns: Option<u64> },
    /// Welcomed.
    Open(OpenLink),
}

#[derive(Debug)]
pub(super) struct OpenLink {
    pub(super) incoming: IncomingDesired,
    sent_seq: u64,
    in_flight: u8,
    /// Since when the server owes an acknowledgement, of an update or a heartbeat.
    owed_since_ns: Option<u64>,
    owes_resync: bool,
    heartbeat_ns: u64,
    beat_at_ns: u64,
}

impl SessionLink {
    pub(super) fn open(sent_seq: u64, owes_resync: bool, heartbeat_ms: u64, now_ns: u64) -> Self {
        Self::Open(OpenLink {
            incoming: IncomingDesired::default(),
            sent_seq,
            in_flight: 0,
            owed_since_ns: None,
            owes_resync,
            heartbeat_ns: heartbeat_ns(heartbeat_ms),
            beat_at_ns: now_ns,
        })
    }

    pub(super) fn on_heartbeat_every(&mut self, heartbeat_ms: u64) {
        if let Self::Open(open) = self {
            open.heartbeat_ns = heartbeat_ns(heartbeat_ms);
        }
    }

    fn as_open(&self) -> Option<&OpenLink> {
        if let Self::Open(open) = self { Some(open) } else { None }
    }

    pub(super) fn is_open(&self) -> bool {
        self.as_open().is_some()
    }

    pub(super) fn heartbeat_at(&self) -> Option<u64> {
        self.as_open().map(|open| open.beat_at_ns.saturating_add(open.heartbeat_ns))
    }

    /// When a server that says nothing more counts as deaf or dumb.
    pub(super) fn silent_at(&self) -> Option<u64> {
        match self {
            Self::Down => None,
            Self::Opening { until_ns, .. } => *until_ns,
            Self::Open(open) => {
                open.owed_since_ns.map(|since_ns| since_ns.saturating_add(ack_max_ns(open.heartbeat_ns)))
            }
        }
    }

    pub(super) fn may_update(&self) -> bool {
        self.as_open().is_some_and(|open| open.in_flight < UPDATES_IN_FLIGHT_MAX)
    }

    pub(super) fn owes_resync(&self) -> bool {
        self.as_open().is_some_and(|open| open.owes_resync)
    }

    /// All changes up to this one have been sent, or need not be.
    pub(super) fn sent_seq(&self) -> u64 {
        self.as_open().map_or(0, |open| open.sent_seq)
    }

    /// Of the last desired state that came on this connection.
    pub(super) fn desired_seq(&self) -> u64 {
        self.as_open().map_or(0, |open| open.incoming.seq())
    }

    pub(super) fn on_ack(&mut self, seq: u64, now_ns: u64) {
        if let Self::Open(open) = self {
            open.in_flight = if seq >= open.sent_seq { 0 } else { open.in_flight.saturating_sub(1) };
            open.owed_since_ns = (open.in_flight > 0).then_some(now_ns);
        }
    }

    pub(super) fn on_heartbeat(&mut self, now_ns: u64) {
        if let Self::Open(open) = self {
            open.beat_at_ns = now_ns;
            open.owed_since_ns.get_or_insert(now_ns);
        }
    }

    pub(super) fn on_update(&mut self, seq: u64, complete: bool, now_ns: u64) {
        if let Self::Open(open) = self {
            open.owed_since_ns.get_or_insert(now_ns);
            open.sent_seq = seq;
            open.in_flight += 1;
            open.owes_resync &= !complete;
        }
    }
}

/// What a server that says it in milliseconds means, in nanoseconds; 0 is the longest.
pub(super) fn heartbeat_ns(heartbeat_ms: u64) -> u64 {
    let heartbeat_ms = if heartbeat_ms == 0 { HEARTBEAT_MS_DEFAULT } else { heartbeat_ms };
    heartbeat_ms.saturating_mul(1_000_000)
}

/// How long a server that asks for heartbeats this often may owe an acknowledgement, in nanoseconds.
pub fn ack_max_ns(heartbeat_ns: u64) -> u64 {
    heartbeat_ns.saturating_mul(ACK_HEARTBEATS).max(ACK_MAX_NS_MIN)
}
