//! The nodes of one connection, and the loop that lives their lives.

use std::{
    io,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use berth_api::agent::{DownFrame, Up, UpFrame, decode_frame, encode_frame};
use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    NodesConfig,
    identity::{identity, mix, spec},
    node::{Common, SimNode},
};

/// Due things carried out before what they say is written.
const DUE_BATCH_MAX: usize = 1024;
/// Bytes of hellos gathered before they are written.
const HELLO_BYTES: usize = 256 << 10;

/// Simulated nodes that share a connection.
pub(super) struct Fleet {
    config: NodesConfig,
    /// The nodes' numbers among all, by place.
    numbers: Vec<u32>,
    nodes: Vec<SimNode>,
    common: Common,
    clock: Clock,
    out: BytesMut,
}

impl Fleet {
    pub fn new(config: NodesConfig, numbers: impl Iterator<Item = u32>) -> Self {
        let numbers: Vec<u32> = numbers.collect();
        let nodes = (0..)
            .zip(&numbers)
            .map(|(place, number)| SimNode::new(place, mix(config.seed, u64::from(*number))));
        let nodes = nodes.collect();
        let (common, clock) = (Common::default(), Clock::start());
        Self { config, numbers, nodes, common, clock, out: BytesMut::new() }
    }

    /// Opens all sessions on a new connection, and lives until it is lost.
    pub async fn connect_and_live(&mut self) -> io::Result<()> {
        let mut stream = TcpStream::connect(&self.config.server).await?;
        stream.set_nodelay(true)?;
        self.out.clear();
        let mut input = BytesMut::with_capacity(64 << 10);
        let lived = async {
            self.say_hello(&mut stream).await?;
            self.live(&mut stream, &mut input).await
        };
        let ended = lived.await;
        self.nodes.iter_mut().for_each(|node| node.session.disconnected());
        ended
    }

    async fn say_hello(&mut self, stream: &mut TcpStream) -> io::Result<()> {
        for (place, number) in (0..).zip(&self.numbers) {
            let (who, what) = (identity(&self.config, *number), spec(&self.config, *number));
            let hello = self.nodes[place as usize].session.hello(&who, what);
            put(&mut self.out, place, Up::Hello(hello));
            if self.out.len() > HELLO_BYTES {
                stream.write_all(&self.out).await?;
                self.out.clear();
            }
        }
        stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    async fn live(&mut self, stream: &mut TcpStream, input: &mut BytesMut) -> io::Result<()> {
        let (mut reader, mut writer) = stream.split();
        loop {
            let due_in = self.common.timers.next_ns().map(|at_ns| self.clock.until(at_ns));
            tokio::select! {
                read = reader.read_buf(input) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    self.on_input(input)?;
                }
                () = tokio::time::sleep(due_in.unwrap_or(Duration::from_secs(3600))) => {}
            }
            self.on_due();
            if !self.out.is_empty() {
                writer.write_all(&self.out).await?;
                self.out.clear();
            }
        }
    }

    fn on_input(&mut self, input: &mut BytesMut) -> io::Result<()> {
        let Self { nodes, common, clock, out, .. } = self;
        while let Some(frame) = decode_frame::<DownFrame>(input).map_err(io::Error::other)? {
            let (place, now_ns) = (frame.session, clock.now_ns());
            if let (Some(node), Some(message)) = (nodes.get_mut(place as usize), frame.message) {
                node.on_down(message, now_ns, common, &mut |up| put(out, place, up));
            }
        }
        Ok(())
    }

    fn on_due(&mut self) {
        let Self { nodes, common, clock, out, .. } = self;
        let now_ns = clock.now_ns();
        for _ in 0..DUE_BATCH_MAX {
            let Some((place, due)) = common.timers.pop(now_ns) else { return };
            nodes[place as usize].on_due(due, now_ns, common, &mut |up| put(out, place, up));
        }
    }
}

fn put(out: &mut BytesMut, place: u32, up: Up) {
    encode_frame(&UpFrame { session: place, message: Some(up) }, out);
}

/// Nanoseconds since the Unix epoch that never go back.
struct Clock {
    started: Instant,
    started_ns: u64,
}

impl Clock {
    fn start() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), started_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX) }
    }

    fn now_ns(&self) -> u64 {
        self.started_ns + u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn until(&self, at_ns: u64) -> Duration {
        Duration::from_nanos(at_ns.saturating_sub(self.now_ns()))
    }
}
