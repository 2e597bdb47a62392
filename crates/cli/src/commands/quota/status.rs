//! `berth quota status`: one quota, and the usage that counts towards it.

use std::collections::BTreeSet;

use berth_api::http::{Quota, QuotaResources, QuotaUsage};
use clap::Args;
use serde::Serialize;

use crate::{
    failure::Failure,
    output::{Cell, Column, Fields, Layout, Table, View, sections},
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `quota status`.
#[derive(Debug, Args)]
pub struct QuotaStatusArgs {
    /// The quota's name
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    show: ShowArgs,
}

impl QuotaStatusArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let read = async |remote: &Remote| {
            let (quota, usage) = tokio::try_join!(remote.quota(&self.name), remote.quota_usage(&self.name))?;
            Ok(QuotaDetail { quota, usage })
        };
        self.show.show(remote, read).await
    }
}

/// All that `quota status` shows of a quota.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct QuotaDetail {
    quota: Quota,
    usage: QuotaUsage,
}

impl View for QuotaDetail {
    fn text(&self, layout: Layout) -> String {
        let fields = Fields::new(layout)
            .with("Name", &self.quota.name)
            .with_some("Description", &self.quota.description);
        sections([fields.render(), self.resources(layout)])
    }

    fn names(&self) -> Vec<String> {
        vec![self.quota.name.clone()]
    }
}

impl QuotaDetail {
    fn resources(&self, layout: Layout) -> String {
        let limits = self.quota.limits.as_ref().and_then(|limits| limits.first());
        let limit = limits.and_then(|limit| limit.region_limit.clone()).unwrap_or_default();
        let guarantee = self.quota.guarantee.clone().unwrap_or_default();
        let used = self.usage.used.values().next().and_then(|used| used.region_limit.clone());
        let used = used.unwrap_or_default();
        let columns = [
            Column::text("resource"),
            Column::number("held"),
            Column::number("guaranteed"),
            Column::number("limit"),
        ];
        let mut table = Table::new(layout, &columns);
        for (name, unit, of) in PLAIN {
            let cell = |amount: Option<i64>| amount_cell(amount, unit);
            table.row([name.into(), cell(of(&used).or(Some(0))), cell(of(&guarantee)), cell(of(&limit))]);
        }
        for name in [&limit, &guarantee, &used].into_iter().flat_map(devices).collect::<BTreeSet<_>>() {
            let cell = |resources: &QuotaResources| amount_cell(count(resources, &name), "");
            table.row([(&name).into(), cell(&used), cell(&guarantee), cell(&limit)]);
        }
        table.render()
    }
}

/// Takes one amount out of all.
type QuotaAmount = fn(&QuotaResources) -> Option<i64>;

const PLAIN: [(&str, &str, QuotaAmount); 3] = [
    ("cpu", " MHz", |resources| resources.cpu),
    ("memory", " MiB", |resources| resources.memory_mb),
    ("disk", " MiB", |resources| resources.disk_mb),
];

/// As a limit, less than 0 stands for nothing at all.
fn amount_cell(amount: Option<i64>, unit: &str) -> Cell {
    amount.map_or_else(String::new, |amount| format!("{}{unit}", amount.max(0))).into()
}

fn devices(resources: &QuotaResources) -> Vec<String> {
    resources.devices.iter().flatten().map(|device| device.name.clone()).collect()
}

fn count(resources: &QuotaResources, name: &str) -> Option<i64> {
    let device = resources.devices.iter().flatten().find(|device| device.name == name)?;
    i64::try_from(device.count).ok()
}
