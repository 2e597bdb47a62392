//! What really happens, seen from outside: every part reports here, and the invariants are checked here.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use berth_agent::lifecycle::TaskRef;
use berth_controller::EntryFailure;
use berth_model::{
    AllocId, Index,
    command::{Command, Entry},
    event::{AppliedEntry, StateChange},
    store::Store,
};

use crate::{
    coverage,
    executor::now_ns,
    invariants::Invariants,
    node::{MachineState, Process},
    operations::{Operations, RequestOutcome},
};

/// Commands that each simulation writes: fewer find little.
pub const COMMANDS_MIN: usize = 500;
/// Lines of the story that are kept.
const STORY_MAX: usize = 20_000;

/// A rule that did not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The name of the invariant.
    pub invariant: &'static str,
    /// What violated it.
    pub what: String,
    /// When, in nanoseconds.
    pub at_ns: u64,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {:.3} s)", self.invariant, self.what, self.at_ns as f64 / 1e9)
    }
}

/// What has been counted, by name.
pub type Counts = BTreeMap<&'static str, u64>;

/// Everything known. A clone is the same truth.
#[derive(Clone)]
pub struct Truth(Arc<Mutex<Observations>>);

/// What is known.
pub struct Observations {
    /// The rules, and what they remember.
    pub invariants: Invariants,
    /// What people asked for.
    pub operations: Operations,
    /// The last index at which something was acknowledged.
    pub acknowledged: Index,
    /// Counted states and faults.
    pub counts: Counts,
    /// The first rule that did not hold.
    pub violation: Option<Violation>,
    /// Servers that can go on no more, and why.
    pub failed: Vec<(usize, String)>,
    /// Nodes whose agents died by themselves.
    pub died: Vec<usize>,
    /// What a person can follow.
    pub story: Vec<String>,
    /// From when on it lists entries too, in nanoseconds.
    pub entries_from_ns: u64,
    /// Sums up all that happened, in order.
    pub digest: u64,
}

impl Truth {
    /// Nothing has happened yet.
    pub fn new(servers: usize) -> Self {
        Self(Arc::new(Mutex::new(Observations {
            invariants: Invariants::new(servers),
            operations: Operations::default(),
            acknowledged: Index::default(),
            counts: Counts::new(),
            violation: None,
            failed: Vec::new(),
            died: Vec::new(),
            story: Vec::new(),
            entries_from_ns: u64::MAX,
            digest: 0xcbf2_9ce4_8422_2325,
        })))
    }

    /// All of it.
    pub fn facts(&self) -> MutexGuard<'_, Observations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something that a person should know.
    pub fn log_line(&self, line: &str) {
        self.facts().log_line(line);
    }

    /// Something was seen that is counted.
    pub fn count(&self, what: &'static str) {
        self.facts().count(what, 1);
    }

    /// A rule did not hold.
    pub fn violated(&self, invariant: &'static str, what: String) {
        self.facts().violated(invariant, what);
    }

    /// A leader handed an entry to its log.
    pub fn proposed(&self, term: u64, entry: &Entry) {
        let facts = &mut *self.facts();
        for command in &entry.commands {
            facts.count(command.kind(), 1);
            if let Command::CommitPlan(plan) = command {
                let updates = plan.updates.as_ref().map_or(0, Vec::len);
                facts.count("allocations updated where they are", updates as u64);
            }
        }
        facts.mix(entry.index.0);
        if now_ns() >= facts.entries_from_ns {
            facts.note(&format!("entry {}: {:?}", entry.index, entry.commands));
        }
        facts.invariants.on_proposed(term, entry);
    }

    /// An entry was not applied.
    pub fn not_applied(&self, server: usize, (term, index): (u64, Index), fate: &EntryFailure) {
        let facts = &mut *self.facts();
        facts.count("entries not applied", 1);
        facts.log_line(&format!("server {}: entry {index} of term {term} ends as {fate:?}", server + 1));
        if matches!(fate, EntryFailure::NotWritten(_)) {
            facts.invariants.on_not_written(term, index);
        }
    }

    /// A server applied entries.
    pub fn applied(&self, server: usize, store: &Store, applied: &[AppliedEntry]) {
        let facts = &mut *self.facts();
        facts.count("entries applied", applied.len() as u64);
        facts.mix(store.index().0);
        facts.mix(store.hash() as u64);
        let before = facts.invariants.history.len();
        let result = facts.invariants.on_applied(server, store, applied);
        coverage::count(&facts.invariants.history, before, &mut facts.counts);
        facts.judge(result);
    }

    /// A server took up a state from its disk or from another server.
    pub fn restored(&self, server: usize, store: &Store) {
        let facts = &mut *self.facts();
        facts.log_line(&format!("server {}: has read the state at index {}", server + 1, store.index()));
        facts.mix(store.hash() as u64);
        let result = facts.invariants.on_restored(server, store);
        facts.judge(result);
    }

    /// A server learned who leads.
    pub fn leadership(&self, server: usize, term: u64, leader: bool) {
        let facts = &mut *self.facts();
        let what = if leader { "leads" } else { "does not lead" };
        facts.log_line(&format!("server {}: {what} in term {term}", server + 1));
        let result = facts.invariants.on_leadership(server, term, leader);
        facts.judge(result);
    }

    /// A server published a state to readers; all that it shows of what is observed where that does not follow on what it published
    /// before.
    pub fn published(
        &self,
        server: usize,
        index: Index,
        logged: &[(Index, Vec<StateChange>)],
        seen: &[(Index, Vec<(AllocId, u128)>)],
        anew: Option<&[(AllocId, u128)]>,
    ) {
        let facts = &mut *self.facts();
        facts.mix(index.0);
        let result = facts.invariants.on_published(server, index, logged, seen, anew);
        facts.judge(result);
    }

    /// Somebody got the outcome of a request.
    pub fn answered(&self, number: u64, outcome: RequestOutcome) {
        let facts = &mut *self.facts();
        if let RequestOutcome::Committed(index) = outcome {
            facts.acknowledged = facts.acknowledged.max(index);
            facts.invariants.on_acknowledged(index);
        }
        let operation = &mut facts.operations.0[number as usize];
        operation.outcome = Some(outcome.clone());
        let operation = operation.clone();
        facts.count(
            match outcome {
                RequestOutcome::Committed(_) => "requests acknowledged",
                RequestOutcome::NotWritten => "requests refused",
                RequestOutcome::Unknown => "requests of unknown fate",
            },
            1,
        );
        if !operation.what.is_empty() {
            facts.log_line(&format!("{operation} ends as {outcome:?}"));
        }
        let result = facts.invariants.on_answer(&operation, &outcome);
        facts.judge(result);
    }

    /// Somebody has read, who began when `before` had been acknowledged.
    pub fn read(&self, before: Index, index: Index) {
        let facts = &mut *self.facts();
        facts.count("default reads", 1);
        let result = facts.invariants.on_read(before, index);
        facts.judge(result);
    }

    /// Somebody has read without waiting, and was informed how old what was shown is at most.
    pub fn read_stale(&self, index: Index, age: Duration) {
        let facts = &mut *self.facts();
        facts.count("stale reads", 1);
        let result = facts.invariants.on_stale_read(index, age);
        facts.judge(result);
    }

    /// A planner has answered.
    pub fn planned(&self) {
        self.count("plans");
    }

    /// A plan was judged.
    pub fn judged(&self, refused: usize) {
        let facts = &mut *self.facts();
        facts.count("placements refused", refused as u64);
        if refused > 0 && facts.invariants.history.store().deployments().active().next().is_some() {
            facts.count("plans refused beside a deployment", 1);
        }
    }

    /// A server serves.
    pub fn server_open(&self, server: usize) {
        let facts = &mut *self.facts();
        facts.log_line(&format!("server {}: serves", server + 1));
        let result = facts.invariants.on_open(server);
        facts.judge(result);
    }

    /// A server can go on no more.
    pub fn server_failed(&self, server: usize, why: &str) {
        let facts = &mut *self.facts();
        facts.log_line(&format!("server {}: ends itself: {why}", server + 1));
        facts.failed.push((server, why.to_owned()));
    }

    /// An agent died in the middle of something.
    pub fn agent_died(&self, node: usize) {
        let facts = &mut *self.facts();
        facts.log_line(&format!("node {}: its agent dies in the middle of something", node + 1));
        facts.died.push(node);
    }

    /// A process has started on a machine.
    pub fn started(&self, node: usize, of: TaskRef, process: &Process, machine: &MachineState) {
        let facts = &mut *self.facts();
        facts.count("processes started", 1);
        facts.mix(u64::from(of.attempt));
        facts.log_line(&format!("node {}: starts {} of {}", node + 1, name(of), process.group.job_id));
        let result = facts.invariants.on_started(node, of, process, machine);
        facts.judge(result);
    }

    /// An agent ends a process by force.
    pub fn killed(&self, node: usize, of: TaskRef) {
        self.facts().invariants.on_killed(node, of);
    }

    /// A process was seen to have ended.
    pub fn ended(&self, node: usize, of: TaskRef, process: &Process) {
        let facts = &mut *self.facts();
        facts.log_line(&format!("node {}: {} has ended", node + 1, name(of)));
        let result = facts.invariants.on_ended(node, of, process);
        facts.judge(result);
    }

    /// A machine has restarted.
    pub fn rebooted(&self, node: usize) {
        self.facts().invariants.on_rebooted(node);
    }

    /// An agent keeps nothing of an allocation any more that could be reported.
    pub fn forgotten(&self, node: usize, alloc: AllocId) {
        let facts = &mut *self.facts();
        let result = facts.invariants.on_forgotten(node, alloc);
        facts.judge(result);
    }

    /// An agent asks a process to end; `is_deserted` when no server was heard for as long as its group says.
    pub fn signalled(&self, node: usize, of: TaskRef, is_deserted: bool) {
        let facts = &mut *self.facts();
        facts.log_line(&format!("node {}: asks {} to end", node + 1, name(of)));
        let result = facts.invariants.on_signalled(node, of, is_deserted);
        if is_deserted {
            facts.count("tasks that end without a server", 1);
        }
        facts.judge(result);
    }
}

impl Observations {
    /// Adds a line to the story.
    pub fn log_line(&mut self, line: &str) {
        line.bytes().for_each(|byte| self.mix(u64::from(byte)));
        self.note(line);
    }

    /// Adds a line to the story that is no part of what happened.
    fn note(&mut self, line: &str) {
        let seconds = now_ns() as f64 / 1e9;
        if self.story.len() < STORY_MAX {
            self.story.push(format!("{seconds:9.3}  {line}"));
        }
    }

    /// Sums up what happened.
    pub fn mix(&mut self, number: u64) {
        let mixed = (self.digest ^ number ^ now_ns()).wrapping_mul(0x0100_0000_01b3);
        self.digest = mixed ^ (mixed >> 29);
    }

    /// Counts something.
    pub fn count(&mut self, what: &'static str, more: u64) {
        *self.counts.entry(what).or_default() += more;
    }

    /// Notes the first rule that did not hold.
    pub fn violated(&mut self, invariant: &'static str, what: String) {
        self.log_line(&format!("VIOLATION of {invariant}: {what}"));
        let at_ns = now_ns();
        self.violation.get_or_insert(Violation { invariant, what, at_ns });
    }

    /// Notes what a check has found.
    pub fn judge(&mut self, result: Result<(), (&'static str, String)>) {
        if let Err((invariant, what)) = result {
            self.violated(invariant, what);
        }
    }

    /// Whether fewer commands were written than a simulation is to have.
    pub fn has_too_few_commands(&self) -> bool {
        self.invariants.history.commands_count() < COMMANDS_MIN
    }

    /// The commands in the one history, with the index of their entries.
    pub fn history(&self) -> impl Iterator<Item = (Index, &Command)> {
        self.invariants.history.commands()
    }
}

/// A start of a task, for people.
fn name(of: TaskRef) -> String {
    let id = of.alloc.to_string();
    format!("{}/{}#{}", id.get(..8).unwrap_or(&id), of.task, of.attempt)
}
