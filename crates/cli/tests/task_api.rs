//! Open requests of a task on its socket while the leader of three servers changes, and while the server that its agent is connected
//! to stops.

mod e2e;

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use berth_api::http::Target;
use e2e::{eventually, nodes::Nodes, servers::Servers};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// No measure of how fast it should be.
const PATIENCE: Duration = Duration::from_secs(60);

/// A task with an identity: where its socket is, and its token.
struct Task {
    /// A short name for its secrets, whose own path no program connects to.
    short: TempDir,
    token: String,
}

impl Task {
    /// Runs one on the only node, whose agent keeps what it has in `data`.
    async fn run(servers: &Servers, nodes: &Nodes, by: u8, data: &Path) -> Self {
        let client = &servers.all[&by].client;
        let root_key = async || {
            let keys: Vec<Value> = client.get(&Target::new("/v1/operator/keyring/keys")).await.ok()?.value;
            keys.iter().any(|key| key["State"] == "active").then_some(())
        };
        eventually("there is a root key", root_key).await;
        let mut job = nodes.counting("who");
        job["TaskGroups"][0]["Tasks"][0]["Identities"] =
            json!([{ "Name": "default", "File": true, "TTL": "1h" }]);
        client.put::<Value>(&Target::new("/v1/jobs"), &json!({ "Job": job })).await.expect("registered");
        let running = nodes.until_running("who", 1).await;
        let alloc = running.keys().next().expect("one runs");
        let secrets = data.join("agent/allocs").join(alloc).join("tasks/task/secrets");
        let token = std::fs::read_to_string(secrets.join("nomad_token")).expect("the task has it");
        let short = TempDir::new().expect("a directory");
        symlink(&secrets, short.path().join("s")).expect("it is made");
        Self { short, token }
    }

    fn socket(&self) -> PathBuf {
        self.short.path().join("s/api.sock")
    }

    /// Asks, and goes on once the answer begins, if it is awaited.
    async fn ask(&self, target: &str) -> Option<UnixStream> {
        let mut stream = UnixStream::connect(self.socket()).await.ok()?;
        let request = format!(
            "GET {target} HTTP/1.1\r\nhost: localhost\r\nx-nomad-token: {}\r\nconnection: close\r\n\r\n",
            self.token
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        Some(stream)
    }

    /// The whole answer.
    async fn answer(&self, target: &str) -> Option<String> {
        let mut answer = Vec::new();
        self.ask(target).await?.read_to_end(&mut answer).await.ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    }

    /// Where the list of jobs is now.
    async fn index(&self) -> u64 {
        eventually("the list is told", async || {
            let answer = self.answer("/v1/jobs").await?;
            let answer = answer.starts_with("HTTP/1.1 200").then_some(answer)?;
            let header = answer.lines().find_map(|line| line.strip_prefix("x-nomad-index: "));
            header.and_then(|index| index.trim().parse().ok())
        })
        .await
    }
}

/// Reads on until that text has come; everything so far.
async fn until_read(stream: &mut UnixStream, text: &str) -> String {
    let mut so_far = Vec::new();
    let reading = async {
        let mut buffer = [0; 4096];
        loop {
            if String::from_utf8_lossy(&so_far).contains(text) {
                return;
            }
            match stream.read(&mut buffer).await {
                Ok(0) | Err(_) => panic!("ended: {}", String::from_utf8_lossy(&so_far)),
                Ok(read) => so_far.extend_from_slice(&buffer[..read]),
            }
        }
    };
    let read = tokio::time::timeout(PATIENCE, reading).await;
    assert!(read.is_ok(), "{text:?} never comes");
    String::from_utf8_lossy(&so_far).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_task_has_open_goes_on_with_the_next_leader_and_ends_with_its_server() {
    let mut servers = Servers::start(3).await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let others = servers.followers(&[1, 2, 3]).await;
    let [own, third] = [others[0], others[1]];
    let mut nodes = Nodes::none();
    nodes.start(1, &[own], &servers);
    nodes.until_ready(&servers.all[&own].client, 1).await;
    let task = Task::run(&servers, &nodes, own, &nodes.path("node-1")).await;

    let index = task.index().await;
    let mut waits = task.ask(&format!("/v1/jobs?index={index}&wait=300s")).await.expect("it is asked");
    let mut follows = task.ask("/v1/event/stream?topic=Job").await.expect("it is asked");
    until_read(&mut follows, "HTTP/1.1 200").await;
    servers.kill(leader);
    servers.leader(&others).await;
    assert!(!nodes.log(1).contains("disconnected"), "the agent's server has not gone");
    servers.all[&third].register("late").await.expect("the next leader writes it");
    let answered = until_read(&mut waits, "late").await;
    assert!(answered.starts_with("HTTP/1.1 200"), "{answered}");
    until_read(&mut follows, "\"late\"").await;

    // Nobody else has the connection of a task whose server goes: it ends, and the next one comes in by another server.
    servers.run(leader, &[]);
    servers.until_all_vote().await;
    let index = task.index().await;
    let mut waits = task.ask(&format!("/v1/jobs?index={index}&wait=300s")).await.expect("it is asked");
    servers.kill(own);
    for mut stream in [&mut waits, &mut follows] {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, AsyncReadExt::read_to_end(&mut stream, &mut rest)).await;
        let _ = ended.expect("it ends");
    }
    let index = task.index().await;
    let mut waits = task.ask(&format!("/v1/jobs?index={index}&wait=300s")).await.expect("it is asked");
    servers.leader(&[leader, third]).await;
    servers.all[&third].register("later").await.expect("the others write it");
    until_read(&mut waits, "\"later\"").await;
}
