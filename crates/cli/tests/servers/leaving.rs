//! Servers that leave: removed without hearing of it, all at once, or while they cannot answer.

use rustix::process::Signal;

use super::e2e::{eventually, servers::Servers};

/// Whoever leads by then is one that the removed server has never heard of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_removed_while_it_was_cut_off_hears_so_from_whomever_it_reaches() {
    let mut servers = Servers::start(3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let gone = servers.followers(&[1, 2, 3]).await[0];
    let others: Vec<u8> = [1, 2, 3].into_iter().filter(|number| *number != gone).collect();
    servers.links.isolate(gone, others.clone());
    eventually("it says that it is alone", async || {
        servers.log(gone).contains("no leader: 1 of 3 servers are reached").then_some(())
    })
    .await;
    servers.all[&leader].remove(&format!("s{gone}")).await.expect("two of three agree");
    servers.add(4).await;
    eventually("the new one votes", async || {
        let found = servers.all[&leader].configuration().await?;
        let voters = found.servers.iter().filter(|server| server.voter).count();
        (found.servers.len() == 3 && voters == 3).then_some(())
    })
    .await;
    eventually("the new one leads", async || {
        servers.all[&leader].transfer(4).await.ok();
        let asked = servers.leader(&[others[0], others[1], 4]).await;
        (asked == 4).then_some(())
    })
    .await;
    servers.links.heal();
    eventually("it says that it was removed, and what to do", async || {
        let message = servers.log(gone);
        let line = message.lines().find(|line| line.contains("was removed from its cluster"))?;
        line.contains("berth server rejoin").then_some(())
    })
    .await;
    let refused = servers.all[&gone].register("nowhere").await.expect_err("it is of no cluster").to_string();
    assert!(refused.contains("berth server rejoin"), "{refused}");
    assert_eq!(servers.log(gone).matches("was removed from its cluster").count(), 1, "it says so once");
    servers.all[&4].register("undisturbed").await.expect("the others go on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_stop_together_do_not_wait_for_one_to_take_over() {
    let mut servers = Servers::start(3).await;
    for round in 0..4 {
        servers.all[&1].register(&format!("before-{round}")).await.expect("it is taken");
        for number in [1, 2, 3] {
            servers.signal(number, Signal::TERM);
        }
        for number in [1, 2, 3] {
            let message = servers.ends(number).await;
            assert!(!message.contains("nobody took the leadership over"), "{message}");
        }
        for number in [1, 2, 3] {
            servers.run(number, &[]);
        }
        servers.until_all_vote().await;
    }
    assert!(servers.all[&2].knows("before-3").await.expect("it reads"));
}

/// Of the two that would be left one is dead: nothing would be agreed to any more, and not that either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_removed_on_whose_vote_the_others_depend() {
    let mut servers = Servers::start(3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let [dead, alive] = servers.followers(&[1, 2, 3]).await[..] else { panic!("two follow") };
    servers.kill(dead);
    eventually("the dead one is known to be", async || {
        let all = servers.all[&leader].members().await.members;
        let is_dead = |member: &&berth_api::http::AgentMember| member.name.starts_with(&format!("s{dead}."));
        (all.iter().find(is_dead)?.status == "failed").then_some(())
    })
    .await;
    for (asked, removed) in [(leader, alive), (alive, alive), (alive, leader)] {
        let removal = servers.all[&asked].remove(&format!("s{removed}")).await;
        let refused = removal.expect_err("nothing would be agreed to any more").to_string();
        assert!(
            refused.contains("2 of the 2 servers that would vote are needed")
                && refused.contains(&format!("s{dead}")),
            "{refused}"
        );
        servers.all[&asked].register(&format!("without-{removed}")).await.expect("two of three are enough");
    }
    servers.all[&alive].remove(&format!("s{dead}")).await.expect("the dead one can go");
    servers.all[&leader].register("after").await.expect("two of two");
    let voters = servers.all[&leader].configuration().await.expect("it answers").servers;
    assert_eq!(voters.len(), 2, "{voters:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_to_a_server_that_cannot_take_over_is_refused_by_name() {
    let mut servers = Servers::start(3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let [paused, other] = servers.followers(&[1, 2, 3]).await[..] else { panic!("two follow") };
    servers.signal(paused, Signal::STOP);
    let refused = servers.all[&leader].transfer(paused).await.expect_err("it cannot").to_string();
    assert!(refused.contains(&format!("s{paused} did not take over")), "{refused}");
    let leads = servers.leader(&[leader, other]).await;
    eventually("it is not tried once it is known", async || {
        let refused = servers.all[&leads].transfer(paused).await.expect_err("it cannot").to_string();
        refused.contains(&format!("s{paused} is not reached")).then_some(())
    })
    .await;
    let leads = servers.leader(&[leader, other]).await;
    servers.all[&leads].register("two-are-enough").await.expect("two of three");
    servers.signal(paused, Signal::CONT);
    servers.until_all_vote().await;

    // Without a majority nothing is begun that could not end, and what is refused leaves nothing behind.
    servers.kill(paused);
    let leads = servers.leader(&[leader, other]).await;
    servers.kill(if leads == leader { other } else { leader });
    eventually("it knows that it is alone", async || {
        let refused = servers.all[&leads].remove(&format!("s{leads}")).await.expect_err("alone").to_string();
        (refused.contains("1 of 3 servers") && refused.contains("berth server recover")).then_some(())
    })
    .await;
    let join = servers.all[&leads].advertised().to_string();
    let rejoined = servers.all[&leads].offline(&["server", "rejoin", "-yes", "--join", &join]);
    let refused = String::from_utf8_lossy(&rejoined.stderr).into_owned();
    assert!(!rejoined.status.success() && refused.contains("is in use"), "{refused}");
    assert!(!servers.data(leads).join("rejoin").exists(), "it would be read at the next start");
}
