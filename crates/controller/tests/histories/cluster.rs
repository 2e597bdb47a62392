//! A cluster without clocks, threads and disks: what happens next is drawn, faults included.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use berth_controller::{
    Action, Config, Controller, Event, Fate, Links, Now, Request, ServerId, SessionId, ToNode, ToPlan, Token,
};
use berth_model::{
    EvalId, Index, JobKey, NodeId, Timestamp,
    command::{Command, DeregisterJob, DrainNode, Entry, NewDrain, RegisterJob},
    ids::IdSeed,
    job::{Disconnect, Group, Job, JobType, Reconcile, Task, TaskResources},
    store::Store,
};
use berth_scheduler::{Ledger, Planner};

use super::agents::{Agent, desired_hash};

const NODES: u128 = 4;
const JOBS: u32 = 4;

/// Connections that take something only now and then.
struct Narrow(bool);

impl Links for Narrow {
    fn has_room(&self, _: SessionId) -> bool {
        self.0
    }
}

pub struct Cluster {
    random: IdSeed,
    controller: Controller,
    term: u64,
    seconds: u64,
    /// What is durable.
    store: Store,
    /// Proposed by the present leader, not written.
    log: VecDeque<Entry>,
    view: Store,
    published: Index,
    planner: Planner,
    claims: Ledger,
    asked: VecDeque<ToPlan>,
    planned: VecDeque<Event>,
    pub agents: Vec<Agent>,
    sessions: u64,
    tokens: u64,
    /// Requests without an answer.
    pub waiting: BTreeMap<u64, ()>,
    /// No faults any more: everything is on time.
    pub healed: bool,
}

impl Cluster {
    pub fn new(seed: u64) -> Self {
        let claims = Ledger::default();
        let mut cluster = Self {
            random: IdSeed::new(seed),
            controller: Controller::new(config(seed), claims.clone()),
            term: 0,
            seconds: 1_000,
            store: Store::default(),
            log: VecDeque::new(),
            view: Store::default(),
            published: Index::default(),
            planner: Planner::default(),
            claims,
            asked: VecDeque::new(),
            planned: VecDeque::new(),
            agents: (1..=NODES).map(Agent::new).collect(),
            sessions: 0,
            tokens: 0,
            waiting: BTreeMap::new(),
            healed: false,
        };
        cluster.start();
        cluster
    }

    fn draw(&mut self, below: u128) -> u128 {
        self.random.mint() % below
    }

    /// A server starts with what is durable.
    fn start(&mut self) {
        self.term += 1;
        let seed = self.random.mint() as u64;
        (self.planner, self.claims) = (Planner::default(), Ledger::default());
        self.controller = Controller::new(config(seed), self.claims.clone());
        self.asked.clear();
        self.planned.clear();
        // Whoever waited sees the connection end.
        self.waiting.clear();
        for agent in &mut self.agents {
            (agent.session, agent.welcomed) = (None, false);
        }
        let index = self.published;
        self.tell(Event::Recovered { term: 0, store: Box::new(self.store.clone()) });
        self.tell(Event::LeadershipGained { term: self.term });
        // At the same index when the one before wrote nothing: then nothing can have changed.
        assert!(self.published >= index, "a new leader begins above all that was published");
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        let now = Now {
            wall: Timestamp(self.seconds * 1_000_000_000),
            monotonic: Duration::from_secs(self.seconds),
        };
        self.controller.handle(event, now, &mut actions);
        let room = self.healed || self.draw(4) > 0;
        self.controller.flush(&Narrow(room), &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Propose { entry, .. } => self.log.push_back(entry.into_parts().0),
            Action::Judged { .. } => {}
            Action::Plan(asked) => self.asked.push_back(asked),
            Action::Publish { store, index, .. } => {
                assert!(index >= self.published, "{index} was published after {}", self.published);
                self.published = index;
                self.claims.lock().settle(store.index());
                self.view = store;
            }
            Action::Answer(Token(token), _) => {
                assert!(self.waiting.remove(&token).is_some(), "request {token} is answered twice");
            }
            Action::Send(session, message) => self.deliver(session, &message),
            Action::Close(session) => self.close(session),
            Action::Tell(server, message) => panic!("there is no other server: {server:?} {message:?}"),
        }
    }

    fn deliver(&mut self, session: SessionId, message: &ToNode) {
        // A message may be lost, and with it all that follow in the session.
        let lost = !self.healed && self.draw(40) == 0;
        let Some(agent) = self.agents.iter_mut().find(|agent| agent.session == Some(session)) else { return };
        agent.deaf |= lost;
        match message {
            _ if agent.deaf => {}
            ToNode::Welcome { mode, .. } => agent.on_welcome(*mode),
            ToNode::Desired(desired) => agent.on_desired(desired),
            ToNode::Refused { .. } => (agent.session, agent.welcomed) = (None, false),
            ToNode::HeartbeatEvery { .. } | ToNode::Ack { .. } => {}
        }
    }

    fn close(&mut self, session: SessionId) {
        let closed = self.agents.iter_mut().filter(|agent| agent.session == Some(session));
        closed.for_each(|agent| (agent.session, agent.welcomed) = (None, false));
    }

    /// One thing happens, whichever is drawn.
    pub fn step(&mut self) {
        match self.draw(21) {
            0 | 1 => self.register(),
            2 => self.deregister(),
            3..=5 => self.write(),
            6..=8 => self.plan(),
            9 => self.planned.pop_front().into_iter().for_each(|event| self.tell(event)),
            10 => self.pass(1),
            11 => {
                let seconds = 1 + self.draw(9) as u64;
                self.pass(seconds);
            }
            12..=16 => self.agent(),
            17 => self.refuse(),
            18 if self.draw(4) == 0 => self.crash(),
            18 if self.draw(4) == 0 => self.change_leader(),
            19 if self.draw(2) == 0 => self.drain(),
            _ => self.agent(),
        }
    }

    fn request(&mut self, command: Command) {
        self.tokens += 1;
        self.waiting.insert(self.tokens, ());
        self.tell(Event::Requested(Request { token: Token(self.tokens), commands: vec![command].into() }));
    }

    fn register(&mut self) {
        let (number, count, memory_mb) = (self.draw(u128::from(JOBS)), self.draw(4), 100 + self.draw(300));
        let mut job = job(number as u32, count as u32, memory_mb as u32);
        job.groups[0].disconnect = self.disconnect();
        let job = Arc::new(job);
        let register = RegisterJob { job, eval: EvalId(self.random.mint()), only_if: None };
        self.request(Command::RegisterJob(Box::new(register)));
    }

    /// What happens to a job's allocations on nodes that fall silent: one of all that groups can say.
    fn disconnect(&mut self) -> Option<Box<Disconnect>> {
        let span = Duration::from_secs(5 + self.draw(60) as u64);
        let (lost_after, stop_on_client_after) = match self.draw(4) {
            0 => return None,
            1 => (None, Some(span)),
            2 => (Some(span), None),
            _ => (None, None),
        };
        let reconciles = [
            Reconcile::BestScore,
            Reconcile::KeepOriginal,
            Reconcile::KeepReplacement,
            Reconcile::LongestRunning,
        ];
        let (replace, reconcile) = (self.draw(2) == 0, reconciles[self.draw(4) as usize]);
        Some(Box::new(Disconnect { lost_after, stop_on_client_after, replace, reconcile }))
    }

    fn deregister(&mut self) {
        let (number, purge) = (self.draw(u128::from(JOBS)), self.draw(2) == 0);
        let eval = EvalId(self.random.mint());
        self.request(Command::DeregisterJob(DeregisterJob { job: key(number as u32), purge, eval }));
    }

    /// A node is drained, for as long as it takes or for some time, or no more.
    fn drain(&mut self) {
        let node = NodeId(1 + self.draw(self.agents.len() as u128));
        let deadline = (self.draw(2) == 0).then(|| self.draw(30) as u64);
        let deadline = deadline.map(|seconds| Timestamp((self.seconds + seconds) * 1_000_000_000));
        let drain = NewDrain { deadline, ignore_system: false, asked_ns: 0 };
        let drain = (self.draw(3) > 0).then_some(drain);
        let command = DrainNode { node, drain, eligible: true, meta: BTreeMap::new() };
        self.request(Command::DrainNode(Box::new(command)));
    }

    /// Every other drain is called off, and no other has any time left.
    fn end_drains(&mut self) {
        let nodes: Vec<NodeId> = self.store.nodes().iter().map(|(_, row)| row.id).collect();
        for (number, node) in nodes.into_iter().enumerate() {
            let drain = NewDrain {
                deadline: Some(Timestamp(self.seconds * 1_000_000_000)),
                ignore_system: false,
                asked_ns: -1,
            };
            let drain = (number % 2 == 0).then_some(drain);
            let command = DrainNode { node, drain, eligible: true, meta: BTreeMap::new() };
            self.request(Command::DrainNode(Box::new(command)));
        }
    }

    /// The log writes the next entries, at most three.
    fn write(&mut self) {
        let count = 1 + self.draw(3) as usize;
        let entries: Vec<Entry> = self.log.drain(..count.min(self.log.len())).collect();
        let applied: Vec<_> = entries.into_iter().map(|entry| self.store.apply(entry)).collect();
        for (_, node) in self.store.nodes().iter() {
            assert_eq!(node.used.exceeds(node.capacity), None, "node {} is overcommitted", node.id);
        }
        if !applied.is_empty() {
            self.tell(Event::Applied { term: 1, store: Box::new(self.store.clone()), applied });
        }
    }

    /// The log refuses the entries that were proposed last.
    fn refuse(&mut self) {
        let kept = self.draw(2) as usize;
        let refused: Vec<Index> =
            self.log.drain(kept.min(self.log.len())..).map(|entry| entry.index).collect();
        for index in refused {
            let fate = Fate::NotWritten("no room".into());
            self.tell(Event::NotApplied { term: self.term, index, fate });
        }
    }

    /// The server ends; of what it proposed some is durable.
    fn crash(&mut self) {
        let durable = self.draw(3) as usize;
        let entries: Vec<Entry> = self.log.drain(..durable.min(self.log.len())).collect();
        entries.into_iter().for_each(|entry| drop(self.store.apply(entry)));
        self.log.clear();
        self.start();
    }

    /// Leadership is lost and comes back; of what was proposed some is durable.
    fn change_leader(&mut self) {
        let durable = self.draw(3) as usize;
        let entries: Vec<Entry> = self.log.drain(..durable.min(self.log.len())).collect();
        let unknown: Vec<Index> = self.log.drain(..).map(|entry| entry.index).collect();
        let term = self.term;
        let fate = Fate::Unknown("another leads".into());
        let mut unknown: Vec<Event> =
            unknown.into_iter().map(|index| Event::NotApplied { term, index, fate: fate.clone() }).collect();
        // What became of an entry is told by whoever waited for it, which may be late.
        let in_time = self.draw(3) as usize;
        let late = unknown.split_off(in_time.min(unknown.len()));
        unknown.into_iter().for_each(|event| self.tell(event));
        self.tell(Event::LeadershipLost);
        assert!(self.waiting.is_empty(), "somebody still waits: {:?}", self.waiting);
        let applied: Vec<_> = entries.into_iter().map(|entry| self.store.apply(entry)).collect();
        self.tell(Event::Applied { term: 1, store: Box::new(self.store.clone()), applied });
        self.term += 1;
        self.tell(Event::LeadershipGained { term: self.term });
        late.into_iter().for_each(|event| self.tell(event));
    }

    fn plan(&mut self) {
        let Some(ToPlan { term, eval, now }) = self.asked.pop_front() else { return };
        self.planner.follow(&self.view, &self.claims.lock());
        let seed = self.random.mint() as u64;
        let plan = self.planner.plan(&self.view, &eval, now, seed);
        let ticket = self.claims.lock().add(&plan.job.namespace, plan.claims());
        self.planned.push_back(Event::Planned { term, plan: Box::new(plan), ticket });
    }

    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.seconds += 1;
            self.tell(Event::Tick);
        }
    }

    /// An agent does something, or its connection ends.
    fn agent(&mut self) {
        let number = self.draw(NODES) as usize;
        let (what, fails) = (self.draw(12), self.draw(6) == 0);
        match what {
            0 => self.drop_connection(number),
            1..=5 => self.agents[number].work(fails),
            6..=8 => self.report(number),
            _ => self.beat(number),
        }
    }

    fn drop_connection(&mut self, number: usize) {
        if let Some(session) = self.agents[number].session.take() {
            self.agents[number].welcomed = false;
            self.tell(Event::SessionClosed(session));
        }
    }

    fn report(&mut self, number: usize) {
        let update = self.agents[number].update();
        update.into_iter().for_each(|event| self.tell(event));
    }

    fn beat(&mut self, number: usize) {
        if self.agents[number].session.is_none() {
            self.sessions += 1;
            let hello = self.agents[number].hello(SessionId(self.sessions), self.store.cluster().id);
            return self.tell(hello);
        }
        let heartbeat = self.agents[number].heartbeat();
        heartbeat.into_iter().for_each(|event| self.tell(event));
    }

    /// Faults end: everything that is due happens, for this many seconds.
    pub fn settle(&mut self, seconds: u64) {
        self.healed = true;
        for number in 0..self.agents.len() {
            // A connection that swallows messages ends sooner or later.
            if self.agents[number].deaf {
                self.drop_connection(number);
            }
        }
        for second in 0..seconds {
            self.pass(1);
            // By then whoever leads takes requests, and all that is asked now is written.
            if second == seconds / 2 {
                self.end_drains();
            }
            for number in 0..self.agents.len() {
                self.beat(number);
                (0..8).for_each(|_| self.agents[number].work(false));
                self.report(number);
            }
            while !self.log.is_empty() || !self.asked.is_empty() || !self.planned.is_empty() {
                self.write();
                self.plan();
                self.planned.pop_front().into_iter().for_each(|event| self.tell(event));
            }
        }
    }

    /// The durable state.
    pub fn state(&self) -> &Store {
        &self.store
    }

    /// Whether a planner or the log still has something of it.
    pub fn is_claimed(&self) -> bool {
        !self.claims.lock().is_empty()
    }
}

pub fn key(number: u32) -> JobKey {
    JobKey::new("default", &format!("job-{number}"))
}

fn job(number: u32, count: u32, memory_mb: u32) -> Job {
    let task = Task {
        resources: TaskResources { cpu_mhz: 10, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let group = Group { count, tasks: vec![task], ..Group::new("g", JobType::Service) };
    Job { groups: vec![group], ..Job::new(key(number), JobType::Service) }
}

fn config(seed: u64) -> Config {
    Config { server: ServerId(1), planning_max: 8, desired_hash, seed }
}

/// The node of an agent.
pub fn node_of(agent: &Agent) -> NodeId {
    NodeId(agent.node)
}
