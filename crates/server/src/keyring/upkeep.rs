//! Background work of the keyring: every server obtains the key-encryption keys that open the root keys of the state; the leader
//! creates the first root key, rotates it in time, and re-encrypts what older keys have encrypted.

use std::{collections::BTreeSet, io, sync::Arc, time::Duration};

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

/// Time between two rounds.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// After something has failed, time until it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Variables that could not be encrypted again are left alone for so long.
const RETRY_SKIPPED_AFTER: Duration = Duration::from_secs(60);
/// Bytes of variables that are encrypted again by one command, about.
const STEP_BYTES: usize = 256 << 10;

/// Runs until `stop` says so. The active root key is replaced once it is older than `rotation`.
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
        followed_index: None,
        reported: Vec::new(),
        last_request: None,
        last_rotation: None,
        rotation_error: String::new(),
        skipped: SkippedKeys::default(),
        may_have_replaced: false,
        last_discard_failure: None,
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
    /// The index of the root keys that the keyring followed last.
    followed_index: Option<Index>,
    /// Which missing keys were reported.
    reported: Vec<KekId>,
    /// When they were last requested from other servers.
    last_request: Option<Instant>,
    /// When a rotation was last attempted.
    last_rotation: Option<Instant>,
    /// Why the last one failed, as logged.
    rotation_error: String,
    skipped: SkippedKeys,
    /// Whether key-encryption keys that were replaced may still be here.
    may_have_replaced: bool,
    /// When deleting one last failed.
    last_discard_failure: Option<Instant>,
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
            if self.followed_index != changed {
                self.followed_index = changed;
                self.last_request = None;
                self.keyring.follow(store.keyring());
                self.may_have_replaced = true;
            }
            self.discard_replaced(&store).await;
            self.find_missing().await;
            if self.cluster.leads() {
                self.rotate_in_time(&store).await;
                // Step by step, each on the state that the previous one led to.
                while self.cluster.leads() && self.rekey().await {}
            }
        }
    }

    /// Deletes key-encryption keys that were replaced, so that a later copy of this disk opens nothing with them.
    async fn discard_replaced(&mut self, store: &Store) {
        if !self.may_have_replaced || self.last_discard_failure.is_some_and(|at| at.elapsed() < RETRY_AFTER) {
            return;
        }
        self.may_have_replaced = false;
        for id in self.keyring.replaced_keks(store.keyring()) {
            let keyring = self.keyring.clone();
            let discarded = tokio::task::spawn_blocking(move || keyring.discard(id)).await;
            let outcome = discarded.unwrap_or_else(|_| Err(io::Error::other(PANICKED)));
            match outcome {
                Ok(()) => {
                    tracing::info!(kek = %id, "deleted a key-encryption key that was replaced")
                }
                Err(error) => {
                    let path = self.keyring.path(id);
                    tracing::error!(kek = %id, path = %path.display(), %error, "a replaced key-encryption key stays on disk");
                    (self.may_have_replaced, self.last_discard_failure) = (true, Some(Instant::now()));
                }
            }
        }
    }

    /// Looks for keys that are missing: in files that were put there meanwhile, and with the other servers.
    async fn find_missing(&mut self) {
        let missing = self.keyring.missing_keks();
        if missing.is_empty() && !self.reported.is_empty() {
            tracing::info!("this server has all key-encryption keys again");
        }
        if missing.is_empty() || self.last_request.is_some_and(|request| request.elapsed() < RETRY_AFTER) {
            self.reported.retain(|id| missing.contains(id));
            return;
        }
        self.last_request = Some(Instant::now());
        let keyring = self.keyring.clone();
        if let Ok(Err(error)) = tokio::task::spawn_blocking(move || keyring.read_files()).await {
            tracing::error!(%error, "could not read key-encryption keys");
        }
        for id in self.keyring.missing_keks() {
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
        if !is_due || self.last_rotation.is_some_and(|at| at.elapsed() < RETRY_AFTER) {
            return;
        }
        self.last_rotation = Some(Instant::now());
        match self.rotate(store).await {
            Ok(id) => {
                tracing::info!(key = %id, "a new root key is active");
                self.rotation_error.clear();
            }
            Err(why) if why != self.rotation_error => {
                tracing::warn!(why, "no new root key was made, it is tried again");
                self.rotation_error = why;
            }
            Err(_) => {}
        }
    }

    async fn rotate(&self, store: &Store) -> Result<RootKeyId, String> {
        let keyring = self.keyring.clone();
        let keys = store.keyring().clone();
        let kek = tokio::task::spawn_blocking(move || keyring.kek_for_new_key(&keys)).await;
        let (kek, is_new) = kek.map_err(|_| PANICKED)?.map_err(|error| error.to_string())?;
        if is_new {
            self.cluster.share_kek(&kek).await?;
        }
        let key = self.keyring.root_key(&kek).map_err(|error| error.to_string())?;
        let (id, replaces) = (key.id, store.keyring().active().map(|active| active.id));
        let put = ChangeKeyring::PutKey { key: Box::new(key), replaces, full: false };
        let written = self.state.engine.propose(vec![Command::ChangeKeyring(Box::new(put))]).await;
        let outcomes = written.map_err(|error| error.to_string())?.outcomes;
        match outcomes.into_iter().collect::<Result<(), Refusal>>() {
            // Another server led meanwhile, and has made one.
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
        let step = tokio::task::spawn_blocking(move || step(&keyring, &store, id, &skipped)).await;
        let Ok(RekeyStep { rekeyed, failed, locked }) = step else { return false };
        if let Some((key, error)) = locked {
            tracing::error!(%key, %error, "variables cannot be encrypted with the new root key");
            self.skipped.keys.insert(key);
            self.skipped.since.get_or_insert_with(Instant::now);
        }
        self.skipped.variables.extend(failed);
        if rekeyed.is_empty() {
            // All that is left of this key cannot be encrypted again.
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
