//! The controller: one state machine that everything else asks what to do next.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, DesiredStatus, RESULT_MESSAGE_BYTES_MAX, TaskResult},
    command::{Command, NextEval},
    eval::{Eval, EvalStatus, Trigger},
    event::{Applied, Event as Change},
    ids::IdSeed,
    node::NodeStatus,
    observed::{ObservedAlloc, ObservedTask},
    store::{AllocSlot, JobSlot, NodeSlot, Store},
};
use berth_scheduler::{Plan, Ticket};

use crate::{
    action::{Action, Answer, ToNode},
    applier::{Applier, Verdict},
    blocked::Blocked,
    collect,
    eval_queue::EvalQueue,
    event::{Event, Hello, Request, SessionId, WelcomeMode},
    index_mint::IndexMint,
    nodes::{Nodes, Opened},
    observing::Observing,
    outbox::{Outbox, PlanTail},
};

/// How often a plan that was refused is made again before its work waits for room.
const ATTEMPTS_MAX: u32 = 5;
/// Time between two looks for what can be forgotten.
const COLLECT_EVERY: Duration = Duration::from_secs(30);
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
    collected_at: Timestamp,
    unconfirmed_nodes: usize,
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
            collected_at: Timestamp::default(),
            unconfirmed_nodes: 0,
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
            Event::Heartbeat(session) => drop(self.nodes.heard(session, self.now)),
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
            self.retry_blocked();
        }
        let Self { mint, observing, outbox, applier, now, .. } = self;
        observing.mint(|| mint.observed());
        outbox.flush(mint, *now, |ticket, index| applier.proposed(ticket, index), actions);
        self.publish(actions);
        self.tell_nodes(actions);
        actions.append(&mut self.answers);
        while self.queue.planning() < self.config.planning_max {
            let Some(eval) = self.queue.pop() else { break };
            actions.push(Action::Plan(eval));
        }
    }

    fn on_leads(&mut self, term: u64, store: Store) {
        let config = self.config;
        let observing = std::mem::take(&mut self.observing);
        *self = Self { now: self.now, observing, ids: self.ids.clone(), ..Self::new(config) };
        (self.leads, self.term) = (true, term);
        self.mint.begin(store.granted(), store.index());
        self.nodes.begin(self.now);
        let open = store.evals().iter().map(|(_, eval)| eval.clone()).filter(|e| !e.status.is_terminal());
        for eval in open {
            self.take_up(eval);
        }
        self.store = store;
        self.count_unconfirmed();
        self.blocked.room_came();
        self.logged.push((self.store.index(), Vec::new()));
    }

    fn on_requested(&mut self, request: Request) {
        let Request { token, commands, bytes } = request;
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
            done.again.into_iter().for_each(|eval| self.queue.again(eval));
            for (token, count) in done.waiting {
                let outcomes = outcomes.by_ref().take(count).collect();
                if let Some(token) = token {
                    self.answers.push(Action::Answer(token, Answer::Committed(index, outcomes)));
                }
            }
            events.iter().for_each(|event| self.on_change(event));
            self.logged.push((index, events));
        }
    }

    fn on_not_written(&mut self, index: Index, reason: &str) {
        self.applier.not_written(index);
        let done = self.outbox.not_written(index);
        done.again.into_iter().for_each(|eval| self.queue.again(eval));
        for token in done.waiting.into_iter().filter_map(|(token, _)| token) {
            self.answers.push(Action::Answer(token, Answer::NotWritten(reason.to_owned())));
        }
    }

    fn on_change(&mut self, change: &Change) {
        match change {
            Change::EvalChanged(id) => self.on_eval_changed(*id),
            Change::AllocPlaced(slot) => self.wishes_of(*slot).into_iter().for_each(|w| w.run.push(*slot)),
            Change::AllocStopped(slot) => self.wishes_of(*slot).into_iter().for_each(|w| w.stop.push(*slot)),
            Change::AllocEnded(slot) => self.on_alloc_ended(*slot),
            Change::AllocCollected(slot, id, node) => {
                self.observing.observed.forget(*slot, *id);
                self.nodes.forget(*node, *id);
                if let Some(node) = self.store.nodes().find(*node) {
                    self.to_nodes.entry(node).or_default().purge.push(*id);
                }
            }
            Change::JobCollected(_, key) => self.observing.observed.forget_job(key),
            Change::NodeRegistered(_) => self.blocked.room_came(),
            Change::NodeChanged(slot) => self.on_node_changed(*slot),
            Change::JobRegistered(_) | Change::NodeCollected(..) | Change::EvalCollected(_) => {}
            Change::JobDeregistered(slot) => self.on_job_deregistered(*slot),
        }
    }

    fn wishes_of(&mut self, slot: AllocSlot) -> Option<&mut Wishes> {
        let node = self.store.allocs().row(slot)?.node;
        Some(self.to_nodes.entry(node).or_default())
    }

    fn on_eval_changed(&mut self, id: EvalId) {
        let Some(eval) = self.store.eval(id).cloned() else { return };
        if eval.status.is_terminal() {
            self.attempts.remove(&id);
            self.blocked.remove(&eval);
            self.queue.done(id);
        } else {
            self.take_up(eval);
        }
    }

    fn take_up(&mut self, eval: Arc<Eval>) {
        match eval.status {
            EvalStatus::Blocked => drop(self.blocked.insert(&eval)),
            _ => self.queue.push(eval, self.now),
        }
    }

    fn on_alloc_ended(&mut self, slot: AllocSlot) {
        let Some(row) = self.store.allocs().row(slot).copied() else { return };
        self.ending.remove(&row.id);
        self.blocked.room_came();
        if let Some(job) = self.store.jobs().row(row.job) {
            self.observing.observed.end(slot, row.id, &job.key, row.group);
            if job.purge && job.live == 0 {
                self.collected_at = Timestamp::default();
            }
        }
        if let Some(node) = self.store.nodes().row(row.node).map(|node| node.id) {
            self.nodes.forget(node, row.id);
        }
        self.to_nodes.entry(row.node).or_default().forget.push(row.id);
    }

    fn on_job_deregistered(&mut self, slot: JobSlot) {
        if self.store.jobs().row(slot).is_some_and(|row| row.purge) {
            self.collected_at = Timestamp::default();
        }
    }

    fn on_node_changed(&mut self, slot: NodeSlot) {
        let Some(row) = self.store.nodes().row(slot) else { return };
        if self.changing.get(&row.id) == Some(&row.status) {
            self.changing.remove(&row.id);
        }
        if row.is_ready() {
            self.blocked.room_came();
            self.want_per_node_jobs();
        } else if row.status == NodeStatus::Down {
            let id = row.id;
            self.nodes.give_up(id);
            let jobs = self.store.nodes().live(row).filter_map(|alloc| self.store.allocs().row(alloc));
            let keys: Vec<JobKey> =
                jobs.filter_map(|alloc| Some(self.store.jobs().row(alloc.job)?.key.clone())).collect();
            self.wanting.extend(keys.into_iter().map(|key| (key, Trigger::NodeUpdate)));
            // An agent that is heard again must tell everything anew.
            self.answers.extend(self.nodes.session_of(id).map(Action::Close));
        }
        self.count_unconfirmed();
    }

    fn count_unconfirmed(&mut self) {
        self.unconfirmed_nodes = self.nodes.unconfirmed(&self.store);
    }

    fn want_per_node_jobs(&mut self) {
        let per_node =
            self.store.jobs().iter().filter(|(_, r)| r.job().job_type.is_per_node() && !r.job().stop);
        let keys: Vec<JobKey> = per_node.map(|(_, row)| row.key.clone()).collect();
        self.wanting.extend(keys.into_iter().map(|key| (key, Trigger::NodeUpdate)));
    }

    fn on_planned(&mut self, mut plan: Plan, ticket: Ticket, actions: &mut Vec<Action>) {
        let Some(eval) = self.store.eval(plan.eval).filter(|e| !e.status.is_terminal()).cloned() else {
            self.queue.done(plan.eval);
            return actions.push(Action::Unclaim(ticket));
        };
        if eval.status == EvalStatus::Blocked {
            self.blocked.tried(eval.id);
            if plan.is_noop() && !plan.failures.is_empty() {
                // Still no room, nothing changed: nothing to write.
                self.queue.done(eval.id);
                return actions.push(Action::Unclaim(ticket));
            }
        }
        self.drop_known_retries(&eval, &mut plan);
        let next = self.next_evals(&plan);
        let superseded = self.blocked.of_job(&eval.job).filter(|blocked| *blocked != eval.id);
        let Verdict { parts, refused, passed, ticket: passing } = self.applier.check(&self.store, plan, next);
        let written = !parts.is_empty();
        let again = if refused > 0 { self.again(&eval, passed, written) } else { None };
        if let Some(old) = superseded.filter(|_| refused == 0) {
            let why = format!("superseded by evaluation {}", eval.id);
            self.outbox.push(vec![Command::SetEvalStatus(old, EvalStatus::Canceled, why)], 96);
        }
        let mut tail = Some(PlanTail { planned: ticket, passing, again });
        let last = parts.len().saturating_sub(1);
        for (at, (command, bytes)) in parts.into_iter().enumerate() {
            self.outbox.push_plan(command, bytes, if at == last { tail.take() } else { None });
        }
        if !written {
            actions.push(Action::Unclaim(ticket));
        }
    }

    /// A retry at the same time or earlier is on its way already.
    fn drop_known_retries(&self, eval: &Eval, plan: &mut Plan) {
        let Some(row) = self.store.job(&eval.job) else { return };
        let waiting = self.store.jobs().evals(row).filter_map(|slot| self.store.evals().row(slot));
        let earliest = waiting
            .filter(|e| e.id != eval.id && e.status == EvalStatus::Pending && e.wait_until > self.now)
            .map(|e| e.wait_until)
            .min();
        plan.next.retain(|next| {
            next.trigger != Trigger::RetryFailedAlloc || earliest.is_none_or(|at| at > next.wait_until)
        });
    }

    fn next_evals(&mut self, plan: &Plan) -> Vec<NextEval> {
        let next = plan.next.iter();
        next.map(|next| NextEval {
            id: EvalId(self.ids.mint()),
            status: next.status,
            trigger: next.trigger,
            wait_until: next.wait_until,
        })
        .collect()
    }

    /// Part of a plan was refused: its state had been overtaken. What passed must be seen before it is planned again:
    /// returns the evaluation when that is still to come.
    fn again(&mut self, eval: &Arc<Eval>, passed: usize, written: bool) -> Option<Arc<Eval>> {
        let attempts = self.attempts.entry(eval.id).or_default();
        *attempts = if passed > 0 { 0 } else { *attempts + 1 };
        if *attempts > ATTEMPTS_MAX {
            self.put_off(eval);
        } else if written {
            return Some(eval.clone());
        } else {
            self.queue.again(eval.clone());
        }
        None
    }

    /// Plans of an evaluation are refused time and again: goes on in another one, a little later.
    fn put_off(&mut self, eval: &Eval) {
        let id = EvalId(self.ids.mint());
        let mut later =
            Eval::pending(id, eval.job.clone(), eval.job_type, eval.priority, Trigger::MaxPlanAttempts);
        later.wait_until = self.now.after(Duration::from_secs(1));
        later.previous = Some(eval.id);
        let why = format!("plan was refused {ATTEMPTS_MAX} times, continued in evaluation {id}");
        let commands =
            vec![Command::CreateEvals(vec![later]), Command::SetEvalStatus(eval.id, EvalStatus::Failed, why)];
        self.outbox.push(commands, EVAL_BYTES + 128);
    }

    fn retry_blocked(&mut self) {
        for id in self.blocked.next(&self.store) {
            match self.store.eval(id).filter(|eval| eval.status == EvalStatus::Blocked) {
                Some(eval) => self.queue.push(eval.clone(), self.now),
                None => self.blocked.tried(id),
            }
        }
    }

    fn on_session_opened(&mut self, session: SessionId, hello: Hello, actions: &mut Vec<Action>) {
        let id = hello.node_id();
        let refuse = |reason: String, retry| Action::Send(session, ToNode::Refused { reason, retry });
        if !self.leads {
            actions.push(refuse("this server does not lead yet".to_owned(), true));
            return actions.push(Action::Close(session));
        }
        let known = self.store.nodes().find(id).and_then(|slot| self.store.nodes().detail(slot)).cloned();
        if known.as_ref().is_some_and(|detail| detail.node.secret_hash != hello.node.secret_hash) {
            let reason =
                format!("node {id} is known with another secret: give this agent its own data directory");
            actions.push(refuse(reason, false));
            return actions.push(Action::Close(session));
        }
        match self.nodes.open(session, &hello, self.now) {
            Opened::Superseded => {
                actions.push(refuse(format!("a newer agent of node {id} is connected"), false));
                actions.push(Action::Close(session));
            }
            Opened::In(mode, replaced) => {
                replaced.into_iter().for_each(|old| actions.push(Action::Close(old)));
                if known.is_none_or(|detail| *detail.node != hello.node) {
                    let command = Command::RegisterNode(Box::new(hello.node.clone()));
                    self.outbox.push(vec![command], 4096);
                }
                self.welcome(session, &hello, mode, actions);
            }
        }
    }

    fn welcome(&mut self, session: SessionId, hello: &Hello, mode: WelcomeMode, actions: &mut Vec<Action>) {
        let heartbeat_ms = u64::try_from(self.nodes.heartbeat(&self.store).as_millis()).unwrap_or(u64::MAX);
        actions.push(Action::Send(session, ToNode::Welcome { mode, heartbeat_ms }));
        let (run, stop) = self.wishes_for(hello.node_id());
        let hash = self.config.desired_hash;
        let runs =
            run.iter().filter_map(|slot| self.store.allocs().row(*slot)).map(|row| hash(row.id, false));
        let digest = runs.chain(stop.iter().map(|(id, _)| hash(*id, true))).fold(0, u128::wrapping_add);
        if digest != hello.desired_digest {
            let (term, index) = (self.term, self.store.index());
            let (forget, purge) = (Vec::new(), Vec::new());
            let desired = ToNode::Desired { term, index, full: true, run, stop, forget, purge };
            actions.push(Action::Send(session, desired));
        }
        if mode == WelcomeMode::Equal {
            self.make_ready(hello.node_id());
        }
    }

    /// Everything that a node should do.
    fn wishes_for(&self, id: NodeId) -> (Vec<AllocSlot>, Vec<(AllocId, berth_model::alloc::StopReason)>) {
        let Some((_, row)) = self.store.node(id) else { return (Vec::new(), Vec::new()) };
        let (mut run, mut stop) = (Vec::new(), Vec::new());
        for slot in self.store.nodes().live(row) {
            let Some(alloc) = self.store.allocs().row(slot) else { continue };
            match alloc.desired {
                DesiredStatus::Run => run.push(slot),
                DesiredStatus::Stop => stop.push((alloc.id, self.stop_reason(slot))),
            }
        }
        (run, stop)
    }

    fn stop_reason(&self, slot: AllocSlot) -> berth_model::alloc::StopReason {
        let extra = self.store.allocs().extra(slot);
        extra.and_then(|extra| extra.stop_reason).unwrap_or(berth_model::alloc::StopReason::Requested)
    }

    fn make_ready(&mut self, id: NodeId) {
        let ready = self.store.node(id).is_some_and(|(_, row)| row.status == NodeStatus::Ready);
        if !ready || self.changing.contains_key(&id) {
            self.set_node_status(id, NodeStatus::Ready);
        }
    }

    fn set_node_status(&mut self, id: NodeId, status: NodeStatus) {
        if self.changing.insert(id, status) != Some(status) {
            self.outbox.push(vec![Command::SetNodeStatus(id, status)], 32);
        }
    }

    fn on_observed(
        &mut self,
        session: SessionId,
        seq: u64,
        allocs: Vec<Arc<ObservedAlloc>>,
        resync_done: bool,
        actions: &mut Vec<Action>,
    ) {
        let Some(id) = self.nodes.node_of(session) else { return };
        let Some(node) = self.nodes.heard(session, self.now) else { return };
        node.seq = node.seq.max(seq);
        for alloc in &allocs {
            let ended_before = self.store.alloc(alloc.id).is_none_or(|(_, row)| row.is_terminal());
            if !ended_before {
                node.observed(alloc.id, alloc.hash);
            }
        }
        let confirms = resync_done && !node.confirmed;
        node.confirmed |= resync_done;
        for alloc in allocs {
            self.on_observed_alloc(id, alloc);
        }
        if confirms {
            self.make_ready(id);
            self.count_unconfirmed();
        }
        actions.push(Action::Send(session, ToNode::Ack { seq }));
    }

    fn on_observed_alloc(&mut self, node: NodeId, alloc: Arc<ObservedAlloc>) {
        let row = self.store.alloc(alloc.id).map(|(_, row)| *row);
        let elsewhere =
            row.is_some_and(|row| self.store.nodes().row(row.node).is_none_or(|owner| owner.id != node));
        match row {
            // An agent speaks for its own node alone.
            Some(_) if elsewhere => {}
            // Unknown, or ended: the agent need not tell of it any more.
            None => {
                if let Some(slot) = self.store.nodes().find(node).filter(|_| alloc.status.is_terminal()) {
                    self.to_nodes.entry(slot).or_default().forget.push(alloc.id);
                }
            }
            Some(row) if row.is_terminal() => {
                self.to_nodes.entry(row.node).or_default().forget.push(alloc.id)
            }
            Some(row) => {
                if alloc.status.is_terminal() && self.ending.insert(alloc.id) {
                    self.ended.push(end_of(&alloc));
                    self.want_after_end(row.job, row.desired, alloc.status);
                }
                self.observing.receive(alloc);
            }
        }
    }

    /// An end that was not wished for asks for an evaluation, unless it is the good end of batch work.
    fn want_after_end(&mut self, job: JobSlot, desired: DesiredStatus, status: ClientStatus) {
        let Some(row) = self.store.jobs().row(job) else { return };
        let good = row.job().job_type.runs_to_completion() && status == ClientStatus::Complete;
        if desired == DesiredStatus::Run && !good {
            self.wanting.insert(row.key.clone(), Trigger::AllocFailure);
        }
    }

    /// Ends of allocations and the evaluations they ask for go into the same entry.
    fn write_ends(&mut self) {
        for ends in std::mem::take(&mut self.ended).chunks(1024) {
            let bytes = ends.iter().map(|end| 32 + end.tasks.len() * (64 + RESULT_MESSAGE_BYTES_MAX)).sum();
            self.outbox.push(vec![Command::EndAllocs(ends.to_vec())], bytes);
        }
        for (key, trigger) in std::mem::take(&mut self.wanting) {
            let Some(row) = self.store.job(&key) else { continue };
            let job = row.job();
            let eval = Eval::pending(EvalId(self.ids.mint()), key, job.job_type, job.priority, trigger);
            self.outbox.push(vec![Command::CreateEvals(vec![eval])], EVAL_BYTES);
        }
    }

    fn on_tick(&mut self) {
        if !self.leads {
            return;
        }
        for id in self.nodes.silent(&self.store, self.now) {
            self.set_node_status(id, NodeStatus::Down);
        }
        for id in self.queue.due(self.now) {
            if let Some(eval) = self.store.eval(id).filter(|e| e.status == EvalStatus::Pending) {
                self.queue.push(eval.clone(), self.now);
            }
        }
        if self.now.since(self.collected_at) >= COLLECT_EVERY {
            self.collected_at = self.now;
            if let Some(command) = collect::due(&self.store, self.now) {
                self.outbox.push(vec![command], 1 << 19);
            }
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
            unconfirmed_nodes: self.unconfirmed_nodes,
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

fn end_of(alloc: &ObservedAlloc) -> AllocEnd {
    AllocEnd { alloc: alloc.id, status: alloc.status, tasks: alloc.tasks.iter().map(result_of).collect() }
}

fn result_of(task: &ObservedTask) -> TaskResult {
    let (exit_code, signal, oom_killed) = task.exit;
    TaskResult {
        exit_code,
        signal,
        oom_killed,
        failed: task.failed,
        restarts: task.restarts,
        started_at: task.started_at,
        finished_at: task.finished_at,
        message: task
            .events
            .last()
            .map_or(String::new(), |event| cut(&event.message, RESULT_MESSAGE_BYTES_MAX)),
    }
}

fn cut(text: &str, bytes_max: usize) -> String {
    text[..text.floor_char_boundary(bytes_max)].to_owned()
}
