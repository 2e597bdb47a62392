//! Several servers, each a real process at a loopback address of its own.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use berth_api::http::{AgentMembers, ApiError, Client, JobRegistered, RaftConfiguration, Target};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    Daemon, berth, berth_at, client, eventually, faulty_disk::FaultyDisk, free_port, home::Home,
    proxy::Links, stepped_clock::SteppedClock,
};

/// A cluster of servers, numbered from 1. They end when this is dropped.
pub struct Servers {
    pub all: BTreeMap<u8, Server>,
    /// What lies between them.
    pub links: Links,
    /// The build that servers are started of from now on.
    pub program: PathBuf,
    home: Home,
}

/// One of them.
pub struct Server {
    number: u8,
    pub name: String,
    http: SocketAddr,
    agent: SocketAddr,
    server: SocketAddr,
    /// Where others reach it.
    advertised: SocketAddr,
    data: PathBuf,
    log: PathBuf,
    program: PathBuf,
    daemon: Option<Daemon>,
    /// By which its processes go.
    pub clock: SteppedClock,
    /// Set to have its next process use a disk that can be made slow, or at which it dies.
    pub disk: Option<FaultyDisk>,
    /// Where its next process panics: as `BERTH_FAILPOINTS` has it.
    pub failpoints: Option<String>,
    pub client: Client,
}

impl Servers {
    /// None yet.
    pub fn none() -> Self {
        let home = Home::new();
        let program = PathBuf::from(env!("CARGO_BIN_EXE_berth"));
        Self { all: BTreeMap::new(), links: Links::default(), program, home }
    }

    /// The first founds a cluster, the others join it, until all vote.
    pub async fn start(count: u8) -> Self {
        let mut servers = Self::none();
        for number in 1..=count {
            servers.add(number).await;
        }
        servers.until_all_vote().await;
        servers
    }

    /// Adds a server that joins those that are there, or founds a cluster.
    pub async fn add(&mut self, number: u8) {
        self.add_with(number, &[]).await;
    }

    /// The same, with flags.
    pub async fn add_with(&mut self, number: u8, more: &[String]) {
        let join = join_flag(&self.addresses());
        let server = self.make(number).await;
        self.all.insert(number, server);
        self.run(number, &[&join, more].concat());
    }

    /// Where those that are there are reached.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.all.values().map(|server| server.advertised).collect()
    }

    /// A server that is not started yet.
    pub async fn make(&self, number: u8) -> Server {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, number], port));
        let [http, agent, server] = [(); 3].map(|()| address(free_port()));
        let advertised = self.links.proxy(number, server).await;
        Server {
            number,
            name: format!("s{number}"),
            http,
            agent,
            server,
            advertised,
            data: self.data(number),
            log: self.home.path().join(format!("stderr-{number}")),
            program: self.program.clone(),
            daemon: None,
            clock: SteppedClock::new(&self.home.path().join(format!("clock-{number}"))),
            disk: None,
            failpoints: None,
            client: client(&http.to_string()),
        }
    }

    /// The data directory of a server, made or not.
    pub fn data(&self, number: u8) -> PathBuf {
        self.home.path().join(format!("data-{number}"))
    }

    /// Starts a server, or starts it again.
    pub fn run(&mut self, number: u8, more: &[String]) {
        let server = self.all.get_mut(&number).expect("it was made");
        server.program.clone_from(&self.program);
        server.run(more);
    }

    /// Starts a server again, now with a disk that can be made slow, or at which it dies.
    pub fn run_on_faulty_disk(&mut self, number: u8) -> FaultyDisk {
        let disk = FaultyDisk::new(&self.home.path().join(format!("disk-{number}")));
        self.all.get_mut(&number).expect("it was made").disk = Some(disk.clone());
        self.run(number, &[]);
        disk
    }

    /// Starts three servers whose disks can be made slow or fail, or at which they die: each with its disk, from that of number 1 on.
    pub async fn start_on_faulty_disks() -> (Self, Vec<FaultyDisk>) {
        let mut servers = Self::start(3).await;
        let on_another = |number| {
            servers.stop(number);
            servers.run_on_faulty_disk(number)
        };
        let disks = [1, 2, 3].map(on_another).into();
        servers.until_all_vote().await;
        (servers, disks)
    }

    /// Starts a server that does not come up, and returns its log.
    pub fn fails_to_run(&mut self, number: u8) -> String {
        self.fails_to_run_with(number, &[])
    }

    /// The same, with flags.
    pub fn fails_to_run_with(&mut self, number: u8, more: &[String]) -> String {
        let server = self.all.get_mut(&number).expect("it was made");
        server.program.clone_from(&self.program);
        let before = server.log_bytes();
        let status = server.command(more).stderr(server.log_file()).status().expect("berth starts");
        assert!(!status.success(), "server {number} runs");
        server.log_since(before)
    }

    /// Waits until a server has ended by itself, and returns its log.
    pub async fn ends(&mut self, number: u8) -> String {
        let server = self.all.get_mut(&number).expect("it was made");
        let daemon = server.daemon.as_mut().expect("it runs");
        eventually(&format!("server {number} ends"), async || daemon.has_ended().then_some(())).await;
        server.daemon = None;
        server.log_since(0)
    }

    /// The log of all runs of a server.
    pub fn log(&self, number: u8) -> String {
        self.all[&number].log_since(0)
    }

    /// A file with this text, at the path that is returned.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.home.path().join(name);
        std::fs::write(&path, text).expect("it may be written");
        path.display().to_string()
    }

    /// Kills a server, as a machine that loses its power does.
    pub fn kill(&mut self, number: u8) {
        self.all.get_mut(&number).and_then(|server| server.daemon.take()).expect("it runs").kill();
    }

    /// Asks a server to stop, and waits.
    pub fn stop(&mut self, number: u8) {
        self.all.get_mut(&number).and_then(|server| server.daemon.take()).expect("it runs").stop();
    }

    /// Stops its threads, or lets them go on.
    pub fn signal(&self, number: u8, signal: Signal) {
        let daemon = self.all[&number].daemon.as_ref().expect("it runs");
        let pid = Pid::from_raw(daemon.pid().cast_signed()).expect("a process");
        kill_process(pid, signal).expect("it is ours");
    }

    /// The numbers of those that run.
    pub fn running(&self) -> Vec<u8> {
        self.all.values().filter(|server| server.daemon.is_some()).map(|server| server.number).collect()
    }

    /// Waits until all that run vote, and all agree who they are, and go on doing so: a change of who votes has two records,
    /// and between them the majority of before is needed as well.
    pub async fn until_all_vote(&self) {
        self.see_all_vote().await;
        eventually("no change of the servers is under way", async || {
            let before = self.configured_at().await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            let all = self.configured_at().await;
            (all == before && all.windows(2).all(|pair| pair[0] == pair[1])).then_some(())
        })
        .await;
    }

    /// Where each server has read who takes part.
    async fn configured_at(&self) -> Vec<Option<u64>> {
        let mut all = Vec::new();
        for number in self.running() {
            all.push(self.all[&number].configuration().await.map(|found| found.index));
        }
        all
    }

    async fn see_all_vote(&self) {
        let wanted = self.running().len();
        for number in self.running() {
            let server = &self.all[&number];
            eventually(&format!("server {number} sees {wanted} voters"), async || {
                let found = server.configuration().await?;
                let voters = found.servers.iter().filter(|server| server.voter).count();
                (found.servers.len() == wanted && voters == wanted && found.servers.iter().any(|s| s.leader))
                    .then_some(())
            })
            .await;
        }
    }

    /// The number of the one that leads, as the others of `among` see it.
    pub async fn leader(&self, among: &[u8]) -> u8 {
        eventually("a server leads", async || {
            let mut named = Vec::new();
            for number in among {
                let found: String =
                    self.all[number].client.get(&Target::new("/v1/status/leader")).await.ok()?.value;
                named.push(self.all.values().find(|server| server.agent.to_string() == found)?.number);
            }
            named.dedup();
            let leader = *named.first()?;
            (named.len() == 1 && among.contains(&leader)).then_some(leader)
        })
        .await
    }

    /// Those of `numbers` that do not lead.
    pub async fn followers(&self, numbers: &[u8]) -> Vec<u8> {
        let leader = self.leader(numbers).await;
        numbers.iter().copied().filter(|number| *number != leader).collect()
    }
}

/// The flag that names servers to join, if there are any.
pub fn join_flag(addresses: &[SocketAddr]) -> Vec<String> {
    let addresses: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    if addresses.is_empty() { Vec::new() } else { vec![format!("--join={}", addresses.join(","))] }
}

impl Server {
    fn command(&self, more: &[String]) -> Command {
        let args = [
            "server".to_owned(),
            format!("--http-addr={}", self.http),
            format!("--agent-addr={}", self.agent),
            format!("--server-addr={}", self.server),
            format!("--server-advertise={}", self.advertised),
            format!("--server-name={}", self.name),
            format!("--data-dir={}", self.data.display()),
        ];
        let args: Vec<&str> = args.iter().chain(more).map(String::as_str).collect();
        let mut command = berth_at(&self.program, &args);
        self.clock.put_into(&mut command);
        if let Some(disk) = &self.disk {
            disk.put_into(&mut command);
        }
        if let Some(failpoints) = &self.failpoints {
            command.env("BERTH_FAILPOINTS", failpoints);
        }
        command
    }

    fn run(&mut self, more: &[String]) {
        let mut daemon = Daemon::spawn(self.command(more), &self.log);
        daemon.ready_line();
        self.daemon = Some(daemon);
    }

    fn log_file(&self) -> File {
        File::options().create(true).append(true).open(&self.log).expect("a file for its log")
    }

    fn log_bytes(&self) -> usize {
        self.log_since(0).len()
    }

    fn log_since(&self, bytes: usize) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default().split_off(bytes)
    }

    /// Where others reach it.
    pub fn advertised(&self) -> SocketAddr {
        self.advertised
    }

    /// Flips bits in the middle of what a file of its data directory holds.
    pub fn damage(&self, name: &str) {
        let path = self.data.join("server").join(name);
        let mut bytes = std::fs::read(&path).expect("it is there");
        let end = bytes.iter().rposition(|byte| *byte != 0).expect("something is in it");
        bytes[end / 2] ^= 0x10;
        std::fs::write(&path, bytes).expect("it may be written");
    }

    /// Runs a command that asks it.
    pub fn online(&self, args: &[&str]) -> Output {
        berth(args).env("BERTH_ADDR", self.http.to_string()).output().expect("it runs")
    }

    /// Runs a command on its data directory.
    pub fn offline(&self, args: &[&str]) -> Output {
        berth(args).arg("--data-dir").arg(&self.data).output().expect("it runs")
    }

    /// A command that talks to it.
    pub fn berth(&self, args: &[&str]) -> Command {
        let mut command = berth(args);
        command.env("BERTH_ADDR", self.http.to_string());
        command
    }

    /// What a command that talks to it prints; it must succeed.
    pub fn stdout_of(&self, args: &[&str]) -> String {
        let output = self.berth(args).stdin(Stdio::null()).output().expect("it runs");
        assert!(output.status.success(), "berth {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Who takes part, as it knows it.
    pub async fn configuration(&self) -> Option<RaftConfiguration> {
        Some(self.client.get(&Target::new("/v1/operator/raft/configuration")).await.ok()?.value)
    }

    /// The servers, as it knows them.
    pub async fn members(&self) -> AgentMembers {
        self.client.get(&Target::new("/v1/agent/members")).await.expect("it answers").value
    }

    /// Where clients connect.
    pub fn http_addr(&self) -> SocketAddr {
        self.http
    }

    /// What it answers to a plain request, head and all.
    pub fn answer(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.http).expect("it listens");
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.http);
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers with text");
        answer
    }

    /// Where agents connect.
    pub fn agent_addr(&self) -> SocketAddr {
        self.agent
    }

    /// Registers a job that wants nothing, once.
    pub async fn register(&self, id: &str) -> Result<JobRegistered, ApiError> {
        let job = json!({"ID": id, "Name": id, "Type": "service", "TaskGroups": [{
            "Name": "group", "Count": 0, "Tasks": [{"Name": "task", "Driver": "mock_driver"}],
        }]});
        Ok(self.client.put(&Target::new("/v1/jobs"), &json!({ "Job": job })).await?.value)
    }

    /// Whether it knows a job; default reads are linearizable.
    pub async fn knows(&self, id: &str) -> Result<bool, ApiError> {
        match self.client.get::<Value>(&Target::new("/v1/job").part(id)).await {
            Ok(_) => Ok(true),
            Err(error) if error.status() == Some(404) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Lets another server lead.
    pub async fn transfer(&self, to: u8) -> Result<(), ApiError> {
        let target = Target::new("/v1/operator/raft/transfer-leadership").param("id", format!("s{to}"));
        self.client.put::<Value>(&target, &json!({})).await.map(drop)
    }

    /// Takes a server out.
    pub async fn remove(&self, id: &str) -> Result<(), ApiError> {
        let target = Target::new("/v1/operator/raft/peer").param("id", id);
        self.client.delete::<Value>(&target).await.map(drop)
    }
}
