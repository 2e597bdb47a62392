//! The controller with a shell of a few lines: a log that applies at once or late, a planner, and agents made of numbers.

#[path = "flow/faults.rs"]
mod faults;
#[path = "flow/links.rs"]
mod links;
#[path = "flow/periodic.rs"]
mod periodic;
#[path = "flow/placement.rs"]
mod placement;
#[path = "flow/restore.rs"]
mod restore;
#[path = "flow/tenants.rs"]
mod tenants;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_controller::{
    Action, Answer, Config, Controller, Event, Heartbeat, Hello, Links, Now, Request, SessionId, ToNode,
    Token, WelcomeMode,
};
use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{ClientStatus, DesiredStatus},
    command::{Command, DeregisterJob, ENTRY_BYTES_MAX, Entry, RegisterJob},
    eval::{EvalStatus, Trigger},
    job::{Group, Job, JobType, Task, TaskResources},
    node::{Node, NodeStatus},
    observed::{Observed, ObservedAlloc, ObservedTask, TaskState},
    resources::Resources,
    store::{AllocSlot, JobStatus, Store},
};
use berth_scheduler::{Claims, Ledger, Planner};

struct Shell {
    controller: Controller,
    store: Store,
    planner: Planner,
    claims: Ledger,
    /// Planners do not see what others claim.
    is_blind: bool,
    /// Seconds by the wall clock, and since the machine started.
    now: u64,
    monotonic: u64,
    /// Entries that were proposed and not written yet.
    log: Vec<Entry>,
    /// Write entries only when told to.
    slow_log: bool,
    published: Vec<Index>,
    running_seen: u32,
    answers: BTreeMap<u64, Answer>,
    told: Vec<(SessionId, ToNode)>,
    closed: Vec<SessionId>,
    view: Store,
    observed: Observed,
    seeds: u64,
    /// The nodes of open sessions.
    sessions: BTreeMap<u64, u128>,
}

/// Connections that take whatever comes.
struct Open;

impl Links for Open {
    fn has_room(&self, _: SessionId) -> bool {
        true
    }
}

fn desired_hash(alloc: AllocId, stop: bool) -> u128 {
    alloc.0.wrapping_mul(3) + u128::from(stop)
}

impl Shell {
    fn new() -> Self {
        let config = Config { planning_max: 8, desired_hash, seed: 1 };
        let claims = Ledger::default();
        let mut shell = Self {
            controller: Controller::new(config, claims.clone()),
            store: Store::default(),
            planner: Planner::default(),
            claims,
            is_blind: false,
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
            seeds: 0,
            sessions: BTreeMap::new(),
        };
        shell.lead(1);
        shell
    }

    /// A server starts with the state that is in the log, and leads.
    fn lead(&mut self, term: u64) {
        let config = Config { planning_max: 8, desired_hash, seed: term };
        (self.claims, self.planner) = (Ledger::default(), Planner::default());
        self.controller = Controller::new(config, self.claims.clone());
        self.sessions.clear();
        self.log.clear();
        self.published.clear();
        self.tell(Event::Recovered(Box::new(self.store.clone())));
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
        (!applied.is_empty()).then(|| Event::Applied { store: Box::new(self.store.clone()), applied })
    }

    fn catch_up(&mut self) {
        if let Some(event) = self.write_log() {
            self.tell(event);
        }
    }

    fn act(&mut self, action: Action, events: &mut Vec<Event>) {
        match action {
            Action::Propose(entry) => {
                let (entry, bytes) = entry.into_parts();
                assert_eq!(bytes, entry.encode());
                assert!(bytes.len() <= ENTRY_BYTES_MAX);
                assert!(self.log.last().is_none_or(|last| last.index < entry.index));
                self.log.push(entry);
            }
            Action::Judged { .. } => {}
            Action::Plan { term, eval } => {
                self.seeds += 1;
                match self.is_blind {
                    true => self.planner.follow(&self.view, &Claims::default()),
                    false => self.planner.follow(&self.view, &self.claims.lock()),
                }
                let plan = self.planner.plan(&self.view, &eval, self.at(), self.seeds);
                assert_eq!(berth_scheduler::check::check(&self.view, &plan), []);
                let ticket = self.claims.lock().add(&plan.job.namespace, plan.claims());
                events.push(Event::Planned { term, plan: Box::new(plan), ticket });
            }
            Action::Publish { store, observed, index, logged, seen, .. } => {
                let mut indexes: Vec<Index> =
                    logged.iter().map(|(i, _)| *i).chain(seen.iter().map(|(i, _)| *i)).collect();
                indexes.sort_unstable();
                assert!(indexes.is_empty() || self.published.last() < indexes.first(), "index went back");
                assert!(indexes.last().is_none_or(|last| *last == index));
                self.published.extend(indexes);
                self.claims.lock().settle(store.index());
                self.running_seen = observed.running(&JobKey::new("default", "web"), 0);
                (self.view, self.observed) = (store, observed);
            }
            Action::Answer(token, answer) => drop(self.answers.insert(token.0, answer)),
            Action::Send(session, message) => self.told.push((session, message)),
            Action::Close(session) => self.closed.push(session),
        }
    }

    fn request(&mut self, token: u64, command: Command) {
        let request = Request { token: Token(token), commands: vec![command].into() };
        self.tell(Event::Requested(request));
    }

    fn register(&mut self, count: u32, memory_mb: u32) {
        self.register_job(job(count, memory_mb));
    }

    fn register_job(&mut self, job: Job) {
        self.seeds += 1;
        let eval = EvalId(u128::from(self.seeds) << 64);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None };
        self.request(self.seeds, Command::RegisterJob(Box::new(register)));
    }

    fn hello(&mut self, session: u64, node: u128, epoch: u64, observed_digest: u128) {
        let desired_digest = self.desired_digest(node);
        self.sessions.insert(session, node);
        let hello = Hello {
            node: self::node(node),
            cluster: self.store.cluster().id,
            epoch,
            instance: epoch.into(),
            seq: 0,
            desired_digest,
            observed_digest,
        };
        self.tell(Event::SessionOpened(SessionId(session), Box::new(hello)));
    }

    fn desired_digest(&self, node: u128) -> u128 {
        let Some((_, row)) = self.store.node(NodeId(node)) else { return 0 };
        let live = self.store.nodes().live(row).filter_map(|slot| self.store.allocs().row(slot));
        live.map(|row| desired_hash(row.id, row.desired == DesiredStatus::Stop)).fold(0, u128::wrapping_add)
    }

    fn observe(&mut self, session: u64, allocs: &[(AllocId, ClientStatus)]) {
        let allocs = allocs.iter().map(|(id, status)| Arc::new(observed(*id, *status))).collect();
        let session = SessionId(session);
        let desired_seq = self.desired_seq(session);
        self.tell(Event::Observed { session, seq: 1, desired_seq, allocs, resync_done: true });
    }

    fn join(&mut self, session: u64, node: u128) {
        self.hello(session, node, 1, 0);
        self.observe(session, &[]);
    }

    fn wanted(&self) -> Vec<(AllocSlot, AllocId, NodeId)> {
        let wanted = self.store.allocs().iter().filter(|(_, row)| row.is_wanted());
        wanted.map(|(slot, row)| (slot, row.id, self.store.nodes().row(row.node).unwrap().id)).collect()
    }

    /// The last message of desired state that was sent in a session.
    fn desired_seq(&self, session: SessionId) -> u64 {
        let sent = self.told.iter().filter(|(of, _)| *of == session);
        sent.filter_map(|(_, m)| if let ToNode::Desired(d) = m { Some(d.seq) } else { None })
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
            |(_, m)| if let ToNode::Desired(desired) = m { Some(desired.run.clone()) } else { None },
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
    }
}

fn node(id: u128) -> Node {
    Node {
        id: NodeId(id),
        name: format!("n{id}"),
        datacenter: "dc1".into(),
        pool: "default".into(),
        class: String::new(),
        attributes: [("driver.mock_driver".to_owned(), "1".to_owned())].into(),
        meta: BTreeMap::new(),
        total: Resources { cpu_mhz: 4000, memory_mb: 1000, disk_mb: 100_000 },
        reserved: Resources::ZERO,
        reserved_ports: vec![],
        host_ip: String::new(),
        dynamic_ports: (20_000, 32_000),
        secret_hash: vec![],
        devices: vec![],
        cores: vec![],
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

#[test]
fn a_job_runs_from_its_registration_to_its_end() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    assert_eq!(shell.store.node(NodeId(1)).unwrap().1.status, NodeStatus::Ready);
    shell.register(2, 100);
    assert!(
        matches!(shell.answers.values().next(), Some(Answer::Committed(_, outcomes)) if outcomes[0].is_ok())
    );
    let placed = shell.wanted();
    assert_eq!(placed.len(), 2);
    assert_eq!(shell.run_of(1).len(), 2);
    shell.observe(1, &[(placed[0].1, ClientStatus::Running), (placed[1].1, ClientStatus::Running)]);
    assert_eq!(shell.running_seen, 2);
    let entries = shell.store.index();
    shell.observe(1, &[(placed[0].1, ClientStatus::Running)]);
    assert_eq!(shell.store.index(), entries, "an observation was logged");

    let deregister = DeregisterJob { job: JobKey::new("default", "web"), purge: true, eval: EvalId(5) };
    shell.request(99, Command::DeregisterJob(deregister));
    let stops = shell
        .told
        .iter()
        .filter_map(|(_, m)| if let ToNode::Desired(desired) = m { Some(desired.stop.len()) } else { None });
    assert_eq!(stops.sum::<usize>(), 2);
    shell.observe(1, &[(placed[0].1, ClientStatus::Complete), (placed[1].1, ClientStatus::Complete)]);
    assert_eq!(shell.running_seen, 0);
    shell.tick(1);
    assert!(shell.store.job(&JobKey::new("default", "web")).is_none(), "a purged job is still there");
}

#[test]
fn an_unexpected_end_is_logged_with_its_code_and_leads_to_a_replacement() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register(1, 100);
    let (slot, id, home) = shell.wanted()[0];
    shell.observe(home.0 as u64, &[(id, ClientStatus::Failed)]);
    assert_eq!(shell.store.allocs().extra(slot).unwrap().results[0].exit_code, 7);
    assert!(shell.wanted().is_empty());
    shell.pass(31);
    let (_, _, next) = shell.wanted()[0];
    assert_ne!(next, home);
}

#[test]
fn what_finds_no_room_is_placed_when_room_comes() {
    let mut shell = Shell::new();
    shell.register(3, 400);
    assert_eq!(shell.store.evals().blocked().count(), 1);
    let entries = shell.store.index();
    shell.tick(1);
    assert_eq!(shell.store.index(), entries, "a try that changes nothing was logged");
    shell.join(1, 1);
    assert_eq!(shell.wanted().len(), 2);
    assert_eq!(shell.store.evals().blocked().count(), 1);
    shell.join(2, 2);
    assert_eq!(shell.wanted().len(), 3);
    assert_eq!(shell.store.evals().blocked().count(), 0);
}

#[test]
fn a_silent_node_is_given_up_and_comes_back() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.join(2, 2);
    shell.register(1, 100);
    let (_, id, home) = shell.wanted()[0];
    let other = 3 - home.0 as u64;
    for _ in 0..4 {
        shell.tick(5);
        shell.heartbeat(other);
    }
    assert_eq!(shell.store.node(home).unwrap().1.status, NodeStatus::Down);
    assert_eq!(shell.wanted()[0].2, NodeId(u128::from(other)));
    assert!(shell.closed.contains(&SessionId(home.0 as u64)));
    shell.told.clear();
    shell.hello(7, home.0, 1, 0);
    let welcome = |m: &ToNode| matches!(m, ToNode::Welcome { mode: WelcomeMode::Full, .. });
    assert!(shell.told.iter().any(|(s, m)| *s == SessionId(7) && welcome(m)), "{:?}", shell.told);
    shell.observe(7, &[(id, ClientStatus::Running)]);
    let status = |shell: &Shell| shell.store.node(home).unwrap().1.status;
    assert_eq!(status(&shell), NodeStatus::Down, "what was declared lost still holds its room");
    shell.observe(7, &[(id, ClientStatus::Complete)]);
    assert_eq!(status(&shell), NodeStatus::Ready);
    let forgets =
        shell.told.iter().any(|(_, m)| matches!(m, ToNode::Desired(desired) if desired.forget.contains(&id)));
    assert!(forgets, "the agent was not told that its allocation was given up");
}

/// An agent that is told to remove what still runs never tells of its end, and the node would never take work again.
#[test]
fn what_still_runs_is_not_removed_before_it_has_ended() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, id, home) = shell.wanted()[0];
    shell.tick(20);
    shell.hello(7, 1, 1, 0);
    shell.observe(7, &[(id, ClientStatus::Running)]);
    shell.told.clear();
    let deregister = DeregisterJob { job: JobKey::new("default", "web"), purge: true, eval: EvalId(5) };
    shell.request(99, Command::DeregisterJob(deregister));
    shell.pass(2);
    assert!(shell.store.alloc(id).is_none(), "a purged job's allocation is still there");
    let is_removed = |shell: &Shell| {
        let removes = |m: &ToNode| matches!(m, ToNode::Desired(desired) if desired.purge.contains(&id));
        shell.told.iter().any(|(_, m)| removes(m))
    };
    assert!(!is_removed(&shell), "it still runs");
    shell.observe(7, &[(id, ClientStatus::Complete)]);
    assert_eq!(shell.store.node(home).unwrap().1.status, NodeStatus::Ready);
    assert!(is_removed(&shell), "its files stay for ever");
}

#[test]
fn what_ended_long_ago_is_forgotten_and_what_is_needed_stays() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, failed, _) = shell.wanted()[0];
    shell.observe(1, &[(failed, ClientStatus::Failed)]);
    let evals = shell.store.evals().len();
    let an_hour = |shell: &mut Shell| {
        for _ in 0..361 {
            shell.tick(10);
            shell.heartbeat(1);
        }
    };
    an_hour(&mut shell);
    assert!(shell.store.alloc(failed).is_none(), "an allocation that failed an hour ago is still there");
    assert!(shell.store.evals().len() < evals + 1, "evaluations pile up");
    assert_eq!(shell.wanted().len(), 1, "the job still runs");
    shell.seeds += 1;
    let eval = EvalId(u128::from(shell.seeds) << 64);
    let key = JobKey::new("default", "web");
    shell.request(90, Command::DeregisterJob(DeregisterJob { job: key.clone(), purge: false, eval }));
    let last = shell.store.allocs().iter().map(|(_, row)| row.id).next().expect("the replacement");
    shell.observe(1, &[(last, ClientStatus::Complete)]);
    (0..3).for_each(|_| an_hour(&mut shell));
    assert_eq!(shell.store.job(&key).map(|row| row.status()), Some(JobStatus::Dead), "forgotten too early");
    (0..2).for_each(|_| an_hour(&mut shell));
    assert!(shell.store.job(&key).is_none(), "a job that was stopped five hours ago is still there");
    assert_eq!((shell.store.allocs().len(), shell.store.evals().len()), (0, 0));
}

#[test]
fn a_finished_dispatch_is_forgotten_and_what_it_was_dispatched_from_stays() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let batch = |id: &str, dispatched| Job {
        key: JobKey::new("default", id),
        job_type: JobType::Batch,
        parameterized: Some(Box::default()),
        dispatched,
        ..job(1, 100)
    };
    shell.register_job(batch("sums", false));
    shell.register_job(batch("sums/dispatch-1", true));
    let (_, id, _) = shell.wanted()[0];
    shell.observe(1, &[(id, ClientStatus::Complete)]);
    shell.now += 5 * 3600;
    shell.heartbeat(1);
    shell.tick(0);
    let left: Vec<_> = shell.store.jobs().iter().map(|(_, row)| row.key.id.to_string()).collect();
    assert_eq!(left, ["sums"]);
    assert_eq!(shell.store.allocs().len(), 0);
}

#[test]
fn a_new_leader_forgets_what_ended_before_it_led() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, failed, _) = shell.wanted()[0];
    shell.observe(1, &[(failed, ClientStatus::Failed)]);
    shell.lead(2);
    shell.join(2, 1);
    assert!(shell.store.alloc(failed).is_some());
    shell.now += 3601;
    shell.heartbeat(2);
    shell.tick(0);
    assert!(shell.store.alloc(failed).is_none());
}

#[test]
fn an_agent_that_holds_the_same_tells_nothing_anew() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.register(1, 100);
    let (_, id, _) = shell.wanted()[0];
    shell.observe(1, &[(id, ClientStatus::Running)]);
    let digest = observed(id, ClientStatus::Running).hash;
    shell.tell(Event::SessionClosed(SessionId(1)));
    shell.told.clear();
    shell.hello(2, 1, 1, digest);
    assert!(
        matches!(shell.told.as_slice(), [(SessionId(2), ToNode::Welcome { mode: WelcomeMode::Equal, .. })]),
        "{:?}",
        shell.told
    );
    shell.hello(3, 1, 2, digest + 1);
    assert!(
        shell
            .told
            .iter()
            .any(|(s, m)| *s == SessionId(3) && matches!(m, ToNode::Welcome { mode: WelcomeMode::Full, .. }))
    );
    shell.hello(4, 1, 1, digest);
    assert!(
        shell.told.iter().any(|(s, m)| *s == SessionId(4) && matches!(m, ToNode::Refused { .. })),
        "an older agent got in"
    );
}

#[test]
fn plans_made_while_the_log_is_slow_do_not_take_room_twice() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    shell.slow_log = true;
    for id in ["a", "b", "c"] {
        let mut job = job(1, 600);
        job.key = JobKey::new("default", id);
        shell.seeds += 1;
        let eval = EvalId(u128::from(shell.seeds) << 64);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None };
        shell.request(shell.seeds, Command::RegisterJob(Box::new(register)));
    }
    for _ in 0..10 {
        shell.catch_up();
        let node = shell.store.node(NodeId(1)).unwrap().1;
        assert!(node.used.exceeds(node.capacity).is_none(), "{:?}", node.used);
    }
    assert_eq!(shell.wanted().len(), 1);
    assert_eq!(shell.store.evals().blocked().count(), 2);
    let open = shell.store.evals().iter().filter(|(_, e)| e.status == EvalStatus::Pending).count();
    assert_eq!(open, 0);
}

#[test]
fn a_new_leader_takes_up_what_was_open() {
    let mut shell = Shell::new();
    shell.register(1, 100);
    let blocked = shell.store.evals().blocked().next().unwrap().clone();
    assert_eq!(blocked.trigger, Trigger::QueuedAllocs);
    let granted = shell.store.granted();
    shell.lead(2);
    shell.join(1, 1);
    assert_eq!(shell.wanted().len(), 1);
    assert!(shell.store.index() > granted, "an index that may have been used was used again");
    assert_eq!(shell.store.job(&JobKey::new("default", "web")).unwrap().status(), JobStatus::Running);
}

#[test]
fn agents_are_told_when_fewer_heartbeats_will_do() {
    let mut shell = Shell::new();
    shell.join(1, 1);
    let told = |shell: &Shell| {
        let every = |message: &ToNode| match message {
            ToNode::Welcome { heartbeat_ms, .. } | ToNode::HeartbeatEvery { heartbeat_ms } => {
                Some(*heartbeat_ms)
            }
            _ => None,
        };
        shell.told.iter().filter_map(|(_, message)| every(message)).collect::<Vec<_>>()
    };
    shell.heartbeat(1);
    assert_eq!(told(&shell), [5_000]);
    let commands: Vec<Command> = (2..=10_001).map(|id| Command::RegisterNode(Box::new(node(id)))).collect();
    shell.tell(Event::Requested(Request { token: Token(7), commands: commands.into() }));
    assert_eq!(told(&shell), [5_000], "it is told when it is heard");
    shell.heartbeat(1);
    shell.heartbeat(1);
    assert_eq!(told(&shell), [5_000, 10_000]);
}
