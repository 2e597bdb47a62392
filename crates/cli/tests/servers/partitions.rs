//! Leaders that are partitioned or paused: another takes over, no read is stale, and the cluster recovers soon.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_api::http::Target;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    e2e::{
        eventually,
        nodes::{Nodes, is_alive},
        servers::Servers,
    },
    is_long, judge, rounds,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
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
    const ALL: [Self; 5] = [Self::Deaf, Self::Mute, Self::Isolated, Self::Bridge, Self::Follower];

    /// Each once in the short run, and twice a round all together in the long one.
    fn rounds() -> impl Iterator<Item = Self> {
        let times = if is_long() { (2 * rounds()).div_ceil(Self::ALL.len()) } else { 1 };
        Self::ALL.repeat(times).into_iter()
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
    let mut took = BTreeMap::<Cut, Vec<Duration>>::new();
    for (round, cut) in Cut::rounds().enumerate() {
        let leader = servers.leader(&[1, 2, 3]).await;
        let others = servers.followers(&[1, 2, 3]).await;
        let began = Instant::now();
        cut.make(&servers, leader, &others);
        let (id, taker) = (format!("round-{round}"), cut.taker(leader, &others));
        eventually("a majority takes a write", async || servers.all[&taker].register(&id).await.ok()).await;
        took.entry(cut).or_default().push(began.elapsed());
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
    for (cut, took) in took {
        judge(&format!("{cut:?}: writes go on while a server is cut off"), took, [Duration::from_secs(3); 2]);
    }
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

/// Five servers, of which two may be cut off.
const FIVE: [u8; 5] = [1, 2, 3, 4, 5];

/// The server that an agent is connected to.
fn server_of(nodes: &Nodes, agent: u8, servers: &Servers) -> Option<u8> {
    let message = nodes.log(agent);
    let last = message.lines().rfind(|line| line.contains(" connected server="))?;
    let is_it = |number: &u8| last.contains(&format!("server={}", servers.all[number].agent_addr()));
    FIVE.into_iter().find(is_it)
}

/// A server that follows, with the agents that it has, is cut off together with its leader. It goes on hearing that one, and must not
/// take it for a leader: its agent finds the majority before the node counts as lost, and its work notices nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_leaves_a_server_that_is_cut_off_together_with_its_leader() {
    // In the long run longer than a node may be silent, with time to spare.
    let (rounds, watched) =
        if is_long() { (3, Duration::from_secs(40)) } else { (1, Duration::from_secs(5)) };
    let servers = Servers::start(5).await;
    let mut nodes = Nodes::none();
    nodes.start(1, &[servers.followers(&FIVE).await[0]], &servers);
    nodes.until_ready(&servers.all[&1].client, 1).await;
    let job = json!({ "Job": nodes.counting("count") });
    servers.all[&1].client.put::<Value>(&Target::new("/v1/jobs"), &job).await.expect("a job");
    let pids = nodes.until_running("count", 1).await;
    let mut took = Vec::new();
    for _ in 0..rounds {
        let beside = server_of(&nodes, 1, &servers).expect("it is connected");
        let next = FIVE.into_iter().find(|number| *number != beside).expect("five");
        let leader = eventually("another server than the agent's leads", async || {
            let leader = servers.leader(&FIVE).await;
            if leader == beside {
                servers.all[&beside].transfer(next).await.ok();
            }
            (leader != beside).then_some(leader)
        })
        .await;
        let others: Vec<u8> = FIVE.into_iter().filter(|number| ![leader, beside].contains(number)).collect();
        for number in [leader, beside] {
            servers.links.isolate(number, others.clone());
        }
        let cut = Instant::now();
        servers.leader(&others).await;
        eventually("the follower says that its leader is none", async || {
            let answer = servers.all[&beside].answer("/healthz");
            assert!(answer.starts_with("HTTP/1.1 200"), "it serves what it has: {answer}");
            answer.contains("writes are refused: no leader: 2 of 5 servers are reached").then_some(())
        })
        .await;
        eventually("the agent finds another server", async || {
            server_of(&nodes, 1, &servers).filter(|number| others.contains(number))
        })
        .await;
        took.push(cut.elapsed());
        let client = &servers.all[&others[0]].client;
        while cut.elapsed() < watched {
            let listed = client.get::<Vec<Value>>(&Target::new("/v1/nodes")).await.map(|found| found.value);
            for node in listed.unwrap_or_default() {
                assert_eq!(node["Status"], "ready", "the agent of server {beside}: {node}");
            }
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        servers.all[&others[0]].register("meanwhile").await.expect("the majority takes writes");
        servers.links.heal();
        for number in FIVE {
            let known =
                eventually("a read", async || servers.all[&number].knows("meanwhile").await.ok()).await;
            assert!(known, "server {number} does not know what the majority wrote");
        }
        assert_eq!(nodes.pids("count"), pids, "tasks were started again");
        assert!(pids.values().flatten().all(|pid| is_alive(pid)), "tasks have ended");
    }
    judge("an agent finds the majority", took, [Duration::from_secs(20); 2]);
}
