//! Random histories of commands: whatever happens in whatever order, what the store counts is what is there, nobody is
//! given what somebody else has, nothing points to what is gone, and a snapshot restores all of it.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocId, EvalId, Index, NodeId, Timestamp,
    alloc::{ClientStatus, Stop, StopReason},
    command::{Collect, Command},
    device::{DeviceGrant, DeviceInstance, DevicesHeld, NodeDevice},
    eval::EvalStatus,
    event::StateChange,
    job::JobType,
    node::{Node, NodeStatus},
    quota::Usage,
    resources::Resources,
    store::{AllocRow, JobRow, JobStatus, LiveTotals, SchedulingEligibility, Store},
};
use proptest::prelude::*;
use support::{World, end, job, key, node, place, restored};

const NODES: u8 = 3;
const JOBS: u8 = 4;
/// Small enough that nodes are full now and then.
const NODE_MEMORY_MB: u32 = 2000;

#[derive(Debug, Clone)]
enum Op {
    Register {
        job: u8,
        memory_mb: u32,
        port: bool,
    },
    Deregister(u8, bool),
    Scale(u8, u32),
    Place {
        job: u8,
        node: u8,
        after: Vec<u8>,
        stop: bool,
        gpu: bool,
    },
    Stop(u8, bool),
    End(u8, u8),
    NodeStatus(u8, bool),
    Eligible(u8, bool),
    RegisterNode(u8),
    /// Decided now and applied after that many more steps.
    Collect(u8),
    Evict(u8),
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let place = (0..JOBS, 0..NODES, prop::collection::vec(any::<u8>(), 0..3), any::<bool>(), any::<bool>())
        .prop_map(|(job, node, after, stop, gpu)| Op::Place { job, node, after, stop, gpu });
    prop_oneof![
        2 => (0..JOBS, 1..900_u32, any::<bool>())
            .prop_map(|(job, memory_mb, port)| Op::Register { job, memory_mb, port }),
        1 => (0..JOBS, any::<bool>()).prop_map(|(job, purge)| Op::Deregister(job, purge)),
        1 => (0..JOBS, 0..9_u32).prop_map(|(job, count)| Op::Scale(job, count)),
        6 => place,
        2 => (any::<u8>(), any::<bool>()).prop_map(|(alloc, lost)| Op::Stop(alloc, lost)),
        3 => (any::<u8>(), 0..3_u8).prop_map(|(alloc, how)| Op::End(alloc, how)),
        2 => (0..NODES, any::<bool>()).prop_map(|(node, up)| Op::NodeStatus(node, up)),
        1 => (0..NODES, any::<bool>()).prop_map(|(node, eligible)| Op::Eligible(node, eligible)),
        1 => (0..NODES).prop_map(Op::RegisterNode),
        2 => (0..4_u8).prop_map(Op::Collect),
        1 => (0..NODES).prop_map(Op::Evict),
        1 => Just(Op::Restart),
    ]
}

/// A world, what can be picked from, and collections that are still to be applied.
#[derive(Default)]
struct History {
    world: World,
    allocs: Vec<AllocId>,
    evals: BTreeMap<u8, EvalId>,
    late: Vec<(u8, Collect)>,
}

fn id_of(number: u8) -> String {
    format!("j{number}")
}

fn small_node(id: u128) -> Node {
    let gpu = NodeDevice {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        model: "T4".into(),
        instances: vec![DeviceInstance { id: "g0".into(), healthy: true }],
        ..NodeDevice::default()
    };
    let total = Resources { cpu_mhz: 100_000, memory_mb: NODE_MEMORY_MB, disk_mb: 100_000 };
    Node { total, devices: vec![gpu], cores: vec![0, 1], ..node(id) }
}

impl History {
    fn new() -> Self {
        let mut history = Self::default();
        (0..NODES).for_each(|node| history.perform(&Op::RegisterNode(node)));
        history
    }

    fn pick(&self, at: u8) -> Option<AllocId> {
        self.allocs.get(usize::from(at) % self.allocs.len().max(1)).copied()
    }

    fn lives(&self, number: u8) -> bool {
        self.world.store.job(&key(&id_of(number))).is_some_and(|row| !row.job().stop)
    }

    fn perform(&mut self, op: &Op) {
        let node_id = |number: &u8| NodeId(u128::from(*number) + 1);
        match op {
            Op::Register { job: number, memory_mb, port } => {
                let job_type = if number % 2 == 0 { JobType::Service } else { JobType::Batch };
                let job = job(&id_of(*number), job_type, *memory_mb, port.then_some(80));
                let eval = self.world.register(job);
                self.evals.insert(*number, eval);
            }
            Op::Deregister(number, purge) if self.has(*number) => {
                let eval = self.world.stop(&id_of(*number), *purge);
                self.evals.insert(*number, eval);
                assert_eq!(self.has(*number), !purge, "a purged job has no name");
            }
            Op::Scale(number, count) if self.lives(*number) => {
                let eval = self.world.scale(&id_of(*number), *count);
                self.evals.insert(*number, eval);
            }
            Op::Place { job, node, after, stop, gpu } => self.place(*job, *node, after, *stop, *gpu),
            Op::Stop(at, lost) => {
                let reason = if *lost { StopReason::NodeLost } else { StopReason::Preempted };
                let stops = self.pick(*at).map(|alloc| Stop { alloc, reason, observed_at: None });
                let open = self.evals.values().copied().find(|eval| self.is_open(*eval));
                if let Some(eval) = open {
                    self.commit(eval, vec![], stops.into_iter().collect());
                }
            }
            Op::End(at, how) => {
                let how =
                    [ClientStatus::Complete, ClientStatus::Failed, ClientStatus::Lost][usize::from(*how)];
                if let Some(alloc) = self.pick(*at) {
                    self.world.apply(vec![end(alloc.0, how)]);
                }
            }
            Op::NodeStatus(number, up) => {
                let status = if *up { NodeStatus::Ready } else { NodeStatus::Down };
                self.world.apply(vec![Command::SetNodeStatus(node_id(number), status, None)]);
            }
            Op::Eligible(number, eligible) => {
                self.world.apply(vec![Command::SetNodeEligibility(node_id(number), *eligible)]);
            }
            Op::RegisterNode(number) => {
                let node = small_node(u128::from(*number) + 1);
                let ready = Command::SetNodeStatus(node.id, NodeStatus::Ready, None);
                self.world.apply(vec![Command::RegisterNode(Box::new(node)), ready]);
            }
            Op::Collect(later) => self.late.push((*later, self.everything())),
            Op::Evict(number) => {
                let decided_on = Some(self.world.store.index());
                self.world.collect(Collect {
                    nodes: vec![node_id(number)],
                    decided_on,
                    ..Collect::default()
                });
            }
            Op::Restart => self.world.store = restored(&self.world.store),
            Op::Deregister(..) | Op::Scale(..) => {}
        }
        self.collect_what_is_due();
    }

    fn has(&self, number: u8) -> bool {
        self.world.store.job(&key(&id_of(number))).is_some()
    }

    fn is_open(&self, eval: EvalId) -> bool {
        self.world.store.eval(eval).is_some_and(|eval| !eval.status.is_terminal())
    }

    fn place(&mut self, number: u8, node: u8, after: &[u8], stop: bool, gpu: bool) {
        let Some(eval) = self.evals.get(&number).copied().filter(|eval| self.is_open(*eval)) else { return };
        let id = self.allocs.len() as u128 + 1;
        let after: Vec<AllocId> = after.iter().filter_map(|at| self.pick(*at)).collect();
        let stops = after.iter().filter(|_| stop);
        let stops = stops
            .map(|alloc| Stop { alloc: *alloc, reason: StopReason::JobUpdated, observed_at: None })
            .collect();
        let of = &self.world.store.eval(eval).expect("it is open").job;
        let group = &self.world.store.job(of).expect("it has an evaluation").job().groups[0];
        let ports: Vec<u16> = group.ports().filter_map(|port| port.fixed).collect();
        let before: Vec<u128> = after.iter().map(|id| id.0).collect();
        let mut placement = place(id, u128::from(node) + 1, &before, &ports);
        if gpu {
            let (device, instances) = ("nvidia/gpu/T4".into(), vec!["g0".into()]);
            placement.devices = vec![DeviceGrant { device, instances, milli_each: 300 }];
            placement.cores = vec![id as u16 % 2];
        }
        self.commit(eval, vec![placement], stops);
        self.allocs.push(AllocId(id));
    }

    /// Some plans are the last of their evaluation.
    fn commit(&mut self, eval: EvalId, placements: Vec<berth_model::alloc::Placement>, stops: Vec<Stop>) {
        let mut plan = self.world.plan_of(eval, placements, stops);
        if let Command::CommitPlan(plan) = &mut plan {
            plan.outcome = plan.outcome.take().filter(|_| self.allocs.len().is_multiple_of(3));
        }
        self.world.run(plan).expect("its evaluation is open");
    }

    /// All that there is, of which what has ended is to be forgotten.
    fn everything(&self) -> Collect {
        let store = &self.world.store;
        Collect {
            deployments: self.world.store.deployments().iter().map(|deployment| deployment.id).collect(),
            jobs: store.jobs().iter().map(|(_, row)| row.key.clone()).collect(),
            allocs: self.allocs.clone(),
            evals: store.evals().iter().map(|(_, eval)| eval.id).collect(),
            nodes: store.nodes().iter().map(|(_, row)| row.id).collect(),
            decided_on: Some(store.index()),
        }
    }

    fn collect_what_is_due(&mut self) {
        for (left, collect) in std::mem::take(&mut self.late) {
            match left.checked_sub(1) {
                Some(left) => self.late.push((left, collect)),
                None => self.collect(collect),
            }
        }
    }

    fn collect(&mut self, collect: Collect) {
        let before = self.world.store.clone();
        let decided_on = collect.decided_on.expect("it says");
        self.world.collect(collect);
        let after = &self.world.store;
        let changed = |index: Index| index > decided_on;
        for (_, row) in before.jobs().iter().filter(|(_, row)| after.job(&row.key).is_none()) {
            assert!(row.is_over() && !changed(row.modify_index) && !changed(row.evals_index), "{}", row.key);
        }
        for (slot, row) in before.nodes().iter().filter(|(_, row)| after.node(row.id).is_none()) {
            assert!(row.status == NodeStatus::Down && row.live.is_empty() && !changed(row.modify_index));
            let results = before.nodes().ended(row).filter_map(|slot| before.allocs().row(slot));
            let retained =
                results.filter(|row| !before.may_collect(row) && after.jobs().row(row.job).is_some());
            assert!(retained.count() == 0 || after.nodes().row(slot).is_some(), "results lost their node");
        }
        for (_, row) in before.allocs().iter().filter(|(_, row)| after.alloc(row.id).is_none()) {
            let job = before.jobs().row(row.job).expect("an allocation has a job");
            assert!(row.is_terminal() && (before.may_collect(row) || after.job(&job.key).is_none()));
        }
    }
}

fn rows(store: &Store, slots: impl Iterator<Item = berth_model::store::AllocSlot>) -> Vec<AllocRow> {
    slots.map(|slot| *store.allocs().row(slot).expect("a list names an allocation that is there")).collect()
}

fn check_nodes(store: &Store) {
    for (slot, node) in store.nodes().iter() {
        let live = rows(store, store.nodes().live(node));
        assert!(live.iter().all(|row| row.node == slot && !row.is_terminal()));
        assert!(
            rows(store, store.nodes().ended(node)).iter().all(|row| row.node == slot && row.is_terminal())
        );
        let mut sum = Resources::ZERO;
        for row in &live {
            let (slot, _) = store.alloc(row.id).expect("it is listed");
            sum = sum.plus(store.resources_added(slot));
        }
        check_what_may_run_together(store, &live, node.capacity);
        assert_eq!(node.used, sum, "node {}", node.id);
        assert!(node.used.exceeds(node.capacity).is_none(), "node {} gives what it has not", node.id);
        let ports = &store.nodes().detail(slot).expect("a node has a detail").ports;
        assert!(ports.is_sorted_by(|a, b| a < b), "a port of node {} has two owners: {ports:?}", node.id);
        let held = &store.nodes().detail(slot).expect("a node has a detail").devices;
        assert!(
            held.milli.values().all(|milli| *milli <= 1000),
            "a device of node {} is given twice",
            node.id
        );
        assert!(held.cores.values().all(|times| *times == 1), "a core of node {} is given twice", node.id);
        assert_eq!(store.nodes().find(node.id), Some(slot));
    }
}

/// Allocations of a node that do not wait for each other fit it, whichever of them run at the same time.
fn check_what_may_run_together(store: &Store, live: &[AllocRow], capacity: Resources) {
    let slot_of = |row: &AllocRow| store.alloc(row.id).expect("it is listed").0;
    let waits_for: Vec<BTreeSet<AllocId>> =
        live.iter().map(|row| store.waits_for(slot_of(row)).into_iter().collect()).collect();
    let apart = |a: usize, b: usize| {
        a == b || !waits_for[a].contains(&live[b].id) && !waits_for[b].contains(&live[a].id)
    };
    let few = live.len().min(10);
    for set in 0..1_u32 << few {
        let members: Vec<usize> = (0..few).filter(|at| set >> at & 1 == 1).collect();
        if !members.iter().all(|a| members.iter().all(|b| apart(*a, *b))) {
            continue;
        }
        let held = members.iter().fold(Resources::ZERO, |sum, at| sum.plus(live[*at].held));
        assert!(held.exceeds(capacity).is_none(), "more may run at once than fits: {held:?}");
        let extras = members.iter().filter_map(|at| store.allocs().extra(slot_of(&live[*at])));
        let mut ports: Vec<u16> = extras.clone().flat_map(|extra| extra.ports.iter().copied()).collect();
        ports.sort_unstable();
        assert!(ports.is_sorted_by(|a, b| a < b), "two that may run at once have one port: {ports:?}");
        let mut held = DevicesHeld::default();
        extras.for_each(|extra| held.add(&DevicesHeld::of(&extra.devices, &extra.cores)));
        let fits = held.milli.values().all(|milli| *milli <= 1000) && held.cores.values().all(|n| *n == 1);
        assert!(fits, "two that may run at once have one device or core: {held:?}");
    }
}

fn check_jobs(store: &Store) {
    for (slot, job) in store.jobs().iter() {
        let all = rows(store, store.jobs().allocs(job));
        assert!(all.iter().all(|row| row.job == slot));
        assert_eq!(job.live as usize, all.iter().filter(|row| !row.is_terminal()).count());
        assert_eq!(job.live, job.counts.iter().map(|counts| counts.live).sum::<u32>());
        assert!(all.iter().all(|row| store.job_of(row).is_some()), "the version of an allocation is gone");
        let evals = store.jobs().evals(job).map(|slot| store.evals().row(slot).expect("it is there").clone());
        let evals: Vec<_> = evals.collect();
        assert!(evals.iter().all(|eval| eval.job == job.key));
        assert_eq!(job.open_evals as usize, evals.iter().filter(|eval| !eval.status.is_terminal()).count());
    }
}

/// What is counted of each table by state is what a walk finds, and who waits longest is known.
fn check_tallies(store: &Store) {
    for status in [ClientStatus::Pending, ClientStatus::Complete, ClientStatus::Failed, ClientStatus::Lost] {
        let found = store.allocs().iter().filter(|(_, row)| row.client == status).count();
        assert_eq!(store.allocs().with_status(status), found, "{status:?}");
    }
    for status in [JobStatus::Pending, JobStatus::Running, JobStatus::Dead] {
        let left = |row: &JobRow| !row.key.is_purged() && row.status() == status;
        let found = store.jobs().iter().filter(|(_, row)| left(row)).count();
        assert_eq!(store.jobs().with_status(status), found, "{status:?}");
    }
    for status in EvalStatus::ALL {
        let found = store.evals().iter().filter(|(_, eval)| eval.status == status).count();
        assert_eq!(store.evals().with_status(status), found, "{status:?}");
    }
    let with = |status| store.evals().iter().map(|(_, eval)| eval).filter(move |eval| eval.status == status);
    let due = with(EvalStatus::Pending).map(|eval| eval.created_at.max(eval.wait_until)).min();
    assert_eq!(store.evals().pending_since(), due);
    let blocked = with(EvalStatus::Blocked).map(|eval| eval.created_at).min();
    assert_eq!(store.evals().blocked_since(), blocked);
    for status in NodeStatus::ALL {
        let with = |scheduling| store.nodes().with_state(status, scheduling);
        let all: usize = SchedulingEligibility::ALL.map(with).iter().sum();
        assert_eq!(all, store.nodes().iter().filter(|(_, row)| row.status == status).count(), "{status:?}");
        let eligible = store.nodes().iter().filter(|(_, row)| row.status == status && row.eligible);
        assert_eq!(with(SchedulingEligibility::Eligible), eligible.count(), "{status:?}");
    }
    let mut totals = LiveTotals::default();
    for (_, row) in store.nodes().iter().filter(|(_, row)| !row.status.is_silent()) {
        totals.capacity.add(row.capacity);
        totals.used.add(row.used);
    }
    assert_eq!(store.nodes().live_totals(), totals);
    let details = store.nodes().range(..).filter_map(|(_, slot)| store.nodes().detail(slot));
    let pools: BTreeSet<&str> = details.map(|detail| &*detail.node.pool).collect();
    assert!(store.nodes().pools().eq(pools), "{:?}", store.nodes().pools().collect::<Vec<_>>());
}

/// Each allocation and evaluation is in the lists of its owners, once, and its promises are kept on both sides.
fn check_owners(store: &Store) {
    let listed: Vec<_> = store.jobs().iter().flat_map(|(_, job)| store.jobs().allocs(job)).collect();
    assert_eq!(listed.len(), store.allocs().len());
    assert_eq!(listed.iter().collect::<BTreeSet<_>>().len(), listed.len());
    let evals = store.jobs().iter().map(|(_, job)| store.jobs().evals(job).count()).sum::<usize>();
    assert_eq!(evals, store.evals().len());
    let mut promised: BTreeMap<AllocId, Usage> = BTreeMap::new();
    for (slot, row) in store.allocs().iter() {
        let node = store.nodes().row(row.node).expect("an allocation's node is there, or was purged");
        let mut on_node = store.nodes().live(node).chain(store.nodes().ended(node));
        assert!(on_node.any(|listed| listed == slot));
        let after = store.allocs().extra(slot).into_iter().flat_map(|extra| &extra.after);
        for (id, part) in after.filter(|_| !row.is_terminal()) {
            promised.entry(*id).or_default().add(part);
        }
    }
    for (slot, row) in store.allocs().iter().filter(|(_, row)| !row.is_terminal()) {
        let says = store.allocs().extra(slot).map(|extra| extra.promised.clone()).unwrap_or_default();
        assert_eq!(says, promised.remove(&row.id).unwrap_or_default(), "{}", row.id);
    }
}

/// What a restore counts again.
fn counted(store: &Store) -> String {
    let nodes = store.nodes().iter().map(|(slot, row)| {
        let detail = store.nodes().detail(slot).expect("a node has a detail");
        format!("{} {:?} {:?} {:?}", row.id, row.used, detail.ports, detail.devices)
    });
    let jobs = store.jobs().iter().map(|(_, row)| {
        let mut counts = row.counts.iter().cloned().collect::<Vec<_>>();
        counts.sort_by(|a, b| a.group.cmp(&b.group));
        format!("{} {} {} {counts:?} {:?}", row.key, row.live, row.open_evals, row.status())
    });
    let tenants = store.namespaces().iter().map(|row| format!("{:?}", row.used));
    nodes.chain(jobs).chain(tenants).map(|line| line + "\n").collect()
}

fn statuses(store: &Store) -> BTreeMap<String, JobStatus> {
    store.jobs().iter().map(|(_, row)| (row.key.id.to_string(), row.status())).collect()
}

/// Whoever follows events knows each job's status.
fn check_events(before: &BTreeMap<String, JobStatus>, world: &World) {
    let job_of = |event: &StateChange| match event {
        StateChange::JobRegistered(slot)
        | StateChange::JobDeregistered(slot)
        | StateChange::JobLaunched(slot)
        | StateChange::JobStatusChanged(slot) => Some(world.store.jobs().row(*slot)?.key.id.to_string()),
        _ => None,
    };
    let reported: BTreeSet<String> = world.events.iter().filter_map(job_of).collect();
    for (id, status) in statuses(&world.store) {
        assert!(
            before.get(&id) == Some(&status) || reported.contains(&id),
            "{id} became {status:?} in silence"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases / 2))]
    #[test]
    fn what_is_counted_is_there_and_is_there_after_a_restore(ops in prop::collection::vec(op(), 1..120)) {
        let mut history = History::new();
        for op in &ops {
            let before = history.world.store.clone();
            let (hash, told) = (before.hash(), statuses(&before));
            let index = history.world.index;
            history.perform(op);
            prop_assert_eq!(before.hash(), hash, "a snapshot changed");
            check_nodes(&history.world.store);
            check_jobs(&history.world.store);
            check_owners(&history.world.store);
            check_tallies(&history.world.store);
            // Events are those of the last entry.
            if history.world.index == index + 1 {
                check_events(&told, &history.world);
            }
        }
        let store = &history.world.store;
        let again = restored(store);
        prop_assert_eq!(again.hash(), store.hash());
        prop_assert_eq!(counted(&again), counted(store));
        check_tallies(&again);
        prop_assert!(store.at() >= Timestamp(0));
    }
}
