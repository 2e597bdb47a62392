//! Servers that vanish, hear no majority, or have a bad link to the leader: no node is lost that is there.

use std::{sync::Arc, time::Duration};

use berth_controller::Event;
use berth_model::{
    EvalId, NodeId,
    alloc::ClientStatus,
    command::{Command, RegisterJob},
    job::Disconnect,
    node::NodeStatus,
};

use super::{
    cluster::{Cluster, JOBS, SERVERS, job},
    stories::{assert_none_lost, settled, status},
};

/// How often agents give a sign of life, in seconds.
const HEARTBEAT_SECS: u64 = 5;
/// After so long without an answer to one they leave a server.
const ACK_MAX_SECS: u64 = 10;

/// A server vanishes with all agents on it, as late after their last signs of life as can be; they notice as late as can be.
/// After `led_after` seconds another one leads.
fn vanishes(cluster: &mut Cluster, number: usize, led_after: Option<u64>) {
    (0..cluster.agents.len()).for_each(|agent| cluster.dial(agent, number));
    (0..3).for_each(|_| cluster.live());
    for _ in 0..HEARTBEAT_SECS {
        cluster.pass(1);
        cluster.drain();
    }
    cluster.vanish(number);
    for second in 0..40 {
        if led_after == Some(second) {
            cluster.elect((number + 1) % SERVERS as usize);
        }
        if second < HEARTBEAT_SECS + ACK_MAX_SECS {
            cluster.pass(1);
            cluster.drain();
        } else {
            cluster.leave(number);
            cluster.live();
        }
        assert_none_lost(cluster);
    }
}

#[test]
fn a_follower_that_vanishes_without_ending_its_sessions_loses_no_node() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let follower = (cluster.leader + 1) % SERVERS as usize;
        vanishes(&mut cluster, follower, None);
        assert!((1..=4).all(|node| status(&cluster, node) == Some(NodeStatus::Ready)));
    }
}

#[test]
fn a_leader_that_vanishes_without_ending_its_sessions_loses_no_node() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let leader = cluster.leader;
        vanishes(&mut cluster, leader, Some(2));
        assert!((1..=4).all(|node| status(&cluster, node) == Some(NodeStatus::Ready)));
    }
}

#[test]
fn a_node_that_dies_with_its_server_is_declared_lost_in_the_end() {
    let mut cluster = settled(1);
    let follower = (cluster.leader + 1) % SERVERS as usize;
    cluster.dial(0, follower);
    (0..3).for_each(|_| cluster.live());
    cluster.vanish(follower);
    for _ in 0..40 {
        cluster.pass(1);
        (1..cluster.agents.len()).for_each(|number| cluster.beat(number));
        cluster.drain();
    }
    assert_eq!(status(&cluster, 1), Some(NodeStatus::Down));
}

/// Whoever spoke to it has time to come back each time; what is lost elsewhere does not wait for that.
#[test]
fn a_server_that_comes_and_goes_keeps_nothing_from_being_lost() {
    let mut cluster = settled(1);
    let (leader, flapping) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    (0..cluster.agents.len()).for_each(|number| cluster.dial(number, leader));
    let mut job = job(JOBS, 1, 100);
    let disconnect = Disconnect { lost_after: Some(Duration::from_secs(60)), ..Disconnect::default() };
    job.groups[0].disconnect = Some(Box::new(disconnect));
    let register =
        RegisterJob { job: Arc::new(job.clone()), eval: EvalId(77), only_if: None, submission: None };
    cluster.request(Command::RegisterJob(Box::new(register)));
    (0..5).for_each(|_| cluster.live());
    let placed = |cluster: &Cluster| {
        let store = cluster.state();
        let slot = store.jobs().allocs(store.job(&job.key)?).next()?;
        let row = store.allocs().row(slot)?;
        Some((row.id, store.nodes().row(row.node)?.id))
    };
    let (alloc, NodeId(node)) = placed(&cluster).expect("it was placed");
    let is_lost = |cluster: &Cluster| {
        cluster.state().alloc(alloc).is_none_or(|(_, row)| row.client == ClientStatus::Lost)
    };
    let mut lost_after = None;
    for second in 0..240 {
        match second % 20 {
            0 => cluster.vanish(flapping),
            12 => cluster.revive(),
            _ => {}
        }
        cluster.pass(1);
        for number in (0..cluster.agents.len()).filter(|number| *number as u128 + 1 != node) {
            cluster.beat(number);
            cluster.agents[number].work(false);
            cluster.report(number);
        }
        cluster.drain();
        if is_lost(&cluster) {
            lost_after.get_or_insert(second);
        }
    }
    assert!(lost_after.is_some(), "its node is gone, and nobody gives it up");
    assert_eq!(status(&cluster, node), Some(NodeStatus::Down));
}

#[test]
fn a_leader_that_hears_no_majority_sends_its_agents_to_others_in_time() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let old = cluster.leader;
        (0..cluster.agents.len()).for_each(|number| cluster.dial(number, old));
        (0..3).for_each(|_| cluster.live());
        cluster.isolate_leader(&[]);
        for second in 0..60 {
            if second == 2 {
                cluster.tell(old, Event::Majority { heard: false });
            }
            cluster.live();
            assert_none_lost(&cluster);
        }
        assert!((1..=4).all(|node| status(&cluster, node) == Some(NodeStatus::Ready)));
    }
}

/// Its frames go on, and say nothing of the others: what it says of itself does.
#[test]
fn a_follower_whose_leader_hears_no_majority_sends_its_agents_to_others_in_time() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let beside = (cluster.leader + 2) % SERVERS as usize;
        (0..cluster.agents.len()).for_each(|number| cluster.dial(number, beside));
        (0..3).for_each(|_| cluster.live());
        let old = cluster.isolate_leader(&[beside]);
        for second in 0..60 {
            if second >= 3 {
                cluster.tell(old, Event::Majority { heard: false });
                cluster.tell(beside, Event::Majority { heard: false });
            }
            cluster.live();
            assert_none_lost(&cluster);
        }
        assert!((1..=4).all(|node| status(&cluster, node) == Some(NodeStatus::Ready)));
    }
}

#[test]
fn signs_of_life_that_were_lost_with_a_connection_to_the_leader_are_reported_again() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let follower = (cluster.leader + 1) % SERVERS as usize;
        let way = (cluster.servers[follower].id, cluster.servers[cluster.leader].id);
        (0..cluster.agents.len()).for_each(|agent| cluster.dial(agent, follower));
        (0..3).for_each(|_| cluster.live());
        for second in 0..60 {
            cluster.pass(1);
            cluster.drain();
            if second % HEARTBEAT_SECS == 0 {
                (0..cluster.agents.len()).for_each(|agent| cluster.beat(agent));
                cluster.network.break_off(way, false);
            }
            assert_none_lost(&cluster);
        }
        // Whoever says no more is not kept alive by it.
        for second in 0..30 {
            cluster.pass(1);
            cluster.drain();
            if second % 3 == 0 {
                cluster.network.break_off(way, false);
            }
        }
        assert!((1..=4).any(|node| status(&cluster, node) == Some(NodeStatus::Down)), "seed {seed}");
    }
}
