//! Servers whose disks lose power, or are full.

mod e2e;

use std::{collections::BTreeMap, time::Duration};

use e2e::{
    eventually,
    servers::Servers,
    small_disk::SmallDisk,
    writers::{Writers, check_all_there},
};

/// How often the power is cut.
const ROUNDS: usize = 3;

/// How often, if the long run asks for more.
fn rounds() -> usize {
    std::env::var("BERTH_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS)
}

/// So many servers, each on a disk of its own; none where there can be no such disks.
async fn on_small_disks(count: u8) -> Option<(Servers, BTreeMap<u8, SmallDisk>)> {
    let (mut servers, mut disks) = (Servers::none(), BTreeMap::new());
    for number in 1..=count {
        disks.insert(number, SmallDisk::mount(&servers.data(number))?);
        servers.add(number).await;
    }
    servers.until_all_vote().await;
    Some((servers, disks))
}

/// Cuts the power of all servers at once while clients write, again and again, and looks for what was acknowledged.
async fn lose_power(count: u8) {
    let Some((mut servers, disks)) = on_small_disks(count).await else { return };
    let numbers: Vec<u8> = (1..=count).collect();
    for round in 0..rounds() {
        let writers = Writers::start_named(&servers, &numbers, &format!("round-{round}"));
        writers.more(10).await;
        // Not always at the same step of what a server does.
        tokio::time::sleep(Duration::from_millis(round as u64 * 7 % 50)).await;
        disks.values().for_each(SmallDisk::cut_power);
        numbers.iter().for_each(|number| servers.kill(*number));
        let (acknowledged, _) = writers.stop().await;
        disks.values().for_each(SmallDisk::restore_power);
        for number in &numbers {
            servers.run(*number, &[]);
        }
        check_all_there(&servers, &acknowledged).await;
    }
    println!("{} power cuts of {count} servers, nothing acknowledged was lost", rounds());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_loses_its_power_keeps_what_it_acknowledged() {
    lose_power(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_lose_their_power_at_once_keep_what_they_acknowledged() {
    lose_power(3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_with_a_full_disk_hands_over_and_catches_up_when_there_is_room() {
    let Some((mut servers, disks)) = on_small_disks(3).await else { return };
    let full = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    let writers = Writers::start(&servers, &[1, 2, 3]);
    writers.more(20).await;
    disks[&full].fill();
    servers.leader(&others).await;
    writers.more(50).await;
    eventually("each server sees that its disk is full", async || {
        let members = servers.all[&others[0]].members().await.members;
        let found = members.into_iter().find(|member| member.name.starts_with(&format!("s{full}.")))?;
        (found.tags["disk"] == "full").then_some(())
    })
    .await;
    assert_ne!(servers.leader(&[1, 2, 3]).await, full, "it leads again on a full disk");
    disks[&full].make_room();
    writers.more(20).await;
    let (acknowledged, refused) = writers.stop().await;
    println!("{refused} writes were refused meanwhile");
    check_all_there(&servers, &acknowledged).await;
    servers.running().into_iter().for_each(|number| servers.kill(number));
}
