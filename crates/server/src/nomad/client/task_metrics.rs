//! Resource usage of tasks for Prometheus: one series for each task and metric, for a bounded number of tasks.

use axum::body::Body;
use berth_api::agent::{AgentOutcome, AgentQuery, GetNodeAllocUsage, NodeAllocUsage, TaskUsage};
use berth_model::{AllocId, NodeId, node::NodeStatus};
use futures_util::{FutureExt, StreamExt, stream};

use crate::{
    access::CallerView,
    http::{
        call::{Call, Reply},
        reply,
    },
    nomad::{
        metrics::{EXPOSITION, exposition, of_tasks},
        nodes,
    },
    shared::{Labels, Measured, Metric, MetricsNames},
};

/// Tasks that are reported; each has a series for each measurement.
const TASKS_MAX: usize = 10_000;
/// Nodes that are queried at a time, and in all.
const ASKED_AT_ONCE: usize = 16;
const NODES_MAX: usize = 256;

/// What is reported of a task: the name, what it is, and its value where somebody measured it.
type Family = (&'static str, &'static str, fn(&TaskUsage) -> Option<Measured>);

const FAMILIES: &[Family] = &[
    ("berth_task_cpu_mhz", "Cpu that a task uses, in the unit in which jobs ask for it.", |task| {
        task.cpu.map(|cpu| Measured::Gauge(cpu.mhz))
    }),
    ("berth_task_cpu_percent", "Cpu that a task uses, of one core.", |task| {
        task.cpu.map(|cpu| Measured::Gauge(cpu.user_percent + cpu.system_percent))
    }),
    ("berth_task_cpu_throttled_periods_total", "How often the kernel held a task back.", |task| {
        Some(Measured::Counter(task.cpu?.throttled_periods? as f64))
    }),
    ("berth_task_cpu_throttled_seconds_total", "For how long the kernel held a task back.", |task| {
        Some(Measured::Counter(task.cpu?.throttled_ns? as f64 / 1e9))
    }),
    ("berth_task_memory_bytes", "Memory of a task that counts against its limit.", |task| {
        task.memory.map(|memory| Measured::Gauge(memory.usage.unwrap_or(memory.rss) as f64))
    }),
    ("berth_task_memory_rss_bytes", "Memory of a task's processes, without files.", |task| {
        task.memory.map(|memory| Measured::Gauge(memory.rss as f64))
    }),
    ("berth_task_memory_swap_bytes", "Memory of a task that was moved to disk.", |task| {
        task.memory.map(|memory| Measured::Gauge(memory.swap as f64))
    }),
];

/// A task and what it uses.
struct TaskSample {
    labels: Labels,
    usage: TaskUsage,
}

/// What the tasks use that the caller sees: those of the node that is named, or of all that are ready.
pub(super) async fn read(call: &Call) -> Reply {
    let named = call.query.text("node_id").map(|id| nodes::resolved(call, id)).transpose()?;
    let all = || {
        let view = call.view();
        let ready = view.all_nodes().filter(|(row, _)| row.status == NodeStatus::Ready);
        ready.map(|(row, _)| row.id).collect::<Vec<_>>()
    };
    let nodes = named.map_or_else(all, |node| vec![node]);
    let requests: Vec<_> = nodes.iter().take(NODES_MAX).map(|node| ask(call, *node).boxed()).collect();
    let answers: Vec<_> = stream::iter(requests).buffered(ASKED_AT_ONCE).collect().await;
    let silent = nodes.len() - answers.iter().flatten().count();
    let view = call.view();
    let mut samples: Vec<TaskSample> =
        answers.iter().flatten().flat_map(|usage| tasks(&view, usage)).collect();
    samples.sort_by(|a, b| a.labels.cmp(&b.labels));
    let left_off = samples.len().saturating_sub(TASKS_MAX);
    samples.truncate(TASKS_MAX);
    let mut families = families(&samples, left_off, silent);
    if call.server().metrics_names == MetricsNames::Nomad {
        families.extend(of_tasks(&families));
    }
    Ok(reply::with_type(Body::from(exposition(&families)), EXPOSITION))
}

/// A node that is silent costs its own numbers, and not everybody's.
async fn ask(call: &Call, node: NodeId) -> Option<NodeAllocUsage> {
    let query = AgentQuery::NodeAllocUsage(GetNodeAllocUsage {});
    match call.ask_node(&call.view(), node, query).await {
        Ok(AgentOutcome::NodeAllocUsage(usage)) => Some(usage),
        _ => None,
    }
}

fn tasks(view: &CallerView, usage: &NodeAllocUsage) -> Vec<TaskSample> {
    let mut samples = Vec::new();
    for of in &usage.allocs {
        let Some(parts) = AllocId::from_slice(&of.alloc_id).and_then(|id| view.alloc(id)) else { continue };
        for usage in &of.usage.tasks {
            let labels = vec![
                ("namespace", parts.job.key.namespace.to_string()),
                ("job", parts.job.key.id.to_string()),
                ("task_group", parts.group.name.clone()),
                ("task", usage.name.clone()),
                ("alloc_id", parts.row.id.to_string()),
                ("node", parts.node.map_or_else(String::new, |node| node.name.clone())),
            ];
            samples.push(TaskSample { labels, usage: usage.clone() });
        }
    }
    samples
}

fn families(seen: &[TaskSample], left_off: usize, silent: usize) -> Vec<Metric> {
    let metric = |&(name, help, value): &Family| {
        let samples = seen.iter().filter_map(|of| Some((of.labels.clone(), value(&of.usage)?)));
        Metric { name, help, samples: samples.collect() }
    };
    let mut families: Vec<Metric> = FAMILIES.iter().map(metric).collect();
    families.push(Metric::one(
        "berth_task_usage_nodes_silent",
        "Nodes whose tasks are missing: they were not asked, or did not answer.",
        Measured::Gauge(silent as f64),
    ));
    families.push(Metric::one(
        "berth_task_usage_tasks_left_off",
        "Tasks left out because there are too many.",
        Measured::Gauge(left_off as f64),
    ));
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_series_is_bounded_and_each_occurs_once() {
        let samples = |task: usize| TaskSample {
            labels: vec![("task", format!("t{task}"))],
            usage: TaskUsage { memory: Some(Default::default()), ..TaskUsage::default() },
        };
        let all: Vec<TaskSample> = (0..3).map(samples).collect();
        let families = families(&all, 7, 2);
        let of = |name: &str| families.iter().find(|family| family.name == name).expect("told").samples.len();
        assert_eq!(
            (of("berth_task_memory_bytes"), of("berth_task_cpu_mhz")),
            (3, 0),
            "nobody measured its cpu"
        );
        let text = exposition(&families);
        assert!(text.contains("berth_task_usage_tasks_left_off 7\n"), "{text}");
        assert!(text.contains("berth_task_usage_nodes_silent 2\n"), "{text}");
        assert!(!text.contains("berth_task_cpu_mhz"), "{text}");
    }
}
