//! Who may ask the consensus engine: servers that speak as others, that were removed, or that nobody knows.

use std::{collections::BTreeSet, sync::Arc};

use openraft::async_runtime::WatchReceiver;

use super::cluster::{PATIENCE, Server, leader, peer, stranger, three};
use crate::{
    Start,
    peer::{Peers, frame::Method},
};

/// Of no election that there will be.
const TERM: u64 = 1 << 20;

/// A vote, as servers encode it: its term, its server and whether it is granted.
type Vote = (u64, u64, bool);
/// The last record of a log: its term and index.
type Name = (u64, u64);

/// Asks for the vote of an election that nobody has called, with a log that goes beyond all others.
fn ask_vote(candidate: u64) -> Vec<u8> {
    let (vote, last): (Vote, Option<Name>) = ((TERM, candidate, false), Some((TERM, TERM)));
    minicbor::to_vec((vote, last, true)).unwrap()
}

/// The sign of life of a leader that nobody has elected.
fn heartbeat(leader: u64) -> Vec<u8> {
    let (vote, nothing): (Vote, Option<Name>) = ((TERM, leader, true), None);
    minicbor::to_vec((0_u64, vote, nothing, nothing, 0_u32)).unwrap()
}

/// Has the receiver of this stand for election at once.
fn transfer(leader: u64, to: u64) -> Vec<u8> {
    let (vote, last): (Vote, Option<Name>) = ((TERM, leader, true), None);
    minicbor::to_vec((vote, to, last)).unwrap()
}

/// What the servers answer to whoever introduces itself as one server and speaks as another.
async fn answers_to(of: &Server, by: &Peers, speaks_as: u64) -> Vec<String> {
    let calls = [
        (Method::Vote, ask_vote(speaks_as)),
        (Method::PreVote, ask_vote(speaks_as)),
        (Method::Heartbeat, heartbeat(speaks_as)),
        (Method::Append, heartbeat(speaks_as)),
        (Method::Transfer, transfer(speaks_as, of.id)),
    ];
    let mut answers = Vec::new();
    for (method, body) in calls {
        let link = by.link(of.id, &peer(of.id).address.as_str().into());
        let answer =
            link.call::<crate::runtime::Tokio>(method, PATIENCE, |out| out.extend_from_slice(&body)).await;
        answers.push(answer.expect_err("it is not acted on").to_string());
    }
    answers
}

fn term(server: &Server) -> u64 {
    server.log.raft().server_metrics().borrow_watched().vote.leader_id.term
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_speaks_as_another_server() {
    let servers = three().await;
    let member = stranger(&servers[0].wires, 2);
    for why in answers_to(&servers[2], &member, 1).await {
        assert!(why.contains("the connection has ended") || why.contains("closed"), "{why}");
    }
    assert!(servers.iter().all(|server| term(server) < TERM));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_removed_has_no_say_and_a_stranger_none_while_somebody_leads() {
    let mut servers = three().await;
    let removed = servers.iter().position(|server| !server.log.is_leader()).unwrap();
    let removed = servers.remove(removed);
    let lead = leader(&servers).await;
    lead.log.remove(removed.id).await.unwrap();
    let disk = removed.disk.clone();
    let id = removed.id;
    removed.stop().await;
    for server in &servers {
        server.catch_up(&servers).await;
    }
    let wires = Arc::clone(&servers[0].wires);
    let removed = stranger(&wires, id);
    for server in &servers {
        for why in answers_to(server, &removed, id).await {
            assert!(why.contains(&format!("server {id} was removed")), "{why}");
        }
        assert!(server.log.was_removed(id), "who follows knows it, too");
        assert!(!servers.iter().any(|other| server.log.was_removed(other.id)) && !server.log.was_removed(9));
    }
    for server in &servers {
        for why in answers_to(server, &stranger(&wires, 9), 9).await {
            assert!(why.contains("server 9 is not of this cluster"), "{why}");
        }
    }
    assert!(servers.iter().all(|server| term(server) < TERM));
    // Started again with what it had, it disturbs nobody, and taken in again it takes part.
    let back = Server::open(&wires, id, disk, Start::Wait).await;
    leader(&servers).await.log.set_member(id, peer(id)).await.unwrap();
    leader(&servers).await.log.promote(id, BTreeSet::new()).await.unwrap();
    back.catch_up(&servers).await;
    assert!(servers.iter().all(|server| term(server) < TERM && !server.log.was_removed(id)));
}

/// Though nobody leads: what the log has of the removal is gone by then.
#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_removed_is_known_after_a_restart_from_snapshots() {
    let mut servers = three().await;
    let removed = servers.iter().position(|server| !server.log.is_leader()).unwrap();
    let removed = servers.remove(removed);
    let lead = leader(&servers).await;
    lead.log.remove(removed.id).await.unwrap();
    let (id, wires) = (removed.id, Arc::clone(&removed.wires));
    removed.stop().await;
    for server in &servers {
        server.catch_up(&servers).await;
        server.log.snapshot_now().await.unwrap();
    }
    let last = servers.pop().unwrap();
    let (left, disk) = (last.id, last.disk.clone());
    last.stop().await;
    for server in servers {
        server.stop().await;
    }
    // The other one stays away, so that nobody leads.
    let again = Server::open(&wires, left, disk, Start::Wait).await;
    for why in answers_to(&again, &stranger(&wires, id), id).await {
        assert!(why.contains(&format!("server {id} was removed")), "{why}");
    }
}

/// It has no membership yet, and hears whoever has taken it in.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_behind_hears_a_leader_of_whom_it_knows_nothing() {
    let servers = three().await;
    let wires = Arc::clone(&servers[0].wires);
    // The last one learns nothing of the others' change.
    let behind = servers.iter().find(|server| !server.log.is_leader()).unwrap().id;
    let lead = leader(&servers).await;
    let away: BTreeSet<(u64, u64)> = (1..=4).flat_map(|id| [(id, behind), (behind, id)]).collect();
    wires.held.lock().unwrap().extend(away);
    let fourth = Server::open(&wires, 4, Arc::default(), Start::Wait).await;
    lead.log.set_member(4, peer(4)).await.unwrap();
    lead.log.promote(4, BTreeSet::new()).await.unwrap();
    let took = lead.log.transfer(4, PATIENCE).await.unwrap();
    assert_eq!(took, 4);
    wires.held.lock().unwrap().clear();
    let behind = servers.iter().find(|server| server.id == behind).unwrap();
    let learns = async {
        while behind.log.members().find(4).is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, learns).await.expect("it hears of the fourth");
    drop(fourth);
}
