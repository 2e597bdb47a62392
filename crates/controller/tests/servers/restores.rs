//! A snapshot takes the place of the state while servers tell each other what was observed before: none of that counts for
//! the restored state, in which the same allocations may be there.

use std::sync::Arc;

use berth_controller::{Event, SessionId};
use berth_model::{
    AllocId,
    alloc::ClientStatus,
    command::{Command, RestorePart},
    store::{Store, snapshot},
};

use super::{
    agents::observed,
    cluster::{Cluster, SERVERS},
    stories::{busiest, settled},
};

/// Puts a state in the place of the present one; only the leader has applied that.
fn restore(cluster: &mut Cluster, saved: &Store) {
    let mut records = Vec::new();
    snapshot::write_records(saved, &mut records).expect("memory takes it");
    let granted = saved.granted().max(saved.index());
    let size = records.len() / 2 + 1;
    for (number, bytes) in records.chunks(size).enumerate() {
        let part =
            RestorePart { number: number as u32, bytes: bytes.to_vec(), granted, revives_tokens: None };
        cluster.request(Command::RestorePart(part));
        commit(cluster);
    }
    assert_eq!(cluster.servers[cluster.leader].store.restored_at(), cluster.state().restored_at());
    assert!(cluster.state().restored_at() > saved.index());
}

/// What the leader has proposed is committed, and only the leader applies it.
fn commit(cluster: &mut Cluster) {
    while !cluster.servers[cluster.leader].proposed.is_empty() {
        let entries = cluster.servers[cluster.leader].proposed.drain(..).collect();
        cluster.append(entries);
        cluster.apply(cluster.leader, usize::MAX);
    }
}

/// The agent with the most allocations, which has dialed this server, and the allocations.
fn agent_at(cluster: &mut Cluster, server: usize) -> (usize, SessionId, Vec<AllocId>) {
    let number = busiest(cluster);
    cluster.dial(number, server);
    (0..3).for_each(|_| cluster.live());
    let held = cluster.agents[number].held.keys().copied().collect::<Vec<_>>();
    assert!(!held.is_empty());
    (number, cluster.agents[number].session.expect("it dialed"), held)
}

/// Somebody says for an agent that its allocations have failed.
fn say_failed(cluster: &mut Cluster, server: usize, session: SessionId, held: &[AllocId]) {
    let allocs = held.iter().map(|id| Arc::new(observed(*id, ClientStatus::Failed))).collect();
    let event = Event::Observed { session, seq: 1 << 40, desired_seq: 0, allocs, resync_done: false };
    cluster.tell(server, event);
}

#[test]
fn what_another_server_said_before_a_restore_ends_nothing_of_the_restored_state() {
    let mut cluster = settled(7);
    let (leader, follower) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let (number, _, held) = agent_at(&mut cluster, follower);
    let saved = cluster.state().clone();
    // That it is there again, and what it says then, is on its way while the state is restored.
    cluster.dial(number, follower);
    let session = cluster.agents[number].session.expect("it dialed");
    say_failed(&mut cluster, follower, session, &held);
    restore(&mut cluster, &saved);
    assert_eq!(cluster.leader, leader);
    (0..100).for_each(|_| cluster.carry());
    commit(&mut cluster);
    for id in &held {
        let row = cluster.state().alloc(*id).map(|(_, row)| *row).expect("it was saved");
        assert!(!row.is_terminal(), "what was said of {id} before the restore has ended it after that");
    }
    (0..20).for_each(|_| cluster.live());
    let holds = |id: &AllocId| cluster.agents[number].held.contains_key(id);
    assert!(held.iter().all(holds), "what runs as the restored state wants it goes on");
}

#[test]
fn what_waits_to_be_published_when_a_restore_is_applied_is_not_shown_of_the_restored_state() {
    let mut cluster = settled(8);
    let (leader, behind) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let (_, session, held) = agent_at(&mut cluster, leader);
    let saved = cluster.state().clone();
    // An entry that the other server has yet to apply, and then an observation, which waits there for it.
    cluster.register();
    commit(&mut cluster);
    say_running(&mut cluster, leader, session, &held);
    (0..100).for_each(|_| cluster.carry());
    restore(&mut cluster, &saved);
    cluster.apply(behind, usize::MAX);
    // It waits for the leader no longer: not since it was heard last, and not since it was attached to again.
    cluster.pass(12);
    let server = &cluster.servers[behind];
    assert_eq!(server.view.hash(), cluster.state().hash(), "the restored state is published");
    for id in &held {
        let (slot, _) = server.store.alloc(*id).expect("it was saved");
        let description = server.observed.get(slot, *id).map(|seen| seen.alloc.description.clone());
        assert_eq!(description, None, "it was said before the restore");
    }
    (0..20).for_each(|_| cluster.live());
    let server = &cluster.servers[behind];
    for id in &held {
        let seen = server.view.alloc(*id).and_then(|(slot, _)| server.observed.get(slot, *id));
        assert_eq!(
            seen.map(|seen| seen.alloc.status),
            Some(ClientStatus::Running),
            "its agent says so again"
        );
    }
}

fn say_running(cluster: &mut Cluster, server: usize, session: SessionId, held: &[AllocId]) {
    let report = |id: &AllocId| {
        let mut report = observed(*id, ClientStatus::Running);
        (report.description, report.hash) = ("before".to_owned(), 1);
        Arc::new(report)
    };
    let allocs = held.iter().map(report).collect();
    let event = Event::Observed { session, seq: 1 << 40, desired_seq: 0, allocs, resync_done: false };
    cluster.tell(server, event);
}
