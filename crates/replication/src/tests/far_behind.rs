//! Servers that are far behind, or far away.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    cluster::{PATIENCE, Server, Wires, leader, peer, three},
    propose,
    support::register,
};
use crate::{Start, disk::Disk};

/// How long a direction is lost.
const HELD: Duration = Duration::from_secs(4);

/// Waits until something is so.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("never happened: {what}"));
}

/// A server with so many entries behind snapshots, that is: none of them in its log.
async fn with_snapshot(wires: &Arc<Wires>, entries: u64) -> Server {
    let first = Server::open(wires, 1, Arc::default(), Start::Found).await;
    for round in 0..2 {
        propose(&first.log, round * entries / 2 + 1..(round + 1) * entries / 2 + 1).await;
        first.log.snapshot_now().await.unwrap();
    }
    first
}

/// What a snapshot has, in pieces.
fn pieces_of(server: &Server) -> usize {
    let newest =
        server.disk.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "snap"));
    server.disk.len(&newest.max().unwrap()).unwrap().div_ceil(4 << 10) as usize
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_far_behind_gets_a_snapshot_while_writes_go_on() {
    let wires = Arc::<Wires>::default();
    let first = Server::open(&wires, 1, Arc::default(), Start::Found).await;
    for round in 0..4 {
        propose(&first.log, round * 1000 + 1..round * 1000 + 1001).await;
        first.log.snapshot_now().await.unwrap();
    }
    let second = Server::open(&wires, 2, Arc::default(), Start::Wait).await;
    first.log.set_member(2, peer(2)).await.unwrap();
    let (writes, promoted) =
        tokio::join!(async { propose(&first.log, 4001..4200).await }, first.log.promote(2, BTreeSet::new()));
    promoted.unwrap();
    let () = writes;
    let servers = [first, second];
    servers[1].catch_up(&servers).await;
    assert_eq!(servers[1].hash(), servers[0].hash());
    let restored = servers[1].seen.restored.load(std::sync::atomic::Ordering::SeqCst);
    assert!(restored > 1, "the state came as a snapshot");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_on_where_its_connection_broke_and_after_a_restart_of_the_receiver() {
    let wires = Arc::<Wires>::default();
    let first = with_snapshot(&wires, 2000).await;
    let pieces = pieces_of(&first);
    assert!(pieces > 40, "only {pieces} pieces");
    wires.pieces_max.store(pieces / 2, Ordering::SeqCst);
    let second = Server::open(&wires, 2, Arc::default(), Start::Wait).await;
    first.log.set_member(2, peer(2)).await.unwrap();
    // Every attempt breaks now, and begins behind the pieces that have arrived.
    until("some attempts", || wires.pieces.load(Ordering::SeqCst) > pieces / 2 + 3).await;
    let disk = second.stop().await;
    assert!(disk.paths().iter().any(|path| path.ends_with("received.part")), "what has arrived stays");
    let second = Server::open(&wires, 2, disk, Start::Wait).await;
    let before = wires.pieces.swap(0, Ordering::SeqCst);
    wires.pieces_max.store(0, Ordering::SeqCst);
    let servers = [first, second];
    servers[1].catch_up(&servers).await;
    assert_eq!(servers[1].hash(), servers[0].hash());
    let after = wires.pieces.load(Ordering::SeqCst);
    assert!(
        after < pieces * 3 / 4,
        "{before} pieces of {pieces} were sent before the restart, {after} after it"
    );
    let left = servers[1].disk.paths();
    assert!(!left.iter().any(|path| path.to_string_lossy().contains("received")), "{left:?}");
}

/// One direction swallows what is sent while a snapshot is under way, that of its pieces or that of the answers, for longer than
/// a connection may be silent; writes go on meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_arrives_though_either_direction_is_lost_on_its_way() {
    for from_leader in [true, false] {
        let wires = Arc::<Wires>::default();
        let first = with_snapshot(&wires, 2000).await;
        let pieces = pieces_of(&first);
        wires.delay_ms.store(2, Ordering::SeqCst);
        let second = Server::open(&wires, 2, Arc::default(), Start::Wait).await;
        first.log.set_member(2, peer(2)).await.unwrap();
        until("some pieces are sent", || wires.pieces.load(Ordering::SeqCst) > pieces / 4).await;
        assert!(wires.pieces.load(Ordering::SeqCst) < pieces, "all of it was sent already");
        let way = if from_leader { (1, 2) } else { (2, 1) };
        wires.held.lock().unwrap().insert(way);
        propose(&first.log, 2001..2100).await;
        tokio::time::sleep(HELD).await;
        assert!(second.seen.index() < 2000, "it has nothing yet");
        wires.held.lock().unwrap().clear();
        let servers = [first, second];
        servers[1].catch_up(&servers).await;
        assert_eq!(servers[1].hash(), servers[0].hash());
        assert!(servers[1].seen.restored.load(Ordering::SeqCst) > 1, "the state came as a snapshot");
        servers[0].log.promote(2, BTreeSet::new()).await.unwrap();
        propose(&servers[0].log, 2100..2110).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_the_leaders_disk_has_damaged_never_becomes_a_state() {
    let wires = Arc::<Wires>::default();
    let first = with_snapshot(&wires, 400).await;
    for path in
        first.disk.paths().into_iter().filter(|path| path.extension().is_some_and(|end| end == "snap"))
    {
        first.disk.tamper(&path, |bytes| bytes[700] ^= 1);
    }
    let second = Server::open(&wires, 2, Arc::default(), Start::Wait).await;
    first.log.set_member(2, peer(2)).await.unwrap();
    let pieces = pieces_of(&first);
    until("a damaged snapshot is sent", || wires.pieces.load(Ordering::SeqCst) >= pieces).await;
    // The next one is written with the next changes, and is whole.
    let mut index = 401;
    let servers = [first, second];
    until_caught_up(&servers, &mut index).await;
    assert_eq!(servers[1].hash(), servers[0].hash());
}

async fn until_caught_up(servers: &[Server], index: &mut u64) {
    let started_at = tokio::time::Instant::now();
    while servers[1].hash() != servers[0].hash() {
        assert!(started_at.elapsed() < PATIENCE, "it never caught up");
        for _ in 0..20 {
            servers[0].log.propose(register(*index)).await.unwrap();
            *index += 1;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Appends are sent ahead of the answers to earlier ones: a link that is long holds many.
#[tokio::test(flavor = "multi_thread")]
async fn many_appends_are_on_their_way_at_a_time() {
    let servers = three().await;
    let wires = Arc::clone(&servers[0].wires);
    wires.delay_ms.store(30, Ordering::SeqCst);
    let leader = leader(&servers).await;
    let mut pending = Vec::new();
    for index in 1..150 {
        pending.push(leader.log.submit(leader.log.term(), register(index)).await.unwrap());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for submitted in pending {
        submitted.applied().await.unwrap();
    }
    let (_, most) = *wires.appends.lock().unwrap();
    println!("{most} appends to two servers on their way at a time");
    assert!(most > 8, "only {most}");
}

/// Snapshots are installed while writes go on, again and again, and nothing is missed.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_missed_between_a_snapshot_and_what_follows_it() {
    let rounds = std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(3);
    let wires = Arc::<Wires>::default();
    let first = with_snapshot(&wires, 400).await;
    let mut index = 401;
    for round in 0..rounds {
        let id = 2 + round;
        let newcomer = Server::open(&wires, id, Arc::default(), Start::Wait).await;
        let writes = async {
            let end = index + 300;
            propose(&first.log, index..end).await;
            first.log.snapshot_now().await.unwrap();
            end
        };
        let (end, added) = tokio::join!(writes, first.log.set_member(id, peer(id)));
        added.unwrap();
        index = end;
        let position = first.log.read_position().await.unwrap();
        newcomer.log.wait_applied(position, PATIENCE).await.unwrap();
        assert_eq!(newcomer.hash(), first.hash(), "round {round}");
        assert!(newcomer.seen.restored.load(Ordering::SeqCst) > 1, "round {round}: it came as a snapshot");
        first.log.remove(id).await.unwrap();
        newcomer.stop().await;
    }
}
