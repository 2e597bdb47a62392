//! One simulation, from its seed to its end: servers, nodes and people, what goes wrong, and the rest after it.

mod nodes;
mod servers;
mod undisturbed;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use berth_model::Index;

use self::servers::ServerMachines;
use crate::{
    bugs::Bug,
    executor::{self, Owner, WORLD, now_ns, spawn_for},
    faults::{self, Fault},
    network::{Direction, Network},
    node::Machine,
    random::Random,
    servers::Servers,
    truth::{Counts, Truth, Violation},
    workload::{self, Client},
};
use nodes::Nodes;
use undisturbed::Undisturbed;

/// Faults end then, in nanoseconds, or when the servers come back from an outage.
const FAULTS_END_NS: u64 = 46_000_000_000;
/// So long after it people ask for nothing more, unless too little was written.
const WORK_NS: u64 = 4_000_000_000;
/// The earliest end is so long after that.
const REST_NS: u64 = 10_000_000_000;
/// Between two looks whether everything is as it should be.
const LOOK_NS: u64 = 1_000_000_000;
/// So long after people have stopped asking everything is as it should be: a node that was declared down, and the longest pauses
/// between tries, are behind.
const SETTLE_NS: u64 = 70_000_000_000;
/// A deployment takes no longer for a step: what it replaces has a few seconds to end, and what it places to be healthy.
const DEPLOYMENT_STEP_NS: u64 = 20_000_000_000;
/// The latest end after people have stopped asking: a system job on many nodes is deployed in many steps.
const END_NS: u64 = 1_500_000_000_000;
/// Nodes of a simulation, and of one that is large.
const NODES: Range<u64> = 3..9;
const NODES_LARGE: Range<u64> = 20..201;
/// People who ask for something: so many that each simulation has at least 500 commands.
const CLIENTS: u64 = 8;
/// Simulations that are large, in percent.
const LARGE_PERCENT: u64 = 5;
/// Simulations in which an operator puts an older state in place of the present one, in percent.
const RESTORES_PERCENT: u64 = 20;
/// Simulations in which servers begin with the version of the log before the newest, in percent.
const UPGRADES_PERCENT: u64 = 30;
/// Entries that are written in each of so many seconds while nobody asks for anything: more is work that makes itself.
const BUSY_ENTRIES: usize = 20;
/// See [`BUSY_ENTRIES`].
const BUSY_SECONDS: u32 = 20;
/// Polls of tasks without time passing; more means that something turns in circles.
const POLLS_MAX: u64 = 3_000_000;

/// Parameters of one simulation.
#[derive(Debug, Clone)]
pub struct Settings {
    /// All follows from it.
    pub seed: u64,
    /// How many servers.
    pub servers: usize,
    /// The planted bug, if any.
    pub bug: Option<Bug>,
    /// Faults, counted from 0, that are left out.
    pub without: BTreeSet<usize>,
    /// From when on the story lists each entry that is proposed, in nanoseconds.
    pub entries_from_ns: u64,
}

impl Settings {
    /// The plain simulation of a seed.
    pub fn new(seed: u64) -> Self {
        Self { seed, servers: 1, bug: None, without: BTreeSet::new(), entries_from_ns: u64::MAX }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The rule that did not hold.
    pub violation: Option<Violation>,
    /// States and faults, counted.
    pub counts: Counts,
    /// What a person can follow.
    pub story: Vec<String>,
    /// Sums up all that happened, in order.
    pub digest: u64,
    /// How long it was, in simulated nanoseconds.
    pub simulated_ns: u64,
    /// How many faults were planned.
    pub faults: usize,
    /// How long after people had stopped asking everything was as it should be, and stayed so, in nanoseconds; none where it never was.
    pub settled_ns: Option<u64>,
}

/// Something that the world does at a time.
enum TimedEvent {
    Fault(usize),
    StartServer(usize),
    StartAgent(usize),
    Resume(Owner),
    Calm(usize),
    TakeIn(usize),
    /// One block of each of these directions is lifted.
    Unblock(Vec<Direction>),
    EndFaults,
    /// The servers that were away for long come back now.
    EndOutage,
    AtRest,
}

/// When the parts of a simulation end, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct SimulationEnds {
    /// Faults.
    faults_ns: u64,
    /// People's work, unless too little was written.
    work_ns: u64,
    /// The earliest end of all.
    rest_ns: u64,
}

impl SimulationEnds {
    /// Those of a simulation in which that goes wrong: people work on after an outage.
    fn of(plan: &[(u64, Fault)]) -> Self {
        let outages = plan.iter().filter_map(|(at_ns, fault)| fault.outage_until_ns(*at_ns));
        let faults_ns = outages.max().map_or(FAULTS_END_NS, |until_ns| FAULTS_END_NS.max(until_ns + 1));
        let work_ns = faults_ns + WORK_NS;
        Self { faults_ns, work_ns, rest_ns: work_ns + REST_NS }
    }
}

struct Simulation {
    random: Random,
    network: Network,
    truth: Truth,
    servers: Servers,
    machines: ServerMachines,
    undisturbed: Undisturbed,
    nodes: Nodes,
    plan: Vec<(u64, Fault)>,
    without: BTreeSet<usize>,
    due: BTreeMap<(u64, u64), TimedEvent>,
    dues: u64,
    ends: SimulationEnds,
    faults_ended: bool,
    settled: bool,
    /// Since when everything is as it should be, whenever that was looked at.
    settled_at_ns: Option<u64>,
    /// No server is started before.
    outage_until_ns: u64,
    /// When people stopped asking.
    work_end_ns: u64,
    /// Entries at the last look for rest, and how many seconds before it were busy.
    busy: (usize, u32),
    /// Where a deployment last made a step, and when that was seen.
    deployed: (Index, u64),
}

/// Runs a simulation to its end.
pub fn run(settings: &Settings) -> Report {
    let mut random = Random::new(settings.seed);
    let _running = executor::begin(random.fork(1));
    let network = Network::new(random.fork(2));
    let truth = Truth::new(settings.servers);
    truth.facts().entries_from_ns = settings.entries_from_ns;
    let is_large = random.percent(LARGE_PERCENT);
    let nodes = random.within(if is_large { NODES_LARGE } else { NODES }) as usize;
    let mut plan = faults::plan(&mut random.fork(3), settings.servers, nodes);
    let is_upgraded = random.percent(UPGRADES_PERCENT);
    if is_upgraded {
        plan.extend(faults::upgrades(&mut random.fork(4), settings.servers));
        plan.sort_by_key(|(at_ns, _)| *at_ns);
    }
    let ends = SimulationEnds::of(&plan);
    let servers = Servers::new(settings.servers);
    let mut world = Simulation {
        machines: ServerMachines::new(settings, is_upgraded, &mut random, &network, &truth),
        nodes: Nodes::new(nodes, settings, &network, &truth),
        undisturbed: Undisturbed::default(),
        random,
        network,
        truth,
        servers,
        plan,
        without: settings.without.clone(),
        due: BTreeMap::new(),
        dues: 0,
        ends,
        faults_ended: false,
        settled: false,
        settled_at_ns: None,
        outage_until_ns: 0,
        work_end_ns: ends.work_ns,
        busy: (0, 0),
        deployed: (Index(0), 0),
    };
    world.begin();
    world.live();
    // Who runs holds what it runs on, the whole world included.
    world.end_servers();
    world.report()
}

impl Simulation {
    fn at(&mut self, at_ns: u64, due: TimedEvent) {
        self.dues += 1;
        self.due.insert((at_ns, self.dues), due);
    }

    fn after(&mut self, for_ns: u64, due: TimedEvent) {
        self.at(now_ns() + for_ns, due);
    }

    /// Nothing arrives in these directions for a while.
    fn block(&mut self, directions: Vec<Direction>, for_ns: u64) {
        self.network.block(&directions);
        self.after(for_ns, TimedEvent::Unblock(directions));
    }

    fn begin(&mut self) {
        (0..self.machines.len()).for_each(|server| self.at(0, TimedEvent::StartServer(server)));
        (0..self.nodes.len()).for_each(|node| self.at(0, TimedEvent::StartAgent(node)));
        for number in 0..self.plan.len() {
            if !self.without.contains(&number) {
                self.at(self.plan[number].0, TimedEvent::Fault(number));
            }
        }
        self.at(self.ends.faults_ns, TimedEvent::EndFaults);
        self.at(self.ends.work_ns, TimedEvent::AtRest);
        for number in 0..CLIENTS {
            let client = Client {
                number,
                random: self.random.fork(100 + number),
                servers: self.servers.clone(),
                truth: self.truth.clone(),
                until_ns: self.ends.work_ns,
                looked_at: BTreeMap::new(),
            };
            spawn_for(WORLD, client.live());
        }
        if self.random.percent(RESTORES_PERCENT) {
            let save_ns = self.random.within(3_000_000_000..20_000_000_000);
            let restore_ns = self.random.within(save_ns..40_000_000_000);
            let random = self.random.fork(200);
            spawn_for(
                WORLD,
                workload::restore(random, self.servers.clone(), self.truth.clone(), save_ns, restore_ns),
            );
        }
    }

    fn live(&mut self) {
        let mut polled_at = (0, 0);
        while let Some(((at_ns, _), due)) = self.due.pop_first() {
            while executor::step(at_ns) {
                if !self.look() {
                    return;
                }
                if polled_at.0 != now_ns() {
                    polled_at = (now_ns(), executor::polls());
                } else if executor::polls() - polled_at.1 > POLLS_MAX {
                    return self
                        .truth
                        .violated("R4 everything comes to rest", "something turns in circles".to_owned());
                }
            }
            self.perform(due);
            if self.settled || !self.look() {
                return;
            }
        }
    }

    /// Looks at what happened in a step; false at the end.
    fn look(&mut self) -> bool {
        let (violated, failed, died) = {
            let mut facts = self.truth.facts();
            let failed = std::mem::take(&mut facts.failed);
            (facts.violation.is_some(), failed, std::mem::take(&mut facts.died))
        };
        for (server, why) in failed {
            self.server_failed(server, &why);
        }
        for node in died {
            self.agent_died(node);
        }
        self.judge_time();
        !violated
    }

    fn perform(&mut self, due: TimedEvent) {
        match due {
            TimedEvent::Fault(number) => self.fault(self.plan[number].1),
            TimedEvent::StartServer(server) => self.start_server(server),
            TimedEvent::StartAgent(node) => self.start_agent(node),
            TimedEvent::Resume(owner) => executor::resume(owner),
            TimedEvent::Calm(server) => self.calm(server),
            TimedEvent::TakeIn(server) => self.take_in(server),
            TimedEvent::Unblock(directions) => self.network.unblock(&directions),
            TimedEvent::EndFaults => self.end_faults(),
            TimedEvent::EndOutage => self.end_outage(),
            TimedEvent::AtRest => self.at_rest(),
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.truth.log_line(&format!("FAULT {fault}"));
        self.truth.count(fault.kind());
        self.truth.count("faults");
        self.hinder(&fault);
        if let Some(node) = fault.node() {
            self.node_hindered(node, fault.lasts_ns());
        }
        if fault.is_of_nodes() { self.node_fault(fault) } else { self.server_fault(fault) }
    }

    /// Everything works from now on.
    fn end_faults(&mut self) {
        self.truth.log_line("faults end");
        self.faults_ended = true;
        (0..self.machines.len()).for_each(|server| self.calm(server));
        self.upgrade_those_left();
        self.end_node_faults();
        self.network.heal();
        let random = self.random.fork(300);
        spawn_for(WORLD, workload::come_to_rest(random, self.servers.clone()));
    }

    fn at_rest(&mut self) {
        if now_ns() < self.ends.work_ns + workload::LONGER_NS && self.truth.facts().has_too_few_commands() {
            self.work_end_ns = now_ns();
            return self.after(LOOK_NS, TimedEvent::AtRest);
        }
        let machines: Vec<Machine> = self.nodes.machines();
        let goes_on = self.deployments_go_on();
        let result = {
            let facts = self.truth.facts();
            facts.invariants.at_rest(&machines, &facts.operations.0)
        };
        let result = result.and_then(|()| self.servers_at_rest());
        self.settled_at_ns = result.is_ok().then(|| self.settled_at_ns.unwrap_or(now_ns()));
        match result {
            _ if now_ns() < self.ends.rest_ns => self.after(LOOK_NS, TimedEvent::AtRest),
            Ok(()) => {
                self.truth.log_line("everything is as it should be");
                self.settled = true;
            }
            Err(_) if self.makes_work() => {
                let what = format!("{BUSY_ENTRIES} entries a second and nobody asks for anything");
                self.truth.violated("R4 everything comes to rest", what);
            }
            // While deployments make steps there is always something that is under way.
            Err(_) if goes_on || now_ns() < self.work_end_ns + SETTLE_NS => {
                self.after(LOOK_NS, TimedEvent::AtRest);
            }
            Err((rule, what)) => self.truth.violated(rule, what),
        }
    }

    /// Whether a deployment has made a step of late.
    fn deployments_go_on(&mut self) -> bool {
        let at = self.truth.facts().invariants.history.store().deployments().modify_index();
        if at != self.deployed.0 {
            self.deployed = (at, now_ns());
        }
        now_ns() < (self.ends.work_ns + END_NS).min(self.deployed.1 + DEPLOYMENT_STEP_NS)
    }

    /// Whether the servers have been busy for long although nobody asks for anything.
    fn makes_work(&mut self) -> bool {
        let entries = self.truth.facts().invariants.history.len();
        let (before, seconds) = self.busy;
        self.busy = (entries, if entries > before + BUSY_ENTRIES { seconds + 1 } else { 0 });
        self.busy.1 >= BUSY_SECONDS
    }

    fn report(self) -> Report {
        let mut facts = self.truth.facts();
        let operations = facts.operations.0.len() as u64;
        facts.count("requests", operations);
        let entries = facts.invariants.history.len() as u64;
        let commands = facts.history().count() as u64;
        facts.count("entries in the history", entries);
        facts.count("commands in the history", commands);
        Report {
            violation: facts.violation.clone(),
            counts: facts.counts.clone(),
            story: facts.story.clone(),
            digest: facts.digest,
            simulated_ns: now_ns(),
            faults: self.plan.len(),
            settled_ns: self.settled_at_ns.map(|at_ns| at_ns - self.work_end_ns).filter(|_| self.settled),
        }
    }
}
