//! Clusters that encrypt, as operators meet them: certificates of their own authority, servers and agents that check each
//! other, and whoever comes without business.

mod e2e;

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use berth_api::http::{AllocationStub, Client, Target};
use berth_tls::{ClientFiles, ClientTls};
use e2e::{Daemon, berth, eventually, free_port, home::Home};
use rustix::process::Signal;
use serde_json::{Value, json};

/// More than a server waits for a handshake.
const PATIENCE: Duration = Duration::from_secs(60);

/// A job that runs until it is stopped.
const JOB: &str = r#"
job "web" {
  group "web" {
    task "web" {
      driver = "mock_driver"
      config { run_for = "1h" }
    }
  }
}
"#;

/// A cluster with an authority of its own. Its processes end when this is dropped.
struct Cluster {
    servers: Vec<Server>,
    agents: Vec<Daemon>,
    home: Home,
}

struct Server {
    daemon: Daemon,
    args: Vec<String>,
    http: SocketAddr,
    agent: SocketAddr,
    server: SocketAddr,
}

impl Cluster {
    /// An authority, and the certificate of the first server.
    fn new() -> Self {
        let home = Home::new();
        let cluster = Self { servers: Vec::new(), agents: Vec::new(), home };
        succeed(&cluster.berth(&["server", "init", "--server-name", "s1", "--data-dir", &cluster.dir("s1")]));
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    fn dir(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A command that believes the authority and asks the first server, if there is one.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = berth(args);
        command.env("BERTH_CACERT", self.path("s1/tls/ca.pem")).stdin(Stdio::null());
        if let Some(server) = self.servers.first() {
            command.env("BERTH_ADDR", format!("https://{}", server.http));
        }
        command
    }

    fn berth(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// A client that believes the authority, and asks the first server.
    fn client(&self) -> Client {
        self.client_of(&format!("https://{}", self.servers[0].http))
    }

    fn client_of(&self, address: &str) -> Client {
        let address = address.parse().expect("an address");
        let tls =
            ClientTls::load(&ClientFiles { ca: Some(&self.path("s1/tls/ca.pem")), ..ClientFiles::default() })
                .expect("it is read");
        Client::with_tls(address, tls)
    }

    fn json(&self, args: &[&str]) -> Option<Value> {
        let output = self.berth(args);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    /// Makes a certificate with the first server's authority.
    fn certify(&self, role: &str, out: &str, more: &[&str]) {
        let (from, out) = (self.dir("s1"), self.dir(out));
        let args = [&["server", "cert", role, "--data-dir", &from, "--out", &out], more].concat();
        succeed(&self.berth(&args));
    }

    /// Starts a server; all but the first get their certificates from the first, and join it.
    fn start_server(&mut self, more: &[&str]) {
        let number = self.servers.len() + 1;
        let name = format!("s{number}");
        if number > 1 {
            self.certify("server", &format!("{name}/tls"), &["--server-name", &name]);
        }
        let [http, agent, server] = [(); 3]
            .map(|()| SocketAddr::from(([127, 0, 0, u8::try_from(number).expect("few")], free_port())));
        let [http_flag, agent_flag, server_flag] = [http, agent, server].map(|address| address.to_string());
        let (data, join) = (self.dir(&name), self.servers.first().map(|first| first.server.to_string()));
        let mut args = vec![
            "server",
            "--http-addr",
            &http_flag,
            "--agent-addr",
            &agent_flag,
            "--server-addr",
            &server_flag,
            "--server-name",
            &name,
            "--data-dir",
            &data,
        ];
        args.extend(join.iter().flat_map(|join| ["--join", join.as_str()]));
        args.extend(more);
        let mut daemon = Daemon::start(&args, &self.path(&format!("told-{name}")));
        let ready = daemon.ready_line();
        assert!(ready.contains(&format!("https://{http}")), "{ready}");
        let args = args.into_iter().map(str::to_owned).collect();
        self.servers.push(Server { daemon, args, http, agent, server });
    }

    /// Starts a server again that has ended.
    fn start_again(&mut self, number: usize) {
        let told = self.path(&format!("told-s{number}"));
        let server = &mut self.servers[number - 1];
        let args: Vec<&str> = server.args.iter().map(String::as_str).collect();
        server.daemon = Daemon::start(&args, &told);
        server.daemon.ready_line();
    }

    /// Starts three servers, and waits until they vote.
    async fn start_three(&mut self) {
        for _ in 1..=3 {
            self.start_server(&[]);
        }
        eventually("three servers vote", async || {
            let found = self.json(&["server", "members", "-json"])?;
            let voters = found.as_array()?.iter().filter(|member| member["Tags"]["voter"] == "true").count();
            (voters == 3).then_some(())
        })
        .await;
    }

    /// A command that asks one of the servers.
    fn asking(&self, number: usize, args: &[&str]) -> Output {
        let address = format!("https://{}", self.servers[number - 1].http);
        self.command(args).env("BERTH_ADDR", address).output().expect("it runs")
    }

    /// The number of the server that leads, as one of them says.
    async fn leader(&self, asked: usize) -> usize {
        eventually("a server leads", async || {
            let output = self.asking(asked, &["server", "members", "-json"]);
            let members: Value = serde_json::from_slice(&output.stdout).ok()?;
            let leader = members.as_array()?.iter().find(|member| member["Leader"] == true)?;
            leader["Name"].as_str()?.strip_prefix('s')?.split('.').next()?.parse().ok()
        })
        .await
    }

    /// Puts a new certificate in the place of a server's, and has it read that.
    fn renew(&self, number: usize) {
        let (name, new) = (format!("s{number}"), format!("new-{number}"));
        self.certify("server", &new, &["--server-name", &name]);
        for file in ["server.pem", "server-key.pem"] {
            let to = self.path(&name).join("tls").join(file);
            fs::copy(self.path(&new).join(file), to).expect("it is copied");
        }
        self.servers[number - 1].daemon.signal(Signal::HUP);
    }

    /// The connections between a server and the others that are open, by the ports of both ends.
    fn connections(&self, number: usize) -> BTreeSet<(SocketAddr, SocketAddr)> {
        let own = self.servers[number - 1].server;
        let others = self.servers.iter().map(|server| server.server).filter(|server| *server != own);
        let others: Vec<SocketAddr> = others.collect();
        let table = fs::read_to_string("/proc/net/tcp").expect("Linux has it");
        let open = table.lines().filter_map(established);
        let is_between = |(here, there): &(SocketAddr, SocketAddr)| {
            let from_it = here.ip() == own.ip() && others.contains(there);
            from_it || *here == own && others.iter().any(|other| other.ip() == there.ip())
        };
        open.filter(is_between).collect()
    }

    /// How long it takes until none is open of the connections that a server had with others.
    fn cut_after(
        &self,
        before: &BTreeSet<(SocketAddr, SocketAddr)>,
        number: usize,
        begun: Instant,
    ) -> Duration {
        assert!(!before.is_empty(), "it has connections");
        while !self.connections(number).is_disjoint(before) {
            assert!(begun.elapsed() < PATIENCE, "they stay open");
            std::thread::sleep(Duration::from_millis(10));
        }
        begun.elapsed()
    }

    /// Starts an agent that knows all servers and has its data in a directory of this name.
    fn start_agent(&mut self, name: &str) {
        self.start_agent_with(name, &[]);
    }

    /// The same with further arguments; with other servers, if they say so.
    fn start_agent_with(&mut self, name: &str, more: &[&str]) {
        let servers: Vec<String> = self.servers.iter().map(|server| server.agent.to_string()).collect();
        let (data, servers) = (self.dir(name), servers.join(","));
        let args = ["agent", "--data-dir", &data, "--node-name", name, "--mock-driver", "--containers=false"];
        let known = ["--servers", &servers];
        let known = if more.contains(&known[0]) { &[][..] } else { &known };
        let args = [&args[..], known, more].concat();
        self.agents.push(Daemon::start(&args, &self.path(&format!("told-{name}"))));
    }

    fn told(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("told-{name}"))).unwrap_or_default()
    }

    async fn until_told(&self, name: &str, words: &str) {
        eventually(&format!("{name} tells {words:?}"), async || {
            self.told(name).contains(words).then_some(())
        })
        .await;
    }

    async fn until_ready(&self, nodes: usize) {
        eventually(&format!("{nodes} nodes are ready"), async || {
            let found = self.json(&["node", "status", "-json"])?;
            let ready = found.as_array()?.iter().filter(|node| node["Status"] == "ready").count();
            (ready == nodes).then_some(())
        })
        .await;
    }

    /// A token with which one agent joins.
    fn token(&self, more: &[&str]) -> String {
        let output = self.berth(&[&["node", "token"], more].concat());
        succeed(&output);
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// The id of the only node.
    fn node(&self) -> String {
        let nodes = self.json(&["node", "status", "-json"]).expect("nodes");
        nodes[0]["ID"].as_str().expect("an id").to_owned()
    }

    /// The allocation of the job that runs.
    async fn running(&self) -> String {
        eventually("the job runs", async || {
            let target = Target::new("/v1/job/web/allocations");
            let found = self.client().get::<Vec<AllocationStub>>(&target).await.ok()?.value;
            found.into_iter().find(|alloc| alloc.client_status == "running").map(|alloc| alloc.id)
        })
        .await
    }

    fn run_job(&self) {
        let file = self.path("web.hcl");
        fs::write(&file, JOB).expect("it is written");
        succeed(&self.berth(&["job", "run", "-detach", &file.display().to_string()]));
    }
}

/// The ends of a connection that is open, of a line of the kernel's table.
fn established(line: &str) -> Option<(SocketAddr, SocketAddr)> {
    const ESTABLISHED: &str = "01";
    let fields: Vec<&str> = line.split_whitespace().collect();
    let end = |text: &str| {
        let (ip, port) = text.split_once(':')?;
        let ip = u32::from_str_radix(ip, 16).ok()?.to_le_bytes();
        Some(SocketAddr::from((ip, u16::from_str_radix(port, 16).ok()?)))
    };
    (*fields.get(3)? == ESTABLISHED).then_some(())?;
    Some((end(fields[1])?, end(fields[2])?))
}

fn succeed(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a command says that fails.
fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "it was done");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

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
    let said = refusal(
        &plain.env("BERTH_ADDR", format!("http://{}", cluster.servers[0].http)).output().expect("it runs"),
    );
    assert!(said.contains("this port speaks TLS"), "{said}");
    let mut stranger = cluster.command(&["server", "members"]);
    let said = refusal(&stranger.env_remove("BERTH_CACERT").output().expect("it runs"));
    assert!(said.contains("signed by none of the authorities"), "{said}");
}

/// What whoever comes from Nomad has in the environment.
#[tokio::test]
async fn nomads_names_of_settings_say_whom_to_believe_and_what_to_show() {
    let mut cluster = Cluster::new();
    cluster.start_server(&["--tls", "verify_https_client=true"]);
    cluster.certify("cli", "me", &[]);
    let (server, ca) = (format!("https://{}", cluster.servers[0].http), cluster.dir("s1/tls/ca.pem"));
    let (own, key) = (cluster.dir("me/cli.pem"), cluster.dir("me/cli-key.pem"));
    let all = [
        ("NOMAD_ADDR", &*server),
        ("NOMAD_CACERT", &*ca),
        ("NOMAD_CLIENT_CERT", &*own),
        ("NOMAD_CLIENT_KEY", &*key),
    ];
    // With these, but for those that are said otherwise; empty for nothing.
    let members = |otherwise: &[(&str, &str)]| {
        let mut command = berth(&["server", "members"]);
        for (name, value) in all.iter().chain(otherwise) {
            command.env(name, value);
        }
        command.stdin(Stdio::null()).output().expect("it runs")
    };
    succeed(&members(&[]));
    let refused = |otherwise: &[(&str, &str)], words: &str| {
        let said = refusal(&members(otherwise));
        assert!(said.contains(words), "{otherwise:?}: {said}");
    };
    refused(&[("NOMAD_CACERT", "")], "signed by none of the authorities");
    refused(&[("NOMAD_CLIENT_CERT", ""), ("NOMAD_CLIENT_KEY", "")], "without a certificate");
    refused(&[("NOMAD_CLIENT_KEY", "")], "add --client-key");
    // Berth's names come first.
    for name in ["BERTH_CACERT", "BERTH_CLIENT_CERT", "BERTH_CLIENT_KEY"] {
        refused(&[(name, "none.pem")], "none.pem");
    }
    // A name that is said must be the certificate's, whatever else makes it a server's.
    succeed(&members(&[("NOMAD_TLS_SERVER_NAME", "server.global.berth")]));
    refused(&[("NOMAD_TLS_SERVER_NAME", "server.eu.berth")], "server.eu.berth");
    refused(&[("NOMAD_TLS_SERVER_NAME", "a b")], "neither a name nor an address");
    refused(
        &[("BERTH_TLS_SERVER_NAME", "server.eu.berth"), ("NOMAD_TLS_SERVER_NAME", "server.global.berth")],
        "server.eu.berth",
    );
    succeed(&members(&[("NOMAD_CACERT", ""), ("NOMAD_SKIP_VERIFY", "true")]));
    succeed(&members(&[("NOMAD_TLS_SERVER_NAME", "server.eu.berth"), ("NOMAD_SKIP_VERIFY", "1")]));
    refused(&[("NOMAD_CACERT", ""), ("NOMAD_SKIP_VERIFY", "false")], "signed by none of the authorities");
    refused(
        &[("NOMAD_CACERT", ""), ("BERTH_SKIP_VERIFY", "0"), ("NOMAD_SKIP_VERIFY", "1")],
        "signed by none of the authorities",
    );
    refused(&[("NOMAD_SKIP_VERIFY", "perhaps")], "NOMAD_SKIP_VERIFY is \"perhaps\"");
    // Nor is a key that is not the certificate's good for anything where nothing is verified.
    refused(
        &[("NOMAD_SKIP_VERIFY", "1"), ("NOMAD_CLIENT_KEY", &cluster.dir("s1/tls/server-key.pem"))],
        "key",
    );
}

/// Where many are behind one address, the name in the greeting says who is meant.
#[test]
fn a_server_is_asked_for_by_the_name_that_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let address = format!("https://{}", listener.local_addr().expect("it listens"));
    for args in
        [&["server", "members"][..], &["alloc", "exec", "6f3a0000-0000-4000-8000-000000000000", "true"]]
    {
        let mut command = berth(args);
        command.env("NOMAD_ADDR", &address).env("NOMAD_TLS_SERVER_NAME", "inside.example");
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts");
        let (mut stream, _) = listener.accept().expect("it comes");
        let mut greeting = [0; 4096];
        let read = stream.read(&mut greeting).expect("it greets");
        assert!(greeting[..read].windows(14).any(|part| part == b"inside.example"), "{args:?}");
        drop(stream);
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
    }
}

#[tokio::test]
async fn who_has_no_business_with_the_servers_is_told_so() {
    let mut cluster = Cluster::new();
    cluster.start_server(&[]);
    // Without a certificate, with one of another cluster, with that of another node.
    cluster.start_agent("bare");
    cluster.until_told("bare", "it speaks TLS, and this agent has no certificate").await;
    let strangers = cluster.dir("strangers");
    succeed(&berth(&["server", "init", "--data-dir", &strangers]).output().expect("it runs"));
    let foreign = cluster.dir("foreign/tls");
    let made = berth(&["server", "cert", "agent", "--data-dir", &strangers, "--out", &foreign]).output();
    succeed(&made.expect("it runs"));
    cluster.start_agent("foreign");
    cluster.until_told("foreign", "signed by none of the authorities that this side believes").await;
    cluster.certify("agent", "other/tls", &["--node", "6f3a0000-0000-4000-8000-000000000000"]);
    cluster.start_agent("other");
    cluster.until_told("other", "it does not speak for node").await;
    // An agent's certificate makes no server, and a server's no agent.
    cluster.certify("agent", "posing", &[]);
    let file = |name: &str| cluster.path("posing").join(name).display().to_string();
    let tls = format!(
        "ca_file={},cert_file={},key_file={}",
        file("ca.pem"),
        file("agent.pem"),
        file("agent-key.pem")
    );
    let posing = cluster.dir("posing-data");
    let said = refusal(&cluster.berth(&["server", "--data-dir", &posing, "--tls", &tls]));
    assert!(said.contains("names the agent of any node of region global, and this is a server"), "{said}");
}

#[test]
fn a_server_is_not_open_to_the_network_without_tls_and_acls() {
    let home = Home::new();
    let data = home.path().join("data").display().to_string();
    let start = |more: &[&str]| {
        let args = [&["server", "--data-dir", &data, "--http-addr", "0.0.0.0:0"], more].concat();
        refusal(&berth(&args).output().expect("it runs"))
    };
    assert!(start(&[]).contains("without TLS and ACLs"));
    assert!(start(&["--acl"]).contains("without TLS\n"));
    assert!(start(&[]).contains("`berth server init` makes the certificates"));
    succeed(&berth(&["server", "init", "--data-dir", &data]).output().expect("it runs"));
    assert!(start(&[]).contains("without ACLs\n"));
    assert!(start(&["--acl", "--tls", "http=false"]).contains("without TLS\n"));
    let dev = berth(&["dev", "--http-addr", "0.0.0.0:0"]).output().expect("it runs");
    assert!(refusal(&dev).contains("`berth dev` is open to whoever reaches it"));
}

#[test]
fn init_makes_all_or_nothing_and_overwrites_nothing() {
    let home = Home::new();
    for millis in 0..30 {
        let data = home.path().join(format!("data-{millis}"));
        let init = || {
            let mut command = berth(&["server", "init", "--data-dir"]);
            command.arg(&data).stderr(Stdio::null());
            command
        };
        let mut child = init().spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(millis));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        let before = files(&data.join("tls"));
        let again = init().output().expect("it runs");
        if before.is_empty() {
            assert!(again.status.success(), "it goes on where nothing was done");
        } else {
            assert!(!again.status.success(), "it overwrites nothing");
            assert_eq!(before, files(&data.join("tls")));
        }
        assert_eq!(files(&data.join("tls")).len(), 4);
        let left: Vec<_> = fs::read_dir(&data).expect("it is there").flatten().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

/// The files of a directory, and what they hold; none where it is not there.
fn files(dir: &Path) -> Vec<(PathBuf, String)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| (entry.path(), fs::read_to_string(entry.path()).expect("text")))
        .collect();
    files.sort();
    files
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

#[tokio::test]
async fn certificates_change_under_a_session_that_goes_on() {
    let mut cluster = Cluster::new();
    cluster.start_server(&[]);
    cluster.certify("agent", "n1/tls", &[]);
    cluster.start_agent("n1");
    cluster.until_ready(1).await;
    cluster.run_job();
    let alloc = cluster.running().await;
    let connected = |told: &str| told.matches("connected server").count();
    let before = connected(&cluster.told("n1"));

    // A mistake in the new files leaves the old ones in use.
    let tls = cluster.path("s1/tls");
    let certificate = fs::read(tls.join("server.pem")).expect("it is there");
    fs::write(tls.join("server.pem"), "nothing").expect("it is written");
    cluster.servers[0].daemon.signal(Signal::HUP);
    cluster.until_told("s1", "server.pem: it holds no certificate in PEM").await;
    assert!(cluster.json(&["node", "status", "-json"]).is_some());

    fs::write(tls.join("server.pem"), certificate).expect("it is written");
    cluster.certify("server", "renewed", &["--server-name", "s1", "--host", "renewed.example.com"]);
    for name in ["server.pem", "server-key.pem"] {
        fs::copy(cluster.path("renewed").join(name), tls.join(name)).expect("it is copied");
    }
    cluster.servers[0].daemon.signal(Signal::HUP);
    cluster.until_told("s1", "certificates were read anew").await;
    assert!(cluster.json(&["node", "status", "-json"]).is_some(), "who comes now believes the new one");
    assert_eq!(cluster.running().await, alloc);
    assert_eq!(connected(&cluster.told("n1")), before, "the session went on");
}

#[tokio::test]
async fn an_agent_joins_with_a_token_once_and_renews_its_certificate() {
    let mut cluster = Cluster::new();
    cluster.start_server(&["--tls", "agent_certificate_ttl=6s"]);
    let token = cluster.token(&[]);
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_told("n1", "the agent has joined").await;
    cluster.until_ready(1).await;
    // The token was for that one; nobody else gets in with it, and what is no token is said so.
    cluster.start_agent_with("n2", &["--join", &token]);
    cluster.until_told("n2", "has joined with it").await;
    let bad = berth(&["agent", "--data-dir", &cluster.dir("bad"), "--join", "berth-join-1-x"]).output();
    assert!(refusal(&bad.expect("it runs")).contains("it is no join token"));
    // It renews by itself, with no new session long after the first certificate has expired, and comes back without the token.
    eventually("it has renewed again and again", async || {
        (cluster.told("n1").matches("the certificate was renewed").count() >= 4).then_some(())
    })
    .await;
    assert_eq!(cluster.told("n1").matches("connected server").count(), 1);
    cluster.agents[0].kill();
    cluster.start_agent("n1");
    eventually("it is connected again", async || {
        (cluster.told("n1").matches("connected server").count() == 2).then_some(())
    })
    .await;
    cluster.until_ready(1).await;
    // Away for longer than its certificate lasts, it needs another token, which names it.
    cluster.agents.last_mut().expect("it runs").kill();
    let files = cluster.path("n1/agent/tls");
    eventually("its certificate has expired", async || {
        let said = cluster.path("expired.log");
        let mut command =
            cluster.command(&["agent", "--data-dir", &cluster.dir("n1"), "--servers", "127.0.0.1:1"]);
        let log = fs::File::create(&said).expect("a file");
        let mut child = command.stderr(log).spawn().expect("it starts");
        // What it finds is said at its start, which takes as long as the machine is busy.
        let mut expired = false;
        for _ in 0..50 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            expired = fs::read_to_string(&said).is_ok_and(|said| said.contains("berth node token -node"));
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
        (cluster.told("n1").matches("connected server").count() == 3).then_some(())
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
    cluster.until_told("n1", "disconnected").await;
    cluster.until_told("n1", "was revoked").await;
    // Neither its certificate nor the token it had gets it back in.
    let before = cluster.told("n1").len();
    cluster.agents[0].kill();
    cluster.start_agent_with("n1", &["--join", &token]);
    eventually("it is turned away again", async || {
        cluster.told("n1")[before..].contains("was revoked").then_some(())
    })
    .await;
    cluster.agents.last_mut().expect("it runs").kill();
    let again = cluster.token(&["--node", &node]);
    cluster.start_agent_with("n1", &["--join", &again]);
    eventually("it has joined again", async || {
        let now = cluster.told("n1");
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
    cluster.until_told("n1", "was revoked").await;
    let nodes = cluster.json(&["node", "status", "-json"]).expect("a list");
    assert_eq!(nodes.as_array().map(Vec::len), Some(0), "{nodes}");
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
    let renewed = || cluster.told("n1").matches("the certificate was renewed").count();
    let before = renewed();
    eventually("its certificate is of the new one", async || (renewed() >= before + 2).then_some(())).await;
    fs::write(tls.join("ca.pem"), &new_ca).expect("it is written");
    cluster.servers[0].daemon.signal(Signal::HUP);
    believes(&new_ca).await;
    assert_eq!(cluster.told("n1").matches("connected server").count(), 1, "the session went on");
    cluster.until_ready(1).await;
}

/// A cut is promised within a second; the machine of the test may be busy.
const CUT_MAX: Duration = Duration::from_secs(5);

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
    let told = cluster.asking(other, &["server", "revoke", "-yes", &name]);
    succeed(&told);
    let cut = cluster.cut_after(&before, revoked, begun);
    println!("cut after {cut:?}, with the command that asked for it");
    assert!(cut < CUT_MAX, "{cut:?}");
    let said = String::from_utf8_lossy(&told.stderr).into_owned() + &String::from_utf8_lossy(&told.stdout);
    assert!(said.contains("replace the authority, too") && !said.contains("warning"), "{said}");
    cluster.until_told(&name, "the certificate of this server was revoked").await;
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
    let since = cluster.told(&name).len();
    cluster.start_again(revoked);
    eventually("it is told so", async || {
        cluster.told(&name)[since..].contains("or that it was revoked").then_some(())
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
    cluster.until_told("n1", &format!("the certificates of server {name} were revoked")).await;
    eventually("the agent is with another", async || {
        let told = cluster.told("n1");
        let last = told.lines().rev().find(|line| line.contains("connected server"))?;
        (!last.contains(&first)).then_some(())
    })
    .await;
    // What it has learned is on its disk.
    cluster.agents[0].kill();
    let since = cluster.told("n1").len();
    cluster.start_agent_with("n1", &["--servers", &first]);
    eventually("it does not believe the first after a restart either", async || {
        let told = &cluster.told("n1")[since..];
        (told.contains(&format!("the certificates of server {name} were revoked"))
            && told.contains("connected server"))
        .then_some(())
    })
    .await;
    cluster.renew(leader);
    eventually("the server is one of them again", async || {
        cluster.asking(leader, &["namespace", "apply", "back"]).status.success().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_certificate_speaks_for_the_server_that_it_names_alone() {
    let mut cluster = Cluster::new();
    let said = refusal(&cluster.berth(&[
        "server",
        "cert",
        "server",
        "--data-dir",
        &cluster.dir("s1"),
        "--out",
        &cluster.dir("x"),
    ]));
    assert!(said.contains("give its --server-name") && said.contains("uname -n"), "{said}");
    let said = refusal(&cluster.berth(&[
        "server",
        "--server-name",
        "s9",
        "--http-addr",
        "127.0.0.1:0",
        "--agent-addr",
        "127.0.0.1:0",
        "--data-dir",
        &cluster.dir("s1"),
    ]));
    assert!(said.contains("it names server s1 of region global, and this is server s9"), "{said}");
    cluster.start_server(&[]);
    let said = refusal(&cluster.berth(&["server", "revoke", "-yes", "s1"]));
    assert!(said.contains("1 of 1 voters are needed and none would be left"), "{said}");
    let told = cluster.berth(&["server", "revoke", "-yes", "S9.example"]);
    succeed(&told);
    let said = String::from_utf8_lossy(&told.stderr).into_owned() + &String::from_utf8_lossy(&told.stdout);
    assert!(said.contains("no server of this cluster is called s9.example"), "{said}");
    // The only server goes on with a new one, and its agents with it.
    let token = cluster.token(&[]);
    cluster.start_agent_with("n1", &["--join", &token]);
    cluster.until_ready(1).await;
    succeed(&cluster.berth(&["server", "revoke", "-yes", "-force", "s1"]));
    cluster.until_told("n1", "the certificates of server s1 were revoked").await;
    let since = cluster.told("n1").len();
    cluster.renew(1);
    cluster.until_told("s1", "this server has a certificate again that was not revoked").await;
    eventually("the agent believes it again", async || {
        cluster.told("n1")[since..].contains("connected server").then_some(())
    })
    .await;
}
