//! `berth operator scheduler get`: the scheduler's configuration.

use berth_api::http::SchedulerConfiguration;
use clap::Args;

use crate::{
    failure::Failure,
    output::{Column, Fields, Layout, Table, View, sections},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `operator scheduler get`.
#[derive(Debug, Args)]
pub struct SchedulerGetArgs {
    #[command(flatten)]
    show: ShowArgs,
}

impl SchedulerGetArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        self.show.show(remote, async |remote| remote.scheduler().await).await
    }
}

impl View for SchedulerConfiguration {
    fn text(&self, layout: Layout) -> String {
        let preempts = &self.preemption_config;
        let fields = Fields::new(layout)
            .with("Algorithm", algorithm(&self.scheduler_algorithm))
            .with("Memory oversubscription", on(self.memory_oversubscription_enabled))
            .with("Preempt for system jobs", on(preempts.system_scheduler_enabled))
            .with("Preempt for sysbatch jobs", on(preempts.sys_batch_scheduler_enabled))
            .with("Preempt for batch jobs", on(preempts.batch_scheduler_enabled))
            .with("Preempt for services", on(preempts.service_scheduler_enabled))
            .with_some("Nodes lost at a time, at most", lost(self.lost_nodes_max_percent));
        sections([fields.render(), pools(self, layout)])
    }

    /// There is one of it, and it has no name.
    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

/// The pools that differ, when there are any.
fn pools(config: &SchedulerConfiguration, layout: Layout) -> String {
    let columns = [Column::id("pool"), Column::text("algorithm"), Column::text("memory oversubscription")];
    let mut table = Table::new(layout, &columns);
    for (name, pool) in &config.node_pools {
        let memory = pool.memory_oversubscription_enabled.map_or("", on);
        let placing = pool.scheduler_algorithm.as_deref().map_or("", algorithm);
        table.row([name.into(), placing.into(), memory.into()]);
    }
    if table.is_empty() { String::new() } else { table.render() }
}

fn algorithm(name: &str) -> &str {
    if name.is_empty() { "binpack" } else { name }
}

fn on(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

/// Of a hundred nodes; servers of before have no such limit.
fn lost(percent: u8) -> String {
    if percent == 0 { String::new() } else { format!("{percent} %") }
}
