//! `berth alloc checks`: how the checks of an allocation's services stand.

use std::collections::BTreeMap;

use berth_api::http::AllocCheck;
use clap::Args;
use serde::Serialize;

use crate::{
    complete,
    failure::Failure,
    output::{Cell, Column, Layout, Table, View, age, now_ns},
    remote::Remote,
    show::ShowArgs,
};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// Arguments of `alloc checks`.
#[derive(Debug, Args)]
pub struct AllocChecksArgs {
    /// Id or prefix of the allocation
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
    #[command(flatten)]
    show: ShowArgs,
}

/// Checks by their ids.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct AllocChecks(BTreeMap<String, AllocCheck>);

impl AllocChecksArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_allocation(&self.id).await?;
        self.show.show(remote, async |remote| remote.allocation_checks(&id).await.map(AllocChecks)).await
    }
}

impl View for AllocChecks {
    fn text(&self, layout: Layout) -> String {
        if self.0.is_empty() {
            return "The allocation has ended, or its services have no checks.\n".to_owned();
        }
        let now = now_ns();
        let columns = [
            Column::text("service"),
            Column::text("check"),
            Column::text("task").wide(),
            Column::text("mode").wide(),
            Column::text("status"),
            Column::text("answered"),
            Column::text("output"),
        ];
        let mut table = Table::new(layout, &columns);
        for check in self.0.values() {
            let answered = match check.timestamp {
                0 => "never".to_owned(),
                at => age(at.unsigned_abs().saturating_mul(SECOND_NS), now),
            };
            let output = check.output.lines().next().unwrap_or_default();
            table.row([
                (&check.service).into(),
                (&check.check).into(),
                (&check.task).into(),
                (&check.mode).into(),
                Cell::status(&check.status),
                answered.into(),
                output.into(),
            ]);
        }
        table.render()
    }

    fn names(&self) -> Vec<String> {
        self.0.values().map(|check| check.check.clone()).collect()
    }
}
