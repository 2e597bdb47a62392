//! Servers with one log, without clocks, threads and disks: what happens next is drawn, faults included.

use std::{collections::BTreeMap, sync::Arc};

use berth_controller::{
    EntryFailure, Event, NodeMessage, Request, RequestToken, ServerId, ServerMessage, SessionId,
};
use berth_model::{
    EvalId, Index, JobKey,
    command::{Command, DeregisterJob, Entry, RegisterJob},
    ids::IdSeed,
    job::{Group, Job, JobType, Task, TaskResources},
    store::Store,
};

use super::{
    agents::Agent,
    network::Network,
    server::{Content, Server},
};

pub const SERVERS: u64 = 3;
const NODES: u128 = 4;
pub const JOBS: u32 = 4;

pub struct Cluster {
    random: IdSeed,
    pub servers: Vec<Server>,
    pub network: Network,
    /// What is committed, each with its term.
    log: Vec<(u64, Entry)>,
    /// The state after all of it.
    store: Store,
    pub term: u64,
    /// Who leads by the log; others may not know yet, or lead no more and not know.
    pub leader: usize,
    pub seconds: u64,
    pub agents: Vec<Agent>,
    /// Where each agent's session is.
    homes: Vec<usize>,
    /// Sessions whose agents have gone, which their servers do not know yet.
    ghosts: Vec<(usize, SessionId)>,
    sessions: u64,
    tokens: u64,
    /// What was published at each index, by any server.
    contents: BTreeMap<Index, Content>,
    healed: bool,
    /// Learns nothing of what is committed.
    isolated: Vec<usize>,
}

impl Cluster {
    pub fn new(seed: u64) -> Self {
        let mut random = IdSeed::new(seed);
        let servers = (1..=SERVERS).map(|id| Server::new(ServerId(id), random.mint() as u64)).collect();
        let mut cluster = Self {
            random,
            servers,
            network: Network::default(),
            log: Vec::new(),
            store: Store::default(),
            term: 0,
            leader: 0,
            seconds: 1_000,
            agents: (1..=NODES).map(Agent::new).collect(),
            homes: vec![0; NODES as usize],
            ghosts: Vec::new(),
            sessions: 0,
            tokens: 0,
            contents: BTreeMap::new(),
            healed: false,
            isolated: Vec::new(),
        };
        (0..SERVERS as usize).for_each(|number| cluster.start(number));
        cluster.elect(0);
        cluster
    }

    fn draw(&mut self, below: u128) -> u128 {
        self.random.mint() % below
    }

    fn draw_server(&mut self) -> usize {
        self.draw(u128::from(SERVERS)) as usize
    }

    /// The state after all that is committed.
    pub fn state(&self) -> &Store {
        &self.store
    }

    fn start(&mut self, number: usize) {
        let seed = self.random.mint() as u64;
        self.servers[number].start(seed, self.seconds, &mut self.network);
        self.look(number);
    }

    pub fn tell(&mut self, number: usize, event: Event) {
        if self.servers[number].is_up {
            self.servers[number].tell(event, self.seconds, &mut self.network);
            self.look(number);
        }
    }

    /// Looks at what a server has published and said.
    fn look(&mut self, number: usize) {
        let server = &mut self.servers[number];
        let (news, told) = (std::mem::take(&mut server.news), std::mem::take(&mut server.told));
        for (index, content) in news {
            // What is published by one server alone, because it lacks it, has an index of its own.
            let before = self.contents.entry(index).or_insert_with(|| content.clone());
            if let (Content::Logged(ours), Content::Logged(theirs)) = (&content, &*before) {
                // A place that a server had nothing to publish at is empty there.
                assert!(ours == theirs || *ours == 0 || *theirs == 0, "{index} is used twice");
            }
            if let (Content::Seen(ours), Content::Seen(theirs)) = (&content, &*before) {
                for (id, hash) in ours {
                    let other = theirs.iter().find(|(other, _)| other == id);
                    assert!(other.is_none_or(|(_, other)| other == hash), "{index} tells two things of {id}");
                }
            }
        }
        for (session, message) in told {
            self.deliver(number, session, message.as_ref());
        }
    }

    fn deliver(&mut self, number: usize, session: SessionId, message: Option<&NodeMessage>) {
        // A message may be lost, and with it all that follow in the session.
        let lost = !self.healed && self.draw(60) == 0;
        let homes = self.homes.iter().zip(&mut self.agents);
        let mut of = homes.filter(|(home, agent)| **home == number && agent.session == Some(session));
        let Some((_, agent)) = of.next() else { return };
        agent.deaf |= lost && message.is_some();
        match message {
            None => (agent.session, agent.welcomed) = (None, false),
            Some(_) if agent.deaf => {}
            Some(NodeMessage::Welcome { mode, .. }) => agent.on_welcome(*mode),
            Some(NodeMessage::Desired(desired)) => agent.on_desired(desired),
            Some(NodeMessage::Refused { .. }) => (agent.session, agent.welcomed) = (None, false),
            Some(NodeMessage::HeartbeatEvery { .. } | NodeMessage::Ack { .. }) => {}
        }
    }

    /// One thing happens, whichever is drawn.
    pub fn step(&mut self) {
        self.network.own_waits = match self.draw(30) {
            0 => true,
            1..=4 => false,
            _ => self.network.own_waits,
        };
        match self.draw(40) {
            0 | 1 => self.register(),
            2 => self.deregister(),
            3..=7 => self.commit(),
            8..=12 => {
                let number = self.draw_server();
                let count = 1 + self.draw(4) as usize;
                self.apply(number, count);
            }
            13..=16 => self.plan(),
            17 => self.pass(1),
            18 if self.draw(4) == 0 => {
                let seconds = 1 + self.draw(5) as u64;
                self.pass(seconds);
            }
            19..=25 => self.carry(),
            26 => {
                let (pair, strays) = (self.draw_pair(), self.draw(2) == 0);
                self.network.break_off(pair, strays);
            }
            27 if self.draw(4) == 0 => {
                let pair = self.draw_pair();
                self.network.cut(pair);
            }
            28 if self.draw(2) == 0 => self.network.heal(),
            29 if self.draw(4) == 0 => self.change_leader(),
            30 if self.draw(4) == 0 => self.kill(),
            31 => self.revive(),
            32 => self.end_ghost(),
            33 => {
                let number = self.draw_server();
                self.servers[number].keep();
            }
            34 if self.draw(12) == 0 => self.restart_all(),
            35 => self.answer(),
            _ => self.agent(),
        }
    }

    fn draw_pair(&mut self) -> (ServerId, ServerId) {
        let (from, to) = (self.draw_server(), self.draw_server());
        (self.servers[from].id, self.servers[to].id)
    }

    /// Somebody asks the leader for a change.
    pub fn request(&mut self, command: Command) {
        self.tokens += 1;
        let request = Request { token: RequestToken(self.tokens), commands: vec![command].into() };
        self.tell(self.leader, Event::Requested(request));
    }

    pub fn register(&mut self) {
        let (number, count, memory_mb) = (self.draw(u128::from(JOBS)), self.draw(4), 100 + self.draw(300));
        let job = Arc::new(job(number as u32, count as u32, memory_mb as u32));
        let register = RegisterJob { job, eval: EvalId(self.random.mint()), only_if: None, submission: None };
        self.request(Command::RegisterJob(Box::new(register)));
    }

    fn deregister(&mut self) {
        let (number, purge) = (self.draw(u128::from(JOBS)), self.draw(2) == 0);
        let eval = EvalId(self.random.mint());
        self.request(Command::DeregisterJob(DeregisterJob { job: key(number as u32), purge, eval }));
    }

    /// The next entries of the leader are committed; it applies them, others later.
    fn commit(&mut self) {
        let count = (1 + self.draw(3) as usize).min(self.servers[self.leader].proposed.len());
        let entries: Vec<Entry> = self.servers[self.leader].proposed.drain(..count).collect();
        self.append(entries);
        // A follower may learn that it is committed before the leader has applied it.
        if self.draw(4) > 0 {
            self.apply(self.leader, usize::MAX);
        }
    }

    /// Entries are committed.
    pub fn append(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            self.log.push((self.term, entry.clone()));
            self.store.apply(entry);
        }
        for (_, node) in self.store.nodes().iter() {
            assert_eq!(node.used.exceeds(node.capacity), None, "node {} is overcommitted", node.id);
        }
    }

    /// A server applies what is committed, at most so many entries.
    pub fn apply(&mut self, number: usize, count: usize) {
        let server = &mut self.servers[number];
        if !server.is_up || self.isolated.contains(&number) {
            return;
        }
        let until = server.applied.saturating_add(count).min(self.log.len());
        let entries = self.log[server.applied..until].to_vec();
        let Some((term, _)) = entries.last() else { return };
        (server.applied, server.term) = (until, *term);
        let applied: Vec<_> = entries.into_iter().map(|(_, entry)| server.store.apply(entry)).collect();
        let (term, store) = (server.term, Box::new(server.store.clone()));
        self.tell(number, Event::Applied { term, store, applied });
    }

    /// The leader's next evaluation is planned.
    pub fn plan(&mut self) {
        let (number, seed) = (self.leader, self.random.mint() as u64);
        self.servers[number].plan(seed);
        let planned = self.servers[number].planned.pop_front();
        planned.into_iter().for_each(|event| self.tell(number, event));
    }

    pub fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.seconds += 1;
            (0..self.servers.len()).for_each(|number| self.tell(number, Event::Tick));
        }
    }

    /// A message arrives.
    pub fn carry(&mut self) {
        let busy = self.network.busy();
        if busy == 0 {
            return;
        }
        let (way, which) = (self.draw(busy as u128) as usize, self.draw(1 << 20) as usize);
        let Some(((from, to), bytes)) = self.network.take(way, which) else { return };
        let message = ServerMessage::decode(&bytes).expect("it was just encoded");
        self.tell(to.0 as usize - 1, Event::Message(from, Box::new(message)));
    }

    /// Another server leads, or the same one again; of what was proposed some is committed.
    pub fn change_leader(&mut self) {
        let up: Vec<usize> = (0..self.servers.len()).filter(|number| self.servers[*number].is_up).collect();
        let next = up[self.draw(up.len() as u128) as usize];
        self.elect(next);
    }

    /// This server leads from now on. Whoever led before learns it, and others learn it, sooner or later.
    pub fn elect(&mut self, next: usize) {
        let old = self.leader;
        let committed = (self.draw(3) as usize).min(self.servers[old].proposed.len());
        let entries: Vec<Entry> = self.servers[old].proposed.drain(..committed).collect();
        self.append(entries);
        let unknown: Vec<Index> = self.servers[old].proposed.drain(..).map(|entry| entry.index).collect();
        let knows_late = old != next && !self.healed && self.draw(3) == 0;
        if !knows_late {
            for index in unknown {
                let (term, fate) = (self.term, EntryFailure::Unknown("another leads".into()));
                self.tell(old, Event::NotApplied { term, index, fate });
            }
            self.tell(old, Event::LeadershipLost);
        }
        let unaware: Vec<usize> = (old != next && knows_late).then_some(old).into_iter().collect();
        self.lead(next, &unaware);
    }

    /// The server after the leader leads, and the one that did neither hears nor reaches it any more, nor do the followers that
    /// stay on its side: they do not learn so. Returns who led.
    pub fn isolate_leader(&mut self, beside: &[usize]) -> usize {
        let old = self.leader;
        self.isolated = std::iter::once(old).chain(beside.iter().copied()).collect();
        for number in self.isolated.clone() {
            for other in (0..self.servers.len()).filter(|other| !self.isolated.contains(other)) {
                let (here, there) = (self.servers[number].id, self.servers[other].id);
                self.network.cut((here, there));
                self.network.cut((there, here));
            }
        }
        self.lead((old + 1) % SERVERS as usize, &self.isolated.clone());
        old
    }

    /// A server leads from now on, and all but these know it.
    fn lead(&mut self, next: usize, unaware: &[usize]) {
        self.term += 1;
        self.leader = next;
        // Who leads has all that is committed, and has applied it before it begins; what it proposed in an earlier
        // leadership is nowhere.
        self.apply(next, usize::MAX);
        self.servers[next].proposed.clear();
        self.tell(next, Event::LeadershipGained { term: self.term });
        for number in 0..self.servers.len() {
            if number != next && !unaware.contains(&number) {
                self.follow(number);
            }
        }
    }

    /// A server learns who leads.
    fn follow(&mut self, number: usize) {
        if number != self.leader {
            let (term, leader) = (self.term, self.servers[self.leader].id);
            // What it proposed as a leader of before is nowhere.
            self.servers[number].proposed.clear();
            self.tell(number, Event::Follows { term, leader });
        }
    }

    /// A server that does not lead ends, or the leader, whom another one follows.
    fn kill(&mut self) {
        let number = self.draw_server();
        if self.servers.iter().filter(|server| server.is_up).count() < 3 {
            return;
        }
        if number == self.leader {
            self.elect((number + 1) % self.servers.len());
        }
        self.servers[number].kill();
        self.network.gone(self.servers[number].id);
        self.ghosts.retain(|(home, _)| *home != number);
        self.leave(number);
    }

    /// All servers end, and start with what their disks have.
    pub fn restart_all(&mut self) {
        for number in 0..self.servers.len() {
            self.servers[number].kill();
            self.network.gone(self.servers[number].id);
            self.leave(number);
        }
        self.ghosts.clear();
        (0..self.servers.len()).for_each(|number| self.start(number));
        let next = self.draw_server();
        self.elect(next);
    }

    /// A server falls silent for good without ending a connection: its agents do not know.
    pub fn vanish(&mut self, number: usize) {
        self.servers[number].kill();
        self.network.gone(self.servers[number].id);
    }

    /// The agents that speak to this server leave it.
    pub fn leave(&mut self, number: usize) {
        for (home, agent) in self.homes.iter().zip(&mut self.agents) {
            if *home == number {
                (agent.session, agent.welcomed) = (None, false);
            }
        }
    }

    pub fn revive(&mut self) {
        for number in 0..self.servers.len() {
            if !self.servers[number].is_up {
                self.start(number);
            }
            // Whoever has not heard yet does now.
            self.follow(number);
        }
    }

    /// A server hears of another that it answers and leads, which may have been so for long; or that it takes something again.
    fn answer(&mut self) {
        let (number, other) = (self.draw_server(), self.draw_server());
        let term = self.term.saturating_sub(self.draw(2) as u64);
        let leader = self.servers[other].id;
        let event =
            if self.draw(2) == 0 { Event::ServersCanReceive } else { Event::LeaderAnswered { term, leader } };
        self.tell(number, event);
    }

    fn end_ghost(&mut self) {
        if let Some((home, session)) = self.ghosts.pop() {
            self.tell(home, Event::SessionClosed(session));
        }
    }

    /// An agent does something, or its connection ends, or it starts again.
    fn agent(&mut self) {
        let number = self.draw(NODES) as usize;
        let (what, fails) = (self.draw(24), self.draw(6) == 0);
        match what {
            0 => self.drop_connection(number, true),
            1 => self.drop_connection(number, false),
            2 if self.draw(3) == 0 => {
                self.drop_connection(number, false);
                self.agents[number].restart();
            }
            3..=10 => self.agents[number].work(fails),
            11..=16 => self.report(number),
            _ => self.beat(number),
        }
    }

    /// A connection ends; its server may learn it late.
    fn drop_connection(&mut self, number: usize, is_told: bool) {
        if let Some(session) = self.agents[number].session.take() {
            self.agents[number].welcomed = false;
            let home = self.homes[number];
            if is_told {
                self.tell(home, Event::SessionClosed(session));
            } else {
                self.ghosts.push((home, session));
            }
        }
    }

    pub fn report(&mut self, number: usize) {
        if let Some(event) = self.agents[number].update() {
            self.tell(self.homes[number], event);
        }
    }

    /// An agent gives a sign of life, or dials a server.
    pub fn beat(&mut self, number: usize) {
        if self.agents[number].session.is_none() {
            let home = self.draw_server();
            if self.servers[home].is_up {
                self.dial(number, home);
            }
            return;
        }
        if let Some(event) = self.agents[number].heartbeat() {
            self.tell(self.homes[number], event);
        }
    }

    /// An agent dials this server.
    pub fn dial(&mut self, number: usize, home: usize) {
        self.sessions += 1;
        self.homes[number] = home;
        let cluster = self.servers[home].store.cluster().id;
        let hello = self.agents[number].hello(SessionId(self.sessions), cluster);
        self.tell(home, hello);
    }

    /// Everything that is on its way arrives, and everything that is committed is applied.
    pub fn drain(&mut self) {
        for _ in 0..10_000 {
            let entries: Vec<Entry> = self.servers[self.leader].proposed.drain(..).collect();
            self.append(entries);
            (0..self.servers.len()).for_each(|number| self.apply(number, usize::MAX));
            (0..8).for_each(|_| self.carry());
            self.plan();
            let leader = &self.servers[self.leader];
            let is_done = leader.asked.is_empty() && leader.planned.is_empty() && leader.proposed.is_empty();
            if is_done && self.network.busy() == 0 {
                return;
            }
        }
        panic!("messages go on without end");
    }

    /// Faults end: everything that is due happens, for this many seconds.
    pub fn settle(&mut self, seconds: u64) {
        self.healed = true;
        self.network.heal();
        self.revive();
        while !self.ghosts.is_empty() {
            self.end_ghost();
        }
        for number in 0..self.agents.len() {
            // A connection that swallows messages ends sooner or later.
            if self.agents[number].deaf {
                self.drop_connection(number, true);
            }
        }
        (0..seconds).for_each(|_| self.live());
    }

    /// A second passes without faults.
    pub fn live(&mut self) {
        self.pass(1);
        for number in 0..self.agents.len() {
            self.beat(number);
            (0..8).for_each(|_| self.agents[number].work(false));
            self.report(number);
        }
        self.drain();
    }
}

fn key(number: u32) -> JobKey {
    JobKey::new("default", &format!("job-{number}"))
}

pub fn job(number: u32, count: u32, memory_mb: u32) -> Job {
    let task = Task {
        resources: TaskResources { cpu_mhz: 10, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let group = Group { count, tasks: vec![task], ..Group::new("g", JobType::Service) };
    Job { groups: vec![group], ..Job::new(key(number), JobType::Service) }
}
