//! Starts a server within its cluster: its id, whether it founds, joins or continues a cluster, and its background tasks.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use berth_replication::{
    Config, Observer, Peer, Replication, SEGMENT_BYTES, Start, disk::RealDisk, peer::Peers, server_id,
};
use tokio::{sync::watch, task::JoinHandle};

use super::{Cluster, Founding, Relay, Requests, founding, join, rejoin, upkeep};
use crate::{
    peers::{PeerCertificates, TcpDial},
    server::{ServerConfig, StartError},
};

/// The id of a server that founds a cluster alone.
const FOUNDER: u64 = 1;
/// Ids are numbers that JSON holds exactly.
const ID_MAX: u64 = (1 << 53) - 1;

/// What a server needs to join or found its cluster, before its log is open.
pub(crate) struct Bootstrap {
    pub peers: Peers,
    requests: Arc<Requests>,
    own: Peer,
    start: Start,
    /// Addresses of servers to join.
    join: Vec<String>,
    data_dir: PathBuf,
    founding: Option<Arc<Founding>>,
}

impl Bootstrap {
    /// Finds out who this server is; `addrs` are those of HTTP, of agents and of servers. Messages of servers go to `relay`.
    ///
    /// # Errors
    /// When its data directory does not say, or settings contradict each other.
    pub fn new(
        config: &ServerConfig,
        addrs: [SocketAddr; 3],
        relay: Arc<Relay>,
        certificates: Arc<PeerCertificates>,
    ) -> Result<Self, StartError> {
        let data_dir = config.data_dir.join("server");
        let stored_id = server_id(&RealDisk, &data_dir)?;
        let rejoins = rejoin::requested(&config.data_dir)
            .map_err(|error| StartError::Failed(format!("read which servers to join again: {error}")))?;
        let founds_with_others = config.bootstrap_expect > 1 && rejoins.is_none();
        let join: Vec<String> = config.join.iter().cloned().chain(rejoins.into_iter().flatten()).collect();
        let start = if founds_with_others || !join.is_empty() { Start::Wait } else { Start::Found };
        let id = stored_id.unwrap_or_else(|| if start == Start::Found { FOUNDER } else { random_id() });
        let [http, agent, server] = addrs.map(|address| address.to_string());
        let address = config.server_advertise.clone().unwrap_or(server);
        let own = Peer { address, name: config.name.clone(), http, agent };
        let requests = Arc::new(Requests::new(relay));
        let dial = Arc::new(TcpDial { from: addrs[2].ip(), certificates });
        let peers = Peers::knowing(id, dial, requests.clone(), config.log_version);
        let founding = founds_with_others.then(|| Founding::new(config.bootstrap_expect, id, own.clone()));
        Ok(Self { peers, requests, own, start, join, data_dir, founding })
    }

    /// Opens the replicated log as a member of the cluster.
    pub async fn open(
        &self,
        config: &ServerConfig,
        observer: Arc<dyn Observer>,
    ) -> Result<Replication, StartError> {
        let (server_id, entries) = (self.peers.server(), config.log_version);
        let config = Config { server_id, entries, ..Config::new(&self.data_dir, "berth") };
        let cluster = berth_replication::ClusterConfig {
            peers: self.peers.clone(),
            own: self.own.clone(),
            start: self.start,
        };
        Ok(Replication::open_in(Arc::new(RealDisk), SEGMENT_BYTES, config, observer, cluster).await?)
    }

    /// Begins to answer other servers, and to do what a server does for its cluster.
    pub fn begin(self, cluster: &Arc<Cluster>, stop: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
        self.requests.begin(cluster.clone(), self.founding.clone());
        let mut tasks = vec![tokio::spawn(upkeep::maintain(cluster.clone(), stop.clone()))];
        if let Some(founding) = self.founding.filter(|_| !cluster.belongs()) {
            tasks.push(tokio::spawn(founding::found(
                cluster.clone(),
                founding,
                self.join.clone(),
                stop.clone(),
            )));
        }
        tasks.push(tokio::spawn(join::check_cluster_of_others(
            cluster.clone(),
            self.join.clone(),
            stop.clone(),
        )));
        tasks.push(tokio::spawn(join::join(cluster.clone(), self.join.clone(), stop.clone())));
        tasks
    }
}

/// An id that no other server has or had, as it is random.
pub(super) fn random_id() -> u64 {
    // Never 0, which stands for none, nor the id of a founder.
    (crate::engine::random_u64() & ID_MAX) | 1 << 40
}
