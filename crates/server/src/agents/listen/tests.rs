//! The port for agents: which connections are accepted, and which are evicted for others.

use std::time::Duration;

use berth_api::agent::{Hello, PROTOCOL_VERSION, Up, UpFrame, encode_frame};
use berth_model::NodeId;
use berth_tls::{Connector, PortKind, RevokedServers, Role, Stream as Shaken};
use bytes::BytesMut;
use crossbeam_channel::{Receiver, unbounded};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    task::JoinHandle,
};

use super::*;
use crate::{
    net::{
        AddressLimit, RateExceeded,
        test_certificates::{REGION, TestCertificates},
    },
    workload::tests::cluster,
};

/// A port that listens, and what the controller hears.
struct Port {
    address: SocketAddr,
    inputs: Receiver<EngineInput>,
    _listening: JoinHandle<()>,
    _stop: watch::Sender<bool>,
}

impl Port {
    async fn open(certificates: &TestCertificates, limits: AgentLimits) -> Self {
        let secure = Secure::load(&certificates.of_server(), REGION, "s1", RevokedServers::default())
            .expect("it is good");
        let entrance = secure.entrance(PortKind::Agents);
        let (inputs_in, inputs) = unbounded();
        let context = ListenContext::new(inputs_in).with_limits(limits).with_state(cluster().state());
        let context = Arc::new(context.with_certificates(Some(secure)));
        let (stop, stopped) = watch::channel(false);
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 0, 0, 1], 0).into()).expect("a port is free");
        let listener = socket.listen(4_096).expect("it listens");
        let address = listener.local_addr().expect("it listens");
        Self {
            address,
            inputs,
            _listening: tokio::spawn(listen(listener, entrance, context, stopped)),
            _stop: stop,
        }
    }

    /// A connection from that address of loopback.
    async fn dial(&self, host: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.bind(([127, 1, 0, host], 0).into()).expect("an address");
        socket.connect(self.address).await.expect("connected")
    }

    /// A connection of a node's agent, which has said who it is.
    async fn agent(&self, host: u8, connector: Connector, node: u128) -> io::Result<Shaken> {
        let stream = self.dial(host).await;
        let mut shaken = connector.connect(stream, &self.address.to_string()).await?;
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            node_id: NodeId(node).to_bytes().to_vec(),
            secret: vec![7; 16],
            ..Hello::default()
        };
        let mut frame = BytesMut::new();
        encode_frame(&UpFrame { session: 1, message: Some(Up::Hello(hello)) }, &mut frame);
        shaken.write_all(&frame).await?;
        shaken.flush().await?;
        Ok(shaken)
    }

    /// Waits until so many sessions were opened.
    async fn opened(&self, count: usize) {
        let mut opened = 0;
        while opened < count {
            match self.inputs.try_recv() {
                Ok(EngineInput::Open { .. }) => opened += 1,
                Ok(_) => panic!("an agent was sent away"),
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    }
}

/// Room for 400 agents, 300 of them of one address, which begins 150 a second.
fn limits() -> AgentLimits {
    AgentLimits { connections_max: 400, connections_share: AddressLimit::equal(300), begun_a_second: 150 }
}

#[tokio::test]
async fn all_agents_that_an_address_may_have_come_in_at_once_and_none_is_refused() {
    let certificates = TestCertificates::new();
    let port = Port::open(&certificates, limits()).await;
    let shown = certificates.good(Role::Agent(None));
    // Twice as many as may begin in a second, all at once, and some of another address.
    let agents = (0..300).map(|number| port.agent(1, shown.connector(), number + 1));
    let others = (0..50).map(|number| port.agent(2, shown.connector(), number + 1_001));
    let (agents, others) =
        tokio::join!(futures_util::future::join_all(agents), futures_util::future::join_all(others));
    let kept: Vec<_> = agents.into_iter().chain(others).map(|one| one.expect("it is not refused")).collect();
    port.opened(kept.len()).await;
}

#[tokio::test]
async fn silent_strangers_keep_no_agent_out_not_even_of_their_own_address() {
    let certificates = TestCertificates::new();
    let small = AgentLimits { connections_max: 8, connections_share: AddressLimit::equal(6), ..limits() };
    let port = Port::open(&certificates, small).await;
    let mut strangers = Vec::new();
    for host in 1..=4 {
        for _ in 0..50 {
            strangers.push(port.dial(host).await);
        }
    }
    let shown = certificates.good(Role::Agent(None));
    let own = port.agent(1, shown.connector(), 1).await.expect("it comes in");
    let other = port.agent(9, shown.connector(), 2).await.expect("it comes in");
    port.opened(2).await;
    // Those who came first were let go of.
    for stranger in &mut strangers[..100] {
        assert!(!matches!(stranger.read(&mut [0]).await, Ok(1..)), "nothing is said to them");
    }
    drop((own, other));
}

#[tokio::test]
async fn strangers_of_two_addresses_that_say_one_byte_do_not_keep_an_agent_of_a_third_out() {
    let certificates = TestCertificates::new();
    let small = AgentLimits { connections_max: 8, connections_share: AddressLimit::equal(6), ..limits() };
    let port = Port::open(&certificates, small).await;
    let shown = certificates.good(Role::Agent(None));
    let mut strangers = Vec::new();
    for host in [1, 2] {
        for _ in 0..20 {
            let mut stranger = port.dial(host).await;
            // The port may have hung up by now.
            let _ = stranger.write_all(&[22]).await;
            strangers.push(stranger);
        }
    }
    let agent = port.agent(9, shown.connector(), 1).await.expect("it comes in");
    port.opened(1).await;
    drop((strangers, agent));
}

#[tokio::test]
async fn one_that_hung_up_while_it_waited_is_known_by_it_though_it_has_said_something() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let mut dialed = TcpStream::connect(listener.local_addr().expect("it listens")).await.expect("connected");
    let (accepted, _) = listener.accept().await.expect("somebody comes");
    dialed.write_all(&[22]).await.expect("it is sent");
    accepted.readable().await.expect("it is there");
    assert!(!has_hung_up(&accepted));
    drop(dialed);
    while !has_hung_up(&accepted) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn an_address_that_begins_too_much_waits_and_is_refused_by_the_name_of_the_limit() {
    let (inputs, _inputs) = crossbeam_channel::bounded(1);
    let limits = AgentLimits { begun_a_second: 10, ..AgentLimits::default() };
    let context = ListenContext::new(inputs).with_limits(limits);
    let (own, strange) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from([10, 0, 0, 1]));
    for _ in 0..999 {
        assert!(context.may_begin_a_session(own).await.is_ok(), "this machine may begin any number");
    }
    for _ in 0..25 {
        assert!(context.may_begin_a_session(strange).await.is_ok(), "it waits for its turn");
    }
    let never = StartRate { per_second: 10, begin: || Err(RateExceeded) };
    let mut waits = std::pin::pin!(context.sessions_queue.begin(strange, never));
    assert!(futures_util::poll!(&mut waits).is_pending());
    let refused = context.too_slow("connections", QUEUE_WAIT_MAX);
    assert!(
        refused.contains("it has waited in line for 20 s, of which 10 may begin a second; have the operator raise --agent-rate-address"),
        "{refused}"
    );
}

#[test]
fn ten_thousand_agents_behind_one_address_have_room() {
    let AgentLimits { connections_share, begun_a_second, .. } = AgentLimits::default();
    assert!(connections_share.of(IpAddr::from([10, 0, 0, 1])) >= 10_000);
    assert!(begun_a_second * 20 >= 2 * 10_000, "each may come twice");
    let in_time = |wait: Duration| u64::from(begun_a_second) * wait.as_secs() >= 10_000;
    assert!(in_time(QUEUE_WAIT_MAX) && in_time(BEGIN_WAIT_MAX), "none waits for too long");
}

#[tokio::test]
async fn a_connection_that_waits_takes_little() {
    let (inputs, _inputs) = crossbeam_channel::bounded(1);
    let (context, slots) = (Arc::new(ListenContext::new(inputs)), AgentSlots::new(AgentLimits::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let stream = TcpStream::connect(listener.local_addr().expect("it listens")).await.expect("connected");
    let peer: SocketAddr = ([10, 0, 0, 1], 1).into();
    let waiting = slots.connect(peer.ip()).expect("there is room");
    let entrance = PortAcceptor::open();
    let bytes = size_of_val(&serve(stream, peer, &entrance, waiting, &slots, &context));
    assert!(bytes <= 1_536, "{bytes} bytes");
}

#[tokio::test]
async fn http_on_the_port_for_agents_is_answered_in_http_and_names_the_other_port() {
    let certificates = TestCertificates::new();
    let port = Port::open(&certificates, limits()).await;
    let mut stream = port.dial(1).await;
    stream.write_all(b"GET /v1/jobs HTTP/1.1\r\nhost: berth\r\n\r\n").await.expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the answer is not cut off");
    let (head, text) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 421 "), "{head}");
    assert!(head.contains(&format!("content-length: {}", text.len())), "{head}");
    assert!(text.contains("--http-addr"), "{text}");
}
