//! A server that follows a script: it talks to one node, on whatever connection the node has at the time.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        mpsc::{Receiver, Sender, channel},
    },
    time::Duration,
};

use berth_api::agent::{
    Ack, AgentOutcome, AgentQuery, AgentRequest, AllocStatus, ClientStatus, Desired, Digest, Down, DownFrame,
    ExecControl, ExecDown, ExecStart, FRAME_BYTES_MAX, Hello, SessionRefused, Up, UpFrame, Welcome,
    WelcomeMode, decode_frame, desired_hash, encode_frame, observed_hash,
};
use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::{
    RARE_MS,
    desired::{id, mock, run},
    transcript::Transcript,
};

/// Long enough for the slowest machine; nothing that is right waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each byte of the cluster's id.
const CLUSTER: u8 = 7;

/// One session of a connection.
#[derive(Clone)]
struct Link {
    stream: Arc<Mutex<TcpStream>>,
    session: u32,
}

impl Link {
    fn say(&self, message: Down) {
        let mut out = BytesMut::new();
        encode_frame(&DownFrame { session: self.session, message: Some(message) }, &mut out);
        // A node that has hung up meanwhile says so by another hello.
        let _ = self.stream.lock().expect("a stream").write_all(&out);
    }
}

/// The server.
pub struct Server {
    address: String,
    heard: Receiver<(Link, Up)>,
    link: Option<Link>,
    index: u64,
    /// Messages with desired state that the present session was sent.
    desired_seq: u64,
    /// Further parts of the last one are to come.
    amid_list: bool,
    /// What should run, by allocation: whether to stop.
    wanted: BTreeMap<[u8; 16], bool>,
    observed: BTreeMap<[u8; 16], Bytes>,
    transcript: Transcript,
}

impl Server {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (sender, heard) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || listen(stream, &sender));
            }
        });
        let (wanted, observed, transcript) = (BTreeMap::new(), BTreeMap::new(), Transcript::default());
        Self {
            address,
            heard,
            link: None,
            index: 1,
            desired_seq: 0,
            amid_list: false,
            wanted,
            observed,
            transcript,
        }
    }

    pub fn address(&self) -> String {
        self.address.clone()
    }

    /// All that the node has said, without what differs from run to run.
    pub fn said(self) -> String {
        self.transcript.text()
    }

    /// What the node has said so far, by allocation.
    pub fn sort_by_alloc(&mut self) {
        self.transcript.by_alloc();
    }

    /// What the script does goes into the transcript too.
    pub fn note(&mut self, what: &str) {
        self.transcript.note(what);
    }

    fn next(&mut self) -> Up {
        let (link, message) = self.heard.recv_timeout(PATIENCE).unwrap_or_else(|_| {
            panic!("waited in vain for the node, which has said:\n{}", self.transcript.clone().text())
        });
        self.link = Some(link);
        message
    }

    /// Waits until the node opens its session.
    pub fn hello(&mut self) -> Hello {
        loop {
            match self.next() {
                Up::Hello(hello) => {
                    let desired = hello.desired_digest == self.desired_digest().to_bytes();
                    let observed = hello.observed_digest == self.observed_digest().to_bytes();
                    self.transcript.hello(&hello, desired, observed);
                    return hello;
                }
                other => self.take(other),
            }
        }
    }

    /// Messages with desired state are counted here.
    pub fn say(&mut self, mut message: Down) {
        if let Down::Desired(desired) = &mut message {
            // The parts of one message share its number.
            self.desired_seq += u64::from(!self.amid_list);
            (desired.seq, self.amid_list) = (self.desired_seq, desired.more);
        }
        self.link.as_ref().expect("a link").say(message);
    }

    pub fn welcome(&mut self, mode: WelcomeMode, observed_seq: u64, heartbeat_ms: u64) {
        self.welcome_to(CLUSTER, mode, observed_seq, heartbeat_ms);
    }

    fn welcome_to(&mut self, cluster: u8, mode: WelcomeMode, observed_seq: u64, heartbeat_ms: u64) {
        (self.desired_seq, self.amid_list) = (0, false);
        let (mode, cluster_id) = (mode as i32, vec![cluster; 16]);
        let restored = false;
        self.say(Down::Welcome(Welcome { mode, observed_seq, heartbeat_ms, cluster_id, restored }));
    }

    /// Opens the node's session; what it holds counts as known.
    pub fn open(&mut self) {
        self.hello();
        self.welcome(WelcomeMode::Equal, 0, RARE_MS);
    }

    /// Lets a service run that has one mock task.
    pub fn start(&mut self, number: u8, config_json: &str) {
        self.desire(&run(number, "service", mock(config_json)));
        self.until(number, ClientStatus::Running);
    }

    /// Listens until an allocation is so.
    pub fn until(&mut self, number: u8, wanted: ClientStatus) {
        self.listen_until(|status| status.alloc_id == id(number) && status.status() == wanted);
    }

    /// Listens until each of these is so, in whatever order they come to be.
    pub fn until_each(&mut self, wanted: &[(u8, ClientStatus)]) {
        let is_so = |server: &Self, number: u8, status: ClientStatus| {
            let key: [u8; 16] = id(number).try_into().expect("an id");
            let known = server.observed.get(&key).map(|bytes| AllocStatus::decode(bytes.clone()));
            known.is_some_and(|known| known.expect("a status").status() == status)
        };
        while !wanted.iter().all(|(number, status)| is_so(self, *number, *status)) {
            let message = self.next();
            self.take(message);
        }
    }

    /// Refuses the node until it says hello so; what it says before does not count.
    pub fn refuse_until(&mut self, is_so: impl Fn(&Hello) -> bool) -> Hello {
        loop {
            let said = self.transcript.clone();
            let hello = self.hello();
            if is_so(&hello) {
                return hello;
            }
            self.transcript = said;
            self.say(Down::Refused(SessionRefused { retry: true, ..SessionRefused::default() }));
        }
    }

    /// Welcomes the node to a cluster that it does not belong to.
    pub fn welcome_elsewhere(&mut self) {
        self.note("a server of another cluster welcomes it");
        self.welcome_to(CLUSTER + 1, WelcomeMode::Equal, 0, RARE_MS);
    }

    pub fn refuse(&mut self) {
        self.note("the session is refused");
        self.say(Down::Refused(SessionRefused { reason: "just so".into(), retry: true }));
    }

    pub fn disconnect(&mut self) {
        self.note("the connection breaks");
        let link = self.link.take().expect("a link");
        let _ = link.stream.lock().expect("a stream").shutdown(Shutdown::Both);
    }

    /// Changes what should be, at the next index, without telling the node.
    pub fn decide(&mut self, change: &Desired) -> Desired {
        self.index += 1;
        let key = |bytes: &Vec<u8>| <[u8; 16]>::try_from(bytes.as_slice()).expect("an id");
        self.wanted.extend(change.run.iter().map(|run| (key(&run.alloc_id), false)));
        self.wanted.extend(change.stop.iter().map(|stop| (key(&stop.alloc_id), true)));
        for gone in change.forget.iter().chain(&change.purge).map(key) {
            self.wanted.remove(&gone);
            self.observed.remove(&gone);
        }
        Desired { term: 1, index: self.index, ..change.clone() }
    }

    /// Changes what should be, and tells the node.
    pub fn desire(&mut self, change: &Desired) {
        let desired = self.decide(change);
        self.say(Down::Desired(desired));
    }

    /// Takes in what the node says until an update that answers the description has come.
    pub fn listen_until(&mut self, is_so: impl Fn(&AllocStatus) -> bool) {
        loop {
            let message = self.next();
            let statuses = match &message {
                Up::Update(update) => update.allocs.clone(),
                _ => Vec::new(),
            };
            self.take(message);
            if statuses.into_iter().any(|bytes| is_so(&AllocStatus::decode(bytes).expect("a status"))) {
                return;
            }
        }
    }

    /// Asks something, and takes in what the node says until it has answered and reported an allocation that is so. The
    /// answer and the update may come in either order.
    pub fn ask(&mut self, question: AgentQuery, is_so: impl Fn(&AllocStatus) -> bool) {
        let place = self.transcript.place();
        let (mut outcome, mut told) = (None, false);
        self.say(Down::Ask(AgentRequest { request: 1, query: Some(question) }));
        while outcome.is_none() || !told {
            match self.next() {
                Up::Answer(answer) => outcome = answer.outcome,
                message => {
                    if let Up::Update(update) = &message {
                        let statuses = update.allocs.iter().map(|bytes| AllocStatus::decode(bytes.clone()));
                        told |= statuses.flatten().any(|status| is_so(&status));
                    }
                    self.take(message);
                }
            }
        }
        self.transcript.note_at(place, &format!("asked: {}", answered(outcome)));
    }

    /// Asks something that changes nothing.
    pub fn ask_only(&mut self, question: AgentQuery) {
        self.say(Down::Ask(AgentRequest { request: 1, query: Some(question) }));
        let outcome = loop {
            match self.next() {
                Up::Answer(answer) => break answer.outcome,
                message => self.take(message),
            }
        };
        self.note(&format!("asked: {}", answered(outcome)));
    }

    /// Asks to run a command, and waits for what comes of it.
    pub fn exec(&mut self, start: ExecStart) {
        self.say(Down::Exec(ExecDown { request: 1, control: Some(ExecControl::Start(start)) }));
        let news = loop {
            match self.next() {
                Up::Exec(up) => break up.event,
                message => self.take(message),
            }
        };
        self.note(&format!("a command: {news:?}"));
    }

    /// Takes in what the node says up to the end of a resync.
    pub fn listen_until_resynced(&mut self) {
        loop {
            let message = self.next();
            let done = matches!(&message, Up::Update(update) if update.resync_done);
            self.take(message);
            if done {
                return;
            }
        }
    }

    /// Takes in what the node says up to so many heartbeats.
    pub fn listen_for_heartbeats(&mut self, count: usize) {
        let mut heard = 0;
        while heard < count {
            let message = self.next();
            heard += usize::from(matches!(message, Up::Heartbeat(_)));
            self.take(message);
        }
    }

    fn take(&mut self, message: Up) {
        if let Up::Update(update) = &message {
            for bytes in &update.allocs {
                let status = AllocStatus::decode(bytes.clone()).expect("a status");
                self.observed.insert(status.alloc_id.try_into().expect("an id"), bytes.clone());
            }
        }
        self.transcript.said(&message);
    }

    fn desired_digest(&self) -> Digest {
        sum(self.wanted.iter().map(|(id, stop)| desired_hash(id, (!*stop).then_some(0))))
    }

    fn observed_digest(&self) -> Digest {
        sum(self.observed.values().map(|status| observed_hash(status)))
    }
}

/// An answer without its time.
fn answered(outcome: Option<AgentOutcome>) -> String {
    match outcome {
        Some(AgentOutcome::AllocUsage(usage)) => {
            assert!(usage.at_ns > 0);
            format!("{:?}", usage.tasks)
        }
        other => format!("{other:?}"),
    }
}

fn sum(hashes: impl Iterator<Item = u128>) -> Digest {
    let mut digest = Digest::default();
    hashes.for_each(|hash| digest.add(hash));
    digest
}

/// Hands on what a connection brings. An update is acknowledged before the script hears of it, so that the node knows
/// of that before anything that the script says in answer.
fn listen(stream: TcpStream, heard: &Sender<(Link, Up)>) {
    let mut read = stream.try_clone().expect("a stream");
    let stream = Arc::new(Mutex::new(stream));
    let (mut buffer, mut chunk) = (BytesMut::new(), [0; 4096]);
    loop {
        while let Some(frame) = decode_frame::<UpFrame>(&mut buffer, FRAME_BYTES_MAX).expect("a frame") {
            let link = Link { stream: stream.clone(), session: frame.session };
            let message = frame.message.expect("a message");
            if let Up::Update(update) = &message {
                link.say(Down::Ack(Ack { seq: update.seq, delay_ms: 0 }));
            }
            if heard.send((link, message)).is_err() {
                return;
            }
        }
        match read.read(&mut chunk) {
            Ok(0) | Err(_) => return,
            Ok(read) => buffer.extend_from_slice(&chunk[..read]),
        }
    }
}
