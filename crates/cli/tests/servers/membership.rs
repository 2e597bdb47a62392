//! Servers join and leave while clients write.

use std::time::{Duration, Instant};

use super::{
    e2e::{
        eventually,
        servers::{Server, Servers},
        writers::{Writers, check_all_there},
    },
    is_long, judge, rounds,
};

/// Adds a server, and waits until it votes: how long that took.
async fn add(servers: &mut Servers, number: u8) -> Duration {
    let begun = Instant::now();
    servers.add(number).await;
    servers.until_all_vote().await;
    begun.elapsed()
}

/// Takes a server out, and what it had: how long that took.
async fn remove(servers: &mut Servers, number: u8) -> Duration {
    let begun = Instant::now();
    let is_out = async || match servers.all[&1].remove(&format!("s{number}")).await {
        Ok(()) => Some(()),
        // An answer may have been lost while another took over.
        Err(error) => (error.status() == Some(404)).then_some(()),
    };
    eventually("it is taken out", is_out).await;
    servers.stop(number);
    servers.until_all_vote().await;
    let took = begun.elapsed();
    std::fs::remove_dir_all(servers.data(number)).expect("it was there");
    servers.all.remove(&number);
    took
}

/// From one to five, and back to three; in the long run five and three in turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_come_and_go_under_load() {
    let mut servers = Servers::start(1).await;
    let writers = Writers::start(&servers, &[1]);
    let mut took = Vec::new();
    for number in [2, 3] {
        took.push(add(&mut servers, number).await);
        writers.more(5).await;
    }
    for _ in 0..if is_long() { rounds() / 2 } else { 1 } {
        for number in [4, 5] {
            took.push(add(&mut servers, number).await);
            writers.more(5).await;
        }
        for number in [4, 5] {
            took.push(remove(&mut servers, number).await);
            writers.more(5).await;
        }
    }
    let (acknowledged, _) = writers.stop().await;
    check_all_there(&servers, &acknowledged).await;
    judge("a server is taken in or out under load", took, [Duration::from_secs(5); 2]);
}

/// By its name a server takes the place of a dead one: two of one name would take each other's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_the_name_of_one_that_is_there_is_not_taken_in() {
    let mut servers = Servers::start(3).await;
    let join = [format!("--join={}", servers.addresses()[0])];
    let twin_of = |name: &str, mut twin: Server| {
        twin.name = name.to_owned();
        twin
    };
    for name in ["s1", "s2", "s3"] {
        let twin = twin_of(name, servers.make(4).await);
        servers.all.insert(4, twin);
        servers.run(4, &join);
        eventually("it is told why", async || {
            let message = servers.log(4);
            (message.contains(&format!("is named {name}, too")) && message.contains("--server-name"))
                .then_some(())
        })
        .await;
        servers.kill(4);
    }
    let members = servers.all[&1].configuration().await.expect("it answers").servers;
    assert_eq!(members.len(), 3, "{members:?}");

    servers.kill(3);
    let successor = twin_of("s3", servers.make(4).await);
    servers.all.insert(4, successor);
    servers.run(4, &join);
    eventually("it takes the place of the dead one", async || {
        let members = servers.all[&1].configuration().await?.servers;
        let votes = members.iter().any(|server| server.address.starts_with("127.0.0.4:") && server.voter);
        (members.len() == 3 && votes).then_some(())
    })
    .await;
    servers.all[&4].register("taken-in").await.expect("two of the three are there");
}
