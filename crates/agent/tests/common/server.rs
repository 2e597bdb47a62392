//! A server, reduced to what an agent sees of it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use berth_api::agent::{
    Ack, AgentOutcome, AgentQuery, AgentRequest, AgentResponse, AllocStatus, ClientStatus, Desired, Digest,
    Down, DownFrame, ExecUp, FRAME_BYTES_MAX, FileChunk, FileRead, Hello, NodeSpec, ReadSecrets, RunAlloc,
    SecretItems, SecretsRead, SessionRefused, SignTokens, SignedToken, SignedTokens, StopAlloc, Up, UpFrame,
    VariableContent, VariableResult, VariablesWatched, WatchVariables, Welcome, WelcomeMode, decode_frame,
    desired_hash, encode_frame, observed_hash,
};
use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::common::{PATIENCE, alloc_id, eventually};

/// An allocation that should run, and its encoded group.
#[derive(Clone)]
pub struct Run {
    pub alloc: RunAlloc,
    pub group: Bytes,
}

impl Run {
    fn put_into(self, desired: &mut Desired) -> RunAlloc {
        RunAlloc { group_ref: desired.group_ref(&self.group), ..self.alloc }
    }
}

/// Agents wait twice as long for an answer, which nobody gives while a test does something else.
const HEARTBEAT_MS: u64 = 10_000;

/// Speaks with one agent at a time.
pub struct Server {
    listener: TcpListener,
    link: Option<(TcpStream, Receiver<Up>)>,
    /// Of the desired state that it said last.
    pub index: u64,
    desired_seq: u64,
    /// Each byte of its cluster's id.
    pub cluster: u8,
    /// What it wants, by allocation: whether to stop.
    pub desired: BTreeMap<[u8; 16], bool>,
    observed: BTreeMap<[u8; 16], Bytes>,
    pub chunks: Vec<FileChunk>,
    pub answers: Vec<AgentResponse>,
    /// News of commands that nobody has looked at.
    pub execs: Vec<ExecUp>,
    /// Heartbeats heard.
    pub heartbeats: u32,
    /// The last update that was taken in.
    acknowledged: u64,
    /// What the node is, once its agent has said that it has changed.
    pub node: Option<NodeSpec>,
    /// What agents are told in place of a welcome.
    pub refuses: Option<SessionRefused>,
    /// How long the tokens live that it signs; none while it signs none.
    pub tokens_live_ms: Option<u64>,
    /// Tokens so far.
    pub signed: u32,
    /// What is in every secret of every task; none while it gives none.
    pub items: Option<BTreeMap<String, String>>,
    /// How often it gave some.
    pub secrets_given: u32,
    /// It gives no secrets for now, although there are some.
    pub is_busy: bool,
    /// What every variable is that a template shows, and how often that has changed; none while there is none.
    shown: (u8, Option<BTreeMap<String, String>>),
    /// It refuses to say what templates show, until that is something else.
    pub withholds: bool,
    /// Who waits for a change of it.
    watching: Vec<WatchVariables>,
    /// Requests for it.
    pub watched: u32,
}

impl Server {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a port");
        let (desired, observed) = (BTreeMap::new(), BTreeMap::new());
        let (chunks, answers, execs) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            listener,
            link: None,
            index: 1,
            desired_seq: 0,
            cluster: 7,
            desired,
            observed,
            chunks,
            answers,
            execs,
            heartbeats: 0,
            acknowledged: 0,
            node: None,
            refuses: None,
            tokens_live_ms: None,
            signed: 0,
            items: None,
            secrets_given: 0,
            is_busy: false,
            shown: (1, None),
            withholds: false,
            watching: Vec::new(),
            watched: 0,
        }
    }

    pub fn address(&self) -> String {
        self.listener.local_addr().expect("an address").to_string()
    }

    /// Waits for an agent; answers with what it says first, after having welcomed it.
    pub fn accept(&mut self) -> (Hello, WelcomeMode) {
        let stream = eventually("an agent", || self.listener.accept().ok()).0;
        stream.set_nonblocking(false).expect("a stream");
        stream.set_nodelay(true).expect("a stream");
        // Nobody hears what the agent before has asked.
        self.watching.clear();
        let (sender, receiver) = channel();
        let mut read = stream.try_clone().expect("a stream");
        std::thread::spawn(move || {
            let (mut buffer, mut chunk) = (BytesMut::new(), [0; 4096]);
            loop {
                while let Some(frame) =
                    decode_frame::<UpFrame>(&mut buffer, FRAME_BYTES_MAX).expect("a frame")
                {
                    if sender.send(frame.message.expect("a message")).is_err() {
                        return;
                    }
                }
                match read.read(&mut chunk) {
                    Ok(0) | Err(_) => return,
                    Ok(read) => buffer.extend_from_slice(&chunk[..read]),
                }
            }
        });
        self.link = Some((stream, receiver));
        let Up::Hello(hello) = self.next().expect("a message") else { panic!("no hello") };
        if let Some(refused) = &self.refuses {
            self.say(Down::Refused(refused.clone()));
            return (hello, WelcomeMode::Equal);
        }
        let equal = Digest::from_slice(&hello.observed_digest) == Some(self.observed_digest());
        let mode = if equal { WelcomeMode::Equal } else { WelcomeMode::Full };
        self.desired_seq = 0;
        let cluster_id = vec![self.cluster; 16];
        let welcome =
            Welcome { mode: mode as i32, heartbeat_ms: HEARTBEAT_MS, cluster_id, ..Welcome::default() };
        self.say(Down::Welcome(welcome));
        (hello, mode)
    }

    /// Waits for an agent and no longer than is polite: it may be unable to start.
    pub fn until_dialed(&mut self) {
        for _ in 0..500 {
            if let Ok((stream, _)) = self.listener.accept() {
                self.link = Some((stream, channel().1));
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub fn disconnect(&mut self) {
        if let Some((stream, _)) = self.link.take() {
            stream.shutdown(std::net::Shutdown::Both).ok();
        }
    }

    fn observed_digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.observed.values().for_each(|status| digest.add(observed_hash(status)));
        digest
    }

    pub fn desired_digest(&self) -> Digest {
        let mut digest = Digest::default();
        self.desired.iter().for_each(|(id, stop)| digest.add(desired_hash(id, (!*stop).then_some(0))));
        digest
    }

    pub fn say(&mut self, message: Down) {
        self.try_say(message).expect("said");
    }

    fn try_say(&mut self, message: Down) -> std::io::Result<()> {
        let mut out = BytesMut::new();
        encode_frame(&DownFrame { session: 1, message: Some(message) }, &mut out);
        self.link.as_mut().expect("a link").0.write_all(&out)
    }

    fn next(&mut self) -> Option<Up> {
        match self.link.as_ref().expect("a link").1.recv_timeout(PATIENCE) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => panic!("waited in vain for the agent"),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Takes in one message.
    pub fn listen(&mut self) {
        match self.next().expect("a connection") {
            Up::Update(update) => {
                for bytes in update.allocs {
                    let status = AllocStatus::decode(bytes.clone()).expect("a status");
                    self.observed.insert(status.alloc_id.try_into().expect("an id"), bytes);
                }
                self.acknowledged = update.seq;
                self.acknowledge();
            }
            Up::FileChunk(chunk) => self.chunks.push(chunk),
            Up::Answer(answer) => self.answers.push(answer),
            Up::Exec(news) => self.execs.push(news),
            Up::Heartbeat(_) => {
                self.heartbeats += 1;
                self.acknowledge();
            }
            Up::Changed(changed) => self.node = Some(changed.node),
            Up::Sign(asked) => self.sign(asked),
            Up::Secrets(asked) => self.give_secrets(asked),
            Up::Watch(asked) => self.watch(asked),
            Up::Hello(_) | Up::Leaving(_) | Up::TaskApi(_) | Up::Renewed(_) => {}
        }
    }

    /// An agent leaves a server that does not answer; one that ends may be gone after its last words.
    fn acknowledge(&mut self) {
        let _ = self.try_say(Down::Ack(Ack { seq: self.acknowledged, delay_ms: 0 }));
    }

    /// Tokens that say how many were signed before them; or a refusal that passes, where none are signed.
    fn sign(&mut self, asked: SignTokens) {
        let SignTokens { request, identities, .. } = asked;
        let Some(life_ms) = self.tokens_live_ms else {
            let refused = "no server can sign at the moment".into();
            return self.say(Down::Signed(SignedTokens {
                request,
                refused,
                retry: true,
                tokens: Vec::new(),
            }));
        };
        let token = |identity: String| {
            self.signed += 1;
            SignedToken { token: format!("{identity}-{}", self.signed), identity, life_ms }
        };
        let tokens = identities.into_iter().map(token).collect();
        self.say(Down::Signed(SignedTokens { request, tokens, refused: String::new(), retry: false }));
    }

    /// Templates show this from now on.
    pub fn show(&mut self, items: Option<&[(&str, &str)]>) {
        let items = items.map(|items| {
            items.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        });
        self.shown = (self.shown.0 + 1, items);
        if self.link.is_none() {
            return;
        }
        std::mem::take(&mut self.watching).into_iter().for_each(|asked| self.watch(asked));
    }

    /// Answers at once whoever has not seen it.
    fn watch(&mut self, asked: WatchVariables) {
        self.watched += 1;
        let (seen, items) = &self.shown;
        if asked.seen == [*seen] {
            return self.watching.push(asked);
        }
        if self.withholds {
            let (request, seen, refused) = (asked.request, vec![*seen], "it is too large".to_owned());
            let told =
                VariablesWatched { request, seen, refused, retry: true, ..VariablesWatched::default() };
            return drop(self.try_say(Down::Watched(told)));
        }
        let variables: Vec<VariableContent> = items
            .iter()
            .map(|items| VariableContent { items: items.clone(), ..VariableContent::default() })
            .collect();
        let found = asked
            .queries
            .iter()
            .map(|_| VariableResult { variables: variables.clone(), ..VariableResult::default() });
        let (request, seen, index) = (asked.request, vec![*seen], u64::from(*seen));
        let told =
            VariablesWatched { request, found: found.collect(), seen, index, ..VariablesWatched::default() };
        // Its agent may be gone.
        let _ = self.try_say(Down::Watched(told));
    }

    fn give_secrets(&mut self, asked: ReadSecrets) {
        let ReadSecrets { request, .. } = asked;
        let items = self.items.clone().filter(|_| !self.is_busy);
        let refused = match items {
            Some(_) => "",
            None if self.is_busy => "each that is read must be recorded, and cannot be",
            None => "there is no variable",
        };
        let (refused, taken) = (refused.to_owned(), items.is_none() && !self.is_busy);
        self.secrets_given += u32::from(items.is_some());
        let secrets = items.map(|items| SecretItems { name: "one".into(), items }).into_iter().collect();
        self.say(Down::Secrets(SecretsRead { request, secrets, refused, taken, retry: true }));
    }

    pub fn desire(&mut self, runs: Vec<Run>, stop: &[u8], forget: &[u8], purge: &[u8]) {
        let mut desired = Desired::default();
        let run: Vec<_> = runs.into_iter().map(|run| run.put_into(&mut desired)).collect();
        let wires = |numbers: &[u8]| numbers.iter().map(|number| alloc_id(*number).to_vec()).collect();
        let stops = stop
            .iter()
            .map(|number| StopAlloc { alloc_id: alloc_id(*number).to_vec(), reason: String::new() });
        self.desired.extend(run.iter().map(|run| (run.alloc_id.clone().try_into().expect("an id"), false)));
        self.desired.extend(stop.iter().map(|number| (alloc_id(*number), true)));
        for number in forget.iter().chain(purge) {
            self.desired.remove(&alloc_id(*number));
            self.observed.remove(&alloc_id(*number));
        }
        let (forget, purge, stop) = (wires(forget), wires(purge), stops.collect());
        self.send_desired(Desired { run, stop, forget, purge, ..desired });
    }

    /// Says desired state at the next index, with the number that is due.
    pub fn send_desired(&mut self, desired: Desired) {
        (self.index, self.desired_seq) = (self.index + 1, self.desired_seq + 1);
        self.say(Down::Desired(Desired { term: 1, index: self.index, seq: self.desired_seq, ..desired }));
    }

    pub fn status(&self, number: u8) -> Option<AllocStatus> {
        self.observed
            .get(&alloc_id(number))
            .map(|bytes| AllocStatus::decode(bytes.clone()).expect("a status"))
    }

    /// Listens until an allocation is as it should be.
    pub fn wait_for(&mut self, number: u8, is_so: impl Fn(&AllocStatus) -> bool) -> AllocStatus {
        loop {
            if let Some(status) = self.status(number).filter(&is_so) {
                return status;
            }
            self.listen();
        }
    }

    pub fn wait_for_status(&mut self, number: u8, wanted: ClientStatus) -> AllocStatus {
        self.wait_for(number, |status| {
            let now = status.status();
            assert!(
                now == wanted || !now.is_terminal(),
                "allocation {number} is {now:?}: {:?}",
                status.tasks
            );
            now == wanted
        })
    }

    /// Asks something, and waits for the answer.
    pub fn ask(&mut self, question: AgentQuery) -> AgentOutcome {
        self.answers.clear();
        self.say(Down::Ask(AgentRequest { request: 1, query: Some(question) }));
        while self.answers.is_empty() {
            self.listen();
        }
        self.answers.remove(0).outcome.expect("an outcome")
    }

    /// Reads a log to its end.
    pub fn read_log(
        &mut self,
        number: u8,
        task: &str,
        offset: u64,
        from_end: bool,
    ) -> Result<String, String> {
        self.chunks.clear();
        let (task, stream) = (task.into(), "stdout".into());
        let read = FileRead {
            request: 9,
            alloc_id: alloc_id(number).to_vec(),
            task,
            stream,
            offset,
            from_end,
            ..FileRead::default()
        };
        self.say(Down::FileRead(FileRead { credit_bytes: 1 << 20, ..read }));
        while self.chunks.last().is_none_or(|chunk| !chunk.done) {
            self.listen();
        }
        let error = self.chunks.last().map(|chunk| chunk.error.clone()).unwrap_or_default();
        let data = self.chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
        if error.is_empty() { Ok(String::from_utf8(data).expect("text")) } else { Err(error) }
    }
}
