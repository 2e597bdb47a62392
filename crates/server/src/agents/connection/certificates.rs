//! Tests each kind of certificate at the agents' port with each message, about the agent's own node and about another one.

use berth_api::agent::{
    AgentResponse, DownFrame, ENROLL_BYTES_MAX, Enroll, Enrolled, ExecUp, FRAME_BYTES_MAX, FileChunk, Hello,
    Leaving, NodeSpec, TaskApiOpen, TaskApiPart, decode_frame, encode_frame,
};
use berth_model::{acl::ChangeAcl, command::Command};
use berth_tls::{Connector, Key, PortKind, RevokedServers, Role};
use crossbeam_channel::{Receiver, unbounded};
use tokio::{
    io::{AsyncReadExt, split},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    task::JoinHandle,
};

use super::*;
use crate::{
    agents::enroll,
    net::{
        NetStream, PortAcceptor, Secure,
        test_certificates::{Fault, REGION, TestCertificate, TestCertificates, until_expired},
    },
    nomad::tests::fake_engine::FakeEngine,
    workload::tests::{ALLOC, NODE, SECRET, cluster},
};

/// Nodes besides [`NODE`]: one with a certificate, one that is asked for last of all.
const OTHER: NodeId = NodeId(8);
/// The session by which a test knows that all before it was dealt with.
const LAST: u32 = 99;
/// How long what an agent says may take to have an effect that is not an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a message about a node does, from an agent that has opened a session for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Opens the session.
    Opens,
    /// The controller hears of it.
    Tells,
    /// It is answered.
    Answers,
    /// The state changes.
    Changes,
    /// A task speaks to the HTTP API.
    Carries,
    /// Nothing: it answers what nobody has asked.
    Nothing,
}

/// Whoever adds a message says here what it does, and adds it to [`messages`].
fn effect(message: &Up) -> Effect {
    match message {
        Up::Hello(_) => Effect::Opens,
        Up::Update(_) | Up::Heartbeat(_) | Up::Changed(_) => Effect::Tells,
        Up::Sign(_) | Up::Secrets(_) | Up::Watch(_) => Effect::Answers,
        Up::Leaving(_) => Effect::Changes,
        Up::TaskApi(_) => Effect::Carries,
        // What it shows is no certificate at all.
        Up::FileChunk(_) | Up::Answer(_) | Up::Exec(_) | Up::Renewed(_) => Effect::Nothing,
    }
}

/// One of each, about [`NODE`] and with the secret of its agent: that was stolen, too.
fn messages() -> Vec<Up> {
    let (secret, alloc_id) = (SECRET.to_vec(), ALLOC.to_bytes().to_vec());
    let status = AllocStatus { alloc_id: alloc_id.clone(), ..AllocStatus::default() };
    let open = TaskApiOpen { secret: secret.clone(), alloc_id: alloc_id.clone(), task: "server".to_owned() };
    vec![
        Up::Hello(hello(NODE)),
        Up::Update(Update { seq: 1, allocs: vec![status.encode_to_vec().into()], ..Update::default() }),
        Up::Heartbeat(Heartbeat::default()),
        Up::FileChunk(FileChunk { request: 1, ..FileChunk::default() }),
        Up::Answer(AgentResponse { request: 1, outcome: None }),
        Up::Exec(ExecUp { request: 1, ..ExecUp::default() }),
        Up::Leaving(Leaving { secret: secret.clone(), deadline_ms: 1, force: true, ignore_system: false }),
        Up::Changed(NodeChanged { node: NodeSpec::default() }),
        Up::Sign(SignTokens {
            request: 1,
            secret: secret.clone(),
            alloc_id: alloc_id.clone(),
            task: "server".to_owned(),
            identities: vec!["default".to_owned()],
        }),
        Up::Secrets(ReadSecrets {
            request: 1,
            secret: secret.clone(),
            alloc_id: alloc_id.clone(),
            task: "plain".to_owned(),
        }),
        Up::Watch(WatchVariables {
            request: 1,
            secret,
            alloc_id,
            task: "plain".to_owned(),
            ..WatchVariables::default()
        }),
        Up::TaskApi(TaskApi { connection: 1, part: Some(TaskApiPart::Open(open)) }),
        Up::Renewed(Renewed { chain: vec![b"no certificate".to_vec()] }),
    ]
}

fn hello(node: NodeId) -> Hello {
    Hello {
        protocol_version: PROTOCOL_VERSION,
        node_id: node.to_bytes().to_vec(),
        secret: SECRET.to_vec(),
        ..Hello::default()
    }
}

/// Roles of certificates. Whoever adds one says here whether it has business at this port.
fn has_business(role: &Role) -> bool {
    match role {
        Role::Agent(_) => true,
        Role::Server(_) | Role::Client => false,
    }
}

fn roles() -> [Role; 5] {
    let agent = |node: NodeId| Role::Agent(Some(node.to_string()));
    [agent(NODE), agent(OTHER), Role::Agent(None), Role::Server(None), Role::Client]
}

/// The answer to a client that shows this where it is not admitted.
fn turned_away(certificate: &TestCertificate) -> Option<&'static str> {
    match certificate.fault {
        Fault::Expired => Some("expired"),
        Fault::OtherAuthority => Some("none of the authorities"),
        Fault::OtherRegion => Some("here it must name an agent of region global"),
        Fault::Nothing => (!has_business(&certificate.role)).then_some("here it must name an agent"),
    }
}

/// The port, and all that comes of what is said there.
struct Port {
    engine: Arc<FakeEngine>,
    entrance: PortAcceptor,
    context: Arc<ListenContext>,
    inputs: Receiver<EngineInput>,
    of_tasks: mpsc::Receiver<NetStream>,
}

/// What came of a message.
#[derive(Debug, Default, PartialEq, Eq)]
struct Came {
    effects: Vec<Effect>,
    refused: Option<String>,
}

impl Port {
    fn open(certificates: &TestCertificates) -> Self {
        let engine = cluster();
        let secure = Secure::load(&certificates.of_server(), REGION, "s1", RevokedServers::default())
            .expect("it is good");
        let entrance = secure.entrance(PortKind::Agents);
        let (inputs_in, inputs) = unbounded();
        let (sender, of_tasks) = mpsc::channel(16);
        let context = ListenContext::new(inputs_in).with_state(engine.state()).with_task_api_sender(sender);
        let context = Arc::new(context.with_certificates(Some(secure)));
        Self { engine, entrance, context, inputs, of_tasks }
    }

    /// A connection, and the end of what serves it.
    async fn dial(
        &self,
        connector: &Connector,
    ) -> (io::Result<berth_tls::Stream>, JoinHandle<io::Result<()>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let (entrance, context) = (self.entrance.clone(), self.context.clone());
        let served = tokio::spawn(async move {
            let (stream, peer) = listener.accept().await.expect("somebody comes");
            let stream = entrance.enter(stream, peer).await?;
            if stream.enrolls() {
                return enroll::serve(stream, &context).await;
            }
            let certificate = stream.certificate().cloned();
            let (reader, writer) = split(stream);
            serve(reader, writer, certificate, peer, &context).await
        });
        let stream = TcpStream::connect(address).await.expect("connected");
        (connector.connect(stream, &address.to_string()).await, served)
    }

    /// A session for [`NODE`] on a connection that this is shown for.
    async fn session(&self, certificate: &TestCertificate) -> Session {
        let (stream, served) = self.dial(&certificate.connector()).await;
        let mut session = Session { stream: stream.expect("it is taken in"), served };
        session.say(Up::Hello(hello(NODE))).await;
        session
    }

    /// Says that in a session for [`NODE`], and waits until it is dealt with.
    ///
    /// # Errors
    /// Why the connection was not taken in.
    async fn say(&mut self, certificate: &TestCertificate, message: &Up) -> Result<Came, String> {
        let (stream, served) = self.dial(&certificate.connector()).await;
        let index = self.index();
        let own = certificate.role.clone();
        let last = match own {
            Role::Agent(Some(node)) => node.parse().expect("an id"),
            _ => OTHER,
        };
        let done = SignTokens { request: 77, ..SignTokens::default() };
        let mut frames = vec![(1, Up::Hello(hello(NODE)))];
        frames.extend((effect(message) != Effect::Opens).then(|| (1, message.clone())));
        frames.extend([(LAST, Up::Hello(hello(last))), (LAST, Up::Sign(done))]);
        let mut bytes = BytesMut::new();
        for (session, message) in frames {
            encode_frame(&UpFrame { session, message: Some(message) }, &mut bytes);
        }
        let Ok(stream) = stream else {
            return Err(served.await.expect("it does not panic").expect_err("it was refused").to_string());
        };
        let (mut reader, mut writer) = split(stream);
        // Whoever is not let in may have said all before he hears of it.
        if writer.write_all(&bytes).await.is_ok() {
            let _ = writer.flush().await;
        }
        let downs = match hear(&mut reader, matches!(message, Up::Secrets(_) | Up::Watch(_))).await {
            Ok(downs) => downs,
            Err(_) => {
                let ended = served.await.expect("it does not panic");
                return Err(ended.expect_err("the connection was ended").to_string());
            }
        };
        let mut outcome = self.came(downs);
        if effect(message) == Effect::Changes && outcome.refused.is_none() {
            let changed = async {
                while self.index() == index {
                    tokio::task::yield_now().await;
                }
            };
            tokio::time::timeout(PATIENCE, changed).await.expect("the state changes");
        }
        if self.index() != index {
            outcome.effects.push(Effect::Changes);
        }
        drop((reader, writer));
        let _ = served.await;
        self.inputs.try_iter().for_each(drop);
        Ok(outcome)
    }

    fn index(&self) -> berth_model::Index {
        self.engine.state().view().store.index()
    }

    /// What the server and its controller made of it, but for the last session.
    fn came(&mut self, downs: Vec<Down>) -> Came {
        let mut outcome = Came::default();
        for input in self.inputs.try_iter() {
            match input {
                EngineInput::Open { hello, link, .. } if link.number != LAST => {
                    assert_eq!(hello.node_id(), NODE);
                    outcome.effects.push(Effect::Opens);
                }
                EngineInput::Event(Event::SessionClosed(_), _) | EngineInput::Open { .. } => {}
                EngineInput::Event(..) => outcome.effects.push(Effect::Tells),
                _ => panic!("the controller is told something else"),
            }
        }
        for down in downs {
            match down {
                Down::Refused(refused) => outcome.refused = Some(refused.reason),
                Down::Signed(signed) => {
                    assert_eq!(signed.tokens.len(), 1, "{}", signed.refused);
                    outcome.effects.push(Effect::Answers);
                }
                Down::Secrets(_) | Down::Watched(_) => outcome.effects.push(Effect::Answers),
                other => panic!("it is told {other:?}"),
            }
        }
        if self.of_tasks.try_recv().is_ok() {
            outcome.effects.push(Effect::Carries);
        }
        outcome
    }

    /// Asks for a certificate for [`NODE`], with a secret as its own.
    ///
    /// # Errors
    /// Why there is none.
    async fn enroll(&self, connector: &Connector, node_secret: &[u8]) -> Result<(), String> {
        let (stream, served) = self.dial(connector).await;
        let key = Key::make().expect("it is made");
        let (node_id, public_key) = (NODE.to_bytes().to_vec(), key.public().to_vec());
        let node_secret = node_secret.to_vec();
        let mut request = Enroll { node_id, public_key, node_secret, ..Enroll::default() };
        request.signature = key.sign(&request.signed()).expect("it is signed");
        let mut bytes = BytesMut::new();
        encode_frame(&request, &mut bytes);
        let mut answer = BytesMut::new();
        if let Ok(mut stream) = stream {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.flush().await;
            while stream.read_buf(&mut answer).await.is_ok_and(|read| read > 0) {}
        }
        if let Err(error) = served.await.expect("it does not panic") {
            return Err(error.to_string());
        }
        let answered =
            decode_frame::<Enrolled>(&mut answer, ENROLL_BYTES_MAX).expect("it keeps the protocol");
        let answered = answered.expect("it is answered");
        assert_eq!(answered.certificate.is_empty(), !answered.refused.is_empty());
        if answered.refused.is_empty() { Ok(()) } else { Err(answered.refused) }
    }
}

/// An open session, from the agent's side.
struct Session {
    stream: berth_tls::Stream,
    served: JoinHandle<io::Result<()>>,
}

impl Session {
    async fn say(&mut self, message: Up) {
        let mut bytes = BytesMut::new();
        encode_frame(&UpFrame { session: 1, message: Some(message) }, &mut bytes);
        self.stream.write_all(&bytes).await.expect("it is open");
        self.stream.flush().await.expect("it is open");
    }

    async fn shows(&mut self, renewed: &TestCertificate) {
        let chain = renewed.credentials.chain().iter().map(|one| one.to_vec()).collect();
        self.say(Up::Renewed(Renewed { chain })).await;
    }

    /// Why the server has ended the connection, which it does soon.
    async fn ended(self) -> String {
        let ended = tokio::time::timeout(PATIENCE, self.served).await.expect("it ends in time");
        ended.expect("it does not panic").expect_err("the server ends it").to_string()
    }
}

/// All that is sent until the last session has its answer.
///
/// What is asked for secrets and variables is answered beside what else is said: `secrets` says that it was asked, and by somebody who may.
async fn hear<R: AsyncRead + Unpin>(reader: &mut R, secrets: bool) -> io::Result<Vec<Down>> {
    let (mut read, mut downs) = (BytesMut::new(), Vec::new());
    let (mut is_done, mut awaited) = (false, secrets);
    loop {
        while let Some(frame) =
            decode_frame::<DownFrame>(&mut read, FRAME_BYTES_MAX).map_err(io::Error::other)?
        {
            match frame {
                DownFrame { session: LAST, message: Some(Down::Signed(_) | Down::Refused(_)) } => {
                    is_done = true
                }
                DownFrame { session: LAST, .. } => {}
                DownFrame { message, .. } => {
                    awaited &=
                        !matches!(message, Some(Down::Secrets(_) | Down::Watched(_) | Down::Refused(_)));
                    downs.extend(message);
                }
            }
        }
        if is_done && !awaited {
            return Ok(downs);
        }
        if reader.read_buf(&mut read).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

#[tokio::test]
async fn each_certificate_may_send_each_message_for_its_own_nodes_only() {
    let certificates = TestCertificates::new();
    let all: Vec<TestCertificate> = roles().iter().flat_map(|role| certificates.of(role)).collect();
    let mut port = Port::open(&certificates);
    let messages = messages();
    until_expired(&all).await;
    let (mut done, mut refused) = (0, 0);
    for certificate in &all {
        for message in &messages {
            let row = format!("{certificate} says {message:?}");
            let outcome = port.say(certificate, message).await;
            let Some(why) = turned_away(certificate) else {
                let outcome = outcome.unwrap_or_else(|why| panic!("{row}: {why}"));
                let speaks_for_it = certificate.credentials.identity().speaks_for(&NODE.to_string());
                if !speaks_for_it {
                    let why = outcome.refused.as_deref().unwrap_or_default();
                    assert!(why.contains("does not speak for node"), "{row}: {why}");
                    assert_eq!(outcome.effects, [], "{row}");
                    refused += 1;
                    continue;
                }
                let mut expected = vec![Effect::Opens];
                expected.extend(
                    [effect(message)]
                        .into_iter()
                        .filter(|effect| !matches!(effect, Effect::Opens | Effect::Nothing)),
                );
                assert_eq!(outcome, Came { effects: expected, refused: None }, "{row}");
                done += 1;
                continue;
            };
            let found = outcome.expect_err(&row);
            assert!(found.contains(why), "{row}: {found}");
            refused += 1;
        }
    }
    assert_eq!((done, refused), (2 * messages.len(), 18 * messages.len()));
    assert_eq!(port.inputs.len(), 0, "nobody else has told anything");
}

#[tokio::test]
async fn a_certificate_is_renewed_only_for_the_nodes_that_it_names() {
    let certificates = TestCertificates::new();
    let all: Vec<TestCertificate> = roles().iter().flat_map(|role| certificates.of(role)).collect();
    let port = Port::open(&certificates);
    until_expired(&all).await;
    for certificate in &all {
        let enrolled = port.enroll(&certificate.renewing(), SECRET).await;
        let names_it = certificate.credentials.identity().speaks_for(&NODE.to_string());
        match turned_away(certificate).or((!names_it).then_some("and not node")) {
            None => assert_eq!(enrolled, Ok(()), "{certificate}"),
            Some(why) => {
                let found = enrolled.expect_err("it is refused");
                assert!(found.contains(why), "{certificate}: {found}");
            }
        }
    }
}

#[tokio::test]
async fn a_certificate_without_the_secret_of_its_node_makes_no_other_one() {
    let certificates = TestCertificates::new();
    let port = Port::open(&certificates);
    for node in [Some(NODE), None] {
        let certificate = certificates.good(Role::Agent(node.map(|node| node.to_string())));
        for secret in [&b""[..], b"another"] {
            let why = port.enroll(&certificate.renewing(), secret).await.expect_err("anybody could have it");
            assert!(why.contains("the secret of node"), "{certificate}: {why}");
        }
        assert_eq!(port.enroll(&certificate.renewing(), SECRET).await, Ok(()));
    }
}

#[tokio::test]
async fn a_revoked_certificate_no_longer_speaks_for_its_node() {
    let certificates = TestCertificates::new();
    let [own, other, any] =
        [Some(NODE), Some(OTHER), None].map(|node| Role::Agent(node.map(|node| node.to_string())));
    let [own, other, any] = [own, other, any].map(|role| certificates.good(role));
    let mut port = Port::open(&certificates);
    let revoke = ChangeAcl::RevokeNode(NODE);
    let revoked = port.engine.apply(vec![Command::ChangeAcl(Box::new(revoke))]);
    assert_eq!(revoked.outcomes, [Ok(())]);
    for message in &messages() {
        for certificate in [&own, &any] {
            let outcome = port.say(certificate, message).await.expect("the port takes it in");
            let why = outcome.refused.unwrap_or_default();
            assert!(why.contains("was revoked"), "{certificate} says {message:?}: {why}");
            assert_eq!(outcome.effects, [], "{certificate} says {message:?}");
        }
    }
    for certificate in [&own, &any] {
        let why = port.enroll(&certificate.renewing(), SECRET).await.expect_err("it is revoked");
        assert!(why.contains("was revoked"), "{certificate}: {why}");
    }
    let outcome = port.say(&other, &Up::Heartbeat(Heartbeat::default())).await.expect("it is taken in");
    assert!(outcome.refused.expect("it is another's").contains("does not speak for node"));
}

#[tokio::test]
async fn a_connection_ends_with_the_certificate_that_was_shown_for_it_unless_a_newer_one_of_the_same_key_was()
{
    let certificates = TestCertificates::new();
    let role = |node: NodeId| Role::Agent(Some(node.to_string()));
    let mut port = Port::open(&certificates);
    let soon = certificates.one(&role(NODE), Fault::Expired);
    let (mut renews, alone) = (port.session(&soon).await, port.session(&soon).await);
    // Each of these is as good as any when a connection begins with it, or nothing at all.
    let others = [
        certificates.good(role(NODE)),
        certificates.renewed(&soon, &role(OTHER), Fault::Nothing),
        certificates.renewed(&soon, &role(NODE), Fault::OtherAuthority),
        certificates.renewed(&soon, &role(NODE), Fault::OtherRegion),
        certificates.renewed(&soon, &Role::Client, Fault::Nothing),
    ];
    let mut shows_others = Vec::new();
    for other in &others {
        let mut session = port.session(&soon).await;
        session.shows(other).await;
        shows_others.push(session);
    }
    renews.shows(&certificates.renewed(&soon, &role(NODE), Fault::Nothing)).await;
    until_expired(std::slice::from_ref(&soon)).await;
    for ended in [alone].into_iter().chain(shows_others) {
        let why = ended.ended().await;
        assert!(why.contains("has expired, and no newer one was shown"), "{why}");
    }
    // All others have ended by the same clock; this one goes on.
    port.inputs.try_iter().for_each(drop);
    renews.say(Up::Heartbeat(Heartbeat::default())).await;
    let received = async {
        while !matches!(port.inputs.try_recv(), Ok(EngineInput::Event(Event::Heartbeat(..), _))) {
            assert!(!renews.served.is_finished(), "it was ended");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, received).await.expect("it is heard");
    // What counts now is the new one: a revocation ends that, too.
    let revoked = port.engine.apply(vec![Command::ChangeAcl(Box::new(ChangeAcl::RevokeNode(NODE)))]);
    assert_eq!(revoked.outcomes, [Ok(())]);
    let why = renews.ended().await;
    assert!(why.contains("was revoked"), "{why}");
    port.of_tasks.close();
}
