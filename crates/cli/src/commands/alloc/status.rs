//! `berth alloc status`: an allocation, its tasks, and what happened to them.

use std::collections::BTreeMap;

use berth_api::http::{Allocation, TaskState};
use clap::Args;

use crate::{
    failure::Failure,
    output::{Align, Fields, Format, Table, age, clean, now_ns, rfc3339, short_id, stdout_width},
    remote::Remote,
};

/// Arguments of `alloc status`.
#[derive(Debug, Args)]
pub struct Status {
    /// The allocation's id, or its beginning
    #[arg(value_name = "ALLOC")]
    id: String,
    /// How to print it
    #[arg(long, short, value_enum, value_name = "FORMAT", default_value_t)]
    output: Format,
}

impl Status {
    /// Prints it.
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_allocation(&self.id).await?;
        self.output.print(&remote.allocation(&id).await?, render)
    }
}

fn render(alloc: &Allocation) -> String {
    let tasks = alloc.task_states.as_ref().map(tasks).unwrap_or_default();
    let sections = [vec![fields(alloc)], ports(alloc), tasks].concat();
    sections.join("\n")
}

fn fields(alloc: &Allocation) -> String {
    let now = now_ns();
    Fields::default()
        .with("ID", &alloc.id)
        .with("Name", &alloc.name)
        .with("Job", format!("{} version {}", alloc.job_id, alloc.job_version))
        .with("Node", format!("{} ({})", alloc.node_name, short_id(&alloc.node_id)))
        .with("Evaluation", short_id(&alloc.eval_id))
        .with("Status", &alloc.client_status)
        .with_some("Reason", &alloc.client_description)
        .with("Wished", &alloc.desired_status)
        .with_some("Because", &alloc.desired_description)
        .with_some("Replaces", short_id(&alloc.previous_allocation))
        .with_some("Replaced by", short_id(&alloc.next_allocation))
        .with("Placed", age(alloc.create_time, now))
        .with("Changed", age(alloc.modify_time, now))
        .with("Holds", holds(alloc))
        .render()
}

fn holds(alloc: &Allocation) -> String {
    let held = alloc.resources;
    format!("{} MHz cpu, {} MiB memory, {} MiB disk", held.cpu, held.memory_mb, held.disk_mb)
}

/// The ports, when there are any.
fn ports(alloc: &Allocation) -> Vec<String> {
    let mut table = Table::new(&[("port", Align::Left), ("address", Align::Left), ("inside", Align::Right)]);
    for port in &alloc.allocated_resources.shared.ports {
        let inside = if port.to == 0 { port.value } else { port.to };
        table.row([port.label.clone(), format!("{}:{}", port.host_ip, port.value), inside.to_string()]);
    }
    if table.is_empty() { Vec::new() } else { vec![table.render(stdout_width())] }
}

fn tasks(states: &BTreeMap<String, TaskState>) -> Vec<String> {
    states.iter().map(|(name, state)| task(name, state)).collect()
}

/// A task: a line that says how it fares, and its history.
fn task(name: &str, state: &TaskState) -> String {
    let failed = if state.failed { ", failed" } else { "" };
    let restarts = match state.restarts {
        0 => String::new(),
        1 => ", restarted once".into(),
        often => format!(", restarted {often} times"),
    };
    let mut table = Table::new(&["time", "event", "description"].map(|name| (name, Align::Left)));
    for event in &state.events {
        let said = if event.display_message.is_empty() { &event.message } else { &event.display_message };
        table.row([rfc3339(event.time), event.kind.clone(), said.clone()]);
    }
    let history = if table.is_empty() { String::new() } else { table.render(stdout_width()) };
    format!("task {} is {}{failed}{restarts}\n{history}", clean(name), clean(&state.state))
}
