//! The certificates that other servers have shown: each is accepted for the servers that it names, unless it was revoked after it
//! was issued.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll},
};

use berth_replication::peer::{FrameStream, PeerChannel};
use berth_tls::Peer;
use futures_util::{FutureExt, Stream, future::BoxFuture};
use tokio_util::bytes::Bytes;

use crate::{
    net::{Secure, until_expired},
    shared::CertificateStatus,
};

/// What is kept of servers that are no members yet: as many as could join at a time.
const STRANGERS_MAX: usize = 16;

/// The certificates of the members of the cluster.
#[derive(Default)]
pub(crate) struct PeerCertificates {
    secure: Option<Arc<Secure>>,
    known: Mutex<KnownPeers>,
}

#[derive(Default)]
struct KnownPeers {
    members: BTreeMap<u64, MemberCertificate>,
    /// What those have shown that are no members yet: a server connects before its join has been applied here, and keeps that
    /// connection.
    strangers: BTreeMap<u64, Peer>,
}

#[derive(Default)]
struct MemberCertificate {
    name: String,
    /// The one shown on the last connection, in either direction.
    certificate: Option<Peer>,
}

impl PeerCertificates {
    /// For a server with these certificates; no member is known yet.
    pub fn new(secure: Option<Arc<Secure>>) -> Arc<Self> {
        Arc::new(Self { secure, ..Self::default() })
    }

    /// The server's own.
    pub fn secure(&self) -> Option<&Arc<Secure>> {
        self.secure.as_ref()
    }

    /// The members of the cluster are these: their ids and names.
    pub fn set_members(&self, members: impl IntoIterator<Item = (u64, String)>) {
        self.known().set_members(members);
    }

    /// The status of another server's certificate.
    pub fn of(&self, server: u64, name: &str) -> CertificateStatus {
        let certificate = self.known().members.get(&server).and_then(|member| member.certificate.clone());
        self.judge(certificate.as_ref(), name)
    }

    /// The status of this server's own certificate.
    pub fn own(&self, name: &str) -> CertificateStatus {
        self.judge(self.secure.as_ref().map(|secure| secure.own()).as_ref(), name)
    }

    fn judge(&self, certificate: Option<&Peer>, name: &str) -> CertificateStatus {
        let Some(secure) = &self.secure else { return CertificateStatus::Unknown };
        match certificate {
            Some(certificate) if secure.revoked().check(certificate, Some(name)).is_err() => {
                CertificateStatus::Revoked
            }
            Some(certificate) if certificate.identity.servers().next().is_none() => {
                CertificateStatus::NamesNobody
            }
            Some(_) => CertificateStatus::Good,
            None if secure.revoked().all().contains_key(&name.to_ascii_lowercase()) => {
                CertificateStatus::Revoked
            }
            None => CertificateStatus::Unknown,
        }
    }

    /// Ends a channel once the certificate that the peer has shown is revoked or has expired. A peer that has a newer one by then dials
    /// again with it.
    pub fn guard(self: &Arc<Self>, mut channel: PeerChannel, certificate: Peer) -> PeerChannel {
        let Some(secure) = &self.secure else { return channel };
        let introduced_as = Arc::<OnceLock<u64>>::default();
        let (certificates, speaker) = (self.clone(), introduced_as.clone());
        channel.vouch = Some(Arc::new({
            let certificate = certificate.clone();
            move |server| {
                // Set before the check, so that a revocation from here on is noticed by the task below, which looks the name up.
                let _ = speaker.set(server);
                certificates.vouch(server, &certificate)
            }
        }));
        let (certificates, revoked) = (self.clone(), secure.revoked().clone());
        let until_over = async move {
            let name = || introduced_as.get().and_then(|server| certificates.name(*server));
            tokio::select! {
                revoked = revoked.until(|revoked| revoked.check(&certificate, name().as_deref())) => revoked.to_string(),
                () = until_expired(certificate.not_after) => {
                    format!("the certificate of {} that was shown has expired", certificate.identity)
                }
            }
        };
        let until_over = until_over.map(|why| io::Error::new(io::ErrorKind::PermissionDenied, why));
        channel.incoming = Box::pin(ExpiringFrames { incoming: channel.incoming, over: until_over.boxed() });
        channel
    }

    /// Whether a certificate speaks for a server. One that is no member yet has no name that is known.
    fn vouch(&self, server: u64, certificate: &Peer) -> Result<(), String> {
        let Some(secure) = &self.secure else { return Ok(()) };
        let name = self.name(server).filter(|name| !name.is_empty());
        secure.revoked().check(certificate, name.as_deref()).map_err(|revoked| revoked.to_string())?;
        if let Some(name) = name.filter(|name| !certificate.identity.speaks_for_server(name)) {
            return Err(format!(
                "server {server} is {name}, and the certificate shown names {}: it needs one of its own \
                 (`berth server cert server --server-name {name}`)",
                certificate.identity
            ));
        }
        self.known().insert(server, certificate);
        Ok(())
    }

    fn name(&self, server: u64) -> Option<String> {
        self.known().members.get(&server).map(|member| member.name.clone())
    }

    fn known(&self) -> MutexGuard<'_, KnownPeers> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KnownPeers {
    fn set_members(&mut self, members: impl IntoIterator<Item = (u64, String)>) {
        let member = |(id, name): (u64, String)| {
            let stranger = self.strangers.remove(&id);
            let certificate = self.members.remove(&id).and_then(|member| member.certificate).or(stranger);
            (id, MemberCertificate { name, certificate })
        };
        self.members = members.into_iter().map(member).collect();
    }

    /// Stores the certificate that a server has shown.
    fn insert(&mut self, server: u64, certificate: &Peer) {
        if let Some(member) = self.members.get_mut(&server) {
            member.certificate = Some(certificate.clone());
            return;
        }
        if self.strangers.len() >= STRANGERS_MAX && !self.strangers.contains_key(&server) {
            self.strangers.pop_first();
        }
        self.strangers.insert(server, certificate.clone());
    }
}

/// The frames of another server, until its certificate is no longer valid.
struct ExpiringFrames {
    incoming: FrameStream,
    over: BoxFuture<'static, io::Error>,
}

impl Stream for ExpiringFrames {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(over) = self.over.poll_unpin(context) {
            // Nothing more is read from it.
            self.over = std::future::pending().boxed();
            return Poll::Ready(Some(Err(over)));
        }
        self.incoming.as_mut().poll_next(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate(number: u8) -> Peer {
        Peer { identity: Default::default(), not_before: 0, not_after: 0, key: [number; 32] }
    }

    #[test]
    fn what_a_server_showed_before_it_was_a_member_is_known_of_the_member() {
        let mut known = KnownPeers::default();
        known.insert(7, &certificate(7));
        known.set_members([(1, "s1".to_owned()), (7, "s7".to_owned())]);
        assert_eq!(known.members[&7].certificate.as_ref().map(|certificate| certificate.key), Some([7; 32]));
        assert!(known.members[&1].certificate.is_none() && known.strangers.is_empty());
    }

    #[test]
    fn no_more_strangers_are_kept_than_may_join() {
        let mut known = KnownPeers::default();
        for server in 0..100 {
            known.insert(server, &certificate(1));
        }
        assert_eq!(known.strangers.len(), STRANGERS_MAX);
        assert!(known.strangers.contains_key(&99), "the newest is kept");
    }
}
