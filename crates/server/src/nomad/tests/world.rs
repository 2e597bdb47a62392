//! A small cluster: two nodes, and a job with one running allocation, one failed, and one that cannot be placed.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    AllocId, EvalId, Index, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Placement, TaskResult},
    command::{Command, EvalOutcome, NextEval, PlanRecord, RegisterJob},
    eval::{EvalStatus, Funnel, GroupFailure, Trigger},
    job::Job,
    node::{Node, NodeStatus},
    observed::{ObservedAlloc, ObservedTask, TaskEvent, TaskState},
    resources::Resources,
};

use super::fake_engine::FakeEngine;

pub const NODE_1: NodeId = NodeId(0x11111111_0000_4000_8000_000000000001);
pub const NODE_2: NodeId = NodeId(0x22222222_0000_4000_8000_000000000002);
pub const EVAL: EvalId = EvalId(0xeeeeeeee_0000_4000_8000_000000000001);
pub const BLOCKED: EvalId = EvalId(0xebebebeb_0000_4000_8000_000000000002);
pub const RUNNING: AllocId = AllocId(0xaaaaaaaa_0000_4000_8000_000000000001);
pub const FAILED: AllocId = AllocId(0xaaaabbbb_0000_4000_8000_000000000002);

/// When the tasks started, by their nodes' clocks.
const STARTED_NS: u64 = 1_700_000_010_000_000_000;

const WEB: &str = r#"
job "web" {
  datacenters = ["dc1"]
  group "app" {
    count = 3
    network {
      port "http" { to = 8080 }
      port "admin" { static = 9000 }
    }
    task "server" {
      driver = "raw_exec"
      config { command = "serve" }
      resources {
        cpu    = 200
        memory = 64
      }
    }
  }
}
"#;

/// The whole cluster, at index 6.
pub fn world() -> Arc<FakeEngine> {
    let engine = Arc::new(FakeEngine::default());
    let nodes = [node(NODE_1, "n1"), node(NODE_2, "n2")].map(|node| Command::RegisterNode(Box::new(node)));
    engine.apply(nodes.into());
    engine.apply(vec![
        Command::SetNodeStatus(NODE_1, NodeStatus::Ready, None),
        Command::SetNodeStatus(NODE_2, NodeStatus::Ready, None),
    ]);
    engine.apply(vec![register(job(WEB), EVAL)]);
    engine.apply(vec![Command::CommitPlan(Box::new(plan()))]);
    engine.observe(observed(RUNNING, ClientStatus::Running));
    engine.apply(vec![Command::EndAllocs(vec![end(FAILED)])]);
    engine
}

/// The cluster with another version of the job, whose allocations are to be others: the failed one has no place in it.
pub fn world_with_an_update() -> Arc<FakeEngine> {
    let engine = world();
    let changed = job(&WEB.replace("\"serve\"", "\"serve-more\""));
    engine.apply(vec![register(changed, EvalId(0xecececec_0000_4000_8000_000000000003))]);
    engine
}

pub fn job(source: &str) -> Job {
    berth_jobfile::parse_hcl(source, "test", &berth_jobfile::Inputs::default()).expect("it is a job").job
}

/// A job with one group and one task.
pub fn small_job(id: &str) -> Job {
    let task = r#"task "t" { driver = "mock" }"#;
    job(&format!("job \"{id}\" {{\n group \"g\" {{\n {task}\n }}\n}}"))
}

pub fn register(job: Job, eval: EvalId) -> Command {
    Command::RegisterJob(Box::new(RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None }))
}

pub fn node(id: NodeId, name: &str) -> Node {
    let attributes = [("driver.raw_exec", "1"), ("kernel.name", "linux"), ("berth.version", "0.1.0")];
    Node {
        attributes: attributes.map(|(k, v)| (k.into(), v.into())).into(),
        meta: BTreeMap::from([("rack".into(), "r1".into())]),
        reserved: Resources { cpu_mhz: 100, memory_mb: 256, disk_mb: 0 },
        reserved_ports: vec![22, 80],
        host_ip: "10.0.0.1".into(),
        secret_hash: b"must never be shown".to_vec(),
        ..Node::new(id, name, Resources { cpu_mhz: 4000, memory_mb: 8192, disk_mb: 50_000 })
    }
}

fn plan() -> PlanRecord {
    let funnel = Funnel {
        considered: 2,
        available: BTreeMap::from([("dc1".into(), 2)]),
        filtered: BTreeMap::from([("${attr.cpu.arch} = arm64".into(), 1)]),
        exhausted: BTreeMap::from([("memory".into(), 1)]),
        ..Funnel::default()
    };
    PlanRecord {
        eval: EVAL,
        job: berth_model::JobKey::new("default", "web"),
        job_version: 0,
        snapshot_index: Index(3),
        placements: vec![placement(RUNNING, NODE_1, 0), placement(FAILED, NODE_2, 1)],
        stops: Vec::new(),
        deployment: None,
        outcome: Some(EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: vec![GroupFailure { group: "app".into(), count: 1, funnel: funnel.into() }].into(),
            next: vec![NextEval {
                id: BLOCKED,
                status: EvalStatus::Blocked,
                trigger: Trigger::QueuedAllocs,
                wait_until: Timestamp(0),
            }],
        }),
        updates: None,
    }
}

/// Registers a job, or another version of it, and commits the plan that places its one allocation.
pub fn start(world: &FakeEngine, job: Job, alloc: AllocId, previous: Option<AllocId>) -> Index {
    let (key, eval) = (job.key.clone(), EvalId(alloc.0));
    let snapshot_index = world.apply(vec![register(job, eval)]).index;
    let job_version = world.view.load().store.job(&key).expect("it is registered").current().version;
    let placement = Placement { ports: Vec::new(), previous, ..placement(alloc, NODE_1, 0) };
    let plan = PlanRecord {
        deployment: None,
        eval,
        job: key,
        job_version,
        snapshot_index,
        placements: vec![placement],
        stops: Vec::new(),
        outcome: Some(all_placed()),
        updates: None,
    };
    world.apply(vec![Command::CommitPlan(Box::new(plan))]).index
}

/// The evaluation is complete, and nothing is missing.
pub fn all_placed() -> EvalOutcome {
    EvalOutcome {
        status: EvalStatus::Complete,
        description: String::new(),
        failures: Vec::new().into(),
        next: Vec::new(),
    }
}

pub fn placement(id: AllocId, node: NodeId, name_index: u32) -> Placement {
    Placement {
        id,
        node,
        group: 0,
        name_index,
        ports: vec![9000, 20_000],
        after: Vec::new(),
        previous: None,
        reschedules: Vec::new(),
        devices: vec![],
        cores: vec![],
        canary: false,
        job_version: None,
    }
}

pub fn observed(id: AllocId, status: ClientStatus) -> ObservedAlloc {
    let started = TaskEvent {
        kind: "Started",
        at: Timestamp(STARTED_NS),
        message: "Task started by client".into(),
        ..TaskEvent::default()
    };
    let task = ObservedTask {
        name: "server".into(),
        state: TaskState::Running,
        failed: false,
        restarts: 0,
        last_restart: Timestamp(0),
        started_at: Timestamp(STARTED_NS),
        finished_at: Timestamp(0),
        exit: (0, 0, false),
        events: vec![started],
    };
    ObservedAlloc {
        healthy: None,
        health_message: String::new(),
        id,
        status,
        description: "tasks are running".into(),
        tasks: vec![task],
        modified_at: Timestamp(STARTED_NS),
        hash: 0,
        revision: 0,
    }
}

pub fn end(alloc: AllocId) -> AllocEnd {
    let result = TaskResult {
        exit_code: 137,
        signal: 9,
        oom_killed: true,
        failed: true,
        restarts: 2,
        started_at: Timestamp(STARTED_NS),
        finished_at: Timestamp(STARTED_NS + 1_500_000_000),
        message: "OOM Killed".into(),
    };
    AllocEnd { alloc, status: ClientStatus::Failed, tasks: vec![result], observed_at: None }
}
