//! Snapshots that somebody has written by hand: their checksums are right, and what they hold cannot be. Each is refused, or it
//! is a state that reads and commands can work on; a server that loads one must not end with a panic, nor loop, nor use all memory.
//!
//! A few hundred cases each; `PROPTEST_CASES` says how many otherwise.

mod support;

use std::io::Write;

use berth_model::{
    AllocId, DeploymentId, EvalId, NodeId,
    alloc::{ClientStatus, StopReason},
    command::{Collect, Command, DeregisterJob, RegisterJob},
    deployment::{AllocHealth, DeploymentGroup, NewDeployment},
    device::{DeviceGrant, DeviceInstance, NodeDevice},
    job::{Job, JobType},
    namespace::Namespace,
    node::{Node, NodeStatus},
    quota::{Bounds, Quota},
    store::{Store, snapshot},
};
use minicbor::Encoder;
use prop::sample::Index as At;
use proptest::prelude::*;
use support::{World, end, job, key, node, place, stop};
use xxhash_rust::xxh3::xxh3_128;

/// Before the first record: what kind of file it is, and its format.
const HEAD_BYTES: usize = 10;
/// After the last: the sum of all bytes before.
const SUM_BYTES: usize = 16;
/// What marks the last record.
const END: u32 = 5;

/// A state with something of everything that points to something else.
fn eventful() -> Store {
    let mut world = World::default();
    for id in 1..=3 {
        let gpu = NodeDevice {
            vendor: "nvidia".into(),
            kind: "gpu".into(),
            model: "T4".into(),
            instances: vec![DeviceInstance { id: "g0".into(), healthy: true }],
            ..NodeDevice::default()
        };
        let node = Node { devices: vec![gpu], cores: vec![0, 1], ..node(id) };
        let ready = Command::SetNodeStatus(node.id, NodeStatus::Ready, None);
        world.apply(vec![Command::RegisterNode(Box::new(node)), ready]);
    }
    let limit = Bounds { memory_mb: Some(100_000), ..Bounds::default() };
    world.apply(vec![
        Command::PutQuota(Box::new(Quota { name: "q".to_owned(), limit, ..Quota::default() })),
        Command::PutNamespace(Box::new(Namespace { quota: Some("q".to_owned()), ..Namespace::new("up") })),
        Command::PutNamespace(Box::new(Namespace {
            parent: Some("up".to_owned()),
            ..Namespace::new("down")
        })),
    ]);
    let web = world.register(job("web", JobType::Service, 100, Some(80)));
    let granted =
        DeviceGrant { device: "nvidia/gpu/T4".into(), instances: vec!["g0".into()], milli_each: 300 };
    let mut first = place(1, 1, &[], &[80]);
    (first.devices, first.cores) = (vec![granted], vec![1]);
    world.plan(web, vec![first, place(2, 2, &[], &[80])], vec![]).expect("there is room");
    let again = world.register(job("web", JobType::Service, 200, Some(80)));
    deploy(&mut world, again);
    let batch = world.register(job("batch", JobType::Batch, 50, None));
    world.plan(batch, vec![place(4, 3, &[], &[]), place(5, 3, &[], &[])], vec![]).expect("there is room");
    world.end(4, ClientStatus::Complete);
    world.end(5, ClientStatus::Failed);
    world.scale("web", 3);
    let tenant =
        Job { key: berth_model::JobKey::new("down", "web"), ..job("web", JobType::Service, 10, None) };
    let held = world.register(tenant);
    world.plan(held, vec![place(6, 2, &[], &[])], vec![]).expect("its quota allows it");
    world.register(job("gone", JobType::Service, 10, None));
    world.stop("gone", false);
    world.apply(vec![Command::SetNodeStatus(NodeId(3), NodeStatus::Down, None)]);
    world.store
}

/// A new version takes the place of the old one, and one of its allocations is well.
fn deploy(world: &mut World, eval: EvalId) {
    let placements = vec![place(3, 1, &[1], &[80])];
    let Command::CommitPlan(mut plan) =
        world.plan_of(eval, placements, vec![stop(1, StopReason::JobUpdated)])
    else {
        unreachable!("a plan is one");
    };
    let group = DeploymentGroup { name: "g".into(), desired_total: 1, ..DeploymentGroup::default() };
    plan.deployment = Some(Box::new(NewDeployment { id: DeploymentId(7), groups: vec![group] }));
    world.run(Command::CommitPlan(plan)).expect("its place is promised");
    let healthy = AllocHealth { alloc: AllocId(3), healthy: true, message: String::new(), revision: None };
    world.run(Command::SetAllocHealth(vec![healthy])).expect("evidence is taken");
}

/// The records of a snapshot, the last left out.
fn records(store: &Store) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    snapshot::write(store, &mut bytes).expect("memory takes it");
    let mut rest = &bytes[HEAD_BYTES..bytes.len() - SUM_BYTES];
    let mut records = Vec::new();
    while let Some((len, more)) = rest.split_first_chunk::<4>() {
        let (record, after) = more.split_at(u32::from_be_bytes(*len) as usize);
        records.push(record.to_vec());
        rest = after;
    }
    records.pop();
    records
}

/// A snapshot of these records, with the right sums, that vouches for no content.
fn written(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot::write(&Store::default(), &mut bytes).expect("memory takes it");
    bytes.truncate(HEAD_BYTES);
    for record in records.iter().chain([&last()]) {
        let len = u32::try_from(record.len()).expect("records are small");
        bytes.write_all(&len.to_be_bytes()).expect("memory takes it");
        bytes.write_all(record).expect("memory takes it");
    }
    let sum = xxh3_128(&bytes).to_be_bytes();
    bytes.extend(sum);
    bytes
}

/// The last record, without the version of a hash: nothing is compared.
fn last() -> Vec<u8> {
    let mut last = Encoder::new(Vec::new());
    let indexes =
        |last: &mut Encoder<Vec<u8>>| -> Result<(), minicbor::encode::Error<std::convert::Infallible>> {
            last.array(2)?.u32(END)?.array(3)?.array(6)?;
            for _ in 0..6 {
                last.u64(1)?;
            }
            last.u64(0)?.u64(0)?;
            Ok(())
        };
    indexes(&mut last).expect("memory takes it");
    last.into_writer()
}

/// What is done to the records.
#[derive(Debug, Clone)]
enum Harm {
    Overwrite(At, Vec<(At, u8)>),
    /// A value of one byte becomes another one of any length.
    Replace(At, At, &'static [u8]),
    Remove(At),
    Repeat(At, At),
    Swap(At, At),
    /// Bytes of one record stand in another.
    Splice {
        from: At,
        at: At,
        into: At,
        to: At,
        bytes: usize,
    },
}

/// The largest numbers of each width, nothing, and empty or endless lists.
const VALUES: [&[u8]; 7] = [
    &[0x1b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x1b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x1a, 0xff, 0xff, 0xff, 0xff],
    &[0x19, 0xff, 0xff],
    &[0xf6],
    &[0x80],
    &[0x9f, 0xff],
];

fn harm() -> impl Strategy<Value = Harm> {
    let at = any::<At>;
    prop_oneof![
        4 => (at(), prop::collection::vec((at(), any::<u8>()), 1..6))
            .prop_map(|(record, bytes)| Harm::Overwrite(record, bytes)),
        4 => (at(), at(), prop::sample::select(&VALUES[..]))
            .prop_map(|(record, at, value)| Harm::Replace(record, at, value)),
        1 => at().prop_map(Harm::Remove),
        1 => (at(), at()).prop_map(|(which, to)| Harm::Repeat(which, to)),
        1 => (at(), at()).prop_map(|(one, other)| Harm::Swap(one, other)),
        2 => (at(), at(), at(), at(), 1..24_usize)
            .prop_map(|(from, at, into, to, bytes)| Harm::Splice { from, at, into, to, bytes }),
    ]
}

fn harmed(mut records: Vec<Vec<u8>>, all: &[Harm]) -> Vec<Vec<u8>> {
    for harm in all {
        let count = records.len();
        if count == 0 {
            break;
        }
        match harm {
            Harm::Overwrite(which, bytes) => {
                let record = &mut records[which.index(count)];
                for (at, byte) in bytes {
                    let at = at.index(record.len().max(1));
                    record.iter_mut().skip(at).take(1).for_each(|place| *place = *byte);
                }
            }
            Harm::Replace(which, at, value) => {
                let record = &mut records[which.index(count)];
                let at = at.index(record.len().max(1));
                record.splice(at.min(record.len())..(at + 1).min(record.len()), value.iter().copied());
            }
            Harm::Remove(which) => drop(records.remove(which.index(count))),
            Harm::Repeat(which, to) => {
                let record = records[which.index(count)].clone();
                records.insert(to.index(count), record);
            }
            Harm::Swap(one, other) => records.swap(one.index(count), other.index(count)),
            Harm::Splice { from, at, into, to, bytes } => {
                let source = &records[from.index(count)];
                let at = at.index(source.len().max(1));
                let piece = source[at.min(source.len())..(at + bytes).min(source.len())].to_vec();
                let target = &mut records[into.index(count)];
                let to = to.index(target.len().max(1));
                for (place, byte) in target.iter_mut().skip(to).zip(piece) {
                    *place = byte;
                }
            }
        }
    }
    records
}

/// Reads what any list reads.
fn look(store: &Store) {
    let _ = store.hash();
    for (slot, row) in store.allocs().iter() {
        let _ =
            (store.job_of(row), store.waits_for(slot), store.resources_added(slot), store.may_collect(row));
        let _ = (store.alloc(row.id), store.allocs().extra(slot));
    }
    for (_, row) in store.jobs().iter() {
        let _ = (row.status(), row.is_over(), store.job(&row.key).map(|row| row.job().groups.len()));
        let _ = (store.jobs().allocs(row).count(), store.jobs().evals(row).count());
    }
    for (_, row) in store.nodes().iter() {
        let _ = (store.nodes().live(row).count(), store.nodes().ended(row).count());
    }
    let _ = store
        .namespaces()
        .iter()
        .map(|row| store.namespaces().path(&row.namespace.name).count())
        .sum::<usize>();
}

/// An id that the snapshot has nothing of.
fn fresh(world: &mut World) -> u128 {
    world.id() << 32
}

/// Does to everything what can be done to it.
fn work(store: Store) {
    let mut world = World::default();
    (world.index, world.store) = (store.index().0.max(store.granted().0), store);
    let jobs: Vec<_> = world.store.jobs().iter().map(|(_, row)| row.key.clone()).collect();
    let nodes: Vec<NodeId> = world.store.nodes().iter().map(|(_, row)| row.id).collect();
    let allocs: Vec<AllocId> = world.store.allocs().iter().map(|(_, row)| row.id).collect();
    let evals: Vec<EvalId> = world.store.evals().iter().map(|(_, eval)| eval.id).collect();
    let deployments = world.store.deployments().iter().map(|deployment| deployment.id).collect();
    for job in &jobs {
        let eval = EvalId(fresh(&mut world));
        let mut again = support::job("x", JobType::Service, 100, Some(80));
        again.key = job.clone();
        let register = RegisterJob { job: again.into(), eval, only_if: None, submission: None };
        if world.run(Command::RegisterJob(Box::new(register))).is_ok() && world.store.eval(eval).is_some() {
            let (id, node) = (fresh(&mut world), nodes.first().map_or(1, |node| node.0));
            let after: Vec<u128> = allocs.first().map(|id| id.0).into_iter().collect();
            let _ = world.plan(eval, vec![place(id, node, &after, &[80])], vec![]);
        }
    }
    for node in &nodes {
        world.apply(vec![
            Command::SetNodeStatus(*node, NodeStatus::Down, None),
            Command::SetNodeStatus(*node, NodeStatus::Ready, None),
            Command::SetNodeEligibility(*node, false),
        ]);
    }
    for alloc in &allocs {
        let healthy =
            |healthy| AllocHealth { alloc: *alloc, healthy, message: String::new(), revision: None };
        world.apply(vec![Command::SetAllocHealth(vec![healthy(true), healthy(false)])]);
        world.apply(vec![end(alloc.0, ClientStatus::Failed)]);
    }
    look(&world.store);
    for job in jobs.iter().cloned() {
        let eval = EvalId(fresh(&mut world));
        world.apply(vec![Command::DeregisterJob(DeregisterJob { job, purge: true, eval })]);
    }
    let decided_on = Some(world.store.index());
    let jobs = world.store.jobs().iter().map(|(_, row)| row.key.clone()).collect();
    world.apply(vec![Command::Collect(Box::new(Collect {
        deployments,
        jobs,
        allocs,
        evals,
        nodes,
        decided_on,
    }))]);
    look(&world.store);
}

#[test]
fn what_is_not_harmed_is_what_it_was() {
    let store = eventful();
    assert_eq!(store.allocs().len(), 6);
    assert!(store.deployments().get(DeploymentId(7)).is_some_and(|it| it.groups[0].healthy == 1));
    assert!(store.job(&key("web")).is_some_and(|row| row.versions.len() > 1));
    let read = snapshot::read(&mut written(&records(&store)).as_slice()).expect("nothing is wrong with it");
    assert_eq!(records(&read), records(&store));
    look(&read);
    work(read);
}

#[test]
fn each_record_may_be_missing() {
    let records = records(&eventful());
    let mut refused = 0;
    for which in 0..records.len() {
        let mut fewer = records.clone();
        fewer.remove(which);
        match snapshot::read(&mut written(&fewer).as_slice()) {
            Ok(store) => {
                look(&store);
                work(store);
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 0, "jobs and nodes that allocations name are missed");
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 2_000,
        cases: ProptestConfig::default().cases * 3 / 2,
        ..ProptestConfig::default()
    })]
    #[test]
    fn a_snapshot_that_cannot_be_is_refused_or_can_be_worked_on(all in prop::collection::vec(harm(), 1..4)) {
        let bytes = written(&harmed(records(&eventful()), &all));
        let checked = snapshot::read_hash(&mut bytes.as_slice());
        if let Ok(store) = snapshot::read(&mut bytes.as_slice()) {
            prop_assert_eq!(checked.expect("what is read stands a check"), (store.index(), store.hash()));
            look(&store);
            let mut again = Vec::new();
            snapshot::write(&store, &mut again).expect("what was read can be written");
            work(store);
        }
    }
}

/// Whoever checks a snapshot keeps nothing of what has ended, and finds another hash where it is there twice.
#[test]
fn an_allocation_that_is_there_twice_is_found_by_whoever_only_checks() {
    let all = records(&eventful());
    let check = |all: &[Vec<u8>]| {
        snapshot::read_hash(&mut written(all).as_slice()).map_err(|error| error.to_string())
    };
    let before = check(&all).expect("it is as it was written");
    let is_alloc = |at: &usize| all[*at].starts_with(&[0x82, 3]);
    let (mut other, mut refused) = (0, 0);
    for alloc in (0..all.len()).filter(is_alloc) {
        let mut twice = all.clone();
        twice.insert(alloc, all[alloc].clone());
        match check(&twice) {
            Ok(found) => {
                assert_ne!(found, before);
                other += 1;
            }
            Err(why) => {
                assert!(why.contains("is in it twice"), "{why}");
                refused += 1;
            }
        }
        let read = snapshot::read(&mut written(&twice).as_slice()).map(|_| ());
        assert!(read.is_err_and(|error| error.to_string().contains("is in it twice")));
    }
    assert!(other > 0 && refused > 0, "{other} have ended, {refused} live");
}
