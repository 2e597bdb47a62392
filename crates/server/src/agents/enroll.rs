//! Issues certificates to agents: the first one for a join token, later ones for the current certificate.

use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use berth_api::agent::{ENROLL_BYTES_MAX, Enroll, Enrolled, decode_frame, encode_frame};
use berth_model::{
    NodeId, Timestamp,
    acl::{ChangeAcl, SecretHash},
    command::Command,
    join::{Join, JoinedNode},
};
use berth_tls::{CertificateRequest, Peer, Role, Validity, fingerprint, has_signed};
use bytes::BytesMut;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{certificate_audit::CertificateAudit, listen::ListenContext, revoked::is_revoked};
use crate::{clock, convert::agent::secret_hash, net::NetStream, shared::State};

/// How long one enrollment may take; the cluster may be electing a leader.
const TALK_MAX: Duration = Duration::from_secs(30);
/// Time between two looks at the clock, while a certificate is not valid yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Clocks of agents may be a little behind.
const CLOCK_SKEW_SECS: u64 = 300;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Serves one enrollment request.
pub(super) async fn serve(mut stream: NetStream, context: &ListenContext) -> io::Result<()> {
    let talk = async {
        let request = read(&mut stream).await?;
        let answer = answer(&request, &stream, context).await.unwrap_or_else(|refused| {
            tracing::info!(peer = %stream.peer(), refused, "an agent gets no certificate");
            Enrolled { refused, ..Enrolled::default() }
        });
        let mut bytes = BytesMut::new();
        encode_frame(&answer, &mut bytes);
        stream.write_all(&bytes).await?;
        stream.shutdown().await
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "asking for a certificate took too long");
    timeout(TALK_MAX, talk).await.map_err(late)?
}

async fn read(stream: &mut NetStream) -> io::Result<Enroll> {
    let mut buffer = BytesMut::with_capacity(ENROLL_BYTES_MAX);
    loop {
        if let Some(request) = decode_frame(&mut buffer, ENROLL_BYTES_MAX).map_err(io::Error::other)? {
            return Ok(request);
        }
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// The certificate, or why there is none. What is answered is recorded.
async fn answer(request: &Enroll, stream: &NetStream, context: &ListenContext) -> Result<Enrolled, String> {
    let too_often =
        |_| "too many certificates are asked for from this address: try again in a second".to_owned();
    context.rates.for_a_certificate(stream.peer().ip()).map_err(too_often)?;
    let audit = CertificateAudit::begin(request, stream, context).await?;
    let certified = certify(request, stream.certificate(), context).await;
    audit.end(certified).await
}

/// The certificate, or why there is none.
async fn certify(
    requested: &Enroll,
    shown: Option<&Peer>,
    context: &ListenContext,
) -> Result<Enrolled, String> {
    let (Some(secure), Some(state)) = (context.secure(), context.state()) else {
        return Err("this server gives no certificates".to_owned());
    };
    let authority = secure.authority().ok_or(
        "this server has no authority's key (ca-key.pem) to sign with: name one that has it among --servers",
    )?;
    let node = <[u8; 16]>::try_from(&*requested.node_id).map_err(|_| "the node's id has not 16 bytes")?;
    let node = NodeId(u128::from_be_bytes(node));
    if !has_signed(&requested.public_key, &requested.signed(), &requested.signature) {
        return Err("the request is not signed with the key that it is for".to_owned());
    }
    // What was revoked at another server must be known here by now.
    state.engine.fresh().await?;
    if requested.secret.is_empty() {
        renews(node, shown, &requested.node_secret, state)?;
    } else {
        join(requested, node, state).await?;
    }
    let validity = validity(node, secure.agent_life(), state);
    // After a revocation it begins with the next second: an agent that gets one which is not valid yet takes its clock for wrong.
    while now_secs() < validity.not_before {
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    let request = CertificateRequest {
        role: Role::Agent(Some(node.to_string())),
        region: state.server.region.clone(),
        hosts: Vec::new(),
        validity,
    };
    let certificate =
        authority.sign_for(&request, &requested.public_key).map_err(|error| error.to_string())?;
    let authorities = secure.authorities().iter().map(|one| one.to_vec()).collect();
    tracing::info!(%node, renewed = requested.secret.is_empty(), "signed an agent's certificate");
    Ok(Enrolled { certificate: certificate.to_vec(), authorities, refused: String::new() })
}

/// Whether the certificate that is shown may be renewed: by the agent of its node, which has the node's secret. A stolen certificate
/// alone cannot be renewed, and is of use until it expires. A node that never sent a hello has no secret yet.
fn renews(node: NodeId, certificate: Option<&Peer>, node_secret: &[u8], state: &State) -> Result<(), String> {
    let peer = certificate.ok_or("neither a join token nor a certificate is shown")?;
    if !peer.identity.speaks_for(&node.to_string()) {
        return Err(format!("the certificate shown names {}, and not node {node}", peer.identity));
    }
    if is_revoked(state.view().store.acl().joins(), node, peer) {
        return Err(format!(
            "node {node} was revoked: to let it join again, `berth node token -node {node}`"
        ));
    }
    let view = state.view();
    let detail = view.store.node(node).and_then(|(slot, _)| view.store.nodes().detail(slot));
    if detail.is_some_and(|detail| detail.node.secret_hash != secret_hash(node_secret)) {
        return Err(format!(
            "the secret of node {node} is not shown: its certificate is renewed by its own agent, of this version or a later one"
        ));
    }
    Ok(())
}

/// Spends the join token, unless it was spent by this very agent. An invalid token is refused here: unauthenticated clients write
/// nothing to the log.
async fn join(request: &Enroll, node: NodeId, state: &State) -> Result<(), String> {
    let (secret, key) =
        (SecretHash(fingerprint(&request.secret)), SecretHash(fingerprint(&request.public_key)));
    let joined = JoinedNode { node, key };
    let view = state.view();
    let token = view.store.acl().joins().token(&secret);
    let token = token.filter(|token| token.expires_at > clock::now());
    let token = token
        .ok_or("the join token was never made here, or has expired: make one with `berth node token`")?;
    if token.joined == Some(joined) {
        return Ok(());
    }
    let join = ChangeAcl::Join(Box::new(Join { secret, joined }));
    let proposed = state.engine.propose(vec![Command::ChangeAcl(Box::new(join))]).await;
    let committed = proposed.map_err(|error| error.to_string())?;
    committed.outcomes.into_iter().try_for_each(|outcome| outcome.map_err(|refusal| refusal.to_string()))
}

fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Valid from a little before now on, but not from before the last revocation of the node's certificates.
fn validity(node: NodeId, life: Duration, state: &State) -> Validity {
    let now = now_secs();
    let revoked = state.view().store.acl().joins().revoked_at(node);
    let after = revoked.map_or(0, |Timestamp(at)| at / NANOS_PER_SEC + 1);
    Validity { not_before: (now - CLOCK_SKEW_SECS).max(after), not_after: now + life.as_secs() }
}
