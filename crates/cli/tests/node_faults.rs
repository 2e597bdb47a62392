//! Nodes under every fault that a node can have, while jobs are registered, scaled, changed, stopped and purged: afterwards each
//! allocation that should run has one process, no other process of theirs is left, and batch work was started once.
//!
//! `BERTH_TEST_ROUNDS` says how many rounds there are, `BERTH_TEST_SEED` which faults and changes they have.

mod e2e;
#[path = "node_faults/fault.rs"]
mod fault;
#[path = "node_faults/jobs.rs"]
mod jobs;

use std::{collections::BTreeMap, time::Duration};

use e2e::{nodes::Nodes, proxy::Links, servers::Servers, small_disk::SmallDisk};
use fault::{Fault, KINDS};
use jobs::Jobs;

/// The nodes, by their numbers.
const NODES: [u8; 3] = [1, 2, 3];
/// As many as there are faults: each of them once.
const ROUNDS: usize = KINDS.len();
/// What a link calls the agent and the server at its ends.
const AGENT: u8 = 1;
const SERVER: u8 = 2;
/// Longest fault of the short form and of the long one. A silent node is declared down after 10 s or more.
const LASTS_MAX: Duration = Duration::from_secs(4);
const LASTS_MAX_LONG: Duration = Duration::from_secs(25);
/// Between two changes of jobs during a fault.
const CHANGE_EVERY: Duration = Duration::from_millis(700);

/// Numbers that follow from a seed (xorshift).
pub struct Draw(u64);

impl Draw {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// One below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % end as u64).expect("below a usize")
    }

    /// One of these.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// A server, its nodes, each on a link and where possible a disk of its own, and their jobs.
pub struct Cluster {
    servers: Servers,
    nodes: Nodes,
    links: BTreeMap<u8, Links>,
    /// None where nothing may be mounted.
    disks: BTreeMap<u8, SmallDisk>,
    addresses: BTreeMap<u8, std::net::SocketAddr>,
}

impl Cluster {
    async fn start() -> Self {
        let servers = Servers::start(1).await;
        let nodes = Nodes::none();
        let mut cluster = Self {
            links: BTreeMap::new(),
            disks: BTreeMap::new(),
            addresses: BTreeMap::new(),
            servers,
            nodes,
        };
        for number in NODES {
            let links = Links::default();
            let address = links.proxy(SERVER, cluster.servers.all[&1].agent_addr()).await;
            cluster.links.insert(number, links);
            cluster.addresses.insert(number, address);
            if let Some(disk) = SmallDisk::mount(&cluster.nodes.path(&format!("node-{number}"))) {
                cluster.disks.insert(number, disk);
            }
            cluster.start_agent(number);
        }
        cluster.until_ready().await;
        cluster
    }

    fn start_agent(&mut self, number: u8) {
        self.nodes.start_at(number, &[self.addresses[&number]], &self.servers, &[]);
    }

    fn client(&self) -> &berth_api::http::Client {
        &self.servers.all[&1].client
    }

    async fn until_ready(&self) {
        self.nodes.until_ready(self.client(), NODES.len()).await;
    }
}

impl Drop for Cluster {
    /// Agents that hold their disks end before these are taken away.
    fn drop(&mut self) {
        self.nodes = Nodes::none();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jobs_and_processes_agree_after_every_fault_of_nodes() {
    let rounds = number_from("BERTH_TEST_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    let seed = number_from("BERTH_TEST_SEED").unwrap_or(1);
    let longest = if rounds > ROUNDS { LASTS_MAX_LONG } else { LASTS_MAX };
    let mut draw = Draw::new(seed);
    let mut cluster = Cluster::start().await;
    let mut jobs = Jobs::default();
    for _ in 0..3 {
        jobs.change(&mut draw, &cluster).await;
    }
    jobs.check(&cluster).await;
    for round in 0..rounds {
        let first = draw.below(NODES.len());
        let mut faults = vec![Fault { node: NODES[first], kind: KINDS[round % KINDS.len()] }];
        if draw.below(2) == 0 {
            // Never all nodes: work can go somewhere.
            faults.push(Fault { node: NODES[(first + 1) % NODES.len()], kind: draw.one_of(&KINDS) });
        }
        let lasts = Duration::from_millis(500 + draw.below(longest.as_millis() as usize) as u64);
        println!("seed {seed}, round {round}: for {lasts:?} {faults:?}");
        for fault in &faults {
            fault.begin(&mut cluster);
        }
        let end = tokio::time::Instant::now() + lasts;
        while tokio::time::Instant::now() < end {
            jobs.change(&mut draw, &cluster).await;
            jobs.check_at_most_one_process_each(&cluster);
            tokio::time::sleep(CHANGE_EVERY).await;
        }
        for fault in &faults {
            fault.end(&mut cluster);
        }
        cluster.until_ready().await;
        jobs.check(&cluster).await;
    }
    println!("seed {seed}: {rounds} rounds, {jobs}");
    jobs.stop_all(&cluster).await;
}
