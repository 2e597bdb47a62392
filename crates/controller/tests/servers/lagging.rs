//! Stories of a leader whose own replica publishes later than others do, because it is told much at once.

use std::sync::Arc;

use berth_controller::Event;
use berth_model::{
    EvalId, Timestamp,
    command::{Command, RegisterJob},
    observed::ObservedAlloc,
};

use super::{
    agents::observed,
    cluster::{JOBS, SERVERS, job},
    stories::{busiest, settled},
};

/// More may be told at once than a leader tells its own replica in one go: meanwhile another server loses its connection, and what
/// that was told before it comes again stands in nothing that the leader's replica has published.
#[test]
fn what_a_server_missed_is_sent_to_it_though_the_leaders_own_replica_has_not_published_it_yet() {
    let mut cluster = settled(6);
    let (leader, behind) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let other = (cluster.leader + 2) % SERVERS as usize;
    let number = busiest(&cluster);
    cluster.dial(number, other);
    (0..3).for_each(|_| cluster.live());
    let held: Vec<_> = cluster.agents[number].held.iter().map(|(id, held)| (*id, held.status)).collect();
    let session = cluster.agents[number].session.expect("it dialed");
    let way = (cluster.servers[leader].id, cluster.servers[behind].id);
    cluster.network.own_waits = true;
    // The first is lost on its way, the second shows that something was.
    for (seq, is_lost) in [(1 << 41, true), ((1 << 41) + 1, false)] {
        if is_lost {
            cluster.network.cut(way);
        }
        let (id, status) = held[usize::from(!is_lost)];
        let (description, modified_at) = ("new".to_owned(), Timestamp(1 << 60));
        let alloc = Arc::new(ObservedAlloc { description, modified_at, hash: 1, ..observed(id, status) });
        let event = Event::Observed { session, seq, desired_seq: 0, allocs: vec![alloc], resync_done: false };
        cluster.tell(other, event);
        cluster.drain();
        cluster.network.mend();
    }
    cluster.network.heal();
    for _ in 0..2 {
        cluster.pass(1);
        cluster.drain();
    }
    for server in &cluster.servers {
        for (id, _) in &held[..2] {
            let slot = server.view.alloc(*id).map(|(slot, _)| slot);
            let seen =
                slot.and_then(|slot| server.observed.get(slot, *id)).map(|seen| &*seen.alloc.description);
            assert_eq!(seen, Some("new"), "server {}, allocation {id}", server.id.0);
        }
    }
}

/// What was applied may be published some time later: an evaluation that is planned on what is published before that would not find
/// its job, and be answered with nothing, forever.
#[test]
fn a_job_that_the_leaders_own_replica_has_not_published_yet_is_placed_all_the_same() {
    let mut cluster = settled(6);
    let number = busiest(&cluster);
    cluster.dial(number, cluster.leader);
    (0..3).for_each(|_| cluster.live());
    cluster.network.own_waits = true;
    // Something is observed, behind which entries wait.
    let (id, held) = cluster.agents[number].held.iter().next().expect("it is the busiest");
    let alloc = Arc::new(ObservedAlloc { hash: 1, ..observed(*id, held.status) });
    let session = cluster.agents[number].session.expect("it dialed");
    let event =
        Event::Observed { session, seq: 1 << 41, desired_seq: 0, allocs: vec![alloc], resync_done: false };
    cluster.tell(cluster.leader, event);
    let job = Arc::new(job(JOBS, 1, 1));
    let key = job.key.clone();
    let register = RegisterJob { job, eval: EvalId(7), only_if: None, submission: None };
    cluster.request(Command::RegisterJob(Box::new(register)));
    cluster.drain();
    let leader = &cluster.servers[cluster.leader];
    assert!(leader.store.job(&key).is_some() && leader.view.job(&key).is_none(), "it is not published yet");
    cluster.network.heal();
    (0..2).for_each(|_| cluster.live());
    let store = &cluster.servers[cluster.leader].store;
    let row = store.job(&key).expect("it was registered");
    assert_eq!(store.jobs().allocs(row).count(), 1, "it was answered with nothing");
}
