//! One node in detail: its resources, its attributes, and its allocations.

use std::collections::BTreeMap;

use berth_api::http::{AllocationStub, HostVolume, Node};
use serde::Serialize;

use crate::commands::alloc::TaskExits;
use crate::output::{Cell, Column, Fields, Layout, Table, View, age, now_ns, rfc3339, sections};

/// All that `node status` shows of a node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct NodeDetail {
    pub node: Node,
    /// The allocations on it.
    pub allocations: Vec<AllocationStub>,
}

impl View for NodeDetail {
    fn text(&self, layout: Layout) -> String {
        sections([
            self.fields(layout),
            self.resources(layout),
            pairs(layout, "attribute", &self.node.attributes),
            pairs(layout, "meta", &self.node.meta),
            self.events(layout),
            self.allocations(layout),
        ])
    }

    fn names(&self) -> Vec<String> {
        vec![self.node.id.clone()]
    }
}

impl NodeDetail {
    fn fields(&self, layout: Layout) -> String {
        let node = &self.node;
        let drivers = node.drivers.iter().filter(|(_, driver)| driver.healthy).map(|(name, _)| name.as_str());
        Fields::new(layout)
            .with("ID", &node.id)
            .with("Name", &node.name)
            .with("Datacenter", &node.datacenter)
            .with("Node pool", &node.node_pool)
            .with_some("Class", &node.node_class)
            .with_status("Status", &node.status)
            .with_some("Reason", &node.status_description)
            .with_status("Eligibility", &node.scheduling_eligibility)
            .with_some("Drain", drain(node))
            .with("Drivers", drivers.collect::<Vec<_>>().join(", "))
            .with_some("Volumes", volumes(node))
            .render()
    }

    fn resources(&self, layout: Layout) -> String {
        let (total, reserved) = (&self.node.node_resources, &self.node.reserved_resources);
        let columns = [Column::text("resource"), Column::number("total"), Column::number("reserved")];
        let mut table = Table::new(layout, &columns);
        let mut row = |name: &str, total: u32, reserved: u32, unit: &str| {
            table.row([name.into(), format!("{total} {unit}").into(), format!("{reserved} {unit}").into()]);
        };
        row("cpu", total.cpu.cpu_shares, reserved.cpu.cpu_shares, "MHz");
        row("memory", total.memory.memory_mb, reserved.memory.memory_mb, "MiB");
        row("disk", total.disk.disk_mb, reserved.disk.disk_mb, "MiB");
        table.render()
    }

    /// Its events, newest first.
    fn events(&self, layout: Layout) -> String {
        let columns = [Column::text("event"), Column::text("subsystem"), Column::text("time")];
        let (mut table, now) = (Table::new(layout, &columns), now_ns());
        for event in self.node.events.iter().rev() {
            table.row([
                (&event.message).into(),
                (&event.subsystem).into(),
                age(event.timestamp.0, now).into(),
            ]);
        }
        if table.is_empty() { String::new() } else { table.render() }
    }

    fn allocations(&self, layout: Layout) -> String {
        if self.allocations.is_empty() {
            return "no allocations\n".into();
        }
        let columns = [
            Column::id("alloc"),
            Column::text("name"),
            Column::text("desired"),
            Column::text("status"),
            Column::number("restarts"),
            Column::text("exit"),
            Column::text("changed"),
        ];
        let mut table = Table::new(layout, &columns);
        let now = now_ns();
        for alloc in &self.allocations {
            let ends = TaskExits::of(alloc.task_states.as_ref());
            table.row([
                layout.id(&alloc.id).into(),
                (&alloc.name).into(),
                (&alloc.desired_status).into(),
                Cell::status(&alloc.client_status),
                Cell::number(ends.restarts),
                ends.exit_cell(),
                age(alloc.modify_time, now).into(),
            ]);
        }
        table.render()
    }
}

/// The directories that groups may ask for.
fn volumes(node: &Node) -> String {
    let named = |volume: &HostVolume| {
        if volume.read_only { format!("{} (read-only)", volume.name) } else { volume.name.clone() }
    };
    node.host_volumes.values().map(named).collect::<Vec<_>>().join(", ")
}

/// The last drain, in a few words.
fn drain(node: &Node) -> String {
    let Some(last) = &node.last_drain else { return String::new() };
    let now = now_ns();
    let until = match node.drain_strategy.as_ref().map(|drain| drain.force_deadline.0) {
        Some(0) | None => String::new(),
        Some(deadline) => format!(", until {}", rfc3339(deadline)),
    };
    let message = last.meta.get("message").map_or_else(String::new, |text| format!(": {text}"));
    format!("{}, began {}{until}{message}", last.status, age(last.started_at.0, now))
}

/// Names and values, when there are any.
fn pairs(layout: Layout, what: &'static str, values: &BTreeMap<String, String>) -> String {
    let mut table = Table::new(layout, &[Column::id(what), Column::text("value")]);
    for (name, value) in values {
        table.row([name.into(), value.into()]);
    }
    if table.is_empty() { String::new() } else { table.render() }
}
