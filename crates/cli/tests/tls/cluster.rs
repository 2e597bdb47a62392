//! A cluster with a certificate authority of its own: real processes with encrypted connections.

use std::{
    collections::BTreeSet,
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use berth_api::http::{AllocationStub, Client, Target};
use berth_tls::{ClientFiles, ClientTls};
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    PATIENCE,
    e2e::{Daemon, berth, eventually, free_port, home::Home},
};

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
pub struct Cluster {
    pub servers: Vec<Server>,
    pub agents: Vec<Daemon>,
    pub home: Home,
}

pub struct Server {
    pub daemon: Daemon,
    pub args: Vec<String>,
    pub http: SocketAddr,
    pub agent: SocketAddr,
    pub server: SocketAddr,
}

impl Cluster {
    /// An authority, and the certificate of the first server.
    pub fn new() -> Self {
        let home = Home::new();
        let cluster = Self { servers: Vec::new(), agents: Vec::new(), home };
        succeed(&cluster.berth(&["server", "init", "--server-name", "s1", "--data-dir", &cluster.dir("s1")]));
        cluster
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    pub fn dir(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// A command that believes the authority and asks the first server, if there is one.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = berth(args);
        command.env("BERTH_CACERT", self.path("s1/tls/ca.pem")).stdin(Stdio::null());
        if let Some(server) = self.servers.first() {
            command.env("BERTH_ADDR", format!("https://{}", server.http));
        }
        command
    }

    pub fn berth(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("it runs")
    }

    /// A client that believes the authority, and asks the first server.
    pub fn client(&self) -> Client {
        self.client_of(&format!("https://{}", self.servers[0].http))
    }

    pub fn client_of(&self, address: &str) -> Client {
        let address = address.parse().expect("an address");
        let tls =
            ClientTls::load(&ClientFiles { ca: Some(&self.path("s1/tls/ca.pem")), ..ClientFiles::default() })
                .expect("it is read");
        Client::with_tls(address, tls)
    }

    pub fn json(&self, args: &[&str]) -> Option<Value> {
        let output = self.berth(args);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
    }

    /// Makes a certificate with the first server's authority.
    pub fn certify(&self, role: &str, out: &str, more: &[&str]) {
        let (from, out) = (self.dir("s1"), self.dir(out));
        let args = [&["server", "cert", role, "--data-dir", &from, "--out", &out], more].concat();
        succeed(&self.berth(&args));
    }

    /// Starts a server; all but the first get their certificates from the first, and join it.
    pub fn start_server(&mut self, more: &[&str]) {
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
        let mut daemon = Daemon::start(&args, &self.path(&format!("stderr-{name}")));
        let ready = daemon.ready_line();
        assert!(ready.contains(&format!("https://{http}")), "{ready}");
        let args = args.into_iter().map(str::to_owned).collect();
        self.servers.push(Server { daemon, args, http, agent, server });
    }

    /// Starts a server again that has ended.
    pub fn start_again(&mut self, number: usize) {
        let log = self.path(&format!("stderr-s{number}"));
        let server = &mut self.servers[number - 1];
        let args: Vec<&str> = server.args.iter().map(String::as_str).collect();
        server.daemon = Daemon::start(&args, &log);
        server.daemon.ready_line();
    }

    /// Starts three servers, and waits until they vote.
    pub async fn start_three(&mut self) {
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
    pub fn asking(&self, number: usize, args: &[&str]) -> Output {
        let address = format!("https://{}", self.servers[number - 1].http);
        self.command(args).env("BERTH_ADDR", address).output().expect("it runs")
    }

    /// The number of the server that leads, as one of them says.
    pub async fn leader(&self, asked: usize) -> usize {
        eventually("a server leads", async || {
            let output = self.asking(asked, &["server", "members", "-json"]);
            let members: Value = serde_json::from_slice(&output.stdout).ok()?;
            let leader = members.as_array()?.iter().find(|member| member["Leader"] == true)?;
            leader["Name"].as_str()?.strip_prefix('s')?.split('.').next()?.parse().ok()
        })
        .await
    }

    /// Puts a new certificate in the place of a server's, and has it read that.
    pub fn renew(&self, number: usize) {
        let (name, new) = (format!("s{number}"), format!("new-{number}"));
        self.certify("server", &new, &["--server-name", &name]);
        for file in ["server.pem", "server-key.pem"] {
            let to = self.path(&name).join("tls").join(file);
            fs::copy(self.path(&new).join(file), to).expect("it is copied");
        }
        self.servers[number - 1].daemon.signal(Signal::HUP);
    }

    /// The connections between a server and the others that are open, by the ports of both ends.
    pub fn connections(&self, number: usize) -> BTreeSet<(SocketAddr, SocketAddr)> {
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
    pub fn cut_after(
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
    pub fn start_agent(&mut self, name: &str) {
        self.start_agent_with(name, &[]);
    }

    /// The same with further arguments; with other servers, if they say so.
    pub fn start_agent_with(&mut self, name: &str, more: &[&str]) {
        let servers: Vec<String> = self.servers.iter().map(|server| server.agent.to_string()).collect();
        let (data, servers) = (self.dir(name), servers.join(","));
        let args = ["agent", "--data-dir", &data, "--node-name", name, "--mock-driver", "--containers=false"];
        let known = ["--servers", &servers];
        let known = if more.contains(&known[0]) { &[][..] } else { &known };
        let args = [&args[..], known, more].concat();
        self.agents.push(Daemon::start(&args, &self.path(&format!("stderr-{name}"))));
    }

    pub fn log(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("stderr-{name}"))).unwrap_or_default()
    }

    pub async fn until_logged(&self, name: &str, words: &str) {
        eventually(&format!("{name} tells {words:?}"), async || self.log(name).contains(words).then_some(()))
            .await;
    }

    pub async fn until_ready(&self, nodes: usize) {
        eventually(&format!("{nodes} nodes are ready"), async || {
            let found = self.json(&["node", "status", "-json"])?;
            let ready = found.as_array()?.iter().filter(|node| node["Status"] == "ready").count();
            (ready == nodes).then_some(())
        })
        .await;
    }

    /// A token with which one agent joins.
    pub fn token(&self, more: &[&str]) -> String {
        let output = self.berth(&[&["node", "token"], more].concat());
        succeed(&output);
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    /// The id of the only node.
    pub fn node(&self) -> String {
        let nodes = self.json(&["node", "status", "-json"]).expect("nodes");
        nodes[0]["ID"].as_str().expect("an id").to_owned()
    }

    /// The allocation of the job that runs.
    pub async fn running(&self) -> String {
        eventually("the job runs", async || {
            let target = Target::new("/v1/job/web/allocations");
            let found = self.client().get::<Vec<AllocationStub>>(&target).await.ok()?.value;
            found.into_iter().find(|alloc| alloc.client_status == "running").map(|alloc| alloc.id)
        })
        .await
    }

    pub fn run_job(&self) {
        let file = self.path("web.hcl");
        fs::write(&file, JOB).expect("it is written");
        succeed(&self.berth(&["job", "run", "-detach", &file.display().to_string()]));
    }
}

/// The ends of a connection that is open, of a line of the kernel's table.
pub fn established(line: &str) -> Option<(SocketAddr, SocketAddr)> {
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

pub fn succeed(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What a command says that fails.
pub fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "it was done");
    String::from_utf8_lossy(&output.stderr).into_owned()
}
