//! The nodes of one connection, and the loop that drives them.

use std::{io, sync::Arc, time::Duration};

use berth_agent::{Backoff, Servers};
use berth_api::agent::{DialPatience, Down, DownFrame, FRAME_BYTES_MAX, decode_frame};
use berth_tls::Stream;
use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::watch,
    time::sleep,
};

use super::{
    NodesConfig,
    clock::MonotonicClock,
    common::FleetContext,
    connections::{Presence, SharedConnections},
    dial::Dialer,
    identity::{SeedPurpose, seed_of},
    node::{Disconnection, SimNode},
    timers::TimerEvent,
};
use crate::random::Random;

/// Timers that are handled before their messages are written.
const DUE_BATCH_MAX: usize = 1024;
/// Bytes of hellos gathered before they are written.
const HELLO_BYTES: usize = 256 << 10;
/// Bytes that wait to be written. Sessions bound what they send, so that only a stuck connection fills it.
const OUT_BYTES_MAX: usize = 64 << 20;
/// Room for what is read at a time: for a node, and for all of a connection.
const READ_BYTES_NODE: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// Waited when nothing is due.
const LONG: Duration = Duration::from_secs(3600);

/// Simulated nodes that share a connection.
pub(super) struct Fleet {
    nodes: Vec<SimNode>,
    dialer: Arc<Dialer>,
    servers: Servers,
    common: FleetContext,
    clock: MonotonicClock,
    retry: Backoff,
    patience: DialPatience,
    /// The server has sent something on this connection, or the last one.
    is_answered: bool,
    random: Random,
    /// Its only node's connection is to break.
    broken: Option<Disconnection>,
    /// All connections are cut.
    cut: watch::Receiver<()>,
    /// Whether its nodes can be reached.
    presence: watch::Receiver<Presence>,
}

impl Fleet {
    /// The nodes of these numbers, which share what `dialer` dials: first the server at `first`, counted round and round.
    pub fn new(
        config: Arc<NodesConfig>,
        numbers: impl Iterator<Item = u32>,
        (dialer, first): (Dialer, u32),
        shared_connections: Arc<SharedConnections>,
    ) -> Self {
        let nodes: Vec<_> =
            (0..).zip(numbers).map(|(position, number)| SimNode::new(&config, number, position)).collect();
        let number = nodes.first().map_or(0, SimNode::number);
        let random = Random::new(seed_of(&config, number, SeedPurpose::Retry));
        let servers = servers(&config.servers, first);
        let (cut, presence, clock) =
            (shared_connections.cuts(), shared_connections.presences(), MonotonicClock::start());
        let (common, retry) = (FleetContext::new(config, shared_connections), Backoff::default());
        let (dialer, patience) = (Arc::new(dialer), DialPatience::default());
        let (broken, is_answered) = (None, false);
        Self {
            nodes,
            dialer,
            servers,
            common,
            clock,
            retry,
            patience,
            is_answered,
            random,
            broken,
            cut,
            presence,
        }
    }

    /// Lives forever: connected, or on the way to be so again.
    pub async fn live(mut self) {
        let now_ns = self.clock.now_ns();
        self.nodes.iter_mut().for_each(|node| node.plan_troubles(now_ns, &mut self.common));
        let mut warned = false;
        // The first of them comes first.
        let mut which = 0;
        while let Some(server) = self.servers.next(which) {
            which = self.random.next_u64();
            self.is_answered = false;
            self.attend().await;
            let ended = match self.dial(&server).await {
                Ok(stream) => {
                    warned = false;
                    self.converse(stream).await
                }
                Err(error) => Err(error),
            };
            // Once is enough until there has been a connection again.
            if let Err(error) = ended
                && !std::mem::replace(&mut warned, true)
            {
                tracing::warn!(server, %error, "simulated nodes have no connection, and dial again");
            }
            self.nodes.iter_mut().for_each(|node| node.disconnected(&self.common));
            self.common.out.clear();
            self.pause().await;
        }
    }

    /// Waits until its nodes are there.
    async fn attend(&mut self) {
        let mut presence = self.presence.clone();
        loop {
            let now = *presence.borrow_and_update();
            // The other end is among what all nodes share.
            let _ = match now {
                Presence::There => return,
                Presence::Frozen => presence.changed().await,
                Presence::Away => self.meanwhile(presence.changed()).await,
            };
        }
    }

    /// Dials while what is due is done.
    async fn dial(&mut self, server: &str) -> io::Result<Stream> {
        let dialer = self.dialer.clone();
        let mut all = self.common.config.servers.iter();
        self.common.server = all.position(|one| one == server).unwrap_or_default();
        self.patience.begin(self.clock.now_ns());
        let stream = self.meanwhile(dialer.dial(server, self.patience.span())).await;
        if stream.is_ok() {
            self.patience = DialPatience::default();
        } else if self.patience.until_ns().is_some_and(|until_ns| self.clock.now_ns() < until_ns) {
            self.patience.answered();
        }
        stream
    }

    /// Until it is time to dial again.
    async fn pause(&mut self) {
        let Some(Disconnection { lasts_ns, reboots }) = self.broken.take() else {
            let random = self.random.next_u64();
            let pause = match self.is_answered {
                true => self.retry.after_answer(random),
                false => self.retry.next_of(self.servers.count(), random),
            };
            return self.meanwhile(sleep(pause)).await;
        };
        let lasts = Duration::from_nanos(lasts_ns);
        if reboots {
            // A machine that is off does nothing.
            sleep(lasts).await;
        } else {
            self.meanwhile(sleep(lasts)).await;
        }
        let now_ns = self.clock.now_ns();
        for node in &mut self.nodes {
            if reboots {
                node.reboot(now_ns, &mut self.common);
            }
            node.plan_break(now_ns, &mut self.common);
        }
    }

    /// Does what is due until `work` is done.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = sleep(self.until_due()) => self.on_due(),
            }
        }
    }

    /// Opens all sessions on a new connection, and lives until it is lost, or broken on purpose.
    async fn converse(&mut self, stream: Stream) -> io::Result<()> {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (mut input, mut greeted) = (BytesMut::new(), 0);
        // What was written may wait in the connection until it is informed that nothing follows.
        let mut is_flushed = true;
        self.cut.mark_unchanged();
        let mut presence = self.presence.clone();
        while self.broken.is_none() {
            let now = *presence.borrow_and_update();
            match now {
                Presence::There => {}
                Presence::Frozen => {
                    let _ = presence.changed().await;
                    continue;
                }
                Presence::Away => return Ok(()),
            }
            self.send_hellos(&mut greeted);
            let due_in = self.until_due();
            input.reserve((self.nodes.len() * READ_BYTES_NODE).min(READ_BYTES_MAX));
            tokio::select! {
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
                    }
                    self.on_input(&mut input)?;
                }
                written = write(&mut writer, &mut self.common.out, &mut is_flushed),
                    if !is_flushed || !self.common.out.is_empty() => self.common.sent(written?),
                Ok(()) = self.cut.changed() => return Ok(()),
                Ok(()) = presence.changed() => continue,
                () = sleep(due_in) => {}
            }
            self.on_due();
            if self.common.out.len() > OUT_BYTES_MAX {
                return Err(io::Error::other("the server reads nothing any more"));
            }
        }
        Ok(())
    }

    /// No more at a time than can be written: a hello holds everything about a node.
    fn send_hellos(&mut self, greeted: &mut usize) {
        while let Some(node) = self.nodes.get_mut(*greeted).filter(|_| self.common.out.len() < HELLO_BYTES) {
            node.hello(self.clock.now_ns(), &mut self.common);
            *greeted += 1;
        }
    }

    fn on_input(&mut self, input: &mut BytesMut) -> io::Result<()> {
        while let Some(frame) = decode_frame::<DownFrame>(input, FRAME_BYTES_MAX).map_err(io::Error::other)? {
            let (node, now_ns) = (self.nodes.get_mut(frame.session as usize), self.clock.now_ns());
            if let (Some(node), Some(message)) = (node, frame.message) {
                self.is_answered = true;
                if !matches!(message, Down::Refused(_)) {
                    self.retry.reset();
                    self.servers.reached();
                }
                self.retry.spread(heartbeat(&message));
                node.on_down(message, now_ns, &mut self.common);
            }
        }
        Ok(())
    }

    fn until_due(&self) -> Duration {
        self.common.timers.next_ns().map_or(LONG, |at_ns| self.clock.until(at_ns))
    }

    fn on_due(&mut self) {
        let now_ns = self.clock.now_ns();
        for _ in 0..DUE_BATCH_MAX {
            let Some((at_ns, position, due)) = self.common.timers.pop(now_ns) else { return };
            let node = &mut self.nodes[position as usize];
            match due {
                TimerEvent::Break => self.broken = node.take_break(),
                due => node.on_due(at_ns, due, now_ns, &mut self.common),
            }
        }
    }
}

/// Servers of which the one at `first` is dialed first, counted round and round, then the others of those, before any again.
fn servers(addresses: &[String], first: u32) -> Servers {
    let mut addresses = addresses.to_vec();
    let count = addresses.len().max(1);
    addresses.rotate_left(first as usize % count);
    // There are no others to learn of.
    let (_, learned) = watch::channel(Vec::new());
    Servers::new(addresses, learned)
}

/// The heartbeat interval that a server asks for, where it does: pauses grow with that, as an agent's do.
fn heartbeat(message: &Down) -> Option<Duration> {
    match message {
        Down::Welcome(welcome) => Some(Duration::from_millis(welcome.heartbeat_ms)),
        Down::HeartbeatEvery(every) => Some(Duration::from_millis(every.heartbeat_ms)),
        _ => None,
    }
}

/// Writes some of what there is to say, and returns how many bytes; once all is written, flushes it. It can be cancelled without
/// a loss.
async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    out: &mut BytesMut,
    is_flushed: &mut bool,
) -> io::Result<usize> {
    if out.is_empty() {
        writer.flush().await?;
        *is_flushed = true;
        return Ok(0);
    }
    *is_flushed = false;
    writer.write_buf(out).await
}
