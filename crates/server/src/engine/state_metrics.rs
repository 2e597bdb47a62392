//! Metrics of the state. Nothing here scans all nodes, allocations, jobs or evaluations, of which a cluster may have millions:
//! tables count their rows by status.

use berth_model::{
    Timestamp,
    alloc::ClientStatus,
    eval::EvalStatus,
    node::NodeStatus,
    resources::ResourceSums,
    store::{JobStatus, LiveTotals, SchedulingEligibility, Store},
};

use crate::shared::{Measured, Metric, View};

const BYTES_PER_MIB: f64 = (1_u64 << 20) as f64;
const NANOS_PER_SECOND: f64 = 1e9;

/// The metrics of a view.
pub(crate) fn of_state(view: &View, now: Timestamp) -> Vec<Metric> {
    let gauge = |name, help, value: usize| Metric::one(name, help, Measured::Gauge(value as f64));
    let nodes = |count| usize::try_from(count).unwrap_or(usize::MAX);
    let store = &view.store;
    let total = store.copied_bytes() as f64;
    let mut all = vec![
        allocs(view),
        deployments(store),
        evals(store, now),
        by_status("berth_jobs", "Jobs, by status.", JobStatus::ALL, |status| {
            (status.as_str(), store.jobs().with_status(status))
        }),
        nodes_by_state(store),
        waiting(
            "berth_evaluations_pending_age_seconds",
            "Age of the oldest evaluation ready to be planned; 0 without one.",
            store.evals().pending_since(),
            now,
        ),
        waiting(
            "berth_evaluations_blocked_age_seconds",
            "Age of the oldest evaluation blocked for lack of resources; 0 without one.",
            store.evals().blocked_since(),
            now,
        ),
        gauge(
            "berth_nodes_unconfirmed",
            "Nodes that have not confirmed their allocations since this server began to lead.",
            nodes(view.recovery.unconfirmed),
        ),
        gauge(
            "berth_nodes_held",
            "Nodes that missed their heartbeats and are not marked down, because too many did at once.",
            nodes(view.recovery.held),
        ),
        Metric::one(
            "berth_store_copied_bytes_total",
            "Bytes of state copied on write because a reader shared them.",
            Measured::Counter(total),
        ),
    ];
    all.extend(resources(store));
    all
}

fn by_status<S, const N: usize>(
    name: &'static str,
    help: &'static str,
    all: [S; N],
    count: impl Fn(S) -> (&'static str, usize),
) -> Metric {
    let samples = all.map(|status| {
        let (status, count) = count(status);
        sample(status, count)
    });
    Metric { name, help, samples: samples.into() }
}

fn sample(status: &str, count: usize) -> (Vec<(&'static str, String)>, Measured) {
    (vec![("status", status.to_owned())], Measured::Gauge(count as f64))
}

/// Those that wait for a time are pending to the store, and nothing that planners could work on.
fn evals(store: &Store, now: Timestamp) -> Metric {
    let evals = store.evals();
    let delayed = evals.delayed(now);
    let counts = EvalStatus::ALL.map(|status| match status {
        EvalStatus::Pending => sample(status.as_str(), evals.with_status(status).saturating_sub(delayed)),
        _ => sample(status.as_str(), evals.with_status(status)),
    });
    let samples = counts.into_iter().chain([sample("delayed", delayed)]).collect();
    let help = "Evaluations, by status; delayed ones are planned at a later time.";
    Metric { name: "berth_evaluations", help, samples }
}

fn allocs(view: &View) -> Metric {
    let allocs = view.store.allocs();
    let (unknown, unknown_ran) = unknown(view);
    // The log knows what has ended; what of the rest runs is observed.
    let live = allocs.with_status(ClientStatus::Pending) + allocs.with_status(ClientStatus::Running);
    let reported = live.saturating_sub(unknown);
    let running = usize::try_from(view.observed.all_running()).unwrap_or(usize::MAX);
    let running = running.saturating_sub(unknown_ran).min(reported);
    let ended = [ClientStatus::Complete, ClientStatus::Failed, ClientStatus::Lost];
    let of_log = ended.map(|status| sample(status.as_str(), allocs.with_status(status)));
    let observed = [
        sample(ClientStatus::Pending.as_str(), reported - running),
        sample(ClientStatus::Running.as_str(), running),
    ];
    let samples = observed.into_iter().chain(of_log).chain([sample("unknown", unknown)]).collect();
    let help = "Allocations, by status; unknown are those on disconnected nodes.";
    Metric { name: "berth_allocations", help, samples }
}

/// How many allocations are desired on nodes that are disconnected, and how many of them ran when they last reported.
/// Walks what is on those nodes, which are none as a rule.
fn unknown(view: &View) -> (usize, usize) {
    let (store, observed) = (&view.store, &view.observed);
    let slots = store.nodes().disconnected().flat_map(|node| store.nodes().live(node));
    let desired =
        slots.filter_map(|slot| Some((slot, store.allocs().row(slot)?))).filter(|(_, row)| row.is_desired());
    desired.fold((0, 0), |(unknown, ran), (slot, row)| {
        let last = observed.get(slot, row.id).map(|observed| observed.alloc.status);
        (unknown + 1, ran + usize::from(last == Some(ClientStatus::Running)))
    })
}

fn deployments(store: &Store) -> Metric {
    let active = store.deployments().active().count();
    Metric::one("berth_deployments_active", "Active deployments.", Measured::Gauge(active as f64))
}

fn nodes_by_state(store: &Store) -> Metric {
    let states =
        NodeStatus::ALL.into_iter().flat_map(|status| SchedulingEligibility::ALL.map(|of| (status, of)));
    let samples = states.map(|(status, scheduling)| {
        let labels =
            vec![("status", status.as_str().to_owned()), ("scheduling", scheduling.as_str().to_owned())];
        (labels, Measured::Gauge(store.nodes().with_state(status, scheduling) as f64))
    });
    Metric {
        name: "berth_nodes",
        help: "Nodes, by status and scheduling eligibility.",
        samples: samples.collect(),
    }
}

/// A clock that was set back makes nothing wait since the future.
fn waiting(name: &'static str, help: &'static str, since: Option<Timestamp>, now: Timestamp) -> Metric {
    let waited_ns = since.map_or(0, |since| now.0.saturating_sub(since.0));
    Metric::one(name, help, Measured::Gauge(waited_ns as f64 / NANOS_PER_SECOND))
}

/// What the nodes that are not silent have for allocations, and what allocations hold there.
fn resources(store: &Store) -> [Metric; 6] {
    let LiveTotals { capacity, used } = store.nodes().live_totals();
    let one =
        |name, help, value: u64, unit: f64| Metric::one(name, help, Measured::Gauge(value as f64 * unit));
    let ResourceSums { cpu_mhz: cpu, memory_mb: memory, disk_mb: disk } = capacity;
    let ResourceSums { cpu_mhz: cpu_held, memory_mb: memory_held, disk_mb: disk_held } = used;
    [
        one(
            "berth_cluster_cpu_mhz",
            "CPU of all connected nodes that allocations may reserve, in MHz.",
            cpu,
            1.0,
        ),
        one(
            "berth_cluster_cpu_allocated_mhz",
            "CPU reserved by allocations on connected nodes, in MHz.",
            cpu_held,
            1.0,
        ),
        one(
            "berth_cluster_memory_bytes",
            "Memory of all connected nodes that allocations may reserve.",
            memory,
            BYTES_PER_MIB,
        ),
        one(
            "berth_cluster_memory_allocated_bytes",
            "Memory reserved by allocations on connected nodes.",
            memory_held,
            BYTES_PER_MIB,
        ),
        one(
            "berth_cluster_disk_bytes",
            "Disk of all connected nodes that allocations may reserve.",
            disk,
            BYTES_PER_MIB,
        ),
        one(
            "berth_cluster_disk_allocated_bytes",
            "Disk reserved by allocations on connected nodes.",
            disk_held,
            BYTES_PER_MIB,
        ),
    ]
}
