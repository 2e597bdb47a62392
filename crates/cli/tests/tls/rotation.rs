//! Certificates and authorities that are replaced while sessions go on.

use std::{fs, path::Path};

use rustix::process::Signal;

use crate::{
    cluster::{Cluster, succeed},
    e2e::{berth, eventually},
};

#[tokio::test]
async fn certificates_change_under_a_session_that_goes_on() {
    let mut cluster = Cluster::new();
    cluster.start_server(&[]);
    cluster.certify("agent", "n1/tls", &[]);
    cluster.start_agent("n1");
    cluster.until_ready(1).await;
    cluster.run_job();
    let alloc = cluster.running().await;
    for line in ["this server leads", "node is ready", "job registered"] {
        cluster.until_logged("s1", line).await;
    }
    let connected = |message: &str| message.matches("connected server").count();
    let before = connected(&cluster.log("n1"));

    // A mistake in the new files leaves the old ones in use.
    let tls = cluster.path("s1/tls");
    let certificate = fs::read(tls.join("server.pem")).expect("it is there");
    fs::write(tls.join("server.pem"), "nothing").expect("it is written");
    cluster.servers[0].daemon.signal(Signal::HUP);
    cluster.until_logged("s1", "server.pem: it holds no certificate in PEM").await;
    assert!(cluster.json(&["node", "status", "-json"]).is_some());

    fs::write(tls.join("server.pem"), certificate).expect("it is written");
    cluster.certify("server", "renewed", &["--server-name", "s1", "--host", "renewed.example.com"]);
    for name in ["server.pem", "server-key.pem"] {
        fs::copy(cluster.path("renewed").join(name), tls.join(name)).expect("it is copied");
    }
    cluster.servers[0].daemon.signal(Signal::HUP);
    cluster.until_logged("s1", "certificates were read again").await;
    assert!(cluster.json(&["node", "status", "-json"]).is_some(), "who comes now believes the new one");
    assert_eq!(cluster.running().await, alloc);
    assert_eq!(connected(&cluster.log("n1")), before, "the session went on");
}

#[tokio::test]
async fn an_authority_takes_the_place_of_another_under_sessions_that_go_on() {
    let mut cluster = Cluster::new();
    cluster.start_server(&["--tls", "agent_certificate_ttl=6s"]);
    let token = cluster.token(&[]);
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_ready(1).await;
    let new = cluster.dir("new");
    succeed(&berth(&["server", "init", "--server-name", "s1", "--tls-dir", &new]).output().expect("it runs"));
    let (tls, new) = (cluster.path("s1/tls"), cluster.path("new"));
    let read = |path: &Path| fs::read_to_string(path).expect("it is there");
    let [old_ca, new_ca] = [read(&tls.join("ca.pem")), read(&new.join("ca.pem"))];
    let agents = cluster.path("n1/agent/tls/ca.pem");
    let believes = async |what: &str| {
        eventually("the agent believes others", async || (read(&agents) == what).then_some(())).await;
    };
    let both = format!("{old_ca}{new_ca}");
    fs::write(tls.join("ca.pem"), &both).expect("it is written");
    cluster.servers[0].daemon.signal(Signal::HUP);
    believes(&both).await;
    for name in ["ca-key.pem", "server.pem", "server-key.pem"] {
        fs::copy(new.join(name), tls.join(name)).expect("it is copied");
    }
    cluster.servers[0].daemon.signal(Signal::HUP);
    let renewed = || cluster.log("n1").matches("the certificate was renewed").count();
    let before = renewed();
    eventually("its certificate is of the new one", async || (renewed() >= before + 2).then_some(())).await;
    fs::write(tls.join("ca.pem"), &new_ca).expect("it is written");
    cluster.servers[0].daemon.signal(Signal::HUP);
    believes(&new_ca).await;
    assert_eq!(cluster.log("n1").matches("connected server").count(), 1, "the session went on");
    cluster.until_ready(1).await;
}
