//! The controller of a server: takes in all that has come, lets it decide once, and carries it out.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};

use berth_controller::{
    Action, Controller, ControllerConfig, Event, LinkCapacity, NodeMessage, Now, ProposalOutcome, Request,
    RequestToken, ServerId, SessionId,
};
use berth_model::{
    AllocId, EvalId, Index, JobKey, Timestamp,
    alloc::{AllocEnd, ClientStatus, Stop, StopReason},
    command::{Command, DeregisterJob, EncodedEntry},
    observed::Observed,
    store::{AllocSlot, Store},
};
use berth_replication::runtime::{
    Runtime,
    engine::{AsyncRuntime, Select2},
};
use berth_server::protocol::{GroupSpecs, frames};
use tokio::sync::{mpsc, oneshot};

use super::{Input, Server, View, lock, observations, proposer::Proposal, relay::RelayQueue, wire};
use crate::{
    bugs::Bug,
    executor::{Simulated, now_ns, random_u64, sleep_until_ns},
    network::ConnectionEnd,
};

/// Time between two ticks, in nanoseconds.
const TICK_NS: u64 = 250_000_000;
/// Things taken in before what comes of them is carried out, at most.
const BATCH_MAX: u64 = 64;
/// Steps in which time is gone through that a server was away, and how many at most.
const UNHEARD: Duration = Duration::from_secs(1);
const UNHEARD_STEPS_MAX: u128 = 60;
/// The wall clock when a simulation begins: nanoseconds since the Unix epoch.
const BEGINNING_NS: u64 = 1_700_000_000_000_000_000;

/// The clock on the wall of a server, which operators and faults may step.
#[derive(Clone, Default)]
pub struct WallClock(Arc<AtomicI64>);

impl WallClock {
    /// Steps it, forward or back.
    pub fn step(&self, by_ns: i64) {
        self.0.fetch_add(by_ns, SeqCst);
    }

    /// Puts it right.
    pub fn set_right(&self) {
        self.0.store(0, SeqCst);
    }

    pub fn now(&self) -> Now {
        let now_ns = now_ns();
        let wall = BEGINNING_NS.saturating_add(now_ns).saturating_add_signed(self.0.load(SeqCst));
        Now { wall: Timestamp(wall), monotonic: Duration::from_nanos(now_ns) }
    }
}

struct ActionShell {
    server: Server,
    proposals: mpsc::Sender<Proposal>,
    waiting: BTreeMap<RequestToken, oneshot::Sender<ProposalOutcome>>,
    tokens: u64,
    links: BTreeMap<SessionId, Arc<ConnectionEnd>>,
    specs: GroupSpecs,
    /// Jobs that were collected last; only where a bug wants them.
    collected: Vec<JobKey>,
}

impl LinkCapacity for ActionShell {
    fn can_send(&self, session: SessionId) -> bool {
        self.links.get(&session).is_none_or(|end| end.has_room())
    }

    fn can_send_to_server(&self, server: ServerId) -> bool {
        self.relay_to(server).is_none_or(RelayQueue::has_room)
    }
}

pub async fn run(server: Server, proposals: mpsc::Sender<Proposal>, seed: u64) {
    let own = ServerId(server.env().id);
    let config = ControllerConfig { server: own, planning_max: 128, desired_hash, seed };
    let mut controller = Controller::new(config, server.0.claims.clone());
    let mut carry_out = ActionShell {
        server: server.clone(),
        proposals,
        waiting: BTreeMap::new(),
        tokens: 0,
        links: BTreeMap::new(),
        specs: GroupSpecs::default(),
        collected: Vec::new(),
    };
    let (mut actions, mut unheard, mut has_more) = (Vec::new(), ClockStep::default(), false);
    let mut tick_ns = now_ns();
    loop {
        if lock(&server.0.inputs).is_empty() && !has_more {
            let came = server.0.input_arrived.notified();
            let tick = sleep_until_ns(tick_ns + TICK_NS);
            match <Simulated as Runtime>::Async::select2(came, tick).await {
                Select2::First(()) | Select2::Second(()) => {}
            }
        }
        let mut now = server.env().clock.now();
        if server.env().bug == Some(Bug::CountsPausesAsSilence) {
            now = unheard.go_through(now, &mut controller, &mut actions);
        }
        for _ in 0..=random_u64() % BATCH_MAX {
            let Some(input) = lock(&server.0.inputs).pop_front() else { break };
            let event = carry_out.accept(input);
            controller.handle(event, now, &mut actions);
        }
        if now_ns() >= tick_ns + TICK_NS {
            tick_ns = now_ns();
            if server.env().bug == Some(Bug::NeverTicks) {
                continue;
            }
            controller.handle(Event::Tick, now, &mut actions);
        }
        has_more = controller.flush(&carry_out, &mut actions);
        for action in actions.drain(..) {
            carry_out.action(action).await;
        }
    }
}

/// What readers see of observed changes, by index: allocation and hash. What a later one of the same publication replaced is
/// not to be seen any more.
fn visible_changes(
    seen: &[(Index, Vec<(AllocSlot, AllocId)>)],
    observed: &Observed,
) -> Vec<(Index, Vec<(AllocId, u128)>)> {
    let at = |index: Index, (slot, id): &(AllocSlot, AllocId)| {
        let observation = observed.get(*slot, *id).filter(|observation| observation.index == index)?;
        Some((*id, observation.alloc.hash))
    };
    seen.iter().map(|(index, all)| (*index, all.iter().filter_map(|one| at(*index, one)).collect())).collect()
}

/// As agents compute it.
pub fn desired_hash(alloc: AllocId, revision: Option<u64>) -> u128 {
    berth_api::agent::desired_hash(&alloc.to_bytes(), revision)
}

/// What is asked to end is said to have ended.
fn free_early(entry: EncodedEntry) -> EncodedEntry {
    let (mut entry, _) = entry.into_parts();
    let stopped = entry.commands.iter().filter_map(|command| match command {
        Command::CommitPlan(plan) => Some(plan.stops.iter().map(|stop| stop.alloc)),
        _ => None,
    });
    let end =
        |alloc| AllocEnd { alloc, status: ClientStatus::Complete, tasks: Vec::new(), observed_at: None };
    let ends: Vec<AllocEnd> = stopped.flatten().map(end).collect();
    if !ends.is_empty() {
        entry.commands.push(Command::EndAllocs(ends));
    }
    entry.into()
}

/// What has failed stays.
fn undo_nothing(entry: EncodedEntry) -> EncodedEntry {
    let (mut entry, _) = entry.into_parts();
    for command in &mut entry.commands {
        if let Command::SetDeployment(set) = command {
            set.revert_to = None;
        }
    }
    entry.into()
}

/// What was garbage at the last collection goes as well, although it may have been registered again since.
fn collect_old(entry: EncodedEntry, collected: &mut Vec<JobKey>) -> EncodedEntry {
    let (mut entry, _) = entry.into_parts();
    let jobs = entry.commands.iter().find_map(|command| match command {
        Command::Collect(collect) => Some(collect.jobs.clone()),
        _ => None,
    });
    if let Some(jobs) = jobs {
        let purge = |job| DeregisterJob { job, purge: true, eval: EvalId(u128::from(random_u64())) };
        let old = std::mem::replace(collected, jobs).into_iter().map(purge);
        entry.commands.extend(old.map(Command::DeregisterJob));
    }
    entry.into()
}

/// Jobs that are stopped are changed as if that had left no mark on them.
fn overwrite_stops(entry: EncodedEntry, store: &Store) -> EncodedEntry {
    let (mut entry, _) = entry.into_parts();
    for command in &mut entry.commands {
        if let Command::RegisterJob(register) = command
            && store.job(&register.job.key).is_some_and(|row| row.job().stop)
        {
            register.only_if = None;
        }
    }
    entry.into()
}

/// Of the node of what is preempted one more goes, whatever its priority.
fn preempt_more(entry: EncodedEntry, store: &Store) -> EncodedEntry {
    let (mut entry, _) = entry.into_parts();
    for command in &mut entry.commands {
        let Command::CommitPlan(plan) = command else { continue };
        let preempted = plan.stops.iter().find(|stop| stop.reason == StopReason::Preempted);
        let Some(first) = preempted.copied() else { continue };
        let node = store.alloc(first.alloc).and_then(|(_, row)| store.nodes().row(row.node));
        let live = node.into_iter().flat_map(|node| store.nodes().live(node));
        let mut others = live.filter_map(|slot| store.allocs().row(slot)).filter(|row| row.is_desired());
        let other = others.find(|row| plan.stops.iter().all(|stop| stop.alloc != row.id));
        plan.stops.extend(other.map(|row| Stop { alloc: row.id, ..first }));
    }
    entry.into()
}

/// Time as it is for a server that takes a pause, or a step of its clock, for silence of others.
#[derive(Default)]
struct ClockStep {
    wall: Option<Timestamp>,
    ahead: Duration,
}

impl ClockStep {
    /// Goes through all of the time that the wall clock says has passed, as if somebody could have been heard in it.
    fn go_through(&mut self, now: Now, controller: &mut Controller, actions: &mut Vec<Action>) -> Now {
        let before = self.wall.replace(now.wall).unwrap_or(now.wall);
        let passed = Duration::from_nanos(now.wall.0.saturating_sub(before.0));
        let steps = (passed.as_millis() / UNHEARD.as_millis()).min(UNHEARD_STEPS_MAX) as u32;
        for _ in 0..steps {
            self.ahead += UNHEARD;
            controller.handle(Event::Tick, Now { monotonic: now.monotonic + self.ahead, ..now }, actions);
        }
        Now { monotonic: now.monotonic + self.ahead, ..now }
    }
}

impl ActionShell {
    fn relay_to(&self, server: ServerId) -> Option<&RelayQueue> {
        self.server.0.relays.get(wire::number(server.0))
    }

    fn accept(&mut self, input: Input) -> Event {
        match input {
            Input::Event(event) => {
                if let Event::SessionClosed(session) = &event {
                    self.links.remove(session);
                }
                event
            }
            Input::Request { commands, reply } => {
                self.tokens += 1;
                let token = RequestToken(self.tokens);
                self.waiting.insert(token, reply);
                Event::Requested(Request { token, commands: commands.into() })
            }
            Input::Open { session, hello, end } => {
                self.links.insert(session, end);
                Event::SessionOpened(session, hello)
            }
        }
    }

    async fn action(&mut self, action: Action) {
        let env = self.server.env().clone();
        match action {
            Action::Propose { term, entry } => {
                let entry = match env.bug {
                    Some(Bug::FreesRoomEarly) => free_early(entry),
                    Some(Bug::LosesRollbacks) => undo_nothing(entry),
                    Some(Bug::CollectsByOldView) => collect_old(entry, &mut self.collected),
                    Some(Bug::PreemptsMore) => preempt_more(entry, &self.server.view().store),
                    Some(Bug::WritesOverStops) => overwrite_stops(entry, &self.server.view().store),
                    _ => entry,
                };
                env.truth.proposed(term, entry.entry());
                if env.bug == Some(Bug::AcknowledgesEarly)
                    && let Some((_, reply)) = self.waiting.pop_first()
                {
                    reply.send(ProposalOutcome::Committed(entry.index(), Vec::new())).ok();
                }
                // Fails only when the server is stopping.
                self.proposals.send(Proposal { term, entry }).await.ok();
            }
            Action::Plan(asked) => {
                lock(&self.server.0.requests).push_back(asked);
                self.server.0.request_arrived.notify_one();
            }
            Action::Judged { refused, .. } => env.truth.judged(refused.count),
            Action::Publish { store, observed, index, logged, seen, recovery, is_anew } => {
                let mut seen = visible_changes(&seen, &observed);
                if env.bug == Some(Bug::LosesObserved) && random_u64().is_multiple_of(16) {
                    seen.pop();
                }
                let anew = is_anew.then(|| observations(&store, &observed));
                env.truth.published(env.number, index, &logged, &seen, anew.as_deref());
                let settled = store.index();
                *lock(&self.server.0.view) = Arc::new(View { store, observed, index, recovery });
                if env.bug != Some(Bug::KeepsOldClaims) {
                    self.server.0.claims.lock().settle(settled);
                }
            }
            Action::Answer(token, answer) => {
                if let Some(reply) = self.waiting.remove(&token) {
                    reply.send(answer).ok();
                }
            }
            Action::Send(session, message) => self.send(session, message),
            Action::Tell(server, message) => {
                self.relay_to(server).into_iter().for_each(|relay| relay.enqueue(&message))
            }
            Action::Close(session) => {
                if let Some(end) = self.links.remove(&session) {
                    let reason = "session was replaced, or its node declared down".to_owned();
                    let refused = NodeMessage::Refused { reason, retry: true };
                    frames(0, refused, &mut self.specs).into_iter().for_each(|frame| drop(end.send(frame)));
                }
            }
        }
    }

    fn send(&mut self, session: SessionId, mut message: NodeMessage) {
        let Some(end) = self.links.get(&session) else { return };
        let is_refused = matches!(message, NodeMessage::Refused { .. });
        if let (NodeMessage::Desired(desired), Some(Bug::LosesStops)) = (&mut message, self.server.env().bug)
        {
            for (alloc, _) in std::mem::take(&mut desired.stop) {
                desired.run.extend(desired.store.allocs().find(alloc));
            }
        }
        for frame in frames(0, message, &mut self.specs) {
            end.send(frame).ok();
        }
        if is_refused {
            self.links.remove(&session);
        }
    }
}
