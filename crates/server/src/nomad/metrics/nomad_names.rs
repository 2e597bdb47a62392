//! Metrics under the names that dashboards for Nomad read. One visible list: a name is in it only if Berth measures what Nomad
//! measures under that name.

use crate::{
    access::CallerView,
    nomad::convert,
    shared::{Labels, Measured, Metric},
};

/// Groups whose counts are given; each has a series for each status. Beyond that a dashboard shows nothing that anybody reads.
const GROUPS_MAX: usize = 10_000;
/// Nomad measures spans of time in milliseconds.
const MILLIS_PER_SECOND: f64 = 1e3;
const BYTES_PER_MIB: f64 = 1024.0 * 1024.0;

/// Ours, the label that its sample has where there are several, and Nomad's name with what it means.
type Alias = (&'static str, Option<(&'static str, &'static str)>, &'static str, &'static str);

const ALIASES: &[Alias] = &[
    ("berth_allocations", status("running"), "nomad_client_allocations_running", "Running allocations."),
    ("berth_allocations", status("pending"), "nomad_client_allocations_pending", "Pending allocations."),
    ("berth_agent_sessions", None, "nomad_nomad_heartbeat_active", "Agents connected to this server."),
    (
        "berth_log_commit_duration_seconds",
        None,
        "nomad_raft_commitTime",
        "Milliseconds to commit a log entry.",
    ),
    (
        "berth_evaluations",
        status("blocked"),
        "nomad_nomad_blocked_evals_total_blocked",
        "Blocked evaluations.",
    ),
    (
        "berth_evaluations",
        status("pending"),
        "nomad_nomad_broker_total_ready",
        "Evaluations ready to be planned.",
    ),
    (
        "berth_evaluations",
        status("delayed"),
        "nomad_nomad_broker_total_waiting",
        "Evaluations delayed to a later time.",
    ),
    ("berth_jobs", status("dead"), "nomad_nomad_job_status_dead", "Dead jobs."),
    ("berth_jobs", status("pending"), "nomad_nomad_job_status_pending", "Pending jobs."),
    ("berth_jobs", status("running"), "nomad_nomad_job_status_running", "Running jobs."),
    ("berth_log_entries_total", None, "nomad_raft_apply", "Entries proposed to the log."),
    ("berth_plan_duration_seconds", None, "nomad_nomad_plan_evaluate", "Milliseconds to plan an evaluation."),
    ("process_resident_memory_bytes", None, "nomad_runtime_sys_bytes", "Resident memory of this server."),
];

/// Something that nodes have and allocations reserve: our names, and Nomad's with what they mean.
struct Resource {
    all: &'static str,
    reserved: &'static str,
    /// How much of ours Nomad counts as one.
    unit: f64,
    of_reserved: (&'static str, &'static str),
    of_left: (&'static str, &'static str),
}

const RESOURCES: &[Resource] = &[
    Resource {
        all: "berth_cluster_cpu_mhz",
        reserved: "berth_cluster_cpu_allocated_mhz",
        unit: 1.0,
        of_reserved: ("nomad_client_allocated_cpu", "CPU reserved by allocations, in MHz."),
        of_left: ("nomad_client_unallocated_cpu", "CPU that allocations may still reserve, in MHz."),
    },
    Resource {
        all: "berth_cluster_memory_bytes",
        reserved: "berth_cluster_memory_allocated_bytes",
        unit: BYTES_PER_MIB,
        of_reserved: ("nomad_client_allocated_memory", "Memory reserved by allocations, in MiB."),
        of_left: ("nomad_client_unallocated_memory", "Memory that allocations may still reserve, in MiB."),
    },
    Resource {
        all: "berth_cluster_disk_bytes",
        reserved: "berth_cluster_disk_allocated_bytes",
        unit: BYTES_PER_MIB,
        of_reserved: ("nomad_client_allocated_disk", "Disk reserved by allocations, in MiB."),
        of_left: ("nomad_client_unallocated_disk", "Disk that allocations may still reserve, in MiB."),
    },
];

/// The same of what tasks use.
const OF_TASKS: &[Alias] = &[
    ("berth_task_cpu_mhz", None, "nomad_client_allocs_cpu_total_ticks", "Cpu that a task uses, in MHz."),
    ("berth_task_cpu_percent", None, "nomad_client_allocs_cpu_total_percent", "Cpu, in percent of a core."),
    ("berth_task_memory_bytes", None, "nomad_client_allocs_memory_usage", "Memory of a task, in bytes."),
    (
        "berth_task_memory_rss_bytes",
        None,
        "nomad_client_allocs_memory_rss",
        "Memory without files, in bytes.",
    ),
    ("berth_task_memory_swap_bytes", None, "nomad_client_allocs_memory_swap", "Memory on disk, in bytes."),
];

const fn status(status: &'static str) -> Option<(&'static str, &'static str)> {
    Some(("status", status))
}

/// What servers measure under Nomad's names, made from what is measured under ours, and the counts of the groups that the
/// caller sees.
pub(super) fn of_server(measured: &[Metric], view: &CallerView) -> Vec<Metric> {
    aliases(ALIASES, measured).chain(resources(measured)).chain(summaries(view)).collect()
}

/// What tasks use under Nomad's names.
pub(in crate::nomad) fn of_tasks(measured: &[Metric]) -> Vec<Metric> {
    let with = |&(ours, _, name, help): &Alias| {
        let family = measured.iter().find(|family| family.name == ours)?;
        Some(Metric { name, help, samples: family.samples.clone() })
    };
    OF_TASKS.iter().filter_map(with).collect()
}

fn aliases(table: &[Alias], measured: &[Metric]) -> impl Iterator<Item = Metric> {
    table.iter().filter_map(|&(ours, label, name, help)| {
        let family = measured.iter().find(|family| family.name == ours)?;
        let is_meant = |labels: &Labels| {
            label.is_none_or(|(name, value)| labels.iter().any(|(n, v)| *n == name && v == value))
        };
        let (_, value) = family.samples.iter().find(|(labels, _)| is_meant(labels))?;
        Some(Metric::one(name, help, in_nomads_unit(value)))
    })
}

fn resources(measured: &[Metric]) -> impl Iterator<Item = Metric> {
    let gauge = |name: &str| match measured.iter().find(|family| family.name == name)?.samples.first()?.1 {
        Measured::Gauge(value) => Some(value),
        _ => None,
    };
    let values = move |of: &Resource| {
        let (all, reserved) = (gauge(of.all)? / of.unit, gauge(of.reserved)? / of.unit);
        let values = [(of.of_reserved, reserved), (of.of_left, (all - reserved).max(0.0))];
        Some(values.map(|((name, help), value)| Metric::one(name, help, Measured::Gauge(value))))
    };
    RESOURCES.iter().filter_map(values).flatten()
}

fn in_nomads_unit(value: &Measured) -> Measured {
    match value {
        Measured::Spread(spread) => {
            Measured::Summary { sum: spread.sum * MILLIS_PER_SECOND, count: spread.count() }
        }
        other => other.clone(),
    }
}

/// Allocations by job, group and status, with Nomad's labels.
fn summaries(view: &CallerView) -> Vec<Metric> {
    let groups = view.jobs(..).flat_map(move |row| {
        let groups = row.counts.iter();
        groups.map(move |counts| {
            let labels: Labels = vec![
                ("job", row.key.id.to_string()),
                ("namespace", row.key.namespace.to_string()),
                ("task_group", counts.group.to_string()),
            ];
            (labels, convert::group_summary(view, row, counts))
        })
    });
    let groups: Vec<_> = groups.take(GROUPS_MAX + 1).collect();
    let listed = &groups[..groups.len().min(GROUPS_MAX)];
    let family = |name, help, count: fn(&berth_api::http::GroupSummary) -> u32| Metric {
        name,
        help,
        samples: listed
            .iter()
            .map(|(labels, group)| (labels.clone(), Measured::Gauge(count(group).into())))
            .collect(),
    };
    let left_off = usize::from(groups.len() > listed.len());
    vec![
        family("nomad_nomad_job_summary_complete", "Allocations that completed.", |group| group.complete),
        family("nomad_nomad_job_summary_failed", "Allocations that failed.", |group| group.failed),
        family("nomad_nomad_job_summary_lost", "Allocations lost with their nodes.", |group| group.lost),
        family("nomad_nomad_job_summary_queued", "Allocations not placed yet.", |group| group.queued),
        family("nomad_nomad_job_summary_running", "Running allocations.", |group| group.running),
        family("nomad_nomad_job_summary_starting", "Pending allocations.", |group| group.starting),
        Metric::one(
            "berth_metrics_groups_left_off",
            "1 while there are more task groups than job summaries are exported for.",
            Measured::Gauge(left_off as f64),
        ),
    ]
}
