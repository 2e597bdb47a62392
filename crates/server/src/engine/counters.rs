//! The engine's own measurements.

use std::sync::atomic::{AtomicU64, Ordering};

use berth_model::command::{Command, Entry};
use berth_scheduler::Plan;

use crate::{
    histogram::Histogram,
    state::{Measured, Metric, View},
};

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    entries: AtomicU64,
    commands: AtomicU64,
    plans: AtomicU64,
    placements_planned: AtomicU64,
    placements_committed: AtomicU64,
    allocs_ended: AtomicU64,
    /// From an evaluation that a planner takes to its plan.
    pub plan_time: Histogram,
    /// From an entry that is handed to the log to its being applied.
    pub commit_time: Histogram,
    /// From a change that somebody wishes to its answer.
    pub change_time: Histogram,
}

impl Counters {
    pub fn proposed(&self, entry: &Entry) {
        add(&self.entries, 1);
        add(&self.commands, entry.commands.len());
        for command in &entry.commands {
            match command {
                Command::CommitPlan(plan) => add(&self.placements_committed, plan.placements.len()),
                Command::EndAllocs(ends) => add(&self.allocs_ended, ends.len()),
                _ => {}
            }
        }
    }

    pub fn planned(&self, plan: &Plan) {
        add(&self.plans, 1);
        add(&self.placements_planned, plan.placements.len());
    }

    pub fn metrics(&self, view: &View, log: &berth_replication::Metrics) -> Vec<Metric> {
        let total = |name, help, value: u64| Metric { name, help, value: Measured::Counter(value as f64) };
        let counter = |name, help, value: &AtomicU64| total(name, help, value.load(Ordering::Relaxed));
        let gauge = |name, help, value: usize| Metric { name, help, value: Measured::Gauge(value as f64) };
        let times =
            |name, help, times: &Histogram| Metric { name, help, value: Measured::Spread(times.read()) };
        vec![
            counter("berth_log_entries_total", "entries proposed to the log", &self.entries),
            counter("berth_log_commands_total", "commands in these entries", &self.commands),
            total(
                "berth_log_records_total",
                "records appended, the consensus engine's own included",
                log.log_entries,
            ),
            total("berth_log_bytes_total", "bytes appended to the log", log.appended_bytes),
            total("berth_log_fsyncs_total", "syncs of the log", log.fsyncs),
            total("berth_log_snapshots_total", "snapshots written", log.snapshots),
            counter("berth_plans_total", "evaluations planned", &self.plans),
            counter(
                "berth_placements_planned_total",
                "placements proposed by planners",
                &self.placements_planned,
            ),
            counter("berth_placements_committed_total", "placements let pass", &self.placements_committed),
            counter("berth_allocations_ended_total", "ends of allocations logged", &self.allocs_ended),
            gauge("berth_nodes", "nodes known", view.store.nodes().len()),
            gauge("berth_jobs", "jobs known", view.store.jobs().len()),
            gauge("berth_allocations", "allocations known", view.store.allocs().len()),
            gauge("berth_evaluations", "evaluations known", view.store.evals().len()),
            gauge(
                "berth_nodes_unconfirmed",
                "nodes that have not confirmed what they run",
                view.unconfirmed_nodes,
            ),
            total(
                "berth_store_copied_bytes_total",
                "bytes copied by writes because a snapshot shared them",
                view.store.copied_bytes(),
            ),
            times("berth_plan_duration_seconds", "time to plan an evaluation", &self.plan_time),
            times("berth_log_commit_duration_seconds", "time to write and apply an entry", &self.commit_time),
            times(
                "berth_change_duration_seconds",
                "time from a wished change to its answer",
                &self.change_time,
            ),
        ]
    }
}

fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}
