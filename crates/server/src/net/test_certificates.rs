//! Valid and invalid certificates of every kind, for tests of what each of them is accepted for.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use berth_api::LogFeed;
use berth_tls::{
    Authority, CertificateRequest, Connector, ExpectedPeer, Key, RevokedServers, Role, TlsCredentials,
    TlsFiles, Validity, now_secs, replace_file,
};
use tempfile::TempDir;

use super::TlsConfig;
use crate::{
    AgentLimits, HostState, LOG_VERSIONS, PlannersConfig, Server, ServerConfig, audit::AuditConfig,
    http::Limits, shared::MetricsNames,
};

/// The region of the servers that certificates are shown to.
pub(crate) const REGION: &str = "global";
/// How long one lasts that is to expire: it must be good when it is read.
const LASTS_S: u64 = 4;
const HOUR_S: u64 = 3_600;
/// From when on certificates are valid: before the first entry of a test's engine, so that they can be revoked there.
const LONG_AGO: u64 = 1_600_000_000;

/// What is wrong with a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    Expired,
    OtherAuthority,
    OtherRegion,
}

/// A certificate that is shown.
pub(crate) struct TestCertificate {
    pub role: Role,
    pub fault: Fault,
    pub credentials: TlsCredentials,
    pub files: TlsFiles,
    expires: u64,
}

impl fmt::Display for TestCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} with {:?} wrong", self.role, self.fault)
    }
}

impl TestCertificate {
    /// Opens connections with it, to whoever has a server's certificate.
    pub fn connector(&self) -> Connector {
        let expected = ExpectedPeer::Server(REGION.into());
        Connector::new(&self.credentials, expected, &RevokedServers::default()).expect("it is made")
    }

    /// Asks for another one with it.
    pub fn renewing(&self) -> Connector {
        let expected = ExpectedPeer::Server(REGION.into());
        Connector::renewing(&self.credentials, expected, &RevokedServers::default()).expect("it is made")
    }
}

/// The authorities, and the files of what they have signed.
pub(crate) struct TestCertificates {
    own: Authority,
    other: Authority,
    dir: TempDir,
    next_number: AtomicUsize,
}

impl TestCertificates {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let [(own, key), (other, _)] = [(); 2].map(|()| Authority::make(REGION, around_now()).expect("made"));
        replace_file(&dir.path().join("ca.pem"), &own.pem()).expect("it is written");
        replace_file(&dir.path().join("both.pem"), &(own.pem() + &other.pem())).expect("it is written");
        replace_file(&dir.path().join("ca-key.pem"), &key).expect("it is written");
        Self { own, other, dir, next_number: AtomicUsize::new(0) }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What a server has whose certificates these are.
    pub fn of_server(&self) -> TlsConfig {
        let request = request(Role::Server(None), REGION, around_now());
        let files = self.files(&self.own, "ca.pem", "server", &request);
        TlsConfig {
            files,
            ca_key: Some(self.path("ca-key.pem")),
            http: true,
            verify_https_client: false,
            agent_life: Duration::from_secs(HOUR_S),
        }
    }

    /// Certificates of this role, a good one and each bad one.
    pub fn of(&self, role: &Role) -> Vec<TestCertificate> {
        let all = [Fault::Nothing, Fault::Expired, Fault::OtherAuthority, Fault::OtherRegion];
        all.into_iter().map(|fault| self.one(role, fault)).collect()
    }

    /// A good one.
    pub fn good(&self, role: Role) -> TestCertificate {
        self.one(&role, Fault::Nothing)
    }

    /// One with this wrong.
    pub fn one(&self, role: &Role, fault: Fault) -> TestCertificate {
        self.for_key(role, fault, None)
    }

    /// Another one for the key of one that is there.
    pub fn renewed(&self, of: &TestCertificate, role: &Role, fault: Fault) -> TestCertificate {
        self.for_key(role, fault, Some(of))
    }

    fn for_key(&self, role: &Role, fault: Fault, of: Option<&TestCertificate>) -> TestCertificate {
        let expires_soon = Validity { not_before: LONG_AGO, not_after: now_secs() + LASTS_S };
        // What each shows is one thing, whom it believes another: all believe the server.
        let (authority, ca, region, validity) = match fault {
            Fault::Nothing => (&self.own, "ca.pem", REGION, around_now()),
            Fault::Expired => (&self.own, "ca.pem", REGION, expires_soon),
            Fault::OtherAuthority => (&self.other, "both.pem", REGION, around_now()),
            Fault::OtherRegion => (&self.own, "ca.pem", "elsewhere", around_now()),
        };
        let name = format!("shown-{}", self.next_number.fetch_add(1, Relaxed));
        let request = request(role.clone(), region, validity);
        let files = match of {
            None => self.files(authority, ca, &name, &request),
            Some(of) => self.files_for(authority, ca, &name, &request, &of.files.key),
        };
        let credentials = TlsCredentials::load(&files).expect("it is good still");
        TestCertificate { role: role.clone(), fault, credentials, files, expires: validity.not_after }
    }

    fn files_for(
        &self,
        authority: &Authority,
        ca: &str,
        name: &str,
        request: &CertificateRequest,
        key: &Path,
    ) -> TlsFiles {
        let public = Key::load(key).expect("it is a key");
        let certificate = authority.sign_for(request, public.public()).expect("it is signed");
        let cert = self.path(&format!("{name}.pem"));
        replace_file(&cert, &berth_tls::encode(berth_tls::CERTIFICATE, &certificate)).expect("it is written");
        TlsFiles { ca: self.path(ca), cert, key: key.to_owned() }
    }

    fn files(&self, authority: &Authority, ca: &str, name: &str, request: &CertificateRequest) -> TlsFiles {
        let certified = authority.certify(request).expect("it is signed");
        let (cert, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}-key.pem")));
        replace_file(&cert, &certified.certificate).expect("it is written");
        replace_file(&key, &certified.key).expect("it is written");
        TlsFiles { ca: self.path(ca), cert, key }
    }
}

fn request(role: Role, region: &str, validity: Validity) -> CertificateRequest {
    CertificateRequest { role, region: region.into(), hosts: Vec::new(), validity }
}

fn around_now() -> Validity {
    Validity { not_before: LONG_AGO, not_after: now_secs() + HOUR_S }
}

/// Waits until those have expired that are to.
pub(crate) async fn until_expired(all: &[TestCertificate]) {
    let last = all
        .iter()
        .filter(|certificate| certificate.fault == Fault::Expired)
        .map(|certificate| certificate.expires)
        .max();
    while last.is_some_and(|last| now_secs() <= last) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A server with these certificates and ACLs, which joins those, or founds a cluster.
pub(crate) async fn server(certificates: &TestCertificates, name: &str, join: &[String]) -> Server {
    recording(certificates, name, join, None).await
}

/// The same, which records who did what.
pub(crate) async fn recording(
    certificates: &TestCertificates,
    name: &str,
    join: &[String],
    audit: Option<AuditConfig>,
) -> Server {
    let any = ([127, 0, 0, 1], 0).into();
    let config = ServerConfig {
        data_dir: certificates.path(name),
        http_addr: any,
        agent_addr: any,
        server_addr: None,
        server_advertise: None,
        join: join.to_vec(),
        bootstrap_expect: 1,
        log_version: *LOG_VERSIONS.end(),
        name: name.to_owned(),
        region: REGION.to_owned(),
        datacenter: "dc1".to_owned(),
        planners: PlannersConfig {
            count: 1,
            host_state: HostState::Incremental,
            host_state_refresh: Duration::from_secs(1),
        },
        acl: true,
        oidc_issuer: None,
        metrics_names: MetricsNames::default(),
        limits: Limits::default(),
        agent_limits: AgentLimits::default(),
        audit,
        tls: Some(certificates.of_server()),
        settings: Vec::new(),
        root_key_rotation: Duration::from_secs(24 * HOUR_S),
        log_feed: LogFeed::default(),
    };
    Server::start(config).await.expect("it starts")
}
