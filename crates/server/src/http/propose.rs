//! Proposes commands, and reports their outcome.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use berth_api::http::JobRegistered;
use berth_model::{
    EvalId, Index,
    command::{Command, Refusal},
};
use hyper::StatusCode;

use super::{audited::Audited, changed::changed, failure::Failure, lease::Lease};
use crate::{
    access::{Access, Denied},
    shared::{ProposeError, State},
};

/// Changes the state within what a request may reach.
#[derive(Clone)]
pub(crate) struct Proposer {
    state: State,
    access: Arc<Access>,
    /// None where everybody may do everything.
    lease: Option<Arc<Lease>>,
    /// None where nothing is recorded of the request.
    audited: Option<Arc<Audited>>,
    /// The index at which the last change was committed; 0 for none yet.
    written_index: Arc<AtomicU64>,
}

impl Proposer {
    /// The index of each committed change is stored in `written_index`.
    pub fn new(
        state: State,
        access: Arc<Access>,
        lease: Option<Arc<Lease>>,
        audited: Option<Arc<Audited>>,
        written_index: Arc<AtomicU64>,
    ) -> Self {
        Self { state, access, lease, audited, written_index }
    }

    /// The version of the entries that the cluster writes.
    pub fn log_version(&self) -> u8 {
        self.state.view().store.version()
    }

    /// Proposes one command and returns where it was committed.
    ///
    /// # Errors
    /// When the request may not, or it cannot be done.
    pub async fn propose(&self, command: Command) -> Result<Index, Failure> {
        Ok(self.decide(command).await??)
    }

    /// Proposes commands in one entry, each of which depends on the one before: if the first is refused, all are.
    ///
    /// # Errors
    /// When the request may not, or it cannot be done.
    pub async fn propose_all(&self, commands: Vec<Command>) -> Result<Index, Failure> {
        Ok(self.decide_all(commands).await??)
    }

    /// The same for callers that handle the refusal themselves.
    ///
    /// # Errors
    /// When the request may not, or it cannot be written.
    pub async fn decide(&self, command: Command) -> Result<Result<Index, Refusal>, Failure> {
        self.decide_all(vec![command]).await
    }

    async fn decide_all(&self, commands: Vec<Command>) -> Result<Result<Index, Refusal>, Failure> {
        self.lease.as_ref().map_or(Ok(()), |lease| lease.check())?;
        for command in &commands {
            self.access.permit(command, &self.state.view().store)?;
        }
        let recorded = self.audited.as_ref().map(|audited| {
            let view = self.state.view();
            let begin = |command| audited.begin_change(changed(command, &view.store));
            (audited, commands.iter().map(begin).collect::<Vec<_>>())
        });
        let committed = self.state.engine.propose(commands).await;
        let outcome = committed.map(|committed| {
            let refusal = committed.outcomes.into_iter().collect::<Result<(), Refusal>>();
            refusal.map(|()| committed.index)
        });
        if let Some((audited, numbers)) = recorded {
            numbers.into_iter().for_each(|number| audited.end_change(number, word(&outcome)));
        }
        if let Ok(Ok(Index(index))) = &outcome {
            self.written_index.fetch_max(*index, Ordering::Relaxed);
        }
        Ok(outcome?)
    }

    /// Proposes a command that undoes what a request has begun and cannot finish, without a check of its rights. Failures are ignored.
    pub async fn take_back(&self, command: Command) {
        drop(self.state.engine.propose(vec![command]).await);
    }
}

/// What the audit log says of a change: where it was written, or in a word why it was not.
fn word(outcome: &Result<Result<Index, Refusal>, ProposeError>) -> Result<Index, &'static str> {
    match outcome {
        Ok(Ok(index)) => Ok(*index),
        Ok(Err(_)) => Err("refused"),
        Err(error) => Err(match error {
            ProposeError::Busy(_) => "busy",
            ProposeError::TooLarge { .. } => "too large",
            ProposeError::NoLeader => "no leader",
            ProposeError::TooNew(_) => "too new",
            ProposeError::NotWritten(_) => "not written",
            ProposeError::Unknown(_) => "unknown",
            ProposeError::Stopping => "stopping",
        }),
    }
}

/// The answer to a change of a job.
pub(crate) fn registered(eval: EvalId, eval_index: Index, job_index: Index) -> JobRegistered {
    JobRegistered {
        eval_id: eval.to_string(),
        eval_create_index: eval_index.0,
        job_modify_index: job_index.0,
        warnings: String::new(),
        index: eval_index.0,
        last_contact: 0,
        known_leader: true,
    }
}

impl From<Denied> for Failure {
    fn from(denied: Denied) -> Self {
        Self::new(StatusCode::FORBIDDEN, denied.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::JobChanged { expected, current, .. } => {
                Self::new(StatusCode::CONFLICT, conflict(expected, current))
            }
            Refusal::SchedulerConfigChanged { .. } => Self::new(StatusCode::CONFLICT, refusal.to_string()),
            Refusal::NoJob(_) => Self::not_found("job not found"),
            Refusal::NoGroup(_, group) => Self::not_found(format!("the job has no group `{group}`")),
            Refusal::NoNode(_) => Self::not_found("node not found"),
            Refusal::NoAlloc(_) => Self::not_found("alloc not found"),
            Refusal::NoEval(_) => Self::not_found("eval not found"),
            Refusal::NoDeployment(_) => Self::not_found("deployment not found"),
            Refusal::NoVersion(..) | Refusal::NoTag(..) | Refusal::NoAclObject(_) => {
                Self::not_found(refusal.to_string())
            }
            Refusal::NoNodePool(_) => Self::not_found(refusal.to_string()),
            Refusal::NoRootKey(_) => Self::not_found(refusal.to_string()),
            Refusal::RootKeyChanged | Refusal::RootKeyNotActive(_) | Refusal::VariableChanged(..) => {
                Self::new(StatusCode::CONFLICT, refusal.to_string())
            }
            Refusal::BadRootKey(..) => Self::new(StatusCode::CONFLICT, refusal.to_string()),
            Refusal::BadVariable(..) => Self::bad_request(refusal.to_string()),
            Refusal::TagInUse(..) => Self::new(StatusCode::CONFLICT, refusal.to_string()),
            Refusal::TooManyTags(_) => Self::bad_request(refusal.to_string()),
            Refusal::DeploymentOver(..) | Refusal::NotPromotable(..) => {
                Self::bad_request(refusal.to_string())
            }
            Refusal::NoNamespace(_)
            | Refusal::JobTypeChanged { .. }
            | Refusal::JobStopped(_)
            | Refusal::NodeDrained(_)
            | Refusal::BadNamespace(..)
            | Refusal::BadQuota(..)
            | Refusal::BadNodePool(..)
            | Refusal::BadAcl(..)
            | Refusal::AclBootstrapped(_)
            | Refusal::NoQuota(_) => Self::bad_request(refusal.to_string()),
            Refusal::BadRestore(_) | Refusal::NoClusterId => Self::bad_request(refusal.to_string()),
            Refusal::Restored
            | Refusal::LostMeanwhile(_)
            | Refusal::NotDue(..)
            | Refusal::ClusterFounded(_)
            | Refusal::NamespaceInUse(..)
            | Refusal::NodePoolInUse(..)
            | Refusal::QuotaInUse(..) => Self::new(StatusCode::CONFLICT, refusal.to_string()),
        }
    }
}

/// Clients know a conflict by the beginning of this text, not by its status.
fn conflict(expected: Index, current: Index) -> String {
    let what = match (expected.0, current.0) {
        (0, _) => "job already exists".to_owned(),
        (_, 0) => "job does not exist".to_owned(),
        _ => format!("job exists with conflicting job modify index: {current}"),
    };
    format!("Enforcing job modify index {expected}: {what}")
}
