//! Which commands a request may propose.

use berth_model::{
    DeploymentId, JobKey,
    acl::ChangeAcl,
    command::{Collect, Command},
    eval::{Eval, Trigger},
    keyring::ChangeKeyring,
    store::Store,
    variable::{ChangeVariable, VariableKey},
};

use super::{Access, Capability, Denied, Realm};

/// What a command changes.
enum Target<'c> {
    /// The cluster, for which it takes this.
    Cluster(Capability),
    /// Jobs, or what belongs to them.
    Jobs(Vec<&'c JobKey>),
    /// A node pool, for which it takes this.
    NodePool(&'c str, Capability),
    /// A variable, for which it takes this.
    Variable(&'c VariableKey, Capability),
    /// What only the engine decides.
    Engine,
    /// What anybody may change.
    Anything,
}

impl Access {
    /// Whether the request may propose a command; `store` holds the things that it names.
    ///
    /// # Errors
    /// When it changes something that the request does not reach.
    pub fn permit(&self, command: &Command, store: &Store) -> Result<(), Denied> {
        // A dispatch, a forced run and another count run what whoever registered the job was allowed.
        if let Command::RegisterJob(register) = command {
            self.require_host_volumes(&register.job)?;
        }
        match target(command, store) {
            Target::Cluster(capability) => self.require_of_cluster(capability),
            Target::Anything => Ok(()),
            Target::Engine => Err(Denied::new(Capability::Management, Realm::Cluster)),
            Target::NodePool(name, capability) => self.require_node_pool(name, capability),
            Target::Variable(key, capability) => self.require_variable(key, capability),
            Target::Jobs(jobs) => jobs.into_iter().try_for_each(|job| self.require(&job.namespace)),
        }
    }
}

fn target<'c>(command: &'c Command, store: &'c Store) -> Target<'c> {
    match command {
        Command::RegisterJob(register) => Target::Jobs(vec![&register.job.key]),
        Command::RunJob(run) => Target::Jobs(vec![&run.job.key]),
        Command::DeregisterJob(deregister) => Target::Jobs(vec![&deregister.job]),
        Command::ScaleJob(scale) => Target::Jobs(vec![&scale.job]),
        Command::SetJobStable(set) => Target::Jobs(vec![&set.job]),
        Command::TagVersion(tag) => Target::Jobs(vec![&tag.job]),
        // A node concerns jobs of any namespace, and whoever changes it need not see them.
        Command::CreateEvals(evals) if is_of_node(evals) => Target::Cluster(Capability::NodeWrite),
        Command::CreateEvals(evals) => Target::Jobs(evals.iter().map(|eval| &eval.job).collect()),
        // One that is not there is made by the command before it, or not at all.
        Command::SetEvalPriority(eval, _) => {
            Target::Jobs(store.eval(*eval).map(|eval| &eval.job).into_iter().collect())
        }
        Command::StopAlloc(id, eval) => {
            let row = store.alloc(*id).and_then(|(_, row)| store.jobs().row(row.job));
            Target::Jobs(row.map(|row| &row.key).into_iter().chain([&eval.job]).collect())
        }
        Command::SetDeployment(set) => Target::Jobs(job_of(store, set.id)),
        Command::PromoteDeployment(promote) => Target::Jobs(job_of(store, promote.id)),
        Command::SetAllocHealth(found) => {
            let rows = found.iter().filter_map(|health| store.alloc(health.alloc));
            let jobs = rows.filter_map(|(_, row)| store.jobs().row(row.job));
            Target::Jobs(jobs.map(|row| &row.key).collect())
        }
        Command::SetNodeEligibility(..) | Command::DrainNode(_) => Target::Cluster(Capability::NodeWrite),
        Command::Collect(collect) if is_of_nodes(collect) => Target::Cluster(Capability::NodeWrite),
        Command::PutQuota(_) | Command::DeleteQuota(_) => Target::Cluster(Capability::QuotaWrite),
        Command::PutNodePool(pool) => Target::NodePool(&pool.name, Capability::NodePoolWrite),
        Command::DeleteNodePool(name) => Target::NodePool(name, Capability::NodePoolDelete),
        Command::SetSchedulerConfig(_) => Target::Cluster(Capability::OperatorWrite),
        Command::ChangeAcl(change) if is_for_anybody(change) => Target::Anything,
        Command::ChangeAcl(change) if matches!(**change, ChangeAcl::RevokeNode(_)) => {
            Target::Cluster(Capability::NodeWrite)
        }
        // Agents join by the token that they show, and not by a request.
        Command::ChangeAcl(change) if matches!(**change, ChangeAcl::Join(_)) => Target::Engine,
        Command::ChangeVariable(change) => match &**change {
            ChangeVariable::Put(variable, _) => Target::Variable(&variable.key, Capability::VariablesWrite),
            ChangeVariable::Delete(key, _) => Target::Variable(key, Capability::VariablesDestroy),
            ChangeVariable::Rekey(_) => Target::Engine,
        },
        Command::ChangeKeyring(change) => Target::Cluster(match **change {
            ChangeKeyring::PutKey { .. } => Capability::KeyringRotate,
            // The old key-encryption key is taken away, and with it what older snapshots hold.
            ChangeKeyring::Rewrap { .. } | ChangeKeyring::RemoveKey(_) => Capability::KeyringDelete,
        }),
        Command::Collect(_)
        | Command::ChangeAcl(_)
        | Command::PutNamespace(_)
        | Command::DeleteNamespace(_)
        | Command::RestorePart(_) => Target::Cluster(Capability::Management),
        Command::GrantIndexes(_)
        | Command::RegisterNode(_)
        | Command::SetNodeStatus(..)
        | Command::CommitPlanUnchecked(_)
        | Command::CommitPlan(_)
        | Command::EndAllocs(_)
        | Command::SetEvalStatus(..)
        | Command::LaunchJob(_)
        | Command::MigrateAllocs(_)
        | Command::EndDrain(..)
        | Command::AbandonRestore
        | Command::FoundCluster(_) => Target::Engine,
    }
}

fn job_of(store: &Store, id: DeploymentId) -> Vec<&JobKey> {
    store.deployments().get(id).map(|deployment| &deployment.job).into_iter().collect()
}

/// The first token is for whoever comes first. One-time tokens are for those who show the token that they stand for, and their
/// exchange for those who have their secret, which is asked before these are proposed.
fn is_for_anybody(change: &ChangeAcl) -> bool {
    matches!(change, ChangeAcl::Bootstrap(..) | ChangeAcl::PutOneTime(_) | ChangeAcl::TakeOneTime(_))
}

fn is_of_node(evals: &[Eval]) -> bool {
    !evals.is_empty() && evals.iter().all(|eval| eval.trigger == Trigger::NodeUpdate && eval.node.is_some())
}

fn is_of_nodes(collect: &Collect) -> bool {
    collect.jobs.is_empty()
        && collect.evals.is_empty()
        && collect.allocs.is_empty()
        && collect.deployments.is_empty()
}
