//! The rules, a file each; those of jobs' lives are the controller's. They look at what really happens, never at what a server says
//! of itself, unless that is the rule.

pub mod history;
mod i01_leaders;
mod i02_acknowledged;
mod i03_reads;
mod i03_stale;
mod i04_states;
mod i05_indexes;
mod i06_jobs;
mod i07_processes;
mod i08_capacity;
mod i09_preemption;
mod i09_quotas;
mod i10_counts;
mod i12_periodic;
mod i13_statuses;
mod i16_untouched;
mod i17_restored;
pub mod r04_confirmed;
mod r22_outages;
mod r28_liveness;

use std::{sync::Arc, time::Duration};

use berth_agent::lifecycle::TaskRef;
use berth_controller::invariants::{Rollbacks, twice};
use berth_model::{
    AllocId, Index,
    command::Entry,
    event::{AppliedEntry, StateChange},
    store::Store,
};

use crate::{
    node::{Machine, MachineState, Process},
    operations::{Operation, RequestOutcome},
    server::View,
};
use history::History;
pub use i01_leaders::Promises;
pub use i06_jobs::MARK;

/// What a rule says: nothing, or that it is broken and by what.
pub type CheckResult = Result<(), (&'static str, String)>;

/// What the rules remember.
pub struct Invariants {
    /// What all servers agree on.
    pub history: History,
    leaders: i01_leaders::Leaders,
    ages: i03_stale::Ages,
    indexes: i05_indexes::Indexes,
    jobs: i06_jobs::Jobs,
    counts: i10_counts::DueCounts,
    processes: i07_processes::Processes,
    periodic: i12_periodic::Launches,
    statuses: i13_statuses::Statuses,
    rollbacks: Rollbacks,
    untouched: i16_untouched::Untouched,
    outage: r22_outages::Outage,
    liveness: r28_liveness::Liveness,
    confirmed: r04_confirmed::Confirmed,
}

impl Invariants {
    /// Nothing has happened yet.
    pub fn new(servers: usize) -> Self {
        Self {
            history: History::new(servers),
            leaders: i01_leaders::Leaders::default(),
            ages: i03_stale::Ages::default(),
            indexes: i05_indexes::Indexes::new(servers),
            jobs: i06_jobs::Jobs::default(),
            counts: i10_counts::DueCounts::default(),
            processes: i07_processes::Processes::default(),
            periodic: i12_periodic::Launches::default(),
            statuses: i13_statuses::Statuses::default(),
            rollbacks: Rollbacks::default(),
            untouched: i16_untouched::Untouched::default(),
            outage: r22_outages::Outage::default(),
            liveness: r28_liveness::Liveness::default(),
            confirmed: r04_confirmed::Confirmed::default(),
        }
    }

    /// Its index is judged once it is applied: what a leader proposes that has been deposed is discarded, and its
    /// index may be the next one's.
    pub fn on_proposed(&mut self, term: u64, entry: &Entry) {
        self.history.on_proposed(term, entry);
    }

    pub fn on_not_written(&mut self, term: u64, index: Index) {
        self.history.on_not_written(term, index);
    }

    pub fn on_applied(&mut self, server: usize, store: &Store, applied: &[AppliedEntry]) -> CheckResult {
        for one in applied {
            let Some(step) = self.history.on_applied(server, one)? else { continue };
            let store = self.history.store();
            let step = &*step;
            i08_capacity::check(store, step)?;
            i09_quotas::check(store, step)?;
            for (_, row) in store.jobs().iter() {
                twice(store, row)
                    .map_or(Ok(()), |what| Err(("I11 a system job runs once on each node", what)))?;
            }
            self.jobs.on_entry(store, step)?;
            self.processes.on_entry(store, step)?;
            self.periodic.on_entry(store, step)?;
            self.statuses.on_entry(store, step)?;
            let undone = self.rollbacks.on_entry(store, &step.entry, &step.applied);
            undone.map_err(|what| ("I14 a rollback restores the last stable version", what))?;
            self.untouched.on_entry(store, step);
            self.liveness.on_entry(store, step)?;
        }
        i04_states::on_applied(&self.history, server, store)
    }

    pub fn on_restored(&mut self, server: usize, store: &Store) -> CheckResult {
        i17_restored::on_restored(&mut self.history, server, store)
    }

    pub fn on_leadership(&mut self, server: usize, term: u64, leader: bool) -> CheckResult {
        self.leaders.on_leadership(server, term, leader)
    }

    /// What a server, counted from 0, has promised by now.
    pub fn on_promises(&mut self, server: usize, promises: Promises) -> CheckResult {
        self.leaders.on_promises(server, promises)
    }

    /// A server has begun with nothing, as another member: no rule holds it to what it was before.
    pub fn on_rebuilt(&mut self, server: usize) {
        self.leaders.on_rebuilt(server);
        self.indexes.on_rebuilt(server);
    }

    pub fn on_open(&mut self, server: usize) -> CheckResult {
        self.indexes.on_restart(server);
        self.history.on_open(server)
    }

    pub fn on_published(
        &mut self,
        server: usize,
        index: Index,
        logged: &[(Index, Vec<StateChange>)],
        seen: &[(Index, Vec<(AllocId, u128)>)],
        anew: Option<&[(AllocId, u128)]>,
    ) -> CheckResult {
        if let Some(all) = anew {
            self.indexes.on_full_read(server, all);
        }
        self.indexes.on_published(server, index, logged, seen, &self.history)
    }

    pub fn on_answer(&mut self, operation: &Operation, outcome: &RequestOutcome) -> CheckResult {
        i02_acknowledged::on_answer(&self.history, operation, outcome)
    }

    pub fn on_read(&self, before: Index, index: Index) -> CheckResult {
        i03_reads::on_read(before, index)
    }

    pub fn on_acknowledged(&mut self, index: Index) {
        self.ages.on_acknowledged(index);
    }

    pub fn on_stale_read(&self, index: Index, age: Duration) -> CheckResult {
        self.ages.on_stale_read(index, age)
    }

    pub fn on_started(
        &mut self,
        node: usize,
        of: TaskRef,
        process: &Process,
        machine: &MachineState,
    ) -> CheckResult {
        i08_capacity::on_started(node, of, process, machine)?;
        i06_jobs::on_started(self.history.store(), of, process)?;
        self.statuses.on_started(node, of, process);
        self.processes.on_started(node, of, process, machine)
    }

    pub fn on_rebooted(&mut self, node: usize) {
        self.statuses.on_rebooted(node);
    }

    pub fn on_forgotten(&mut self, node: usize, alloc: AllocId) -> CheckResult {
        self.statuses.on_forgotten(self.history.store(), node, alloc)
    }

    /// Something keeps the agent of a node from its servers, until then.
    pub fn on_node_hindered(&mut self, node: usize, until_ns: u64) {
        self.liveness.on_hindered(node, until_ns);
    }

    pub fn on_killed(&mut self, node: usize, of: TaskRef) {
        self.untouched.on_killed(node, of);
    }

    pub fn on_ended(&mut self, node: usize, of: TaskRef, process: &Process) -> CheckResult {
        self.statuses.on_ended(of, process);
        self.untouched.on_ended(node, of, process)
    }

    pub fn on_signalled(&mut self, node: usize, of: TaskRef, is_deserted: bool) -> CheckResult {
        self.untouched.on_signalled(self.history.store(), (node, of), is_deserted)
    }

    /// All servers are away until then, in nanoseconds.
    pub fn on_outage_begun(&mut self, machines: &[Machine], until_ns: u64) {
        let is_stopped = |alloc| self.untouched.is_stopped(alloc);
        self.outage.begin(self.history.store(), machines, until_ns, is_stopped);
    }

    /// They come back.
    pub fn on_outage_ended(&mut self, machines: &[Machine]) -> CheckResult {
        self.outage.end(machines)
    }

    /// Time has passed, of which nothing has kept the servers from their work `since_ns`; none while something does.
    pub fn on_time(&mut self, since_ns: Option<u64>) -> CheckResult {
        self.counts.on_time(self.history.store(), since_ns)?;
        self.periodic.on_time(self.history.store(), since_ns)
    }

    /// Time has passed since faults have ended, of which nothing has kept the servers from their work `since_ns`; none while
    /// something does. What each server, counted from 0, shows.
    pub fn on_shown(
        &mut self,
        since_ns: Option<u64>,
        servers: impl Iterator<Item = (usize, Arc<View>)>,
    ) -> CheckResult {
        self.confirmed.on_time(since_ns, servers)
    }

    /// Faults have ended a while ago: what whoever follows a server was told is what it shows.
    pub fn followers_agree_at_rest(&self, server: usize, shown: &[(AllocId, u128)]) -> CheckResult {
        self.indexes.at_rest(server, shown)
    }

    /// Faults have ended a while ago, and nobody asks for anything: everything is as it should be.
    pub fn at_rest(&self, machines: &[Machine], operations: &[Operation]) -> CheckResult {
        let store = self.history.store();
        self.history.at_rest()?;
        i02_acknowledged::at_rest(&self.history, operations)?;
        self.jobs.at_rest(store)?;
        i06_jobs::none_is_lost(&self.history, operations)?;
        i06_jobs::on_nodes(store, machines)?;
        i10_counts::at_rest(store)?;
        self.periodic.at_rest(store)?;
        self.statuses.at_rest(store, machines)?;
        i07_processes::at_rest(store, machines)
    }
}
