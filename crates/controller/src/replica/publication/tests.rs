//! How long readers wait, and what of an observation counts once an allocation has ended.

use berth_model::{
    EvalId, JobKey, Timestamp,
    alloc::{AllocEnd, ClientStatus, Placement},
    command::{Collect, Command, Entry as Logged, PlanRecord, RegisterJob},
    job::{Group, Job, JobType, Task},
    node::{Node, NodeStatus},
    observed::ObservedAlloc,
    resources::Resources,
};

use super::*;

const NODE: NodeId = NodeId(1);

fn apply(store: &mut Store, index: u64, command: Command) -> AppliedEntry {
    let applied = store.apply(Logged::new(Index(index), Timestamp(index), vec![command]));
    assert!(applied.outcomes.iter().all(Result::is_ok), "{:?}", applied.outcomes);
    applied
}

/// Places an allocation, in place of another one or of none.
fn plan(store: &Store, alloc: u128, previous: Option<u128>) -> Command {
    let placement = Placement {
        id: AllocId(alloc),
        node: NODE,
        group: 0,
        name_index: 0,
        ports: vec![],
        after: vec![],
        previous: previous.map(AllocId),
        reschedules: vec![],
        devices: vec![],
        cores: vec![],
        canary: false,
        job_version: None,
    };
    Command::CommitPlan(Box::new(PlanRecord {
        eval: EvalId(1),
        job: JobKey::new("default", "sum"),
        job_version: 0,
        snapshot_index: store.index(),
        placements: vec![placement],
        stops: vec![],
        deployment: None,
        outcome: None,
        updates: None,
    }))
}

/// A state of one allocation, and the publication of it.
fn of_one_alloc() -> (Store, Publication) {
    let room = Resources { cpu_mhz: 4_000, memory_mb: 4_000, disk_mb: 4_000 };
    let group = Group {
        tasks: vec![Task::new("t", "mock_driver", JobType::Batch)],
        ..Group::new("g", JobType::Batch)
    };
    let job = Job { groups: vec![group], ..Job::new(JobKey::new("default", "sum"), JobType::Batch) };
    let register = RegisterJob { job: Arc::new(job), eval: EvalId(1), only_if: None, submission: None };
    let mut store = Store::default();
    apply(&mut store, 1, Command::RegisterNode(Box::new(Node::new(NODE, "n", room))));
    apply(&mut store, 2, Command::SetNodeStatus(NODE, NodeStatus::Ready, None));
    apply(&mut store, 3, Command::RegisterJob(Box::new(register)));
    let place = plan(&store, 1, None);
    apply(&mut store, 4, place);
    let mut publication = Publication::default();
    publication.recover(store.clone());
    (store, publication)
}

fn end_of(alloc: u128) -> Command {
    let alloc = AllocId(alloc);
    Command::EndAllocs(vec![AllocEnd {
        alloc,
        status: ClientStatus::Failed,
        tasks: vec![],
        observed_at: None,
    }])
}

/// That an allocation runs, reported at an index.
fn report(slot: AllocSlot, alloc: u128, index: u64, hash: u128) -> Arc<ObservationBatch> {
    let known = (*ReportedAlloc::nothing(slot, AllocId(alloc)).alloc).clone();
    let alloc = ObservedAlloc { status: ClientStatus::Running, hash, ..known };
    let seen = vec![ReportedAlloc::new(slot, Arc::new(alloc))];
    let report = NodeReport { node: NODE, session: None, version: None, seen };
    Arc::new(ObservationBatch::new(Index(index), Index::default(), vec![Arc::new(report)]))
}

/// For how many seconds readers wait for an entry, where the leader reports something before it every so many seconds.
fn held(telling_every: Option<u64>) -> u64 {
    let (mut store, mut publication) = (Store::default(), Publication::default());
    publication.recover(store.clone());
    publication.hold();
    let room = Resources { cpu_mhz: 4_000, memory_mb: 4_000, disk_mb: 4_000 };
    let entry = apply(&mut store, 100, Command::RegisterNode(Box::new(Node::new(NODE, "n", room))));
    publication.on_applied(&store, vec![entry]);
    for second in 1..=90 {
        if telling_every.is_some_and(|every| second % every == 0) {
            let batch = ObservationBatch::new(Index(second), Index(0), Vec::new());
            assert!(
                publication.on_batch(Arc::new(batch), Duration::from_secs(second)),
                "its place has passed after {second} s"
            );
        }
        while let Some(next) = publication.next(store.index(), Duration::from_secs(second)) {
            if let NextPublication::Entry(..) = next {
                return second;
            }
        }
    }
    90
}

#[test]
fn readers_wait_for_a_leader_that_still_tells_and_not_for_ever() {
    let [silent, seldom, telling] = [None, Some(20), Some(4)].map(held);
    assert!(silent < 10 && silent == seldom, "{silent} s, {seldom} s");
    assert!((30..35).contains(&telling), "{telling} s");
}

/// A follower that applies several entries at once has a state that is ahead of what it publishes.
#[test]
fn what_is_observed_after_the_end_has_no_part_though_later_entries_have_touched_the_row() {
    let (mut store, mut publication) = of_one_alloc();
    let (slot, _) = store.alloc(AllocId(1)).expect("it was placed");
    let ended = apply(&mut store, 10, end_of(1));
    let replace = plan(&store, 2, Some(1));
    let replaced = apply(&mut store, 14, replace);
    let (_, row) = store.alloc(AllocId(1)).expect("it is kept");
    assert_eq!(row.modify_index, Index(14), "the plan has touched it");
    publication.on_applied(&store, vec![ended, replaced]);
    for (index, hash) in [(8, 5), (12, 7)] {
        assert!(publication.on_batch(report(slot, 1, index, hash), Duration::ZERO));
    }
    let (digests, gone) = take_all(&mut publication, store.index());
    assert_eq!(digests.last(), Some(&Some(0)), "{digests:?}");
    assert!(gone.is_empty(), "{gone:?}");
    assert!(publication.observed().get(slot, AllocId(1)).is_none());
}

/// Ended, forgotten, and its slot another's, all at once.
#[test]
fn what_ends_and_is_collected_at_once_counts_no_more_and_takes_nothing_from_who_has_its_slot() {
    let (mut store, mut publication) = of_one_alloc();
    let (slot, row) = store.alloc(AllocId(1)).expect("it was placed");
    let job = row.job;
    assert!(publication.on_batch(report(slot, 1, 8, 5), Duration::ZERO));
    let (digests, _) = take_all(&mut publication, store.index());
    assert_eq!(digests, [Some(5)]);
    assert_eq!(publication.observed().running(job, 0), 1);

    let ended = apply(&mut store, 10, end_of(1));
    let collect = Collect { allocs: vec![AllocId(1)], ..Collect::default() };
    let collected = apply(&mut store, 11, Command::Collect(Box::new(collect)));
    assert!(store.alloc(AllocId(1)).is_none(), "it is forgotten");
    let place = plan(&store, 2, None);
    let placed = apply(&mut store, 12, place);
    assert_eq!(store.alloc(AllocId(2)).map(|(slot, _)| slot), Some(slot), "its slot is another's");
    publication.on_applied(&store, vec![ended, collected, placed]);
    // What another server had recorded meanwhile, and of the one that came after.
    for late in [report(slot, 1, 9, 6), report(slot, 2, 13, 7)] {
        assert!(publication.on_batch(late, Duration::ZERO));
    }
    let (digests, gone) = take_all(&mut publication, store.index());
    assert_eq!(digests.last(), Some(&Some(7)), "{digests:?}");
    let gone: Vec<_> = gone.iter().map(|gone| (gone.id, gone.node_id)).collect();
    assert_eq!(gone, [(AllocId(1), Some(NODE))]);
    assert_eq!(publication.observed().running(job, 0), 1, "the one that has its slot");
}

/// Takes all that may be published: what is recorded of the node after each, and what had been garbage-collected.
fn take_all(publication: &mut Publication, applied: Index) -> (Vec<Option<u128>>, Vec<EndedAlloc>) {
    let (mut digests, mut forgotten) = (Vec::new(), Vec::new());
    while let Some(next) = publication.next(applied, Duration::ZERO) {
        match next {
            NextPublication::Batch(batch) => publication.record(&batch),
            NextPublication::Entry(changes, gone) => {
                forgotten.extend(gone);
                for change in &changes {
                    match change {
                        StateChange::AllocEnded(slot) => drop(publication.on_alloc_ended(*slot)),
                        change => publication.on_change(change),
                    }
                }
                publication.published(changes);
            }
        }
        digests.push(publication.record_of(NODE).map(|record| record.digest));
    }
    (digests, forgotten)
}
