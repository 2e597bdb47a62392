//! What the store does with one command after another, and what a snapshot restores.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Placement, Stop, StopReason},
    command::{
        Collect, Command, DeregisterJob, Entry, EvalOutcome, PlanRecord, Refusal, RegisterJob, ScaleJob,
    },
    device::{DeviceGrant, DeviceInstance, NodeDevice},
    eval::{EvalStatus, Trigger},
    job::{Group, Job, JobType, Network, Port, Task, TaskResources},
    node::{Node, NodeStatus},
    resources::Resources,
    scaling::ScalingEvent,
    store::{JobStatus, Store, snapshot},
};

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
        host_ip: "127.0.0.1".into(),
        secret_hash: vec![1; 32],
        ..Node::new(
            NodeId(id),
            &format!("n{id}"),
            Resources { cpu_mhz: 100_000, memory_mb: 100_000, disk_mb: 100_000 },
        )
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
    /// A node whose agent has confirmed what runs there.
    fn add_node(&mut self, node: Node) {
        let ready = Command::SetNodeStatus(node.id, NodeStatus::Ready, None);
        self.apply(vec![Command::RegisterNode(Box::new(node)), ready]);
    }

    fn apply(&mut self, commands: Vec<Command>) -> Vec<Result<(), Refusal>> {
        self.index += 1;
        let entry = Entry::new(Index(self.index), Timestamp(self.index * 1_000), commands);
        let read = Entry::decode(&entry.encode()).unwrap();
        assert_eq!(read, entry);
        self.store.apply(read).outcomes
    }

    fn register(&mut self, job: Job) -> EvalId {
        self.evals += 1;
        let eval = EvalId(self.evals);
        let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
        assert_eq!(self.apply(vec![Command::RegisterJob(Box::new(register))]), [Ok(())]);
        eval
    }

    fn plan(&mut self, eval: EvalId, placements: Vec<Placement>, stops: Vec<Stop>, finish: bool) {
        let Some(job) = self.store.eval(eval).map(|eval| eval.job.clone()) else { return };
        let Some(row) = self.store.job(&job) else { return };
        let outcome = finish.then(|| EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: vec![].into(),
            next: vec![],
        });
        let job_version = row.current().version;
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
        canary: false,
        job_version: None,
    }
}

fn end(id: u128, status: ClientStatus) -> Command {
    Command::EndAllocs(vec![AllocEnd { alloc: AllocId(id), status, tasks: vec![], observed_at: None }])
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
fn a_successor_takes_over_the_capacity_and_ports_it_was_promised() {
    let mut world = World::default();
    world.add_node(node(1));
    let eval = world.register(job("web", 1000, Some(80)));
    world.plan(eval, vec![place(1, 1, vec![], vec![80])], vec![], true);
    assert_eq!(used_memory(&world.store, 1), 1000);
    let eval = world.register(job("web", 1500, Some(80)));
    let stop = Stop { alloc: AllocId(1), reason: StopReason::JobUpdated, observed_at: None };
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
    world.add_node(node(1));
    let eval = world.register(job("web", 1000, Some(80)));
    world.plan(eval, vec![place(1, 1, vec![], vec![80])], vec![], false);
    let stop = |id| Stop { alloc: AllocId(id), reason: StopReason::Requested, observed_at: None };
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
        instances: vec![DeviceInstance { id: "g0".into(), healthy: true }],
        ..NodeDevice::default()
    };
    let node = Node { devices: vec![gpus], cores: vec![0, 1], ..node(1) };
    world.add_node(node);
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
    let stop = Stop { alloc: AllocId(1), reason: StopReason::Requested, observed_at: None };
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
fn a_port_that_several_hold_in_turn_is_held_once_after_a_restore() {
    let mut world = World::default();
    world.add_node(node(1));
    let eval = world.register(job("web", 10, Some(80)));
    let placements =
        [vec![], vec![1], vec![1, 2]].map(|after: Vec<u128>| after.into_iter().map(AllocId).collect());
    for (id, after) in (1..).zip(placements) {
        // As entries of version 1 could place it.
        let placements = vec![place(id, 1, after, vec![80])];
        let job = JobKey::new("default", "web");
        let snapshot_index = world.store.index();
        let (job_version, stops, outcome) = (0, vec![], None);
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
        world.apply(vec![Command::CommitPlanUnchecked(Box::new(record))]);
    }
    assert_eq!(ports(&world.store), [80]);
    assert_eq!(ports(&restored(&world.store)), [80]);
}

#[test]
fn a_job_is_registered_only_at_the_index_that_was_expected() {
    let mut world = World::default();
    world.register(job("web", 100, None));
    let at = world.store.job(&JobKey::new("default", "web")).unwrap().current().index;
    let again = |only_if| {
        let register =
            RegisterJob { job: Arc::new(job("web", 200, None)), eval: EvalId(99), only_if, submission: None };
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
    let counts: Vec<_> =
        row.scalings.iter().flat_map(|events| events.iter()).map(|e| (e.count, e.previous_count)).collect();
    assert_eq!(counts, [(None, 7), (Some(7), before)], "newest first");
    assert_eq!(restored.eval(EvalId(7)).unwrap().trigger, Trigger::JobScaling);
}

#[test]
fn a_purged_job_is_collected_once_nothing_of_it_lives() {
    let mut world = World::default();
    world.add_node(node(1));
    let key = JobKey::new("default", "web");
    let eval = world.register(job("web", 100, None));
    world.plan(eval, vec![place(1, 1, vec![], vec![])], vec![], true);
    assert_eq!(world.store.job(&key).unwrap().status(), JobStatus::Running);
    let deregister = DeregisterJob { job: key.clone(), purge: true, eval: EvalId(50) };
    world.apply(vec![Command::DeregisterJob(deregister)]);
    let left = key.purged(EvalId(50));
    let collect = || Command::Collect(Box::new(Collect { jobs: vec![left.clone()], ..Collect::default() }));
    world.apply(vec![collect()]);
    assert!(world.store.job(&left).is_some() && world.store.job(&key).is_none());
    world.plan(
        EvalId(50),
        vec![],
        vec![Stop { alloc: AllocId(1), reason: StopReason::JobStopped, observed_at: None }],
        true,
    );
    world.apply(vec![end(1, ClientStatus::Complete), collect()]);
    assert!(world.store.jobs().is_empty());
    assert!(world.store.allocs().is_empty() && world.store.evals().is_empty());
}

fn restored(store: &Store) -> Store {
    let mut bytes = Vec::new();
    snapshot::write(store, &mut bytes).unwrap();
    snapshot::read(&mut bytes.as_slice()).unwrap()
}

#[test]
fn a_damaged_snapshot_is_refused() {
    let mut world = World::default();
    world.add_node(node(1));
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
        assert!(
            snapshot::read_hash(&mut other.as_slice()).is_err(),
            "a flipped bit in byte {at} was not found"
        );
    }
}

#[test]
fn a_job_keeps_its_type() {
    let mut world = World::default();
    world.register(job("web", 100, None));
    let batch = Job { job_type: JobType::Batch, ..job("web", 100, None) };
    let register = RegisterJob { job: Arc::new(batch), eval: EvalId(77), only_if: None, submission: None };
    let refused = world.apply(vec![Command::RegisterJob(Box::new(register))]).remove(0).unwrap_err();
    let says = "job default/web is a service job and cannot become a batch job: give it another name, or stop and purge it first";
    assert_eq!(refused.to_string(), says);
}

/// When an allocation last changed: for decisions, and for readers.
fn changed(store: &Store, id: u128) -> [u64; 2] {
    let slot = store.allocs().find(AllocId(id)).expect("it is there");
    let detail = store.allocs().detail(slot).expect("it has a detail");
    [detail.modified_at, detail.changed_at()].map(|at| at.0)
}

#[test]
fn an_end_keeps_when_a_clock_that_is_ahead_saw_it() {
    let ahead = 1 << 50;
    for is_lost in [false, true] {
        for (observed_at, version) in [(None, 6), (Some(1), 6), (Some(ahead), 5), (Some(ahead), 6)] {
            let mut world = World::default();
            world.add_node(node(1));
            let eval = world.register(job("web", 100, None));
            world.plan(eval, vec![place(1, 1, vec![], vec![])], vec![], true);
            let (alloc, observed_at) = (AllocId(1), observed_at.map(Timestamp));
            let end = match is_lost {
                false => {
                    let (status, tasks) = (ClientStatus::Failed, vec![]);
                    Command::EndAllocs(vec![AllocEnd { alloc, status, tasks, observed_at }])
                }
                true => {
                    world.apply(vec![Command::SetNodeStatus(NodeId(1), NodeStatus::Down, None)]);
                    let eval = world.register(job("web", 100, None));
                    let row = world.store.job(&JobKey::new("default", "web")).expect("it is there");
                    let stop = Stop { alloc, reason: StopReason::NodeLost, observed_at };
                    Command::CommitPlan(Box::new(PlanRecord {
                        eval,
                        job: row.key.clone(),
                        job_version: row.current().version,
                        snapshot_index: world.store.index(),
                        placements: vec![],
                        stops: vec![stop],
                        outcome: None,
                        deployment: None,
                        updates: None,
                    }))
                }
            };
            world.index += 1;
            let at = world.index * 1_000;
            let entry = Entry::new(Index(world.index), Timestamp(at), vec![end]).of_version(version);
            world.store.apply(Entry::decode(&entry.encode()).expect("it was just encoded"));
            assert!(world.store.alloc(alloc).expect("it is there").1.is_terminal());
            let is_kept = observed_at == Some(Timestamp(ahead)) && version == 6;
            assert_eq!(changed(&world.store, 1), [at, if is_kept { ahead } else { at }]);
            // What the log says of it later is no reason to go back.
            let again = world.register(job("web", 100, None));
            world.add_node(node(2));
            let next = Placement { previous: Some(alloc), ..place(2, 2, vec![], vec![]) };
            world.plan(again, vec![next], vec![], true);
            let at = world.index * 1_000;
            assert_eq!(changed(&world.store, 1), [at, if is_kept { ahead } else { at }]);
            let mut bytes = Vec::new();
            snapshot::write(&world.store, &mut bytes).expect("memory takes it");
            let read = snapshot::read(&mut &bytes[..]).expect("it was just written");
            assert_eq!(changed(&read, 1), changed(&world.store, 1));
            assert_eq!(read.hash(), world.store.hash());
        }
    }
}
