//! `berth top`: the allocations that use most, refreshed on a terminal.

use std::{collections::BTreeMap, time::Duration};

use berth_api::http::{AllocResourceUsage, AllocationStub};
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{
    complete,
    failure::Failure,
    global::Global,
    output::{Column, Layout, Table, View, bytes},
    remote::{Remote, block_on},
    show::ShowArgs,
};

/// Between two reads of the usage.
const EVERY: Duration = Duration::from_secs(2);

/// Arguments of `top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Only of this job
    #[arg(value_name = "JOB", add = complete::jobs())]
    job: Option<String>,
    /// Only on this node, by id, prefix or name
    #[arg(long, value_name = "NODE", add = complete::nodes())]
    node: Option<String>,
    /// Column to sort by
    #[arg(long, short_alias = 's', value_enum, value_name = "COLUMN", default_value_t)]
    sort: SortKey,
    #[command(flatten)]
    show: ShowArgs,
}

/// The order of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum SortKey {
    /// What uses most cpu.
    #[default]
    Cpu,
    /// What holds most memory.
    Memory,
    /// What was restarted most often.
    Restarts,
}

impl TopArgs {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        let remote = global.remote()?;
        block_on(async {
            let job = match &self.job {
                Some(job) => Some(remote.find_job(job).await?),
                None => None,
            };
            let node = match &self.node {
                Some(node) => Some(remote.find_node(node).await?),
                None => None,
            };
            let read = async |remote: &Remote| self.read(remote, job.as_deref(), node.as_deref()).await;
            self.show.show_live(&remote, EVERY, read).await
        })
    }

    async fn read(
        &self,
        remote: &Remote,
        job: Option<&str>,
        node: Option<&str>,
    ) -> Result<UsageRows, Failure> {
        let mut allocs = match job {
            Some(job) => remote.job_allocations(job).await?,
            None => remote.allocations_with_tasks().await?,
        };
        allocs.retain(|alloc| {
            alloc.client_status == "running" && node.is_none_or(|node| alloc.node_id == node)
        });
        let usage = remote.usage_of(&allocs).await?;
        let mut users: Vec<UsageRow> = allocs.iter().map(|alloc| UsageRow::of(alloc, &usage)).collect();
        users.sort_by(|a, b| self.sort.rank(b).total_cmp(&self.sort.rank(a)).then_with(|| a.id.cmp(&b.id)));
        Ok(UsageRows(users))
    }
}

impl SortKey {
    fn rank(self, user: &UsageRow) -> f64 {
        match self {
            Self::Cpu => user.cpu_percent.unwrap_or(-1.0),
            Self::Memory => user.memory_bytes.map_or(-1.0, |bytes| bytes as f64),
            Self::Restarts => f64::from(user.restarts),
        }
    }
}

/// An allocation that runs, and what it uses; nothing of what nobody has measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "PascalCase")]
struct UsageRow {
    #[serde(rename = "ID")]
    id: String,
    name: String,
    node_name: String,
    #[serde(rename = "CpuMHz")]
    cpu_mhz: Option<f64>,
    /// Percent of one core.
    cpu_percent: Option<f64>,
    memory_bytes: Option<u64>,
    /// Restarts of all its tasks.
    restarts: u32,
}

impl UsageRow {
    fn of(alloc: &AllocationStub, usage: &BTreeMap<String, AllocResourceUsage>) -> Self {
        let known = usage.get(&alloc.id).map(|usage| &usage.resource_usage);
        let cpu = known.map(|known| &known.cpu_stats).filter(|cpu| !cpu.measured.is_empty());
        let memory = known.map(|known| &known.memory_stats).filter(|memory| !memory.measured.is_empty());
        let tasks = alloc.task_states.iter().flat_map(BTreeMap::values);
        Self {
            id: alloc.id.clone(),
            name: alloc.name.clone(),
            node_name: alloc.node_name.clone(),
            cpu_mhz: cpu.map(|cpu| cpu.total_ticks),
            cpu_percent: cpu.map(|cpu| cpu.percent),
            memory_bytes: memory.map(|memory| memory.usage.max(memory.rss)),
            restarts: tasks.map(|task| task.restarts).sum(),
        }
    }
}

/// Those that use most first.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct UsageRows(Vec<UsageRow>);

const COLUMNS: &[Column] = &[
    Column::id("alloc"),
    Column::text("name"),
    Column::text("node"),
    Column::number("cpu"),
    Column::number("of a core"),
    Column::number("memory"),
    Column::number("restarts"),
];

impl View for UsageRows {
    fn text(&self, layout: Layout) -> String {
        if self.0.is_empty() {
            return "nothing runs\n".into();
        }
        let mut table = Table::new(layout, COLUMNS);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into()).into();
        for user in &self.0 {
            table.row([
                layout.id(&user.id).into(),
                (&user.name).into(),
                (&user.node_name).into(),
                or_dash(user.cpu_mhz.map(|mhz| format!("{mhz:.0} MHz"))),
                or_dash(user.cpu_percent.map(|percent| format!("{percent:.1} %"))),
                or_dash(user.memory_bytes.map(bytes)),
                user.restarts.to_string().into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|user| user.id.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn what_nobody_measured_is_no_zero() {
        let user = |id: &str, cpu: Option<f64>, memory_bytes, restarts| UsageRow {
            id: id.into(),
            name: format!("web.g[{restarts}]"),
            node_name: "n1".into(),
            cpu_mhz: cpu.map(|percent| percent * 20.0),
            cpu_percent: cpu,
            memory_bytes,
            restarts,
        };
        let users =
            UsageRows(vec![user("aaaa1111", Some(12.5), Some(3 << 20), 2), user("bbbb2222", None, None, 0)]);
        expect![[r#"
            ALLOC     NAME      NODE      CPU  OF A CORE   MEMORY  RESTARTS
            aaaa1111  web.g[2]  n1    250 MHz     12.5 %  3.0 MiB         2
            bbbb2222  web.g[0]  n1          -          -        -         0
        "#]]
        .assert_eq(&users.text(Layout::PLAIN));
        assert!(SortKey::Memory.rank(&users.0[0]) > SortKey::Memory.rank(&users.0[1]));
    }
}
