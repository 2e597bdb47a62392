//! The controller: one state machine that everything else asks what to do next.

mod changes;
mod plans;
mod restored;
mod sessions;
mod tick;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, DesiredStatus, RESULT_MESSAGE_BYTES_MAX, StopReason, TaskResult},
    command::{Command, NextEval},
    eval::{Eval, EvalStatus, Trigger},
    event::{Applied, Event as Change},
    ids::IdSeed,
    node::NodeStatus,
    observed::{ObservedAlloc, ObservedTask},
    store::{AllocRow, AllocSlot, JobSlot, NodeSlot, Store},
};
use berth_scheduler::{Plan, Ticket};

use crate::{
    action::{Action, Answer, ToNode},
    applier::{Applier, Refused, Verdict},
    blocked::{self, Blocked},
    collect::Collector,
    eval_queue::EvalQueue,
    event::{Event, Hello, Request, SessionId, WelcomeMode},
    index_mint::IndexMint,
    nodes::{Nodes, Opened},
    observing::Observing,
    outbox::{Outbox, PlanTail},
    periodic::Periodic,
    tenants::Tenants,
};

/// How often a plan that was refused is made again before its work waits for room.
const ATTEMPTS_MAX: u32 = 5;
/// About what an evaluation needs in the log.
const EVAL_BYTES: usize = 256;

/// What the controller must be told once.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// Evaluations handed to planners at a time.
    pub planning_max: usize,
    /// The hash of one wish, as agents compute it: allocation, and whether it should stop.
    pub desired_hash: fn(AllocId, bool) -> u128,
    /// Makes ids.
    pub seed: u64,
}

/// The state machine.
#[derive(Debug)]
pub struct Controller {
    config: Config,
    leads: bool,
    term: u64,
    now: Timestamp,
    store: Store,
    observing: Observing,
    mint: IndexMint,
    outbox: Outbox,
    queue: EvalQueue,
    blocked: Blocked,
    tenants: Tenants,
    applier: Applier,
    nodes: Nodes,
    ids: IdSeed,
    attempts: HashMap<EvalId, u32>,
    /// Ended allocations on their way into the log.
    ending: HashSet<AllocId>,
    /// Nodes whose new status is on its way into the log.
    changing: HashMap<NodeId, NodeStatus>,
    logged: Vec<(Index, Vec<Change>)>,
    answers: Vec<Action>,
    ended: Vec<AllocEnd>,
    wanting: BTreeMap<JobKey, Trigger>,
    to_nodes: BTreeMap<NodeSlot, Wishes>,
    collector: Collector,
    periodic: Periodic,
    /// Per-node jobs are to be evaluated: a node has become ready.
    node_came: bool,
}

/// What changed for one node since it was last told.
#[derive(Debug, Default)]
struct Wishes {
    run: Vec<AllocSlot>,
    stop: Vec<AllocSlot>,
    forget: Vec<AllocId>,
    purge: Vec<AllocId>,
}

impl Controller {
    /// A controller that does not lead yet.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            leads: false,
            term: 0,
            now: Timestamp::default(),
            store: Store::default(),
            observing: Observing::default(),
            mint: IndexMint::default(),
            outbox: Outbox::default(),
            queue: EvalQueue::default(),
            blocked: Blocked::default(),
            tenants: Tenants::default(),
            applier: Applier::default(),
            nodes: Nodes::default(),
            ids: IdSeed::new(config.seed),
            attempts: HashMap::new(),
            ending: HashSet::new(),
            changing: HashMap::new(),
            logged: Vec::new(),
            answers: Vec::new(),
            ended: Vec::new(),
            wanting: BTreeMap::new(),
            to_nodes: BTreeMap::new(),
            collector: Collector::default(),
            periodic: Periodic::default(),
            node_came: false,
        }
    }

    /// Takes in what happened. What comes of it is told by [`Self::flush`], once for as many events as there were.
    pub fn handle(&mut self, event: Event, now: Timestamp, actions: &mut Vec<Action>) {
        self.now = self.now.max(now);
        match event {
            Event::Leads { term, store } => self.on_leads(term, *store),
            Event::Requested(request) => self.on_requested(request),
            Event::Applied { store, applied } => self.on_applied(*store, applied),
            Event::NotWritten { index, reason } => self.on_not_written(index, &reason),
            Event::Planned { plan, ticket } => self.on_planned(*plan, ticket, actions),
            Event::SessionOpened(session, hello) => self.on_session_opened(session, *hello, actions),
            Event::Observed { session, seq, allocs, resync_done } => {
                self.on_observed(session, seq, allocs, resync_done, actions);
            }
            Event::Heartbeat(session) => self.on_heartbeat(session, actions),
            Event::SessionClosed(session) => self.nodes.close(session),
            Event::Tick => self.on_tick(),
        }
    }

    /// What is to be done about all that was taken in.
    pub fn flush(&mut self, actions: &mut Vec<Action>) {
        self.write_ends();
        if self.leads {
            if let Some(command) = self.mint.ask() {
                self.outbox.push(vec![command], 32);
            }
            self.tenants.follow(&self.store);
            self.retry_blocked();
        }
        let Self { mint, observing, outbox, applier, now, .. } = self;
        observing.mint(|| mint.observed());
        outbox.flush(mint, *now, |ticket, index| applier.proposed(ticket, index), actions);
        self.publish(actions);
        self.tell_nodes(actions);
        actions.append(&mut self.answers);
        while self.queue.planning() < self.config.planning_max {
            let Some(eval) = self.queue.pop(&self.store, &mut self.tenants) else { break };
            actions.push(Action::Plan(eval));
        }
    }

    fn on_leads(&mut self, term: u64, store: Store) {
        let config = self.config;
        let observing = std::mem::take(&mut self.observing);
        *self = Self { now: self.now, observing, ids: self.ids.clone(), ..Self::new(config) };
        (self.leads, self.term) = (true, term);
        self.mint.begin(store.granted(), store.index());
        if store.is_restoring() {
            // Whoever sent the parts did so through the leader before.
            self.outbox.push(vec![Command::AbandonRestore], 32);
        }
        self.store = store;
        self.begin();
        self.logged.push((self.store.index(), Vec::new()));
    }

    /// Makes all that follows from the state.
    fn begin(&mut self) {
        self.nodes.begin(&self.store, self.now);
        self.collector = Collector::of(&self.store);
        self.periodic = Periodic::of(&self.store);
        self.tenants = Tenants::of(&self.store);
        let open =
            self.store.evals().iter().map(|(_, eval)| eval.clone()).filter(|e| !e.status.is_terminal());
        for eval in open.collect::<Vec<_>>() {
            self.take_up(eval);
        }
        self.blocked.room_came();
    }

    fn on_requested(&mut self, request: Request) {
        let Request { token, commands, bytes } = request;
        if let [Command::RestorePart(part)] = &commands[..] {
            self.mint.go_on_after(part.granted);
        }
        if let Err(answer) = self.outbox.request(commands, bytes, token) {
            self.answers.push(Action::Answer(token, answer));
        }
    }

    fn on_applied(&mut self, store: Store, applied: Vec<Applied>) {
        self.store = store;
        self.mint.grant(self.store.granted());
        for Applied { index, outcomes, events, .. } in applied {
            self.applier.applied(index);
            let mut outcomes = outcomes.into_iter();
            let done = self.outbox.applied(index);
            self.plan_again(done.again);
            for (token, count) in done.waiting {
                let outcomes = outcomes.by_ref().take(count).collect();
                if let Some(token) = token {
                    self.answers.push(Action::Answer(token, Answer::Committed(index, outcomes)));
                }
            }
            for event in &events {
                if *event == Change::Restored {
                    self.on_restored();
                }
                self.collector.on_change(&self.store, event, self.now);
                self.periodic.on_change(&self.store, event);
                self.on_change(event);
            }
            self.logged.push((index, events));
        }
    }

    fn on_not_written(&mut self, index: Index, reason: &str) {
        self.applier.not_written(index);
        let done = self.outbox.not_written(index);
        self.plan_again(done.again);
        for token in done.waiting.into_iter().filter_map(|(token, _)| token) {
            self.answers.push(Action::Answer(token, Answer::NotWritten(reason.to_owned())));
        }
    }

    /// Ends of allocations and the evaluations they ask for go into the same entry.
    fn write_ends(&mut self) {
        for ends in std::mem::take(&mut self.ended).chunks(1024) {
            let bytes = ends.iter().map(|end| 32 + end.tasks.len() * (64 + RESULT_MESSAGE_BYTES_MAX)).sum();
            self.outbox.push(vec![Command::EndAllocs(ends.to_vec())], bytes);
        }
        if std::mem::take(&mut self.node_came) {
            self.want_per_node_jobs();
        }
        for (key, trigger) in std::mem::take(&mut self.wanting) {
            let Some(row) = self.store.job(&key) else { continue };
            let job = row.job();
            let eval = Eval::pending(EvalId(self.ids.mint()), key, job.job_type, job.priority, trigger);
            self.outbox.push(vec![Command::CreateEvals(vec![eval])], EVAL_BYTES);
        }
    }

    fn publish(&mut self, actions: &mut Vec<Action>) {
        let seen = self.observing.publish(&self.store, self.outbox.first_in_flight());
        let logged = std::mem::take(&mut self.logged);
        let last = |index: Option<Index>| index.unwrap_or_default();
        let index = last(logged.last().map(|(i, _)| *i)).max(last(seen.last().map(|(i, _)| *i)));
        if logged.is_empty() && seen.is_empty() {
            return;
        }
        actions.push(Action::Publish {
            store: self.store.clone(),
            observed: self.observing.observed.clone(),
            index,
            logged,
            seen,
            unconfirmed_nodes: self.nodes.unconfirmed(),
        });
    }

    fn tell_nodes(&mut self, actions: &mut Vec<Action>) {
        for (slot, wishes) in std::mem::take(&mut self.to_nodes) {
            let Some(row) = self.store.nodes().row(slot) else { continue };
            let Some(session) = self.nodes.session_of(row.id) else { continue };
            let stop = wishes.stop.iter().filter_map(|alloc| {
                let row = self.store.allocs().row(*alloc).filter(|row| !row.is_terminal())?;
                Some((row.id, self.stop_reason(*alloc)))
            });
            let stop = stop.collect();
            let live = |slot: &AllocSlot| self.store.allocs().row(*slot).is_some_and(|row| row.is_wanted());
            let run = wishes.run.into_iter().filter(live).collect();
            let Wishes { forget, purge, .. } = wishes;
            let (term, index) = (self.term, self.store.index());
            let desired = ToNode::Desired { term, index, full: false, run, stop, forget, purge };
            actions.push(Action::Send(session, desired));
        }
    }
}
