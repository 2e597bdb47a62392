//! Recovery after a majority of the servers is lost for good: one of them becomes the only member of its cluster.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    sync::Arc,
    time::Duration,
};

use berth_replication::{
    Member, Recovery,
    peer::{PeerAddress, PeerIdentity, Peers, RequestError, Service},
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, join_all};

use super::{
    bootstrap::random_id,
    wire::{self, PeerRequest},
};
use crate::{
    net::{Secure, TlsConfig},
    peers::{PeerCertificates, TcpDial},
    server::StartError,
};

/// How long to wait for the answer of a server that may still run.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Makes the server of a data directory, which must not run, the only one of its cluster. Refuses while one of the others
/// answers, unless `without` says that they are to be left out all the same, and where `agree` does. The others are asked with
/// the certificates of `tls`.
///
/// # Errors
/// When the directory is in use, is no server's, is damaged, or cannot be written, or it was refused.
pub async fn recover(
    data_dir: &Path,
    without: bool,
    tls: Option<&TlsConfig>,
    agree: impl FnOnce(&Recovery) -> Result<(), String> + Send,
) -> Result<Recovery, StartError> {
    let secure = tls.map(Secure::load_as_certified).transpose()?;
    let check = |recovery: &Recovery| -> BoxFuture<'_, Result<(), String>> {
        let (consent, recovery) = (agree(recovery), recovery.clone());
        Box::pin(async move {
            consent?;
            if without { Ok(()) } else { nobody_runs(&recovery, secure).await }
        })
    };
    Ok(berth_replication::recover_alone(&data_dir.join("server"), "berth", Box::new(check)).await?)
}

/// Whether none of the others answers any more.
async fn nobody_runs(recovery: &Recovery, secure: Option<Arc<Secure>>) -> Result<(), String> {
    let own = recovery.own.peer.address.parse::<SocketAddr>();
    let from = own.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |own| own.ip());
    // Asked as a server that belongs to nobody.
    let peers: Peers = Peers::new(
        random_id(),
        Arc::new(TcpDial { from, certificates: PeerCertificates::new(secure) }),
        Arc::new(NoRequests),
    );
    let ping = wire::encode(&PeerRequest::Ping);
    let running = recovery.left_out.iter().map(async |member| {
        let address = PeerAddress(member.peer.address.clone());
        let answer = peers.request_of_stranger(&address, &ping, ANSWER_MAX).await;
        let runs = !matches!(answer, Err(RequestError::NotSent(_)));
        runs.then(|| format!("{} at {address}", name(member)))
    });
    let running: Vec<String> = join_all(running).await.into_iter().flatten().collect();
    if running.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} still runs: start the others again instead, if a majority of them is left. If they are to be left out, with all \
         that only they have, stop them first, or say so with -without-others",
        running.join(", ")
    ))
}

/// Refuses all requests.
struct NoRequests;

impl Service for NoRequests {
    fn request(&self, _: PeerIdentity, _: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        Box::pin(std::future::ready(Err("no server runs here".to_owned())))
    }

    fn message(&self, _: PeerIdentity, _: Bytes) {}
}

fn name(member: &Member) -> String {
    if member.peer.name.is_empty() {
        format!("server {}", member.id)
    } else {
        format!("server {}", member.peer.name)
    }
}
