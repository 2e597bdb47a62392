//! The connection to a server: dials, reads and writes frames, and dials the next server when it ends.

use std::io;
use std::time::Duration;

use berth_api::agent::{
    DialPatience, Down, DownFrame, FRAME_BYTES_MAX, FrameDecoder, FrameError, Renewed, Up, UpFrame,
    WELCOME_BYTES_MAX, encode_frame,
};
use berth_tls::{CertificateRevoked, Stream};
use bytes::BytesMut;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_user_timeout};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::credentials::{AgentCredentials, Renewals};
use super::data_dir::random_number;
use super::dial_log::{ConnectionEnd, DialLog};
use super::servers::Servers;
use crate::backoff::Backoff;
use crate::failure::{Failure, FailureContext};

/// The agent's one session on its connection.
const SESSION: u32 = 1;

/// Messages that wait for the connection. The session bounds its updates, so that only a stuck connection fills it.
const SESSION_MAX: usize = 32;
const REPLIES_MAX: usize = 4;
const DOWN_MAX: usize = 64;

const DIAL_MAX: Duration = Duration::from_secs(5);

/// How long sent data may go unacknowledged by the machine of the server before it counts as gone. It is another server that
/// must hear the agent before its node is declared lost.
const UNACKNOWLEDGED_MS_MAX: u32 = 8_000;
const READ_BUFFER_BYTES: usize = 64 << 10;

/// How long a frame may take that has begun. A length that was damaged on its way announces more than will ever come, and whatever the
/// server sends disappears in it.
const FRAME_WITHIN: Duration = Duration::from_secs(30);

/// The ways into a connection. The session's messages overtake what people wait for: pieces of files, answers, output
/// of commands.
pub(super) struct ConnectionSenders {
    pub(super) session: mpsc::Sender<Up>,
    pub(super) replies: mpsc::Sender<Up>,
}

/// What the connection sends to the agent.
pub(super) enum ConnectionEvent {
    /// A connection was made.
    Up(ConnectionSenders),
    Message(DownFrame),
    /// The connection has ended.
    Down,
}

/// Keeps dialing until nobody listens any more.
pub(super) async fn keep_connected(
    mut servers: Servers,
    credentials: AgentCredentials,
    events: mpsc::Sender<ConnectionEvent>,
) {
    let (mut retry, mut log) = (Backoff::default(), DialLog::default());
    let (mut patience, since) = (DialPatience::default(), Instant::now());
    while !events.is_closed()
        && let Some(server) = servers.next(random_number())
    {
        let mut outcome = DialOutcome::of(&server);
        patience.begin(u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let dialed = Instant::now();
        tracing::debug!(%server, "dialing");
        match dial(&server, &credentials, patience.span()).await {
            Ok((stream, renewals)) => {
                let revoked = credentials.until_revoked(stream.peer());
                let Ok(end) = run_session(stream, renewals, &events, &mut outcome, revoked).await else {
                    return;
                };
                // Only a server that speaks is worth dialing again at once.
                if outcome.welcome {
                    retry.reset();
                    servers.reached();
                    log.accepted(&server);
                }
                if let Some(heartbeat) = outcome.heartbeat {
                    patience.welcomed(u64::try_from(heartbeat.as_nanos()).unwrap_or(u64::MAX));
                }
                retry.spread(outcome.heartbeat);
                outcome.is_new |= outcome.log_end(end, &mut log);
            }
            Err(failure) => {
                outcome.refusal = dialed.elapsed() < patience.span();
                let why = failure.to_string();
                outcome.is_new = log.is_new(&server, &why);
                if outcome.is_new {
                    tracing::warn!(%server, why, "no connection; further attempts are logged when that changes");
                }
            }
        }
        if outcome.answer || outcome.refusal {
            patience.answered();
        }
        if events.is_closed() {
            return;
        }
        let random = random_number();
        let pause = match outcome {
            DialOutcome { refusal_for_good: true, .. } => retry.after_refusal(random),
            DialOutcome { answer: true, .. } => retry.after_answer(random),
            DialOutcome { .. } => retry.next_of(servers.count(), random),
        };
        if outcome.refusal_for_good && outcome.is_new {
            tracing::warn!(%server, seconds = pause.as_secs(), "refused: no server is dialed before that");
        }
        sleep(pause).await;
    }
}

pub(super) fn channel() -> (mpsc::Sender<ConnectionEvent>, mpsc::Receiver<ConnectionEvent>) {
    mpsc::channel(DOWN_MAX)
}

/// Who does not answer within `patience` is left.
async fn dial(
    server: &str,
    credentials: &AgentCredentials,
    patience: Duration,
) -> Result<(Stream, Renewals), Failure> {
    credentials.ready(server).await?;
    let doing = || format!("connect to the server {server}");
    let connected = timeout(DIAL_MAX.min(patience), TcpStream::connect(server)).await;
    let stream = connected.map_err(|_| Failure::other(doing(), "no answer in time"))?.doing(doing)?;
    stream.set_nodelay(true).doing(doing)?;
    set_socket_keepalive(&stream, true).doing(doing)?;
    set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MS_MAX).doing(doing)?;
    credentials.shake_hands(stream, server, patience).await.doing(doing)
}

/// What came of dialing a server.
#[derive(Debug, Default)]
struct DialOutcome {
    /// The server's address.
    server: String,
    /// Whether a frame was received.
    answer: bool,
    /// Whether the connection was refused at once.
    refusal: bool,
    /// Whether a frame other than a refusal was received.
    welcome: bool,
    /// Why the server refuses the agent, if it does.
    refused: Option<String>,
    /// Whether this differs from the last attempt.
    is_new: bool,
    /// Whether trying again cannot help.
    refusal_for_good: bool,
    /// The interval of heartbeats that the server asks for: long in a large cluster.
    heartbeat: Option<Duration>,
}

impl DialOutcome {
    fn of(server: &str) -> Self {
        Self { server: server.to_owned(), ..Self::default() }
    }

    fn note(&mut self, frame: &DownFrame) {
        match &frame.message {
            Some(Down::Refused(refused)) => {
                self.refused = Some(refused.reason.clone());
                self.refusal_for_good |= !refused.retry;
                return;
            }
            Some(Down::Welcome(welcome)) => {
                self.heartbeat = Some(Duration::from_millis(welcome.heartbeat_ms));
            }
            Some(Down::HeartbeatEvery(every)) => {
                self.heartbeat = Some(Duration::from_millis(every.heartbeat_ms));
            }
            _ => {}
        }
        if !self.welcome {
            tracing::info!(server = %self.server, "connected");
        }
        self.welcome = true;
    }

    /// Logs how the connection ended, unless that was logged before. Whether it was logged.
    fn log_end(&self, end: ConnectionEnd, log: &mut DialLog) -> bool {
        let server = self.server.as_str();
        let again = if self.refusal_for_good { "rarely: trying again cannot help by itself" } else { "soon" };
        match (&self.refused, self.welcome) {
            (Some(reason), true) => {
                tracing::error!(%server, reason, again, "the server refuses this node");
                true
            }
            (Some(reason), false) => {
                let is_new = log.is_new(server, &format!("{reason}, again {again}"));
                if is_new {
                    tracing::error!(
                        %server,
                        reason,
                        again,
                        "the server refuses this node; the next reason is logged when it is another"
                    );
                }
                is_new
            }
            (None, true) => {
                if let ConnectionEnd::Because(why) = end {
                    tracing::warn!(%server, why, "the connection has ended");
                }
                tracing::info!(%server, "disconnected");
                true
            }
            (None, false) => {
                let why = end.without_a_session();
                let is_new = log.is_new(server, &why);
                if is_new {
                    tracing::warn!(
                        %server,
                        why,
                        "the server rejects the agent; further attempts are logged when that changes"
                    );
                }
                is_new
            }
        }
    }
}

/// Carries messages both ways until one side ends, or the server's certificate is revoked. Tells how it ended, in the words of TLS
/// where that has some: a server that does not want the agent's certificate says so only after the agent took the handshake for done.
async fn run_session(
    stream: Stream,
    renewals: Renewals,
    events: &mpsc::Sender<ConnectionEvent>,
    outcome: &mut DialOutcome,
    revoked: impl Future<Output = CertificateRevoked>,
) -> Result<ConnectionEnd, mpsc::error::SendError<ConnectionEvent>> {
    let (session, session_up) = mpsc::channel(SESSION_MAX);
    let (replies, replies_up) = mpsc::channel(REPLIES_MAX);
    events.send(ConnectionEvent::Up(ConnectionSenders { session, replies })).await?;
    let carried = async {
        match stream {
            Stream::Plain(stream) => {
                let (read, write) = stream.into_split();
                carry(read, write, (session_up, replies_up, renewals), events, outcome).await
            }
            stream => {
                let (read, write) = tokio::io::split(stream);
                carry(read, write, (session_up, replies_up, renewals), events, outcome).await
            }
        }
    };
    let end = tokio::select! {
        end = carried => end,
        revoked = revoked => ConnectionEnd::Because(revoked.to_string()),
    };
    events.send(ConnectionEvent::Down).await?;
    Ok(end)
}

async fn carry(
    read: impl AsyncRead + Unpin,
    write: impl AsyncWrite + Unpin,
    outgoing: (mpsc::Receiver<Up>, mpsc::Receiver<Up>, Renewals),
    events: &mpsc::Sender<ConnectionEvent>,
    outcome: &mut DialOutcome,
) -> ConnectionEnd {
    tokio::select! {
        end = receive(read, events, outcome) => end,
        () = send(write, outgoing) => ConnectionEnd::Dropped,
    }
}

async fn receive(
    mut read: impl AsyncRead + Unpin,
    events: &mpsc::Sender<ConnectionEvent>,
    outcome: &mut DialOutcome,
) -> ConnectionEnd {
    let mut buffer = BytesMut::with_capacity(READ_BUFFER_BYTES);
    let mut decoder = FrameDecoder::default();
    let mut frame_bytes_max = WELCOME_BYTES_MAX;
    let mut frame_since = None;
    loop {
        match decoder.decode::<DownFrame>(&mut buffer, frame_bytes_max) {
            Ok(Some(frame)) => {
                frame_since = None;
                if matches!(frame.message, Some(Down::Welcome(_))) {
                    frame_bytes_max = FRAME_BYTES_MAX;
                }
                outcome.answer = true;
                outcome.note(&frame);
                if events.send(ConnectionEvent::Message(frame)).await.is_err() {
                    return ConnectionEnd::Dropped;
                }
            }
            Ok(None) => match read_more(&mut read, &mut buffer, &mut frame_since, FRAME_WITHIN).await {
                Ok(Ok(0)) => return ConnectionEnd::HungUp,
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    return berth_tls::explain(&error).map_or(ConnectionEnd::HungUp, ConnectionEnd::Because);
                }
                Err(_) => {
                    return ConnectionEnd::Because("a frame of the server was not complete in time".into());
                }
            },
            Err(error) => return ConnectionEnd::Because(broken_by(&error, outcome)),
        }
    }
}

/// Reads on. A frame of which something is there must be complete in time, however slowly its bytes come; between frames there is
/// no limit.
async fn read_more(
    read: &mut (impl AsyncRead + Unpin),
    buffer: &mut BytesMut,
    frame_since: &mut Option<Instant>,
    within: Duration,
) -> Result<io::Result<usize>, Elapsed> {
    if buffer.is_empty() {
        return Ok(read.read_buf(buffer).await);
    }
    let since = *frame_since.get_or_insert_with(Instant::now);
    timeout_at(since + within, read.read_buf(buffer)).await
}

/// What a frame says that is none. Of who has not let the agent in yet it is the same however often that is dialed.
fn broken_by(error: &FrameError, outcome: &DialOutcome) -> String {
    match error {
        FrameError::Tls => {
            "it speaks TLS, and this agent has no certificate: get it one with `berth server cert agent`".into()
        }
        FrameError::Http => error.to_string(),
        error if outcome.welcome => format!("the server breaks the protocol: {error}"),
        _ => "it does not speak the protocol of agents: is it another program's port? agents connect to the port of \
              --agent-addr, 4647 by default"
            .into(),
    }
}

/// Until the agent lets go of the session's line, or the server of the connection.
async fn send(
    mut write: impl AsyncWrite + Unpin,
    (mut session, mut replies, mut renewals): (mpsc::Receiver<Up>, mpsc::Receiver<Up>, Renewals),
) {
    let mut buffer = BytesMut::new();
    loop {
        let message = tokio::select! {
            biased;
            message = session.recv() => message,
            chain = renewals.next() => Some(Up::Renewed(Renewed { chain })),
            Some(reply) = replies.recv() => Some(reply),
        };
        let Some(message) = message else { return };
        buffer.clear();
        encode_frame(&UpFrame { session: SESSION, message: Some(message) }, &mut buffer);
        // Encrypted bytes may wait for a flush.
        if write.write_all(&buffer).await.is_err() || write.flush().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_not_for_agents_is_named() {
        let why = async |answer: &[u8]| {
            let (events, _down) = channel();
            receive(answer, &events, &mut DialOutcome::default()).await.without_a_session()
        };
        let http = why(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        assert!(http.contains("this is an HTTP port") && http.contains("4647"), "{http}");
        for record in [0x15, 0x16] {
            let tls = why(&[record, 3, 3, 0, 2, 2, 40]).await;
            assert!(tls.contains("it speaks TLS"), "{tls}");
        }
        for other in ["SSH-2.0-OpenSSH_9.9\r\n", "SSH-2.0-dropbear\r\n", "220 mail.example ESMTP\r\n"] {
            let other = why(other.as_bytes()).await;
            assert!(other.contains("does not speak the protocol of agents"), "{other}");
        }
        let silent = why(b"").await;
        assert!(silent.contains("hangs up without an answer"), "{silent}");
    }

    /// What the server sends afterwards would disappear in it, while the agent's own heartbeats keep its node alive.
    #[tokio::test]
    async fn a_frame_that_never_becomes_complete_is_read_no_further() {
        let (mut server, mut read) = tokio::io::duplex(64);
        let trickle = async {
            while server.write_all(&[7]).await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        let reading = async {
            let (mut buffer, mut since) = (BytesMut::from(&[0, 0, 4, 0][..]), None);
            while read_more(&mut read, &mut buffer, &mut since, Duration::from_millis(50)).await.is_ok() {}
            assert!(buffer.len() > 4, "bytes came all the time");
        };
        tokio::select! {
            () = reading => {}
            () = trickle => unreachable!("it is read from"),
        }
    }
}
