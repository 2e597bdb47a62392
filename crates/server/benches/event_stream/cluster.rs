//! The state that is followed: the allocations of one job, as they start on their nodes.

use std::sync::Arc;

use arc_swap::ArcSwap;
use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{ClientStatus, Placement},
    command::{Command, Entry, PlanRecord, RegisterJob},
    job::{Group, Job, JobType, Task},
    node::Node,
    observed::{ObservedAlloc, ObservedTask, TaskEvent, TaskState},
    resources::Resources,
    store::AllocSlot,
};
use berth_server::{
    Change, EventHub,
    shared::{State, View},
};

use crate::support;

const NODES: u128 = 100;
/// More than all batches together that a follower may be behind: one that is behind is sent only the latest of each.
const ALLOCS: u128 = 10_000;
/// Changes that are published together.
const BATCH_CHANGES: u128 = 25;
const AT: Timestamp = Timestamp(1_700_000_000_123_456_789);
const EVAL: EvalId = EvalId(0xeeeeeeee_0000_4000_8000_000000000001);

pub struct Cluster {
    view: Arc<ArcSwap<View>>,
    events: Arc<EventHub>,
}

impl Cluster {
    pub fn new() -> Self {
        let mut view = View::default();
        apply(&mut view, (0..NODES).map(|number| Command::RegisterNode(Box::new(node(number)))).collect());
        let register = RegisterJob { job: Arc::new(job()), eval: EVAL, only_if: None, submission: None };
        apply(&mut view, vec![Command::RegisterJob(Box::new(register))]);
        apply(&mut view, vec![Command::CommitPlan(Box::new(plan()))]);
        Self { view: Arc::new(ArcSwap::from_pointee(view)), events: Arc::default() }
    }

    pub fn state(&self) -> State {
        support::state(&self.view, &Arc::default(), &self.events)
    }

    /// Publishes so many batches, and says how many changes are in them.
    pub fn change(&self, batches: usize) -> u64 {
        let mut view = View::clone(&self.view.load());
        let (mut before, mut changes) = (self.view.load_full(), 0);
        for batch in 0..batches as u128 {
            view.index = Index(view.index.0 + 1);
            let allocs = (0..BATCH_CHANGES).map(|at| alloc_id((batch * BATCH_CHANGES + at) % ALLOCS));
            let changed = allocs.map(|id| observe(&mut view, id)).collect();
            changes += BATCH_CHANGES as u64;
            let published = Arc::new(view.clone());
            self.events.publish(&before, &published, view.index, changed);
            before = published;
        }
        self.view.store(Arc::new(view));
        changes
    }
}

fn apply(view: &mut View, commands: Vec<Command>) {
    view.index = Index(view.index.0 + 1);
    view.store.apply(Entry::new(view.index, AT, commands));
}

fn observe(view: &mut View, id: AllocId) -> Change {
    let (slot, row): (AllocSlot, _) =
        view.store.alloc(id).map(|(slot, row)| (slot, *row)).expect("it was placed");
    view.observed.record(slot, row.job, row.group, Arc::new(observed(id)), view.index);
    Change::Observed(slot, id)
}

fn alloc_id(number: u128) -> AllocId {
    AllocId(0xaaaaaaaa_0000_4000_8000_000000000000 | number)
}

fn node(number: u128) -> Node {
    Node {
        host_ip: "10.0.0.1".to_owned(),
        ..Node::new(
            NodeId(0x11111111_0000_4000_8000_000000000000 | number),
            &format!("lab-{number}"),
            Resources { cpu_mhz: 4000, memory_mb: 8192, disk_mb: 50_000 },
        )
    }
}

/// One group of two tasks.
fn job() -> Job {
    let mut job = Job::new(JobKey::new("default", "updates"), JobType::Service);
    let mut group = Group::new("app", JobType::Service);
    group.count = ALLOCS as u32;
    group.tasks = ["server", "sidecar"].map(|name| Task::new(name, "mock_driver", JobType::Service)).into();
    job.groups.push(group);
    job
}

fn plan() -> PlanRecord {
    let placement = |number: u128| Placement {
        id: alloc_id(number),
        node: node(number % NODES).id,
        group: 0,
        name_index: number as u32,
        ports: Vec::new(),
        after: Vec::new(),
        previous: None,
        reschedules: Vec::new(),
        devices: Vec::new(),
        cores: Vec::new(),
        canary: false,
        job_version: None,
    };
    PlanRecord {
        deployment: None,
        eval: EVAL,
        job: JobKey::new("default", "updates"),
        job_version: 0,
        snapshot_index: Index(2),
        placements: (0..ALLOCS).map(placement).collect(),
        stops: Vec::new(),
        outcome: None,
        updates: None,
    }
}

/// An allocation in the middle of coming up: one task runs, the other one is about to.
fn observed(id: AllocId) -> ObservedAlloc {
    let event =
        |kind, message: &str| TaskEvent { kind, at: AT, message: message.to_owned(), ..TaskEvent::default() };
    let received = event("Received", "Task received by client");
    let setup = event("Task Setup", "Building Task Directory");
    let started = event("Started", "Task started by client");
    let task = |name: &str, state, started_at, events| ObservedTask {
        name: name.to_owned(),
        state,
        failed: false,
        restarts: 0,
        last_restart: Timestamp(0),
        started_at,
        finished_at: Timestamp(0),
        exit: (0, 0, false),
        events,
    };
    ObservedAlloc {
        healthy: None,
        health_message: String::new(),
        id,
        status: ClientStatus::Running,
        description: "Tasks are running".to_owned(),
        tasks: vec![
            task("server", TaskState::Running, AT, vec![received.clone(), setup.clone(), started]),
            task("sidecar", TaskState::Pending, Timestamp(0), vec![received, setup]),
        ],
        modified_at: AT,
        hash: 0,
        revision: 0,
    }
}
