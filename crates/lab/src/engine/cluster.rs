//! A cluster's state and its planner without a server: plans are applied, and nodes and jobs change, by calls.

use std::sync::Arc;

use berth_model::{
    EvalId, Index, NodeId, Timestamp,
    command::{Command, Entry, EvalOutcome, PlanRecord, RegisterJob},
    eval::EvalStatus,
    job::Job,
    node::{Node, NodeStatus},
    resources::Resources,
    store::Store,
};
use berth_scheduler::{Claims, Plan, Planner};

use crate::random::Random;

/// When everything happens: time makes no difference to what is measured.
const NOW: Timestamp = Timestamp(1_000_000_000);

/// A cluster without processes: its state, a planner and claims.
pub(super) struct InMemoryCluster {
    store: Store,
    planner: Planner,
    claims: Claims,
    random: Random,
}

impl InMemoryCluster {
    /// A cluster without nodes or jobs.
    pub fn new(seed: u64) -> Self {
        Self {
            store: Store::default(),
            planner: Planner::default(),
            claims: Claims::default(),
            random: Random::new(seed),
        }
    }

    /// Adds nodes of that shape, all ready.
    pub fn add_nodes(&mut self, count: u32, total: Resources) {
        for number in 0..count {
            let id = NodeId(self.id());
            let commands = vec![
                Command::RegisterNode(Box::new(node(id, number, total))),
                Command::SetNodeStatus(id, NodeStatus::Ready, None),
            ];
            self.apply(commands);
        }
    }

    /// Registers a job, and returns the evaluation that comes with it.
    pub fn register(&mut self, job: Job) -> EvalId {
        let eval = EvalId(self.id());
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
        self.apply(vec![Command::RegisterJob(Box::new(register))]);
        eval
    }

    /// Plans an evaluation on a snapshot, as the server's planner threads do.
    pub fn plan(&mut self, eval: EvalId) -> Plan {
        let snapshot = self.store.clone();
        let eval = snapshot.eval(eval).expect("it was made with its job");
        self.planner.follow(&snapshot, &self.claims);
        self.planner.plan(&snapshot, eval, NOW, self.random.next_u64())
    }

    /// Makes a plan's decisions real.
    pub fn commit(&mut self, plan: Plan) {
        let outcome = EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: plan.failures.into(),
            next: Vec::new(),
        };
        self.apply(vec![Command::CommitPlan(Box::new(PlanRecord {
            eval: plan.eval,
            job: plan.job,
            job_version: plan.job_version,
            snapshot_index: plan.snapshot_index,
            placements: plan.placements,
            stops: plan.stops,
            outcome: Some(outcome),
            deployment: plan.deployment,
            updates: Some(plan.updates).filter(|updates| !updates.is_empty()),
        }))]);
    }

    /// Allocations that exist.
    pub fn allocs(&self) -> usize {
        self.store.allocs().len()
    }

    fn apply(&mut self, commands: Vec<Command>) {
        let index = Index(self.store.index().0 + 1);
        let applied = self.store.apply(Entry::new(index, NOW, commands));
        assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    }

    fn id(&mut self) -> u128 {
        u128::from(self.random.next_u64()) << 64 | u128::from(self.random.next_u64())
    }
}

fn node(id: NodeId, number: u32, total: Resources) -> Node {
    let attributes = [("driver.mock_driver", "1"), ("kernel.name", "linux")];
    Node {
        attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        meta: [("rack".to_owned(), format!("r{}", number / 40))].into(),
        host_ip: "127.0.0.1".to_owned(),
        ..Node::new(id, &format!("sim-{number}"), total)
    }
}
