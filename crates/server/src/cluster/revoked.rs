//! Revoked servers: read from the state as it is applied, stored in a file so that a restarted server rejects them before it has
//! the state, and sent to agents.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use berth_model::store::Joins;
use berth_tls::{RevokedServers, replace_file};
use tokio::{sync::watch, time::Instant};

use crate::{PANICKED, agents::Registry, net::Secure, shared::State};

/// In the data directory.
const FILE: &str = "revoked-servers.json";
/// Time between two checks of the state.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// After the file could not be written, time until that is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// The revoked servers as of the last run, to be used before there is a state.
///
/// # Errors
/// When the file cannot be read or understood, with what helps.
pub(crate) fn load(data_dir: &Path) -> Result<RevokedServers, String> {
    let path = data_dir.join(FILE);
    let failed = |why: String| {
        format!("{}: {why}: remove it if it is damaged: it is written again from the log", path.display())
    };
    let revoked = RevokedServers::default();
    match std::fs::read(&path) {
        Ok(bytes) => {
            let all: BTreeMap<String, u64> =
                serde_json::from_slice(&bytes).map_err(|error| failed(error.to_string()))?;
            revoked.add(all);
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error.to_string())),
    }
    Ok(revoked)
}

/// Takes revocations over from the state, stores them in the file and sends them to agents, until `stop` says so.
pub(crate) async fn follow(
    state: State,
    secure: Arc<Secure>,
    agents: Arc<Registry>,
    data_dir: PathBuf,
    mut stop: watch::Receiver<bool>,
) {
    let mut stored = secure.revoked().all();
    let mut own = OwnCertificate { name: state.server.name.clone(), reported: false };
    let mut write_from = Instant::now();
    loop {
        if secure.revoked().add(of(state.view().store.acl().joins())) {
            tracing::warn!(servers = ?secure.revoked().all(), "certificates of servers were revoked: their connections end");
        }
        let all = secure.revoked().all();
        agents.set_revoked(&all);
        if all != stored && Instant::now() >= write_from {
            match store(&data_dir, &all).await {
                Ok(()) => stored = all,
                Err(error) => {
                    tracing::error!(%error, "could not store which servers were revoked; retrying");
                    write_from = Instant::now() + RETRY_AFTER;
                }
            }
        }
        own.check(&secure);
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            _ = stop.wait_for(|stop| *stop) => return,
        }
    }
}

/// Names, and seconds since 1970: the resolution of times in certificates.
fn of(joins: &Joins) -> impl Iterator<Item = (String, u64)> {
    joins.revoked_servers().map(|revoked| (revoked.name, revoked.at.0 / NANOS_PER_SEC))
}

async fn store(data_dir: &Path, all: &BTreeMap<String, u64>) -> Result<(), String> {
    let path = data_dir.join(FILE);
    let text = serde_json::to_string(all).map_err(|error| error.to_string())?;
    let outcome = tokio::task::spawn_blocking(move || replace_file(&path, &text)).await;
    outcome.map_err(|_| PANICKED.to_owned())?.map_err(|error| error.to_string())
}

/// Whether this server's own certificate was revoked.
struct OwnCertificate {
    name: String,
    reported: bool,
}

impl OwnCertificate {
    /// Logs that the certificate is revoked, once, and that it was replaced, once.
    fn check(&mut self, secure: &Secure) {
        let is_revoked = secure.revoked().check(&secure.own(), Some(&self.name)).is_err();
        if std::mem::replace(&mut self.reported, is_revoked) == is_revoked {
            return;
        }
        if is_revoked {
            tracing::error!(
                name = self.name,
                "the certificate of this server was revoked: no other server and no agent that knows of it speaks with it; make it a \
                 new one with `berth server cert server --server-name {}`, put it in the place of the old one, and send this server SIGHUP",
                self.name
            );
        } else {
            tracing::info!("this server has a certificate again that was not revoked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_revoked_is_known_after_a_restart_and_damage_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(load(dir.path()).expect("nothing is there").all(), BTreeMap::new());
        let all = BTreeMap::from([("s1".to_owned(), 7), ("s2.example".to_owned(), 8)]);
        store(dir.path(), &all).await.expect("it is written");
        assert_eq!(load(dir.path()).expect("it is read").all(), all);
        std::fs::write(dir.path().join(FILE), "{\"s1\": ").expect("it is written");
        let why = load(dir.path()).expect_err("it is damaged");
        assert!(why.contains(FILE) && why.contains("remove it if it is damaged"), "{why}");
    }
}
