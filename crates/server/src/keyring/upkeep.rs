//! Background work of the keyring: every server obtains the key-encryption keys that open the root keys of the state; the leader
//! creates the first root key, rotates it in time, and re-encrypts what older keys have encrypted.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use berth_model::{
    Index, KekId, RootKeyId, Timestamp,
    command::{Command, Refusal},
    keyring::{ChangeKeyring, RootKeyState},
    store::Store,
    variable::{ChangeVariable, REKEYED_MAX, RekeyedVariable, VariableKey},
};
use tokio::{sync::watch, time::Instant};

use super::{Keyring, KeyringError};
use crate::{PANICKED, clock, cluster::Cluster, shared::State};

/// Time between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// After something has failed, time until it is tried again.
const AGAIN: Duration = Duration::from_secs(5);
/// Variables that could not be encrypted again are left alone for so long.
const RETRY_SKIPPED_AFTER: Duration = Duration::from_secs(60);
/// Bytes of variables that are encrypted again by one command, about.
const STEP_BYTES: usize = 256 << 10;

/// Looks after the keyring until `stop` says so. The active root key is replaced once it is older than `rotation`.
pub(crate) async fn maintain(
    state: State,
    cluster: Arc<Cluster>,
    rotation: Duration,
    mut stop: watch::Receiver<bool>,
) {
    let keyring = state.keyring.clone();
    let mut upkeep = Upkeep {
        state,
        cluster,
        keyring,
        rotation,
        followed: None,
        reported: Vec::new(),
        last_request: None,
        rotated: None,
        unrotated: String::new(),
        skipped: SkippedKeys::default(),
        undiscarded: false,
        discarded: None,
    };
    let stopped = async move {
        let _ = stop.wait_for(|stop| *stop).await;
    };
    tokio::select! {
        () = upkeep.run() => {}
        () = stopped => {}
    }
}

struct Upkeep {
    state: State,
    cluster: Arc<Cluster>,
    keyring: Arc<Keyring>,
    rotation: Duration,
    /// Where the keyring that was looked at last stood.
    followed: Option<Index>,
    /// Which missing keys were reported.
    reported: Vec<KekId>,
    /// When they were last requested from other servers.
    last_request: Option<Instant>,
    /// When a new root key was tried last.
    rotated: Option<Instant>,
    /// Why there was none, as reported.
    unrotated: String,
    skipped: SkippedKeys,
    /// Whether key-encryption keys that were replaced may still be here.
    undiscarded: bool,
    /// When it was tried last to take one away.
    discarded: Option<Instant>,
}

/// What could not be encrypted again.
#[derive(Default)]
struct SkippedKeys {
    since: Option<Instant>,
    keys: BTreeSet<RootKeyId>,
    variables: BTreeSet<(VariableKey, Index)>,
}

/// Variables that were encrypted again, and what could not be.
#[derive(Default)]
struct RekeyStep {
    rekeyed: Vec<RekeyedVariable>,
    failed: Vec<(VariableKey, Index)>,
    locked: Option<(RootKeyId, KeyringError)>,
}

impl Upkeep {
    async fn run(&mut self) {
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let store = self.state.view().store.clone();
            if store.cluster().id == 0 || store.is_restoring() {
                continue;
            }
            let changed = Some(store.keyring().modify_index());
            if self.followed != changed {
                self.followed = changed;
                self.last_request = None;
                self.keyring.follow(store.keyring());
                self.undiscarded = true;
            }
            self.discard_replaced(&store).await;
            self.find_missing().await;
            if self.cluster.leads() {
                self.rotate_in_time(&store).await;
                // Step by step: each looks at the state that the last one led to.
                while self.cluster.leads() && self.rekey().await {}
            }
        }
    }

    /// Takes away key-encryption keys that were replaced: whoever finds one here later opens nothing with it.
    async fn discard_replaced(&mut self, store: &Store) {
        if !self.undiscarded || self.discarded.is_some_and(|tried| tried.elapsed() < AGAIN) {
            return;
        }
        self.undiscarded = false;
        for id in self.keyring.replaced(store.keyring()) {
            let keyring = self.keyring.clone();
            match tokio::task::spawn_blocking(move || keyring.discard(id)).await {
                Ok(Ok(())) => {
                    tracing::info!(kek = %id, "a key-encryption key that was replaced is taken away")
                }
                Ok(Err(error)) => {
                    let path = self.keyring.path(id);
                    tracing::error!(kek = %id, path = %path.display(), %error, "a replaced key-encryption key stays on disk");
                    (self.undiscarded, self.discarded) = (true, Some(Instant::now()));
                }
                Err(_) => self.undiscarded = true,
            }
        }
    }

    /// Looks for keys that are missing: in files that were put there meanwhile, and with the other servers.
    async fn find_missing(&mut self) {
        let missing = self.keyring.missing();
        if missing.is_empty() && !self.reported.is_empty() {
            tracing::info!("this server has all key-encryption keys again");
        }
        if missing.is_empty() || self.last_request.is_some_and(|request| request.elapsed() < AGAIN) {
            self.reported.retain(|id| missing.contains(id));
            return;
        }
        self.last_request = Some(Instant::now());
        let keyring = self.keyring.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || keyring.read_files()).await {
            tracing::error!(%error, "read key-encryption keys");
        }
        for id in self.keyring.missing() {
            if !self.cluster.ask_for_kek(id).await && !self.reported.contains(&id) {
                let path = self.keyring.path(id);
                tracing::error!(
                    kek = %id,
                    path = %path.display(),
                    "no server has this key-encryption key: variables that depend on it cannot be read, nor identities signed, \
                     until a copy of its file is there, or `berth operator root keyring rotate` makes a new root key"
                );
                self.reported.push(id);
            }
        }
    }

    /// Makes the first root key, and the next one when the active one is old.
    async fn rotate_in_time(&mut self, store: &Store) {
        let is_due = match store.keyring().active() {
            None => true,
            Some(active) => is_due(active.created_at, self.rotation, clock::now()),
        };
        if !is_due || self.rotated.is_some_and(|tried| tried.elapsed() < AGAIN) {
            return;
        }
        self.rotated = Some(Instant::now());
        match self.rotate(store).await {
            Ok(id) => {
                tracing::info!(key = %id, "a new root key is active");
                self.unrotated.clear();
            }
            Err(why) if why != self.unrotated => {
                tracing::warn!(why, "no new root key was made, it is tried again");
                self.unrotated = why;
            }
            Err(_) => {}
        }
    }

    async fn rotate(&self, store: &Store) -> Result<RootKeyId, String> {
        let keyring = self.keyring.clone();
        let keys = store.keyring().clone();
        let made = tokio::task::spawn_blocking(move || keyring.kek_for_new_key(&keys)).await;
        let (kek, is_new) = made.map_err(|_| PANICKED)?.map_err(|error| error.to_string())?;
        if is_new {
            self.cluster.share_kek(&kek).await?;
        }
        let key = self.keyring.root_key(&kek).map_err(|error| error.to_string())?;
        let (id, replaces) = (key.id, store.keyring().active().map(|active| active.id));
        let put = ChangeKeyring::PutKey { key: Box::new(key), replaces, full: false };
        let written = self.state.engine.propose(vec![Command::ChangeKeyring(Box::new(put))]).await;
        let outcomes = written.map_err(|error| error.to_string())?.outcomes;
        match outcomes.into_iter().collect::<Result<(), Refusal>>() {
            // Another server led before, and has made one.
            Ok(()) | Err(Refusal::RootKeyChanged) => Ok(id),
            Err(refusal) => Err(refusal.to_string()),
        }
    }

    /// A replaced key that has encrypted something.
    fn next_to_rekey(&self, store: &Store) -> Option<RootKeyId> {
        let mut keys = store.keyring().keys().filter(|key| key.state == RootKeyState::Rekeying);
        keys.find(|key| !self.skipped.keys.contains(&key.id)).map(|key| key.id)
    }

    /// Encrypts some variables again that a replaced key has encrypted. Whether there may be more.
    async fn rekey(&mut self) -> bool {
        if self.skipped.since.is_some_and(|since| since.elapsed() > RETRY_SKIPPED_AFTER) {
            self.skipped = SkippedKeys::default();
        }
        let store = self.state.view().store.clone();
        let Some(id) = self.next_to_rekey(&store) else { return false };
        let (keyring, skipped) = (self.keyring.clone(), self.skipped.variables.clone());
        let made = tokio::task::spawn_blocking(move || step(&keyring, &store, id, &skipped)).await;
        let Ok(RekeyStep { rekeyed, failed, locked }) = made else { return false };
        if let Some((key, error)) = locked {
            tracing::error!(%key, %error, "variables cannot be encrypted with the new root key");
            self.skipped.keys.insert(key);
        }
        self.skipped.variables.extend(failed);
        if rekeyed.is_empty() {
            // Nothing of it is left but what cannot be encrypted again.
            self.skipped.keys.insert(id);
            self.skipped.since.get_or_insert_with(Instant::now);
            return true;
        }
        let command = Command::ChangeVariable(Box::new(ChangeVariable::Rekey(rekeyed)));
        match self.state.engine.propose(vec![command]).await {
            Ok(_) => true,
            Err(error) => {
                tracing::debug!(%error, "variables were not encrypted with the new root key, it is tried again");
                false
            }
        }
    }
}

/// Whether a key is so old that it is to be replaced; not by a clock that was set back.
fn is_due(created_at: Timestamp, rotation: Duration, now: Timestamp) -> bool {
    let rotation = u64::try_from(rotation.as_nanos()).unwrap_or(u64::MAX);
    now.0.saturating_sub(created_at.0) >= rotation
}

/// Encrypts some variables of a key again.
fn step(
    keyring: &Keyring,
    store: &Store,
    key: RootKeyId,
    skipped: &BTreeSet<(VariableKey, Index)>,
) -> RekeyStep {
    let mut step = RekeyStep::default();
    let mut bytes = 0;
    for variable in store.variables().of_root_key(key) {
        let name = (variable.key.clone(), variable.modify_index);
        if skipped.contains(&name) {
            continue;
        }
        match keyring.rekey(store.keyring(), variable) {
            Ok(rekeyed) => {
                bytes += rekeyed.sealed.len();
                step.rekeyed.push(rekeyed);
            }
            Err(error @ KeyringError::DamagedVariable { .. }) => {
                tracing::error!(%error, "a variable is left as it is");
                step.failed.push(name);
            }
            Err(error) => {
                step.locked = Some((key, error));
                break;
            }
        }
        if step.rekeyed.len() >= REKEYED_MAX || bytes >= STEP_BYTES {
            break;
        }
    }
    step
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_replaced_when_it_is_old_and_not_when_the_clock_was_set_back() {
        let day = Duration::from_secs(86_400);
        let at = |seconds: u64| Timestamp(seconds * 1_000_000_000);
        assert!(!is_due(at(10), day, at(86_409)) && is_due(at(10), day, at(86_410)));
        assert!(!is_due(at(86_410), day, at(10)));
        assert!(!is_due(at(0), Duration::MAX, at(u32::MAX.into())));
    }
}
