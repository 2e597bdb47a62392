//! Whatever order plans, ends and entries come in: no node, port, device or quota is ever given twice.

use std::{collections::VecDeque, sync::Arc};

use berth_model::{
    AllocId, EvalId, Timestamp,
    alloc::{AllocEnd, ClientStatus},
    command::{Entry, RegisterJob, SetSchedulerConfig},
    device::{DeviceAsk, DeviceInstance, NodeDevice, WHOLE_MILLI},
    eval::{Eval, Trigger},
    ids::IdSeed,
    job::{Group, Job, JobType, Network, Port, Task, TaskResources},
    namespace::Namespace,
    node::{Node, NodeStatus},
    quota::{Bounds, Quota},
    resources::Resources,
    scheduling::SchedulerConfig,
    store::AllocSlot,
};
use berth_scheduler::Planner;

use super::*;

const NODES: u128 = 3;
const JOBS: u32 = 7;

/// A log that applies late or not at all, planners that plan on old states, allocations that end whenever they like.
struct World {
    store: Store,
    /// Older and older states that planners may still see.
    views: VecDeque<Store>,
    ledger: Ledger,
    applier: Applier,
    /// Proposed and not applied.
    log: VecDeque<Entry>,
    plans: VecDeque<(Plan, Ticket)>,
    index: Index,
    random: IdSeed,
    placed: usize,
    inherited: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        let ledger = Ledger::default();
        let mut world = Self {
            store: Store::default(),
            views: VecDeque::new(),
            applier: Applier::new(ledger.clone()),
            ledger,
            log: VecDeque::new(),
            plans: VecDeque::new(),
            index: Index(0),
            random: IdSeed::new(seed),
            placed: 0,
            inherited: 0,
        };
        let mut commands = vec![Command::PutQuota(Box::new(Quota {
            name: "small".to_owned(),
            limit: Bounds { memory_mb: Some(1200), ..Bounds::default() },
            ..Quota::default()
        }))];
        let small = Namespace { quota: Some("small".to_owned()), ..Namespace::new("small") };
        commands.push(Command::PutNamespace(Box::new(small)));
        let mut config = SchedulerConfig::default();
        (config.preemption.service, config.preemption.batch) = (true, true);
        commands.push(Command::SetSchedulerConfig(Box::new(SetSchedulerConfig { config, only_if: None })));
        for id in 1..=NODES {
            commands.push(Command::RegisterNode(Box::new(node(id))));
            commands.push(Command::SetNodeStatus(NodeId(id), NodeStatus::Ready, None));
        }
        world.propose(commands);
        world.apply_all();
        world
    }

    fn draw(&mut self, below: u32) -> u32 {
        u32::try_from(self.random.mint() % u128::from(below)).unwrap()
    }

    fn propose(&mut self, commands: Vec<Command>) -> Index {
        self.index = Index(self.index.0 + 1);
        self.log.push_back(Entry::new(self.index, Timestamp(self.index.0), commands));
        self.index
    }

    fn step(&mut self) {
        match self.draw(40) {
            0..6 => self.register(),
            6..18 => self.plan(),
            18..27 => self.judge(),
            27..31 => self.end(),
            31 => self.refuse(),
            _ => self.apply(),
        }
    }

    fn register(&mut self) {
        let job = Arc::new(self.job());
        let eval = EvalId(self.random.mint());
        let register = RegisterJob { job, eval, only_if: None, submission: None };
        self.propose(vec![Command::RegisterJob(Box::new(register))]);
    }

    fn job(&mut self) -> Job {
        let number = self.draw(JOBS);
        let namespace = if number < 3 { "small" } else { "default" };
        let key = JobKey::new(namespace, &format!("j{number}"));
        let device = DeviceAsk {
            name: "gpu".to_owned(),
            count: 1,
            share_milli: if number == 4 { 600 } else { 0 },
            constraints: Vec::new(),
            affinities: Vec::new(),
        };
        let resources = TaskResources {
            cpu_mhz: 10 + self.draw(5),
            memory_mb: 100 + 100 * self.draw(7),
            cores: u32::from(number == 5),
            devices: if number == 3 || number == 4 { vec![device] } else { Vec::new() },
            ..TaskResources::default()
        };
        let port = |label: &str, fixed| Port {
            label: label.to_owned(),
            fixed,
            to: 0,
            host_network: String::new(),
            ignore_collision: false,
            to_is_host: false,
        };
        let network = Network {
            mode: String::new(),
            ports: vec![port("fixed", Some(80)), port("any", None)],
            hostname: String::new(),
            kept: Default::default(),
        };
        let group = Group {
            count: 1 + self.draw(3),
            tasks: vec![Task { resources, ..Task::new("t", "mock_driver", JobType::Service) }],
            networks: if number.is_multiple_of(2) { vec![network] } else { Vec::new() },
            ..Group::new("g", JobType::Service)
        };
        let priority = [20, 50, 80][self.draw(3) as usize];
        Job { groups: vec![group], priority, ..Job::new(key, JobType::Service) }
    }

    /// A job is planned on a state that may be old.
    fn plan(&mut self) {
        let at = self.draw(u32::try_from(self.views.len()).unwrap()) as usize;
        let view = self.views[at].clone();
        let jobs: Vec<JobKey> = view.jobs().iter().map(|(_, row)| row.key.clone()).collect();
        if jobs.is_empty() {
            return;
        }
        let job = &jobs[self.draw(u32::try_from(jobs.len()).unwrap()) as usize];
        let open = view.evals().iter().find(|(_, eval)| eval.job == *job && !eval.status.is_terminal());
        let Some(eval) = open.map(|(_, eval)| eval.clone()) else {
            let eval = EvalId(self.random.mint());
            let eval = Eval::pending(eval, job.clone(), JobType::Service, 50, Trigger::NodeUpdate);
            self.propose(vec![Command::CreateEvals(vec![eval])]);
            return;
        };
        let mut planner = Planner::default();
        // Some planners do not know what others claim.
        match self.draw(2) {
            0 => planner.follow(&view, &Claims::default()),
            _ => planner.follow(&view, &self.ledger.lock()),
        }
        let plan = planner.plan(&view, &eval, Timestamp(self.index.0), self.random.mint() as u64);
        let ticket = self.ledger.lock().add(&plan.job.namespace, plan.claims());
        self.plans.push_back((plan, ticket));
    }

    fn judge(&mut self) {
        let Some((plan, ticket)) = self.plans.pop_front() else { return };
        if self.store.eval(plan.eval).is_none_or(|eval| eval.status.is_terminal()) {
            return self.ledger.lock().discard(ticket);
        }
        let verdict = self.applier.check(&self.store, plan, ticket, (EvalStatus::Complete, Vec::new()));
        self.placed += verdict.passed;
        for (command, claims) in verdict.parts {
            if let Command::CommitPlan(record) = &command {
                let placements = record.placements.iter();
                self.inherited += placements.filter(|placement| !placement.after.is_empty()).count();
            }
            let index = self.propose(vec![command]);
            claims.into_iter().for_each(|ticket| self.applier.proposed(ticket, index));
        }
    }

    /// Any allocation ends, also one that waits for others.
    fn end(&mut self) {
        let living: Vec<AllocId> =
            self.store.allocs().iter().filter(|(_, row)| !row.is_terminal()).map(|(_, row)| row.id).collect();
        if living.is_empty() {
            return;
        }
        let alloc = living[self.draw(u32::try_from(living.len()).unwrap()) as usize];
        let end = AllocEnd { alloc, status: ClientStatus::Complete, tasks: Vec::new(), observed_at: None };
        self.propose(vec![Command::EndAllocs(vec![end])]);
    }

    /// The log does not take an entry, though it takes later ones.
    fn refuse(&mut self) {
        let waiting = u32::try_from(self.log.len()).unwrap();
        if waiting > 0 {
            let at = self.draw(waiting) as usize;
            let entry = self.log.remove(at).unwrap();
            self.applier.not_written(entry.index);
        }
    }

    fn apply(&mut self) {
        let Some(entry) = self.log.pop_front() else { return };
        let index = entry.index;
        let applied = self.store.apply(entry);
        self.applier.applied(index, applied.outcomes.iter().any(Result::is_err));
        self.ledger.lock().settle(index);
        self.views.push_front(self.store.clone());
        self.views.truncate(6);
        self.check();
    }

    fn apply_all(&mut self) {
        while !self.log.is_empty() {
            self.apply();
        }
    }

    fn check(&self) {
        for (_, row) in self.store.nodes().iter() {
            assert_eq!(row.used.exceeds(row.capacity), None, "{:?} of {:?}", row.used, row.capacity);
            let living: Vec<AllocSlot> = self.store.nodes().live(row).collect();
            self.check_ports(&living);
            let held = &self.store.nodes().detail(self.store.nodes().find(row.id).unwrap()).unwrap().devices;
            assert!(held.milli_of("g0") <= WHOLE_MILLI, "a device is held twice: {held:?}");
            assert!(held.cores.values().all(|holders| *holders <= 1), "a core is held twice: {held:?}");
        }
        for row in self.store.quotas().iter() {
            assert_eq!(row.quota.limit.exceeded_by(&row.used), None);
        }
    }

    /// No two that may run at the same time have the same port.
    fn check_ports(&self, living: &[AllocSlot]) {
        for (at, one) in living.iter().enumerate() {
            for other in &living[at + 1..] {
                let ports =
                    |slot| self.store.allocs().extra(slot).map_or(&[][..], |extra| extra.ports.as_slice());
                let shared = ports(*one).iter().find(|port| ports(*other).contains(port));
                let ordered = self.comes_after(*one, *other) || self.comes_after(*other, *one);
                assert!(shared.is_none() || ordered, "port {shared:?} is held twice");
            }
        }
    }

    fn comes_after(&self, later: AllocSlot, earlier: AllocSlot) -> bool {
        let Some(extra) = self.store.allocs().extra(later) else { return false };
        extra.after.iter().filter_map(|(id, _)| self.store.allocs().find(*id)).any(|before| {
            let living = self.store.allocs().row(before).is_some_and(|row| !row.is_terminal());
            before == earlier || living && self.comes_after(before, earlier)
        })
    }
}

fn node(id: u128) -> Node {
    let attributes = [("driver.mock_driver".to_owned(), "1".to_owned())].into();
    let instance = |id: &str| DeviceInstance { id: id.into(), healthy: true };
    Node {
        attributes,
        dynamic_ports: (20_000, 20_003),
        devices: vec![NodeDevice {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            model: "A100".into(),
            instances: vec![instance("g0")],
            ..NodeDevice::default()
        }],
        cores: vec![2, 3],
        ..Node::new(
            NodeId(id),
            &format!("n{id}"),
            Resources { cpu_mhz: 4000, memory_mb: 1000, disk_mb: 100_000 },
        )
    }
}

#[test]
fn nothing_is_given_twice_whatever_the_order() {
    let (mut placed, mut inherited) = (0, 0);
    for seed in 0..150 {
        let mut world = World::new(seed);
        for _ in 0..400 {
            world.step();
        }
        while !world.plans.is_empty() {
            world.judge();
        }
        world.apply_all();
        assert!(world.ledger.lock().is_empty(), "seed {seed}: nobody holds what is claimed");
        placed += world.placed;
        inherited += world.inherited;
    }
    assert!(placed > 2000 && inherited > 400, "{placed} placed, {inherited} of them after others");
}
