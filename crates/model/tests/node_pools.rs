//! Node pools that operators describe: what is refused, and that snapshots hold them.

use std::sync::Arc;

use berth_model::{
    EvalId, Index, JobKey, NodeId, Timestamp,
    command::{Command, DeregisterJob, Entry, Outcome, Refusal, RegisterJob},
    eval::EvalStatus,
    event::StateChange,
    job::{Group, Job, JobType},
    node::Node,
    node_pool::NodePool,
    resources::Resources,
    store::{Store, snapshot},
};

fn apply(store: &mut Store, command: Command) -> (Outcome, Vec<StateChange>) {
    let index = Index(store.index().0 + 1);
    let entry = Entry::new(index, Timestamp(index.0), vec![command]);
    let mut applied = store.apply(Entry::decode(&entry.encode()).expect("it was just encoded"));
    (applied.outcomes.remove(0), applied.events)
}

fn put(name: &str, description: &str) -> Command {
    let (name, description) = (name.to_owned(), description.to_owned());
    Command::PutNodePool(Box::new(NodePool { name, description, ..NodePool::default() }))
}

fn delete(name: &str) -> Command {
    Command::DeleteNodePool(name.to_owned())
}

#[test]
fn a_pool_is_described_and_taken_away_once_nothing_uses_it() {
    let mut store = Store::default();
    let changed = vec![StateChange::NodePoolChanged("gpus".to_owned())];
    assert_eq!(apply(&mut store, put("gpus", "one")), (Ok(()), changed.clone()));
    assert_eq!(apply(&mut store, put("gpus", "two")), (Ok(()), changed.clone()));
    let row = store.node_pools().get("gpus").expect("it was just made");
    assert_eq!((&*row.pool.description, row.create_index, row.modify_index), ("two", Index(1), Index(2)));

    let node = Node { pool: "gpus".to_owned(), ..Node::new(NodeId(1), "n1", Resources::ZERO) };
    apply(&mut store, Command::RegisterNode(Box::new(node.clone()))).0.expect("it registers");
    let refused = apply(&mut store, delete("gpus")).0.expect_err("a node is in it").to_string();
    assert!(refused.contains("cannot be deleted: it has nodes, as 00000000-0000"), "{refused}");
    let moved = Node { pool: "other".to_owned(), ..node };
    apply(&mut store, Command::RegisterNode(Box::new(moved))).0.expect("it registers");
    let refused = apply(&mut store, delete("other")).0.expect_err("a node is in it").to_string();
    assert!(refused.contains("cannot be deleted: it has nodes"), "{refused}");

    let key = JobKey::new("default", "web");
    let group = Group::new("g", JobType::Service);
    let job =
        Job { groups: vec![group], node_pool: "gpus".to_owned(), ..Job::new(key.clone(), JobType::Service) };
    let register = RegisterJob { job: Arc::new(job), eval: EvalId(1), only_if: None, submission: None };
    apply(&mut store, Command::RegisterJob(Box::new(register))).0.expect("it registers");
    let refused = apply(&mut store, delete("gpus")).0.expect_err("a job uses it").to_string();
    assert!(refused.contains("cannot be deleted: it has non-terminal jobs"), "{refused}");
    let stop = DeregisterJob { job: key, purge: true, eval: EvalId(2) };
    apply(&mut store, Command::DeregisterJob(stop)).0.expect("it stops");
    let done = Command::SetEvalStatus(EvalId(2), EvalStatus::Complete, String::new());
    apply(&mut store, done).0.expect("it is open");
    assert_eq!(apply(&mut store, delete("gpus")), (Ok(()), changed));
    assert_eq!(apply(&mut store, delete("gpus")).0, Err(Refusal::NoNodePool("gpus".to_owned())));
    assert!(store.node_pools().modify_index() > Index(0) && store.node_pools().iter().next().is_none());
}

#[test]
fn pools_that_cannot_be_are_refused() {
    let mut store = Store::default();
    for name in ["all", "default", "", "a b", "a/b", "*", &"x".repeat(129)] {
        let refused = apply(&mut store, put(name, "")).0;
        assert!(matches!(refused, Err(Refusal::BadNodePool(..))), "{name}: {refused:?}");
    }
    for name in ["all", "default"] {
        assert!(matches!(apply(&mut store, delete(name)).0, Err(Refusal::NodePoolInUse(..))), "{name}");
    }
}

#[test]
fn pools_are_in_snapshots() {
    let mut store = Store::default();
    let empty = store.hash();
    for name in ["gpus", "spot", "gone"] {
        apply(&mut store, put(name, "d")).0.expect("it is made");
    }
    apply(&mut store, delete("gone")).0.expect("nothing uses it");
    let mut bytes = Vec::new();
    snapshot::write(&store, &mut bytes).expect("memory takes it");
    let read = snapshot::read(&mut &bytes[..]).expect("it is whole");
    assert_eq!((read.hash(), read.node_pools().modify_index()), (store.hash(), Index(4)));
    assert!(read.hash() != empty && read.node_pools().iter().count() == 2);
}
