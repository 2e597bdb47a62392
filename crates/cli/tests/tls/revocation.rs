//! Nodes and servers whose certificates are revoked.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use berth_api::http::Target;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, refusal, succeed},
    e2e::eventually,
};

/// A cut is promised within a second; the machine of the test may be busy.
const CUT_MAX: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_revoked_node_is_cut_off_and_comes_back_with_a_token_of_its_own() {
    let mut cluster = Cluster::new();
    for _ in 1..=2 {
        cluster.start_server(&[]);
    }
    let token = cluster.token(&[]);
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_ready(1).await;
    let node = cluster.node();
    succeed(&cluster.berth(&["node", "revoke", "-yes", &node]));
    cluster.until_logged("n1", "disconnected").await;
    cluster.until_logged("n1", "was revoked").await;
    // Neither its certificate nor the token it had gets it back in.
    let before = cluster.log("n1").len();
    cluster.agents[0].kill();
    cluster.start_agent_with("n1", &["--join", &token]);
    eventually("it is turned away again", async || {
        cluster.log("n1")[before..].contains("was revoked").then_some(())
    })
    .await;
    cluster.agents.last_mut().expect("it runs").kill();
    let again = cluster.token(&["--node", &node]);
    cluster.start_agent_with("n1", &["--join", &again]);
    eventually("it has joined again", async || {
        let now = cluster.log("n1");
        (now.matches("the agent has joined").count() == 2 && now.trim_end().contains("connected server"))
            .then_some(())
    })
    .await;
    cluster.until_ready(1).await;
}

/// A machine that is gone for good may be in somebody's hands.
#[tokio::test]
async fn the_certificate_of_a_purged_node_lets_nobody_in() {
    let mut cluster = Cluster::new();
    cluster.start_server(&[]);
    let token = cluster.token(&[]);
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_ready(1).await;
    let node = cluster.node();
    cluster.agents[0].kill();
    eventually("its node is down", async || {
        (cluster.json(&["node", "status", "-json"])?[0]["Status"] == "down").then_some(())
    })
    .await;
    succeed(&cluster.berth(&["node", "purge", "-yes", &node]));
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_logged("n1", "was revoked").await;
    let nodes = cluster.json(&["node", "status", "-json"]).expect("a list");
    assert_eq!(nodes.as_array().map(Vec::len), Some(0), "{nodes}");
}

#[tokio::test]
async fn a_revoked_server_is_cut_off_under_load_and_comes_back_with_a_new_certificate() {
    let mut cluster = Cluster::new();
    cluster.start_three().await;
    let leader = cluster.leader(1).await;
    let revoked = (1..=3).rev().find(|number| *number != leader).expect("two follow");
    let other = (1..=3).find(|number| *number != leader && *number != revoked).expect("one more follows");
    let name = format!("s{revoked}");
    let stop = Arc::new(AtomicBool::new(false));
    let load = {
        let address = format!("https://{}", cluster.servers[leader - 1].http);
        let (client, stop) = (cluster.client_of(&address), stop.clone());
        tokio::spawn(async move {
            let mut written = 0_u64;
            while !stop.load(Relaxed) {
                let namespace = json!({"Name": format!("n{}", written % 8)});
                let put = client.put::<Value>(&Target::new("/v1/namespace"), &namespace).await;
                put.expect("two of three are enough");
                written += 1;
            }
            written
        })
    };
    let before = cluster.connections(revoked);
    let begun = Instant::now();
    let message = cluster.asking(other, &["server", "revoke", "-yes", &name]);
    succeed(&message);
    let cut = cluster.cut_after(&before, revoked, begun);
    println!("cut after {cut:?}, with the command that asked for it");
    assert!(cut < CUT_MAX, "{cut:?}");
    let text =
        String::from_utf8_lossy(&message.stderr).into_owned() + &String::from_utf8_lossy(&message.stdout);
    assert!(text.contains("replace the authority, too") && !text.contains("warning"), "{text}");
    cluster.until_logged(&name, "the certificate of this server was revoked").await;
    // It hears of no leader any more, and the others show what it is.
    eventually("it has no leader", async || {
        let output = cluster.asking(revoked, &["namespace", "apply", "late"]);
        (!output.status.success()).then_some(())
    })
    .await;
    let members = cluster.asking(leader, &["server", "members"]);
    let members = String::from_utf8_lossy(&members.stdout).into_owned();
    let line = members.lines().find(|line| line.starts_with(&name)).expect("it is a member still");
    assert!(line.contains("revoked"), "{members}");
    assert!(cluster.connections(revoked).is_disjoint(&before));

    // Neither does a new start let it in, nor one with the file of those that are revoked taken away.
    cluster.servers[revoked - 1].daemon.signal(Signal::TERM);
    cluster.servers[revoked - 1].daemon.wait();
    let kept = fs::read_to_string(cluster.path(&name).join("revoked-servers.json")).unwrap_or_default();
    assert!(kept.contains(&name), "it knows it itself: {kept}");
    fs::remove_file(cluster.path(&name).join("revoked-servers.json")).expect("it is there");
    let since = cluster.log(&name).len();
    cluster.start_again(revoked);
    eventually("it is told so", async || {
        cluster.log(&name)[since..].contains("or that it was revoked").then_some(())
    })
    .await;
    let second = format!("s{other}");
    let refused = refusal(&cluster.asking(leader, &["server", "revoke", "-yes", &second]));
    assert!(refused.contains("2 of 3 voters are needed") && refused.contains("-force"), "{refused}");

    cluster.renew(revoked);
    eventually("it is one of them again", async || {
        cluster.asking(revoked, &["namespace", "apply", "back"]).status.success().then_some(())
    })
    .await;
    eventually("nobody calls it revoked", async || {
        let members = cluster.asking(leader, &["server", "members"]);
        (!String::from_utf8_lossy(&members.stdout).contains("revoked")).then_some(())
    })
    .await;
    stop.store(true, Relaxed);
    assert!(load.await.expect("no write has failed") > 0);
}

/// It has said already that the others are not reached, for another reason.
#[tokio::test]
async fn a_server_that_was_revoked_while_nobody_was_reached_says_so_when_the_others_are_back() {
    let mut cluster = Cluster::new();
    cluster.start_three().await;
    let leader = cluster.leader(1).await;
    let revoked = (1..=3).rev().find(|number| *number != leader).expect("two follow");
    let others: Vec<usize> = (1..=3).filter(|number| *number != revoked).collect();
    let name = format!("s{revoked}");
    cluster.servers[revoked - 1].daemon.signal(Signal::TERM);
    cluster.servers[revoked - 1].daemon.wait();
    succeed(&cluster.asking(leader, &["server", "revoke", "-yes", "-force", &name]));
    eventually("both others know it after a restart", async || {
        let knows = |number: &usize| {
            let kept = fs::read_to_string(cluster.path(&format!("s{number}")).join("revoked-servers.json"));
            kept.is_ok_and(|kept| kept.contains(&name))
        };
        others.iter().all(knows).then_some(())
    })
    .await;
    for number in &others {
        cluster.servers[number - 1].daemon.signal(Signal::KILL);
        cluster.servers[number - 1].daemon.wait();
    }
    let since = cluster.log(&name).len();
    cluster.start_again(revoked);
    eventually("it says that nobody is there", async || {
        let message = &cluster.log(&name)[since..];
        (message.matches("another server is not reached").count() >= 2).then_some(())
    })
    .await;
    assert!(!cluster.log(&name)[since..].contains("revoked"), "nobody can have said so");
    for number in &others {
        cluster.start_again(*number);
    }
    eventually("it says that it is refused", async || {
        cluster.log(&name)[since..].contains("or that it was revoked").then_some(())
    })
    .await;
    // A recovery of what it has, alone, is the last thing to do.
    let refused = eventually("clients hear the same", async || {
        let output = cluster.asking(revoked, &["namespace", "apply", "late"]);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        message.contains("revoked").then_some(message)
    })
    .await;
    assert!(!refused.contains("server recover"), "{refused}");
}

#[tokio::test]
async fn when_the_leader_is_revoked_another_leads_and_agents_leave_it() {
    let mut cluster = Cluster::new();
    cluster.start_three().await;
    // The agent knows one server, and of the others by that.
    let leader = cluster.leader(1).await;
    cluster.certify("agent", "n1/tls", &[]);
    let first = cluster.servers[leader - 1].agent.to_string();
    cluster.start_agent_with("n1", &["--servers", &first]);
    let other = (1..=3).find(|number| *number != leader).expect("two follow");
    eventually("its node is ready", async || {
        let nodes = cluster.asking(other, &["node", "status", "-json"]);
        let nodes: Value = serde_json::from_slice(&nodes.stdout).ok()?;
        (nodes[0]["Status"] == "ready").then_some(())
    })
    .await;
    let name = format!("s{leader}");
    let (before, begun) = (cluster.connections(leader), Instant::now());
    // It is told itself, and answers.
    succeed(&cluster.asking(leader, &["server", "revoke", "-yes", &name]));
    let cut = cluster.cut_after(&before, leader, begun);
    println!("cut after {cut:?}, with the command that asked for it");
    assert!(cut < CUT_MAX, "{cut:?}");
    let next = eventually("another leads", async || {
        let next = cluster.leader(other).await;
        (next != leader).then_some(next)
    })
    .await;
    succeed(&cluster.asking(next, &["namespace", "apply", "after"]));
    cluster.until_logged("n1", &format!("the certificates of server {name} were revoked")).await;
    eventually("the agent is with another", async || {
        let message = cluster.log("n1");
        let last = message.lines().rev().find(|line| line.contains("connected server"))?;
        (!last.contains(&first)).then_some(())
    })
    .await;
    // What it has learned is on its disk.
    cluster.agents[0].kill();
    let since = cluster.log("n1").len();
    cluster.start_agent_with("n1", &["--servers", &first]);
    eventually("it does not believe the first after a restart either", async || {
        let message = &cluster.log("n1")[since..];
        (message.contains(&format!("the certificates of server {name} were revoked"))
            && message.contains("connected server"))
        .then_some(())
    })
    .await;
    cluster.renew(leader);
    eventually("the server is one of them again", async || {
        cluster.asking(leader, &["namespace", "apply", "back"]).status.success().then_some(())
    })
    .await;
}
