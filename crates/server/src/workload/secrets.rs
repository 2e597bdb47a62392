//! Reads the variables that a task receives as secrets: those that its job names, as far as its identity may read them.

use std::collections::BTreeMap;

use berth_api::agent::{ReadSecrets, SecretItems, SecretsRead};
use berth_model::{
    NodeId,
    job::{SECRETS_MAX, Secret},
    variable::VariableKey,
};

use super::placed_task::{PlacedTask, TaskRefusal, TaskRequest};
use crate::{
    access::{Capability, Realm, Rights},
    shared::{State, View},
};

/// Requests for secrets of tasks that are answered for one node a second on average, twice as many at once.
pub(crate) const READ_A_SECOND_MAX: u32 = 100;

/// What an agent is answered, and what there is to record of it.
pub(crate) struct SecretsAnswer {
    /// The response to the agent.
    pub response: SecretsRead,
    /// Those that the answer contains.
    pub variables: Vec<VariableKey>,
    /// The request is denied.
    pub denied: bool,
}

/// Answers an agent's request, on a session for a node. Takes its time: to be called where that does no harm.
pub(crate) fn read_secrets(state: &State, node: NodeId, request: &ReadSecrets) -> SecretsAnswer {
    match all(state, node, request) {
        Ok(read) => {
            let (variables, secrets) = read.into_iter().unzip();
            let response = SecretsRead { request: request.request, secrets, ..SecretsRead::default() };
            SecretsAnswer { response, variables, denied: false }
        }
        Err(TaskRefusal { text, retry, denied, revokes_given }) => {
            tracing::info!(%node, text, "gave an agent no secrets");
            let response = SecretsRead { taken: revokes_given, ..no_secrets(request.request, text, retry) };
            SecretsAnswer { response, variables: Vec::new(), denied }
        }
    }
}

/// The answer to whoever gets none.
pub(crate) fn no_secrets(request: u64, refused: String, retry: bool) -> SecretsRead {
    SecretsRead { request, refused, retry, ..SecretsRead::default() }
}

fn all(
    state: &State,
    node: NodeId,
    request: &ReadSecrets,
) -> Result<Vec<(VariableKey, SecretItems)>, TaskRefusal> {
    let view = state.view();
    let ReadSecrets { secret, alloc_id, task, .. } = request;
    let placed = PlacedTask::find(&view.store, &TaskRequest { node, secret, alloc_id, task })?;
    let rights = state.policy.rights_of_task(&placed.name(), view.store.acl());
    let rights = rights.map_err(|bad| TaskRefusal::for_now(bad.to_string()))?;
    let items = |secret: &Secret| {
        let (key, items) = one(state, &view, &placed, &rights, secret)?;
        Ok((key, SecretItems { name: secret.name.clone(), items }))
    };
    placed.task.secrets.iter().take(SECRETS_MAX).map(items).collect()
}

fn one(
    state: &State,
    view: &View,
    placed: &PlacedTask<'_>,
    rights: &Rights,
    secret: &Secret,
) -> Result<(VariableKey, BTreeMap<String, String>), TaskRefusal> {
    let of_job = &placed.job.key.namespace;
    let (namespace, path, name) = (secret.namespace().unwrap_or(of_job), &*secret.path, &secret.name);
    if !rights.grant(Capability::VariablesRead, Realm::Variable { namespace, path }) {
        let job = placed.name().job.id;
        return Err(TaskRefusal::denied(format!(
            "secret {name:?}: the task may not read variable {path:?} in namespace {namespace:?}, which needs {}: keep it below \
             nomad/jobs/{job}, or attach a policy that grants it with `berth acl policy apply -namespace {of_job} -job {job}`",
            Capability::VariablesRead.word()
        ))
        .revokes_given());
    }
    let key = VariableKey::new(namespace, path);
    let variable = view.store.variables().get(&key).ok_or_else(|| {
        TaskRefusal::for_now(format!(
            "secret {name:?}: there is no variable {path:?} in namespace {namespace:?}: write it with `berth var put -namespace \
             {namespace} {path} ITEM=VALUE`"
        ))
        .revokes_given()
    })?;
    let items = state.keyring.unseal(view.store.keyring(), variable);
    let items = items.map_err(|error| TaskRefusal::for_now(format!("secret {name:?}: {error}")))?;
    Ok((key, items))
}
