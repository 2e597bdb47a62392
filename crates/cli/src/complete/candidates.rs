//! Candidates for the completion of ids, requested from the server. Whoever presses Tab must not wait: what takes too long is left
//! out, and so is everything when no server answers.

use std::{ffi::OsStr, time::Duration};

use berth_api::http::{
    AllocationStub, Deployment, Evaluation, JobStub, Namespace, NodeStub, VariableMetadata,
};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::quote;
use crate::{
    failure::Failure,
    global::Global,
    output::short_id,
    remote::{Remote, block_on},
};

/// Longest wait for the server.
const PATIENCE_MS: u64 = 1_000;

/// A candidate and what it is.
type Candidate = (String, String);

/// Ids of jobs.
pub fn jobs() -> ArgValueCompleter {
    completer(async |remote, prefix| jobs_like(&remote, &prefix).await)
}

/// Ids of allocations.
pub fn allocations() -> ArgValueCompleter {
    completer(async |remote, prefix| allocations_like(&remote, &prefix).await)
}

/// Ids of jobs, and of allocations once enough is typed to identify them.
pub fn jobs_or_allocations() -> ArgValueCompleter {
    completer(async |remote, prefix| {
        let mut both = jobs_like(&remote, &prefix).await?;
        if !prefix.is_empty() {
            both.extend(allocations_like(&remote, &prefix).await?);
        }
        Ok(both)
    })
}

/// Ids of deployments.
pub fn deployments() -> ArgValueCompleter {
    completer(async |remote, prefix| {
        let describe = |of: Deployment| (id(&of.id, &prefix), format!("{} {}", of.job_id, of.status));
        let found = remote.beginning::<Deployment>("/v1/deployments", &prefix).await?;
        Ok(found.into_iter().map(describe).collect())
    })
}

/// Ids of evaluations.
pub fn evaluations() -> ArgValueCompleter {
    completer(async |remote, prefix| {
        let describe = |eval: Evaluation| (id(&eval.id, &prefix), format!("{} {}", eval.job_id, eval.status));
        Ok(remote
            .beginning::<Evaluation>("/v1/evaluations", &prefix)
            .await?
            .into_iter()
            .map(describe)
            .collect())
    })
}

/// Names and ids of nodes.
pub fn nodes() -> ArgValueCompleter {
    completer(async |remote, prefix| {
        let mut named = remote.beginning::<NodeStub>("/v1/nodes", "").await?;
        named.retain(|node| node.name.starts_with(&prefix));
        if !named.is_empty() {
            return Ok(named.into_iter().map(|node| (node.name, node.status)).collect());
        }
        let found = remote.beginning::<NodeStub>("/v1/nodes", &prefix).await?;
        let describe = |node: NodeStub| (id(&node.id, &prefix), format!("{} {}", node.name, node.status));
        Ok(found.into_iter().map(describe).collect())
    })
}

/// Names of namespaces.
pub fn namespaces() -> ArgValueCompleter {
    completer(async |remote, prefix| {
        let found = remote.beginning::<Namespace>("/v1/namespaces", &prefix).await?;
        Ok(found.into_iter().map(|namespace| (namespace.name, namespace.description)).collect())
    })
}

/// Paths of variables.
pub fn variables() -> ArgValueCompleter {
    completer(async |remote, prefix| {
        let found = remote.beginning::<VariableMetadata>("/v1/vars", &prefix).await?;
        Ok(found.into_iter().map(|variable| (variable.path, variable.namespace)).collect())
    })
}

async fn jobs_like(remote: &Remote, prefix: &str) -> Result<Vec<Candidate>, Failure> {
    let found = remote.beginning::<JobStub>("/v1/jobs", prefix).await?;
    let describe = |job: JobStub| {
        let about = format!("{} {}", job.job_type, job.status);
        (job.id, about)
    };
    Ok(found.into_iter().map(describe).collect())
}

async fn allocations_like(remote: &Remote, prefix: &str) -> Result<Vec<Candidate>, Failure> {
    let found = remote.beginning::<AllocationStub>("/v1/allocations", prefix).await?;
    let describe =
        |alloc: AllocationStub| (id(&alloc.id, prefix), format!("{} {}", alloc.name, alloc.client_status));
    Ok(found.into_iter().map(describe).collect())
}

/// A short id while that continues what was typed.
fn id(id: &str, prefix: &str) -> String {
    let short = short_id(id);
    if short.starts_with(prefix) { short } else { id.to_owned() }
}

/// A candidate's description fits on one line of a terminal.
fn plain(about: &str) -> String {
    about.chars().map(|c| if berth_jobfile::is_deceptive(c) { ' ' } else { c }).collect()
}

fn completer(
    find: impl AsyncFn(Remote, String) -> Result<Vec<Candidate>, Failure> + Send + Sync + 'static,
) -> ArgValueCompleter {
    ArgValueCompleter::new(move |prefix: &OsStr| {
        let Some(prefix) = prefix.to_str() else { return Vec::new() };
        let shell = std::env::var(super::VARIABLE).unwrap_or_default();
        let prefix = quote::unquoted(&shell, prefix).into_owned();
        let found = Global::of_words(std::env::args()).remote().and_then(|remote| {
            let patience = Duration::from_millis(PATIENCE_MS);
            block_on(async {
                tokio::time::timeout(patience, find(remote, prefix)).await.unwrap_or(Ok(vec![]))
            })
        });
        let candidate = |(id, about): Candidate| {
            let word = quote::quoted(&shell, &id)?.into_owned();
            Some(CompletionCandidate::new(word).help(Some(plain(&about).into())))
        };
        found.unwrap_or_default().into_iter().filter_map(candidate).collect()
    })
}
