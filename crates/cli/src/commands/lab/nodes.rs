//! `berth lab nodes`: simulated nodes in a process of their own.

use std::{io, path::PathBuf};

use berth_api::agent::Batching;
use berth_lab::nodes::{
    Behaviour, DurationRange, Journal, NodesConfig, Outages, SettingError, SimNodeShapes, TaskBehaviour,
    WeightedShape, read_share, run,
};
use berth_tls::TlsFiles;
use tokio::runtime;
use tracing::level_filters::LevelFilter;

use crate::{
    daemon::{self, LogFormat, StopSignal},
    failure::{Exit, Failure},
};

#[derive(Debug, clap::Args)]
pub struct LabNodesArgs {
    /// Number of nodes
    #[arg(long)]
    count: u32,
    /// Address on which a server listens for agents; repeatable: connections are spread over the servers, and move when
    /// theirs is lost
    #[arg(long, value_name = "HOST:PORT", required = true)]
    server: Vec<String>,
    /// Number of the first node, so that several processes can form one cluster
    #[arg(long, default_value_t = 0)]
    first: u32,
    /// Number of connections
    #[arg(long, default_value_t = 4)]
    connections: u32,
    /// Directory with the agent certificate of all nodes: ca.pem, agent.pem and agent-key.pem, as `berth server cert agent`
    /// creates it
    #[arg(long, value_name = "DIR")]
    tls_dir: Option<PathBuf>,
    /// Seed of the nodes' ids, shapes and behaviour
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    outages: OutageArgs,
    #[command(flatten)]
    tasks: TaskArgs,
    #[command(flatten)]
    updates: TaskUpdateArgs,
    /// Print a line of JSON for each start and each end of a task
    #[arg(long)]
    journal: bool,
    /// End when standard input does: the process that holds its other end is gone
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What the nodes are")]
struct ClusterArgs {
    /// Shape of the nodes, in MHz and MiB, e.g. cpu=4000,memory=8192,disk=102400, with gpus=8,gpu_model=T4 if they have
    /// GPUs; repeatable with weight=N: each node draws one
    #[arg(long, value_name = "SHAPE")]
    shape: Vec<WeightedShape>,
    /// Shapes of a recorded GPU cluster, from DIR/openb/openb_node_list_all_node.csv: one of the lists of
    /// cluster-trace-gpu-v2023 in github.com/alibaba/clusterdata
    #[arg(long, value_name = "DIR", conflicts_with_all = ["shape", "gpu_cluster"])]
    traces: Option<PathBuf>,
    /// Shapes of a synthetic GPU cluster similar to the recorded one
    #[arg(long, conflicts_with = "shape")]
    gpu_cluster: bool,
    /// Nodes of a rack: they share a value of meta.rack; 0 for no racks
    #[arg(long, value_name = "N", default_value_t = 40)]
    rack_size: u32,
    /// Number of node classes to spread the nodes over, c0, c1 and so on
    #[arg(long, value_name = "N", default_value_t = 0)]
    classes: u32,
    /// Their datacenter
    #[arg(long, value_name = "NAME", default_value = "dc1")]
    datacenter: String,
    /// Their node pool
    #[arg(long, value_name = "NAME", default_value = "default")]
    node_pool: String,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What happens to them")]
struct OutageArgs {
    /// Repeatedly break the connections of a share of the nodes, e.g. share=0.01,every=1m..2m,lasts=5s..15s; each of these
    /// nodes has a connection of its own
    #[arg(long, value_name = "OUTAGES")]
    flap: Option<Outages>,
    /// Let a share of the nodes send nothing for a while, keeping their connections and tasks
    #[arg(long, value_name = "OUTAGES")]
    silence: Option<Outages>,
    /// Restart the machines of a share of the nodes, which ends their tasks
    #[arg(long, value_name = "OUTAGES")]
    reboot: Option<Outages>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What their tasks do besides what the job says")]
struct TaskArgs {
    /// Delay before a start is reported, e.g. 1s or 100ms..500ms
    #[arg(long, value_name = "DURATION", default_value = "0s")]
    start_delay: DurationRange,
    /// Task events reported for a start before the task runs
    #[arg(long, value_name = "N", default_value_t = 0)]
    events: u16,
    /// Time between these events
    #[arg(long, value_name = "DURATION", default_value = "100ms..500ms")]
    event_gap: DurationRange,
    /// Share of starts that fail, with exit code 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, value_parser = share)]
    failure_rate: f64,
    /// Time until they fail
    #[arg(long, value_name = "DURATION", default_value = "0s..1s")]
    failure_after: DurationRange,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What they do without that makes updates few")]
struct TaskUpdateArgs {
    /// Switch off priorities: the status of an allocation is batched like its events
    #[arg(long)]
    no_priority: bool,
    /// Switch off batching: each change is sent at once, in an update of its own
    #[arg(long)]
    no_shared_buffer: bool,
    /// Switch off adaptive batching: events wait for a second, whatever the server's load
    #[arg(long)]
    no_adaptive: bool,
}

impl From<TaskUpdateArgs> for Batching {
    fn from(without: TaskUpdateArgs) -> Self {
        let TaskUpdateArgs { no_priority, no_shared_buffer, no_adaptive } = without;
        Self { priority: !no_priority, shared_buffer: !no_shared_buffer, adaptive: !no_adaptive }
    }
}

impl LabNodesArgs {
    pub fn run(self) -> Result<(), Failure> {
        let until_stdin_closes = self.until_stdin_closes;
        // Beside another process, it is for that one to say how things go.
        let level = if until_stdin_closes { LevelFilter::WARN } else { LevelFilter::INFO };
        daemon::log_to_stderr(level, LogFormat::Text);
        let config = self.config()?;
        daemon::raise_open_files();
        runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
            let mut stop = StopSignal::listen()?.or_end_of_stdin(until_stdin_closes);
            run(config, stop.wait()).await.map_err(|error| Failure::new(Exit::Usage, error.to_string()))
        })
    }

    fn config(self) -> Result<NodesConfig, Failure> {
        let shapes = self.cluster.shapes(self.seed)?;
        let ClusterArgs { rack_size, classes, datacenter, node_pool, .. } = self.cluster;
        Ok(NodesConfig {
            first: self.first,
            connections: self.connections,
            tls: self.tls_dir.as_deref().map(|dir| TlsFiles::in_dir(dir, "agent")),
            seed: self.seed,
            shapes,
            behaviour: self.outages.behaviour(self.tasks),
            batching: self.updates.into(),
            rack_size,
            classes,
            datacenter,
            node_pool,
            journal: self.journal.then(|| Journal::new(io::stdout())),
            servers: self.server,
            ..NodesConfig::new("", self.count)
        })
    }
}

impl ClusterArgs {
    fn shapes(&self, seed: u64) -> Result<SimNodeShapes, Failure> {
        match &self.traces {
            Some(dir) => {
                SimNodeShapes::recorded(dir).map_err(|error| Failure::new(Exit::Usage, error.to_string()))
            }
            None if self.gpu_cluster => Ok(SimNodeShapes::generated(seed)),
            None if self.shape.is_empty() => Ok(SimNodeShapes::default()),
            None => Ok(SimNodeShapes::Drawn(self.shape.clone())),
        }
    }
}

impl OutageArgs {
    fn behaviour(self, tasks: TaskArgs) -> Behaviour {
        let TaskArgs { start_delay, events, event_gap, failure_rate, failure_after } = tasks;
        Behaviour {
            tasks: TaskBehaviour { start_delay, events, event_gap, failure_rate, failure_after },
            flapping: self.flap.unwrap_or_default(),
            silence: self.silence.unwrap_or_default(),
            reboots: self.reboot.unwrap_or_default(),
        }
    }
}

fn share(text: &str) -> Result<f64, SettingError> {
    read_share("failure rate", text)
}
