//! Signs tokens for agents' tasks: when a task starts and before its tokens expire, never during placement, on the server that the
//! agent is connected to, whether that is the leader or not.

use berth_api::agent::{SignTokens, SignedToken, SignedTokens};
use berth_model::{
    AllocId, JobKey, NodeId,
    job::{IDENTITIES_MAX, Identity},
};

use super::{
    TaskName,
    claims::Claims,
    jwt,
    placed_task::{PlacedTask, TaskRefusal, TaskRequest, cut, no_longer_than_a_name},
};
use crate::{clock, shared::State};

const NANOS_PER_SEC: u64 = 1_000_000_000;
/// Requests for tokens that are signed for one node a second on average, twice as many at once.
pub(crate) const SIGNED_A_SECOND_MAX: u32 = 100;

/// Answers an agent's request, on a session for a node.
pub(crate) fn sign(state: &State, node: NodeId, request: &SignTokens) -> SignedTokens {
    let signed = tokens(state, node, request);
    let (tokens, refused, retry) = match signed {
        Ok(tokens) => (tokens, String::new(), false),
        Err(TaskRefusal { text, retry, .. }) => {
            tracing::info!(%node, task = cut(&request.task), text, "signed no tokens for an agent");
            (Vec::new(), text, retry)
        }
    };
    SignedTokens { request: request.request, tokens, refused, retry }
}

/// The response over the rate limit of a node: try again later.
pub(crate) fn too_often(request: &SignTokens) -> SignedTokens {
    let refused = format!("more than {SIGNED_A_SECOND_MAX} requests a second for tokens of one node");
    SignedTokens { request: request.request, tokens: Vec::new(), refused, retry: true }
}

fn tokens(state: &State, node: NodeId, request: &SignTokens) -> Result<Vec<SignedToken>, TaskRefusal> {
    if request.identities.len() > IDENTITIES_MAX {
        return Err(TaskRefusal::permanent(format!("a task has at most {IDENTITIES_MAX} identities")));
    }
    no_longer_than_a_name(request.identities.iter().map(String::len))?;
    let view = state.view();
    let SignTokens { secret, alloc_id, task, .. } = request;
    let found = PlacedTask::find(&view.store, &TaskRequest { node, secret, alloc_id, task })?;
    let signer =
        state.keyring.signer(&view.store).map_err(|error| TaskRefusal::for_now(error.to_string()))?;
    let kid = signer.kid.to_string();
    let issuer = state.server.issuer.as_deref();
    let now_s = clock::now().0 / NANOS_PER_SEC;
    let sign = |name: &String| {
        let identity = found.task.identities.iter().find(|identity| identity.name == *name);
        let identity = identity.ok_or_else(|| {
            TaskRefusal::permanent(format!("task {} has no identity of that name", request.task))
        })?;
        let claims = found.claims(identity, &state.server.region, issuer, now_s, state.engine.mint_id());
        let token = jwt::encode(&claims, &kid, &signer.key).map_err(TaskRefusal::for_now)?;
        let life_ms = u64::try_from(identity.life().as_millis()).unwrap_or(u64::MAX);
        Ok(SignedToken { identity: identity.name.clone(), token, life_ms })
    };
    request.identities.iter().map(sign).collect()
}

impl PlacedTask<'_> {
    fn claims(
        &self,
        identity: &Identity,
        region: &str,
        issuer: Option<&str>,
        now_s: u64,
        id: u128,
    ) -> Claims {
        let TaskName { job: JobKey { namespace, id: job }, group, task } = self.name();
        Claims {
            iss: issuer.map(str::to_owned),
            sub: format!("{region}:{namespace}:{job}:{group}:{task}:{}", identity.name),
            aud: identity.audiences().into_iter().map(str::to_owned).collect(),
            iat: now_s,
            nbf: now_s,
            exp: now_s + identity.life().as_secs().max(1),
            jti: AllocId(id).to_string(),
            nomad_namespace: namespace.to_string(),
            nomad_job_id: job.to_string(),
            nomad_task: task,
            nomad_allocation_id: self.alloc.to_string(),
        }
    }
}
