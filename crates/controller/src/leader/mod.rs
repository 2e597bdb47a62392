//! What only one server does, while it leads: it queues evaluations, judges plans, gives everything its position in the log
//! and in the one order of changes, and watches over time. Made from a replica when a leadership begins, dropped with all
//! that was in flight when it ends; nothing plans or proposes without it.

mod changes;
mod collect;
mod drains;
mod ends;
mod health;
mod nodes;
mod periodic;
mod plans;
mod rollouts;
mod servers;
mod sessions;
#[cfg(test)]
mod tests;
mod tick;
mod unhealthy;

pub(crate) use plans::discard;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use berth_model::{
    AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::AllocEnd,
    command::{Command, ENTRY_VERSION_MIN, Entry, Outcome},
    deployment::AllocHealth,
    eval::Trigger,
    event::{AppliedEntry, StateChange},
    ids::IdSeed,
    node::NodeStatus,
    store::Store,
};
use berth_scheduler::Ledger;

use crate::{
    action::{Action, PlanRequest, ProposalOutcome},
    applier::{Applier, RefusedPlacements},
    blocked::Blocked,
    eval_queue::EvalQueue,
    event::{EntryVersions, Request},
    follow::Follower,
    index_mint::IndexMint,
    liveness::{Liveness, grace},
    messages::{DownFrame, HELD_TOLD_MAX, NodeRecovery, ObservationBatch, ServerId, UpFrame},
    observation_queue::{ObservationQueue, OrderedObservation},
    outbox::{Abandoned, EntryHeader, Outbox, PlanPart, PlanTail, Purpose},
    replica::{LinkCapacity, Replica},
    tenants::Tenants,
};
use collect::Collector;
use drains::Drains;
use periodic::Periodic;
use rollouts::Rollouts;
use servers::{SYNC_PARTS_MAX, Servers, SyncPoint};
use sessions::Sessions;

/// Servers that can apply entries of this version read all of a [`NodeRecovery`].
const RECOVERY_SINCE: u8 = 4;

/// The leader's state.
#[derive(Debug)]
pub(crate) struct Leader {
    term: u64,
    /// The time of the entries that are made now; never goes back.
    time: Timestamp,
    /// For how long this server has listened to agents.
    listening: Duration,
    /// What the servers of the cluster can apply.
    versions: EntryVersions,
    mint: IndexMint,
    outbox: Outbox,
    /// Shared with planners.
    ledger: Ledger,
    applier: Applier,
    observations: ObservationQueue,
    /// The replicas, and the agents that speak through them.
    servers: Servers,
    sessions: Sessions,
    ids: IdSeed,
    liveness: Liveness,
    /// Since when it hears no majority, by `listening`: its agents speak to nobody until it does, or another leads.
    cut_off_since: Option<Duration>,
    /// Nodes that are silent and not declared lost, since too many are.
    held: Vec<NodeId>,
    /// Until when, by its own time, it waits for nodes that it has not heard.
    grace_until: Timestamp,
    /// Until when nothing counts as lost that waits for its node. Not extended when another server is gone: one that comes and goes
    /// would keep what is lost from ever being replaced.
    awaited_until: Timestamp,
    work: PendingWork,
}

/// What the leader has to do about the state: all of it is made from the state, and made again when that is replaced.
#[derive(Debug)]
struct PendingWork {
    queue: EvalQueue,
    blocked: Blocked,
    tenants: Tenants,
    collector: Collector,
    periodic: Periodic,
    rollouts: Rollouts,
    drains: Drains,
    /// How often in a row the plan of an evaluation was refused whole.
    attempts: HashMap<EvalId, u32>,
    /// Ended allocations on their way into the log.
    ending: BTreeSet<AllocId>,
    ended: Vec<AllocEnd>,
    /// What was found of the health of allocations, on its way into the log.
    judging: BTreeMap<AllocId, (DeploymentId, bool)>,
    found: Vec<AllocHealth>,
    /// Nodes whose new status is on its way into the log.
    changing: BTreeMap<NodeId, NodeStatus>,
    /// Nodes whose status is to be looked at again: the log refused it.
    unsettled: BTreeSet<NodeId>,
    /// Nodes that are disconnected, and of which less may be waited for than before.
    awaited: BTreeSet<NodeId>,
    /// Jobs that are to be evaluated.
    wanting: BTreeMap<JobKey, Trigger>,
    /// Per-node jobs are to be evaluated: a node has become ready.
    node_added: bool,
}

impl PendingWork {
    /// All that a state leads to.
    fn of(store: &Store) -> Self {
        Self {
            queue: EvalQueue::default(),
            blocked: Blocked::of(store),
            tenants: Tenants::of(store),
            collector: Collector::of(store),
            periodic: Periodic::of(store),
            rollouts: Rollouts::of(store),
            drains: Drains::of(store),
            attempts: HashMap::new(),
            ending: BTreeSet::new(),
            ended: Vec::new(),
            judging: BTreeMap::new(),
            found: Vec::new(),
            changing: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            awaited: BTreeSet::new(),
            wanting: BTreeMap::new(),
            node_added: false,
        }
    }

    /// Keeps everything that follows the state in step with it.
    fn follow(&mut self, store: &Store, change: &StateChange, at: Timestamp) {
        let Self { blocked, tenants, collector, periodic, rollouts, drains, .. } = self;
        blocked.on_change(store, change, at);
        tenants.on_change(store, change, at);
        collector.on_change(store, change, at);
        periodic.on_change(store, change, at);
        rollouts.on_change(store, change, at);
        drains.on_change(store, change, at);
    }
}

/// The times at which the leader is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaderTimes {
    /// Time of the entries that are made now.
    pub time: Timestamp,
    /// For how long this server has listened to agents.
    pub listening: Duration,
}

impl Leader {
    /// A leadership begins. Everything is made from what the replica has.
    pub fn begin(
        term: u64,
        server: ServerId,
        replica: &Replica,
        times: LeaderTimes,
        mut ids: IdSeed,
        ledger: Ledger,
        versions: EntryVersions,
    ) -> Self {
        let store = replica.store();
        let mut outbox = Outbox::default();
        if store.cluster().id == 0 {
            outbox.push(Command::FoundCluster(ids.mint().max(1)));
        }
        if store.is_restoring() {
            // Whoever sent the parts did so through the leader before.
            outbox.push(Command::AbandonRestore);
        }
        let mut leader = Self {
            term,
            time: times.time,
            listening: times.listening,
            versions,
            mint: IndexMint::begin(store.granted(), store.index()),
            outbox,
            applier: Applier::new(ledger.clone()),
            ledger,
            observations: ObservationQueue::default(),
            servers: Servers::new(server),
            sessions: Sessions::of(store),
            ids,
            liveness: Liveness::begin(store, times.listening),
            cut_off_since: None,
            held: Vec::new(),
            grace_until: times.time.after(grace(store)),
            awaited_until: times.time.after(grace(store)),
            work: PendingWork::of(store),
        };
        leader.take_up_state(replica);
        leader
    }

    /// Term of the leadership.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The leadership has ended. Those who wait are answered, as far as that is known, with the outcome of what was proposed.
    pub fn end(self, why: &str, actions: &mut Vec<Action>) {
        self.applier.end();
        let Abandoned { unknown, not_written } = self.outbox.abandon();
        let mut end = |purpose: Purpose, answer: ProposalOutcome| match purpose {
            Purpose::Request(token) => actions.push(Action::Answer(token, answer)),
            // Whoever leads next decides them from the state.
            Purpose::Plan(_) | Purpose::NodeStatus(_) | Purpose::Introduction(_) | Purpose::Own => {}
        };
        unknown.into_iter().for_each(|purpose| end(purpose, ProposalOutcome::Unknown(why.to_owned())));
        not_written.into_iter().for_each(|purpose| end(purpose, ProposalOutcome::NotWritten(why.to_owned())));
    }

    /// What the servers of the cluster can apply has changed.
    pub fn set_versions(&mut self, versions: EntryVersions) {
        self.versions = versions;
    }

    /// The version of entries that are written now: the newest that all servers know. What the log holds already they know,
    /// whoever is not heard at the moment, so that it never falls.
    pub(super) fn entry_version(&self, store: &Store) -> u8 {
        self.versions.entries.max(store.version()).max(ENTRY_VERSION_MIN)
    }

    /// Time has gone on.
    pub fn set_times(&mut self, times: LeaderTimes) {
        (self.time, self.listening) = (times.time, times.listening);
    }

    /// Somebody asks for a change.
    pub fn on_requested(&mut self, store: &Store, request: Request, actions: &mut Vec<Action>) {
        let Request { token, commands } = request;
        let (needed, written) = (Entry::version_for(commands.commands()), self.entry_version(store));
        if needed > written {
            let held_by = &self.versions.held_by;
            let why =
                format!("it needs entries of the log of version {needed}, and {held_by}: upgrade it first");
            return actions.push(Action::Answer(token, ProposalOutcome::TooNew(why)));
        }
        if let [Command::RestorePart(part)] = commands.commands() {
            self.mint.go_on_after(part.granted);
        }
        if let Err(answer) = self.outbox.request(commands, token) {
            actions.push(Action::Answer(token, answer));
        }
    }

    /// Entries have been applied; the replica has taken them in.
    pub fn on_applied(&mut self, replica: &Replica, applied: &[AppliedEntry], actions: &mut Vec<Action>) {
        self.mint.grant(replica.store().granted());
        for AppliedEntry { index, outcomes, events, .. } in applied {
            self.observations.on_applied(*index);
            self.applier.applied(*index, outcomes.iter().any(Result::is_err));
            let mut outcomes = outcomes.iter().cloned();
            for (purpose, count) in self.outbox.applied(*index) {
                let outcomes: Vec<_> = outcomes.by_ref().take(count).collect();
                self.on_written(purpose, *index, outcomes, actions);
            }
            events.iter().for_each(|change| self.on_change(replica, *index, change));
        }
    }

    fn on_written(
        &mut self,
        purpose: Purpose,
        index: Index,
        outcomes: Vec<Outcome>,
        actions: &mut Vec<Action>,
    ) {
        match purpose {
            Purpose::Request(token) => {
                actions.push(Action::Answer(token, ProposalOutcome::Committed(index, outcomes)));
            }
            Purpose::Plan(PlanPart { tail: Some(tail), .. }) if tail.again => self.plan_again(tail.eval),
            // The state has no such node: its introduction was not written, or it was purged.
            Purpose::NodeStatus(node) if outcomes.iter().any(Result::is_err) => self.unsettle(node),
            Purpose::Plan(_) | Purpose::NodeStatus(_) | Purpose::Introduction(_) | Purpose::Own => {}
        }
    }

    /// An entry is not in the log.
    pub fn on_not_written(&mut self, index: Index, why: &str, actions: &mut Vec<Action>) {
        self.applier.not_written(index);
        for purpose in self.outbox.not_written(index) {
            match purpose {
                Purpose::Request(token) => {
                    actions.push(Action::Answer(token, ProposalOutcome::NotWritten(why.to_owned())));
                }
                Purpose::Plan(PlanPart { tail: Some(tail), .. }) => self.plan_again(tail.eval),
                // A later part may be written and close the evaluation all the same.
                Purpose::Plan(PlanPart { job, .. }) => {
                    self.work.wanting.insert(job, Trigger::MaxPlanAttempts);
                }
                Purpose::NodeStatus(node) => self.unsettle(node),
                Purpose::Introduction(node) => {
                    self.end_session_of(node, "the node's introduction could not be written");
                }
                Purpose::Own => unreachable!("the outbox proposes them again"),
            }
        }
    }

    /// A replica says something.
    pub fn on_frame(&mut self, replica: &Replica, from: ServerId, frame: UpFrame) {
        if frame.term == self.term {
            let recent = self.observations.unpublished(replica.publication().last());
            self.servers.on_frame(from, frame, self.mint.began(), recent, self.listening);
        }
    }

    /// What is to be done about all that was taken in. Returns what the replicas are to be sent.
    pub fn flush(
        &mut self,
        replica: &Replica,
        links: &dyn LinkCapacity,
        actions: &mut Vec<Action>,
    ) -> Vec<(ServerId, DownFrame)> {
        self.take_in(replica);
        self.write_evidence();
        self.write_ends();
        self.judge_deployments(replica.store());
        self.judge_drains(replica);
        self.evaluate_wanting(replica.store());
        if let Some(command) = self.mint.next_grant() {
            self.outbox.push(command);
        }
        self.work.tenants.follow(replica.store());
        self.retry_blocked(replica.store());
        let version = self.entry_version(replica.store());
        let heading = EntryHeader { term: self.term, version, at: self.time };
        let Self { mint, observations, outbox, applier, servers, .. } = self;
        let after = replica.store().index();
        observations.mint(after, || mint.observed());
        for server in servers.due(links) {
            let Some(index) = mint.observed_block(SYNC_PARTS_MAX) else { break };
            observations.sync(server, index, after);
            servers.placed(server);
        }
        outbox.flush(mint, heading, |ticket, index| applier.proposed(ticket, index), actions);
        self.publish(replica);
        let sync_point = SyncPoint {
            up_to: self.observations.sent_up_to(self.mint.last()),
            recovery: self.recovery(version),
        };
        self.servers.frames(self.term, &sync_point, links, self.listening)
    }

    /// Whether there is something for a replica that could be sent now.
    pub fn has_more_to_send(&self, links: &dyn LinkCapacity) -> bool {
        let lacks_more = || self.mint.has_block(SYNC_PARTS_MAX) && !self.servers.due(links).is_empty();
        self.servers.has_outgoing(links) || lacks_more()
    }

    /// How far this leadership knows the nodes. Servers that know no entries of version 4 know one number of it.
    fn recovery(&self, version: u8) -> NodeRecovery {
        let unconfirmed = self.sessions.unconfirmed() as u64;
        if version < RECOVERY_SINCE {
            return NodeRecovery::of(unconfirmed);
        }
        NodeRecovery {
            unconfirmed,
            unheard: self.liveness.unheard() as u64,
            grace_until: self.grace_until,
            held: self.held.len() as u64,
            held_nodes: self.held.iter().take(HELD_TOLD_MAX).copied().collect(),
        }
    }

    /// Has the replicas sent what is to be published.
    fn publish(&mut self, replica: &Replica) {
        let published = replica.publication().last();
        for ready in self.observations.ready(self.outbox.first_in_flight()) {
            match ready {
                OrderedObservation::Batch(batch) => {
                    self.servers.publish(&batch);
                    let seen = batch.reports.iter().flat_map(|report| &report.seen);
                    // A deployment, or what an allocation is to run, may have changed since a report came, and what changed
                    // looked at what had been published before.
                    seen.for_each(|seen| self.on_seen_health(replica.store(), seen));
                    self.observations.add_sent(batch, published);
                }
                OrderedObservation::Sync(server, index, after) => {
                    let recent = self.observations.unpublished(published);
                    self.servers.sync(server, [index, after], replica.publication(), recent);
                }
            }
        }
    }

    /// This server's replica has recorded what agents reported: what that means for drains is judged next.
    pub fn on_recorded(&mut self, store: &Store, batches: &[Arc<ObservationBatch>]) {
        let seen = batches.iter().flat_map(|batch| &batch.reports).flat_map(|report| &report.seen);
        self.work.drains.on_recorded(store, seen);
    }

    /// Evaluations that planners are to answer, once they can read everything that has been applied. On an older state a job
    /// may not be there yet, and what an earlier plan has placed for it neither: the first would be answered with nothing,
    /// the second placed twice.
    pub fn evals_to_plan(&mut self, replica: &Replica, planning_max: usize) -> Vec<Action> {
        let mut plans = Vec::new();
        if !replica.is_all_readable() {
            return plans;
        }
        while self.work.queue.planning() < planning_max {
            let Some(eval) = self.work.queue.pop(replica.store(), &mut self.work.tenants) else { break };
            plans.push(Action::Plan(PlanRequest {
                term: self.term,
                eval,
                now: self.time,
                awaited_until: self.awaited_until,
            }));
        }
        plans
    }
}
