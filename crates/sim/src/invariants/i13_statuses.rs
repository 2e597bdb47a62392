//! I13: what the log says of an end is how the processes ended, and no agent forgets an end that no server knows of.

use std::collections::{BTreeMap, BTreeSet};

use berth_agent::lifecycle::TaskRef;
use berth_model::{
    AllocId,
    alloc::{AllocEnd, ClientStatus, TaskResult},
    command::Command,
    event::StateChange,
    store::Store,
};

use super::{CheckResult, history::AppliedStep};
use crate::node::{Machine, Process};

const RULE: &str = "I13 an end is reported as it was";
const KEPT: &str = "I13 an end is kept until servers know of it";

/// What became of processes, and of what was said of it.
#[derive(Default)]
pub struct Statuses {
    /// By allocation and task.
    starts: BTreeMap<(AllocId, usize), TaskStarts>,
    /// Allocations of which servers have known an end, or have known nothing any more.
    known: BTreeSet<AllocId>,
    /// Allocations that were asked to end.
    stopped: BTreeSet<AllocId>,
    /// Allocations that their agents have forgotten.
    forgotten: BTreeSet<AllocId>,
    /// A state was put in place of another one, in which other allocations are to end.
    is_restored: bool,
}

/// The processes of a task, one after the other.
#[derive(Default)]
struct TaskStarts {
    node: usize,
    /// How the last one ended, once its agent has seen that.
    last: Option<Exit>,
    /// How all of them ended that an agent has seen the end of.
    exits: BTreeSet<Exit>,
    /// The machine has restarted since the last one began: nobody may know how it ended.
    was_rebooted: bool,
    /// They end when no server is heard for long.
    minds_silence: bool,
}

/// An exit code and a signal.
type Exit = (i32, i32);

fn id_of(of: TaskRef) -> AllocId {
    AllocId(u128::from_be_bytes(of.alloc.0))
}

impl Statuses {
    pub fn on_started(&mut self, node: usize, of: TaskRef, process: &Process) {
        let starts = self.starts.entry((id_of(of), usize::from(of.task))).or_default();
        (starts.node, starts.last, starts.was_rebooted) = (node, None, false);
        starts.minds_silence = process.group.stop_after_silence_ms > 0;
    }

    /// An agent has seen that a process has ended, as the machine has it.
    pub fn on_ended(&mut self, of: TaskRef, process: &Process) {
        let exit = (process.exit.exit_code, process.exit.signal);
        if let Some(starts) = self.starts.get_mut(&(id_of(of), usize::from(of.task))) {
            starts.last = Some(exit);
            starts.exits.insert(exit);
        }
    }

    pub fn on_rebooted(&mut self, node: usize) {
        self.starts.values_mut().filter(|starts| starts.node == node).for_each(|s| s.was_rebooted = true);
    }

    /// An agent keeps nothing of an allocation any more that could be reported.
    pub fn on_forgotten(&mut self, store: &Store, node: usize, id: AllocId) -> CheckResult {
        self.forgotten.insert(id);
        let is_known = store.alloc(id).is_none_or(|(_, row)| row.is_terminal());
        if is_known || self.known.contains(&id) {
            return Ok(());
        }
        Err((KEPT, format!("node {} forgets {id}, whose end no server knows", node + 1)))
    }

    pub fn on_entry(&mut self, store: &Store, step: &AppliedStep) -> CheckResult {
        for change in &step.applied.events {
            match change {
                StateChange::AllocStopped(slot) | StateChange::AllocEnded(slot) => {
                    let Some(row) = store.allocs().row(*slot) else { continue };
                    if matches!(change, StateChange::AllocStopped(_)) {
                        self.stopped.insert(row.id);
                    }
                    if row.is_terminal() {
                        self.known.insert(row.id);
                    }
                }
                StateChange::AllocCollected(_, id, _) => {
                    self.known.insert(*id);
                }
                StateChange::Restored => self.is_restored = true,
                _ => {}
            }
        }
        let ends = step.entry.commands.iter().filter_map(|command| match command {
            Command::EndAllocs(ends) => Some(ends),
            _ => None,
        });
        ends.flatten().try_for_each(|end| self.check(store, end))
    }

    fn check(&self, store: &Store, end: &AllocEnd) -> CheckResult {
        let wrong = self.wrong_results(end).or_else(|| self.wrong_status(store, end));
        wrong.map_or(Ok(()), |what| Err((RULE, format!("{} {what}", end.alloc))))
    }

    /// What the results of tasks say that is not so.
    fn wrong_results(&self, end: &AllocEnd) -> Option<String> {
        let of = |task| self.starts.get(&(end.alloc, task));
        let is_forgotten = self.forgotten.contains(&end.alloc);
        if end.tasks.is_empty() && of(0).is_some() && !is_forgotten {
            return Some("was started, and ends as if it had not been".to_owned());
        }
        (0..).zip(&end.tasks).find_map(|(task, result)| {
            let reported = (result.exit_code, result.signal);
            let Some(starts) = of(task) else {
                return (reported != Exit::default())
                    .then(|| format!("never started, and ended with {reported:?}"));
            };
            // Who has forgotten it knows only whether it ended well.
            if is_forgotten && result.started_at.0 == 0 || starts.may_have_ended_with(end.status, reported) {
                return None;
            }
            Some(format!("is said to have ended with {reported:?}, and ended with {:?}", starts.last))
        })
    }

    /// What the status says that does not follow from how its tasks ended.
    fn wrong_status(&self, store: &Store, end: &AllocEnd) -> Option<String> {
        let tasks = || {
            (0..).zip(&end.tasks).filter_map(|(t, result)| Some((self.starts.get(&(end.alloc, t))?, result)))
        };
        let is_bad = |(starts, _): &(&TaskStarts, &TaskResult)| {
            starts.last.is_some_and(|exit| exit != Exit::default())
        };
        let runs_to_completion = store.alloc(end.alloc).and_then(|(_, row)| store.job_of(row));
        let runs_to_completion = runs_to_completion.is_some_and(|(job, _)| job.job_type.runs_to_completion());
        let may_be_stopped = self.is_restored || self.stopped.contains(&end.alloc);
        let what = match end.status {
            ClientStatus::Complete if !may_be_stopped && tasks().any(|of| is_bad(&of)) => {
                "is complete, and a task of it has failed"
            }
            ClientStatus::Failed if runs_to_completion && !tasks().any(|of| is_bad(&of)) => {
                "has failed, and no task of it has"
            }
            ClientStatus::Lost if !tasks().all(|(starts, _)| starts.was_rebooted || starts.minds_silence) => {
                "is lost, and its node was there"
            }
            ClientStatus::Pending | ClientStatus::Running => "ends as something that has not ended",
            _ => return None,
        };
        Some(what.to_owned())
    }

    /// What has ended is known to the servers, or kept by its agent.
    pub fn at_rest(&self, store: &Store, machines: &[Machine]) -> CheckResult {
        for ((id, _), starts) in self.starts.iter().filter(|(_, starts)| starts.last.is_some()) {
            let is_known = store.alloc(*id).is_none_or(|(_, row)| row.is_terminal());
            let content = machines[starts.node].content();
            let record = content.records.get(&berth_api::agent::AllocId(id.to_bytes()));
            if !is_known && record.is_none_or(|record| record.forgotten) {
                return Err((KEPT, format!("{id} has ended on node {}, and nobody knows", starts.node + 1)));
            }
        }
        Ok(())
    }
}

impl TaskStarts {
    /// Whether an allocation of which this is a task may end so. Of what the machine's restart has ended an agent has what it knew of
    /// processes before.
    fn may_have_ended_with(&self, status: ClientStatus, reported: Exit) -> bool {
        let is_lost = status == ClientStatus::Lost && self.was_rebooted;
        self.last == Some(reported)
            || is_lost && (reported == Exit::default() || self.exits.contains(&reported))
    }
}
