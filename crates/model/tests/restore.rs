//! A snapshot takes the place of a state: in parts, cut anywhere, on every server alike.

use std::sync::Arc;

use berth_model::{
    EvalId, Index, JobKey, NodeId, Timestamp,
    acl::ChangeAcl,
    cluster::ClusterIdentity,
    command::{Command, Entry, EvalOutcome, PlanRecord, Refusal, RegisterJob, RestorePart},
    eval::EvalStatus,
    event::{AppliedEntry, StateChange},
    job::{Group, Job, JobType},
    node::{Node, NodeStatus},
    resources::Resources,
    store::{Store, snapshot},
};

/// Applies commands as the next entry.
fn apply(store: &mut Store, commands: Vec<Command>) -> AppliedEntry {
    let index = Index(store.index().0 + 1);
    let entry = Entry::new(index, Timestamp(index.0 * 1_000), commands);
    store.apply(Entry::decode(&entry.encode()).expect("it was just encoded"))
}

fn register(id: &str) -> Command {
    let group = Group::new("g", JobType::Service);
    let job = Job { groups: vec![group], ..Job::new(JobKey::new("default", id), JobType::Service) };
    let eval = EvalId(id.bytes().map(u128::from).sum());
    Command::RegisterJob(Box::new(RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None }))
}

fn with_jobs(ids: &[&str]) -> Store {
    let mut store = Store::default();
    ids.iter().for_each(|id| drop(apply(&mut store, vec![register(id)])));
    store
}

/// The parts of a snapshot, each of that many bytes.
fn parts(of: &Store, bytes: usize) -> Vec<Command> {
    let mut records = Vec::new();
    snapshot::write_records(of, &mut records).expect("memory takes it");
    let part = |(number, bytes): (usize, &[u8])| {
        Command::RestorePart(RestorePart {
            number: number as u32,
            bytes: bytes.to_vec(),
            granted: of.granted(),
            revives_tokens: None,
        })
    };
    records.chunks(bytes).enumerate().map(part).collect()
}

fn ids(store: &Store) -> Vec<String> {
    store.jobs().iter().map(|(_, row)| row.key.id.to_string()).collect()
}

#[test]
fn a_snapshot_replaces_the_state_wherever_it_is_cut() {
    let saved = with_jobs(&["a", "b", "c"]);
    for bytes in [1, 7, 100, 1 << 20] {
        let mut store = with_jobs(&["x", "y", "z", "w", "v"]);
        let parts = parts(&saved, bytes);
        let last = parts.len() - 1;
        for (at, part) in parts.into_iter().enumerate() {
            assert_eq!(ids(&store).len(), 5, "it was replaced before its end");
            let applied = apply(&mut store, vec![part]);
            assert_eq!(applied.outcomes, [Ok(())]);
            assert_eq!(applied.events, if at == last { vec![StateChange::Restored] } else { vec![] });
        }
        assert_eq!(ids(&store), ["a", "b", "c"]);
        let index = store.index();
        assert!(index > saved.index() && store.restored_at() == index && !store.is_restoring());
        assert_eq!((store.jobs().modify_index(), store.evals().modify_index()), (index, index));
        let rows = |store: &Store| store.evals().iter().map(|(_, eval)| eval.clone()).collect::<Vec<_>>();
        assert_eq!(rows(&store), rows(&saved));
    }
}

#[test]
fn parts_out_of_turn_and_damaged_ones_change_nothing() {
    let saved = with_jobs(&["a", "b", "c"]);
    let mut store = with_jobs(&["x"]);
    let parts = parts(&saved, 64);
    let refused = |applied: AppliedEntry| match applied.outcomes.into_iter().next() {
        Some(Err(Refusal::BadRestore(what))) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(apply(&mut store, vec![parts[1].clone()])), "part 1 comes out of its turn");
    apply(&mut store, vec![parts[0].clone()]);
    assert_eq!(refused(apply(&mut store, vec![parts[2].clone()])), "part 2 comes out of its turn");
    assert!(!store.is_restoring(), "snapshots of the state as it is may be written again");
    let damaged = RestorePart { number: 1, bytes: vec![0xff; 64], granted: Index(0), revives_tokens: None };
    apply(&mut store, vec![parts[0].clone()]);
    refused(apply(&mut store, vec![Command::RestorePart(damaged)]));
    assert!(!store.is_restoring());
    apply(&mut store, vec![parts[0].clone()]);
    apply(&mut store, vec![Command::AbandonRestore]);
    refused(apply(&mut store, vec![parts[1].clone()]));
    assert_eq!(ids(&store), ["x"]);
}

#[test]
fn what_was_planned_before_is_void() {
    let saved = with_jobs(&["a"]);
    let eval = saved.evals().iter().next().expect("one").1.id;
    let mut store = saved.clone();
    let plan = |store: &Store| {
        let outcome = EvalOutcome {
            status: EvalStatus::Complete,
            description: String::new(),
            failures: vec![].into(),
            next: vec![],
        };
        Command::CommitPlan(Box::new(PlanRecord {
            eval,
            job: JobKey::new("default", "a"),
            job_version: 0,
            snapshot_index: store.index(),
            placements: vec![],
            stops: vec![],
            deployment: None,
            outcome: Some(outcome),
            updates: None,
        }))
    };
    let before = plan(&store);
    parts(&saved, 1 << 20).into_iter().for_each(|part| drop(apply(&mut store, vec![part])));
    assert_eq!(apply(&mut store, vec![before]).outcomes, [Err(Refusal::Restored)]);
    let after = plan(&store);
    assert_eq!(apply(&mut store, vec![after]).outcomes, [Ok(())]);
}

#[test]
fn a_cluster_has_one_identity_and_keeps_it_when_it_is_restored_from_another() {
    let mut saved = with_jobs(&["a"]);
    assert_eq!(saved.cluster(), &ClusterIdentity::default());
    assert_eq!(apply(&mut saved, vec![Command::FoundCluster(0)]).outcomes, [Err(Refusal::NoClusterId)]);
    let before = saved.hash();
    assert_eq!(apply(&mut saved, vec![Command::FoundCluster(7)]).outcomes, [Ok(())]);
    assert_ne!(saved.hash(), before);
    let again = apply(&mut saved, vec![Command::FoundCluster(8)]).outcomes;
    assert_eq!(again, [Err(Refusal::ClusterFounded(7))]);

    let mut bytes = Vec::new();
    snapshot::write(&saved, &mut bytes).expect("memory takes it");
    let read = snapshot::read(&mut bytes.as_slice()).expect("it was just written");
    assert_eq!((read.cluster(), read.hash()), (saved.cluster(), saved.hash()), "a start from disk");

    let mut other = with_jobs(&["x"]);
    apply(&mut other, vec![Command::FoundCluster(9)]);
    parts(&saved, 1 << 20).into_iter().for_each(|part| drop(apply(&mut other, vec![part])));
    assert_eq!(other.cluster(), &ClusterIdentity { id: 9, restored_from: vec![7] });
    assert_eq!(ids(&other), ["a"]);
}

/// Whoever puts an old state back must not let in with it who was cast out since.
#[test]
fn what_was_revoked_stays_so_whatever_is_restored() {
    let revoke = |store: &mut Store, change| {
        let applied = apply(store, vec![Command::ChangeAcl(Box::new(change))]);
        assert_eq!(applied.outcomes, [Ok(())]);
        store.at()
    };
    let server = |name: &str| ChangeAcl::RevokeServer(name.to_owned());
    let revoked = |store: &Store| {
        let joins = store.acl().joins();
        let nodes: Vec<_> = joins.revoked().map(|one| (one.node.0, one.at)).collect();
        (nodes, joins.revoked_servers().map(|one| (one.name, one.at)).collect::<Vec<_>>())
    };
    let mut saved = Store::default();
    let early = [1, 2].map(|node| revoke(&mut saved, ChangeAcl::RevokeNode(NodeId(node))));
    let early_server = revoke(&mut saved, server("s1"));
    revoke(&mut saved, server("s2"));
    let parts = parts(&saved, 1 << 20);
    for store in [saved.clone(), Store::default()] {
        let mut store = store;
        (0..8).for_each(|_| drop(apply(&mut store, vec![register("x")])));
        let late = revoke(&mut store, ChangeAcl::RevokeNode(NodeId(2)));
        let later = revoke(&mut store, server("S2"));
        let last = revoke(&mut store, server("s3"));
        apply(&mut store, parts.clone());
        let expected = (
            vec![(1, early[0]), (2, late)],
            vec![("s1".to_owned(), early_server), ("s2".to_owned(), later), ("s3".to_owned(), last)],
        );
        assert_eq!(revoked(&store), expected);
        assert_eq!(store.acl().joins().revoked_index(), store.index(), "who follows looks again");
        let mut bytes = Vec::new();
        snapshot::write(&store, &mut bytes).expect("memory takes it");
        let again = snapshot::read(&mut &bytes[..]).expect("it was just written");
        assert_eq!((again.hash(), revoked(&again)), (store.hash(), expected));
    }
}

#[test]
fn no_node_of_a_restored_state_counts_as_confirmed() {
    let mut saved = with_jobs(&["a"]);
    for (id, status) in [(1, NodeStatus::Ready), (2, NodeStatus::Down), (3, NodeStatus::Initializing)] {
        let node = Node::new(NodeId(id), "n", Resources { cpu_mhz: 1, memory_mb: 1, disk_mb: 1 });
        let status = Command::SetNodeStatus(NodeId(id), status, None);
        apply(&mut saved, vec![Command::RegisterNode(Box::new(node)), status]);
    }
    let mut store = with_jobs(&["x"]);
    let before = store.index();
    let [part] = &parts(&saved, 1 << 20)[..] else { panic!("it is one part") };
    apply(&mut store, vec![part.clone()]);
    let statuses = |store: &Store| store.nodes().iter().map(|(_, row)| row.status).collect::<Vec<_>>();
    let doubted = [NodeStatus::Initializing, NodeStatus::Down, NodeStatus::Initializing];
    assert_eq!(statuses(&store), doubted);
    let mut bytes = Vec::new();
    snapshot::write(&store, &mut bytes).expect("memory takes it");
    assert_eq!(snapshot::read(&mut &bytes[..]).expect("it was just written").hash(), store.hash());

    // What was decided before speaks of a state that is gone.
    let late = Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, Some(before));
    assert_eq!(apply(&mut store, vec![late]).outcomes, [Err(Refusal::Restored)]);
    assert_eq!(statuses(&store), doubted);
    let anew = Command::SetNodeStatus(NodeId(1), NodeStatus::Ready, Some(store.index()));
    assert_eq!(apply(&mut store, vec![anew]).outcomes, [Ok(())]);

    let mut old = with_jobs(&["x"]);
    let entry = Entry::new(Index(9), Timestamp(9), vec![part.clone()]);
    old.apply(Entry { version: 3, ..entry });
    assert_eq!(statuses(&old)[0], NodeStatus::Ready, "an old log is replayed as it was applied");
}
