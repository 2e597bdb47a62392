//! I2: what was acknowledged is there; what was said not to be written is not; nothing is done twice.

use std::collections::BTreeMap;

use berth_model::{EvalId, Index, command::Command};

use super::{CheckResult, history::History};
use crate::operations::{JobRequest, Operation, RequestOutcome};

/// An answer has reached whoever asked.
pub fn on_answer(history: &History, operation: &Operation, outcome: &RequestOutcome) -> CheckResult {
    let RequestOutcome::Committed(index) = outcome else { return Ok(()) };
    if operation.what.is_empty() {
        // An operator's, which no evaluation names.
        return Ok(());
    }
    let entry = history.at(*index).map(|step| &step.entry);
    let there =
        entry.is_some_and(|entry| entry.commands.iter().any(|one| eval_of(one) == Some(operation.eval)));
    if !there {
        let what = format!("{operation} was acknowledged at {index}, where it is not");
        return Err(("I2 what is acknowledged is there", what));
    }
    undoes_no_stop(history, operation, *index)
}

/// Whoever changes a job only if it is as it was at an index has not seen that it was stopped after that.
fn undoes_no_stop(history: &History, operation: &Operation, index: Index) -> CheckResult {
    let Some(JobRequest { job, only_if: Some(seen), .. }) = &operation.asks else { return Ok(()) };
    let is_done =
        history.outcomes(index).any(|(command, done)| done && eval_of(command) == Some(operation.eval));
    let stops = |(command, done): (&Command, bool)| {
        done && matches!(command, Command::DeregisterJob(stop) if stop.job == *job)
    };
    let restores = |(command, _): (&Command, bool)| matches!(command, Command::RestorePart(_));
    if history.between(*seen, index).any(|at| history.outcomes(at).any(restores)) {
        // The job may be again as it was when it was seen.
        return Ok(());
    }
    let stopped = history.between(*seen, index).find(|at| history.outcomes(*at).any(stops));
    match stopped.filter(|_| is_done) {
        None => Ok(()),
        Some(at) => {
            let what =
                format!("{operation} knew {job} of {seen} and was done at {index}; it was stopped at {at}");
            Err(("I2 a check-and-set loses no update", what))
        }
    }
}

/// Everything that was asked for is where it was said to be.
pub fn at_rest(history: &History, operations: &[Operation]) -> CheckResult {
    let mut found: BTreeMap<EvalId, u32> = BTreeMap::new();
    for eval in history.commands().filter_map(|(_, command)| eval_of(command)) {
        *found.entry(eval).or_default() += 1;
    }
    for operation in operations.iter().filter(|operation| !operation.what.is_empty()) {
        let times = found.get(&operation.eval).copied().unwrap_or(0);
        let wrong = match operation.outcome {
            Some(RequestOutcome::Committed(_)) if times == 0 => "was acknowledged and is not there",
            Some(RequestOutcome::NotWritten) if times > 0 => "was said not to be written and is there",
            _ if times > 1 => "was done twice",
            _ => continue,
        };
        return Err(("I2 what is acknowledged is there", format!("{operation} {wrong}")));
    }
    Ok(())
}

/// The evaluation that names an operation.
pub fn eval_of(command: &Command) -> Option<EvalId> {
    match command {
        Command::RegisterJob(register) => Some(register.eval),
        Command::RunJob(run) => Some(run.eval),
        Command::DeregisterJob(deregister) => Some(deregister.eval),
        Command::ScaleJob(scale) => scale.event.eval,
        Command::StopAlloc(_, eval) => Some(eval.id),
        _ => None,
    }
}
