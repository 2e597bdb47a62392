//! The store under random commands: what it counts is what is there, and a snapshot restores it exactly.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Placement, Stop, StopReason},
    command::{
        Collect, Command, DeregisterJob, Entry, EvalOutcome, PlanRecord, Refusal, RegisterJob, ScaleJob,
    },
    device::{DeviceGrant, NodeDevice},
    eval::{EvalStatus, Trigger},
    job::{Group, Job, JobType, Network, Port, Task, TaskResources},
    node::{Node, NodeStatus},
    resources::Resources,
    scaling::ScalingEvent,
    store::{JobStatus, Store, snapshot},
};
use proptest::prelude::*;

fn job(id: &str, memory_mb: u32, port: Option<u16>) -> Job {
    let ports = port.map(|fixed| Port { label: "http".into(), fixed: Some(fixed), ..Port::default() });
    let task = Task {
        resources: TaskResources { cpu_mhz: 100, memory_mb, ..TaskResources::default() },
        ..Task::new("t", "mock_driver", JobType::Service)
    };
    let group = Group {
        networks: vec![Network { ports: ports.into_iter().collect(), ..Network::default() }],
        tasks: vec![task],
        ..Group::new("g", JobType::Service)
    };
    Job { groups: vec![group], ..Job::new(JobKey::new("default", id), JobType::Service) }
}

fn node(id: u128) -> Node {
    Node {
        id: NodeId(id),
        name: format!("n{id}"),
        datacenter: "dc1".into(),
        pool: "default".into(),
        class: String::new(),
        attributes: BTreeMap::new(),
        meta: BTreeMap::new(),
        total: Resources { cpu_mhz: 100_000, memory_mb: 100_000, disk_mb: 100_000 },
        reserved: Resources::ZERO,
        reserved_ports: vec![],
        host_ip: "127.0.0.1".into(),
        dynamic_ports: (20_000, 32_000),
        secret_hash: vec![1; 32],
        devices: vec![],
        cores: vec![],
    }
}

/// A store and the entries that made it.
#[derive(Default)]
struct World {
    store: Store,
    index: u64,
    evals: u128,
}

impl World {
    fn apply(&mut self, commands: Vec<Command>) -> Vec<Result<(), Refusal>> {
        self.index += 1;
        let entry = Entry { index: Index(self.index), at: Timestamp(self.index * 1_000), commands };
        let read = Entry::decode(&entry.encode()).unwrap();
        assert_eq!(read, entry);
        self.store.apply(read).outcomes
    }

    fn register(&mut self, job: Job) -> EvalId {
        self.evals += 1;
        let eval = EvalId(self.evals);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None };
        assert_eq!(self.apply(vec![Command::RegisterJob(Box::new(register))]), [Ok(())]);
        eval
    }

    fn plan(&mut self, eval: EvalId, placements: Vec<Placement>, stops: Vec<Stop>, finish: bool) {
        let Some(job) = self.store.eval(eval).map(|eval| eval.job.clone()) else { return };
        let Some(row) = self.store.job(&job) else { return };
        let outcome = finish.then(|| EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: vec![],
            next: vec![],
        });
        let job_version = row.current().version;
        let snapshot_index = self.store.index();
        let record = PlanRecord { eval, job, job_version, snapshot_index, placements, stops, outcome };
        self.apply(vec![Command::CommitPlan(Box::new(record))]);
    }
}

fn place(id: u128, node: u128, after: Vec<AllocId>, ports: Vec<u16>) -> Placement {
    Placement {
        id: AllocId(id),
        node: NodeId(node),
        group: 0,
        name_index: 0,
        ports,
        previous: after.first().copied(),
        after,
        reschedules: vec![],
        devices: vec![],
        cores: vec![],
    }
}

fn end(id: u128, status: ClientStatus) -> Command {
    Command::EndAllocs(vec![AllocEnd { alloc: AllocId(id), status, tasks: vec![] }])
}

/// Those of node 1.
fn ports(store: &Store) -> Vec<u16> {
    let slot = store.nodes().find(NodeId(1)).unwrap();
    store.nodes().detail(slot).unwrap().ports.as_slice().to_vec()
}

fn used_memory(store: &Store, id: u128) -> u32 {
    store.node(NodeId(id)).unwrap().1.used.memory_mb
}

#[test]
fn a_successor_takes_over_the_room_and_ports_it_was_promised() {
    let mut world = World::default();
    world.apply(vec![Command::RegisterNode(Box::new(node(1)))]);
    let eval = world.register(job("web", 1000, Some(80)));
    world.plan(eval, vec![place(1, 1, vec![], vec![80])], vec![], true);
    assert_eq!(used_memory(&world.store, 1), 1000);
    let eval = world.register(job("web", 1500, Some(80)));
    let stop = Stop { alloc: AllocId(1), reason: StopReason::JobUpdated };
    world.plan(eval, vec![place(2, 1, vec![AllocId(1)], vec![80])], vec![stop], true);
    assert_eq!(used_memory(&world.store, 1), 1500);
    world.apply(vec![end(1, ClientStatus::Complete)]);
    assert_eq!(used_memory(&world.store, 1), 1500);
    assert_eq!(ports(&world.store), [80]);
    world.apply(vec![end(2, ClientStatus::Failed)]);
    assert_eq!((used_memory(&world.store, 1), ports(&world.store)), (0, vec![]));
}

#[test]
fn a_successor_that_ends_first_gives_the_promise_back() {
    let mut world = World::default();
    world.apply(vec![Command::RegisterNode(Box::new(node(1)))]);
    let eval = world.register(job("web", 1000, Some(80)));
    world.plan(eval, vec![place(1, 1, vec![], vec![80])], vec![], false);
    let stop = |id| Stop { alloc: AllocId(id), reason: StopReason::Requested };
    world.plan(eval, vec![place(2, 1, vec![AllocId(1)], vec![80])], vec![stop(1)], false);
    assert_eq!(used_memory(&world.store, 1), 1000);
    world.apply(vec![end(2, ClientStatus::Complete)]);
    assert_eq!((used_memory(&world.store, 1), ports(&world.store)), (1000, vec![80]));
    world.apply(vec![end(1, ClientStatus::Complete)]);
    assert_eq!((used_memory(&world.store, 1), ports(&world.store)), (0, vec![]));
}

#[test]
fn devices_and_cores_are_held_until_their_holder_has_ended_also_after_a_restore() {
    let mut world = World::default();
    let gpus = NodeDevice {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        model: "T4".into(),
        ..NodeDevice::default()
    };
    let node = Node { devices: vec![gpus], cores: vec![0, 1], ..node(1) };
    world.apply(vec![Command::RegisterNode(Box::new(node))]);
    let eval = world.register(job("web", 100, None));
    let holding = |id, after: Vec<AllocId>, gpu: &str, milli_each, cores: &[u16]| Placement {
        devices: vec![DeviceGrant {
            device: "nvidia/gpu/T4".into(),
            instances: vec![gpu.into()],
            milli_each,
        }],
        cores: cores.to_vec(),
        ..place(id, 1, after, vec![])
    };
    let held = |world: &World| {
        let of = |store: &Store| {
            let slot = store.nodes().find(NodeId(1)).unwrap();
            let held = store.nodes().detail(slot).unwrap().devices.clone();
            format!("{:?} {:?}", held.milli, held.cores.keys().collect::<Vec<_>>())
        };
        assert_eq!(of(&restored(&world.store)), of(&world.store));
        of(&world.store)
    };
    world.plan(
        eval,
        vec![holding(1, vec![], "g0", 400, &[0]), holding(2, vec![], "g0", 300, &[])],
        vec![],
        false,
    );
    assert_eq!(held(&world), r#"{"g0": 700} [0]"#);
    let stop = Stop { alloc: AllocId(1), reason: StopReason::Requested };
    world.plan(eval, vec![holding(3, vec![AllocId(1)], "g0", 600, &[0, 1])], vec![stop], false);
    assert_eq!(held(&world), r#"{"g0": 900} [0, 1]"#, "400 of the successor's 600 were its predecessor's");
    world.apply(vec![end(1, ClientStatus::Complete)]);
    assert_eq!(held(&world), r#"{"g0": 900} [0, 1]"#);
    world.apply(vec![end(3, ClientStatus::Failed)]);
    assert_eq!(held(&world), r#"{"g0": 300} []"#);
    world.apply(vec![end(2, ClientStatus::Complete)]);
    assert_eq!(held(&world), "{} []");
}

#[test]
fn a_job_is_registered_only_at_the_index_that_was_expected() {
    let mut world = World::default();
    world.register(job("web", 100, None));
    let at = world.store.job(&JobKey::new("default", "web")).unwrap().current().index;
    let again = |only_if| {
        let register = RegisterJob { job: Arc::new(job("web", 200, None)), eval: EvalId(99), only_if };
        Command::RegisterJob(Box::new(register))
    };
    let refused = world.apply(vec![again(Some(Index(0)))]);
    assert!(matches!(&refused[0], Err(Refusal::JobChanged { current, .. }) if *current == at), "{refused:?}");
    assert_eq!(world.apply(vec![again(Some(at))]), [Ok(())]);
    assert_eq!(world.store.job(&JobKey::new("default", "web")).unwrap().current().version, 1);
}

#[test]
fn scaling_makes_a_version_and_what_was_said_about_it_survives_a_restore() {
    let mut world = World::default();
    world.register(job("web", 10, None));
    let key = JobKey::new("default", "web");
    let event = |count: Option<u32>, message: &str| ScalingEvent {
        group: "g".to_owned(),
        count,
        previous_count: 0,
        error: count.is_none(),
        message: message.to_owned(),
        meta: BTreeMap::new(),
        eval: count.map(|count| EvalId(u128::from(count))),
        at: Timestamp::default(),
        index: Index::default(),
    };
    let scale = |event: ScalingEvent| {
        vec![Command::ScaleJob(Box::new(ScaleJob { job: JobKey::new("default", "web"), event }))]
    };
    let before = world.store.job(&key).unwrap().job().groups[0].count;
    assert_eq!(world.apply(scale(event(Some(7), "more"))), [Ok(())]);
    assert_eq!(world.apply(scale(event(None, "no nodes"))), [Ok(())]);
    let unknown = ScalingEvent { group: "nope".to_owned(), ..event(Some(1), "") };
    assert_eq!(world.apply(scale(unknown)), [Err(Refusal::NoGroup(key.clone(), "nope".to_owned()))]);
    let restored = restored(&world.store);
    assert_eq!(restored.hash(), world.store.hash());
    let row = restored.job(&key).unwrap();
    assert_eq!((row.current().version, row.job().groups[0].count), (1, 7));
    let told: Vec<_> =
        row.scalings.iter().flat_map(|events| events.iter()).map(|e| (e.count, e.previous_count)).collect();
    assert_eq!(told, [(None, 7), (Some(7), before)], "newest first");
    assert_eq!(restored.eval(EvalId(7)).unwrap().trigger, Trigger::JobScaling);
}

#[test]
fn a_purged_job_is_forgotten_once_nothing_of_it_lives() {
    let mut world = World::default();
    world.apply(vec![Command::RegisterNode(Box::new(node(1)))]);
    let key = JobKey::new("default", "web");
    let eval = world.register(job("web", 100, None));
    world.plan(eval, vec![place(1, 1, vec![], vec![])], vec![], true);
    assert_eq!(world.store.job(&key).unwrap().status(), JobStatus::Running);
    let deregister = DeregisterJob { job: key.clone(), purge: true, eval: EvalId(50) };
    world.apply(vec![Command::DeregisterJob(deregister)]);
    let collect = || Command::Collect(Box::new(Collect { jobs: vec![key.clone()], ..Collect::default() }));
    world.apply(vec![collect()]);
    assert!(world.store.job(&key).is_some());
    world.plan(EvalId(50), vec![], vec![Stop { alloc: AllocId(1), reason: StopReason::JobStopped }], true);
    world.apply(vec![end(1, ClientStatus::Complete), collect()]);
    assert!(world.store.job(&key).is_none());
    assert!(world.store.allocs().is_empty() && world.store.evals().is_empty());
}

#[derive(Debug, Clone)]
enum Op {
    Register(u8, u32),
    Deregister(u8),
    Place { job: u8, node: u8, after: Option<u8> },
    Stop(u8, bool),
    End(u8, u8),
    NodeStatus(u8, bool),
    Collect,
    Snapshot,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..4_u8, 1..500_u32).prop_map(|(job, memory)| Op::Register(job, memory)),
        (0..4_u8).prop_map(Op::Deregister),
        (0..4_u8, 0..3_u8, prop::option::of(any::<u8>())).prop_map(|(job, node, after)| Op::Place {
            job,
            node,
            after
        }),
        (0..4_u8, 0..3_u8, prop::option::of(any::<u8>())).prop_map(|(job, node, after)| Op::Place {
            job,
            node,
            after
        }),
        (any::<u8>(), any::<bool>()).prop_map(|(alloc, lost)| Op::Stop(alloc, lost)),
        (any::<u8>(), 0..3_u8).prop_map(|(alloc, how)| Op::End(alloc, how)),
        (0..3_u8, any::<bool>()).prop_map(|(node, up)| Op::NodeStatus(node, up)),
        Just(Op::Collect),
        Just(Op::Snapshot),
    ]
}

fn perform(world: &mut World, op: &Op, allocs: &mut Vec<AllocId>, evals: &mut BTreeMap<u8, EvalId>) {
    let pick = |allocs: &[AllocId], at: u8| allocs.get(usize::from(at) % allocs.len().max(1)).copied();
    match op {
        Op::Register(number, memory) => {
            let eval = world.register(job(&format!("j{number}"), *memory, None));
            evals.insert(*number, eval);
        }
        Op::Deregister(number) => {
            world.evals += 1;
            let key = JobKey::new("default", &format!("j{number}"));
            let deregister = DeregisterJob { job: key, purge: true, eval: EvalId(world.evals) };
            world.apply(vec![Command::DeregisterJob(deregister)]);
        }
        Op::Place { job, node, after } => {
            let Some(eval) = evals.get(job) else { return };
            let id = allocs.len() as u128 + 1;
            let node = u128::from(*node) + 1;
            let after = after.and_then(|at| pick(allocs, at)).into_iter().collect();
            world.plan(*eval, vec![place(id, node, after, vec![])], vec![], false);
            allocs.push(AllocId(id));
        }
        Op::Stop(at, lost) => {
            let Some(alloc) = pick(allocs, *at) else { return };
            let Some(eval) = evals.values().next().copied() else { return };
            let reason = if *lost { StopReason::NodeLost } else { StopReason::Requested };
            world.plan(eval, vec![], vec![Stop { alloc, reason }], false);
        }
        Op::End(at, how) => {
            let Some(alloc) = pick(allocs, *at) else { return };
            let status =
                [ClientStatus::Complete, ClientStatus::Failed, ClientStatus::Lost][usize::from(*how)];
            world.apply(vec![end(alloc.0, status)]);
        }
        Op::NodeStatus(number, up) => {
            let status = if *up { NodeStatus::Ready } else { NodeStatus::Down };
            world.apply(vec![Command::SetNodeStatus(NodeId(u128::from(*number) + 1), status)]);
        }
        Op::Collect => {
            let keys = evals.keys().map(|n| JobKey::new("default", &format!("j{n}"))).collect();
            let collect = Collect { jobs: keys, allocs: allocs.clone(), ..Collect::default() };
            world.apply(vec![Command::Collect(Box::new(collect))]);
        }
        Op::Snapshot => world.store = restored(&world.store),
    }
}

fn restored(store: &Store) -> Store {
    let mut bytes = Vec::new();
    snapshot::write(store, &mut bytes).unwrap();
    snapshot::read(&mut bytes.as_slice()).unwrap()
}

/// What each node holds, added up from its allocations.
fn check_counts(store: &Store) {
    for (_, node) in store.nodes().iter() {
        let mut sum = Resources::ZERO;
        for slot in store.nodes().live(node) {
            let row = store.allocs().row(slot).unwrap();
            assert!(!row.is_terminal());
            let own = store.room_to_promise(slot);
            let promised = store.allocs().extra(slot).map_or(Resources::ZERO, |extra| extra.promised.room());
            sum = sum.plus(own).plus(promised);
        }
        assert_eq!(node.used, sum, "node {}", node.id);
    }
    for (_, job) in store.jobs().iter() {
        let rows: Vec<_> = store.jobs().allocs(job).filter_map(|slot| store.allocs().row(slot)).collect();
        assert_eq!(job.live as usize, rows.iter().filter(|row| !row.is_terminal()).count());
        let counted: u32 = job.counts.iter().map(|c| c.live).sum();
        assert_eq!(job.live, counted);
        let evals = store.jobs().evals(job).filter_map(|slot| store.evals().row(slot));
        assert_eq!(job.open_evals as usize, evals.filter(|eval| !eval.status.is_terminal()).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn counts_follow_content_and_snapshots_restore_it(ops in prop::collection::vec(op(), 1..120)) {
        let mut world = World::default();
        world.apply((1..=3).map(|id| Command::RegisterNode(Box::new(node(id)))).collect());
        let (mut allocs, mut evals) = (Vec::new(), BTreeMap::new());
        for op in &ops {
            let before = world.store.clone();
            let (hash, len) = (before.hash(), before.allocs().len());
            perform(&mut world, op, &mut allocs, &mut evals);
            prop_assert_eq!((before.hash(), before.allocs().len()), (hash, len), "a snapshot changed");
            check_counts(&world.store);
        }
        let again = restored(&world.store);
        prop_assert_eq!(again.hash(), world.store.hash());
        check_counts(&again);
    }
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut world = World::default();
    world.apply(vec![Command::RegisterNode(Box::new(node(1)))]);
    let eval = world.register(job("web", 100, None));
    world.plan(eval, vec![place(1, 1, vec![], vec![])], vec![], true);
    let mut bytes = Vec::new();
    snapshot::write(&world.store, &mut bytes).unwrap();
    assert!(snapshot::read(&mut &bytes[..bytes.len() - 1]).is_err());
    let mut other = bytes.clone();
    other[9] = 9;
    assert!(matches!(snapshot::read(&mut other.as_slice()), Err(snapshot::SnapshotError::Version(9))));
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert!(snapshot::read(&mut other.as_slice()).is_err(), "a flipped bit in byte {at} was not found");
    }
}

#[test]
fn a_job_keeps_its_type() {
    let mut world = World::default();
    world.register(job("web", 100, None));
    let batch = Job { job_type: JobType::Batch, ..job("web", 100, None) };
    let register = RegisterJob { job: Arc::new(batch), eval: EvalId(77), only_if: None };
    let refused = world.apply(vec![Command::RegisterJob(Box::new(register))]).remove(0).unwrap_err();
    let says = "job default/web is a service job and cannot become a batch job: give it another name, or stop and purge it first";
    assert_eq!(refused.to_string(), says);
}
