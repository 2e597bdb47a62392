//! The audit log of a server that is killed under load, stored tokens, and rate limits of callers.

mod e2e;

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use berth_api::http::{Client, Target};
use e2e::{Daemon, berth, client, eventually, http_address};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A server that listens to tokens, and may be killed.
struct Server {
    daemon: Daemon,
    address: String,
    home: TempDir,
}

impl Server {
    fn start(args: &[&str]) -> Self {
        let home = TempDir::new().expect("a directory");
        let (daemon, address) = Self::run(home.path(), args);
        Self { daemon, address, home }
    }

    fn run(home: &Path, args: &[&str]) -> (Daemon, String) {
        let dir = home.join("data");
        let fixed =
            ["server", "--http-addr", "127.0.0.1:0", "--agent-addr", "127.0.0.1:0", "--acl", "--data-dir"];
        let fixed = fixed.into_iter().chain([dir.to_str().expect("plain")]);
        let all: Vec<&str> = fixed.chain(args.iter().copied()).collect();
        let mut daemon = Daemon::start(&all, &home.join("stderr"));
        let address = format!("http://{}", http_address(&daemon.ready_line()));
        (daemon, address)
    }

    fn start_again(&mut self) {
        (self.daemon, self.address) = Self::run(self.home.path(), &[]);
    }

    fn audit_dir(&self) -> PathBuf {
        self.home.path().join("data/audit")
    }

    fn verify(&self) -> Output {
        let dir = self.audit_dir();
        let args = ["operator", "audit", "verify", "-json", dir.to_str().expect("plain")];
        berth(&args).output().expect("it runs")
    }

    fn verified(&self) -> Value {
        let output = self.verify();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    async fn bootstrap(&self) -> (Client, String) {
        let made = client(&self.address).put::<Value>(&Target::new("/v1/acl/bootstrap"), &json!({})).await;
        let secret = made.expect("the first token").value["SecretID"].as_str().expect("a secret").to_owned();
        (client(&self.address).with_token(secret.as_str()), secret)
    }
}

fn job(id: &str) -> Value {
    json!({"Job": {"ID": id, "Name": id, "Type": "service", "TaskGroups": [{
        "Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}],
    }]}})
}

async fn register(client: &Client, id: &str) -> bool {
    client.put::<Value>(&Target::new("/v1/jobs"), &job(id)).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_recorded_though_the_server_is_killed_under_load() {
    let mut server = Server::start(&["--audit-file-mb", "1"]);
    let (first, secret) = server.bootstrap().await;
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..16 {
        let (client, acknowledged, over) = (first.clone(), acknowledged.clone(), over.clone());
        writers.spawn(async move {
            for round in 0.. {
                let id = format!("job-{writer}-{round}");
                if over.load(Ordering::SeqCst) || !register(&client, &id).await {
                    break;
                }
                acknowledged.lock().expect("none panics").push(id);
            }
        });
    }
    eventually("hundreds are acknowledged", async || {
        (acknowledged.lock().expect("none panics").len() > 400).then_some(())
    })
    .await;
    server.daemon.kill();
    over.store(true, Ordering::SeqCst);
    while let Some(ended) = writers.join_next().await {
        ended.expect("none panics");
    }
    let before = server.verified();
    let text: String =
        files(&server.audit_dir()).iter().map(|file| fs::read_to_string(file).expect("text")).collect();
    for id in acknowledged.lock().expect("none panics").iter() {
        assert!(text.contains(&format!("[\"{id}\"]")), "{id} was acknowledged and is not recorded");
    }
    assert!(!text.contains(&secret));

    server.start_again();
    let again = client(&server.address).with_token(secret.as_str());
    assert!(register(&again, "after-all").await);
    let after = server.verified();
    assert!(after["Last"].as_u64() > before["Last"].as_u64(), "{before} {after}");
    server.daemon.stop();
    let hash = server.verified()["Hash"].as_str().expect("a hash").to_owned();

    let newest = files(&server.audit_dir()).pop().expect("a file");
    let whole = fs::read(&newest).expect("it is there");
    let middle = whole.len() / 2;
    let mut changed = whole.clone();
    changed[middle] ^= 1;
    fs::write(&newest, &changed).expect("it is written");
    let output = server.verify();
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{output_text}");
    let line = whole[..middle].iter().filter(|byte| **byte == b'\n').count() + 1;
    assert!(output_text.contains(&format!("{}:{line}: ", newest.display())), "line {line}: {output_text}");
    fs::write(&newest, &whole).expect("it is written");
    let dir = server.audit_dir();
    let contains = ["operator", "audit", "verify", "-contains", &hash, dir.to_str().expect("plain")];
    assert!(berth(&contains).output().expect("it runs").status.success());
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        fs::read_dir(dir).expect("it is there").map(|file| file.expect("a file").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_kept_once_the_server_knows_it_and_used_until_it_is_forgotten() {
    let server = Server::start(&[]);
    let (_, secret) = server.bootstrap().await;
    let config = server.home.path().join("config");
    let run = |args: &[&str], typed: &str| {
        let mut command = berth(args);
        command.env("BERTH_ADDR", &server.address).env("XDG_CONFIG_HOME", &config);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        // Whoever does not read it has ended already.
        let _ = child.stdin.take().expect("a pipe").write_all(typed.as_bytes());
        let output = child.wait_with_output().expect("it ends");
        let output_text = [output.stdout, output.stderr].concat();
        let output_text = String::from_utf8_lossy(&output_text).into_owned();
        assert!(!output_text.contains(&secret), "{args:?} tells it: {output_text}");
        (output.status.code(), output_text)
    };
    let tokens = config.join("berth/tokens.json");
    let (code, output_text) = run(&["login"], "berth-wrong\n");
    assert_eq!(code, Some(4), "{output_text}");
    assert!(!tokens.exists(), "what the server does not know is not kept");
    assert_eq!(run(&["login"], "\n").0, Some(2));
    assert_eq!(run(&["job", "status"], "").0, Some(4));

    let (code, output_text) = run(&["login"], &format!("{secret}\n"));
    assert!(code == Some(0) && output_text.contains(&server.address), "{output_text}");
    assert_eq!(fs::metadata(&tokens).expect("it is kept").permissions().mode() & 0o777, 0o600);
    assert_eq!(run(&["job", "status"], "").0, Some(0));
    let (code, output_text) = run(&["job", "status", "-token", "another"], "");
    assert!(
        code == Some(4) && output_text.contains("ACL token not found"),
        "a flag goes before: {output_text}"
    );

    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o640)).expect("it is ours");
    let (code, output_text) = run(&["job", "status"], "");
    assert!(code == Some(2) && output_text.contains("tokens.json has the permissions 0640"), "{output_text}");
    fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).expect("it is ours");
    assert_eq!(run(&["logout"], "").0, Some(0));
    assert_eq!(run(&["job", "status"], "").0, Some(4));
    assert_eq!(run(&["logout"], "").0, Some(3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_limit_is_named_in_refusals_and_health_is_answered_all_the_same() {
    let server = Server::start(&["--request-rate-loopback", "5"]);
    let host = server.address.trim_start_matches("http://").to_owned();
    let ask = |path: &str| {
        use std::io::Read;
        let mut stream = std::net::TcpStream::connect(&host).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")
            .expect("it is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let answers: Vec<String> = (0..40).map(|_| ask("/v1/jobs")).collect();
    let limited: Vec<_> = answers.iter().filter(|answer| answer.starts_with("HTTP/1.1 429")).collect();
    assert!(answers[0].starts_with("HTTP/1.1 403"), "{}", answers[0]);
    assert!(!limited.is_empty());
    assert!(
        limited[0].contains("retry-after: 1") && limited[0].contains("request-rate-loopback"),
        "{}",
        limited[0]
    );
    for _ in 0..40 {
        assert!(ask("/healthz").starts_with("HTTP/1.1 200"));
    }
}
