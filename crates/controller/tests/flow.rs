//! The controller with a shell of a few lines: a log that applies at once or late, a planner, and agents made of numbers.

#[path = "flow/changes.rs"]
mod changes;
#[path = "flow/disconnect.rs"]
mod disconnect;
#[path = "flow/drains.rs"]
mod drains;
#[path = "flow/faults.rs"]
mod faults;
#[path = "flow/garbage.rs"]
mod garbage;
#[path = "flow/in_place.rs"]
mod in_place;
#[path = "flow/life.rs"]
mod life;
#[path = "flow/links.rs"]
mod links;
#[path = "flow/lost.rs"]
mod lost;
#[path = "flow/nodes.rs"]
mod nodes;
#[path = "flow/periodic.rs"]
mod periodic;
#[path = "flow/placement.rs"]
mod placement;
#[path = "flow/purge.rs"]
mod purge;
#[path = "flow/replaced.rs"]
mod replaced;
#[path = "flow/restore.rs"]
mod restore;
#[path = "flow/safety.rs"]
mod safety;
#[path = "flow/system.rs"]
mod system;
#[path = "flow/tenants.rs"]
mod tenants;
#[path = "flow/waiting.rs"]
mod waiting;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_controller::{
    Action, Controller, ControllerConfig, Event, Heartbeat, Hello, LinkCapacity, NodeMessage, NodeRecovery,
    Now, PlanRequest, ProposalOutcome, Request, RequestToken, ServerId, SessionId, WelcomeMode,
};
use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, DesiredStatus},
    command::{Command, DeregisterJob, ENTRY_BYTES_MAX, Entry, RegisterJob},
    eval::{EvalStatus, Trigger},
    job::{Group, Job, JobType, Task, TaskResources},
    node::{NODES_MAX, Node, NodeStatus},
    observed::{Observed, ObservedAlloc, ObservedTask, TaskState},
    resources::Resources,
    store::{AllocSlot, JobStatus, Store},
};
use berth_scheduler::{
    Claims, Ledger, Planner,
    filters::{FEATURES_ATTRIBUTE, Feature},
};

struct Shell {
    controller: Controller,
    store: Store,
    planner: Planner,
    claims: Ledger,
    /// Planners do not see what others claim.
    is_blind: bool,
    /// Evaluations that planners have in hand and do not answer, where they are as slow as that.
    in_hand: Option<Vec<PlanRequest>>,
    /// Seconds by the wall clock, and since the machine started.
    now: u64,
    monotonic: u64,
    /// Entries that were proposed and not written yet.
    log: Vec<Entry>,
    /// Write entries only when told to.
    slow_log: bool,
    published: Vec<Index>,
    running_seen: u32,
    answers: BTreeMap<u64, ProposalOutcome>,
    told: Vec<(SessionId, NodeMessage)>,
    closed: Vec<SessionId>,
    view: Store,
    observed: Observed,
    recovery: Arc<NodeRecovery>,
    seeds: u64,
    /// Plans that were made.
    planned: usize,
    /// Actions that the controller has asked for.
    acted: usize,
    /// Ends that were told while the log was not written.
    ending: usize,
    /// The nodes of open sessions.
    sessions: BTreeMap<u64, u128>,
}

/// Plans of one test.
const PLANNED_MAX: usize = 1_000_000;

/// Connections that take whatever comes.
struct Open;

impl LinkCapacity for Open {
    fn can_send(&self, _: SessionId) -> bool {
        true
    }
}

fn desired_hash(alloc: AllocId, revision: Option<u64>) -> u128 {
    alloc.0.wrapping_mul(3) + revision.map_or(1, |revision| u128::from(revision) << 8)
}

impl Shell {
    fn new() -> Self {
        let config = ControllerConfig { server: ServerId(1), planning_max: 8, desired_hash, seed: 1 };
        let claims = Ledger::default();
        let mut shell = Self {
            controller: Controller::new(config, claims.clone()),
            store: Store::default(),
            planner: Planner::default(),
            claims,
            is_blind: false,
            in_hand: None,
            now: 1_000,
            monotonic: 0,
            log: vec![],
            slow_log: false,
            published: vec![],
            running_seen: 0,
            answers: BTreeMap::new(),
            told: vec![],
            closed: vec![],
            view: Store::default(),
            observed: Observed::default(),
            recovery: Arc::default(),
            seeds: 0,
            planned: 0,
            acted: 0,
            ending: 0,
            sessions: BTreeMap::new(),
        };
        shell.lead(1);
        shell
    }

    /// A server starts with the state that is in the log, and leads.
    fn lead(&mut self, term: u64) {
        let config = ControllerConfig { server: ServerId(1), planning_max: 8, desired_hash, seed: term };
        (self.claims, self.planner) = (Ledger::default(), Planner::default());
        self.controller = Controller::new(config, self.claims.clone());
        self.sessions.clear();
        self.log.clear();
        self.published.clear();
        self.tell(Event::Recovered { term: 0, store: Box::new(self.store.clone()) });
        self.tell(Event::LeadershipGained { term });
    }

    fn at(&self) -> Timestamp {
        Timestamp(self.now * 1_000_000_000)
    }

    fn clocks(&self) -> Now {
        Now { wall: self.at(), monotonic: Duration::from_secs(self.monotonic) }
    }

    fn tell(&mut self, event: Event) {
        let mut events = vec![event];
        while !events.is_empty() {
            let mut actions = Vec::new();
            for event in events.drain(..) {
                self.controller.handle(event, self.clocks(), &mut actions);
            }
            self.controller.flush(&Open, &mut actions);
            for action in actions {
                self.act(action, &mut events);
            }
            if !self.slow_log {
                events.extend(self.write_log());
            }
        }
    }

    fn write_log(&mut self) -> Option<Event> {
        let applied: Vec<_> = self.log.drain(..).map(|entry| self.store.apply(entry)).collect();
        (!applied.is_empty()).then(|| Event::Applied {
            term: 1,
            store: Box::new(self.store.clone()),
            applied,
        })
    }

    fn catch_up(&mut self) {
        if let Some(event) = self.write_log() {
            self.tell(event);
        }
    }

    fn act(&mut self, action: Action, events: &mut Vec<Event>) {
        self.acted += 1;
        match action {
            Action::Propose { entry, .. } => {
                let (entry, bytes) = entry.into_parts();
                assert_eq!(bytes, entry.encode());
                assert!(bytes.len() <= ENTRY_BYTES_MAX);
                assert!(self.log.last().is_none_or(|last| last.index < entry.index));
                self.log.push(entry);
            }
            Action::Judged { .. } => {}
            Action::Plan(asked) if self.in_hand.is_some() => {
                self.in_hand.get_or_insert_default().push(asked);
            }
            Action::Plan(asked) => events.push(self.plan(asked)),
            Action::Publish { store, observed, index, logged, seen, recovery, .. } => {
                let mut indexes: Vec<Index> =
                    logged.iter().map(|(i, _)| *i).chain(seen.iter().map(|(i, _)| *i)).collect();
                indexes.sort_unstable();
                assert!(indexes.is_empty() || self.published.last() < indexes.first(), "index went back");
                assert!(indexes.last().is_none_or(|last| *last == index));
                self.published.extend(indexes);
                self.claims.lock().settle(store.index());
                let web = store.jobs().find(&JobKey::new("default", "web"));
                self.running_seen = web.map_or(0, |web| observed.running(web, 0));
                (self.view, self.observed, self.recovery) = (store, observed, recovery);
            }
            Action::Answer(token, answer) => drop(self.answers.insert(token.0, answer)),
            Action::Send(session, message) => self.told.push((session, message)),
            Action::Close(session) => self.closed.push(session),
            Action::Tell(server, message) => panic!("there is no other server: {server:?} {message:?}"),
        }
    }

    /// A planner answers an evaluation.
    fn plan(&mut self, PlanRequest { term, eval, now, awaited_until }: PlanRequest) -> Event {
        self.seeds += 1;
        self.planned += 1;
        assert!(self.planned < PLANNED_MAX, "it plans on and on");
        match self.is_blind {
            true => self.planner.follow(&self.view, &Claims::default()),
            false => self.planner.follow(&self.view, &self.claims.lock()),
        }
        self.planner.observe(&self.observed);
        self.planner.await_nodes(awaited_until);
        let plan = self.planner.plan(&self.view, &eval, now, self.seeds);
        assert_eq!(berth_scheduler::check::check(&self.view, &plan), []);
        let ticket = self.claims.lock().add(&plan.job.namespace, plan.claims());
        Event::Planned { term, plan: Box::new(plan), ticket }
    }

    fn request(&mut self, token: u64, command: Command) {
        let request = Request { token: RequestToken(token), commands: vec![command].into() };
        self.tell(Event::Requested(request));
    }

    fn register(&mut self, count: u32, memory_mb: u32) {
        self.register_job(job(count, memory_mb));
    }

    fn register_job(&mut self, job: Job) {
        self.seeds += 1;
        let eval = EvalId(u128::from(self.seeds) << 64);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
        self.request(self.seeds, Command::RegisterJob(Box::new(register)));
    }

    fn hello(&mut self, session: u64, node: u128, epoch: u64, observed_digest: u128) {
        self.hello_of(session, self::node(node), epoch, observed_digest);
    }

    fn hello_of(&mut self, session: u64, node: Node, epoch: u64, observed_digest: u128) {
        let desired_digest = self.desired_digest(node.id.0);
        self.sessions.insert(session, node.id.0);
        let hello = Hello {
            node,
            cluster: self.store.cluster().id,
            epoch,
            instance: epoch.into(),
            dial: 0,
            index: Index::default(),
            seq: 0,
            desired_digest,
            observed_digest,
            checkpoint: None,
        };
        self.tell(Event::SessionOpened(SessionId(session), Box::new(hello)));
    }

    fn desired_digest(&self, node: u128) -> u128 {
        let Some((_, row)) = self.store.node(NodeId(node)) else { return 0 };
        let live = self.store.nodes().live(row).filter_map(|slot| self.store.allocs().row(slot));
        live.map(|row| desired_hash(row.id, (row.desired == DesiredStatus::Run).then_some(row.revision())))
            .fold(0, u128::wrapping_add)
    }

    fn observe(&mut self, session: u64, allocs: &[(AllocId, ClientStatus)]) {
        self.observe_as(session, allocs, None);
    }

    fn observe_as(&mut self, session: u64, allocs: &[(AllocId, ClientStatus)], healthy: Option<bool>) {
        let seen = |(id, status): &(AllocId, ClientStatus)| ObservedAlloc {
            healthy,
            hash: observed(*id, *status).hash.wrapping_add(u128::from(healthy.is_some()) << 64),
            ..observed(*id, *status)
        };
        let allocs = allocs.iter().map(|alloc| Arc::new(seen(alloc))).collect();
        let session = SessionId(session);
        let desired_seq = self.desired_seq(session);
        self.tell(Event::Observed { session, seq: 1, desired_seq, allocs, resync_done: true });
    }

    fn join(&mut self, session: u64, node: u128) {
        self.hello(session, node, 1, 0);
        self.observe(session, &[]);
    }

    fn wanted(&self) -> Vec<(AllocSlot, AllocId, NodeId)> {
        let wanted = self.store.allocs().iter().filter(|(_, row)| row.is_desired());
        wanted.map(|(slot, row)| (slot, row.id, self.store.nodes().row(row.node).unwrap().id)).collect()
    }

    /// The last message of desired state that was sent in a session.
    fn desired_seq(&self, session: SessionId) -> u64 {
        let sent = self.told.iter().filter(|(of, _)| *of == session);
        sent.filter_map(|(_, m)| if let NodeMessage::Desired(d) = m { Some(d.seq) } else { None })
            .max()
            .unwrap_or(0)
    }

    /// A sign of life of an agent that has taken in all that it was told.
    fn heartbeat(&mut self, session: u64) {
        let desired_digest = self.sessions.get(&session).map_or(0, |node| self.desired_digest(*node));
        let session = SessionId(session);
        let desired_seq = self.desired_seq(session);
        let heartbeat = Heartbeat { desired_seq, desired_digest, ..Heartbeat::default() };
        self.tell(Event::Heartbeat(session, heartbeat));
    }

    /// Time passes, and all agents live.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.tick(1);
            for session in self.sessions.keys().copied().collect::<Vec<_>>() {
                self.heartbeat(session);
            }
        }
    }

    /// Time passes, second by second.
    fn tick(&mut self, seconds: u64) {
        for _ in 0..seconds.max(1) {
            self.now += seconds.min(1);
            self.monotonic += seconds.min(1);
            self.tell(Event::Tick);
        }
    }

    fn run_of(&self, session: u64) -> Vec<AllocSlot> {
        let of = self.told.iter().filter(|(s, _)| *s == SessionId(session));
        of.filter_map(
            |(_, m)| if let NodeMessage::Desired(desired) = m { Some(desired.run.clone()) } else { None },
        )
        .flatten()
        .collect()
    }
}

fn observed(id: AllocId, status: ClientStatus) -> ObservedAlloc {
    let task = ObservedTask {
        name: "t".into(),
        state: if status.is_terminal() { TaskState::Dead } else { TaskState::Running },
        failed: status == ClientStatus::Failed,
        restarts: 0,
        last_restart: Timestamp(0),
        started_at: Timestamp(0),
        finished_at: Timestamp(0),
        exit: (7, 0, false),
        events: vec![],
    };
    let hash = id.0.wrapping_add(status as u128);
    ObservedAlloc {
        healthy: None,
        health_message: String::new(),
        id,
        status,
        description: String::new(),
        tasks: vec![task],
        modified_at: Timestamp(0),
        hash,
        revision: 0,
    }
}

fn places_nothing(planned: &Event) -> bool {
    matches!(planned, Event::Planned { plan, .. } if plan.placements.is_empty())
}

fn node(id: u128) -> Node {
    let features = [Feature::StopOnClientAfter, Feature::Templates].map(Feature::name).join(",");
    Node {
        attributes: [("driver.mock_driver", "1"), (FEATURES_ATTRIBUTE, &features)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        meta: [("rack".to_owned(), format!("r{}", id % 2))].into(),
        ..Node::new(
            NodeId(id),
            &format!("n{id}"),
            Resources { cpu_mhz: 4000, memory_mb: 1000, disk_mb: 100_000 },
        )
    }
}

fn job(count: u32, memory_mb: u32) -> Job {
    let task = Task {
        resources: TaskResources { cpu_mhz: 10, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let group = Group { count, tasks: vec![task], ..Group::new("g", JobType::Service) };
    Job { groups: vec![group], ..Job::new(JobKey::new("default", "web"), JobType::Service) }
}
