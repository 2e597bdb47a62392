//! I6: no acknowledged job is lost, a stopped or purged one never comes back, and what runs is what was registered.

use std::collections::BTreeMap;

use berth_agent::lifecycle::TaskRef;
use berth_api::agent::GroupSpec;
use berth_model::{
    AllocId, Index, JobKey,
    command::Command,
    job::VersionChange,
    store::{AllocRow, Store},
};
use prost::Message;

use super::{
    CheckResult,
    history::{AppliedStep, History},
    i02_acknowledged::eval_of,
    i10_counts::has_failed,
};
use crate::{
    node::{Machine, Process, node_id},
    operations::{Operation, RequestOutcome},
};

const RULE: &str = "I6 jobs are what was last asked for";

/// The key of a job's meta that names the operation which registered it.
pub const MARK: &str = "operation";

/// What was last asked for.
#[derive(Default)]
pub struct Jobs(BTreeMap<JobKey, LastRequest>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum LastRequest {
    Run { mark: String, at: Index },
    Stop { purge: bool },
}

impl Jobs {
    /// An entry was applied: what it asks for is true, and nothing else of these jobs has changed.
    pub fn on_entry(&mut self, store: &Store, step: &AppliedStep) -> CheckResult {
        let mut touched = Vec::new();
        for (command, outcome) in step.entry.commands.iter().zip(&step.applied.outcomes) {
            if outcome.is_err() {
                continue;
            }
            match command {
                Command::RegisterJob(register) => {
                    let mark = register.job.meta.get(MARK).cloned().unwrap_or_default();
                    let request = if register.job.stop {
                        LastRequest::Stop { purge: false }
                    } else {
                        LastRequest::Run { mark, at: step.entry.index }
                    };
                    self.0.insert(register.job.key.clone(), request);
                    touched.push(register.job.key.clone());
                }
                Command::RunJob(run) => {
                    let mark = run.job.meta.get(MARK).cloned().unwrap_or_default();
                    self.0.insert(run.job.key.clone(), LastRequest::Run { mark, at: step.entry.index });
                    touched.push(run.job.key.clone());
                }
                Command::DeregisterJob(deregister) => {
                    self.0.insert(deregister.job.clone(), LastRequest::Stop { purge: deregister.purge });
                    touched.push(deregister.job.clone());
                }
                Command::SetDeployment(set) if set.revert_to.is_some() => {
                    let key = store.deployments().get(set.id).map(|deployment| deployment.job.clone());
                    let Some(row) = key.as_ref().and_then(|key| store.job(key)) else { continue };
                    // I14 says which version that is.
                    let mark = row.job().meta.get(MARK).cloned().unwrap_or_default();
                    self.0.insert(row.key.clone(), LastRequest::Run { mark, at: step.entry.index });
                    touched.push(row.key.clone());
                }
                Command::RestorePart(_) | Command::AbandonRestore => self.0.clear(),
                _ => {}
            }
        }
        touched.iter().try_for_each(|key| self.check(store, key))
    }

    fn check(&self, store: &Store, key: &JobKey) -> CheckResult {
        let Some(request) = self.0.get(key) else { return Ok(()) };
        let row = store.job(key);
        let wrong = match (request, row) {
            (LastRequest::Stop { .. }, None) => return Ok(()),
            (LastRequest::Stop { .. }, Some(row)) if row.job().stop => return Ok(()),
            (LastRequest::Stop { .. }, Some(_)) => "was stopped and is there",
            (LastRequest::Run { mark, .. }, Some(row))
                if !row.job().stop && row.job().meta.get(MARK) == Some(mark) =>
            {
                return Ok(());
            }
            (LastRequest::Run { .. }, Some(_)) => "is not as it was registered",
            (LastRequest::Run { .. }, None) => "is lost",
        };
        Err((RULE, format!("job {key} {wrong}")))
    }

    /// Every job is as it was last asked for; one that is done for good may have been collected.
    pub fn at_rest(&self, store: &Store) -> CheckResult {
        for (key, request) in &self.0 {
            let collected =
                store.job(key).is_none() && matches!(request, LastRequest::Run { .. }) && !is_service(key);
            if !collected {
                self.check(store, key)?;
            }
            let purged = matches!(request, LastRequest::Stop { purge: true });
            if purged && store.job(key).is_some_and(|row| row.live == 0) {
                return Err((RULE, format!("job {key} was purged and is there")));
            }
        }
        Ok(())
    }
}

/// Services whose owners were last informed that they are to run are there and not stopped: the log itself may be wrong about what
/// was asked. Of a job of which some request has an unknown fate nothing is said, nor where an older state was restored.
pub fn none_is_lost(history: &History, operations: &[Operation]) -> CheckResult {
    if history.commands().any(|(_, command)| matches!(command, Command::RestorePart(_))) {
        return Ok(());
    }
    let mut runs: BTreeMap<&JobKey, Option<bool>> = BTreeMap::new();
    for operation in operations {
        let Some(asks) = operation.asks.as_ref().filter(|asks| is_service(&asks.job)) else { continue };
        let is_done = |index| {
            history.outcomes(index).any(|(command, done)| done && eval_of(command) == Some(operation.eval))
        };
        let known = runs.entry(&asks.job).or_insert(Some(false));
        match operation.outcome {
            Some(RequestOutcome::NotWritten) => {}
            Some(RequestOutcome::Committed(index)) if !is_done(index) => {}
            Some(RequestOutcome::Committed(_)) => *known = known.map(|_| asks.runs),
            Some(RequestOutcome::Unknown) | None => *known = None,
        }
    }
    for key in runs.into_iter().filter(|(_, runs)| *runs == Some(true)).map(|(key, _)| key) {
        if history.store().job(key).is_none_or(|row| row.job().stop) {
            return Err((
                RULE,
                format!("job {key} was registered, nobody has asked for its end, and it is gone"),
            ));
        }
    }
    Ok(())
}

fn is_service(key: &JobKey) -> bool {
    key.id.starts_with("service")
}

/// What goes on does so as its version says, and as none before one for which nothing has to be started again.
pub fn on_nodes(store: &Store, machines: &[Machine]) -> CheckResult {
    store.allocs().iter().filter(|(_, row)| row.is_desired()).try_for_each(|(_, row)| {
        let job = store.jobs().row(row.job).filter(|job| !has_failed(store, job));
        let change = job.map(|job| job.change_of(row.job_version, row.group));
        if change == Some(VersionChange::InPlace) {
            return Err((RULE, format!("{} goes on as version {} says", row.id, row.job_version)));
        }
        match (terms_on_agent(store, machines, row), registered_terms(store, row)) {
            (Some(held), Some(registered)) if held != registered => Err((
                RULE,
                format!("the agent of {} goes by {held:?} where {registered:?} was asked for", row.id),
            )),
            _ => Ok(()),
        }
    })
}

/// What an update may change: the revision, when the task is killed, in milliseconds, and how often it is restarted.
type GroupTerms = (u64, u64, u32);

fn registered_terms(store: &Store, row: &AllocRow) -> Option<GroupTerms> {
    let task = store.job_of(row)?.1.tasks.first()?;
    Some((row.revision(), task.kill_timeout.as_millis() as u64, task.restart.attempts))
}

/// As the agent wrote it down.
fn terms_on_agent(store: &Store, machines: &[Machine], row: &AllocRow) -> Option<GroupTerms> {
    let node = store.nodes().row(row.node)?.id.to_bytes();
    let machine = (0..).zip(machines).find(|(number, _)| node_id(*number) == node)?.1;
    let record = machine.content().records.get(&berth_api::agent::AllocId(row.id.to_bytes()))?.clone();
    let run = record.run.filter(|_| !record.stop)?;
    let group = GroupSpec::decode(run.group).ok()?;
    let task = group.tasks.first()?;
    Some((run.revision, task.kill_timeout_ms, task.restart.attempts))
}

/// What starts is a version of its job that was registered.
pub fn on_started(store: &Store, of: TaskRef, process: &Process) -> CheckResult {
    let Some((_, row)) = store.alloc(AllocId::from_slice(&of.alloc.0).unwrap_or_default()) else {
        return Ok(());
    };
    let Some((job, _)) = store.job_of(row) else { return Ok(()) };
    if job.meta.get(MARK) == process.group.meta.get(MARK) {
        return Ok(());
    }
    let (asked, runs) = (job.meta.get(MARK), process.group.meta.get(MARK));
    Err((RULE, format!("{} runs {runs:?} where {asked:?} was placed", job.key)))
}
