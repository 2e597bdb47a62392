//! Clusters with TLS, as operators meet them: certificates of their own authority, servers and agents that verify each other, and
//! peers without valid certificates.

#[path = "tls/certificates.rs"]
mod certificates;
#[path = "tls/cluster.rs"]
mod cluster;
mod e2e;
#[path = "tls/joining.rs"]
mod joining;
#[path = "tls/revocation.rs"]
mod revocation;
#[path = "tls/rotation.rs"]
mod rotation;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use cluster::{Cluster, refusal, succeed};

/// More than a server waits for a handshake.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn three_servers_and_an_agent_speak_encrypted_and_run_a_job() {
    let mut cluster = Cluster::new();
    cluster.start_three().await;
    cluster.certify("agent", "n1/tls", &[]);
    cluster.start_agent("n1");
    cluster.until_ready(1).await;
    cluster.run_job();
    let alloc = cluster.running().await;
    // A command within a task takes a WebSocket, and its question goes from server to server.
    for server in &cluster.servers {
        let mut command = cluster.command(&["alloc", "status", &alloc]);
        succeed(&command.env("BERTH_ADDR", format!("https://{}", server.http)).output().expect("it runs"));
    }
    let mut plain = cluster.command(&["server", "members"]);
    let text = refusal(
        &plain.env("BERTH_ADDR", format!("http://{}", cluster.servers[0].http)).output().expect("it runs"),
    );
    assert!(text.contains("this port speaks TLS"), "{text}");
    let mut stranger = cluster.command(&["server", "members"]);
    let text = refusal(&stranger.env_remove("BERTH_CACERT").output().expect("it runs"));
    assert!(text.contains("signed by none of the authorities"), "{text}");
}

#[tokio::test]
async fn half_handshakes_and_silence_hold_nobody_up_and_end() {
    let mut cluster = Cluster::new();
    cluster.start_server(&[]);
    let server = &cluster.servers[0];
    let mut held = Vec::new();
    for address in [server.http, server.agent, server.server] {
        for number in 0..250 {
            let mut stream = TcpStream::connect(address).expect("it listens");
            // The beginning of a greeting of 512 bytes, of which no more comes.
            if number % 2 == 0 {
                stream.write_all(&[22, 3, 1, 2, 0, 1, 0, 1, 252]).expect("it is taken");
            }
            held.push(stream);
        }
    }
    // Meanwhile others come in.
    cluster.certify("agent", "n1/tls", &[]);
    cluster.start_agent("n1");
    cluster.until_ready(1).await;
    let deadline = Instant::now() + PATIENCE;
    for mut stream in held {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left)).expect("it is set");
        let ended = stream.read_to_end(&mut Vec::new());
        // Closed, or reset because it had said something.
        let is_late = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
        assert!(!is_late, "a silent connection is still there");
    }
}
