//! `berth lab nodes`: simulated nodes in a process of their own.

use berth_lab::nodes::{NodesConfig, run};
use tokio::runtime;

use crate::{daemon::StopSignal, failure::Failure};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many nodes
    #[arg(long)]
    count: u32,
    /// Where the server's agents connect
    #[arg(long, value_name = "HOST:PORT")]
    server: String,
    /// On how many connections
    #[arg(long, default_value_t = 4)]
    connections: u32,
    /// Makes the nodes' ids: the same seed is the same nodes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// MHz of each node
    #[arg(long, default_value_t = 4_000)]
    cpu: u32,
    /// MiB of each node
    #[arg(long, default_value_t = 8_192)]
    memory: u32,
    /// End when standard input does: the process that holds its other end is gone
    #[arg(long, hide = true)]
    until_stdin_closes: bool,
}

impl Args {
    pub fn run(self) -> Result<(), Failure> {
        let mut config = NodesConfig::new(self.server, self.count);
        (config.connections, config.seed) = (self.connections, self.seed);
        (config.cpu_mhz, config.memory_mb) = (self.cpu, self.memory);
        runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
            let mut stop = StopSignal::listen()?;
            let stopped = async {
                tokio::select! {
                    () = stop.wait() => {}
                    () = stdin_closes(), if self.until_stdin_closes => {}
                }
            };
            Ok(run(config, stopped).await?)
        })
    }
}

/// Reads on a thread of its own: a read of standard input cannot be called off.
async fn stdin_closes() {
    let (closed, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = closed.send(());
    });
    let _ = told.await;
}
