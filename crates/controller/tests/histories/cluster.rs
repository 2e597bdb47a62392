//! A cluster without clocks, threads and disks: what happens next is drawn, faults included.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use berth_controller::{
    Action, Controller, ControllerConfig, EntryFailure, Event, LinkCapacity, NodeMessage, Now, PlanRequest,
    Request, RequestToken, ServerId, SessionId,
};
use berth_model::{
    Index, NodeId, Timestamp,
    command::{Command, Entry},
    event::AppliedEntry,
    ids::IdSeed,
    observed::Observed,
    store::Store,
};
use berth_scheduler::{Claims, Ledger, Planner};

use super::{
    agents::{Agent, Luck, desired_hash},
    rules::Rules,
};

const NODES: u128 = 4;

/// Connections that take something only now and then.
struct Narrow(bool);

impl LinkCapacity for Narrow {
    fn can_send(&self, _: SessionId) -> bool {
        self.0
    }
}

pub struct Cluster {
    pub random: IdSeed,
    controller: Controller,
    term: u64,
    pub seconds: u64,
    /// What is durable.
    pub store: Store,
    /// What holds of every step, and which states were reached.
    pub rules: Rules,
    /// Proposed by the present leader, not written.
    log: VecDeque<Entry>,
    view: Store,
    observed: Observed,
    published: Index,
    planner: Planner,
    /// Knows nothing of what others claim: what it plans is often refused.
    stranger: Planner,
    claims: Ledger,
    asked: VecDeque<PlanRequest>,
    planned: VecDeque<Event>,
    pub agents: Vec<Agent>,
    sessions: u64,
    tokens: u64,
    /// Requests without an answer.
    pub waiting: BTreeMap<u64, ()>,
    /// No faults any more: everything is on time.
    pub healed: bool,
    /// Prints each entry that is applied.
    pub tells: bool,
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
            rules: Rules::default(),
            log: VecDeque::new(),
            view: Store::default(),
            observed: Observed::default(),
            published: Index::default(),
            planner: Planner::default(),
            stranger: Planner::default(),
            claims,
            asked: VecDeque::new(),
            planned: VecDeque::new(),
            agents: (1..=NODES).map(Agent::new).collect(),
            sessions: 0,
            tokens: 0,
            waiting: BTreeMap::new(),
            healed: false,
            tells: false,
        };
        cluster.start();
        cluster
    }

    pub fn draw(&mut self, below: u128) -> u128 {
        self.random.mint() % below
    }

    /// A server starts with what is durable.
    fn start(&mut self) {
        self.term += 1;
        let seed = self.random.mint() as u64;
        (self.planner, self.claims) = (Planner::default(), Ledger::default());
        self.stranger = Planner::default();
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
            Action::Judged { refused, .. } => self.rules.on_judged(&self.store, refused.count),
            Action::Plan(asked) => self.asked.push_back(asked),
            Action::Publish { store, observed, index, .. } => {
                assert!(index >= self.published, "{index} was published after {}", self.published);
                self.published = index;
                self.claims.lock().settle(store.index());
                (self.view, self.observed) = (store, observed);
            }
            Action::Answer(RequestToken(token), _) => {
                assert!(self.waiting.remove(&token).is_some(), "request {token} is answered twice");
            }
            Action::Send(session, message) => self.deliver(session, &message),
            Action::Close(session) => self.close(session),
            Action::Tell(server, message) => panic!("there is no other server: {server:?} {message:?}"),
        }
    }

    fn deliver(&mut self, session: SessionId, message: &NodeMessage) {
        // A message may be lost, and with it all that follow in the session.
        let lost = !self.healed && self.draw(40) == 0;
        let now_s = self.seconds;
        let Some(agent) = self.agents.iter_mut().find(|agent| agent.session == Some(session)) else { return };
        agent.deaf |= lost;
        if !agent.deaf {
            agent.heard_s = now_s;
        }
        match message {
            _ if agent.deaf => {}
            NodeMessage::Welcome { mode, .. } => agent.on_welcome(*mode),
            NodeMessage::Desired(desired) => agent.on_desired(desired),
            NodeMessage::Refused { .. } => (agent.session, agent.welcomed) = (None, false),
            NodeMessage::HeartbeatEvery { .. } | NodeMessage::Ack { .. } => {}
        }
    }

    fn close(&mut self, session: SessionId) {
        let closed = self.agents.iter_mut().filter(|agent| agent.session == Some(session));
        closed.for_each(|agent| (agent.session, agent.welcomed) = (None, false));
    }

    /// One thing happens, whichever is drawn.
    pub fn step(&mut self) {
        match self.draw(29) {
            0..=2 => self.register(),
            3 => self.deregister(),
            4 => self.change_job(),
            5 | 6 => self.change_deployment(),
            7..=9 => self.write(),
            10..=12 => self.plan(),
            13 => self.planned.pop_front().into_iter().for_each(|event| self.tell(event)),
            14 => self.pass(1),
            15 => {
                let seconds = 1 + self.draw(9) as u64;
                self.pass(seconds);
            }
            16..=20 => self.agent(),
            21 => self.refuse(),
            22 if self.draw(4) == 0 => self.crash(),
            22 if self.draw(4) == 0 => self.change_leader(),
            23 if self.draw(2) == 0 => self.drain(),
            24 => self.be_undisturbed(),
            28 if self.draw(3) == 0 => self.collect_garbage(),
            _ => self.agent(),
        }
    }

    /// Nothing keeps the server from its work for a second, after one in which it takes up what was refused: what is due is
    /// dealt with, or there is a reason.
    fn be_undisturbed(&mut self) {
        let healed = std::mem::replace(&mut self.healed, true);
        self.catch_up();
        for _ in 0..2 {
            self.pass(1);
            self.catch_up();
        }
        for number in 0..self.agents.len() {
            (0..4).for_each(|_| self.agents[number].work(false));
            self.report(number);
        }
        self.catch_up();
        self.pass(1);
        self.catch_up();
        self.healed = healed;
        self.rules.on_second(&self.store);
    }

    /// Everything that was asked for is planned and written.
    fn catch_up(&mut self) {
        while !self.log.is_empty() || !self.asked.is_empty() || !self.planned.is_empty() {
            self.write();
            self.plan();
            self.planned.pop_front().into_iter().for_each(|event| self.tell(event));
        }
    }

    pub fn request(&mut self, command: Command) {
        self.tokens += 1;
        self.waiting.insert(self.tokens, ());
        self.tell(Event::Requested(Request {
            token: RequestToken(self.tokens),
            commands: vec![command].into(),
        }));
    }

    /// The log writes the next entries, at most three.
    fn write(&mut self) {
        let count = 1 + self.draw(3) as usize;
        let entries: Vec<Entry> = self.log.drain(..count.min(self.log.len())).collect();
        let applied: Vec<_> = entries.into_iter().map(|entry| self.apply(entry)).collect();
        if !applied.is_empty() {
            self.tell(Event::Applied { term: 1, store: Box::new(self.store.clone()), applied });
        }
    }

    fn apply(&mut self, entry: Entry) -> AppliedEntry {
        let applied = self.store.apply(entry.clone());
        if self.tells {
            println!("{} s: {entry:?} comes to {:?}", self.seconds, applied.outcomes);
        }
        self.rules.on_entry(&self.store, &entry, &applied);
        applied
    }

    /// The log refuses the entries that were proposed last.
    fn refuse(&mut self) {
        let kept_count = self.draw(2) as usize;
        let refused: Vec<Index> =
            self.log.drain(kept_count.min(self.log.len())..).map(|entry| entry.index).collect();
        for index in refused {
            let fate = EntryFailure::NotWritten("no room".into());
            self.tell(Event::NotApplied { term: self.term, index, fate });
        }
    }

    /// The server ends; of what it proposed some is durable.
    fn crash(&mut self) {
        let durable = self.draw(3) as usize;
        let entries: Vec<Entry> = self.log.drain(..durable.min(self.log.len())).collect();
        entries.into_iter().for_each(|entry| drop(self.apply(entry)));
        self.log.clear();
        self.start();
    }

    /// Leadership is lost and comes back; of what was proposed some is durable.
    fn change_leader(&mut self) {
        let durable = self.draw(3) as usize;
        let entries: Vec<Entry> = self.log.drain(..durable.min(self.log.len())).collect();
        let unknown: Vec<Index> = self.log.drain(..).map(|entry| entry.index).collect();
        let term = self.term;
        let fate = EntryFailure::Unknown("another leads".into());
        let mut unknown: Vec<Event> =
            unknown.into_iter().map(|index| Event::NotApplied { term, index, fate: fate.clone() }).collect();
        // What became of an entry is told by whoever waited for it, which may be late.
        let in_time = self.draw(3) as usize;
        let late = unknown.split_off(in_time.min(unknown.len()));
        unknown.into_iter().for_each(|event| self.tell(event));
        self.tell(Event::LeadershipLost);
        assert!(self.waiting.is_empty(), "somebody still waits: {:?}", self.waiting);
        let applied: Vec<_> = entries.into_iter().map(|entry| self.apply(entry)).collect();
        self.tell(Event::Applied { term: 1, store: Box::new(self.store.clone()), applied });
        self.term += 1;
        self.tell(Event::LeadershipGained { term: self.term });
        late.into_iter().for_each(|event| self.tell(event));
    }

    fn plan(&mut self) {
        let Some(PlanRequest { term, eval, now, awaited_until }) = self.asked.pop_front() else { return };
        let is_strange = !self.healed && self.draw(4) == 0;
        let planner = if is_strange { &mut self.stranger } else { &mut self.planner };
        match is_strange {
            true => planner.follow(&self.view, &Claims::default()),
            false => planner.follow(&self.view, &self.claims.lock()),
        }
        planner.observe(&self.observed);
        planner.await_nodes(awaited_until);
        let seed = self.random.mint() as u64;
        let plan = planner.plan(&self.view, &eval, now, seed);
        let ticket = self.claims.lock().add(&plan.job.namespace, plan.claims());
        self.planned.push_back(Event::Planned { term, plan: Box::new(plan), ticket });
    }

    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.seconds += 1;
            self.agents.iter_mut().for_each(|agent| agent.mind_silence(self.seconds));
            self.tell(Event::Tick);
        }
    }

    /// An agent does something, or its connection ends.
    fn agent(&mut self) {
        let number = self.draw(NODES) as usize;
        let (what, fails, sickens) = (self.draw(12), self.draw(6) == 0, self.draw(5) == 0);
        match what {
            0 => self.drop_connection(number),
            1..=5 => self.agents[number].work_with(Luck { fails, sickens }),
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
        let Some(heartbeat) = self.agents[number].heartbeat() else { return };
        self.tell(heartbeat);
        // It is answered.
        let agent = &mut self.agents[number];
        if agent.session.is_some() && !agent.deaf {
            agent.heard_s = self.seconds;
        }
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
            if second > seconds / 2 {
                self.hold_no_deployment();
            }
            for number in 0..self.agents.len() {
                self.beat(number);
                (0..8).for_each(|_| self.agents[number].work(false));
                self.report(number);
            }
            self.catch_up();
        }
        self.rules.on_second(&self.store);
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

fn config(seed: u64) -> ControllerConfig {
    ControllerConfig { server: ServerId(1), planning_max: 8, desired_hash, seed }
}

/// The node of an agent.
pub fn node_of(agent: &Agent) -> NodeId {
    NodeId(agent.node)
}
