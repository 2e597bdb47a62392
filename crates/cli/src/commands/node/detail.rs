//! One node in detail: what it has, what it is, and what runs on it.

use std::collections::BTreeMap;

use berth_api::http::{AllocationStub, Node};
use serde::Serialize;

use crate::output::{Align, Fields, Table, age, now_ns, short_id, stdout_width};

/// All that `node status` tells of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeDetail {
    /// The node.
    pub node: Node,
    /// The allocations on it.
    pub allocations: Vec<AllocationStub>,
}

impl NodeDetail {
    /// The sections, parted by empty lines.
    pub fn render(&self) -> String {
        let sections = [
            self.fields(),
            self.resources(),
            pairs("attribute", &self.node.attributes),
            pairs("meta", &self.node.meta),
            self.allocations(),
        ];
        sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
    }

    fn fields(&self) -> String {
        let node = &self.node;
        let drivers = node.drivers.iter().filter(|(_, driver)| driver.healthy).map(|(name, _)| name.as_str());
        Fields::default()
            .with("ID", &node.id)
            .with("Name", &node.name)
            .with("Datacenter", &node.datacenter)
            .with("Node pool", &node.node_pool)
            .with_some("Class", &node.node_class)
            .with("Status", &node.status)
            .with_some("Reason", &node.status_description)
            .with("Eligibility", &node.scheduling_eligibility)
            .with("Drivers", drivers.collect::<Vec<_>>().join(", "))
            .render()
    }

    fn resources(&self) -> String {
        let (total, reserved) = (&self.node.node_resources, &self.node.reserved_resources);
        let columns = [("resource", Align::Left), ("total", Align::Right), ("reserved", Align::Right)];
        let mut table = Table::new(&columns);
        let mut row = |name: &str, total: u32, reserved: u32, unit: &str| {
            table.row([name.to_owned(), format!("{total} {unit}"), format!("{reserved} {unit}")]);
        };
        row("cpu", total.cpu.cpu_shares, reserved.cpu.cpu_shares, "MHz");
        row("memory", total.memory.memory_mb, reserved.memory.memory_mb, "MiB");
        row("disk", total.disk.disk_mb, reserved.disk.disk_mb, "MiB");
        table.render(stdout_width())
    }

    fn allocations(&self) -> String {
        if self.allocations.is_empty() {
            return "no allocations\n".into();
        }
        let mut table =
            Table::new(&["alloc", "name", "wished", "status", "changed"].map(|name| (name, Align::Left)));
        let now = now_ns();
        for alloc in &self.allocations {
            let changed = age(alloc.modify_time, now);
            let status = [alloc.desired_status.clone(), alloc.client_status.clone(), changed];
            table.row([short_id(&alloc.id), alloc.name.clone()].into_iter().chain(status));
        }
        table.render(stdout_width())
    }
}

/// Names and values, when there are any.
fn pairs(what: &str, values: &BTreeMap<String, String>) -> String {
    let mut table = Table::new(&[(what, Align::Left), ("value", Align::Left)]);
    for (name, value) in values {
        table.row([name.clone(), value.clone()]);
    }
    if table.is_empty() { String::new() } else { table.render(stdout_width()) }
}
