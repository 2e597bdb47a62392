//! Servers that are killed in the middle of what they do to their disks.

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
    let mut servers = Servers::start(3).await;
    let disks: Vec<_> = [1, 2, 3]
        .into_iter()
        .map(|number| {
            servers.stop(number);
            servers.run_on_faulty_disk(number)
        })
        .collect();
    servers.until_all_vote().await;
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
