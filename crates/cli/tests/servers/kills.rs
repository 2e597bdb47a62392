//! Servers that are killed in the middle of disk operations.

use super::{
    e2e::{
        servers::Servers,
        writers::{Writers, check_all_there},
    },
    is_long, rounds,
};

/// In the long run, servers die so often.
const LONG_FACTOR: usize = 4;
/// Steps among which the one is at which a server dies: some syncs, and in between a new segment of the log.
const STEPS: u64 = 400;

/// Leaders and followers in turn, each at another step, before it or after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_at_a_step_of_its_disk_loses_nothing_acknowledged() {
    let (mut servers, disks) = Servers::start_on_faulty_disks().await;
    let writers = Writers::start(&servers, &[1, 2, 3]);
    for round in 0..if is_long() { rounds() * LONG_FACTOR } else { 4 } {
        let victim = match round % 2 {
            0 => servers.leader(&[1, 2, 3]).await,
            _ => servers.followers(&[1, 2, 3]).await[0],
        };
        let disk = &disks[usize::from(victim) - 1];
        disk.die_at(1 + (round as u64 * 37) % if is_long() { STEPS } else { 40 });
        servers.ends(victim).await;
        disk.mend();
        writers.more(5).await;
        servers.run(victim, &[]);
        servers.until_all_vote().await;
    }
    let (acknowledged, _) = writers.stop().await;
    check_all_there(&servers, &acknowledged).await;
}

/// What a kernel says of a sync that failed, it says once: the next one succeeds, and the bytes may be gone. The server ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_sync_fails_acknowledges_nothing_more() {
    let (mut servers, disks) = Servers::start_on_faulty_disks().await;
    let writers = Writers::start(&servers, &[1, 2, 3]);
    for _ in 0..if is_long() { rounds() } else { 2 } {
        writers.more(5).await;
        let leader = servers.leader(&[1, 2, 3]).await;
        disks[usize::from(leader) - 1].fail_a_sync();
        let message = servers.ends(leader).await;
        assert!(message.contains("Input/output error"), "{message}");
        writers.more(5).await;
        servers.run(leader, &[]);
        servers.until_all_vote().await;
    }
    let (acknowledged, _) = writers.stop().await;
    check_all_there(&servers, &acknowledged).await;
}

/// Alone, it says what to do, and takes writes again once it was started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_whose_sync_fails_loses_nothing_acknowledged() {
    let mut servers = Servers::start(1).await;
    servers.stop(1);
    let disk = servers.run_on_faulty_disk(1);
    let writers = Writers::start(&servers, &[1]);
    writers.more(5).await;
    disk.fail_a_sync();
    let message = servers.ends(1).await;
    assert!(message.contains("Input/output error"), "{message}");
    servers.run(1, &[]);
    writers.more(5).await;
    let (acknowledged, _) = writers.stop().await;
    check_all_there(&servers, &acknowledged).await;
}
