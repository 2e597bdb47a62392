//! Signs tokens for an agent that asks for those of its tasks. That is done when a task starts and before its tokens expire,
//! never while work is placed, and by the server to which the agent is connected, whether that leads or not.

use berth_api::agent::{SignTokens, SignedToken, SignedTokens};
use berth_model::{
    AllocId, NodeId,
    job::{IDENTITIES_MAX, Identity, Job},
    store::Store,
};

use super::{claims::Claims, job_known_as, jwt};
use crate::{clock, convert::agent::secret_hash, state::State};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Why nothing is signed, and whether asking again can help.
struct Refusal {
    text: String,
    retry: bool,
}

impl Refusal {
    fn for_good(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry: false }
    }

    fn for_now(text: impl Into<String>) -> Self {
        Self { text: text.into(), retry: true }
    }
}

/// Answers an agent's request, on a session for a node.
pub(crate) fn sign(state: &State, node: NodeId, asked: &SignTokens) -> SignedTokens {
    let signed = tokens(state, node, asked);
    let (tokens, refused, retry) = match signed {
        Ok(tokens) => (tokens, String::new(), false),
        Err(Refusal { text, retry }) => {
            tracing::info!(%node, task = asked.task, text, "signed no tokens for an agent");
            (Vec::new(), text, retry)
        }
    };
    SignedTokens { request: asked.request, tokens, refused, retry }
}

fn tokens(state: &State, node: NodeId, asked: &SignTokens) -> Result<Vec<SignedToken>, Refusal> {
    if asked.identities.len() > IDENTITIES_MAX {
        return Err(Refusal::for_good(format!("a task has at most {IDENTITIES_MAX} identities")));
    }
    let view = state.view();
    let found = find(&view.store, node, asked)?;
    let signer = state.keyring.signer(&view.store).map_err(|error| Refusal::for_now(error.to_string()))?;
    let kid = signer.kid.to_string();
    let issuer = state.server.issuer.as_deref();
    let now_s = clock::now().0 / NANOS_PER_SEC;
    let sign = |name: &String| {
        let identity = found.identities.iter().find(|identity| identity.name == *name);
        let identity = identity
            .ok_or_else(|| Refusal::for_good(format!("task {} has no identity of that name", asked.task)))?;
        let claims = found.claims(identity, &state.server.region, issuer, now_s, state.engine.mint_id());
        let token = jwt::encode(&claims, &kid, &signer.key).map_err(Refusal::for_now)?;
        let life_ms = u64::try_from(identity.life().as_millis()).unwrap_or(u64::MAX);
        Ok(SignedToken { identity: identity.name.clone(), token, life_ms })
    };
    asked.identities.iter().map(sign).collect()
}

/// A task that may have tokens.
struct Found<'s> {
    alloc: AllocId,
    job: &'s Job,
    group: &'s str,
    task: &'s str,
    identities: &'s [Identity],
}

/// The task, if the state places it on the node for which the session speaks, and it has not ended. What is not there and
/// what is another's are told alike: nothing is learned by asking.
fn find<'s>(store: &'s Store, node: NodeId, asked: &SignTokens) -> Result<Found<'s>, Refusal> {
    let known = store.node(node).and_then(|(slot, _)| Some((slot, store.nodes().detail(slot)?)));
    let (slot, _) = known
        .filter(|(_, detail)| detail.node.secret_hash == secret_hash(&asked.secret))
        .ok_or_else(|| Refusal::for_now(format!("the session does not speak for node {node}")))?;
    let alloc = AllocId::from_slice(&asked.alloc_id)
        .ok_or_else(|| Refusal::for_good("an allocation's id is not 16 bytes long"))?;
    let row = store.alloc(alloc).map(|(_, row)| row).filter(|row| row.node == slot);
    // Another server may have told it of the allocation, and be ahead of this one.
    let row =
        row.ok_or_else(|| Refusal::for_now(format!("allocation {alloc} is not placed on node {node}")))?;
    if row.is_terminal() {
        return Err(Refusal::for_good(format!("allocation {alloc} has ended")));
    }
    let (job, group) =
        store.job_of(row).ok_or_else(|| Refusal::for_good(format!("the job of {alloc} is not known")))?;
    let task =
        group.tasks.iter().find(|task| task.name == asked.task).ok_or_else(|| {
            Refusal::for_good(format!("allocation {alloc} has no task {:?}", cut(&asked.task)))
        })?;
    Ok(Found { alloc, job, group: &group.name, task: &task.name, identities: &task.identities })
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(128)]
}

impl Found<'_> {
    fn claims(
        &self,
        identity: &Identity,
        region: &str,
        issuer: Option<&str>,
        now_s: u64,
        id: u128,
    ) -> Claims {
        let (namespace, job) = (&self.job.key.namespace, job_known_as(self.job));
        Claims {
            iss: issuer.map(str::to_owned),
            sub: format!("{region}:{namespace}:{job}:{}:{}:{}", self.group, self.task, identity.name),
            aud: identity.audiences().into_iter().map(str::to_owned).collect(),
            iat: now_s,
            nbf: now_s,
            exp: now_s + identity.life().as_secs().max(1),
            jti: AllocId(id).to_string(),
            nomad_namespace: namespace.to_string(),
            nomad_job_id: job.to_string(),
            nomad_task: self.task.to_owned(),
            nomad_allocation_id: self.alloc.to_string(),
        }
    }
}
