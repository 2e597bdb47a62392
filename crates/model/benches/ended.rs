//! What an ended allocation takes in memory, with its share of its job and of its evaluation, by how much the process grows, and
//! how long it takes to write it to a snapshot and to read it back, as a start does:
//! `cargo bench -p berth-model --bench ended [-- ALLOCATIONS]`.

#[path = "../tests/support/mod.rs"]
mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use berth_model::{
    AllocId, Index, Timestamp,
    alloc::{AllocEnd, ClientStatus, TaskResult},
    command::Command,
    job::JobType,
    observed::{Observed, ObservedAlloc, ObservedTask, TaskEvent, TaskState},
    store::snapshot,
};
use support::{World, job, place};

/// Of a job.
const JOB_ALLOCS: u128 = 200;
/// Allocations, unless others are asked for.
const ALLOCS: u128 = 100_000;
const NODES: u128 = 100;
/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
/// When the first allocation starts.
const BEGAN: u64 = 1_700_000_000 * SECOND;

fn main() {
    let requested = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let jobs = requested.unwrap_or(ALLOCS).div_ceil(JOB_ALLOCS);
    let mut world = World::with_nodes(NODES);
    // What is made once, as buffers, is not counted.
    run(&mut world, 0);
    let empty = resident();
    (1..=jobs).for_each(|number| run(&mut world, number));
    let stored = resident();
    let mut observed = Observed::default();
    let ids: Vec<AllocId> = (1..=jobs).flat_map(ids_of).collect();
    let listed = resident();
    ids.iter().for_each(|id| observe(&world, &mut observed, *id));
    let all = resident();
    let count = ids.len() as u64;
    let each = |bytes: u64| bytes / count;
    println!(
        "{count} completed batch allocations, {JOB_ALLOCS} a job: bytes each {} stored, {} observed, {} in all",
        each(stored - empty),
        each(all - listed),
        each(stored - empty + all - listed),
    );
    let ended = ids.iter().filter(|id| {
        let (slot, _) = world.store.alloc(**id).expect("it is placed");
        observed.ended(slot, **id).is_some()
    });
    assert_eq!(ended.count() as u64, count, "all of it is there");
    read_back(&world, count);
}

/// Nanoseconds that each takes to be written and read back, in memory.
#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
fn read_back(world: &World, count: u64) {
    let mut bytes = Vec::new();
    let began = Instant::now();
    snapshot::write(&world.store, &mut bytes).expect("memory takes it");
    let written = began.elapsed();
    let began = Instant::now();
    let read = snapshot::read(&mut &bytes[..]).expect("it was just written");
    let each = |time: Duration| time.as_nanos() as u64 / count;
    let (written, taken) = (each(written), each(began.elapsed()));
    let began = Instant::now();
    let checked = snapshot::read_hash(&mut &bytes[..]).expect("it was just written");
    assert_eq!(checked.1, read.hash(), "it is the same");
    let checked = each(began.elapsed());
    println!(
        "in a snapshot: {} bytes each, {written} ns to write, {checked} ns to check, {taken} ns to read",
        bytes.len() as u64 / count
    );
    assert_eq!(read.hash(), world.store.hash(), "it is the same");
}

fn ids_of(number: u128) -> impl Iterator<Item = AllocId> {
    // Spread like those that are drawn.
    (0..JOB_ALLOCS).map(move |at| {
        AllocId((number * JOB_ALLOCS + at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
    })
}

/// A job that is registered, placed, and done.
fn run(world: &mut World, number: u128) {
    let eval = world.register(job(&format!("job-{number}"), JobType::Batch, 10, None));
    let placed = ids_of(number).zip(0..);
    let placements = placed.map(|(id, at)| {
        let mut placement = place(id.0, 1 + u128::from(at) % NODES, &[], &[]);
        placement.name_index = at;
        placement
    });
    world.plan(eval, placements.collect(), vec![]).expect("there is room");
    let ends = ids_of(number).map(|alloc| AllocEnd {
        alloc,
        status: ClientStatus::Complete,
        tasks: vec![TaskResult {
            exit_code: 0,
            signal: 0,
            oom_killed: false,
            failed: false,
            restarts: 0,
            started_at: Timestamp(BEGAN + 100_000_000),
            finished_at: Timestamp(BEGAN + 5 * SECOND),
            message: String::new(),
        }],
        observed_at: None,
    });
    world.run(Command::EndAllocs(ends.collect())).expect("they run");
}

/// An agent reports the end of an allocation, and that is in the log.
fn observe(world: &World, observed: &mut Observed, id: AllocId) {
    let (slot, row) = world.store.alloc(id).expect("it is placed");
    let event = |kind, after: u64, message: &str| TaskEvent {
        kind,
        at: Timestamp(BEGAN + after),
        message: message.to_owned(),
        ..TaskEvent::default()
    };
    let task = ObservedTask {
        name: "t".to_owned(),
        state: TaskState::Dead,
        failed: false,
        restarts: 0,
        last_restart: Timestamp::default(),
        started_at: Timestamp(BEGAN + 100_000_000),
        finished_at: Timestamp(BEGAN + 5 * SECOND),
        exit: (0, 0, false),
        events: vec![
            event("Received", 10_000_000, "task received by the agent"),
            event("Task Setup", 20_000_000, "building the task directory"),
            event("Started", 100_000_000, "task started"),
            event("Terminated", 5 * SECOND, ""),
        ],
    };
    let seen = ObservedAlloc {
        id,
        status: ClientStatus::Complete,
        description: String::new(),
        tasks: vec![task],
        modified_at: Timestamp(BEGAN + 5 * SECOND + 1_000_000),
        healthy: None,
        health_message: String::new(),
        revision: 0,
        hash: id.0,
    };
    observed.record(slot, row.job, row.group, Arc::new(seen), Index(1));
    observed.end(slot, id, row.job, row.group);
}

/// Bytes of memory that the process has.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells of the process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it has memory");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib * 1024
}
