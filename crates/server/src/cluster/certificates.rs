//! Tests each kind of certificate at the servers' port with each request, and which server it is accepted as.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use berth_model::{KekId, NodeId};
use berth_replication::peer::{Dial, PeerAddress, PeerChannel, PeerIdentity, Peers, RequestError, Service};
use berth_tls::{Connector, Role};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::{net::TcpStream, sync::mpsc};

use super::{
    agents::RelayedRequest,
    keys::KekBytes,
    wire::{self, FoundingPeers, JoinRequest, KnownServer, MembershipChange, PeerAnswer, PeerRequest},
};
use crate::{
    Server,
    net::{
        NetStream,
        test_certificates::{Fault, TestCertificate, TestCertificates, server, until_expired},
    },
    peers::{self, channel},
};

/// The id of a server that is no member.
const STRANGER: u64 = 99;
/// Of the server that founds a cluster.
const FOUNDER: u64 = 1;
const PATIENCE: Duration = Duration::from_secs(30);

/// Which servers with a valid certificate may make a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AllowedCallers {
    /// Members of the cluster.
    Members,
    /// Whoever wants to become one.
    Anybody,
}

/// Whoever adds a request says here who may ask, and adds it to [`requests`].
fn allowed_callers(request: &PeerRequest) -> AllowedCallers {
    match request {
        PeerRequest::Propose(_)
        | PeerRequest::ReadPosition
        | PeerRequest::Change(_)
        | PeerRequest::Agent(_)
        | PeerRequest::Kek(_)
        | PeerRequest::HoldKek(_)
        | PeerRequest::Stopping => AllowedCallers::Members,
        PeerRequest::Join(_) | PeerRequest::Meet(_) | PeerRequest::Agree(_) | PeerRequest::Ping => {
            AllowedCallers::Anybody
        }
    }
}

/// One of each. The server that asks to join is not the one that sends it.
fn requests() -> Vec<PeerRequest> {
    let peer = berth_replication::Peer {
        address: "127.0.0.1:1".to_owned(),
        name: "thief".to_owned(),
        http: "127.0.0.1:1".to_owned(),
        agent: "127.0.0.1:1".to_owned(),
    };
    vec![
        PeerRequest::Join(JoinRequest { id: STRANGER + 1, peer: peer.clone(), member: false }),
        PeerRequest::Propose(wire::encode_commands(Vec::new())),
        PeerRequest::ReadPosition,
        PeerRequest::Change(MembershipChange::Remove(FOUNDER)),
        PeerRequest::Meet(FoundingPeers { expect: 3, known: vec![KnownServer { id: STRANGER, peer }] }),
        PeerRequest::Agree(vec![STRANGER]),
        PeerRequest::Ping,
        PeerRequest::Agent(RelayedRequest::Find(NodeId(1))),
        PeerRequest::Kek(KekId(1)),
        PeerRequest::HoldKek(KekBytes::new(vec![1; 32])),
        PeerRequest::Stopping,
    ]
}

/// Dials with a certificate.
struct TestDial(Arc<Connector>);

impl Dial for TestDial {
    fn dial(&self, to: &PeerAddress) -> BoxFuture<'static, io::Result<PeerChannel>> {
        let (connector, to) = (self.0.clone(), to.0.clone());
        Box::pin(async move {
            let address: SocketAddr = to.parse().map_err(io::Error::other)?;
            let stream = connector.connect(TcpStream::connect(address).await?, &to).await?;
            channel(NetStream::dialed(stream, address), &peers::PeerCertificates::new(None))
        })
    }
}

/// Refuses all requests, and notes that there was one.
struct NoService(mpsc::UnboundedSender<()>);

impl Service for NoService {
    fn request(&self, _: PeerIdentity, _: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let _ = self.0.send(());
        Box::pin(std::future::ready(Err("nobody asks this one".to_owned())))
    }

    fn message(&self, _: PeerIdentity, _: Bytes) {
        let _ = self.0.send(());
    }
}

/// What a server answers to a caller that shows this certificate and introduces itself as server `id`.
async fn ask(
    to: &Server,
    certificate: &TestCertificate,
    id: u64,
    request: &PeerRequest,
) -> Result<PeerAnswer, RequestError> {
    let (sender, mut received) = mpsc::unbounded_channel();
    let peers: Peers =
        Peers::new(id, Arc::new(TestDial(Arc::new(certificate.connector()))), Arc::new(NoService(sender)));
    let address = PeerAddress(to.server_addr().to_string());
    let answer: Bytes = peers.request_of_stranger(&address, &wire::encode(request), PATIENCE).await?;
    assert!(received.try_recv().is_err(), "the server asks nothing of who asks it");
    Ok(wire::decode(&answer).expect("it is understood"))
}

fn refusal(answer: Result<PeerAnswer, RequestError>) -> String {
    match answer {
        Ok(PeerAnswer::Refused(why)) | Err(RequestError::Refused(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_take_requests_from_servers_alone_and_most_from_members_alone() {
    let certificates = TestCertificates::new();
    let roles =
        [Role::Server(None), Role::Agent(Some(NodeId(7).to_string())), Role::Agent(None), Role::Client];
    let all: Vec<TestCertificate> = roles.iter().flat_map(|role| certificates.of(role)).collect();
    let running = server(&certificates, "s1", &[]).await;
    until_expired(&all).await;
    for certificate in &all {
        for request in &requests() {
            let row = format!("{certificate} asks {request:?}");
            // A new one has no id in the cluster; a thief may have heard that of a member.
            let answer = ask(&running, certificate, STRANGER, request).await;
            let is_valid = certificate.role == Role::Server(None) && certificate.fault == Fault::Nothing;
            if !is_valid {
                // Whether what it has sent was read it cannot know; that is why all of it is asked once.
                assert!(
                    matches!(&answer, Err(RequestError::NotSent(_) | RequestError::Unknown(_))),
                    "{row}: {answer:?}"
                );
                continue;
            }
            match allowed_callers(request) {
                AllowedCallers::Members => {
                    let why = refusal(answer);
                    assert!(why.contains("server 99 is not of this cluster"), "{row}: {why}");
                }
                AllowedCallers::Anybody => match (request, answer) {
                    (PeerRequest::Join(_), answer) => {
                        let why = refusal(answer);
                        assert!(why.contains("server 99 asks for server 100"), "{row}: {why}");
                    }
                    (PeerRequest::Ping, Ok(PeerAnswer::Here(pulse))) => {
                        assert_eq!(pulse.knows_you, Some(false), "{row}");
                    }
                    (_, answer) => assert!(matches!(answer, Ok(PeerAnswer::Taken)), "{row}: {answer:?}"),
                },
            }
        }
    }
    running.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_server_certificate_may_introduce_itself_as_a_server_id() {
    let certificates = TestCertificates::new();
    let founder = server(&certificates, "s1", &[]).await;
    let own = certificates.good(Role::Server(None));
    let why = ask(&founder, &own, FOUNDER, &PeerRequest::ReadPosition).await.expect_err("that is its own");
    assert!(why.to_string().contains("same id"), "{why}");
    let second = server(&certificates, "s2", &[founder.server_addr().to_string()]).await;
    let second_has_joined = async {
        // It knows who the others are once it has heard of the cluster.
        while !matches!(
            ask(&second, &own, FOUNDER, &PeerRequest::Kek(KekId(1))).await,
            Ok(PeerAnswer::Kek(None))
        ) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, second_has_joined).await.expect("certificates of servers name no server");
    for role in [Role::Agent(None), Role::Client] {
        let request = ask(&second, &certificates.good(role), FOUNDER, &PeerRequest::Kek(KekId(1))).await;
        assert!(matches!(request, Err(RequestError::NotSent(_) | RequestError::Unknown(_))), "{request:?}");
    }
    Server::shutdown_all(vec![founder, second]).await;
}

/// It may have been gone before it had learned that it was of the cluster at all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_removed_hears_so_and_is_not_taken_in_again() {
    let certificates = TestCertificates::new();
    let (founder, own) = (server(&certificates, "s1", &[]).await, certificates.good(Role::Server(None)));
    let address = "127.0.0.1:1".to_owned();
    let peer = berth_replication::Peer { address, name: "s9".to_owned(), ..Default::default() };
    let join = PeerRequest::Join(JoinRequest { id: STRANGER, peer, member: false });
    let ask = async |request: &PeerRequest| ask(&founder, &own, STRANGER, request).await;
    let knows_it = async || match ask(&PeerRequest::Ping).await {
        Ok(PeerAnswer::Here(pulse)) => pulse.knows_you,
        other => panic!("{other:?}"),
    };
    assert!(matches!(ask(&join).await, Ok(PeerAnswer::Done)));
    assert_eq!(knows_it().await, Some(true));
    // With a vote nobody would be heard who could answer with it, for ever.
    let why = refusal(ask(&PeerRequest::Change(MembershipChange::Promote(STRANGER))).await);
    assert!(why.contains("99 s9 has received nothing of the log yet at 127.0.0.1:1"), "{why}");
    assert!(matches!(
        ask(&PeerRequest::Change(MembershipChange::Remove(STRANGER))).await,
        Ok(PeerAnswer::Done)
    ));
    assert_eq!(knows_it().await, Some(false));
    let why = refusal(ask(&join).await);
    assert!(why.contains("server 99 was removed from this cluster"), "{why}");
    founder.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_between_servers_ends_with_the_certificate_that_was_shown_for_it() {
    let certificates = TestCertificates::new();
    let founder = server(&certificates, "s1", &[]).await;
    let (sender, _requests) = mpsc::unbounded_channel();
    let (expiring, good) =
        (certificates.one(&Role::Server(None), Fault::Expired), certificates.good(Role::Server(None)));
    let peers = |certificate: &TestCertificate, id| -> Peers {
        Peers::new(
            id,
            Arc::new(TestDial(Arc::new(certificate.connector()))),
            Arc::new(NoService(sender.clone())),
        )
    };
    let (expires, lasts) = (peers(&expiring, STRANGER), peers(&good, STRANGER + 1));
    let address = PeerAddress(founder.server_addr().to_string());
    // Whoever asks twice has one connection for it.
    let ask = async |peers: &Peers| {
        peers.request(FOUNDER, &address, &wire::encode(&PeerRequest::Ping), PATIENCE).await
    };
    assert!(ask(&expires).await.is_ok() && ask(&lasts).await.is_ok(), "both are good still");
    until_expired(&[expiring]).await;
    let connection_ended = async {
        while ask(&expires).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, connection_ended).await.expect("it is ended, and no other is opened");
    assert!(ask(&lasts).await.is_ok());
    founder.shutdown().await;
}
