//! The nodes of one connection, and the loop that lives their lives.

use std::{
    io,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use berth_agent::Backoff;
use berth_api::agent::{Down, DownFrame, FRAME_BYTES_MAX, decode_frame};
use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use super::{
    NodesConfig,
    clock::Clock,
    common::Common,
    identity::{Purpose, seed_of},
    node::{Break, SimNode},
    timers::Due,
};
use crate::random::Random;

/// Due things carried out before what they say is written.
const DUE_BATCH_MAX: usize = 1024;
/// Bytes of hellos gathered before they are written.
const HELLO_BYTES: usize = 256 << 10;
/// Bytes that wait to be written. Sessions bound what they say, so that only a stuck connection fills it.
const OUT_BYTES_MAX: usize = 64 << 20;
/// Room for what is read at a time: for a node, and for all of a connection.
const READ_BYTES_NODE: usize = 4 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// As long as an agent waits for a server to answer its dialing.
const DIAL_MAX: Duration = Duration::from_secs(5);
/// Waited when nothing is due.
const LONG: Duration = Duration::from_secs(3600);

/// Simulated nodes that share a connection.
pub(super) struct Fleet {
    nodes: Vec<SimNode>,
    common: Common,
    clock: Clock,
    retry: Backoff,
    random: Random,
    /// Its only node's connection is to break.
    broken: Option<Break>,
}

impl Fleet {
    /// The nodes of these numbers. `open` counts the process's open sessions.
    pub fn new(config: Arc<NodesConfig>, numbers: impl Iterator<Item = u32>, open: Arc<AtomicU32>) -> Self {
        let nodes: Vec<_> =
            (0..).zip(numbers).map(|(place, number)| SimNode::new(&config, number, place)).collect();
        let first = nodes.first().map_or(0, SimNode::number);
        let random = Random::new(seed_of(&config, first, Purpose::Retry));
        let (common, clock) = (Common::new(config, open), Clock::start());
        Self { nodes, common, clock, retry: Backoff::default(), random, broken: None }
    }

    /// Lives for ever: connected, or on the way to be so again.
    pub async fn live(mut self) {
        let now_ns = self.clock.now_ns();
        self.nodes.iter_mut().for_each(|node| node.plan_troubles(now_ns, &mut self.common));
        let mut told = false;
        loop {
            let server = self.common.config.server.clone();
            let ended = match self.meanwhile(dial(&server)).await {
                Ok(stream) => {
                    told = false;
                    self.converse(stream).await
                }
                Err(error) => Err(error),
            };
            // Once is enough until there has been a connection again.
            if let Err(error) = ended
                && !std::mem::replace(&mut told, true)
            {
                tracing::warn!(%server, %error, "simulated nodes have no connection, and dial again");
            }
            self.nodes.iter_mut().for_each(|node| node.disconnected(&self.common));
            self.common.out.clear();
            self.pause().await;
        }
    }

    /// Until it is time to dial again.
    async fn pause(&mut self) {
        let Some(Break { lasts_ns, reboots }) = self.broken.take() else {
            let pause = self.retry.next(self.random.next_u64());
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
    async fn converse(&mut self, mut stream: TcpStream) -> io::Result<()> {
        let (mut reader, mut writer) = stream.split();
        let (mut input, mut greeted) = (BytesMut::new(), 0);
        while self.broken.is_none() {
            self.say_hellos(&mut greeted);
            let due_in = self.until_due();
            input.reserve((self.nodes.len() * READ_BYTES_NODE).min(READ_BYTES_MAX));
            tokio::select! {
                read = reader.read_buf(&mut input) => {
                    if read? == 0 {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server hung up"));
                    }
                    self.on_input(&mut input)?;
                }
                written = writer.write_buf(&mut self.common.out), if !self.common.out.is_empty() => {
                    written?;
                }
                () = sleep(due_in) => {}
            }
            self.on_due();
            if self.common.out.len() > OUT_BYTES_MAX {
                return Err(io::Error::other("the server reads nothing any more"));
            }
        }
        Ok(())
    }

    /// No more at a time than can be written: a hello says all there is about a node.
    fn say_hellos(&mut self, greeted: &mut usize) {
        while let Some(node) = self.nodes.get_mut(*greeted).filter(|_| self.common.out.len() < HELLO_BYTES) {
            node.hello(self.clock.now_ns(), &mut self.common);
            *greeted += 1;
        }
    }

    fn on_input(&mut self, input: &mut BytesMut) -> io::Result<()> {
        while let Some(frame) = decode_frame::<DownFrame>(input, FRAME_BYTES_MAX).map_err(io::Error::other)? {
            let (node, now_ns) = (self.nodes.get_mut(frame.session as usize), self.clock.now_ns());
            if let (Some(node), Some(message)) = (node, frame.message) {
                if !matches!(message, Down::Refused(_)) {
                    self.retry.reset();
                }
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
            let Some((at_ns, place, due)) = self.common.timers.pop(now_ns) else { return };
            let node = &mut self.nodes[place as usize];
            match due {
                Due::Break => self.broken = node.take_break(),
                due => node.on_due(at_ns, due, now_ns, &mut self.common),
            }
        }
    }
}

async fn dial(server: &str) -> io::Result<TcpStream> {
    let stream = timeout(DIAL_MAX, TcpStream::connect(server)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}
