//! A little language for stories about a cluster; each line does one thing.

mod describe;
mod read;
mod reference;
mod settings;

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use berth_model::{
    AllocId, EvalId, Index, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus},
    command::{Command, DeregisterJob, Entry, EvalOutcome, PlanRecord, RegisterJob, SetSchedulerConfig},
    eval::{Eval, EvalStatus, Trigger},
    node::NodeStatus,
    store::Store,
};
use berth_scheduler::{Claims, Plan, Planner, explain};
use settings::Settings;

/// Performs a script and tells what was planned. Every plan is held against one made by looking at all nodes.
pub fn tell(script: &str) -> String {
    let mut story = Story::default();
    story.perform(script);
    story.told
}

/// Performs a script, and makes one more plan that is not committed.
pub fn plan(script: &str, job: &str) -> (Store, Plan) {
    let mut story = Story::default();
    story.perform(script);
    let plan = story.decide(job);
    (story.store, plan)
}

#[derive(Default)]
struct Story {
    store: Store,
    planner: Planner,
    now: u64,
    index: u64,
    next_id: u128,
    nodes: BTreeMap<String, NodeId>,
    told: String,
}

impl Story {
    fn perform(&mut self, script: &str) {
        script.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        let (verb, name) = (words.next().unwrap(), words.next().unwrap_or_default());
        let settings = Settings::of(words);
        match verb {
            "node" => self.node(name, &settings),
            "down" => self.apply(Command::SetNodeStatus(self.nodes[name], NodeStatus::Down)),
            "close" => self.apply(Command::SetNodeEligibility(self.nodes[name], false)),
            "config" => {
                let config = read::config(&Settings::of(line.split_whitespace().skip(1)));
                let set = SetSchedulerConfig { config, only_if: None };
                self.apply(Command::SetSchedulerConfig(Box::new(set)));
            }
            "job" => self.job(name, &settings),
            "stop" => {
                let eval = EvalId(self.id());
                let stop = DeregisterJob { job: read::key(name), purge: false, eval };
                self.apply(Command::DeregisterJob(stop));
            }
            "end" => self.end(name, settings.first()),
            "wait" => self.now += name.parse::<u64>().unwrap(),
            "plan" => self.plan(name),
            "explain" => self.explain(name, &settings),
            _ => panic!("unknown line {line:?}"),
        }
    }

    fn id(&mut self) -> u128 {
        self.next_id += 1;
        self.next_id
    }

    fn apply(&mut self, command: Command) {
        self.index += 1;
        let entry = Entry { index: Index(self.index), at: self.at(), commands: vec![command] };
        for outcome in self.store.apply(entry).outcomes {
            outcome.unwrap();
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp(1_000_000_000 * (1_000 + self.now))
    }

    fn node(&mut self, name: &str, settings: &Settings<'_>) {
        let id = NodeId(self.id());
        self.nodes.insert(name.to_owned(), id);
        self.apply(Command::RegisterNode(Box::new(read::node(id, name, settings))));
        self.apply(Command::SetNodeStatus(id, NodeStatus::Ready));
    }

    fn job(&mut self, name: &str, settings: &Settings<'_>) {
        let job = Arc::new(read::job(name, settings));
        let register = RegisterJob { job, eval: EvalId(self.id()), only_if: None };
        self.apply(Command::RegisterJob(Box::new(register)));
    }

    /// `web[0]#2` is the second allocation of that name.
    fn end(&mut self, which: &str, how: &str) {
        let (name, nth) = which.split_once('#').unwrap();
        let all = self.store.allocs().iter();
        let mut rows: Vec<_> = all.filter(|(_, row)| describe::name(&self.store, row.id) == name).collect();
        rows.sort_by_key(|(_, row)| row.create_index);
        let alloc = rows[nth.parse::<usize>().unwrap() - 1].1.id;
        let status = if how == "failed" { ClientStatus::Failed } else { ClientStatus::Complete };
        self.apply(Command::EndAllocs(vec![AllocEnd { alloc, status, tasks: vec![] }]));
    }

    fn plan(&mut self, name: &str) {
        let plan = self.decide(name);
        let told = describe::describe(&self.store, &self.nodes, &plan, self.at());
        writeln!(self.told, "plan {name}: {told}").unwrap();
        self.commit(plan);
    }

    /// `explain JOB`, or `explain JOB NODE`.
    fn explain(&mut self, name: &str, settings: &Settings<'_>) {
        let node = settings.any().map(|node| self.nodes[node]);
        let explained = explain::explain(&self.store, &read::key(name), node, self.at()).unwrap();
        let told = describe::explanation(&explained);
        writeln!(self.told, "explain {name}: {told}").unwrap();
    }

    fn decide(&mut self, name: &str) -> Plan {
        let key = read::key(name);
        let job_type = self.store.job(&key).unwrap().job().job_type;
        let id = EvalId(self.next_id + 1_000_000);
        self.next_id += 1;
        let eval = Eval::pending(id, key, job_type, 50, Trigger::JobRegister);
        self.apply(Command::CreateEvals(vec![eval.clone()]));
        self.planner.follow(&self.store, &Claims::default());
        let plan = self.planner.plan(&self.store, &eval, self.at(), 7);
        assert_eq!(berth_scheduler::check::check(&self.store, &plan), []);
        reference::check(&self.store, &plan);
        plan
    }

    fn commit(&mut self, plan: Plan) {
        let mut placements = plan.placements;
        for placement in &mut placements {
            placement.id = AllocId(self.id());
        }
        self.apply(Command::CommitPlan(Box::new(PlanRecord {
            eval: plan.eval,
            job: plan.job,
            job_version: plan.job_version,
            snapshot_index: plan.snapshot_index,
            placements,
            stops: plan.stops,
            outcome: Some(EvalOutcome {
                status: EvalStatus::Complete,
                description: String::new(),
                failures: vec![],
                next: vec![],
            }),
        })));
    }
}
