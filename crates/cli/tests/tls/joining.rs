//! Agents that join with a token.

use std::{fs, process::Stdio, time::Duration};

use crate::{
    cluster::{Cluster, refusal},
    e2e::{berth, eventually},
};

#[tokio::test]
async fn an_agent_joins_with_a_token_once_and_renews_its_certificate() {
    let mut cluster = Cluster::new();
    cluster.start_server(&["--tls", "agent_certificate_ttl=6s"]);
    let token = cluster.token(&[]);
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_logged("n1", "the agent has joined").await;
    cluster.until_ready(1).await;
    // The token was for that one; nobody else gets in with it, and what is no token is said so.
    cluster.start_agent_with("n2", &["--join", &token]);
    cluster.until_logged("n2", "has joined with it").await;
    let bad = berth(&["agent", "--data-dir", &cluster.dir("bad"), "--join", "berth-join-1-x"]).output();
    assert!(refusal(&bad.expect("it runs")).contains("it is no join token"));
    // It renews by itself, with no new session long after the first certificate has expired, and comes back without the token.
    eventually("it has renewed again and again", async || {
        (cluster.log("n1").matches("the certificate was renewed").count() >= 4).then_some(())
    })
    .await;
    assert_eq!(cluster.log("n1").matches("connected server").count(), 1);
    cluster.agents[0].kill();
    cluster.start_agent("n1");
    eventually("it is connected again", async || {
        (cluster.log("n1").matches("connected server").count() == 2).then_some(())
    })
    .await;
    cluster.until_ready(1).await;
    // Away for longer than its certificate lasts, it needs another token, which names it.
    cluster.agents.last_mut().expect("it runs").kill();
    let files = cluster.path("n1/agent/tls");
    eventually("its certificate has expired", async || {
        let text = cluster.path("expired.log");
        let mut command =
            cluster.command(&["agent", "--data-dir", &cluster.dir("n1"), "--servers", "127.0.0.1:1"]);
        let log = fs::File::create(&text).expect("a file");
        let mut child = command.stderr(log).spawn().expect("it starts");
        // What it finds is said at its start, which takes as long as the machine is busy.
        let mut expired = false;
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            expired = fs::read_to_string(&text).is_ok_and(|text| text.contains("berth node token -node"));
            if expired {
                break;
            }
        }
        let _ = child.kill();
        let _ = child.wait();
        expired.then_some(())
    })
    .await;
    assert!(files.join("agent-key.pem").exists());
    let again = cluster.token(&["--node", &cluster.node()]);
    cluster.start_agent_with("n1", &["--join", &again]);
    eventually("it is connected again", async || {
        (cluster.log("n1").matches("connected server").count() == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_agent_killed_while_it_joins_joins_with_the_same_token() {
    let mut cluster = Cluster::new();
    cluster.start_server(&[]);
    let (token, dir) = (cluster.token(&[]), cluster.dir("n1"));
    let servers = cluster.servers[0].agent.to_string();
    for millis in [5, 15, 25, 40, 60, 80, 110, 150] {
        let args =
            ["agent", "--data-dir", &dir, "--servers", &servers, "--join", &token, "--containers=false"];
        let mut child = berth(&args).stderr(Stdio::null()).spawn().expect("it starts");
        tokio::time::sleep(Duration::from_millis(millis)).await;
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        // Spent for it, and its certificate lost: the very case.
        let _ = fs::remove_file(cluster.path("n1/agent/tls/agent.pem"));
    }
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_ready(1).await;
}
