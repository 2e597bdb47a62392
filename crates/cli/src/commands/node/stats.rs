//! `berth node stats`: the present usage of a machine.

use berth_api::http::HostStats;
use clap::Args;

use super::node_arg::NodeArg;
use crate::{
    failure::Failure,
    output::{Column, Fields, Layout, Table, View, sections},
    remote::Remote,
    show::ShowArgs,
};

/// Bytes of a GiB.
const GIB: f64 = 1_073_741_824.0;

/// Arguments of `node stats`.
#[derive(Debug, Args)]
pub struct NodeStatsArgs {
    #[command(flatten)]
    node: NodeArg,
    #[command(flatten)]
    show: ShowArgs,
}

impl NodeStatsArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = self.node.find(remote).await?;
        self.show.show(remote, async |remote| remote.node_usage(&id).await).await
    }
}

impl View for HostStats {
    fn text(&self, layout: Layout) -> String {
        let of = |used: u64, all: u64| format!("{:.1} of {:.1} GiB", used as f64 / GIB, all as f64 / GIB);
        let (memory, disk) = (&self.memory, &self.alloc_dir_stats);
        let fields = Fields::new(layout)
            .with("CPU", format!("{:.0} MHz", self.cpu_ticks_consumed))
            .with("Memory", of(memory.used, memory.total))
            .with("Disk", format!("{} ({})", of(disk.used, disk.size), disk.mountpoint))
            .with("Up for", berth_duration::rounded(std::time::Duration::from_secs(self.uptime)))
            .render();
        let columns =
            [Column::text("core"), Column::number("user"), Column::number("system"), Column::number("idle")];
        let mut table = Table::new(layout, &columns);
        for core in &self.cpu {
            let percent = |value: f64| format!("{value:.0} %").into();
            table.row([(&core.cpu).into(), percent(core.user), percent(core.system), percent(core.idle)]);
        }
        sections([fields, table.render()])
    }

    fn names(&self) -> Vec<String> {
        self.cpu.iter().map(|core| core.cpu.clone()).collect()
    }
}
