//! ACLs from the command line: a cluster that requires tokens, the first token, policies, and a revoked token, whose streams and
//! commands end.

mod e2e;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
        mpsc,
    },
    time::{Duration, Instant},
};

use berth_api::http::{
    AclBootstrap, AclToken, ApiError, Client, ExecInputFrame, ExecOutputFrame, SocketReceiver, SocketSender,
    Target,
};
use e2e::{dev::Dev, eventually, nodes::Nodes, servers::Servers};
use serde_json::{Value, json};

type Conversation = (SocketSender<ExecInputFrame>, SocketReceiver<ExecOutputFrame>);

const READER: &str = r#"
namespace "default" { policy = "read" }
node { policy = "read" }
"#;

/// A server and an agent that listen to tokens, and the first of them.
struct Guarded {
    dev: Dev,
    management: String,
}

impl Guarded {
    fn start() -> Self {
        let dev = Dev::start(&["--acl", "--raw-exec"]);
        let mut guarded = Self { dev, management: String::new() };
        let made = guarded.json("", &["acl", "bootstrap", "-json"]);
        guarded.management = text(&made["SecretID"]);
        guarded
    }

    fn command(&self, token: &str, args: &[&str]) -> Command {
        let mut command = e2e::berth(args);
        command.env("BERTH_ADDR", &self.dev.address).env("BERTH_TOKEN", token);
        command
    }

    fn berth(&self, token: &str, args: &[&str]) -> Output {
        self.command(token, args).output().expect("it runs")
    }

    fn json(&self, token: &str, args: &[&str]) -> Value {
        let output = self.berth(token, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What a command says that is refused.
    fn refused(&self, token: &str, args: &[&str]) -> String {
        let output = self.berth(token, args);
        let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{args:?} was done");
        output_text
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.dev.home.path().join(name);
        std::fs::write(&path, text).expect("it is written");
        path.to_str().expect("plain").to_owned()
    }

    /// A token with a policy of these rules.
    fn token(&self, policy: &str, rules: &str) -> (String, String) {
        let file = self.file("rules.hcl", rules);
        assert!(self.berth(&self.management, &["acl", "policy", "apply", policy, &file]).status.success());
        let made = self.json(&self.management, &["acl", "token", "create", "-policy", policy, "-json"]);
        (text(&made["SecretID"]), text(&made["AccessorID"]))
    }
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

#[test]
fn a_cluster_with_acls_is_shut_until_tokens_and_policies_open_it() {
    let guarded = Guarded::start();
    let output_text = guarded.refused("", &["job", "status"]);
    assert!(output_text.contains("list-jobs") && output_text.contains("no token was given"), "{output_text}");
    let output_text = guarded.refused("", &["acl", "bootstrap"]);
    assert!(output_text.contains("ACL bootstrap already done (reset index: "), "{output_text}");

    let (reader, _) = guarded.token("reader", READER);
    assert!(guarded.berth(&reader, &["job", "status"]).status.success());
    assert!(guarded.berth(&reader, &["node", "status"]).status.success());
    let job = guarded.file("job.hcl", &job_file());
    let output_text = guarded.refused(&reader, &["job", "run", "-detach", &job]);
    assert!(
        output_text.contains("Permission denied: this needs register-job in a namespace"),
        "{output_text}"
    );
    let output_text = guarded.refused(&reader, &["acl", "token", "list"]);
    assert!(output_text.contains("management token"), "{output_text}");
    let own = guarded.json(&reader, &["acl", "token", "self", "-json"]);
    assert_eq!(own["Policies"], json!(["reader"]));
    assert!(own.get("SecretID").is_none(), "secrets are told once: {own}");

    let wrong = guarded.file("wrong.hcl", "namespace \"default\" {\n  policy = \"reed\"\n}\n");
    let output_text = guarded.refused(&guarded.management, &["acl", "policy", "apply", "reader", &wrong]);
    assert!(
        output_text.contains("wrong.hcl:2") && output_text.contains("did you mean `read`"),
        "{output_text}"
    );

    let anonymous = guarded.file("anonymous.hcl", READER);
    let applied = guarded.berth(&guarded.management, &["acl", "policy", "apply", "anonymous", &anonymous]);
    assert!(applied.status.success());
    assert!(guarded.berth("", &["job", "status"]).status.success());
    let mut nomads = guarded.command("", &["acl", "token", "self"]);
    nomads.env_remove("BERTH_TOKEN").env("NOMAD_TOKEN", &reader);
    assert!(nomads.output().expect("it runs").status.success(), "Nomad's name for it");
    assert!(!nomads.env("BERTH_TOKEN", "mistyped").output().expect("it runs").status.success());
    let output_text = guarded.refused("mistyped", &["job", "status"]);
    assert!(output_text.contains("ACL token not found"), "{output_text}");
}

#[test]
fn the_operator_of_a_server_gets_a_first_token_again_by_a_file_in_its_directory() {
    let guarded = Guarded::start();
    let output_text = guarded.refused("", &["acl", "bootstrap"]);
    let index =
        output_text.split("reset index: ").nth(1).and_then(|rest| rest.split(')').next()).expect("an index");
    let servers = walk(guarded.dev.home.path(), "server");
    let dir = servers.first().and_then(|dir| dir.parent()).expect("the data directory");
    std::fs::write(dir.join("acl-bootstrap-reset"), format!("{index}\n")).expect("it is written");
    let again = guarded.json("", &["acl", "bootstrap", "-json"]);
    assert_ne!(text(&again["SecretID"]), guarded.management);
    assert!(guarded.berth(&text(&again["SecretID"]), &["acl", "token", "list"]).status.success());
    let output_text = guarded.refused("", &["acl", "bootstrap"]);
    assert!(output_text.contains("already done"), "once: {output_text}");
}

/// Directories of a name, however deep.
fn walk(dir: &std::path::Path, name: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let dirs: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    let here = dirs.iter().filter(|dir| dir.file_name().is_some_and(|found| found == name)).cloned();
    here.chain(dirs.iter().flat_map(|dir| walk(dir, name))).collect()
}

fn job_file() -> String {
    r#"
    job "web" {
      group "g" {
        update { max_parallel = 0 }
        task "t" {
          driver = "raw_exec"
          config {
            command = "/bin/sh"
            args = ["-c", "while true; do date; sleep 1; done"]
          }
          resources { memory = 16 }
        }
      }
    }
    "#
    .to_owned()
}

#[test]
fn what_a_token_allowed_ends_within_a_second_of_its_end() {
    let guarded = Guarded::start();
    let rules = "namespace \"default\" {\n policy = \"write\"\n capabilities = [\"alloc-node-exec\"]\n}";
    let (writer, accessor) = guarded.token("writer", rules);
    let job = guarded.file("job.hcl", &job_file());
    let run = guarded.berth(&writer, &["job", "run", &job]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let allocs = guarded.json(&writer, &["ps", "-json"]);
    let alloc = text(&allocs[0]["ID"]);

    let followers: [&[&str]; 3] = [
        &["event", "stream", "-index", "1"],
        &["alloc", "logs", "-f", &alloc],
        &["alloc", "exec", &alloc, "/bin/sh", "-c", "while true; do date; sleep 0.2; done"],
    ];
    let (ended, ends) = mpsc::channel();
    let mut children = Vec::new();
    for args in followers {
        let mut command = guarded.command(&writer, args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut message = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut first = String::new();
        message.read_line(&mut first).expect("a line");
        assert!(!first.is_empty(), "{args:?} says nothing");
        let (ended, name) = (ended.clone(), args[1].to_owned());
        std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = message.read_to_end(&mut rest);
            let _ = ended.send(name);
        });
        children.push(child);
    }
    let waits = blocked_read(&guarded.dev.address, &writer);
    let name = "a blocked read".to_owned();
    std::thread::spawn(move || {
        let mut waits = waits;
        let mut answer = String::new();
        let _ = waits.read_to_string(&mut answer);
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        let _ = ended.send(name);
    });
    let revoked = guarded.berth(&guarded.management, &["acl", "token", "delete", "-yes", &accessor]);
    assert!(revoked.status.success());
    let begun = Instant::now();
    for _ in 0..followers.len() + 1 {
        // Far more than it takes: what is asserted is that each of them ends.
        let ended = ends.recv_timeout(Duration::from_secs(20)).expect("all of them end");
        println!("{ended} ended after {} ms", begun.elapsed().as_millis());
    }
    for mut child in children {
        let status = child.wait().expect("it has ended");
        assert!(!status.success(), "who follows is told that it was not the end");
    }
    let output_text = guarded.refused(&writer, &["job", "status"]);
    assert!(output_text.contains("ACL token not found"), "{output_text}");
}

/// A task that nothing contains, which has a token of its own.
fn with_identity() -> String {
    job_file().replace("resources {", "identity {\n file = true\n }\n resources {")
}

impl Guarded {
    /// Runs a job and says which allocation that is.
    fn run_job(&self, file: &str) -> String {
        let job = self.file("job.hcl", file);
        let run = self.berth(&self.management, &["job", "run", &job]);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        text(&self.json(&self.management, &["ps", "-json"])[0]["ID"])
    }

    /// A command within its task, with that token.
    async fn exec(&self, token: &str, alloc: &str, script: &str) -> Result<Conversation, ApiError> {
        let target = Target::new("/v1/client/allocation").part(alloc).part("exec");
        let command = json!(["/bin/sh", "-c", script]).to_string();
        let client = e2e::client(&self.dev.address).with_token(token);
        client.socket(&target.param("task", "t").param("command", command)).await
    }

    /// A command that goes on, once it does, and its process.
    async fn goes_on(&self, who: &str, token: &str, alloc: &str) -> (Conversation, String) {
        let file = self.dev.home.path().join(format!("pid-{who}"));
        let script = format!("echo $$ > {}; while true; do echo on; sleep 0.2; done", file.display());
        let mut ran = self.exec(token, alloc, &script).await.expect("it may");
        let message = ran.1.next().await.expect("unbroken").expect("it goes on");
        assert!(message.stdout.is_some(), "{who}: {message:?}");
        (ran, std::fs::read_to_string(file).expect("it is written").trim().to_owned())
    }

    fn done(&self, args: &[&str]) {
        let output = self.berth(&self.management, args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Reads what a command says until it is ended from elsewhere, and sees its process end.
async fn until_ended(who: &str, (ran, pid): (Conversation, String)) {
    let (_input, mut output) = ran;
    let ends = async {
        loop {
            match output.next().await {
                Ok(Some(message)) => assert!(!message.exited, "{who}: it was not ended"),
                Ok(None) => panic!("{who}: it ends without a word"),
                Err(error) => return error.to_string(),
            }
        }
    };
    let why = tokio::time::timeout(Duration::from_secs(60), ends).await;
    let why = why.unwrap_or_else(|_| panic!("{who}: it goes on"));
    assert!(why.contains("the token was revoked"), "{who}: {why}");
    let process = std::path::PathBuf::from(format!("/proc/{pid}"));
    eventually("its process is gone", async || (!process.exists()).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_run_for_tokens_that_may_and_end_with_them_and_for_others_nothing_runs() {
    const ALL: &str = "capabilities = [\"alloc-exec\", \"alloc-node-exec\"]";
    let guarded = Guarded::start();
    eventually("there is a root key", async || {
        let keys = guarded.json(&guarded.management, &["operator", "root", "keyring", "list", "-json"]);
        keys.to_string().contains("active").then_some(())
    })
    .await;
    let alloc = guarded.run_job(&with_identity());
    let secrets = walk(guarded.dev.home.path(), "secrets");
    let task = secrets.iter().find_map(|dir| std::fs::read_to_string(dir.join("nomad_token")).ok());
    let task = task.expect("the task has a token");
    let home = guarded.dev.home.path();

    // Nothing runs for those.
    let (reader, _) = guarded.token("reader", r#"namespace "default" { policy = "read" }"#);
    let (writer, _) = guarded.token("writer", r#"namespace "default" { policy = "write" }"#);
    guarded.done(&["namespace", "apply", "other"]);
    let (other, _) = guarded.token("other", &format!("namespace \"other\" {{ {ALL} }}"));
    let (revoked, accessor) = guarded.token("revoked", &format!("namespace \"default\" {{ {ALL} }}"));
    guarded.done(&["acl", "token", "delete", "-yes", &accessor]);
    let nothing = [
        ("nobody", "", 403, "no token was given"),
        ("forger", "never-made", 403, "ACL token not found"),
        ("revoked", &revoked, 403, "ACL token not found"),
        ("reader", &reader, 403, "alloc-exec in a namespace"),
        ("writer", &writer, 403, "alloc-node-exec in namespace \"default\""),
        ("other", &other, 404, "not found"),
        ("task", &task, 403, "alloc-exec in a namespace"),
    ];
    for (who, token, status, reason) in nothing {
        let script = format!("touch {}", home.join(format!("ran-{who}")).display());
        let refused =
            guarded.exec(token, &alloc, &script).await.err().unwrap_or_else(|| panic!("{who} runs it"));
        assert_eq!(refused.status(), Some(status), "{who}: {refused}");
        assert!(refused.to_string().contains(reason), "{who}: {refused}");
    }

    // For these it runs, for as long as they may.
    let (again, accessor) = guarded.token("may", &format!("namespace \"default\" {{ {ALL} }}"));
    let (changed, _) = guarded.token("changed", &format!("namespace \"default\" {{ {ALL} }}"));
    let operator =
        guarded.json(&guarded.management, &["acl", "token", "create", "-type", "management", "-json"]);
    let rules = guarded.file("rules.hcl", &format!("namespace \"default\" {{ {ALL} }}"));
    guarded.done(&["acl", "policy", "apply", "-job", "web", "of-task", &rules]);
    let ends = [
        ("revoked-token", again, vec!["acl", "token", "delete", "-yes", &accessor]),
        ("changed-policy", changed, vec!["acl", "policy", "apply", "changed", "LESS"]),
        (
            "revoked-operator",
            text(&operator["SecretID"]),
            vec!["acl", "token", "delete", "-yes", operator["AccessorID"].as_str().expect("text")],
        ),
        ("task", task, vec!["acl", "policy", "delete", "-yes", "of-task"]),
    ];
    let less = guarded.file("less.hcl", r#"namespace "default" { policy = "read" }"#);
    for (who, token, end) in ends {
        let ran = guarded.goes_on(who, &token, &alloc).await;
        let end: Vec<&str> = end.into_iter().map(|word| if word == "LESS" { &less } else { word }).collect();
        guarded.done(&end);
        until_ended(who, ran).await;
        let refused =
            guarded.exec(&token, &alloc, "true").await.err().unwrap_or_else(|| panic!("{who} runs more"));
        assert!(refused.status() == Some(403), "{who}: {refused}");
    }
    let made = ["acl", "token", "create", "-policy", "may", "-ttl", "15s", "-json"];
    let brief = text(&guarded.json(&guarded.management, &made)["SecretID"]);
    until_ended("expired", guarded.goes_on("expired", &brief, &alloc).await).await;

    // What is looked for is there where it did run.
    let script = format!("touch {}", home.join("ran-operator").display());
    let (_input, mut output) = guarded.exec(&guarded.management, &alloc, &script).await.expect("it may");
    while output.next().await.expect("unbroken").is_some() {}
    let ran = std::fs::read_dir(home).expect("it is there").flatten().map(|entry| entry.file_name());
    let ran: Vec<String> = ran.filter_map(|name| name.into_string().ok()).collect();
    let ran: Vec<&String> = ran.iter().filter(|name| name.starts_with("ran-")).collect();
    assert_eq!(ran, ["ran-operator"]);
}

/// A read that waits for a change which does not come, sent by hand.
fn blocked_read(address: &str, token: &str) -> TcpStream {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).expect("it listens");
    write!(
        stream,
        "GET /v1/jobs?index=999999999&wait=600s HTTP/1.1\r\nHost: {host}\r\nX-Nomad-Token: {token}\r\n\
         Connection: close\r\n\r\n"
    )
    .expect("it is sent");
    stream
}

async fn own(client: &Client) -> Result<AclToken, ApiError> {
    Ok(client.get(&Target::new("/v1/acl/token/self")).await?.value)
}

/// Three servers that listen to tokens, whose clients show the first one.
async fn three_servers() -> Servers {
    let mut servers = Servers::start(3).await;
    for number in 1..=3 {
        servers.stop(number);
        servers.run(number, &["--acl".to_owned()]);
    }
    let bootstrap_secret = "a secret that is long enough to be one".replace(' ', "-");
    for server in servers.all.values_mut() {
        server.client = server.client.clone().with_token(&*bootstrap_secret);
    }
    let first = &servers.all[&1].client;
    eventually("the first token is made", async || {
        let asked = AclBootstrap { bootstrap_secret: bootstrap_secret.clone() };
        let _ = first.put::<AclToken>(&Target::new("/v1/acl/bootstrap"), &asked).await;
        own(first).await.ok()
    })
    .await;
    servers.until_all_vote().await;
    servers
}

/// How long after a revocation the log of a task may go on, elsewhere. A second is promised; the machine of the test may be busy.
const SILENT_AFTER: Duration = Duration::from_secs(4);

/// The server is cut off from the others, and serves on what it was asked before: it cannot know of the revocation, and yet falls
/// silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_is_followed_through_a_server_that_is_cut_off_falls_silent_when_its_token_is_revoked() {
    let servers = three_servers().await;
    let leader = servers.leader(&[1, 2, 3]).await;
    let cut = servers.followers(&[1, 2, 3]).await[0];
    let mut nodes = Nodes::none();
    nodes.start(1, &[cut], &servers);
    let client = &servers.all[&leader].client;
    nodes.until_ready(client, 1).await;
    let job = json!({ "Job": nodes.counting("count") });
    client.put::<Value>(&Target::new("/v1/jobs"), &job).await.expect("it is acknowledged");
    let pids = nodes.until_running("count", 1).await;
    let alloc = pids.keys().next().expect("one").clone();
    let asked = json!({ "Name": "follows", "Type": "management" });
    let made = client.put::<AclToken>(&Target::new("/v1/acl/token"), &asked).await.expect("it is made").value;
    let secret = made.secret_id.clone();
    let log = Target::new("/v1/client/fs/logs").part(&alloc);
    let log = log.param("task", "task").param("type", "stdout").param("plain", true).param("follow", true);
    let mut stream = servers.all[&cut].client.clone().with_token(&*secret).bytes(&log).await.expect("it may");
    let read = Arc::new(AtomicU64::new(0));
    let (counted, begun) = (read.clone(), Instant::now());
    // Milliseconds at which something came last.
    let follows = tokio::spawn(async move {
        while let Ok(Some(_)) = stream.next().await {
            counted.store(u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX), SeqCst);
        }
    });
    eventually("the log is followed", async || (read.load(SeqCst) > 0).then_some(())).await;
    servers.links.isolate(cut, [1, 2, 3]);
    let accessor = made.accessor_id.to_string();
    let revoke = Target::new("/v1/acl/token").part(&accessor);
    client.delete::<()>(&revoke).await.expect("the others are a majority");
    let revoked = begun.elapsed();
    tokio::time::sleep(2 * SILENT_AFTER).await;
    let last = Duration::from_millis(read.load(SeqCst));
    assert!(last < revoked + SILENT_AFTER, "the last was read {:?} after the revocation", last - revoked);
    // It ends by itself, and the task goes on.
    tokio::time::timeout(Duration::from_secs(30), follows).await.expect("it ends").expect("no panic");
    servers.links.heal();
    assert_eq!(nodes.pids("count"), pids);
}

/// What servers say, or with which status they refuse, once they do either: while they elect a leader they do neither.
async fn answer<T>(ask: impl AsyncFn() -> Result<T, ApiError>) -> Result<T, u16> {
    eventually("the servers answer", async || match ask().await {
        Ok(output_text) => Some(Ok(output_text)),
        Err(error) => error.status().filter(|status| *status < 500).map(Err),
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_server_says_of_a_token_holds_at_all_of_them_at_once() {
    let servers = three_servers().await;
    let clients: Vec<&Client> = servers.all.values().map(|server| &server.client).collect();
    let (jobs, tokens) = (Target::new("/v1/jobs"), Target::new("/v1/acl/token"));
    for round in 0..9 {
        let [here, there, elsewhere] = [0, 1, 2].map(|step| clients[(round + step) % 3]);
        let asked = AclToken { token_type: "management".to_owned(), ..AclToken::default() };
        let made = answer(async || here.put::<AclToken>(&tokens, &asked).await).await;
        let made = made.expect("a management token may make another").value;
        let shown = |client: &Client| client.clone().with_token(made.secret_id.as_str());
        for client in [there, elsewhere].map(shown) {
            let listed = answer(async || client.get::<Value>(&jobs).await).await;
            assert_eq!(listed.err(), None, "made at another server just before");
        }
        let id = format!("round-{round}");
        let job = json!({"Job": {"ID": id, "Name": id, "Type": "service", "TaskGroups": [{
            "Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}],
        }]}});
        let written = answer(async || shown(elsewhere).put::<Value>(&jobs, &job).await).await;
        assert_eq!(written.err(), None, "a write is handed on");
        let token = Target::new("/v1/acl/token").part(&made.accessor_id);
        let revoked = answer(async || there.delete::<()>(&token).await).await;
        // Gone already: the first of two tries was not answered.
        assert!(matches!(revoked, Ok(_) | Err(404)), "{:?}", revoked.err());
        for client in [here, elsewhere].map(shown) {
            let listed = answer(async || client.get::<Value>(&jobs).await).await;
            assert_eq!(listed.err(), Some(403), "revoked at another server just before");
        }
    }
}
