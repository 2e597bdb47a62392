//! What several servers owe to agents and readers, one promise each.

use std::sync::Arc;

use berth_controller::{Event, SessionId};
use berth_model::{
    NodeId, Timestamp, alloc::ClientStatus, command::Command, node::NodeStatus, observed::ObservedAlloc,
};

use super::{
    agent_and_servers_agree,
    agents::observed,
    cluster::{Cluster, SERVERS},
};

pub fn status(cluster: &Cluster, node: u128) -> Option<NodeStatus> {
    cluster.state().node(NodeId(node)).map(|(_, row)| row.status)
}

pub fn assert_none_lost(cluster: &Cluster) {
    for (_, node) in cluster.state().nodes().iter() {
        assert_ne!(node.status, NodeStatus::Down, "second {}, node {}", cluster.seconds, node.id);
    }
}

/// A cluster whose agents are all in.
pub fn settled(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(seed);
    cluster.settle(40);
    (0..6).for_each(|_| cluster.register());
    cluster.settle(10);
    cluster
}

/// Only this node's agent is silent, until the entry that declares its node down is proposed.
pub fn silence(cluster: &mut Cluster, number: usize) {
    let node = NodeId(number as u128 + 1);
    let declares_it_down = |command: &Command| match command {
        Command::SetNodeStatus(id, NodeStatus::Down, _) => *id == node,
        _ => false,
    };
    for _ in 0..60 {
        cluster.pass(1);
        (0..cluster.agents.len()).filter(|other| *other != number).for_each(|other| cluster.beat(other));
        let mut proposed = cluster.servers[cluster.leader].proposed.iter().flat_map(|entry| &entry.commands);
        if proposed.any(declares_it_down) {
            return;
        }
        cluster.drain();
    }
    panic!("nobody declares node {node} down");
}

/// The agent with the most allocations.
pub fn busiest(cluster: &Cluster) -> usize {
    (0..cluster.agents.len()).max_by_key(|number| cluster.agents[*number].held.len()).unwrap_or(0)
}

#[test]
fn changes_of_the_leader_lose_no_node_and_end_no_session() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        let sessions: Vec<_> = cluster.agents.iter().map(|agent| agent.session).collect();
        for second in 0..120 {
            if second % 5 == 0 {
                cluster.change_leader();
            }
            cluster.live();
            assert_none_lost(&cluster);
        }
        let now: Vec<_> = cluster.agents.iter().map(|agent| agent.session).collect();
        assert_eq!(now, sessions, "seed {seed}: agents stay with the server that they dialed");
    }
}

#[test]
fn a_dead_node_is_found_whoever_leads() {
    let mut cluster = settled(1);
    let session = cluster.agents[0].session.take().expect("it is connected");
    cluster.agents[0].welcomed = false;
    for second in 0..45 {
        if second == 7 {
            cluster.change_leader();
        }
        cluster.pass(1);
        (1..cluster.agents.len()).for_each(|number| cluster.beat(number));
        cluster.drain();
    }
    assert_eq!(status(&cluster, 1), Some(NodeStatus::Down), "session {session:?} was silent for 45 s");
    assert!((2..=4).all(|node| status(&cluster, node) == Some(NodeStatus::Ready)));
}

#[test]
fn followers_show_what_the_leader_shows() {
    for seed in 0..10 {
        let mut cluster = settled(seed);
        for second in 0..30 {
            if second % 4 == 0 {
                cluster.register();
            }
            if second % 11 == 0 {
                cluster.change_leader();
            }
            cluster.live();
            let leader = &cluster.servers[cluster.leader];
            for follower in &cluster.servers {
                assert_eq!(follower.view.hash(), leader.view.hash(), "seed {seed}, second {second}");
                for (slot, row) in leader.view.allocs().iter().filter(|(_, row)| !row.is_terminal()) {
                    let of = |server: &super::server::Server| {
                        server.observed.get(slot, row.id).map(|o| (o.alloc.status, o.alloc.hash))
                    };
                    let (theirs, ours) = (of(leader), of(follower));
                    assert_eq!(ours, theirs, "seed {seed}, second {second}, server {}", follower.id.0);
                }
            }
        }
    }
}

#[test]
fn the_newest_start_of_an_agent_speaks_for_its_node_on_whatever_server() {
    let mut cluster = settled(2);
    cluster.dial(0, 0);
    cluster.drain();
    let old = cluster.agents[0].session.expect("it dialed");
    // The agent starts again and dials another server; the old connection has not ended for the first one.
    cluster.agents[0].restart();
    cluster.dial(0, 1);
    cluster.drain();
    let new = cluster.agents[0].session.expect("the newest is in");
    let before: Vec<_> = cluster.agents[0].held.values().map(|held| held.status).collect();
    let allocs = cluster.agents[0].held.keys().copied();
    let made_up: Vec<_> = allocs.map(|id| Arc::new(observed(id, ClientStatus::Failed))).collect();
    assert!(!made_up.is_empty());
    let event =
        Event::Observed { session: old, seq: 1 << 40, desired_seq: 0, allocs: made_up, resync_done: true };
    cluster.tell(0, event);
    (0..3).for_each(|_| cluster.live());
    assert_eq!(cluster.agents[0].session, Some(new));
    let after: Vec<_> = cluster.agents[0].held.values().map(|held| held.status).collect();
    assert_eq!(before.len(), after.len(), "an older start has ended what the newer runs");
}

#[test]
fn a_server_that_hears_of_no_leader_sends_its_agents_to_others_in_time() {
    let mut cluster = settled(3);
    let alone = (cluster.leader + 1) % SERVERS as usize;
    (0..cluster.agents.len()).for_each(|number| cluster.dial(number, alone));
    cluster.drain();
    let alone_id = cluster.servers[alone].id;
    for other in 1..=SERVERS {
        let other = berth_controller::ServerId(other);
        cluster.network.cut((alone_id, other));
        cluster.network.cut((other, alone_id));
    }
    for _ in 0..60 {
        cluster.live();
        assert_none_lost(&cluster);
    }
    assert!(cluster.agents.iter().all(|agent| agent.session.is_some_and(|session| session > SessionId(0))));
}

#[test]
fn a_server_whose_link_was_down_is_sent_what_it_missed_and_no_more() {
    let mut cluster = settled(4);
    let behind = (cluster.leader + 1) % SERVERS as usize;
    let (leader, follower) = (cluster.servers[cluster.leader].id, cluster.servers[behind].id);
    (0..cluster.agents.len()).for_each(|number| cluster.dial(number, cluster.leader));
    cluster.drain();
    cluster.network.cut((leader, follower));
    cluster.register();
    (0..20).for_each(|_| cluster.live());
    let shown = |cluster: &Cluster, number: usize| {
        let server = &cluster.servers[number];
        let live = server.view.allocs().iter().filter(|(_, row)| !row.is_terminal());
        live.filter(|(slot, row)| server.observed.get(*slot, row.id).is_some()).count()
    };
    assert!(shown(&cluster, behind) <= shown(&cluster, cluster.leader));
    assert_eq!(
        cluster.servers[behind].view.hash(),
        cluster.state().hash(),
        "the log is published all the same"
    );
    cluster.network.heal();
    (0..5).for_each(|_| cluster.live());
    assert_eq!(shown(&cluster, behind), shown(&cluster, cluster.leader));
}

#[test]
fn what_an_agent_has_dropped_on_the_word_of_another_server_is_no_leftover() {
    let mut cluster = settled(5);
    let (ahead, behind) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let number = busiest(&cluster);
    cluster.dial(number, ahead);
    (0..3).for_each(|_| cluster.live());
    let before: Vec<_> = cluster.agents[number].held.keys().copied().collect();
    assert!(!before.is_empty());
    // From now on the other server applies what is written, and publishes none of it.
    cluster.network.cut((cluster.servers[ahead].id, cluster.servers[behind].id));
    before.iter().for_each(|_| cluster.agents[number].work(true));
    cluster.report(number);
    cluster.drain();
    assert!(
        before.iter().all(|id| !cluster.agents[number].held.contains_key(id)),
        "all have failed and are dropped"
    );
    cluster.dial(number, behind);
    cluster.report(number);
    cluster.drain();
    assert!(cluster.agents[number].welcomed);
    cluster.network.heal();
    // No heartbeats: nothing but what was said so far tells what runs there.
    for _ in 0..8 {
        cluster.pass(1);
        cluster.drain();
    }
    assert_eq!(cluster.servers[ahead].unconfirmed, 0, "the agent has reported all that it holds");
}

#[test]
fn what_an_agent_said_before_it_dialed_the_same_server_anew_holds_nothing_up() {
    let mut cluster = settled(6);
    let (leader, follower) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let number = busiest(&cluster);
    cluster.dial(number, follower);
    (0..3).for_each(|_| cluster.live());
    // As many reports as a server sends before the leader has recorded the first are lost on their way to it.
    cluster.network.cut((cluster.servers[follower].id, cluster.servers[leader].id));
    let session = cluster.agents[number].session.expect("it dialed");
    let (id, _) = cluster.agents[number].held.first_key_value().expect("it is the busiest");
    let allocs = vec![Arc::new(ObservedAlloc { hash: 1, ..observed(*id, ClientStatus::Running) })];
    for seq in 1..=4 {
        let (seq, allocs) = ((1 << 20) + seq, allocs.clone());
        cluster.tell(follower, Event::Observed { session, seq, desired_seq: 0, allocs, resync_done: false });
    }
    cluster.dial(number, follower);
    cluster.network.heal();
    cluster.elect((cluster.leader + 2) % SERVERS as usize);
    (0..5).for_each(|_| cluster.live());
    cluster.agents[number].work(true);
    (0..5).for_each(|_| cluster.live());
    agent_and_servers_agree(&cluster, &cluster.agents[number]);
}

#[test]
fn what_is_reported_of_a_node_is_cut_to_frames() {
    const OBSERVATION: usize = 600 << 10;
    let mut cluster = settled(6);
    let (old, new) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let number = busiest(&cluster);
    cluster.dial(number, old);
    (0..3).for_each(|_| cluster.live());
    let held: Vec<_> = cluster.agents[number].held.iter().map(|(id, held)| (*id, held.status)).collect();
    assert!(held.len() >= 3, "they do not fit one frame");
    // The next leader knows nothing of what is observed from now on.
    cluster.network.cut((cluster.servers[old].id, cluster.servers[new].id));
    let session = cluster.agents[number].session.expect("it dialed");
    let large = |(id, status): &(_, ClientStatus)| {
        let (description, modified_at) = ("x".repeat(OBSERVATION), Timestamp(1 << 60));
        Arc::new(ObservedAlloc { description, modified_at, hash: 1, ..observed(*id, *status) })
    };
    let allocs: Vec<_> = held.iter().map(large).collect();
    let event = Event::Observed { session, seq: 1 << 41, desired_seq: 0, allocs, resync_done: false };
    cluster.tell(old, event);
    cluster.drain();
    cluster.network.heal();
    cluster.elect(new);
    cluster.drain();
    let shown = held.iter().filter(|(id, _)| {
        let server = &cluster.servers[new];
        let slot = server.view.alloc(*id).map(|(slot, _)| slot);
        let seen = slot.and_then(|slot| server.observed.get(slot, *id));
        seen.is_some_and(|seen| seen.alloc.description.len() == OBSERVATION)
    });
    assert_eq!(shown.count(), held.len(), "the next leader was told everything");
    let largest = cluster.network.largest;
    assert!(largest < 2 * OBSERVATION, "a message of {largest} bytes holds more than a frame");
}

#[test]
fn a_report_said_before_its_node_was_declared_down_vouches_for_nothing() {
    let mut cluster = settled(6);
    let (leader, follower) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let number = busiest(&cluster);
    let node = number as u128 + 1;
    cluster.dial(number, follower);
    (0..3).for_each(|_| cluster.live());
    assert!(cluster.agents[number].held.len() >= 3, "two end, and others run on");
    silence(&mut cluster, number);
    // What it says now is on its way while its node is declared down.
    cluster.agents[number].work(true);
    cluster.report(number);
    cluster.drain();
    assert_eq!(status(&cluster, node), Some(NodeStatus::Down));
    cluster.agents[number].work(true);
    cluster.dial(number, leader);
    cluster.report(number);
    cluster.drain();
    assert!(cluster.agents[number].held.values().any(|held| !held.status.is_terminal()));
    assert_eq!(status(&cluster, node), Some(NodeStatus::Down), "what was declared lost runs on");
    (0..20).for_each(|_| cluster.live());
    assert_eq!(status(&cluster, node), Some(NodeStatus::Ready));
}

/// The agent is back before it is committed that its work is given up: what it confirmed by then says nothing of that.
#[test]
fn a_node_that_is_back_while_its_work_is_given_up_is_confirmed_anew() {
    for on_follower in [false, true] {
        let mut cluster = settled(6);
        let leader = cluster.leader;
        let home = if on_follower { (leader + 1) % SERVERS as usize } else { leader };
        let number = busiest(&cluster);
        let node = number as u128 + 1;
        cluster.dial(number, home);
        (0..3).for_each(|_| cluster.live());
        silence(&mut cluster, number);
        // Its node is down, and the evaluations of its jobs are made; the plans of these are not committed.
        for _ in 0..2 {
            let entries = cluster.servers[leader].proposed.drain(..).collect();
            cluster.append(entries);
            (0..SERVERS as usize).for_each(|server| cluster.apply(server, usize::MAX));
        }
        assert_eq!(status(&cluster, node), Some(NodeStatus::Down));
        assert!(!cluster.servers[leader].asked.is_empty());
        while !cluster.servers[leader].asked.is_empty() {
            cluster.plan();
        }
        cluster.dial(number, home);
        cluster.report(number);
        (0..200).for_each(|_| cluster.carry());
        cluster.drain();
        let runs = cluster.agents[number].held.values().any(|held| !held.status.is_terminal());
        assert!(runs, "what was given up has not ended");
        assert_eq!(status(&cluster, node), Some(NodeStatus::Down), "its room is free, and is not");
        (0..20).for_each(|_| cluster.live());
        assert_eq!(status(&cluster, node), Some(NodeStatus::Ready));
    }
}

#[test]
fn a_server_that_lags_does_not_vouch_to_a_new_leader_for_a_node_that_was_declared_down() {
    let mut cluster = settled(6);
    let old = cluster.leader;
    let new = (old + 1) % SERVERS as usize;
    let number = busiest(&cluster);
    let node = number as u128 + 1;
    cluster.dial(number, old);
    (0..3).for_each(|_| cluster.live());
    silence(&mut cluster, number);
    let entries = cluster.servers[old].proposed.drain(..).collect();
    cluster.append(entries);
    cluster.elect(new);
    assert_eq!(status(&cluster, node), Some(NodeStatus::Down));
    // The others speak before they have applied that: the agent's session is open on one of them.
    (0..100).for_each(|_| cluster.carry());
    let commands = cluster.servers[new].proposed.iter().flat_map(|entry| &entry.commands);
    let statuses = commands.filter(|command| matches!(command, Command::SetNodeStatus(..)));
    assert_eq!(statuses.count(), 0, "nobody has said what runs there since it was declared down");
    (0..20).for_each(|_| cluster.live());
    assert_eq!(status(&cluster, node), Some(NodeStatus::Ready));
}

#[test]
fn what_was_recorded_before_a_node_was_declared_down_lets_its_agent_leave_nothing_out() {
    let mut cluster = settled(6);
    let (old, new) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let number = busiest(&cluster);
    let node = number as u128 + 1;
    cluster.dial(number, old);
    (0..3).for_each(|_| cluster.live());
    // The next leader does not learn what the agent reports last.
    cluster.network.cut((cluster.servers[old].id, cluster.servers[new].id));
    cluster.agents[number].work(true);
    cluster.report(number);
    cluster.drain();
    silence(&mut cluster, number);
    let entries = cluster.servers[old].proposed.drain(..).collect();
    cluster.append(entries);
    cluster.network.heal();
    cluster.elect(new);
    // The old one speaks before it has applied that the node is down.
    (0..100).for_each(|_| cluster.carry());
    cluster.drain();
    assert_eq!(status(&cluster, node), Some(NodeStatus::Down));
    assert!(!cluster.agents[number].held.is_empty());
    cluster.agents[number].work(true);
    cluster.dial(number, new);
    let Some(Event::Observed { allocs, .. }) = cluster.agents[number].update() else {
        panic!("the agent of a node that is down has nothing to report");
    };
    assert_eq!(allocs.len(), cluster.agents[number].held.len(), "all that it holds, not what has changed");
}

#[test]
fn what_a_server_lacks_of_a_large_node_is_sent_in_bounded_parts() {
    const OBSERVATION: usize = 1000 << 10;
    let mut cluster = settled(6);
    let (leader, behind) = (cluster.leader, (cluster.leader + 1) % SERVERS as usize);
    let number = busiest(&cluster);
    cluster.dial(number, leader);
    (0..3).for_each(|_| cluster.live());
    let held: Vec<_> = cluster.agents[number].held.iter().map(|(id, held)| (*id, held.status)).collect();
    assert!(held.len() >= 3, "they are more than is told together");
    cluster.network.cut((cluster.servers[leader].id, cluster.servers[behind].id));
    let session = cluster.agents[number].session.expect("it dialed");
    let large = |(id, status): &(_, ClientStatus)| {
        let (description, modified_at) = ("x".repeat(OBSERVATION), Timestamp(1 << 60));
        Arc::new(ObservedAlloc { description, modified_at, hash: 1, ..observed(*id, *status) })
    };
    let allocs = held.iter().map(large).collect();
    let event = Event::Observed { session, seq: 1 << 41, desired_seq: 0, allocs, resync_done: false };
    cluster.tell(leader, event);
    cluster.drain();
    cluster.network.heal();
    cluster.network.largest = 0;
    (0..5).for_each(|_| cluster.live());
    let server = &cluster.servers[behind];
    let shown = held.iter().filter(|(id, _)| {
        let slot = server.view.alloc(*id).map(|(slot, _)| slot);
        let seen = slot.and_then(|slot| server.observed.get(slot, *id));
        seen.is_some_and(|seen| seen.alloc.description.len() == OBSERVATION)
    });
    assert_eq!(shown.count(), held.len(), "it was told everything");
    let largest = cluster.network.largest;
    assert!(largest < 2 * OBSERVATION, "a message of {largest} bytes holds more than one observation");
}
