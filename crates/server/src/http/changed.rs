//! What a command changes, in the terms of the audit log.

use berth_model::{
    JobKey,
    acl::ChangeAcl,
    command::Command,
    keyring::ChangeKeyring,
    store::Store,
    variable::{ChangeVariable, VariableKey},
};

use crate::audit::AuditChange;

/// The audit record of a command; `store` has the objects that it names.
pub(super) fn changed(command: &Command, store: &Store) -> AuditChange {
    let of_cluster = |objects: Vec<String>| AuditChange::new(command.kind(), "", objects);
    let of_job = |job: &JobKey| AuditChange::new(command.kind(), &job.namespace, [job.id.to_string()]);
    let of_deployment = |id| {
        let job = store.deployments().get(id).map(|deployment| &deployment.job);
        let namespace = job.map_or("", |job| &*job.namespace);
        AuditChange::new(
            command.kind(),
            namespace,
            job.map(|job| job.id.to_string()).into_iter().chain([id.to_string()]),
        )
    };
    match command {
        Command::RegisterJob(register) => of_job(&register.job.key),
        Command::RunJob(run) => of_job(&run.job.key),
        Command::DeregisterJob(deregister) => of_job(&deregister.job),
        Command::LaunchJob(launch) => of_job(&launch.job),
        Command::ScaleJob(scale) => of_job(&scale.job),
        Command::SetJobStable(set) => of_job(&set.job),
        Command::TagVersion(tag) => of_job(&tag.job),
        Command::CreateEvals(evals) if let Some(node) = evals.first().and_then(|eval| eval.node) => {
            of_cluster(vec![node.to_string()])
        }
        Command::CreateEvals(evals) => {
            let namespace = evals.first().map_or("", |eval| &*eval.job.namespace);
            AuditChange::new(command.kind(), namespace, evals.iter().map(|eval| eval.job.id.to_string()))
        }
        Command::SetEvalPriority(eval, _) => {
            let job = store.eval(*eval).map(|eval| &eval.job);
            let namespace = job.map_or("", |job| &*job.namespace);
            AuditChange::new(command.kind(), namespace, [eval.to_string()])
        }
        Command::StopAlloc(id, eval) => {
            AuditChange::new(command.kind(), &eval.job.namespace, [eval.job.id.to_string(), id.to_string()])
        }
        Command::SetDeployment(set) => of_deployment(set.id),
        Command::PromoteDeployment(promote) => of_deployment(promote.id),
        Command::SetAllocHealth(healths) => {
            of_cluster(healths.iter().map(|health| health.alloc.to_string()).collect())
        }
        Command::SetNodeEligibility(node, _) => of_cluster(vec![node.to_string()]),
        Command::DrainNode(drain) => of_cluster(vec![drain.node.to_string()]),
        Command::PutNamespace(namespace) => of_cluster(vec![namespace.name.clone()]),
        Command::DeleteNamespace(name) | Command::DeleteQuota(name) | Command::DeleteNodePool(name) => {
            of_cluster(vec![name.clone()])
        }
        Command::PutNodePool(pool) => of_cluster(vec![pool.name.clone()]),
        Command::PutQuota(quota) => of_cluster(vec![quota.name.clone()]),
        Command::ChangeAcl(change) => of_acl(change, store),
        Command::ChangeKeyring(change) => of_keyring(change),
        Command::ChangeVariable(change) => of_variable(change),
        Command::Collect(_)
        | Command::SetSchedulerConfig(_)
        | Command::RestorePart(_)
        | Command::AbandonRestore
        | Command::GrantIndexes(_)
        | Command::RegisterNode(_)
        | Command::SetNodeStatus(..)
        | Command::CommitPlanUnchecked(_)
        | Command::CommitPlan(_)
        | Command::EndAllocs(_)
        | Command::SetEvalStatus(..)
        | Command::MigrateAllocs(_)
        | Command::EndDrain(..)
        | Command::FoundCluster(_) => of_cluster(Vec::new()),
    }
}

/// Tokens are named by their accessors, never by their secrets or the hashes of these.
fn of_acl(change: &ChangeAcl, store: &Store) -> AuditChange {
    let (word, object) = match change {
        ChangeAcl::Bootstrap(token, _) => ("acl_bootstrap", token.id.to_string()),
        ChangeAcl::PutPolicy(policy) => ("put_acl_policy", policy.name.clone()),
        ChangeAcl::DeletePolicy(name) => ("delete_acl_policy", name.clone()),
        ChangeAcl::PutRole(role) => ("put_acl_role", role.id.to_string()),
        ChangeAcl::DeleteRole(id) => ("delete_acl_role", id.to_string()),
        ChangeAcl::PutToken(token) => ("put_acl_token", token.id.to_string()),
        ChangeAcl::DeleteToken(id) => ("delete_acl_token", id.to_string()),
        ChangeAcl::PutOneTime(one_time) => ("put_one_time_token", one_time.token.to_string()),
        ChangeAcl::TakeOneTime(secret) => {
            // The token whose secret is handed out; the request itself has none.
            let accessor = store.acl().one_time(secret).map(|one_time| one_time.token.to_string());
            return AuditChange::new("take_one_time_token", "", accessor);
        }
        ChangeAcl::PutJoinToken(join) => {
            return AuditChange::new("put_join_token", "", join.node.map(|node| node.to_string()));
        }
        ChangeAcl::Join(join) => ("join", join.joined.node.to_string()),
        ChangeAcl::RevokeNode(node) => ("revoke_node", node.to_string()),
        ChangeAcl::RevokeServer(name) => ("revoke_server", name.clone()),
    };
    AuditChange::new(word, "", [object])
}

/// Root keys by their ids.
fn of_keyring(change: &ChangeKeyring) -> AuditChange {
    let (word, key) = match change {
        ChangeKeyring::PutKey { key, .. } => ("put_root_key", key.id),
        ChangeKeyring::Rewrap { key, .. } => ("rewrap_root_keys", key.id),
        ChangeKeyring::RemoveKey(id) => ("remove_root_key", *id),
    };
    AuditChange::new(word, "", [key.to_string()])
}

/// Variables are named by their paths, without their items, encrypted or not.
fn of_variable(change: &ChangeVariable) -> AuditChange {
    let of = |word, key: &VariableKey| AuditChange::new(word, &key.namespace, [key.path.to_string()]);
    match change {
        ChangeVariable::Put(variable, _) => of("put_variable", &variable.key),
        ChangeVariable::Delete(key, _) => of("delete_variable", key),
        ChangeVariable::Rekey(rekeyed) => {
            let paths = rekeyed.iter().map(|variable| variable.key.path.to_string());
            AuditChange::new("rekey_variables", "", paths)
        }
    }
}
