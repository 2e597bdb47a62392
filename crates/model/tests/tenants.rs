//! What namespaces hold, as allocations come, replace each other and go, and what becomes of it in a snapshot.

use std::{collections::BTreeMap, sync::Arc};

use berth_model::{
    AllocId, EvalId, Index, JobKey, NodeId, Timestamp,
    alloc::{AllocEnd, ClientStatus, Placement},
    command::{Command, Entry, PlanRecord, Refusal, RegisterJob},
    device::DeviceAsk,
    job::{Group, Job, JobType, Task, TaskResources},
    namespace::Namespace,
    node::{Node, NodeStatus},
    quota::{Bounds, Quota},
    resources::Resources,
    store::{Store, snapshot},
};

#[derive(Default)]
struct World {
    store: Store,
    index: u64,
}

impl World {
    fn try_apply(&mut self, command: Command) -> Result<(), Refusal> {
        self.index += 1;
        let entry = Entry::new(Index(self.index), Timestamp(self.index), vec![command]);
        assert_eq!(Entry::decode(&entry.encode()).unwrap(), entry);
        self.store.apply(entry).outcomes.remove(0)
    }

    fn apply(&mut self, command: Command) {
        self.try_apply(command).unwrap();
        let mut bytes = Vec::new();
        snapshot::write(&self.store, &mut bytes).unwrap();
        let restored = snapshot::read(&mut bytes.as_slice()).unwrap();
        assert_eq!(books(&restored), books(&self.store), "a snapshot counts otherwise");
    }

    fn namespace(&mut self, name: &str, parent: Option<&str>, quota: Option<&str>) -> Result<(), Refusal> {
        let (parent, quota) = (parent.map(str::to_owned), quota.map(str::to_owned));
        self.try_apply(Command::PutNamespace(Box::new(Namespace { parent, quota, ..Namespace::new(name) })))
    }

    fn quota(&mut self, name: &str) {
        let limit = Bounds { memory_mb: Some(1000), ..Bounds::default() };
        self.apply(Command::PutQuota(Box::new(Quota { name: name.to_owned(), limit, ..Quota::default() })));
    }

    /// A job of one group that asks for `memory_mb` and one GPU.
    fn register(&mut self, namespace: &str, eval: u128, memory_mb: u32) {
        let gpu = DeviceAsk { name: "nvidia/gpu".into(), count: 1, ..DeviceAsk::default() };
        let resources =
            TaskResources { cpu_mhz: 10, memory_mb, devices: vec![gpu], ..TaskResources::default() };
        let task = Task { resources, ..Task::new("t", "mock_driver", JobType::Service) };
        let group = Group { tasks: vec![task], ..Group::new("g", JobType::Service) };
        let job = Job { groups: vec![group], ..Job::new(JobKey::new(namespace, "web"), JobType::Service) };
        let register =
            RegisterJob { job: Arc::new(job), eval: EvalId(eval), only_if: None, submission: None };
        self.apply(Command::RegisterJob(Box::new(register)));
    }

    fn place(&mut self, eval: u128, id: u128, after: &[u128]) {
        let job = self.store.eval(EvalId(eval)).unwrap().job.clone();
        let placement = Placement {
            id: AllocId(id),
            node: NodeId(1),
            group: 0,
            name_index: 0,
            ports: vec![],
            previous: None,
            after: after.iter().map(|id| AllocId(*id)).collect(),
            reschedules: vec![],
            devices: vec![],
            cores: vec![],
            canary: false,
            job_version: None,
        };
        let job_version = self.store.job(&job).unwrap().current().version;
        self.apply(Command::CommitPlan(Box::new(PlanRecord {
            eval: EvalId(eval),
            job,
            job_version,
            snapshot_index: Index(0),
            placements: vec![placement],
            stops: vec![],
            deployment: None,
            outcome: None,
            updates: None,
        })));
    }

    fn end(&mut self, id: u128) {
        let end =
            AllocEnd { alloc: AllocId(id), status: ClientStatus::Complete, tasks: vec![], observed_at: None };
        self.apply(Command::EndAllocs(vec![end]));
    }
}

/// What each namespace and each quota holds: MiB and GPUs.
fn books(store: &Store) -> BTreeMap<String, (u64, u64)> {
    let namespaces = store.namespaces().iter().map(|row| (row.namespace.name.clone(), &row.used));
    let quotas = store.quotas().iter().map(|row| (format!("quota {}", row.quota.name), &row.used));
    let all = namespaces.chain(quotas);
    all.map(|(name, used)| (name, (used.memory_mb, used.devices("gpu") / 1000))).collect()
}

fn world() -> World {
    let mut world = World::default();
    world.apply(Command::RegisterNode(Box::new(Node::new(
        NodeId(1),
        "n1",
        Resources { cpu_mhz: 10_000, memory_mb: 10_000, disk_mb: 10_000 },
    ))));
    world.apply(Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, None));
    world.quota("q");
    world.namespace("eng", None, Some("q")).unwrap();
    world.namespace("dev", Some("eng"), None).unwrap();
    world.namespace("ops", None, None).unwrap();
    world
}

#[test]
fn a_quota_counts_what_the_namespaces_below_hold() {
    let mut world = world();
    world.register("dev", 1, 100);
    world.register("eng", 2, 50);
    world.place(1, 11, &[]);
    world.place(2, 12, &[]);
    let held = |world: &World, name: &str| books(&world.store)[name];
    assert_eq!(
        (held(&world, "dev"), held(&world, "eng"), held(&world, "quota q")),
        ((100, 1), (50, 1), (150, 2))
    );
    world.namespace("dev", Some("ops"), None).unwrap();
    assert_eq!(held(&world, "quota q"), (50, 1), "dev has moved away");
    world.namespace("dev", Some("eng"), Some("q")).unwrap();
    assert_eq!(held(&world, "quota q"), (150, 2), "it counts once, however often the quota is on its path");
    world.end(11);
    world.end(12);
    assert_eq!((held(&world, "dev"), held(&world, "quota q")), ((0, 0), (0, 0)));
}

#[test]
fn a_successor_holds_the_capacity_of_its_predecessor_once() {
    let mut world = world();
    world.register("dev", 1, 100);
    world.place(1, 11, &[]);
    world.register("dev", 2, 130);
    world.place(2, 12, &[11]);
    assert_eq!(books(&world.store)["dev"], (130, 1));
    world.end(11);
    assert_eq!(books(&world.store)["dev"], (130, 1));
    world.end(12);
    assert_eq!(books(&world.store)["dev"], (0, 0));
}

#[test]
fn a_successor_that_ends_first_leaves_the_capacity_with_its_predecessor() {
    let mut world = world();
    world.register("dev", 1, 100);
    world.place(1, 11, &[]);
    world.place(1, 12, &[11]);
    world.end(12);
    assert_eq!(books(&world.store)["dev"], (100, 1));
    world.end(11);
    assert_eq!(books(&world.store)["dev"], (0, 0));
}

#[test]
fn capacity_taken_from_another_namespace_is_held_by_both_until_it_is_free() {
    let mut world = world();
    world.register("dev", 1, 100);
    world.register("ops", 2, 80);
    world.place(1, 11, &[]);
    world.place(2, 12, &[11]);
    assert_eq!((books(&world.store)["dev"], books(&world.store)["ops"]), ((100, 1), (80, 1)));
    world.end(11);
    assert_eq!((books(&world.store)["dev"], books(&world.store)["ops"]), ((0, 0), (80, 1)));
    world.end(12);
    assert_eq!((books(&world.store)["dev"], books(&world.store)["ops"]), ((0, 0), (0, 0)));
}

#[test]
fn a_tree_of_namespaces_has_no_loops_and_no_end() {
    let mut world = world();
    let refused = |outcome: Result<(), Refusal>| outcome.unwrap_err().to_string();
    let looped = refused(world.namespace("eng", Some("dev"), None));
    assert_eq!(looped, "namespace \"eng\": it cannot be below dev, which is below it");
    assert_eq!(
        refused(world.namespace("x", Some("x"), None)),
        "namespace \"x\" does not exist: create it with `berth namespace apply`"
    );
    world.namespace("n1", None, None).unwrap();
    for n in 2..=16 {
        world.namespace(&format!("n{n}"), Some(&format!("n{}", n - 1)), None).unwrap();
    }
    let deep = "namespace \"n17\": it would make 17 levels, at most 16 are possible";
    assert_eq!(refused(world.namespace("n17", Some("n16"), None)), deep);
    let moved = "namespace \"n1\": it would make 18 levels, at most 16 are possible";
    assert_eq!(refused(world.namespace("n1", Some("dev"), None)), moved);
}

#[test]
fn a_job_of_an_unknown_namespace_is_refused() {
    let mut world = world();
    let job = Job::new(JobKey::new("nobody", "web"), JobType::Service);
    let register = RegisterJob { job: Arc::new(job), eval: EvalId(1), only_if: None, submission: None };
    let outcome = world.try_apply(Command::RegisterJob(Box::new(register)));
    assert_eq!(outcome, Err(Refusal::NoNamespace("nobody".into())));
}
