//! A store that tests change entry by entry, and the things that they put into it.
#![allow(dead_code, reason = "no test needs all of it")]

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Placement, Stop, StopReason},
    command::{
        Collect, Command, DeregisterJob, Entry, EvalOutcome, Outcome, PlanRecord, RegisterJob, ScaleJob,
    },
    deployment::{DeploymentGroup, DeploymentStatus, NewDeployment, SetDeployment},
    eval::EvalStatus,
    event::{AppliedEntry, StateChange},
    job::{Group, Job, JobType, Network, Port, Task, TaskResources},
    node::{Node, NodeStatus},
    resources::Resources,
    scaling::ScalingEvent,
    store::{Store, snapshot},
};

#[derive(Default)]
pub struct World {
    pub store: Store,
    pub index: u64,
    ids: u128,
    /// What the last entry changed.
    pub events: Vec<StateChange>,
}

impl World {
    /// A world of nodes 1 to `nodes`, all of them ready.
    pub fn with_nodes(nodes: u128) -> Self {
        let mut world = Self::default();
        for id in 1..=nodes {
            world.apply(vec![
                Command::RegisterNode(Box::new(node(id))),
                Command::SetNodeStatus(NodeId(id), NodeStatus::Ready, None),
            ]);
        }
        world
    }

    /// Applies an entry as it comes out of the log.
    pub fn apply(&mut self, commands: Vec<Command>) -> Vec<Outcome> {
        self.index += 1;
        let entry = Entry::new(Index(self.index), Timestamp(self.index * 1_000), commands);
        let read = Entry::decode(&entry.encode()).expect("it was just encoded");
        assert_eq!(read, entry);
        let AppliedEntry { outcomes, events, .. } = self.store.apply(read);
        self.events = events;
        outcomes
    }

    /// Applies one command of an entry of an older version.
    pub fn run_as_of(&mut self, version: u8, command: Command) -> Outcome {
        self.index += 1;
        let entry = Entry::new(Index(self.index), Timestamp(self.index * 1_000), vec![command]);
        self.store.apply(entry.of_version(version)).outcomes.remove(0)
    }

    /// Applies one command.
    pub fn run(&mut self, command: Command) -> Outcome {
        self.apply(vec![command]).remove(0)
    }

    /// An id that nothing has yet.
    pub fn id(&mut self) -> u128 {
        self.ids += 1;
        1000 + self.ids
    }

    pub fn register(&mut self, job: Job) -> EvalId {
        let eval = EvalId(self.id());
        self.register_if(job, eval, None).expect("nothing is against it");
        eval
    }

    pub fn register_if(&mut self, job: Job, eval: EvalId, only_if: Option<Index>) -> Outcome {
        self.run(Command::RegisterJob(Box::new(RegisterJob {
            job: Arc::new(job),
            eval,
            only_if,
            submission: None,
        })))
    }

    pub fn stop(&mut self, job: &str, purge: bool) -> EvalId {
        let eval = EvalId(self.id());
        let deregister = DeregisterJob { job: key(job), purge, eval };
        self.run(Command::DeregisterJob(deregister)).expect("the job is there");
        eval
    }

    pub fn scale(&mut self, job: &str, count: u32) -> EvalId {
        let eval = EvalId(self.id());
        self.run(scaling(job, Some((count, eval)))).expect("the job is there");
        eval
    }

    /// Commits a plan of the current version of its job; it is complete.
    pub fn plan(&mut self, eval: EvalId, placements: Vec<Placement>, stops: Vec<Stop>) -> Outcome {
        let plan = self.plan_of(eval, placements, stops);
        self.run(plan)
    }

    /// A plan made on the state as it is.
    pub fn plan_of(&self, eval: EvalId, placements: Vec<Placement>, stops: Vec<Stop>) -> Command {
        let job = self.store.eval(eval).expect("the evaluation is there").job.clone();
        let job_version = self.store.job(&job).expect("its job is there").current().version;
        let outcome = Some(EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: vec![].into(),
            next: vec![],
        });
        let snapshot_index = self.store.index();
        let record = PlanRecord {
            eval,
            job,
            job_version,
            snapshot_index,
            placements,
            stops,
            outcome,
            deployment: None,
            updates: None,
        };
        Command::CommitPlan(Box::new(record))
    }

    /// Registers a job, and commits a plan of it that begins its deployment with this group.
    pub fn deploy(&mut self, job: Job, group: DeploymentGroup, placements: Vec<Placement>) -> DeploymentId {
        let id = DeploymentId(self.id());
        let group = DeploymentGroup { name: "g".into(), desired_total: job.groups[0].count, ..group };
        let eval = self.register(job);
        let Command::CommitPlan(mut plan) = self.plan_of(eval, placements, vec![]) else { unreachable!() };
        plan.deployment = Some(Box::new(NewDeployment { id, groups: vec![group] }));
        self.run(Command::CommitPlan(plan)).expect("it is made on the state as it is");
        id
    }

    /// A deployment is through.
    pub fn succeed(&mut self, id: DeploymentId) {
        let (status, description) = (DeploymentStatus::Successful, String::new());
        let over = SetDeployment { id, status, description, revert_to: None, eval: None };
        self.run(Command::SetDeployment(Box::new(over))).expect("it is active");
    }

    pub fn end(&mut self, alloc: u128, status: ClientStatus) {
        self.apply(vec![end(alloc, status)]);
    }

    pub fn collect(&mut self, collect: Collect) {
        self.run(Command::Collect(Box::new(collect))).expect("collecting is never refused");
    }
}

/// Another count of a job's group with its evaluation, or a message alone.
pub fn scaling(job: &str, count: Option<(u32, EvalId)>) -> Command {
    let event = ScalingEvent {
        group: "g".into(),
        count: count.map(|(count, _)| count),
        previous_count: 0,
        error: false,
        message: String::new(),
        meta: BTreeMap::new(),
        eval: count.map(|(_, eval)| eval),
        at: Timestamp(0),
        index: Index(0),
    };
    Command::ScaleJob(Box::new(ScaleJob { job: key(job), event }))
}

pub fn end(alloc: u128, status: ClientStatus) -> Command {
    Command::EndAllocs(vec![AllocEnd { alloc: AllocId(alloc), status, tasks: vec![], observed_at: None }])
}

pub fn stop(alloc: u128, reason: StopReason) -> Stop {
    Stop { alloc: AllocId(alloc), reason, observed_at: None }
}

pub fn key(id: &str) -> JobKey {
    JobKey::new("default", id)
}

/// A node of 100,000 of everything.
pub fn node(id: u128) -> Node {
    Node {
        host_ip: "127.0.0.1".into(),
        secret_hash: vec![1; 32],
        ..Node::new(
            NodeId(id),
            &format!("n{id}"),
            Resources { cpu_mhz: 100_000, memory_mb: 100_000, disk_mb: 100_000 },
        )
    }
}

/// A service of one group, `g`.
pub fn service(id: &str, memory_mb: u32, port: Option<u16>) -> Job {
    job(id, JobType::Service, memory_mb, port)
}

pub fn job(id: &str, job_type: JobType, memory_mb: u32, port: Option<u16>) -> Job {
    let ports = port.map(|fixed| Port { label: "http".into(), fixed: Some(fixed), ..Port::default() });
    let task = Task {
        resources: TaskResources { cpu_mhz: 100, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", job_type)
    };
    let group = Group {
        networks: vec![Network { ports: ports.into_iter().collect(), ..Network::default() }],
        tasks: vec![task],
        ..Group::new("g", job_type)
    };
    Job { groups: vec![group], ..Job::new(key(id), job_type) }
}

/// Placed on a node, after others have ended there.
pub fn place(id: u128, node: u128, after: &[u128], ports: &[u16]) -> Placement {
    let after: Vec<AllocId> = after.iter().copied().map(AllocId).collect();
    Placement {
        id: AllocId(id),
        node: NodeId(node),
        group: 0,
        name_index: 0,
        ports: ports.to_vec(),
        previous: after.first().copied(),
        after,
        reschedules: vec![],
        devices: vec![],
        cores: vec![],
        canary: false,
        job_version: None,
    }
}

/// The store after it went to disk and came back.
pub fn restored(store: &Store) -> Store {
    let mut bytes = Vec::new();
    snapshot::write(store, &mut bytes).expect("memory takes it");
    let checked = snapshot::read_hash(&mut bytes.as_slice()).expect("it was just written");
    let read = snapshot::read(&mut bytes.as_slice()).expect("it was just written");
    assert_eq!(checked, (read.index(), read.hash()), "whoever checks it finds what whoever reads it does");
    read
}

pub fn used_memory(store: &Store, node: u128) -> u32 {
    store.node(NodeId(node)).expect("the node is there").1.used.memory_mb
}
