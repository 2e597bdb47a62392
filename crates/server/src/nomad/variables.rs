//! Variables: encrypted here before they are proposed, and decrypted here for callers that may read them.

use std::ops::Bound;

use axum::{body::Body, response::Response};
use berth_api::http::{Variable, VariableMetadata};
use berth_model::{
    Index, RootKeyId, Timestamp,
    command::{Command, Refusal},
    namespace::NAMESPACE_DEFAULT,
    variable::{ChangeVariable, VARIABLE_BYTES_MAX, Variable as Stored, VariableKey, check_variable_path},
};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::Value;

use super::namespaces::ALL;
use crate::{
    WatchKey,
    access::{CallerView, ListedVariable},
    http::{
        block,
        call::{Call, Reply},
        failure::Failure,
        list::{Listing, Span, list as listed},
        reply,
    },
    keyring::VariableItems,
};

/// How often a write is encrypted again because the active root key was replaced meanwhile.
const SEALED_AGAIN_MAX: usize = 3;

/// Parameters with which clients acquire, renew or release a lock.
const LOCK_OPERATIONS: [&str; 4] = ["lock-acquire", "lock-operation", "lock-release", "lock-renew"];

/// `GET /v1/vars`
pub(super) async fn list(call: Call) -> Reply {
    let namespace = Some(call.namespace()).filter(|name| *name != ALL).map(str::to_owned);
    let prefix = call.query.text("prefix").unwrap_or_default().to_owned();
    let index = |view: &CallerView| view.variables_index();
    listed(&call, &[WatchKey::Variables], index, Variables { namespace, prefix }).await
}

/// Those of a namespace, or of all, whose paths begin so.
#[derive(Clone)]
struct Variables {
    namespace: Option<String>,
    prefix: String,
}

impl Listing for Variables {
    type Key = VariableKey;
    type Row<'v> = ListedVariable<'v>;

    fn span(&self) -> Span<VariableKey> {
        let Some(namespace) = &self.namespace else { return (Bound::Unbounded, Bound::Unbounded) };
        let first = VariableKey::new(namespace, &self.prefix);
        // The first key of what would be the next namespace.
        (Bound::Included(first), Bound::Excluded(VariableKey::new(&format!("{namespace}\0"), "")))
    }

    fn rows<'v>(
        &self,
        view: &'v CallerView,
        span: Span<VariableKey>,
    ) -> impl DoubleEndedIterator<Item = (VariableKey, Option<ListedVariable<'v>>)> {
        view.variables(span).map(|variable| (variable.key().clone(), Some(variable)))
    }

    fn has(&self, variable: &ListedVariable<'_>) -> bool {
        variable.key().path.starts_with(&self.prefix) && variable.listed().is_some()
    }

    fn whole(&self, view: &CallerView, variable: &ListedVariable<'_>) -> Value {
        serde_json::to_value(self.item(view, variable)).unwrap_or_default()
    }

    fn item<'v>(&self, _: &'v CallerView, variable: &ListedVariable<'v>) -> impl Serialize {
        variable.listed().map(metadata).unwrap_or_default()
    }
}

/// Variables of a namespace, or of all if it is `*`, whose paths begin so; each may be one that the caller does not see.
pub(super) fn beginning_with<'v>(
    view: &'v CallerView,
    namespace: &str,
    prefix: &str,
) -> impl Iterator<Item = ListedVariable<'v>> + use<'v> {
    let namespace = Some(namespace).filter(|name| *name != ALL).map(str::to_owned);
    let prefix = prefix.to_owned();
    let span = Variables { namespace, prefix: prefix.clone() }.span();
    view.variables(span).filter(move |variable| variable.key().path.starts_with(&prefix))
}

/// `GET /v1/var/:path`
pub(super) async fn read(call: Call) -> Reply {
    let key = key(&call, call.namespace())?;
    // A caller who may not read it is refused at once, and does not wait for a change of it.
    call.view().variable(&key)?;
    let index = |view: &CallerView| match view.variable(&key) {
        Ok(Some(variable)) => variable.modify_index,
        _ => view.variables_index(),
    };
    let watched = [WatchKey::Variable(key.clone())];
    block::answer(&call, &watched, index, async |view| {
        let not_found = || Failure::not_found("variable not found");
        let variable = view.variable(&key)?.ok_or_else(not_found)?.clone();
        reply::json(&call.query, &whole(&call, &view, variable).await?)
    })
    .await
}

/// `PUT /v1/var/:path`
pub(super) async fn put(mut call: Call) -> Reply {
    refuse_locks(&call)?;
    let request: Variable = call.json().await?;
    let namespace = match (call.query.text("namespace"), &*request.namespace) {
        (None, "") => NAMESPACE_DEFAULT,
        (Some(one), "") | (None, one) => one,
        (Some(one), other) if one == other => one,
        (Some(one), other) => {
            let text = format!(
                "the query names namespace {one:?}, the body a variable in namespace {other:?}: leave one of them out"
            );
            return Err(Failure::bad_request(text));
        }
    };
    let key = key(&call, namespace)?;
    if !request.path.is_empty() && *request.path != *key.path {
        let text = format!("the body names path {:?}, the request {:?}", request.path, key.path);
        return Err(Failure::bad_request(text));
    }
    let items = request.items.unwrap_or_default();
    check_items(&items)?;
    let only_if = call.query.number("cas")?.map(Index);
    let before = call.view().variable_to_change(&key).map(metadata);
    let index = match write(&call, &key, &items, only_if).await? {
        Ok(index) => index,
        Err(refusal) => return changed_meanwhile(&call, &key, refusal).await,
    };
    let view = call.view();
    let variable = view.variable_to_change(&key).filter(|variable| variable.modify_index == index);
    let reported = variable.map_or_else(|| overtaken(&key, before, index), metadata);
    let mut response = reply::json(&call.query, &with_items(reported, Some(items)))?;
    reply::stamp(response.headers_mut(), index, &view);
    Ok(response)
}

/// `DELETE /v1/var/:path`
pub(super) async fn delete(call: Call) -> Reply {
    refuse_locks(&call)?;
    let key = key(&call, call.namespace())?;
    let only_if = call.query.number("cas")?.map(Index);
    let change = ChangeVariable::Delete(key.clone(), only_if);
    match call.proposer().decide(Command::ChangeVariable(Box::new(change))).await? {
        Ok(index) => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NO_CONTENT;
            reply::stamp(response.headers_mut(), index, &call.view());
            Ok(response)
        }
        Err(refusal) => changed_meanwhile(&call, &key, refusal).await,
    }
}

/// Encrypts the items with the key that is active, and proposes them; again if another one is active by then.
async fn write(
    call: &Call,
    key: &VariableKey,
    items: &VariableItems,
    only_if: Option<Index>,
) -> Result<Result<Index, Refusal>, Failure> {
    // Checked before anything is encrypted: that takes time, and the caller may not be allowed to write.
    call.access().require_variable(key, crate::access::Capability::VariablesWrite)?;
    let mut tries = 0..SEALED_AGAIN_MAX;
    loop {
        let (keyring, keys) = (call.keyring().clone(), call.view().root_keys().clone());
        let (sealed_key, sealed_items) = (key.clone(), items.clone());
        let sealing = move || keyring.seal(&keys, &sealed_key, &sealed_items);
        let (root_key, sealed) = call.api.heavy.run(sealing).await?;
        let variable = Box::new(sealed_variable(key.clone(), root_key, sealed));
        let change = ChangeVariable::Put(variable, only_if);
        match call.proposer().decide(Command::ChangeVariable(Box::new(change))).await? {
            Err(Refusal::RootKeyNotActive(_)) if tries.next().is_some() => {}
            outcome => return Ok(outcome),
        }
    }
}

fn sealed_variable(key: VariableKey, root_key: RootKeyId, sealed: Vec<u8>) -> Stored {
    let (created_at, modified_at) = (Timestamp(0), Timestamp(0));
    let (create_index, modify_index) = (Index(0), Index(0));
    Stored { key, root_key, sealed, created_at, modified_at, create_index, modify_index }
}

/// The answer to a write that came too late: the variable as it is, with what is in it for those who may read that.
async fn changed_meanwhile(call: &Call, key: &VariableKey, refusal: Refusal) -> Reply {
    if !matches!(refusal, Refusal::VariableChanged(..)) {
        return Err(refusal.into());
    }
    let view = call.view();
    let current = match view.variable(key) {
        Ok(Some(variable)) => whole(call, &view, variable.clone()).await?,
        _ => match view.variable_to_change(key) {
            Some(variable) => with_items(metadata(variable), None),
            None => with_items(unwritten(key), None),
        },
    };
    let mut response = reply::whole(serde_json::to_vec(&current).unwrap_or_default().into());
    *response.status_mut() = StatusCode::CONFLICT;
    reply::stamp(response.headers_mut(), view.variables_index(), &view);
    Ok(response)
}

/// The variable that a request names.
fn key(call: &Call, namespace: &str) -> Result<VariableKey, Failure> {
    if namespace == ALL {
        return Err(Failure::bad_request(
            "a variable is in one namespace: `*` stands for all, and names none",
        ));
    }
    let path = call.param("path");
    check_variable_path(path).map_err(|why| {
        let cut: String = path.chars().take(64).collect();
        Failure::bad_request(format!("variable {cut:?}: {why}"))
    })?;
    Ok(VariableKey::new(namespace, path))
}

fn check_items(items: &VariableItems) -> Result<(), Failure> {
    let bytes: usize = items.iter().map(|(name, value)| name.len() + value.len()).sum();
    if items.is_empty() {
        return Err(Failure::bad_request("a variable needs items: name at least one in Items"));
    }
    if items.contains_key("") {
        return Err(Failure::bad_request("an item of a variable has no name"));
    }
    if bytes > VARIABLE_BYTES_MAX {
        let text = format!(
            "the names and values of the items have {bytes} bytes, a variable has at most {VARIABLE_BYTES_MAX}: write several"
        );
        return Err(Failure::bad_request(text));
    }
    Ok(())
}

/// A client that was answered as if nothing had been asked for would believe that it holds the lock.
fn refuse_locks(call: &Call) -> Result<(), Failure> {
    let request = LOCK_OPERATIONS.iter().find(|name| call.query.all(name).next().is_some());
    request.map_or(Ok(()), |name| {
        let text =
            format!("{name}: Berth has no locks on variables; `cas` refuses a write after another one");
        Err(Failure::new(StatusCode::NOT_IMPLEMENTED, text))
    })
}

/// A variable with what is in it.
async fn whole(call: &Call, view: &CallerView, variable: Stored) -> Result<Variable, Failure> {
    let (keyring, keys, response) = (call.keyring().clone(), view.root_keys().clone(), metadata(&variable));
    let items = call.api.heavy.run(move || keyring.unseal(&keys, &variable)).await?;
    Ok(with_items(response, Some(items)))
}

pub(in crate::nomad) fn metadata(variable: &Stored) -> VariableMetadata {
    VariableMetadata {
        namespace: variable.key.namespace.to_string(),
        path: variable.key.path.to_string(),
        create_index: variable.create_index.0,
        modify_index: variable.modify_index.0,
        create_time: variable.created_at.0,
        modify_time: variable.modified_at.0,
    }
}

/// One that was written at an index, and that somebody else has written or deleted since: what is known of it.
fn overtaken(key: &VariableKey, before: Option<VariableMetadata>, index: Index) -> VariableMetadata {
    let first = || VariableMetadata { create_index: index.0, ..unwritten(key) };
    VariableMetadata { modify_index: index.0, modify_time: 0, ..before.unwrap_or_else(first) }
}

/// One that is not there.
fn unwritten(key: &VariableKey) -> VariableMetadata {
    let (namespace, path) = (key.namespace.to_string(), key.path.to_string());
    VariableMetadata { namespace, path, ..VariableMetadata::default() }
}

fn with_items(metadata: VariableMetadata, items: Option<VariableItems>) -> Variable {
    let VariableMetadata { namespace, path, create_index, modify_index, create_time, modify_time } = metadata;
    Variable { namespace, path, create_index, modify_index, create_time, modify_time, items }
}
