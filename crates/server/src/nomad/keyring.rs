//! The keyring: which root keys there are, a new one in the place of the active one, and the end of one that is not needed.

use axum::{body::Body, response::Response};
use berth_api::http::{KeyringKey, KeyringRotated};
use berth_model::{
    RootKeyId,
    command::Command,
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
    keyring::KeyringError,
};

const ALGORITHM: &str = "aes256-gcm";

/// `GET /v1/operator/keyring/keys`
pub(super) async fn list(call: Call) -> Reply {
    let index = |view: &CallerView| view.root_keys().modify_index().max(view.variables_index());
    block::answer(&call, &[WatchKey::Keyring, WatchKey::Variables], index, async |view| {
        let keys = view.root_keys().keys().map(|key| shown(&call, &view, key));
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
    let view = call.view();
    let key = view.root_keys().key(id).ok_or_else(|| Failure::not_found("root key not found"))?;
    let mut response = reply::json(&call.query, &KeyringRotated { key: shown(&call, &view, key)? })?;
    reply::stamp(response.headers_mut(), index, &view);
    Ok(response)
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

async fn change(call: &Call, change: ChangeKeyring) -> Result<berth_model::Index, Failure> {
    call.propose(Command::ChangeKeyring(Box::new(change))).await
}

fn shown(call: &Call, view: &CallerView, key: &RootKey) -> Result<KeyringKey, Denied> {
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
