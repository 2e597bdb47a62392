//! A leader with much to do: it is told everything ever more seldom, and agents stay where they are while it answers.

use berth_controller::{Event, ServerId, ServerMessage, UpFrame, UpMessage};

use super::{
    cluster::{Cluster, SERVERS},
    stories::settled,
};

/// A cluster whose agents are all with a follower: that one, and the leader.
fn with_a_follower(seed: u64) -> (Cluster, usize, [ServerId; 2]) {
    let mut cluster = settled(seed);
    let follower = (cluster.leader + 1) % SERVERS as usize;
    (0..cluster.agents.len()).for_each(|agent| cluster.dial(agent, follower));
    (0..3).for_each(|_| cluster.live());
    let ids = [cluster.servers[follower].id, cluster.servers[cluster.leader].id];
    (cluster, follower, ids)
}

/// What a follower has said, which the leader does not come to read.
fn unread(cluster: &mut Cluster, way: [ServerId; 2]) -> Vec<UpFrame> {
    let frames = cluster.network.intercept((way[0], way[1])).into_iter();
    let frames = frames.map(|bytes| ServerMessage::decode(&bytes).expect("it was just encoded"));
    frames
        .map(|message| match message {
            ServerMessage::Up(frame) => frame,
            ServerMessage::Down(_) => panic!("a follower leads nobody"),
        })
        .collect()
}

#[test]
fn a_leader_that_does_not_answer_is_attached_to_with_backoff_and_sent_nothing_before_it_does() {
    let (mut cluster, follower, ways) = with_a_follower(1);
    let mut attached_at = Vec::new();
    for second in 0..100 {
        cluster.pass(1);
        // What it does for its agents it has to say.
        (0..cluster.agents.len()).for_each(|agent| cluster.beat(agent));
        for frame in unread(&mut cluster, ways) {
            let is_first = frame.number == 1;
            attached_at.extend(is_first.then_some(second));
            let is_recorded = |message: &UpMessage| matches!(message, UpMessage::Recorded(..));
            let asks_alone = frame.messages.iter().all(|message| is_first && is_recorded(message));
            assert!(asks_alone || attached_at.is_empty(), "second {second}: {:?}", frame.messages);
        }
    }
    let pauses: Vec<i32> = attached_at.windows(2).map(|of| of[1] - of[0]).collect();
    assert!(
        pauses.is_sorted() && pauses[0] < 10 && pauses.last().is_some_and(|last| *last > 20),
        "{pauses:?}"
    );
    // It comes to it after all.
    cluster.settle(10);
    assert!(cluster.agents.iter().all(|agent| agent.session.is_some()));
    assert_eq!(cluster.servers[follower].unconfirmed, 0);
}

/// How long agents stay with a server whose leader says nothing, in seconds, at most 60. What other servers answer each second is
/// made of the term, who leads in it, and one that does not.
fn stay(answers: impl Fn(u64, ServerId, ServerId) -> Vec<(u64, ServerId)>) -> u64 {
    let (mut cluster, follower, ways) = with_a_follower(2);
    let third = ServerId(1 + (cluster.leader as u64 + 2) % SERVERS);
    for second in 0..60 {
        cluster.pass(1);
        unread(&mut cluster, ways);
        for (term, leader) in answers(cluster.term, ways[1], third) {
            cluster.tell(follower, Event::LeaderAnswered { term, leader });
        }
        if cluster.agents.iter().any(|agent| agent.session.is_none()) {
            return second;
        }
    }
    60
}

#[test]
fn agents_stay_twice_as_long_while_a_silent_leader_answers() {
    let silent = stay(|_, _, _| Vec::new());
    let busy = stay(|term, leader, _| vec![(term, leader)]);
    assert!((5..8).contains(&silent) && (11..14).contains(&busy), "{silent} s and {busy} s");
    let of_others = stay(|term, leader, third| vec![(term - 1, leader), (term + 1, leader), (term, third)]);
    assert_eq!(of_others, silent, "whoever does not lead now has no say");
}
