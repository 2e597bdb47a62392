//! A little language for stories about a cluster; each line does one thing.

mod describe;
mod losses;
mod read;
mod reference;
mod settings;

use std::{collections::BTreeMap, fmt::Write, sync::Arc};

use berth_model::{
    AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Departure, MigrateAlloc},
    command::{
        Command, DeregisterJob, DrainNode, Entry, EvalOutcome, NewDrain, PlanRecord, RegisterJob,
        SetSchedulerConfig,
    },
    deployment::{AllocHealth, DeploymentStatus, PromoteDeployment, SetDeployment},
    eval::{Eval, EvalStatus, Trigger},
    job::JobType,
    node::NodeStatus,
    store::{AllocRow, Store},
};
use berth_scheduler::{Budget, Claims, Plan, Planner, explain};
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
            "down" => self.apply(Command::SetNodeStatus(self.node_id(name), NodeStatus::Down, None)),
            "close" => self.apply(Command::SetNodeEligibility(self.node_id(name), false)),
            "open" => self.apply(Command::SetNodeEligibility(self.node_id(name), true)),
            "config" => {
                let config = read::config(&Settings::of(line.split_whitespace().skip(1)));
                let set = SetSchedulerConfig { config, only_if: None };
                self.apply(Command::SetSchedulerConfig(Box::new(set)));
            }
            "namespace" => self.apply(Command::PutNamespace(Box::new(read::namespace(name, &settings)))),
            "quota" => self.apply(Command::PutQuota(Box::new(read::quota(name, &settings)))),
            "job" => self.job(name, &settings),
            "stop" => {
                let eval = EvalId(self.id());
                let stop = DeregisterJob { job: self.job_key(name), purge: false, eval };
                self.apply(Command::DeregisterJob(stop));
            }
            "end" => self.end(name, settings.first()),
            "halt" => self.find(name, |row| row.is_desired(), Self::halt),
            "leave" => self.find(name, |row| row.is_desired(), Self::leave),
            "well" => self.find(name, |row| row.is_desired(), |story, alloc| story.show(alloc, true)),
            "sick" => self.find(name, |row| row.is_desired(), |story, alloc| story.show(alloc, false)),
            "promote" => self.promote(name),
            "hold" => self.set_deployment(name, DeploymentStatus::Paused),
            "resume" => self.set_deployment(name, DeploymentStatus::Running),
            "fail" => self.set_deployment(name, DeploymentStatus::Failed),
            "succeed" => self.set_deployment(name, DeploymentStatus::Successful),
            "wait" => self.now += name.parse::<u64>().unwrap(),
            "plan" => self.plan(name),
            "restart" => self.planner = Planner::default(),
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
        let entry = Entry::new(Index(self.index), self.at(), vec![command]);
        for outcome in self.store.apply(entry).outcomes {
            outcome.unwrap();
        }
    }

    fn at(&self) -> Timestamp {
        Timestamp(1_000_000_000 * (1_000 + self.now))
    }

    fn node(&mut self, name: &str, settings: &Settings<'_>) {
        let id = NodeId(self.id());
        let id = *self.nodes.entry(name.to_owned()).or_insert(id);
        self.apply(Command::RegisterNode(Box::new(read::node(id, name, settings))));
        self.apply(Command::SetNodeStatus(id, NodeStatus::Ready, None));
    }

    fn job(&mut self, name: &str, settings: &Settings<'_>) {
        let job = Arc::new(read::job(name, settings));
        let register = RegisterJob { job, eval: EvalId(self.id()), only_if: None, submission: None };
        self.apply(Command::RegisterJob(Box::new(register)));
    }

    /// `#3` is the job in that place, counted from the start again when there are fewer.
    fn job_key(&self, name: &str) -> JobKey {
        let Some(nth) = name.strip_prefix('#') else { return read::key(name) };
        let keys: Vec<&JobKey> = self.store.jobs().iter().map(|(_, row)| &row.key).collect();
        keys[nth.parse::<usize>().unwrap() % keys.len()].clone()
    }

    /// `#3` is the node in that place.
    fn node_id(&self, name: &str) -> NodeId {
        let Some(nth) = name.strip_prefix('#') else { return self.nodes[name] };
        *self.nodes.values().nth(nth.parse::<usize>().unwrap() % self.nodes.len()).unwrap()
    }

    /// `web[0]#2` is the second allocation of that name; `#2` is the living one in that place, if any lives.
    fn end(&mut self, which: &str, how: &str) {
        let status = if how == "failed" { ClientStatus::Failed } else { ClientStatus::Complete };
        let end = |story: &mut Self, alloc| {
            story.apply(Command::EndAllocs(vec![AllocEnd {
                alloc,
                status,
                tasks: vec![],
                observed_at: None,
            }]));
        };
        self.find(which, |row| !row.is_terminal(), end);
    }

    /// Somebody asks for an allocation to end.
    fn halt(&mut self, alloc: AllocId) {
        let key = self.store.alloc(alloc).and_then(|(_, row)| self.store.job_of(row)).unwrap().0.key.clone();
        let eval = EvalId(self.id() + 2_000_000);
        let eval = Eval::pending(eval, key, JobType::Service, 50, Trigger::AllocStop);
        self.apply(Command::StopAlloc(alloc, Box::new(eval)));
    }

    /// The node of an allocation is drained, which is to leave it once another stands in for it.
    fn leave(&mut self, alloc: AllocId) {
        let slot = self.store.alloc(alloc).unwrap().1.node;
        let node = self.store.nodes().row(slot).unwrap().id;
        let drain = Some(NewDrain { deadline: None, ignore_system: false, requested_ns: 0 });
        let drain = DrainNode { node, drain, eligible: false, meta: BTreeMap::new() };
        self.apply(Command::DrainNode(Box::new(drain)));
        self.apply(Command::MigrateAllocs(vec![MigrateAlloc { alloc, how: Departure::WhenPlaced }]));
    }

    fn show(&mut self, alloc: AllocId, healthy: bool) {
        let revision =
            self.store.alloc(alloc).map(|(_, row)| row.revision()).filter(|revision| *revision > 0);
        let health = AllocHealth { alloc, healthy, message: String::new(), revision };
        self.apply(Command::SetAllocHealth(vec![health]));
    }

    /// Whatever is refused changes nothing.
    fn promote(&mut self, job: &str) {
        let Some(id) = self.deployment(job) else { return };
        let eval = EvalId(self.id());
        let promote = PromoteDeployment { id, groups: None, eval };
        self.index += 1;
        let commands = vec![Command::PromoteDeployment(Box::new(promote))];
        self.store.apply(Entry::new(Index(self.index), self.at(), commands));
    }

    fn set_deployment(&mut self, job: &str, status: DeploymentStatus) {
        let Some(id) = self.deployment(job) else { return };
        let set = SetDeployment { id, status, description: String::new(), revert_to: None, eval: None };
        self.apply(Command::SetDeployment(Box::new(set)));
    }

    /// The active deployment of a job.
    fn deployment(&self, job: &str) -> Option<DeploymentId> {
        let slot = self.store.jobs().find(&self.job_key(job))?;
        Some(self.store.deployments().active_of(slot)?.id)
    }

    fn find(&mut self, which: &str, any: impl Fn(&AllocRow) -> bool, act: impl FnOnce(&mut Self, AllocId)) {
        let (name, nth) = which.split_once('#').unwrap();
        let nth = nth.parse::<usize>().unwrap();
        let is_meant = |row: &AllocRow| match name {
            "" => any(row),
            name => describe::name(&self.store, row.id) == name,
        };
        let mut rows: Vec<_> =
            self.store.allocs().iter().map(|(_, row)| row).filter(|row| is_meant(row)).collect();
        rows.sort_by_key(|row| (row.create_index, row.id));
        let at = if name.is_empty() { nth % rows.len().max(1) } else { nth - 1 };
        let Some(alloc) = rows.get(at).map(|row| row.id) else {
            return assert!(name.is_empty(), "{which} is not there");
        };
        act(self, alloc);
    }

    fn plan(&mut self, name: &str) {
        let plan = self.decide(name);
        let text = describe::describe(&self.store, &self.nodes, &plan, self.at());
        writeln!(self.told, "plan {name}: {text}").unwrap();
        self.commit(plan);
    }

    /// `explain JOB`, or `explain JOB NODE`.
    fn explain(&mut self, name: &str, settings: &Settings<'_>) {
        let node = settings.any().map(|node| self.nodes[node]);
        let explained = explain::explain(&self.store, &read::key(name), node, self.at(), &Budget::default())
            .unwrap()
            .unwrap();
        let text = describe::explanation(&self.store, &explained);
        writeln!(self.told, "explain {name}: {text}").unwrap();
    }

    fn decide(&mut self, name: &str) -> Plan {
        let key = self.job_key(name);
        let job = self.store.job(&key).unwrap().job();
        let job_type = job.job_type;
        let asks_for_devices =
            job.groups.iter().flat_map(|group| &group.tasks).any(|task| !task.resources.devices.is_empty());
        let id = EvalId(self.next_id + 1_000_000);
        self.next_id += 1;
        let eval = Eval::pending(id, key, job_type, 50, Trigger::JobRegister);
        self.apply(Command::CreateEvals(vec![eval.clone()]));
        self.planner.follow(&self.store, &Claims::default());
        let plan = self.planner.plan(&self.store, &eval, self.at(), 7);
        // What is learned of devices is no part of the state, and may tell planners apart. A version before this one may
        // have asked for some, and have an allocation placed again.
        let gets_devices = plan.placements.iter().any(|placement| !placement.devices.is_empty());
        if !asks_for_devices && !gets_devices {
            let mut other = Planner::default();
            other.follow(&self.store, &Claims::default());
            let same = other.plan(&self.store, &eval, self.at(), 7);
            assert_eq!(plan, same, "a planner that has followed each change decides as one that is new");
        }
        assert_eq!(berth_scheduler::check::check(&self.store, &plan), []);
        reference::check(&self.store, &plan);
        losses::check(&self.store, &plan);
        plan
    }

    fn commit(&mut self, plan: Plan) {
        let mut placements = plan.placements;
        for placement in &mut placements {
            placement.id = AllocId(self.id());
        }
        let mut deployment = plan.deployment;
        deployment.iter_mut().for_each(|new| new.id = DeploymentId(self.id()));
        self.apply(Command::CommitPlan(Box::new(PlanRecord {
            eval: plan.eval,
            job: plan.job,
            job_version: plan.job_version,
            snapshot_index: plan.snapshot_index,
            placements,
            stops: plan.stops,
            deployment,
            outcome: Some(EvalOutcome {
                status: EvalStatus::Complete,
                description: String::new(),
                failures: vec![].into(),
                next: vec![],
            }),
            updates: Some(plan.updates).filter(|updates| !updates.is_empty()),
        })));
    }
}
