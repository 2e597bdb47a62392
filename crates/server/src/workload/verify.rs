//! Verifies tokens.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use berth_api::agent::TOKEN_BYTES_MAX;
use berth_model::{AllocId, JobKey, Timestamp, job::IDENTITY_AUDIENCE, store::Store};
use sha2::{Digest, Sha256};

use super::{TaskName, claims::Claims, job_known_as, jwt, keys};

/// Tokens of which it is known that their signature is right; when there are more, they are verified again.
const KNOWN_MAX: usize = 16_384;
/// How far the clock of the server that signed may be ahead. The end of a token is taken at its word.
const CLOCK_SKEW_SECS: u64 = 30;
const NANOS_PER_SEC: u64 = 1_000_000_000;

/// A task that has shown its token.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Workload {
    /// The allocation that it runs in.
    pub alloc: AllocId,
    /// As whom policies know it.
    pub name: TaskName,
    /// What the token says of itself as a whole.
    pub subject: String,
    /// The token's own id.
    pub id: String,
    /// When it was signed.
    pub issued_at: Timestamp,
    /// From when on it is nothing any more.
    pub expires_at: Timestamp,
    not_before: Timestamp,
    kid: String,
}

/// Whether what is shown is meant to be such a token: no token of another kind looks like one.
pub(crate) fn is_token(secret: &str) -> bool {
    secret.starts_with("eyJ") && secret.bytes().filter(|byte| *byte == b'.').count() == 2
}

impl Workload {
    /// Whether the token stands, as of a state and a time: its key is known, it has not expired, and its allocation has not
    /// ended.
    ///
    /// # Errors
    /// Why it does not.
    pub fn check(&self, store: &Store, now: Timestamp) -> Result<(), &'static str> {
        if self.expires_at <= now {
            return Err("it has expired");
        }
        if self.not_before.0.saturating_sub(CLOCK_SKEW_SECS * NANOS_PER_SEC) > now.0 {
            return Err("it is not valid yet: are the servers' clocks right?");
        }
        keys::public_key(store, &self.kid).ok_or("its key is not known, or not any more")?;
        let row = store.alloc(self.alloc).map(|(_, row)| row).filter(|row| !row.is_terminal());
        let row = row.ok_or("its allocation has ended")?;
        let (job, group) = store.job_of(row).ok_or("its allocation has ended")?;
        let has_task = group.tasks.iter().any(|task| task.name == self.name.task);
        let job_named = &self.name.job;
        let is_same = *job.key.namespace == *job_named.namespace && job_known_as(job) == &*job_named.id;
        if !is_same || group.name != self.name.group || !has_task {
            return Err("it names another task than its allocation has");
        }
        Ok(())
    }

    /// Reads a token whose signature is right, and whose allocation is known.
    fn read(text: &str, store: &Store) -> Result<Self, &'static str> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err("it is too long");
        }
        let (claims, kid): (Claims, String) = jwt::decode(text, |kid| keys::public_key(store, kid))?;
        if !claims.aud.iter().any(|audience| audience == IDENTITY_AUDIENCE) {
            return Err("it is meant for others: its audience is not nomadproject.io");
        }
        let alloc: AllocId = claims.nomad_allocation_id.parse().map_err(|_| "it names no allocation")?;
        let row = store.alloc(alloc).map(|(_, row)| row).ok_or("its allocation has ended")?;
        let (_, group) = store.job_of(row).ok_or("its allocation has ended")?;
        let at = |secs: u64| secs.checked_mul(NANOS_PER_SEC).map(Timestamp).ok_or("its times make no sense");
        Ok(Self {
            alloc,
            name: TaskName {
                job: JobKey::new(&claims.nomad_namespace, &claims.nomad_job_id),
                group: group.name.clone(),
                task: claims.nomad_task,
            },
            subject: claims.sub,
            id: claims.jti,
            issued_at: at(claims.iat)?,
            expires_at: at(claims.exp)?,
            not_before: at(claims.nbf.max(claims.iat))?,
            kid,
        })
    }
}

/// A cache of verified tokens, by their hashes.
#[derive(Debug, Default)]
pub(crate) struct Workloads(Mutex<HashMap<[u8; 32], Arc<Workload>>>);

impl Workloads {
    /// Whether the signature of a token was verified before.
    pub fn has_seen(&self, token: &str) -> bool {
        let hash: [u8; 32] = Sha256::digest(token).into();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&hash)
    }

    /// Who shows a token, as of a state and a time.
    ///
    /// # Errors
    /// Why it is refused.
    pub fn identify(
        &self,
        token: &str,
        store: &Store,
        now: Timestamp,
    ) -> Result<Arc<Workload>, &'static str> {
        let hash: [u8; 32] = Sha256::digest(token).into();
        let cached = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&hash).cloned();
        let workload = match cached {
            Some(workload) => workload,
            None => {
                let workload = Arc::new(Workload::read(token, store)?);
                let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if cache.len() >= KNOWN_MAX {
                    cache.clear();
                }
                cache.insert(hash, workload.clone());
                workload
            }
        };
        workload.check(store, now).map(|()| workload)
    }
}
