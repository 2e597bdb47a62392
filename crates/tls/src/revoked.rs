//! Revoked servers: their certificates are refused in every handshake, and open connections learn of a revocation.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::watch;
use tokio_rustls::rustls::{self, CertificateError, OtherError};

use crate::Peer;

/// A server was revoked, and its certificate was valid before that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the certificates of server {0} were revoked: it needs a new one (`berth server cert server --server-name {0}`)"
)]
pub struct CertificateRevoked(pub String);

/// The servers whose certificates are good for nothing if they are valid from a second on that is not after that of their
/// revocation. A clone is the same. What was revoked stays so: a certificate that is valid from later on is good again.
#[derive(Debug, Clone)]
pub struct RevokedServers(Arc<watch::Sender<BTreeMap<String, u64>>>);

impl Default for RevokedServers {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(BTreeMap::new())))
    }
}

impl RevokedServers {
    /// These are revoked, too: names, and seconds since 1970. Whether any of that was not known.
    pub fn add(&self, revoked: impl IntoIterator<Item = (String, u64)>) -> bool {
        self.0.send_if_modified(|known| {
            let mut is_new = false;
            for (name, at) in revoked {
                let name = name.to_ascii_lowercase();
                if known.get(&name).is_none_or(|before| *before < at) {
                    known.insert(name, at);
                    is_new = true;
                }
            }
            is_new
        })
    }

    /// All of them: names, and seconds since 1970.
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.0.borrow().clone()
    }

    /// Whether a certificate may be believed, as far as the servers go that it names, and the one that it is used for, if that
    /// is known: one that names none may speak for any that was not revoked.
    ///
    /// # Errors
    /// Which of them was revoked.
    pub fn check(&self, peer: &Peer, used_for: Option<&str>) -> Result<(), CertificateRevoked> {
        let revoked = self.0.borrow();
        let is_revoked =
            |name: &&str| revoked.get(&name.to_ascii_lowercase()).is_some_and(|at| peer.not_before <= *at);
        let found = peer.identity.servers().chain(used_for).find(is_revoked);
        found.map_or(Ok(()), |name| Err(CertificateRevoked(name.to_owned())))
    }

    /// Completes once a check that is made again whenever others are revoked says that something was.
    pub async fn until(&self, check: impl Fn(&Self) -> Result<(), CertificateRevoked>) -> CertificateRevoked {
        let mut changes = self.0.subscribe();
        loop {
            changes.mark_unchanged();
            if let Err(revoked) = check(self) {
                return revoked;
            }
            // The sender is this one's own.
            let _ = changes.changed().await;
        }
    }

    /// The same as [`Self::check`], in the midst of a handshake.
    pub(crate) fn verify(&self, certificate: &[u8]) -> Result<(), rustls::Error> {
        if self.0.borrow().is_empty() {
            return Ok(());
        }
        let revoked = |why| CertificateError::Other(OtherError(Arc::new(why))).into();
        self.check(&Peer::of_der(certificate), None).map_err(revoked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Authority, CertificateRequest, Role, Validity};

    fn peer(name: Option<&str>, not_before: u64) -> Peer {
        let validity = Validity { not_before, not_after: 4_000_000_000 };
        let (authority, _) = Authority::make("global", validity).expect("it is made");
        let role = Role::Server(name.map(str::to_owned));
        let request = CertificateRequest { role, region: "global".into(), hosts: Vec::new(), validity };
        let key = crate::Key::make().expect("it is made");
        Peer::of_der(&authority.sign_for(&request, key.public()).expect("it is signed"))
    }

    #[test]
    fn what_is_valid_from_later_on_is_good_and_nothing_else_of_that_server() {
        let revoked = RevokedServers::default();
        assert!(revoked.add([("S1".to_owned(), 100)]));
        assert!(!revoked.add([("s1".to_owned(), 100), ("s1".to_owned(), 99)]), "it is known, and stays");
        let is_good = |name, not_before, used_for| revoked.check(&peer(name, not_before), used_for).is_ok();
        assert!(!is_good(Some("s1"), 99, None) && !is_good(Some("s1"), 100, None));
        assert!(is_good(Some("s1"), 101, None) && is_good(Some("s2"), 99, None));
        assert!(is_good(None, 99, None) && is_good(None, 99, Some("s2")), "it is nobody's in particular");
        assert!(!is_good(None, 99, Some("S1")) && is_good(None, 101, Some("s1")));
        assert!(revoked.add([("s1".to_owned(), 200)]));
        assert_eq!(revoked.check(&peer(Some("s1"), 101), None), Err(CertificateRevoked("s1".into())));
        assert_eq!(revoked.all(), BTreeMap::from([("s1".to_owned(), 200)]));
    }

    #[tokio::test]
    async fn who_waits_learns_of_it_and_of_what_was_revoked_before() {
        let (revoked, one) = (RevokedServers::default(), peer(Some("s1"), 50));
        let waiting = {
            let (revoked, one) = (revoked.clone(), one.clone());
            tokio::spawn(async move { revoked.until(|all| all.check(&one, None)).await })
        };
        revoked.add([("s2".to_owned(), 100)]);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "another was revoked");
        revoked.add([("s1".to_owned(), 100)]);
        assert_eq!(waiting.await.expect("it ends"), CertificateRevoked("s1".into()));
        assert_eq!(revoked.until(|all| all.check(&one, None)).await, CertificateRevoked("s1".into()));
    }
}
