//! Many planners at once, in seeded interleavings: they use the cluster as well as one alone, and the applier hardly ever
//! has to refuse anything.

use std::{collections::VecDeque, sync::Arc};

use berth_controller::{
    Action, Controller, ControllerConfig, Event, Hello, LinkCapacity, Now, Request, RequestToken, ServerId,
    SessionId,
};
use berth_model::{
    AllocId, EvalId, JobKey, NodeId, Timestamp,
    command::{Command, Entry, RegisterJob},
    eval::Eval,
    ids::IdSeed,
    job::{Group, Job, JobType, Task, TaskResources},
    node::Node,
    resources::Resources,
    store::Store,
};
use berth_scheduler::{Ledger, Planner};

const NODES: u32 = 50;
const NODE: Resources = Resources { cpu_mhz: 32_000, memory_mb: 64_000, disk_mb: 1 << 20 };
/// What jobs ask for, in MHz and MiB.
const ASKS: [(u32, u32); 6] =
    [(100, 640), (300, 900), (700, 1_100), (1_100, 1_500), (1_900, 3_100), (3_100, 5_300)];
/// About a tenth more than there is room for.
const JOBS: u32 = 1_500;

struct Seat {
    planner: Planner,
    /// Evaluations that it has answered since it looked.
    answered: u32,
    /// The evaluation in hand, and the state on which it is to be planned.
    busy: Option<(Arc<Eval>, Store)>,
}

/// Connections that take whatever comes.
struct Open;

impl LinkCapacity for Open {
    fn can_send(&self, _: SessionId) -> bool {
        true
    }
}

/// A server without clocks and threads: what happens next is drawn.
struct Server {
    controller: Controller,
    store: Store,
    view: Store,
    claims: Ledger,
    seats: Vec<Seat>,
    todo: VecDeque<Arc<Eval>>,
    planned: VecDeque<Event>,
    log: Vec<Entry>,
    random: IdSeed,
    /// How many evaluations a planner answers on what it once knew, before it looks again.
    stale_for: u32,
    committed: usize,
    refused: usize,
    /// Plans that planners made again by themselves.
    overtaken: usize,
    /// The most planners that were busy at the same time.
    at_once_max: usize,
}

impl Server {
    fn new(planners: usize, stale_for: u32, seed: u64) -> Self {
        let config = ControllerConfig {
            server: ServerId(1),
            planning_max: planners * 64,
            desired_hash: |id: AllocId, _| id.0,
            seed,
        };
        let seat = || Seat { planner: Planner::default(), answered: 0, busy: None };
        let claims = Ledger::default();
        let mut server = Self {
            controller: Controller::new(config, claims.clone()),
            store: Store::default(),
            view: Store::default(),
            claims,
            seats: (0..planners).map(|_| seat()).collect(),
            todo: VecDeque::new(),
            planned: VecDeque::new(),
            log: Vec::new(),
            random: IdSeed::new(seed),
            stale_for,
            committed: 0,
            refused: 0,
            overtaken: 0,
            at_once_max: 0,
        };
        server.tell(Event::Recovered { term: 0, store: Box::default() });
        server.tell(Event::LeadershipGained { term: 1 });
        (1..=NODES).for_each(|number| server.join(number));
        server
    }

    fn join(&mut self, number: u32) {
        let session = SessionId(u64::from(number));
        let hello = Hello {
            node: node(number),
            cluster: 0,
            epoch: 1,
            instance: 0,
            dial: 0,
            index: berth_model::Index::default(),
            seq: 0,
            desired_digest: 0,
            observed_digest: 0,
            checkpoint: None,
        };
        self.tell(Event::SessionOpened(session, Box::new(hello)));
        let allocs = Vec::new();
        self.tell(Event::Observed { session, seq: 1, desired_seq: 0, allocs, resync_done: true });
        self.write();
        self.write();
    }

    fn register(&mut self, number: u32) {
        let register = RegisterJob {
            job: Arc::new(job(number)),
            eval: EvalId(self.random.mint()),
            only_if: None,
            submission: None,
        };
        let commands = vec![Command::RegisterJob(Box::new(register))];
        self.tell(Event::Requested(Request {
            token: RequestToken(u64::from(number)),
            commands: commands.into(),
        }));
    }

    fn tell(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.controller.handle(event, Now { wall: Timestamp(1), ..Now::default() }, &mut actions);
        self.controller.flush(&Open, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Propose { entry, .. } => {
                self.log.push(entry.into_parts().0);
            }
            Action::Judged { committed, refused, .. } => {
                self.committed += committed;
                self.refused += refused.count;
            }
            Action::Plan(asked) => self.todo.push_back(asked.eval),
            Action::Publish { store, .. } => {
                self.claims.lock().settle(store.index());
                self.view = store;
            }
            Action::Answer(..) | Action::Send(..) | Action::Close(_) | Action::Tell(..) => {}
        }
    }

    /// Applies what was proposed; nothing may ever be overcommitted.
    fn write(&mut self) {
        let log = std::mem::take(&mut self.log);
        let applied: Vec<_> = log.into_iter().map(|entry| self.store.apply(entry)).collect();
        for (_, node) in self.store.nodes().iter() {
            assert_eq!(node.used.exceeds(node.capacity), None, "node {} is overcommitted", node.id);
        }
        if !applied.is_empty() {
            self.tell(Event::Applied { term: 1, store: Box::new(self.store.clone()), applied });
        }
    }

    /// One thing happens, whichever is drawn; false when nothing is left to happen.
    fn step(&mut self) -> bool {
        let draw = usize::try_from(self.random.mint() % (self.seats.len() as u128 + 2)).unwrap();
        match draw.checked_sub(self.seats.len()) {
            None => self.plan(draw),
            Some(0) => self.planned.pop_front().into_iter().for_each(|event| self.tell(event)),
            Some(_) => self.write(),
        }
        let busy = self.seats.iter().filter(|seat| seat.busy.is_some()).count();
        self.at_once_max = self.at_once_max.max(busy);
        busy > 0 || !(self.todo.is_empty() && self.planned.is_empty() && self.log.is_empty())
    }

    /// A planner takes an evaluation up, or is done with the one that it has.
    fn plan(&mut self, number: usize) {
        match self.seats[number].busy.take() {
            None => {
                if let Some(eval) = self.todo.pop_front() {
                    self.look(number, eval);
                }
            }
            Some((eval, state)) => {
                let (planner, seed) = (&mut self.seats[number].planner, self.random.mint() as u64);
                let plan = planner.plan(&state, &eval, Timestamp(1), seed);
                let ticket = self.claims.lock().add(&plan.job.namespace, plan.claims());
                if self.stale_for == 0 && self.claims.lock().overdraw(ticket, &self.view) {
                    self.overtaken += 1;
                    self.claims.lock().release(ticket);
                    return self.look(number, eval);
                }
                self.planned.push_back(Event::Planned { term: 1, plan: Box::new(plan), ticket });
            }
        }
    }

    fn look(&mut self, number: usize, eval: Arc<Eval>) {
        let seat = &mut self.seats[number];
        if seat.answered.is_multiple_of(self.stale_for + 1) {
            seat.planner.follow(&self.view, &self.claims.lock());
        }
        seat.answered += 1;
        seat.busy = Some((eval, self.view.clone()));
    }

    /// The part of each kind of room that is used.
    fn used(&self) -> [f64; 2] {
        let sum = |of: fn(&Resources) -> u32| {
            let used: f64 = self.store.nodes().iter().map(|(_, node)| f64::from(of(&node.used))).sum();
            used / f64::from(of(&NODE)) / f64::from(NODES)
        };
        [sum(|room| room.cpu_mhz), sum(|room| room.memory_mb)]
    }
}

fn node(number: u32) -> Node {
    Node {
        attributes: [("driver.mock_driver".to_owned(), "1".to_owned())].into(),
        ..Node::new(NodeId(u128::from(number)), &format!("n{number}"), NODE)
    }
}

fn job(number: u32) -> Job {
    let (cpu_mhz, memory_mb) = ASKS[number as usize % ASKS.len()];
    let task = Task {
        resources: TaskResources { cpu_mhz, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let group = Group { count: 1, tasks: vec![task], ..Group::new("g", JobType::Service) };
    Job { groups: vec![group], ..Job::new(JobKey::new("default", &format!("j{number}")), JobType::Service) }
}

fn run(planners: usize, stale_for: u32, seed: u64) -> Server {
    let mut server = Server::new(planners, stale_for, seed);
    let mut waiting = 0..JOBS;
    loop {
        // Requests come while others are being planned.
        let more = (server.todo.len() < 4 * planners).then(|| waiting.next()).flatten();
        more.into_iter().for_each(|number| server.register(number));
        if !server.step() && waiting.is_empty() {
            return server;
        }
    }
}

#[test]
fn eight_planners_use_the_cluster_as_well_as_one_and_are_hardly_ever_refused() {
    for seed in 1..=2 {
        let (one, eight) = (run(1, 0, seed), run(8, 0, seed));
        assert_eq!((one.at_once_max, eight.at_once_max), (1, 8), "seed {seed}: they overlap");
        for (alone, together) in one.used().into_iter().zip(eight.used()) {
            assert!(
                (alone - together).abs() <= 0.005,
                "seed {seed}: {alone} used by one, {together} by eight"
            );
        }
        let (refused, all) = (eight.refused, eight.committed + eight.refused);
        assert!(refused * 100 <= all, "seed {seed}: {refused} of {all} placements were refused");
        assert!(eight.overtaken > 0, "seed {seed}: nobody ever met");
        assert!(eight.overtaken * 10 <= all, "seed {seed}: {} of {all} plans made again", eight.overtaken);
    }
}

#[test]
fn planners_that_seldom_look_are_refused_often_and_overcommit_nothing() {
    let (fresh, stale) = (run(8, 0, 1), run(8, 40, 1));
    assert!(stale.refused > 100 + fresh.refused, "{} and {} were refused", fresh.refused, stale.refused);
    assert!(stale.committed > 0);
}
