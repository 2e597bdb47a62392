//! How the agent and servers authenticate each other: certificates that an operator has put there, or one that the agent got
//! for a join token, and renews by itself.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_api::agent::JoinCode;
use berth_tls::{
    CERTIFICATE, CertificateRevoked, Connector, ExpectedPeer, Key, Peer, RevokedServers, Stream,
    TlsCredentials, TlsError, TlsFiles, encode, fingerprint, now_secs,
};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::data_dir::{make_dir, random};
use super::enrollment::{EnrollProof, IssuedCertificate, request_certificate};
use crate::failure::{Failure, PANICKED};

/// The directory of certificates in the agent's data directory.
const DIR: &str = "tls";
/// Says with which token the agent has joined.
const JOINED_WITH: &str = "joined-with";
/// How often the clock is read: it may have been set.
const CHECK_EVERY: Duration = Duration::from_secs(60);
/// Between two attempts to renew: at most this, or this part of the certificate's life.
const AGAIN_AFTER_MAX: Duration = Duration::from_secs(300);
const AGAIN_PARTS: u64 = 24;

/// Where an agent's certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentTls {
    /// An operator puts it there, and changes it.
    Files(TlsFiles),
    /// The agent got it for a join token, or is to.
    Joined(Option<JoinCode>),
}

/// The directory of what an agent gets by itself, in its data directory.
pub fn joined_dir(data_dir: &Path) -> PathBuf {
    data_dir.join(DIR)
}

/// The agent's certificate, as connections use it. Without one, connections are as they are.
#[derive(Clone, Default)]
pub(super) struct AgentCredentials(Option<Arc<CredentialStore>>);

struct CredentialStore {
    files: TlsFiles,
    node_id: [u8; 16],
    /// By which servers know the node.
    node_secret: Vec<u8>,
    source: AgentTls,
    /// The servers whose certificates were revoked.
    revoked: RevokedServers,
    /// None until the agent has joined.
    current: watch::Sender<Option<Arc<CurrentTls>>>,
}

/// The certificate that was presented on a connection, and renewals of it since.
pub(super) struct Renewals(Option<PresentedCertificate>);

struct PresentedCertificate {
    presented: Arc<CurrentTls>,
    current: watch::Receiver<Option<Arc<CurrentTls>>>,
}

impl Renewals {
    /// The next certificate that is worth showing on the connection, in DER with those between it and an authority: a connection
    /// ends with the one that was shown. One of another key is not; the agent dials with that once the connection has ended.
    pub async fn next(&mut self) -> Vec<Vec<u8>> {
        let Some(PresentedCertificate { presented, current }) = &mut self.0 else {
            return std::future::pending().await;
        };
        loop {
            let next = current.borrow_and_update().clone();
            let next = next.filter(|next| {
                let (next, presented) = (next.held.peer(), presented.held.peer());
                next.key == presented.key && next.not_after > presented.not_after
            });
            if let Some(next) = next {
                let chain = next.held.chain().iter().map(|one| one.to_vec()).collect();
                *presented = next;
                return chain;
            }
            if current.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// What new connections use.
struct CurrentTls {
    held: TlsCredentials,
    region: String,
    connector: Connector,
}

impl CurrentTls {
    fn new(held: TlsCredentials, files: &TlsFiles, revoked: &RevokedServers) -> Result<Self, Failure> {
        let identity = held.identity();
        let region = identity.region().filter(|region| identity.is_agent(Some(region)));
        let Some(region) = region.map(str::to_owned) else {
            let why = format!("{} names {identity}, and this is an agent", files.cert.display());
            return Err(Failure::other("use the certificate", why));
        };
        let expected = ExpectedPeer::Server(region.clone());
        let connector = Connector::new(&held, expected, revoked).map_err(unusable)?;
        Ok(Self { held, region, connector })
    }
}

/// Why there was no handshake. Whoever does not speak TLS hangs up as soon as it reads the beginning of one.
fn in_words(error: io::Error) -> io::Error {
    match berth_tls::explain(&error) {
        Some(why) => io::Error::other(why),
        None if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset) => {
            let why = "it hangs up at the beginning of the TLS handshake: is it a port without TLS, or another program's?";
            io::Error::other(why)
        }
        None => error,
    }
}

impl AgentCredentials {
    /// Reads what there is. An agent that is to join has nothing yet, and one that was away for long nothing that is valid.
    pub fn open(
        source: Option<&AgentTls>,
        data_dir: &Path,
        (node_id, node_secret): ([u8; 16], Vec<u8>),
        revoked: RevokedServers,
    ) -> Result<Self, Failure> {
        let Some(source) = source else { return Ok(Self::default()) };
        let files = match source {
            AgentTls::Files(files) => files.clone(),
            AgentTls::Joined(_) => joined_files(data_dir)?,
        };
        let (source, current) = (source.clone(), watch::Sender::default());
        let own = CredentialStore { files, node_id, node_secret, source, revoked, current };
        match own.read() {
            Ok(current) => own.use_from_now(current),
            Err(ReadError::Lacking(why)) if own.may_join() => {
                tracing::info!(why, "the agent asks for a certificate")
            }
            Err(ReadError::Lacking(why)) => return Err(own.must_join(&why)),
            Err(ReadError::Wrong(failure)) => return Err(failure),
        }
        Ok(Self(Some(Arc::new(own))))
    }

    /// Sees to it that there is something to show. Without a certificate, or with one that has expired, the server is asked for
    /// one first.
    pub async fn ready(&self, server: &str) -> Result<(), Failure> {
        let Some(own) = &self.0 else { return Ok(()) };
        let expired = own.current().as_ref().is_none_or(|current| now_secs() > current.held.validity().1);
        match &own.source {
            AgentTls::Joined(Some(code)) if expired || !own.has_joined_with(*code).await? => {
                match own.join(server, *code).await {
                    // What it has may do still: the token may have stood on its command line for long.
                    Err(failure) if !expired => {
                        tracing::warn!(%failure, "still using the current certificate")
                    }
                    joined => joined?,
                }
                Ok(())
            }
            AgentTls::Joined(None) if expired => Err(own.must_join("its certificate has expired")),
            _ => Ok(()),
        }
    }

    /// Shakes hands with a server that was dialed. One to which many agents come at once takes them in one after the other, which is
    /// why that may take as long as `patience`, and no less.
    pub async fn shake_hands(
        &self,
        stream: TcpStream,
        server: &str,
        patience: Duration,
    ) -> io::Result<(Stream, Renewals)> {
        let Some(own) = &self.0 else { return Ok((Stream::Plain(stream), Renewals(None))) };
        own.with_files(CredentialStore::refresh).await.map_err(io::Error::other)?;
        let current = own.current();
        let current = current.ok_or_else(|| io::Error::other("the agent has no certificate yet"))?;
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "the handshake took too long");
        let shaking = current.connector.connect(stream, server);
        let shaken = timeout(patience, shaking).await.map_err(late)?;
        let stream = shaken.map_err(in_words)?;
        Ok((
            stream,
            Renewals(Some(PresentedCertificate { presented: current, current: own.current.subscribe() })),
        ))
    }

    /// Completes once what a server has shown on a connection is revoked; never for one that has shown nothing.
    pub async fn until_revoked(&self, presented: Option<Peer>) -> CertificateRevoked {
        let (Some(own), Some(presented)) = (&self.0, presented) else { return std::future::pending().await };
        own.revoked.until(|revoked| revoked.check(&presented, None)).await
    }

    /// Renews the certificate when two thirds of its life are over, for as long as the agent runs. One that an operator renews is
    /// read again and again.
    pub async fn keep_renewed(self, configured: Vec<String>, learned: watch::Receiver<Vec<String>>) {
        let Some(own) = self.0 else { return };
        if matches!(own.source, AgentTls::Files(_)) {
            loop {
                sleep(CHECK_EVERY).await;
                if let Err(failure) = own.with_files(CredentialStore::refresh).await {
                    tracing::warn!(%failure, "still using the current certificate");
                }
            }
        }
        loop {
            let Some(due_in) = own.renewal_due_in() else {
                sleep(CHECK_EVERY.min(Duration::from_secs(1))).await;
                continue;
            };
            if !due_in.is_zero() {
                sleep(due_in.min(CHECK_EVERY)).await;
                continue;
            }
            let mut servers = learned.borrow().clone();
            servers.extend(
                configured.iter().filter(|server| !servers.contains(server)).cloned().collect::<Vec<_>>(),
            );
            let Some(server) = any(&servers) else { return };
            match own.renew(&server).await {
                Ok(()) => tracing::info!(server, "the certificate was renewed"),
                Err(failure) => {
                    tracing::warn!(%failure, server, "the certificate was not renewed: it is tried again");
                    sleep(own.renew_again_after()).await;
                }
            }
        }
    }
}

/// Why nothing can be used of what is on disk.
enum ReadError {
    /// There is no certificate, or it has expired: another one helps.
    Lacking(String),
    /// An operator must look at it.
    Wrong(Failure),
}

impl CredentialStore {
    fn current(&self) -> Option<Arc<CurrentTls>> {
        self.current.borrow().clone()
    }

    fn use_from_now(&self, current: CurrentTls) {
        self.current.send_replace(Some(Arc::new(current)));
    }

    fn read(&self) -> Result<CurrentTls, ReadError> {
        let is_joined = matches!(self.source, AgentTls::Joined(_));
        if is_joined && !self.files.cert.exists() {
            return Err(ReadError::Lacking("it has no certificate yet".to_owned()));
        }
        match TlsCredentials::load(&self.files) {
            Ok(held) => CurrentTls::new(held, &self.files, &self.revoked).map_err(ReadError::Wrong),
            Err(error @ TlsError::Expired { .. }) if is_joined => Err(ReadError::Lacking(error.to_string())),
            Err(error) => Err(ReadError::Wrong(unusable(error))),
        }
    }

    /// Reads or writes files where that holds up no connection.
    async fn with_files<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let own = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&own)).await;
        done.map_err(|_| Failure::other("read the certificate", PANICKED))
    }

    fn may_join(&self) -> bool {
        matches!(self.source, AgentTls::Joined(Some(_)))
    }

    fn must_join(&self, why: &str) -> Failure {
        let node = berth_api::agent::AllocId(self.node_id);
        let way = format!(
            "{why}: make a token with `berth node token -node {node}`, and start the agent with --join and that"
        );
        Failure::other("join the cluster", way)
    }

    /// Uses what the files hold now, if that has changed. What has not is kept, and with it the sessions that can be resumed.
    fn refresh(&self) {
        let new = match self.read() {
            Ok(new) => new,
            Err(ReadError::Lacking(why)) => {
                return tracing::warn!(why, "still using the current certificate");
            }
            Err(ReadError::Wrong(failure)) => {
                return tracing::warn!(%failure, "still using the current certificate");
            }
        };
        self.current.send_if_modified(|current| {
            let changed = current.as_ref().is_none_or(|current| !current.held.is_same(&new.held));
            if changed {
                *current = Some(Arc::new(new));
            }
            changed
        });
    }

    /// How long until it is time to renew; none without a certificate.
    fn renewal_due_in(&self) -> Option<Duration> {
        let (not_before, not_after) = self.current().as_ref()?.held.validity();
        let due = not_before + not_after.saturating_sub(not_before) / 3 * 2;
        Some(Duration::from_secs(due.saturating_sub(now_secs())))
    }

    fn renew_again_after(&self) -> Duration {
        let life = self.current().as_ref().map_or(0, |current| {
            let (not_before, not_after) = current.held.validity();
            not_after.saturating_sub(not_before)
        });
        Duration::from_secs((life / AGAIN_PARTS).max(1)).min(AGAIN_AFTER_MAX)
    }

    async fn renew(self: &Arc<Self>, server: &str) -> Result<(), Failure> {
        let current = self.current();
        let current = current.ok_or_else(|| Failure::other("renew the certificate", "there is none"))?;
        let expected = ExpectedPeer::Server(current.region.clone());
        let connector = Connector::renewing(&current.held, expected, &self.revoked).map_err(unusable)?;
        self.enroll(server, &connector, EnrollProof::Certificate(self.node_secret.clone())).await
    }

    /// Asks a server for a certificate, and keeps it. The key is on disk before it is asked for: whoever is killed meanwhile asks
    /// again for the same, and a join token that was spent for it is still good for it.
    async fn enroll(
        self: &Arc<Self>,
        server: &str,
        connector: &Connector,
        by: EnrollProof,
    ) -> Result<(), Failure> {
        let key = self.with_files(Self::key).await??;
        let answer = request_certificate(server, connector, by, self.node_id, &key).await?;
        self.with_files(move |own| own.keep(&answer)).await?
    }

    fn keep(
        &self,
        IssuedCertificate { certificate, authorities }: &IssuedCertificate,
    ) -> Result<(), Failure> {
        let authorities: String = authorities.iter().map(|one| encode(CERTIFICATE, one)).collect();
        // First whom to believe: with a new authority and the old certificate the agent still gets in.
        berth_tls::replace_file(&self.files.ca, &authorities).map_err(unusable)?;
        berth_tls::replace_file(&self.files.cert, &encode(CERTIFICATE, certificate)).map_err(unusable)?;
        match self.read() {
            Ok(current) => self.use_from_now(current),
            Err(ReadError::Lacking(why)) => return Err(Failure::other("use the certificate", why)),
            Err(ReadError::Wrong(failure)) => return Err(failure),
        }
        Ok(())
    }

    async fn join(self: &Arc<Self>, server: &str, code: JoinCode) -> Result<(), Failure> {
        let connector = Connector::joining(code.authority, &self.revoked).map_err(unusable)?;
        self.enroll(server, &connector, EnrollProof::Token(code.secret.to_vec())).await?;
        let mark_now = move |own: &Self| berth_tls::replace_file(&own.joined_with(), &mark(&code));
        self.with_files(mark_now).await?.map_err(unusable)?;
        tracing::info!(server, "the agent has joined");
        Ok(())
    }

    /// Whether the certificate was given for this token: another one is for another certificate, as when the node was revoked.
    async fn has_joined_with(self: &Arc<Self>, code: JoinCode) -> Result<bool, Failure> {
        let before = self.with_files(|own| std::fs::read_to_string(own.joined_with())).await?;
        Ok(before.is_ok_and(|before| before == mark(&code)))
    }

    fn joined_with(&self) -> PathBuf {
        self.files.cert.with_file_name(JOINED_WITH)
    }

    fn key(&self) -> Result<Key, Failure> {
        if !self.files.key.exists() {
            let key = Key::make().map_err(unusable)?;
            berth_tls::write_new(&self.files.key, &key.pem()).map_err(unusable)?;
        }
        Key::load(&self.files.key).map_err(unusable)
    }
}

/// Tells one token from others, and nothing of its secret.
fn mark(code: &JoinCode) -> String {
    fingerprint(&code.secret).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn joined_files(data_dir: &Path) -> Result<TlsFiles, Failure> {
    let dir = joined_dir(data_dir);
    make_dir(&dir, 0o700)?;
    Ok(TlsFiles { ca: dir.join("ca.pem"), cert: dir.join("agent.pem"), key: dir.join("agent-key.pem") })
}

fn any(servers: &[String]) -> Option<String> {
    let random = random(8).ok()?.first_chunk::<8>().map_or(0, |bytes| u64::from_le_bytes(*bytes));
    servers.get(usize::try_from(random % servers.len().max(1) as u64).ok()?).cloned()
}

fn unusable(error: TlsError) -> Failure {
    Failure::other("use the certificate", error)
}
