//! What the life of large jobs and clusters costs the one thread that decides: `cargo bench -p berth-controller --bench life`.
//! Each line reports what was done, the time it took, and the figure that it is held against. Names as arguments choose.

#![expect(clippy::disallowed_methods, reason = "what is measured here is time")]

use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    sync::Arc,
    time::{Duration, Instant},
};

use berth_controller::{
    Action, Controller, ControllerConfig, Event, Hello, LinkCapacity, NodeMessage, Now, PlanRequest, Request,
    RequestToken, ServerId, SessionId,
};
use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus},
    command::{Command, DrainNode, Entry, NewDrain, RegisterJob, RunJob},
    eval::{Eval, Trigger},
    job::{Group, HealthCheck, Job, JobType, Migrate, Parameterized, Task, TaskResources},
    node::Node,
    observed::{ObservedAlloc, ObservedTask, TaskState},
    resources::Resources,
    store::Store,
};
use berth_scheduler::{Ledger, Planner};

/// The nodes of which a tenth is drained at the pace of what runs there.
const PACED_NODES: u128 = 10_000;

/// A measurement.
type Run = fn() -> Measured;

const RUNS: [(&str, Run); 9] = [
    ("unchanged", unchanged),
    ("joining", joining),
    ("system", system),
    ("draining", draining),
    ("draining-each", draining_each),
    ("draining-paced", draining_paced),
    ("dispatches", dispatches),
    ("waiting", waiting),
    ("electing", electing),
];

struct Measured {
    what: String,
    took: Duration,
    figure: &'static str,
}

fn main() {
    let (settings, chosen): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with('-'));
    if !settings.iter().any(|setting| setting == "--bench") {
        // A run of all tests, unoptimized: there is nothing to measure.
        return;
    }
    for (name, run) in RUNS {
        if chosen.is_empty() || chosen.iter().any(|one| one == name) {
            let Measured { what, took, figure } = run();
            println!("{name:<13} {what}: {:.3} ms ({figure})", took.as_secs_f64() * 1e3);
        }
    }
}

/// A job of 10,000 allocations is evaluated, and nothing is to be done.
fn unchanged() -> Measured {
    let mut cluster = Cluster::of_nodes(1_000, 64_000);
    cluster.register(service("web", 10_000, 10));
    let key = JobKey::new("default", "web");
    let eval = Eval::pending(EvalId(7), key, JobType::Service, 50, Trigger::NodeUpdate);
    cluster.planner.follow(&cluster.view, &cluster.ledger.lock());
    let mut times: Vec<Duration> = (0..101)
        .map(|_| {
            let began = Instant::now();
            let plan = cluster.planner.plan(&cluster.view, &eval, cluster.wall(), 1);
            let took = began.elapsed();
            assert!(plan.is_noop() && plan.failures.is_empty());
            took
        })
        .collect();
    times.sort_unstable();
    let (took, slowest) = (times[50], times[100]);
    let what = format!(
        "10,000 allocations reconciled (median of 101, slowest {:.3} ms)",
        slowest.as_secs_f64() * 1e3
    );
    Measured { what, took, figure: "2 ms at most" }
}

/// 10,000 nodes join one by one.
fn joining() -> Measured {
    let mut cluster = Cluster::new();
    let began = Instant::now();
    (1..=10_000).for_each(|node| cluster.join(node, 4_000));
    let took = began.elapsed();
    assert_eq!(cluster.store.nodes().iter().filter(|(_, row)| row.is_ready()).count(), 10_000);
    Measured { what: "10,000 nodes joined".into(), took, figure: "1,000 ms at most, the log aside" }
}

/// 1,000 of 10,000 nodes, of 100,000 allocations, are drained for as long as it takes: no more of a group moves at once than
/// its pace allows, and more of it once what moved is well. What agents say is made up beside the clock.
fn draining_paced() -> Measured {
    let mut cluster = Cluster::of_nodes(PACED_NODES, 4_000);
    for number in 0..PACED_NODES / 100 {
        let mut job = service(&format!("web-{number}"), 1_000, 100);
        let migrate =
            Migrate { max_parallel: 25, health_check: HealthCheck::TaskStates, ..Migrate::default() };
        job.groups[0].migrate = Some(Box::new(migrate));
        cluster.register(job);
    }
    let drained = 1..=PACED_NODES / 10;
    let all = cluster.wanted_on(drained.clone()).1;
    cluster.report();
    let drains = drained.clone().map(|node| vec![cluster.drain_until(node, None)]).collect();
    let began = Instant::now();
    cluster.request_all(drains);
    let (mut took, mut rounds) = (began.elapsed(), 0);
    while cluster.wanted_on(drained.clone()).0 > 0 {
        rounds += 1;
        assert!(rounds < 10_000, "it comes to no end");
        took += cluster.report();
    }
    assert_eq!(cluster.wanted_on(drained), (0, all));
    let what = format!("1,000 of 10,000 nodes drained at the pace of their groups, in {rounds} rounds");
    Measured { what, took, figure: "2,000 ms at most" }
}

/// A system job is planned on 40,000 nodes.
fn system() -> Measured {
    let mut cluster = Cluster::of_nodes(40_000, 4_000);
    let began = Instant::now();
    cluster.register(Job { job_type: JobType::System, ..service("agent", 1, 10) });
    let took = began.elapsed();
    assert_eq!(cluster.store.allocs().len(), 40_000);
    Measured { what: "a system job placed on 40,000 nodes".into(), took, figure: "1,000 ms at most" }
}

/// 1,000 of 10,000 nodes, of 100,000 allocations, are drained at once: all of that is asked for before the first of it is
/// in the log.
fn draining() -> Measured {
    let mut cluster = Cluster::of_services();
    let began = Instant::now();
    let drains = (1..=1_000).map(|node| vec![cluster.drain(node)]).collect();
    cluster.request_all(drains);
    cluster.tick();
    let took = began.elapsed();
    assert_eq!(cluster.wanted_on(1..=1_000), (0, 100_000));
    Measured { what: "1,000 of 10,000 nodes drained".into(), took, figure: "2,000 ms at most" }
}

/// The same of 100 nodes, each once all has moved that was on the one before: nothing can be planned together.
fn draining_each() -> Measured {
    let mut cluster = Cluster::of_services();
    let planned = cluster.planned;
    let began = Instant::now();
    for node in 1..=100 {
        let drain = cluster.drain(node);
        cluster.request(vec![drain]);
    }
    let took = began.elapsed();
    assert_eq!(cluster.wanted_on(1..=100), (0, 100_000));
    let planned = cluster.planned - planned;
    let what = format!("100 of 10,000 nodes drained one after the other, {planned} plannings");
    Measured { what, took, figure: "a planning for each job of each node" }
}

/// Another server begins to lead, with 100,000 allocations that run and 1,000,000 that have ended.
fn electing() -> Measured {
    let mut cluster = Cluster::of_services();
    for number in 0..100 {
        cluster.register(Job { job_type: JobType::Batch, ..service(&format!("done-{number}"), 10_000, 10) });
        let done = JobKey::new("default", &format!("done-{number}"));
        let done = cluster.store.jobs().find(&done).expect("it was registered");
        let rows = cluster.store.allocs().iter().filter(|(_, row)| row.job == done);
        let ends: Vec<_> = rows
            .map(|(_, row)| AllocEnd {
                alloc: row.id,
                status: ClientStatus::Complete,
                tasks: vec![],
                observed_at: None,
            })
            .collect();
        ends.chunks(4_096).for_each(|ends| cluster.request(vec![Command::EndAllocs(ends.to_vec())]));
    }
    assert_eq!(cluster.store.allocs().len(), 1_100_000);
    cluster.restart();
    let began = Instant::now();
    cluster.tell(Event::LeadershipGained { term: 2 });
    let took = began.elapsed();
    let slowest = (0..100).map(|_| {
        let began = Instant::now();
        cluster.seconds += 1;
        cluster.tick();
        began.elapsed()
    });
    let slowest = slowest.max().unwrap_or_default().as_secs_f64() * 1e3;
    let what = format!(
        "elected with 100,000 that run and 1,000,000 that have ended (slowest tick after {slowest:.3} ms)"
    );
    Measured { what, took, figure: "200 ms at most" }
}

/// 100,000 runs of a parameterized job are accepted, placed or not.
fn dispatches() -> Measured {
    let mut cluster = Cluster::new();
    let parent = Job {
        job_type: JobType::Batch,
        parameterized: Some(Box::new(Parameterized::default())),
        ..service("sums", 1, 100)
    };
    cluster.register(parent.clone());
    let began = Instant::now();
    for batch in 0..1_000_u128 {
        let runs = (0..100).map(|number| {
            let key = JobKey::new("default", &format!("sums/dispatch-{batch}-{number}"));
            let parent_id = "sums".to_owned();
            let run = Job { key, parent_id, dispatched: true, ..parent.clone() };
            let eval = EvalId((batch * 100 + number + 1) << 32);
            Command::RunJob(Box::new(RunJob { job: Arc::new(run), eval }))
        });
        cluster.request(runs.collect());
    }
    let took = began.elapsed();
    assert_eq!(cluster.store.jobs().len(), 100_001);
    Measured { what: "100,000 dispatches accepted and planned".into(), took, figure: "10,000 ms at most" }
}

/// 100,000 jobs wait, and 1,000 slots become free one after the other; beside it the same where 2,000 wait.
fn waiting() -> Measured {
    let [(few, _), (took, planned)] = [2, 100].map(slots_of);
    let few_ms = few.as_secs_f64() * 1e3;
    let what =
        format!("1,000 slots for 100,000 jobs, {planned} plannings (for 2,000 jobs in {few_ms:.3} ms)");
    Measured { what, took, figure: "a planning for each, and no longer for many" }
}

/// How long it takes to give 1,000 slots to so many thousand jobs that wait, and how many plannings.
fn slots_of(thousands: u128) -> (Duration, usize) {
    let mut cluster = Cluster::of_nodes(1, 1_000);
    for batch in 0..thousands {
        let jobs = (0..1_000).map(|number| {
            let id = format!("job-{batch}-{number}");
            let job = Job { job_type: JobType::Batch, ..service(&id, 1, 100) };
            cluster.seed += 1;
            let eval = EvalId(cluster.seed << 64);
            Command::RegisterJob(Box::new(RegisterJob {
                job: Arc::new(job),
                eval,
                only_if: None,
                submission: None,
            }))
        });
        let jobs = jobs.collect();
        cluster.request(jobs);
    }
    let planned = cluster.planned;
    let began = Instant::now();
    for _ in 0..1_000 {
        let first = cluster.store.allocs().iter().find(|(_, row)| !row.is_terminal()).map(|(_, row)| row.id);
        let end = AllocEnd {
            alloc: first.expect("it runs"),
            status: ClientStatus::Complete,
            tasks: vec![],
            observed_at: None,
        };
        cluster.request(vec![Command::EndAllocs(vec![end])]);
    }
    (began.elapsed(), cluster.planned - planned)
}

fn service(id: &str, count: u32, memory_mb: u32) -> Job {
    let task = Task {
        resources: TaskResources { cpu_mhz: 1, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let mut group = Group { count, tasks: vec![task], ..Group::new("g", JobType::Service) };
    group.disk.size_mb = 1;
    Job { groups: vec![group], ..Job::new(JobKey::new("default", id), JobType::Service) }
}

fn controller(ledger: &Ledger) -> Controller {
    let desired_hash = |alloc: AllocId, revision: Option<u64>| {
        alloc.0.wrapping_mul(3).wrapping_add(u128::from(revision.is_none()))
    };
    let config = ControllerConfig { server: ServerId(1), planning_max: 8, desired_hash, seed: 1 };
    Controller::new(config, ledger.clone())
}

/// A controller, a log that applies at once, and one planner.
struct Cluster {
    controller: Controller,
    store: Store,
    view: Store,
    planner: Planner,
    ledger: Ledger,
    seed: u128,
    planned: usize,
    seconds: u64,
    /// What agents have said of allocations.
    reported: BTreeMap<AllocId, ClientStatus>,
    /// The last message of each agent.
    seqs: BTreeMap<SessionId, u64>,
    /// The last message of desired state that each was sent.
    desired: BTreeMap<SessionId, u64>,
}

fn observed(id: AllocId, status: ClientStatus) -> ObservedAlloc {
    let runs = status == ClientStatus::Running;
    let task = ObservedTask {
        name: "t".into(),
        state: if runs { TaskState::Running } else { TaskState::Dead },
        failed: false,
        restarts: 0,
        last_restart: Timestamp(0),
        started_at: Timestamp(1),
        finished_at: Timestamp(u64::from(!runs)),
        exit: (0, 0, false),
        events: vec![],
    };
    ObservedAlloc {
        healthy: Some(runs),
        health_message: String::new(),
        id,
        status,
        description: String::new(),
        tasks: vec![task],
        modified_at: Timestamp(1),
        hash: id.0.wrapping_mul(7).wrapping_add(status as u128),
        revision: 0,
    }
}

struct Open;

impl LinkCapacity for Open {
    fn can_send(&self, _: SessionId) -> bool {
        true
    }
}

impl Cluster {
    fn new() -> Self {
        let ledger = Ledger::default();
        let mut cluster = Self {
            controller: controller(&ledger),
            store: Store::default(),
            view: Store::default(),
            planner: Planner::default(),
            ledger,
            seed: 0,
            planned: 0,
            seconds: 1_000,
            reported: BTreeMap::new(),
            seqs: BTreeMap::new(),
            desired: BTreeMap::new(),
        };
        cluster.tell(Event::Recovered { term: 0, store: Box::default() });
        cluster.tell(Event::LeadershipGained { term: 1 });
        cluster
    }

    /// A server that has the state and does not lead.
    fn restart(&mut self) {
        self.controller = controller(&self.ledger);
        self.tell(Event::Recovered { term: 1, store: Box::new(self.store.clone()) });
    }

    fn of_nodes(nodes: u128, memory_mb: u32) -> Self {
        let mut cluster = Self::new();
        (1..=nodes).for_each(|node| cluster.join(node, memory_mb));
        cluster
    }

    /// 10,000 nodes and 100 services of 1,000 allocations.
    fn of_services() -> Self {
        let mut cluster = Self::of_nodes(10_000, 4_000);
        (0..100).for_each(|number| cluster.register(service(&format!("web-{number}"), 1_000, 100)));
        cluster
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.seconds * 1_000_000_000)
    }

    fn tick(&mut self) {
        self.tell(Event::Tick);
    }

    fn tell(&mut self, event: Event) {
        self.tell_all(vec![event]);
    }

    /// All of these have happened before the first of them is looked at.
    fn tell_all(&mut self, mut events: Vec<Event>) {
        while !events.is_empty() {
            let (mut actions, mut log) = (Vec::new(), Vec::new());
            let now = Now { wall: self.wall(), monotonic: Duration::from_secs(self.seconds) };
            events.drain(..).for_each(|event| self.controller.handle(event, now, &mut actions));
            self.controller.flush(&Open, &mut actions);
            for action in actions {
                self.act(action, &mut events, &mut log);
            }
            let applied: Vec<_> = log.into_iter().map(|entry| self.store.apply(entry)).collect();
            if !applied.is_empty() {
                events.push(Event::Applied { term: 1, store: Box::new(self.store.clone()), applied });
            }
        }
    }

    fn act(&mut self, action: Action, events: &mut Vec<Event>, log: &mut Vec<Entry>) {
        match action {
            Action::Propose { entry, .. } => log.push(entry.into_parts().0),
            Action::Plan(PlanRequest { term, eval, now, .. }) => {
                (self.seed, self.planned) = (self.seed + 1, self.planned + 1);
                self.planner.follow(&self.view, &self.ledger.lock());
                let plan = self.planner.plan(&self.view, &eval, now, self.seed as u64);
                let ticket = self.ledger.lock().add(&plan.job.namespace, plan.claims());
                events.push(Event::Planned { term, plan: Box::new(plan), ticket });
            }
            Action::Publish { store, .. } => {
                self.ledger.lock().settle(store.index());
                self.view = store;
            }
            Action::Send(session, NodeMessage::Desired(desired)) => {
                self.desired.insert(session, desired.seq);
            }
            _ => {}
        }
    }

    fn request(&mut self, commands: Vec<Command>) {
        self.request_all(vec![commands]);
    }

    fn request_all(&mut self, requests: Vec<Vec<Command>>) {
        let request = |commands: Vec<_>| {
            Event::Requested(Request { token: RequestToken(1), commands: commands.into() })
        };
        self.tell_all(requests.into_iter().map(request).collect());
    }

    /// Agents report what is new to them: what should run does and is well, what should not has ended. The time that the
    /// controller took for it.
    fn report(&mut self) -> Duration {
        let mut by_node: BTreeMap<u128, Vec<Arc<ObservedAlloc>>> = BTreeMap::new();
        for (_, row) in self.store.allocs().iter().filter(|(_, row)| !row.is_terminal()) {
            let status = if row.is_desired() { ClientStatus::Running } else { ClientStatus::Complete };
            let known = self.reported.insert(row.id, status);
            if let Some(node) = self.store.nodes().row(row.node).filter(|_| known != Some(status)) {
                by_node.entry(node.id.0).or_default().push(Arc::new(observed(row.id, status)));
            }
        }
        let events = by_node.into_iter().map(|(node, allocs)| {
            let session = SessionId(node as u64);
            let seq = self.seqs.entry(session).or_insert(1);
            *seq += 1;
            let desired_seq = self.desired.get(&session).copied().unwrap_or_default();
            Event::Observed { session, seq: *seq, desired_seq, allocs, resync_done: false }
        });
        let events = events.collect();
        let began = Instant::now();
        self.tell_all(events);
        self.tick();
        began.elapsed()
    }

    /// A drain of which the deadline has come already.
    fn drain(&self, node: u128) -> Command {
        self.drain_until(node, Some(self.wall()))
    }

    fn drain_until(&self, node: u128, deadline: Option<Timestamp>) -> Command {
        let drain = NewDrain { deadline, ignore_system: false, requested_ns: 0 };
        let (node, meta) = (NodeId(node), BTreeMap::new());
        Command::DrainNode(Box::new(DrainNode { node, drain: Some(drain), eligible: false, meta }))
    }

    /// Allocations that should run on these nodes, and on all.
    fn wanted_on(&self, nodes: RangeInclusive<u128>) -> (usize, usize) {
        let rows = self.store.allocs().iter().filter(|(_, row)| row.is_desired());
        let homes = rows.filter_map(|(_, row)| self.store.nodes().row(row.node));
        homes.fold((0, 0), |(there, all), home| (there + usize::from(nodes.contains(&home.id.0)), all + 1))
    }

    fn register(&mut self, job: Job) {
        self.seed += 1;
        let eval = EvalId(self.seed << 64);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
        self.request(vec![Command::RegisterJob(Box::new(register))]);
    }

    fn join(&mut self, id: u128, memory_mb: u32) {
        let resources = Resources { cpu_mhz: 400_000, memory_mb, disk_mb: 100_000 };
        let attributes = [("driver.mock_driver".to_owned(), "1".to_owned())].into();
        let session = SessionId(id as u64);
        let hello = Hello {
            node: Node { attributes, ..Node::new(NodeId(id), &format!("n{id}"), resources) },
            cluster: self.store.cluster().id,
            epoch: 1,
            instance: 1,
            dial: 0,
            index: Index::default(),
            seq: 0,
            desired_digest: 0,
            observed_digest: 0,
            checkpoint: None,
        };
        self.tell(Event::SessionOpened(session, Box::new(hello)));
        let resync_done = true;
        self.tell(Event::Observed { session, seq: 1, desired_seq: 0, allocs: vec![], resync_done });
    }
}
