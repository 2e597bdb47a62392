//! The cluster of an experiment: a server and simulated nodes in processes of their own, or an existing server.

mod child;
mod in_memory;
mod member;
mod nodes;
mod other_servers;
mod secure;
mod server;
mod session;
mod target;
mod usage;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ChildStdout,
    time::{Duration, Instant},
};

use super::{Run, RunError};
pub(super) use child::ChildProcess;
pub(super) use member::Member;
pub(super) use nodes::NodesParams;
use other_servers::ReadyServers;
use server::ServerSetup;
pub(super) use session::on_cluster;
pub use target::Target;
pub(super) use usage::{Usage, usage};

/// Until all nodes must be ready: those that were started, and those that should be there already.
const STARTED_READY_MAX: Duration = Duration::from_secs(300);
const TARGET_READY_MAX: Duration = Duration::from_secs(5);

/// The cluster that an experiment needs.
#[derive(Debug, Clone)]
pub(super) struct ClusterParams {
    pub nodes: NodesParams,
    /// Number of servers.
    pub servers: u32,
    /// More flags of `berth server`.
    pub server: Vec<String>,
    /// Everything over TLS, with ACLs and an audit log.
    pub secure: bool,
}

/// A server with nodes. Processes that were started are killed, and their data removed, when this is dropped.
#[derive(Debug)]
pub(super) struct Cluster {
    /// Where its API is.
    pub target: Target,
    /// The processes that were started, the server that is used first; none for a target.
    pub children: Vec<ChildProcess>,
    /// What the processes of nodes print, if somebody wants to read it.
    pub nodes_print: Vec<ChildStdout>,
    own: Option<OwnedCluster>,
}

/// What is known of a cluster that was started here.
#[derive(Debug)]
struct OwnedCluster {
    server: ServerSetup,
    /// All servers, the first one first.
    members: Vec<Member>,
    /// The certificate of all nodes, where the cluster is secure.
    nodes_tls: Option<PathBuf>,
    /// Servers started so far, one in the place of another.
    servers: u32,
    /// Goes away after the processes that write to it.
    _data: DataDir,
}

impl Cluster {
    /// Starts a cluster, or finds the target's; all nodes are ready.
    pub async fn start(run: &Run<'_>, cluster_params: &ClusterParams) -> Result<Self, RunError> {
        let cluster = match &run.options.target {
            Some(_) if cluster_params.secure => {
                return Err(RunError::Start {
                    what: "a secure cluster".to_owned(),
                    reason: "the target is as it is: leave --secure out, and say https:// and --token"
                        .to_owned(),
                });
            }
            Some(target) => {
                Self { target: target.clone(), children: Vec::new(), nodes_print: Vec::new(), own: None }
            }
            None => Self::start_own(run, cluster_params).await?,
        };
        let count = cluster_params.nodes.count;
        run.progress.print(&format!("waiting for {count} nodes"));
        let at_most = if cluster.children.is_empty() { TARGET_READY_MAX } else { STARTED_READY_MAX };
        nodes::wait_until_ready(&cluster.target, count, at_most).await?;
        Ok(cluster)
    }

    async fn start_own(run: &Run<'_>, cluster_params: &ClusterParams) -> Result<Self, RunError> {
        let out = &run.options.out;
        let log_dir = out.join("processes");
        fs::create_dir_all(&log_dir).map_err(|source| RunError::io("create", &log_dir, source))?;
        let data = run.options.data.clone().unwrap_or_else(|| out.join("data"));
        let data = DataDir::create(data.join(format!("run-{}", run.number)))?;
        let (berth, more, secure) =
            (run.options.berth.clone(), cluster_params.server.clone(), cluster_params.secure);
        let name = (cluster_params.servers > 1).then(|| other_servers::name(1));
        let nodes_tls = secure.then(|| secure::make(&berth, &data.dir, name.as_deref())).transpose()?;
        let setup = ServerSetup { berth, data: data.dir.clone(), log_dir: log_dir.clone(), more, secure };
        let ReadyServers { members, children: servers } =
            other_servers::start(&setup, cluster_params.servers).await?;
        let Member { target, agents, .. } = members[0].clone();
        let nodes = nodes::start(
            &setup.berth,
            &cluster_params.nodes,
            run.seed,
            &agents,
            nodes_tls.as_deref(),
            &log_dir,
        )?;
        let (nodes, nodes_print): (Vec<_>, Vec<_>) = nodes.into_iter().unzip();
        let children = servers.into_iter().chain(nodes).collect();
        let own = Some(OwnedCluster { server: setup, members, nodes_tls, servers: 1, _data: data });
        Ok(Self { target, children, nodes_print, own })
    }

    /// Kills the server as a crash would, and starts another one in its place; returns when that was, and waits for
    /// nothing.
    pub fn crash_server(&mut self) -> Result<Instant, RunError> {
        let own = self.own.as_mut().expect("only what was started here is killed");
        drop(self.children.remove(0));
        own.servers += 1;
        let started = Instant::now();
        let name = format!("server {}", own.servers);
        let child = own.server.start_again(&name, &self.target.address, &own.members[0].agents)?;
        self.children.insert(0, child);
        Ok(started)
    }

    /// Where agents connect, as `HOST:PORT`; empty for a target, where it is unknown.
    pub fn agents(&self) -> &str {
        self.own.as_ref().and_then(|own| own.members.first()).map_or("", |first| &first.agents)
    }

    /// What the first server keeps; none for a target, which may be on another machine.
    pub fn data_dir(&self) -> Option<&Path> {
        self.own.as_ref().map(|own| own.server.data.as_path())
    }

    /// The servers that were started, the first one first; none for a target.
    pub fn members(&self) -> &[Member] {
        self.own.as_ref().map_or(&[], |own| &own.members)
    }

    /// The process of one of them, by its position; none while it is dead.
    pub fn process_of(&self, member: usize) -> Option<&ChildProcess> {
        let name = &self.members().get(member)?.name;
        self.children.iter().find(|child| child.name == *name)
    }

    /// Kills these servers at once, as a crash would; returns when that was, and their processes: to drop these waits for
    /// their ends.
    pub fn kill(&mut self, members: &[usize]) -> (Instant, Vec<ChildProcess>) {
        let names: Vec<String> = members.iter().map(|member| self.members()[*member].name.clone()).collect();
        let killed = Instant::now();
        let (mut dead, alive): (Vec<ChildProcess>, Vec<ChildProcess>) =
            self.children.drain(..).partition(|child| names.contains(&child.name));
        dead.iter_mut().for_each(ChildProcess::kill);
        self.children = alive;
        (killed, dead)
    }

    /// Starts a server again that was killed; returns when that was, and waits for nothing.
    pub fn start_again(&mut self, member: usize) -> Result<Instant, RunError> {
        let (child, started) = self.members()[member].start_again()?;
        self.children.insert(0, child);
        Ok(started)
    }

    /// The directory of the certificate that its nodes share; none where they need none.
    pub fn nodes_tls(&self) -> Option<&Path> {
        self.own.as_ref()?.nodes_tls.as_deref()
    }

    /// Waits until so many nodes are ready that were started here otherwise.
    pub async fn until_nodes_are_ready(&self, count: u32) -> Result<(), RunError> {
        nodes::wait_until_ready(&self.target, count, STARTED_READY_MAX).await
    }

    /// Fails when one of the processes has ended unexpectedly.
    pub fn check(&mut self) -> Result<(), RunError> {
        self.children.iter_mut().try_for_each(ChildProcess::check)
    }

    /// Ends all processes, nodes first.
    pub fn stop(mut self) {
        while let Some(child) = self.children.pop() {
            child.stop();
        }
    }
}

/// The server's data.
#[derive(Debug)]
struct DataDir {
    dir: PathBuf,
    /// The uppermost directory that was made for it.
    made: PathBuf,
}

impl DataDir {
    /// Makes an empty one, on a disk.
    fn create(dir: PathBuf) -> Result<Self, RunError> {
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(|source| RunError::io("empty", &dir, source))?;
        }
        let made = dir.ancestors().take_while(|above| !above.exists()).last().unwrap_or(&dir).to_owned();
        fs::create_dir_all(&dir).map_err(|source| RunError::io("create", &dir, source))?;
        let data = Self { dir, made };
        let in_memory = in_memory::is_memory_backed(&data.dir);
        if in_memory.map_err(|source| RunError::io("look at", &data.dir, source))? {
            return Err(RunError::InMemory { dir: data.dir.display().to_string() });
        }
        Ok(data)
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_for_the_data_goes_away_with_it() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let data = DataDir::create(dir.path().join("data/run-1")).unwrap();
        fs::write(data.dir.join("log"), "bytes").unwrap();
        drop(data);
        assert!(dir.path().exists() && !dir.path().join("data").exists());
    }

    #[test]
    fn memory_is_refused() {
        let refused = DataDir::create("/dev/shm/berth-lab-data-dir-test/run-1".into()).unwrap_err();
        assert!(
            refused.to_string().starts_with("refusing to keep the server's log in /dev/shm/"),
            "{refused}"
        );
        assert!(!Path::new("/dev/shm/berth-lab-data-dir-test").exists());
    }
}
