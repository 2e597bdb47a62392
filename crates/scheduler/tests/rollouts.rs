//! Updates through random histories: at any time enough allocations are healthy, never more than allowed are exchanged at
//! once, and in the end all run the newest version.

use std::sync::Arc;

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::StopReason,
    command::{Command, Entry, EvalOutcome, PlanRecord, RegisterJob},
    deployment::{AllocHealth, DeploymentStatus, SetDeployment},
    eval::{Eval, EvalStatus, Trigger},
    ids::IdSeed,
    job::{Group, Job, JobType, Task, TaskResources, Update},
    node::{Node, NodeStatus},
    resources::Resources,
    store::{AllocRow, AllocSlot, Store},
};
use berth_scheduler::{Claims, Plan, Planner};

/// A cluster with one job, which changes as it is drawn.
struct World {
    store: Store,
    planner: Planner,
    random: IdSeed,
    count: u32,
    parallel: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            store: Store::default(),
            planner: Planner::default(),
            random: IdSeed::new(seed),
            count: 0,
            parallel: 0,
        };
        world.count = 1 + world.draw(6);
        world.parallel = 1 + world.draw(3);
        for id in 1..=3 {
            world.apply(Command::RegisterNode(Box::new(node(id))));
            world.apply(Command::SetNodeStatus(NodeId(id), NodeStatus::Ready, None));
        }
        world
    }

    fn draw(&mut self, below: u32) -> u32 {
        u32::try_from(self.random.mint() % u128::from(below)).expect("it is small")
    }

    fn apply(&mut self, command: Command) {
        let index = Index(self.store.index().0 + 1);
        let at = Timestamp(index.0 * 1_000_000_000);
        let applied = self.store.apply(Entry::new(index, at, vec![command]));
        assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    }

    fn register(&mut self, cpu_mhz: u32) {
        let resources = TaskResources { cpu_mhz, memory_mb: 10, ..TaskResources::default() };
        let task = Task { resources, ..Task::new("t", "mock_driver", JobType::Service) };
        let update = Update { max_parallel: self.parallel, ..Update::default() };
        let group = Group {
            count: self.count,
            tasks: vec![task],
            update: Some(Box::new(update)),
            ..Group::new("g", JobType::Service)
        };
        let job = Arc::new(Job { groups: vec![group], ..Job::new(key(), JobType::Service) });
        let eval = EvalId(self.random.mint());
        self.apply(Command::RegisterJob(Box::new(RegisterJob {
            job,
            eval,
            only_if: None,
            submission: None,
        })));
    }

    fn allocs(&self) -> Vec<(AllocSlot, AllocRow)> {
        let rows = self.store.allocs().iter().filter(|(_, row)| row.is_desired());
        rows.map(|(slot, row)| (slot, *row)).collect()
    }

    fn healthy(&self) -> usize {
        self.allocs().iter().filter(|(slot, _)| self.store.is_healthy_if_carried(*slot)).count()
    }

    fn plan(&mut self) {
        let eval = EvalId(self.random.mint());
        let eval = Eval::pending(eval, key(), JobType::Service, 50, Trigger::DeploymentWatcher);
        self.apply(Command::CreateEvals(vec![eval.clone()]));
        if self.draw(4) == 0 {
            self.planner = Planner::default();
        }
        let now = self.store.at();
        self.planner.follow(&self.store, &Claims::default());
        let seed = self.random.mint() as u64;
        let plan = self.planner.plan(&self.store, &eval, now, seed);
        assert_eq!(berth_scheduler::check::check(&self.store, &plan), []);
        let exchanged = plan.stops.iter().filter(|stop| stop.reason == StopReason::JobUpdated).count();
        assert!(exchanged <= self.parallel as usize, "{exchanged} are exchanged at once");
        self.commit(plan);
    }

    fn commit(&mut self, plan: Plan) {
        let outcome = EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: plan.failures.into(),
            next: Vec::new(),
        };
        self.apply(Command::CommitPlan(Box::new(PlanRecord {
            eval: plan.eval,
            job: plan.job,
            job_version: plan.job_version,
            snapshot_index: plan.snapshot_index,
            placements: plan.placements,
            stops: plan.stops,
            outcome: Some(outcome),
            deployment: plan.deployment,
            updates: Some(plan.updates).filter(|updates| !updates.is_empty()),
        })));
    }

    /// The oldest allocation that has not shown anything shows that it is well.
    fn show(&mut self) {
        let unproven = |slot: AllocSlot| {
            let healthy = self.store.allocs().detail(slot).and_then(|detail| detail.healthy);
            healthy.is_none() && self.store.needs_evidence(slot, true).is_some()
        };
        let all: Vec<AllocId> =
            self.allocs().iter().filter(|(slot, _)| unproven(*slot)).map(|(_, row)| row.id).collect();
        if !all.is_empty() {
            let alloc = all[self.draw(all.len() as u32) as usize];
            let health = AllocHealth { alloc, healthy: true, message: String::new(), revision: None };
            self.apply(Command::SetAllocHealth(vec![health]));
        }
    }

    /// As the leader does with a deployment that is through.
    fn succeed(&mut self) {
        let active =
            self.store.deployments().active().find(|d| d.groups.iter().all(|group| group.is_healthy()));
        let Some(id) = active.map(|deployment| deployment.id) else { return };
        let (status, description) = (DeploymentStatus::Successful, String::new());
        let set = SetDeployment { id, status, description, revert_to: None, eval: None };
        self.apply(Command::SetDeployment(Box::new(set)));
    }

    fn settle(&mut self) {
        for _ in 0..4 * self.count {
            self.plan();
            self.show();
            self.succeed();
        }
    }
}

fn key() -> JobKey {
    JobKey::new("default", "web")
}

fn node(id: u128) -> Node {
    Node {
        attributes: [("driver.mock_driver".to_owned(), "1".to_owned())].into(),
        ..Node::new(
            NodeId(id),
            &format!("n{id}"),
            Resources { cpu_mhz: 100_000, memory_mb: 100_000, disk_mb: 1_000_000 },
        )
    }
}

#[test]
fn at_any_time_all_but_max_parallel_are_healthy_and_in_the_end_all_are_new() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        world.register(100);
        world.settle();
        assert_eq!(world.healthy(), world.count as usize, "seed {seed}: the first placement");
        for version in 0..40 {
            match world.draw(6) {
                0 => world.register(101 + version % 3),
                1 | 2 => world.show(),
                3 => world.succeed(),
                _ => world.plan(),
            }
            let (healthy, allocs) = (world.healthy(), world.allocs().len());
            let least = world.count.saturating_sub(world.parallel) as usize;
            assert!(healthy >= least, "seed {seed}: {healthy} healthy, of {} at least {least}", world.count);
            assert!(allocs <= world.count as usize, "seed {seed}: {allocs} allocations of {}", world.count);
        }
        world.settle();
        assert_eq!(world.healthy(), world.count as usize, "seed {seed}: healthy in the end");
        let row = world.store.job(&key()).expect("it is registered");
        let newest = &row.job().groups[0].tasks;
        let is_new = |alloc: &AllocRow| world.store.job_of(alloc).is_some_and(|(_, g)| g.tasks == *newest);
        assert!(world.allocs().iter().all(|(_, alloc)| is_new(alloc)), "seed {seed}: new in the end");
        let last = world.store.deployments().of_job(&key()).next_back().expect("it had one");
        assert_eq!(last.status, DeploymentStatus::Successful, "seed {seed}");
    }
}
