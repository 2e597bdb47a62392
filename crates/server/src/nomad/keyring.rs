//! The keyring: listing root keys, rotating the active one, and deleting unused ones.

use std::{collections::BTreeSet, sync::Arc};

use axum::{body::Body, response::Response};
use berth_api::{
    failpoint,
    http::{KeyringKey, KeyringRewrapped, KeyringRotated},
};
use berth_model::{
    Index, KekId, RootKeyId,
    command::{Command, Refusal},
    keyring::{ChangeKeyring, RootKey},
};
use hyper::StatusCode;

use crate::{
    WatchKey,
    access::{CallerView, Denied},
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        list::array_of,
        reply,
    },
    keyring::{Kek, KeyringError},
};

/// The version of log entries from which on root keys can be wrapped again.
const REWRAPS_SINCE: u8 = 6;
/// How often it is tried again because another root key was made meanwhile.
const REWRAPPED_AGAIN_MAX: usize = 3;
const ALGORITHM: &str = "aes256-gcm";

/// `GET /v1/operator/keyring/keys`
pub(super) async fn list(call: Call) -> Reply {
    let index = |view: &CallerView| view.root_keys().modify_index().max(view.variables_index());
    block::answer(&call, &[WatchKey::Keyring, WatchKey::Variables], index, async |view| {
        let keys = view.root_keys().keys().map(|key| to_api(&call, &view, key));
        let keys = keys.collect::<Result<Vec<KeyringKey>, Denied>>()?;
        array_of(&call, keys, |key, items| items.push(key), |key| serde_json::to_value(key).ok()).await
    })
    .await
}

/// `PUT /v1/operator/keyring/rotate`
pub(super) async fn rotate(call: Call) -> Reply {
    let full = call.query.flag("full", false)?;
    let view = call.view();
    let (keyring, keys) = (call.keyring().clone(), view.root_keys().clone());
    let (kek, is_new) = call.api.heavy.run(move || keyring.kek_for_new_key(&keys)).await?;
    if is_new {
        let shared = call.share_kek(&kek).await;
        shared.map_err(|why| Failure::new(StatusCode::SERVICE_UNAVAILABLE, why))?;
    }
    let key = call.keyring().root_key(&kek)?;
    let (id, replaces) = (key.id, view.root_keys().active().map(|active| active.id));
    let index = change(&call, ChangeKeyring::PutKey { key: Box::new(key), replaces, full }).await?;
    let view = call.view_since(index)?;
    let key = view.root_keys().key(id).ok_or_else(|| Failure::not_found("root key not found"))?;
    let mut response = reply::json(&call.query, &KeyringRotated { key: to_api(&call, &view, key)? })?;
    reply::stamp(response.headers_mut(), index, &view);
    Ok(response)
}

/// `PUT /v1/operator/keyring/rewrap`: step by step, so that whoever is killed between two of them has changed nothing but what the
/// next try takes up. The new key-encryption key is on the disks of most servers before anything is wrapped with it; all root keys
/// change in one entry of the log; and the old key is taken away by each server that has applied that.
pub(super) async fn rewrap(call: Call) -> Reply {
    let version = call.proposer().log_version();
    if version < REWRAPS_SINCE {
        let why = format!(
            "this takes log entries of version {REWRAPS_SINCE}, and not all servers of this cluster know them: it writes version \
             {version} until all are upgraded"
        );
        return Err(Failure::new(StatusCode::CONFLICT, why));
    }
    let (keyring, keys) = (call.keyring().clone(), call.view().root_keys().clone());
    let made = move || {
        keys.keys().try_for_each(|key| keyring.check(key)).and_then(|()| keyring.kek_to_rewrap_with(&keys))
    };
    let kek = call.api.heavy.run(made).await?;
    failpoint("rewrap", b"kept");
    // Others may have it by now, which is why the next try uses it.
    let shared = call.share_kek(&kek).await;
    shared.map_err(|why| Failure::new(StatusCode::SERVICE_UNAVAILABLE, why))?;
    failpoint("rewrap", b"shared");
    let (index, retired, key) = rewrap_with(&call, &kek).await?;
    failpoint("rewrap", b"committed");
    let keyring = call.keyring().clone();
    if let Err(error) = call.api.heavy.run(move || keyring.settle_rewrap()).await {
        tracing::warn!(%error, "record that root keys are wrapped with the new key");
    }
    let view = call.view_since(index)?;
    let key = view.root_keys().key(key).ok_or_else(|| Failure::not_found("root key not found"))?;
    let answer = KeyringRewrapped {
        key: to_api(&call, &view, key)?,
        replaced: retired.iter().map(ToString::to_string).collect(),
    };
    let mut response = reply::json(&call.query, &answer)?;
    reply::stamp(response.headers_mut(), index, &view);
    Ok(response)
}

/// Where it was committed, the key-encryption keys that were replaced, and the new root key.
async fn rewrap_with(call: &Call, kek: &Arc<Kek>) -> Result<(Index, BTreeSet<KekId>, RootKeyId), Failure> {
    for _ in 0..REWRAPPED_AGAIN_MAX {
        let keys = call.view().root_keys().clone();
        let replaced = keys.keys().map(|key| key.wrapped_by).collect();
        let (keyring, kek) = (call.keyring().clone(), kek.clone());
        let change = call.api.heavy.run(move || keyring.rewrap(&keys, &kek)).await?;
        let ChangeKeyring::Rewrap { key, .. } = &change else { break };
        let key = key.id;
        match call.proposer().decide(Command::ChangeKeyring(Box::new(change))).await? {
            Ok(index) => return Ok((index, replaced, key)),
            // Another root key was made meanwhile.
            Err(Refusal::RootKeyChanged) => {}
            Err(refusal) => return Err(refusal.into()),
        }
    }
    Err(Refusal::RootKeyChanged.into())
}

/// `DELETE /v1/operator/keyring/key/:id`
pub(super) async fn remove(call: Call) -> Reply {
    let id = call.param("id").parse::<RootKeyId>();
    let id = id.map_err(|error| Failure::bad_request(format!("root key: {error}")))?;
    let index = change(&call, ChangeKeyring::RemoveKey(id)).await?;
    let mut response = Response::new(Body::empty());
    reply::stamp(response.headers_mut(), index, &call.view());
    Ok(response)
}

async fn change(call: &Call, change: ChangeKeyring) -> Result<Index, Failure> {
    call.propose(Command::ChangeKeyring(Box::new(change))).await
}

fn to_api(call: &Call, view: &CallerView, key: &RootKey) -> Result<KeyringKey, Denied> {
    Ok(KeyringKey {
        key_id: key.id.to_string(),
        algorithm: ALGORITHM.to_owned(),
        state: key.state.as_str().to_owned(),
        create_time: key.created_at.0,
        create_index: key.create_index.0,
        modify_index: key.modify_index.0,
        variables: view.encrypted_with(key.id)? as u64,
        key_encryption_key: key.wrapped_by.to_string(),
        readable: call.keyring().can_open(key),
    })
}

impl From<KeyringError> for Failure {
    fn from(error: KeyringError) -> Self {
        let status = match error {
            KeyringError::NoKey | KeyringError::Locked { .. } => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}
