//! `berth alloc stats`: what an allocation's tasks use right now.

use berth_api::http::{AllocResourceUsage, ResourceUsage};
use clap::Args;

use crate::{
    complete,
    failure::Failure,
    output::{Column, Layout, Table, View},
    remote::Remote,
    show::ShowArgs,
};

/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// Arguments of `alloc stats`.
#[derive(Debug, Args)]
pub struct AllocStatsArgs {
    /// Id or prefix of the allocation
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
    #[command(flatten)]
    show: ShowArgs,
}

impl AllocStatsArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_allocation(&self.id).await?;
        self.show.show(remote, async |remote| remote.allocation_usage(&id).await).await
    }
}

impl View for AllocResourceUsage {
    fn text(&self, layout: Layout) -> String {
        let columns = [
            Column::text("task"),
            Column::number("cpu"),
            Column::number("of a core"),
            Column::number("memory"),
        ];
        let mut table = Table::new(layout, &columns);
        for (name, task) in &self.tasks {
            let [cpu, percent, memory] = usage_cells(&task.resource_usage);
            table.row([name.into(), cpu.into(), percent.into(), memory.into()]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.tasks.keys().cloned().collect()
    }
}

/// Cpu in MHz and percent, and memory; a dash for what nobody has measured.
pub fn usage_cells(usage: &ResourceUsage) -> [String; 3] {
    let (cpu, memory) = (&usage.cpu_stats, &usage.memory_stats);
    let measured_text =
        |measured: &[String], text: String| if measured.is_empty() { "-".to_owned() } else { text };
    [
        measured_text(&cpu.measured, format!("{:.0} MHz", cpu.total_ticks)),
        measured_text(&cpu.measured, format!("{:.1} %", cpu.percent)),
        measured_text(&memory.measured, format!("{:.1} MiB", memory.usage as f64 / MIB)),
    ]
}
