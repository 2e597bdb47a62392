//! The network: ordered connections between hosts, which are slow, stall where a direction is blocked, and break.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;

use crate::{
    executor::{now_ns, sleep_until_ns},
    random::Random,
};

/// How long a frame is on its way, in nanoseconds.
const DELAY_NS: std::ops::Range<u64> = 100_000..3_000_000;
/// Now and then one takes much longer.
const DELAY_LONG_NS: std::ops::Range<u64> = 10_000_000..400_000_000;
/// How many in a thousand do.
const LONG_PER_MILLE: u64 = 8;
/// Frames of one direction that are on their way; whoever sends more loses the connection.
const FRAMES_MAX: usize = 4096;

/// A machine of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// A server, from 0.
    Server(usize),
    /// A node, from 0.
    Node(usize),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(number) => write!(f, "server {}", number + 1),
            Self::Node(number) => write!(f, "node {}", number + 1),
        }
    }
}

/// From the first host to the second.
pub type Direction = (Host, Host);

/// All connections. A clone is the same network.
#[derive(Clone)]
pub struct Network(Arc<Mutex<NetworkState>>);

struct NetworkState {
    random: Random,
    links: BTreeMap<u64, Connection>,
    opened: u64,
    /// Frames from the first to the second do not arrive, for so many reasons.
    blocked: BTreeMap<Direction, u32>,
    listeners: BTreeMap<Host, VecDeque<ConnectionEnd>>,
    accepting: BTreeMap<Host, Option<Waker>>,
}

struct Connection {
    hosts: [Host; 2],
    /// On their way to each side.
    queues: [FrameQueue; 2],
    broken: bool,
    /// The machine of one side is gone, and nobody informs the other.
    silent: bool,
}

#[derive(Default)]
struct FrameQueue {
    frames: VecDeque<(u64, Bytes)>,
    reader: Option<Waker>,
    /// No more will be sent.
    closed: bool,
}

impl Network {
    /// A network without troubles.
    pub fn new(random: Random) -> Self {
        Self(Arc::new(Mutex::new(NetworkState {
            random,
            links: BTreeMap::new(),
            opened: 0,
            blocked: BTreeMap::new(),
            listeners: BTreeMap::new(),
            accepting: BTreeMap::new(),
        })))
    }

    fn inner(&self) -> MutexGuard<'_, NetworkState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets others dial this host from now on. It knows nothing of the connections that it had when it vanished: they end.
    pub fn listen(&self, host: Host) {
        let mut inner = self.inner();
        let wakers = inner.break_links(|link| link.silent && link.hosts.contains(&host));
        inner.listeners.insert(host, VecDeque::new());
        inner.accepting.insert(host, None);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The program of a host is gone: nobody listens, and its connections break.
    pub fn crash(&self, host: Host) {
        let (listener, wakers) = {
            let mut inner = self.inner();
            let is_heard = |link: &Connection| link.hosts.contains(&host) && !link.silent;
            (inner.listeners.remove(&host), inner.break_links(is_heard))
        };
        drop(listener);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The machine of a host vanishes: nobody listens, and those at the other ends of its connections hear nothing more, not
    /// even that they have ended. To be called before its program ends.
    pub fn vanish(&self, host: Host) {
        let mut inner = self.inner();
        for link in inner.links.values_mut().filter(|link| link.hosts.contains(&host)) {
            link.silent = true;
        }
        let listener = inner.listeners.remove(&host);
        drop(inner);
        drop(listener);
    }

    /// Dials a host that listens.
    pub fn dial(&self, from: Host, to: Host) -> io::Result<ConnectionEnd> {
        let mut inner = self.inner();
        let cut = inner.blocked.contains_key(&(from, to)) || inner.blocked.contains_key(&(to, from));
        if cut || !inner.listeners.contains_key(&to) {
            return Err(io::Error::new(io::ErrorKind::ConnectionRefused, format!("{to} does not answer")));
        }
        inner.opened += 1;
        let link = inner.opened;
        let queues = [FrameQueue::default(), FrameQueue::default()];
        inner.links.insert(link, Connection { hosts: [from, to], queues, broken: false, silent: false });
        let end = |side| ConnectionEnd { network: self.clone(), link, side };
        let (ours, theirs) = (end(0), end(1));
        inner.listeners.get_mut(&to).expect("it listens").push_back(theirs);
        let waker = inner.accepting.get_mut(&to).and_then(Option::take);
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
        Ok(ours)
    }

    /// The next connection that somebody opens to a host.
    pub async fn accept(&self, host: Host) -> ConnectionEnd {
        poll_fn(|context| {
            let mut inner = self.inner();
            if let Some(end) = inner.listeners.get_mut(&host).and_then(VecDeque::pop_front) {
                return Poll::Ready(end);
            }
            inner.accepting.insert(host, Some(context.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Frames in these directions do not arrive any more; they wait, until each block of a direction is lifted.
    pub fn block(&self, directions: &[Direction]) {
        let mut inner = self.inner();
        for direction in directions {
            *inner.blocked.entry(*direction).or_default() += 1;
        }
    }

    /// One block of each of these directions is lifted. Connections that had waited and now go on break in some cases, as
    /// after a time-out.
    pub fn unblock(&self, directions: &[Direction]) {
        let mut inner = self.inner();
        let opened = directions.iter().copied().filter(|direction| inner.lift(*direction)).collect();
        let wakers = inner.open(opened);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// All directions are open again.
    pub fn heal(&self) {
        let mut inner = self.inner();
        let opened = std::mem::take(&mut inner.blocked).into_keys().collect();
        let wakers = inner.open(opened);
        drop(inner);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Breaks the connections of a host.
    pub fn cut(&self, host: Host) {
        let wakers = self.inner().break_links(|link| link.hosts.contains(&host));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl NetworkState {
    /// Lifts one block; whether it was the last of its direction.
    fn lift(&mut self, direction: Direction) -> bool {
        let Some(reasons) = self.blocked.get_mut(&direction) else { return false };
        *reasons -= 1;
        let is_last = *reasons == 0;
        if is_last {
            self.blocked.remove(&direction);
        }
        is_last
    }

    /// These directions have just been opened.
    fn open(&mut self, opened: BTreeSet<Direction>) -> Vec<Waker> {
        let crosses = |link: &Connection| {
            let [a, b] = link.hosts;
            opened.contains(&(a, b)) || opened.contains(&(b, a))
        };
        let doomed = self.random.percent(50);
        let mut wakers = if doomed { self.break_links(crosses) } else { Vec::new() };
        let readers = self.links.values_mut().flat_map(|link| &mut link.queues);
        wakers.extend(readers.filter_map(|queue| queue.reader.take()));
        wakers
    }

    fn break_links(&mut self, which: impl Fn(&Connection) -> bool) -> Vec<Waker> {
        let mut wakers = Vec::new();
        for link in self.links.values_mut().filter(|link| which(link)) {
            link.broken = true;
            wakers.extend(link.queues.iter_mut().filter_map(|queue| queue.reader.take()));
        }
        wakers
    }

    fn delay_ns(&mut self) -> u64 {
        let long = self.random.below(1000) < LONG_PER_MILLE;
        self.random.within(if long { DELAY_LONG_NS } else { DELAY_NS })
    }
}

/// One side of a connection; the connection ends when it is dropped.
pub struct ConnectionEnd {
    network: Network,
    link: u64,
    side: usize,
}

impl ConnectionEnd {
    /// Who is at the other side; none once the connection has ended.
    pub fn remote(&self) -> Option<Host> {
        self.network.inner().links.get(&self.link).map(|link| link.hosts[1 - self.side])
    }

    /// Sends a frame: whole, in order and once, unless the connection ends before it has arrived.
    pub fn send(&self, frame: Bytes) -> io::Result<()> {
        let mut inner = self.network.inner();
        let delay_ns = inner.delay_ns();
        let Some(link) = inner.links.get_mut(&self.link).filter(|link| !link.broken) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let queue = &mut link.queues[1 - self.side];
        if queue.closed || queue.frames.len() >= FRAMES_MAX {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let behind_ns = queue.frames.back().map_or(0, |(at_ns, _)| *at_ns);
        queue.frames.push_back((behind_ns.max(now_ns() + delay_ns), frame));
        let waker = queue.reader.take();
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// Whether frames that are sent now may be on their way soon.
    pub fn has_room(&self) -> bool {
        let inner = self.network.inner();
        inner.links.get(&self.link).is_none_or(|link| link.queues[1 - self.side].frames.len() < 64)
    }

    /// The next frame; none at the end of the connection.
    pub async fn recv(&self) -> Option<Bytes> {
        let mut sleep = None;
        poll_fn(|context| {
            loop {
                match self.next(context) {
                    NextFrame::Frame(frame) => return Poll::Ready(Some(frame)),
                    NextFrame::End => return Poll::Ready(None),
                    NextFrame::Nothing => return Poll::Pending,
                    NextFrame::At(at_ns) => {
                        let mut wait = sleep_until_ns(at_ns);
                        if Pin::new(&mut wait).poll(context).is_pending() {
                            sleep = Some(wait);
                            return Poll::Pending;
                        }
                    }
                }
            }
        })
        .await
    }

    fn next(&self, context: &Context<'_>) -> NextFrame {
        let mut inner = self.network.inner();
        let NetworkState { links, blocked, .. } = &mut *inner;
        let Some(link) = links.get_mut(&self.link).filter(|link| !link.broken) else { return NextFrame::End };
        let direction = (link.hosts[1 - self.side], link.hosts[self.side]);
        let cut = link.silent || blocked.contains_key(&direction);
        let queue = &mut link.queues[self.side];
        queue.reader = Some(context.waker().clone());
        match queue.frames.front() {
            _ if cut => NextFrame::Nothing,
            Some((at_ns, _)) if *at_ns > now_ns() => NextFrame::At(*at_ns),
            Some(_) => {
                queue.frames.pop_front().map_or(NextFrame::Nothing, |(_, frame)| NextFrame::Frame(frame))
            }
            None if queue.closed => NextFrame::End,
            None => NextFrame::Nothing,
        }
    }
}

/// What the receiving side has.
enum NextFrame {
    Frame(Bytes),
    /// A frame that arrives then.
    At(u64),
    Nothing,
    End,
}

impl Drop for ConnectionEnd {
    fn drop(&mut self) {
        let mut inner = self.network.inner();
        let Some(link) = inner.links.get_mut(&self.link) else { return };
        link.queues[1 - self.side].closed = true;
        let waker = link.queues[1 - self.side].reader.take();
        if link.queues[self.side].closed {
            inner.links.remove(&self.link);
        }
        drop(inner);
        waker.into_iter().for_each(Waker::wake);
    }
}
