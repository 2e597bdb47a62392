//! `berth operator scheduler set`: changes the scheduler's configuration.

use berth_api::http::SchedulerConfiguration;
use clap::{Args, ValueEnum};

use crate::{
    failure::{Exit, Failure},
    output,
    remote::Remote,
};

/// Arguments of `operator scheduler set`.
#[derive(Debug, Args)]
pub struct SchedulerSetArgs {
    /// Pack allocations on few nodes, or spread them
    #[arg(long, value_enum, value_name = "ALGORITHM")]
    scheduler_algorithm: Option<Algorithm>,
    /// Let tasks use up to their `memory_max`
    #[arg(long, value_name = "BOOL")]
    memory_oversubscription: Option<bool>,
    /// Change it only for this node pool
    #[arg(long, value_name = "POOL", conflicts_with_all = ["preempt_system_scheduler", "preempt_sysbatch_scheduler", "preempt_batch_scheduler", "preempt_service_scheduler", "lost_nodes_max"])]
    pool: Option<String>,
    /// Let system jobs preempt work of lower priority
    #[arg(long, value_name = "BOOL")]
    preempt_system_scheduler: Option<bool>,
    /// Let sysbatch jobs preempt
    #[arg(long, value_name = "BOOL")]
    preempt_sysbatch_scheduler: Option<bool>,
    /// Let batch jobs preempt
    #[arg(long, value_name = "BOOL")]
    preempt_batch_scheduler: Option<bool>,
    /// Let services preempt
    #[arg(long, value_name = "BOOL")]
    preempt_service_scheduler: Option<bool>,
    /// Percentage of nodes that may be marked down at a time; while more miss their heartbeats, none is
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=100))]
    lost_nodes_max: Option<u8>,
}

/// How the best of several nodes is found.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Algorithm {
    /// The fullest that has room.
    Binpack,
    /// The emptiest.
    Spread,
}

impl SchedulerSetArgs {
    /// Reads, changes and writes it, unless somebody else does so meanwhile.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let before = remote.scheduler().await?;
        let mut config = before.clone();
        self.change(&mut config);
        if config == before {
            output::eprint_line("nothing to change");
            return Ok(());
        }
        if !remote.set_scheduler(&config).await?.updated {
            return Err(Failure::new(Exit::Conflict, "somebody else changed the configuration meanwhile")
                .help("berth operator scheduler get"));
        }
        output::eprint_line("the scheduler's configuration is set");
        Ok(())
    }

    fn change(&self, config: &mut SchedulerConfiguration) {
        let algorithm = self.scheduler_algorithm.map(Algorithm::as_str);
        if let Some(pool) = &self.pool {
            let pool = config.node_pools.entry(pool.clone()).or_default();
            pool.scheduler_algorithm = algorithm.map(str::to_owned).or(pool.scheduler_algorithm.take());
            pool.memory_oversubscription_enabled =
                self.memory_oversubscription.or(pool.memory_oversubscription_enabled);
            return;
        }
        set(&mut config.scheduler_algorithm, algorithm.map(str::to_owned));
        set(&mut config.memory_oversubscription_enabled, self.memory_oversubscription);
        let preempts = &mut config.preemption_config;
        set(&mut preempts.system_scheduler_enabled, self.preempt_system_scheduler);
        set(&mut preempts.sys_batch_scheduler_enabled, self.preempt_sysbatch_scheduler);
        set(&mut preempts.batch_scheduler_enabled, self.preempt_batch_scheduler);
        set(&mut preempts.service_scheduler_enabled, self.preempt_service_scheduler);
        set(&mut config.lost_nodes_max_percent, self.lost_nodes_max);
    }
}

impl Algorithm {
    fn as_str(self) -> &'static str {
        match self {
            Self::Binpack => "binpack",
            Self::Spread => "spread",
        }
    }
}

/// Changes what is named.
fn set<T>(setting: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *setting = value;
    }
}
