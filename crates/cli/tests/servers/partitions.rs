//! Leaders that are cut off or stand still: another takes over, nobody reads what is old, and peace returns soon.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::{
    e2e::{eventually, servers::Servers},
    is_long, judge,
};

/// For how long a leader stands still in the long run.
const PAUSES_S: [u64; 4] = [1, 5, 20, 60];
/// After a partition has healed, terms rise no more than so often.
const TERMS_MAX: u64 = 2;
/// By then servers that are to elect another leader have done so.
const CALM: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_paused_never_answers_with_an_old_state() {
    let servers = Servers::start(3).await;
    let pauses = if is_long() { &PAUSES_S[..] } else { &[0] };
    for pause in pauses {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others = servers.followers(&[1, 2, 3]).await;
        let paused = Instant::now();
        servers.signal(leader, Signal::STOP);
        let id = format!("meanwhile-{pause}");
        if *pause < 5 {
            servers.leader(&others).await;
        }
        eventually("the others take a write", async || servers.all[&others[0]].register(&id).await.ok())
            .await;
        tokio::time::sleep(Duration::from_secs(*pause).saturating_sub(paused.elapsed())).await;
        servers.signal(leader, Signal::CONT);
        let known = eventually("it answers again", async || servers.all[&leader].knows(&id).await.ok()).await;
        assert!(known, "a server that led before answers with an old state");
    }
}

/// The newest term that any of the servers knows.
async fn newest_term(servers: &Servers) -> u64 {
    let mut newest = 0;
    for server in servers.all.values() {
        let members = server.members().await.members;
        let terms = members.iter().filter_map(|member| member.tags["term"].parse().ok());
        newest = terms.chain([newest]).max().unwrap_or(newest);
    }
    newest
}

/// Which links of three servers are cut.
#[derive(Debug, Clone, Copy)]
enum Cut {
    /// Nothing reaches the leader.
    Deaf,
    /// Nobody hears the leader.
    Mute,
    /// Both.
    Isolated,
    /// The leader and one of the others do not reach each other; the third reaches both.
    Bridge,
    /// Nothing reaches a follower, and it reaches nobody.
    Follower,
}

impl Cut {
    /// Each is made so often in the long run, and the first ones once in the short one.
    const ALL: [Self; 5] = [Self::Deaf, Self::Mute, Self::Isolated, Self::Bridge, Self::Follower];
    const LONG: usize = 20;

    fn rounds() -> impl Iterator<Item = Self> {
        if is_long() { Self::ALL.repeat(Self::LONG) } else { Self::ALL.to_vec() }.into_iter()
    }

    fn make(self, servers: &Servers, leader: u8, others: &[u8]) {
        match self {
            Self::Deaf => others.iter().for_each(|other| servers.links.cut(*other, leader)),
            Self::Mute => others.iter().for_each(|other| servers.links.cut(leader, *other)),
            Self::Isolated => servers.links.isolate(leader, others.to_vec()),
            Self::Bridge => servers.links.isolate(leader, [others[0]]),
            Self::Follower => servers.links.isolate(others[0], [leader, others[1]]),
        }
    }

    /// Who is to take writes meanwhile: it reaches a majority, whoever leads.
    fn taker(self, leader: u8, others: &[u8]) -> u8 {
        if matches!(self, Self::Follower) { leader } else { others[1] }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_cut_off_is_done_without_and_all_agree_soon_after() {
    let servers = Servers::start(3).await;
    let mut took = Vec::new();
    for (round, cut) in Cut::rounds().enumerate() {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others = servers.followers(&[1, 2, 3]).await;
        let began = Instant::now();
        cut.make(&servers, leader, &others);
        let (id, taker) = (format!("round-{round}"), cut.taker(leader, &others));
        eventually("a majority takes a write", async || servers.all[&taker].register(&id).await.ok()).await;
        took.push(began.elapsed());
        let before = newest_term(&servers).await;
        servers.links.heal();
        for number in [1, 2, 3] {
            let known = eventually("a read", async || servers.all[&number].knows(&id).await.ok()).await;
            assert!(known, "server {number} does not know what was written in round {round}, {cut:?}");
        }
        servers.until_all_vote().await;
        tokio::time::sleep(CALM).await;
        let after = newest_term(&servers).await;
        assert!(
            after <= before + TERMS_MAX,
            "terms rose from {before} to {after} after round {round}, {cut:?}"
        );
    }
    judge("writes go on while a server is cut off", took, [Duration::from_secs(3); 2]);
}

/// A follower whose links come and go asks the others first whether they would elect it, and disturbs nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_whose_links_flap_deposes_nobody() {
    let servers = Servers::start(3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let follower = servers.followers(&[1, 2, 3]).await[0];
    let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != follower).collect();
    let before = newest_term(&servers).await;
    for round in 0..if is_long() { 20 } else { 3 } {
        servers.links.isolate(follower, others.clone());
        tokio::time::sleep(CALM).await;
        servers.all[&leader].register(&format!("apart-{round}")).await.expect("a majority is there");
        servers.links.heal();
        tokio::time::sleep(CALM / 4).await;
    }
    servers.until_all_vote().await;
    assert_eq!(servers.leader(&[1, 2, 3]).await, leader);
    assert_eq!(newest_term(&servers).await, before, "an election was held that nobody needed");
}
