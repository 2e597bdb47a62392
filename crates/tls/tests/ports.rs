//! Who comes in where: certificates of each role at each kind of port, and certificates that nobody should take.

use std::{net::SocketAddr, path::Path};

use berth_tls::{
    Accepted, Acceptor, Authority, CertificateRequest, Certified, ClientFiles, ClientTls, Connector,
    ExpectedPeer, PortKind, RevokedServers, Role, TlsCredentials, TlsError, TlsFiles, Validity, explain,
    now_secs, replace_file, write_new,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const DAY: u64 = 86_400;
const REGION: &str = "global";

fn around_now() -> Validity {
    Validity { not_before: now_secs() - DAY, not_after: now_secs() + DAY }
}

/// An authority in a directory of its own.
struct Cluster {
    authority: Authority,
    dir: tempfile::TempDir,
}

impl Cluster {
    fn new() -> Self {
        let (authority, key) = Authority::make(REGION, around_now()).expect("it is made");
        let dir = tempfile::tempdir().expect("a directory");
        write_new(&dir.path().join("ca.pem"), &authority.pem()).expect("it is written");
        write_new(&dir.path().join("ca-key.pem"), &key).expect("it is written");
        Self { authority, dir }
    }

    fn certify(&self, role: Role, region: &str, validity: Validity) -> Certified {
        let request = CertificateRequest { role, region: region.into(), hosts: Vec::new(), validity };
        self.authority.certify(&request).expect("it is signed")
    }

    fn files(&self, name: &str, certified: &Certified) -> TlsFiles {
        let path = |name: String| self.dir.path().join(name);
        let files = TlsFiles {
            ca: path("ca.pem".into()),
            cert: path(format!("{name}.pem")),
            key: path(format!("{name}-key.pem")),
        };
        replace_file(&files.cert, &certified.certificate).expect("it is written");
        replace_file(&files.key, &certified.key).expect("it is written");
        files
    }

    fn load(&self, certified: &Certified) -> Result<TlsCredentials, TlsError> {
        TlsCredentials::load(&self.files("one", certified))
    }

    fn credentials_of(&self, role: Role) -> TlsCredentials {
        self.load(&self.certify(role, REGION, around_now())).expect("it is good")
    }
}

fn agent(node: &str) -> Role {
    Role::Agent(Some(node.to_owned()))
}

/// A server that answers one byte to whoever came in, and tells who that was.
async fn meet(acceptor: &Acceptor, kind: PortKind, connector: &Connector) -> Result<Option<String>, String> {
    let (response, taken) = both_of(acceptor, kind, connector).await;
    response.and(taken)
}

/// The same, as each side sees it: who asked, and who was asked.
async fn both_of(
    acceptor: &Acceptor,
    kind: PortKind,
    connector: &Connector,
) -> (Result<(), String>, Result<Option<String>, String>) {
    let (listener, address) = listen().await;
    let acceptor = acceptor.clone();
    let accepting = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("somebody comes");
        let Accepted { mut stream, peer, .. } = acceptor
            .accept(kind, stream)
            .await
            .map_err(|refused| explain(&refused.error).unwrap_or_else(|| refused.error.to_string()))?;
        stream.write_all(b"!").await.map_err(|error| error.to_string())?;
        let _ = stream.shutdown().await;
        Ok::<_, String>(peer.map(|peer| peer.identity.to_string()))
    });
    let response = async {
        let stream = TcpStream::connect(address).await?;
        let mut stream = connector.connect(stream, &address.to_string()).await?;
        stream.read_exact(&mut [0]).await
    };
    let response = response.await;
    let accepting = accepting.await.expect("it does not panic");
    let response = response.map(drop).map_err(|error| explain(&error).unwrap_or_else(|| error.to_string()));
    (response, accepting)
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    (listener, address)
}

fn connector(credentials: &TlsCredentials) -> Connector {
    Connector::new(credentials, ExpectedPeer::Server(REGION.into()), &RevokedServers::default())
        .expect("it is made")
}

#[tokio::test]
async fn each_role_comes_in_where_it_has_business() {
    let cluster = Cluster::new();
    let acceptor =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &RevokedServers::default())
            .expect("it is made");
    let roles = [
        ("server", Role::Server(None)),
        ("agent", agent("n1")),
        ("any agent", Role::Agent(None)),
        ("client", Role::Client),
    ];
    let ports = [PortKind::Http, PortKind::HttpVerified, PortKind::Agents, PortKind::Servers];
    for (name, role) in roles {
        let connector = connector(&cluster.credentials_of(role));
        for port in ports {
            let business = match port {
                PortKind::Agents => name.contains("agent"),
                PortKind::Servers => name == "server",
                _ => true,
            };
            let met = meet(&acceptor, port, &connector).await;
            match met {
                Ok(peer) => assert!(business && peer.is_some(), "{name} at {port:?}: {peer:?}"),
                Err(why) => {
                    assert!(!business && why.contains("has no business"), "{name} at {port:?}: {why}")
                }
            }
        }
    }
}

/// Of the servers, one was revoked; each certificate that there may be of the two, at each port, whichever side shows it.
#[tokio::test]
async fn a_revoked_server_comes_in_nowhere_and_is_believed_nowhere() {
    let cluster = Cluster::new();
    let (revoked, at) = (RevokedServers::default(), now_secs());
    let credentials_of = |name: Option<&str>, not_before| {
        let validity = Validity { not_before, not_after: at + DAY };
        let role = Role::Server(name.map(str::to_owned));
        cluster.load(&cluster.certify(role, REGION, validity)).expect("it is good")
    };
    let certificates = [
        ("revoked", credentials_of(Some("S1"), at - DAY), true),
        ("revoked in that second", credentials_of(Some("s1"), at - 60), true),
        ("new", credentials_of(Some("s1"), at - 59), false),
        ("another", credentials_of(Some("s2"), at - DAY), false),
        ("of any", credentials_of(None, at - DAY), false),
    ];
    let guarded =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &revoked).expect("it is made");
    let guard = |role| {
        let expected = ExpectedPeer::Server(REGION.into());
        Connector::new(&cluster.credentials_of(role), expected, &revoked).expect("it is made")
    };
    let dialing = [(PortKind::Agents, guard(agent("n1"))), (PortKind::Servers, guard(Role::Server(None)))];
    for is_said in [false, true] {
        if is_said {
            revoked.add([("s1".to_owned(), at - 60)]);
        }
        for (name, credentials, is_revoked) in &certificates {
            let refused = is_said && *is_revoked;
            for port in [PortKind::Http, PortKind::HttpVerified, PortKind::Servers] {
                let (response, taken) = both_of(&guarded, port, &connector(credentials)).await;
                assert_eq!(
                    (response.is_err(), taken.is_err()),
                    (refused, refused),
                    "{name} at {port:?}: {response:?}"
                );
                let why = taken.err().unwrap_or_else(|| "the certificates of server s1 were revoked".into());
                assert!(why.to_lowercase().contains("the certificates of server s1 were revoked"), "{why}");
                assert!(response.err().is_none_or(|why| why.contains("or that it was revoked")), "{name}");
            }
            let shows = Acceptor::new(credentials, REGION, &RevokedServers::default()).expect("it is made");
            for (port, connector) in &dialing {
                let (response, _) = both_of(&shows, *port, connector).await;
                assert_eq!(response.is_err(), refused, "{name} is dialed at {port:?}: {response:?}");
                assert!(
                    response.err().is_none_or(|why| why.contains("were revoked: it needs a new one")),
                    "{name}"
                );
            }
        }
    }
    // Who joins knows the authority alone, and whom it was told of before.
    let fingerprint = berth_tls::fingerprint(cluster.authority.certificate());
    for (revoked, is_believed) in [(&revoked, false), (&RevokedServers::default(), true)] {
        let joining = Connector::joining(fingerprint, revoked).expect("it is made");
        let shows =
            Acceptor::new(&certificates[0].1, REGION, &RevokedServers::default()).expect("it is made");
        assert_eq!(meet(&shows, PortKind::Agents, &joining).await.is_ok(), is_believed);
    }
}

/// On either side: what was shown when the session began is looked at when it is taken up again.
#[tokio::test]
async fn a_session_of_a_revoked_server_is_not_resumed() {
    let cluster = Cluster::new();
    let named = || cluster.credentials_of(Role::Server(Some("s1".into())));
    let none = RevokedServers::default;
    let expected = || ExpectedPeer::Server(REGION.into());
    let (told_here, told_there) = (none(), none());
    let here =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &told_here).expect("it is made");
    let revoked_comes = connector(&named());
    let there = Acceptor::new(&named(), REGION, &none()).expect("it is made");
    let other = Role::Server(None);
    let goes_to_revoked =
        Connector::new(&cluster.credentials_of(other), expected(), &told_there).expect("it is made");
    for (acceptor, connector) in [(&here, &revoked_comes), (&there, &goes_to_revoked)] {
        assert_eq!(resumes_at(PortKind::Servers, acceptor, connector).await, (Ok(false), true));
        assert_eq!(resumes_at(PortKind::Servers, acceptor, connector).await, (Ok(true), true));
    }
    [told_here, told_there]
        .iter()
        .for_each(|response| assert!(response.add([("s1".to_owned(), now_secs())])));
    let (taken, _) = resumes_at(PortKind::Servers, &here, &revoked_comes).await;
    assert!(taken.expect_err("it was revoked").contains("CertificateRevoked"));
    let (_, believed) = resumes_at(PortKind::Servers, &there, &goes_to_revoked).await;
    assert!(!believed, "the server that was dialed was revoked");
}

#[tokio::test]
async fn another_region_has_no_business_here() {
    let cluster = Cluster::new();
    let acceptor =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &RevokedServers::default())
            .expect("it is made");
    let other = cluster.load(&cluster.certify(Role::Server(None), "eu", around_now())).expect("it is good");
    let why = meet(&acceptor, PortKind::Servers, &connector(&other)).await.expect_err("it is of eu");
    assert!(why.contains("has no business"), "{why}");
    let theirs = Connector::new(&other, ExpectedPeer::Server("eu".into()), &RevokedServers::default())
        .expect("it is made");
    let why = meet(&acceptor, PortKind::Http, &theirs).await.expect_err("the server is of global");
    assert!(why.contains("it must name a server of region eu"), "{why}");
}

#[tokio::test]
async fn who_is_no_server_is_not_believed_to_be_one() {
    let cluster = Cluster::new();
    // An agent's certificate may not even be used to answer.
    let posing = Acceptor::new(&cluster.credentials_of(agent("n1")), REGION, &RevokedServers::default())
        .expect("it is made");
    let why = meet(&posing, PortKind::Servers, &connector(&cluster.credentials_of(Role::Server(None))))
        .await
        .expect_err("it poses");
    assert!(why.contains("the certificate of the other side"), "{why}");
}

#[tokio::test]
async fn without_a_certificate_only_http_is_open() {
    let cluster = Cluster::new();
    let acceptor =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &RevokedServers::default())
            .expect("it is made");
    let fingerprint = berth_tls::fingerprint(cluster.authority.certificate());
    let anonymous = Connector::joining(fingerprint, &RevokedServers::default()).expect("it is made");
    // It asks to join, which only the port for agents answers.
    assert_eq!(meet(&acceptor, PortKind::Agents, &anonymous).await, Ok(None));
    for port in [PortKind::HttpVerified, PortKind::Servers] {
        assert!(meet(&acceptor, port, &anonymous).await.is_err(), "{port:?}");
    }
    let config = ClientTls::load(&ClientFiles {
        ca: Some(&cluster.dir.path().join("ca.pem")),
        ..ClientFiles::default()
    })
    .expect("it is read");
    for (port, open) in [(PortKind::Http, true), (PortKind::Agents, false), (PortKind::Servers, false)] {
        let (listener, address) = listen().await;
        let acceptor = acceptor.clone();
        let accepting = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.expect("somebody comes");
            acceptor.accept(port, stream).await.is_ok()
        });
        let stream = TcpStream::connect(address).await.expect("it listens");
        let _stream = config.connect(stream, "localhost:1").await;
        assert_eq!(accepting.await.expect("it does not panic"), open, "{port:?}");
    }
}

#[tokio::test]
async fn a_join_token_of_another_cluster_is_found_out() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    let acceptor =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &RevokedServers::default())
            .expect("it is made");
    let joining =
        Connector::joining(berth_tls::fingerprint(other.authority.certificate()), &RevokedServers::default())
            .expect("it is made");
    let why = meet(&acceptor, PortKind::Agents, &joining).await.expect_err("it is another's");
    assert!(why.contains("not the one that the join token names"), "{why}");
}

#[tokio::test]
async fn a_wrong_clock_is_distinguished_from_a_wrong_authority() {
    let (cluster, other) = (Cluster::new(), Cluster::new());
    let acceptor =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &RevokedServers::default())
            .expect("it is made");
    let strange = connector(&other.credentials_of(Role::Server(None)));
    let why = meet(&acceptor, PortKind::Servers, &strange).await.expect_err("it is another's");
    assert!(why.contains("none of the authorities that this side believes"), "{why}");

    let now = now_secs();
    let at = |not_before, not_after| {
        cluster.certify(Role::Server(None), REGION, Validity { not_before, not_after })
    };
    let expired = cluster.load(&at(now - 2 * DAY, now - DAY)).expect_err("it has expired").to_string();
    assert!(expired.contains("one.pem expired 1d ago") && expired.contains("clock says"), "{expired}");
    // An hour more, so that it is not a second less by the time that it is loaded.
    let soon = now + 2 * DAY + 3600;
    let early = cluster.load(&at(soon, now + 3 * DAY)).expect_err("it is of the future").to_string();
    assert!(early.contains("is valid only in 2d") && early.contains("one of the clocks is wrong"), "{early}");
    let foreign =
        cluster.load(&other.certify(Role::Server(None), REGION, around_now())).expect_err("it is another's");
    assert!(foreign.to_string().contains("signed by no authority that is in the CA file"), "{foreign}");
}

/// Nobody looks at a certificate again that was good when it was read: the other side does.
#[tokio::test]
async fn a_certificate_that_expires_in_use_is_named_on_both_sides() {
    const LASTS_S: u64 = 5;
    let cluster = Cluster::new();
    let now = now_secs();
    let soon = Validity { not_before: now - DAY, not_after: now + LASTS_S };
    let [server, client] = [Role::Server(None), agent("n1")]
        .map(|role| cluster.load(&cluster.certify(role, REGION, soon)).expect("it is good"));
    while now_secs() <= soon.not_after {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let good = |role| cluster.credentials_of(role);
    let acceptor = |credentials: &TlsCredentials| {
        Acceptor::new(credentials, REGION, &RevokedServers::default()).expect("it is made")
    };
    let expired = "the certificate of the other side expired";
    let alert =
        "the other side says that the certificate of this side is not valid at its time: it has expired";
    for (acceptor, connector, asks, is_asked) in [
        (acceptor(&good(Role::Server(None))), connector(&client), alert, expired),
        (acceptor(&server), connector(&good(agent("n1"))), expired, alert),
    ] {
        let (response, taken) = both_of(&acceptor, PortKind::Agents, &connector).await;
        let (response, taken) = (response.expect_err("it has expired"), taken.expect_err("it has expired"));
        assert!(response.starts_with(asks) && taken.starts_with(is_asked), "{response}; {taken}");
        let clock = "this machine's clock says";
        assert!(response.contains(clock) || taken.contains(clock), "{response}; {taken}");
    }
}

#[test]
fn a_key_of_another_certificate_is_named() {
    let cluster = Cluster::new();
    let [one, two] = [(); 2].map(|()| cluster.certify(Role::Server(None), REGION, around_now()));
    let mixed = Certified { key: two.key, ..one };
    let why = cluster.load(&mixed).expect_err("the key is another's").to_string();
    assert!(why.contains("one-key.pem: it is not the key of the certificate in"), "{why}");
    let none = cluster.load(&Certified { certificate: "nothing".into(), ..mixed }).expect_err("it is empty");
    assert!(none.to_string().contains("one.pem: it holds no certificate"), "{none}");
}

#[test]
fn an_authority_is_found_by_its_key_and_signs_again() {
    let cluster = Cluster::new();
    let path = |name: &str| cluster.dir.path().join(name);
    let other = Cluster::new();
    // Two authorities in one file, as while one takes the place of the other.
    replace_file(&path("ca.pem"), &(other.authority.pem() + &cluster.authority.pem()))
        .expect("it is written");
    let loaded = Authority::load(&path("ca.pem"), &path("ca-key.pem")).expect("its key is one of theirs");
    assert_eq!(loaded.certificate(), cluster.authority.certificate());
    let request = CertificateRequest {
        role: Role::Server(None),
        region: REGION.into(),
        hosts: Vec::new(),
        validity: around_now(),
    };
    assert!(cluster.load(&loaded.certify(&request).expect("it is signed")).is_ok());
    let why = Authority::load(&path("ca.pem"), Path::new("/dev/null")).err().expect("there is no key");
    assert!(why.to_string().contains("/dev/null"), "{why}");
}

/// Whether a session was taken up again at the port for agents; an error where the server wants none of it.
async fn resumes(acceptor: &Acceptor, connector: &Connector) -> Result<bool, String> {
    resumes_at(PortKind::Agents, acceptor, connector).await.0
}

/// The same at a port, and whether the one who came believed the server.
async fn resumes_at(
    port: PortKind,
    acceptor: &Acceptor,
    connector: &Connector,
) -> (Result<bool, String>, bool) {
    let (listener, address) = listen().await;
    let acceptor = acceptor.clone();
    let accepting = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("somebody comes");
        let accepted = acceptor.accept(port, stream).await;
        let mut stream = accepted.map_err(|refused| refused.error.to_string())?.stream;
        stream.write_all(b"!").await.map_err(|error| error.to_string())?;
        let kind = stream.get_ref().1.handshake_kind();
        Ok::<_, String>(format!("{kind:?}").contains("Resumed"))
    });
    let stream = TcpStream::connect(address).await.expect("it listens");
    // Sessions are kept by the name that was dialed. The byte comes after the tickets.
    let mut is_resumed = None;
    if let Ok(mut stream) = connector.connect(stream, "server:1").await {
        let _ = stream.read_exact(&mut [0]).await;
        is_resumed = Some(stream.is_resumed());
    }
    let accepting = accepting.await.expect("it does not panic");
    assert!(
        is_resumed.is_none() || accepting.is_err() || accepting.as_ref().ok() == is_resumed.as_ref(),
        "both sides say the same: {accepting:?}, {is_resumed:?}"
    );
    (accepting, is_resumed.is_some())
}

#[tokio::test]
async fn a_session_that_is_resumed_is_checked_again() {
    let (cluster, next) = (Cluster::new(), Cluster::new());
    let acceptor =
        Acceptor::new(&cluster.credentials_of(Role::Server(None)), REGION, &RevokedServers::default())
            .expect("it is made");
    let coming = connector(&cluster.credentials_of(agent("n1")));
    assert_eq!(resumes(&acceptor, &coming).await, Ok(false));
    assert_eq!(resumes(&acceptor, &coming).await, Ok(true));
    let sibling = coming.sibling();
    assert_eq!(resumes(&acceptor, &sibling).await, Ok(false), "it takes up its own sessions only");
    assert_eq!(resumes(&acceptor, &sibling).await, Ok(true));
    acceptor.replace(&cluster.credentials_of(Role::Server(None))).expect("it is good");
    assert_eq!(resumes(&acceptor, &coming).await, Ok(true), "tickets outlive a new certificate");
    // The server believes another authority from now on.
    acceptor.replace(&next.credentials_of(Role::Server(None))).expect("it is good");
    let why = resumes(&acceptor, &coming).await.expect_err("its authority is believed no more");
    assert!(why.contains("UnknownIssuer"), "{why}");
}
