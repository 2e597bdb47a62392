//! `berth alloc status`: an allocation, its tasks, and their events.

use berth_api::http::{Allocation, TaskState};
use clap::Args;
use serde::Serialize;

use crate::{
    commands::alloc::TaskExits,
    complete,
    failure::Failure,
    output::{
        Column, Fields, Layout, Table, Tone, View, age, clean, lasting, now_ns, rfc3339, sections, short_id,
    },
    remote::Remote,
    show::ShowArgs,
};

/// Arguments of `alloc status`.
#[derive(Debug, Args)]
pub struct AllocStatusArgs {
    /// Id or prefix of the allocation
    #[arg(value_name = "ALLOC", add = complete::allocations())]
    id: String,
    /// Leave out ports, tasks and their events
    #[arg(long)]
    short: bool,
    #[command(flatten)]
    show: ShowArgs,
}

impl AllocStatusArgs {
    pub async fn run(&self, remote: &Remote) -> Result<(), Failure> {
        let id = remote.find_allocation(&self.id).await?;
        print(remote, &self.show, &id, self.short).await
    }
}

/// Prints the allocation with that whole id.
pub async fn print(remote: &Remote, show: &ShowArgs, id: &str, short: bool) -> Result<(), Failure> {
    if short {
        return show.show(remote, async |remote| remote.allocation(id).await.map(AllocSummary)).await;
    }
    show.show(remote, async |remote| remote.allocation(id).await).await
}

/// An allocation without its tasks' events.
#[derive(Serialize)]
struct AllocSummary(Allocation);

impl View for AllocSummary {
    fn text(&self, layout: Layout) -> String {
        fields(layout, &self.0)
    }

    fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

impl View for Allocation {
    fn text(&self, layout: Layout) -> String {
        let tasks = self.task_states.iter().flatten().map(|(name, state)| task(layout, name, state));
        sections(
            [fields(layout, self), ports(layout, self), reschedules(layout, self)].into_iter().chain(tasks),
        )
    }

    fn names(&self) -> Vec<String> {
        vec![self.id.clone()]
    }
}

fn fields(layout: Layout, alloc: &Allocation) -> String {
    let now = now_ns();
    Fields::new(layout)
        .with("ID", &alloc.id)
        .with("Name", &alloc.name)
        .with("Job", format!("{} version {}", alloc.job_id, alloc.job_version))
        .with("Node", format!("{} ({})", alloc.node_name, short_id(&alloc.node_id)))
        .with("Evaluation", short_id(&alloc.eval_id))
        .with_status("Status", &alloc.client_status)
        .with_some("Reason", &alloc.client_description)
        .with("Desired", &alloc.desired_status)
        .with_some("Because", &alloc.desired_description)
        .with_some("Replaces", short_id(&alloc.previous_allocation))
        .with_some("Replaced by", short_id(&alloc.next_allocation))
        .with_some("Preempted by", short_id(&alloc.preempted_by_allocation))
        .with_some("Preempted", preempted(alloc))
        .with("Placed", age(alloc.create_time, now))
        .with("Changed", age(alloc.modify_time, now))
        .with("Holds", holds(alloc))
        .render()
}

fn preempted(alloc: &Allocation) -> String {
    alloc.preempted_allocations.iter().map(|id| short_id(id)).collect::<Vec<_>>().join(", ")
}

fn holds(alloc: &Allocation) -> String {
    let held = &alloc.resources;
    format!("{} MHz cpu, {} MiB memory, {} MiB disk", held.cpu, held.memory_mb, held.disk_mb)
}

/// The ports, when there are any.
fn ports(layout: Layout, alloc: &Allocation) -> String {
    let columns = [Column::text("port"), Column::id("address"), Column::number("inside")];
    let mut table = Table::new(layout, &columns);
    for port in &alloc.allocated_resources.shared.ports {
        let inside = if port.to == 0 { port.value } else { port.to };
        let address = format!("{}:{}", port.host_ip, port.value);
        table.row([(&port.label).into(), address.into(), inside.to_string().into()]);
    }
    if table.is_empty() { String::new() } else { table.render() }
}

/// The failed predecessors that still count, oldest first.
fn reschedules(layout: Layout, alloc: &Allocation) -> String {
    let columns = [
        Column::text("rescheduled"),
        Column::id("failed alloc"),
        Column::id("on node"),
        Column::text("after"),
    ];
    let mut table = Table::new(layout, &columns);
    for event in alloc.reschedule_tracker.iter().flat_map(|tracker| &tracker.events) {
        table.row([
            rfc3339(event.reschedule_time).into(),
            layout.id(&event.prev_alloc_id).into(),
            layout.id(&event.prev_node_id).into(),
            lasting(event.delay).into(),
        ]);
    }
    if table.is_empty() { String::new() } else { table.render() }
}

/// A task: a line with its status, and its events.
fn task(layout: Layout, name: &str, state: &TaskState) -> String {
    let failed = if state.failed { ", failed" } else { "" };
    let ends = TaskExits::of_task(state);
    let last = ends.exit.map_or_else(String::new, |exit| format!(", last {exit}"));
    let restarts = match ends.restarts {
        0 => String::new(),
        1 => format!(", restarted once{last}"),
        often => format!(", restarted {often} times{last}"),
    };
    let mut table = Table::new(layout, &["time", "event", "description"].map(Column::text));
    for event in &state.events {
        let message = if event.display_message.is_empty() { &event.message } else { &event.display_message };
        table.row([rfc3339(event.time).into(), (&event.kind).into(), message.into()]);
    }
    let history = if table.is_empty() { String::new() } else { table.render() };
    let tone = if state.failed { Tone::Bad } else { Tone::of_status(&state.state) };
    let word = layout.palette.paint(&clean(&state.state), tone);
    format!("task {} is {word}{failed}{restarts}\n{history}", clean(name))
}
