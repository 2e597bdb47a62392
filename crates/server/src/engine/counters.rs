//! The engine's metrics.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use berth_controller::{Event, WelcomeMode};
use berth_model::command::{Command, Entry};
use berth_scheduler::Plan;

use crate::{
    checkpoint::WriteCounters,
    histogram::Histogram,
    shared::{Measured, Metric, PlanTrace},
};

/// Counts since the start.
#[derive(Debug, Default)]
pub(crate) struct EngineCounters {
    entries: AtomicU64,
    /// Applied commands by kind.
    commands: Mutex<BTreeMap<&'static str, u64>>,
    plans: AtomicU64,
    plans_overtaken: AtomicU64,
    plans_refused: AtomicU64,
    placements_planned: AtomicU64,
    placements_committed: AtomicU64,
    placements_refused: AtomicU64,
    allocs_ended: AtomicU64,
    updates: AtomicU64,
    statuses: AtomicU64,
    /// Welcomes by the report that they requested.
    welcomes: [AtomicU64; 3],
    heartbeats: AtomicU64,
    /// Checkpoints of observed state.
    pub observed_files: Arc<WriteCounters>,
    /// From when a planner takes an evaluation until its plan is made.
    pub plan_time: Histogram,
    /// From when an entry is handed to the log until it is applied.
    pub commit_time: Histogram,
    /// From the proposal of a change to its response.
    pub change_time: Histogram,
}

impl EngineCounters {
    pub fn on_proposed(&self, entry: &Entry) {
        add(&self.entries, 1);
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        for command in &entry.commands {
            *commands.entry(command.kind()).or_default() += 1;
            match command {
                Command::CommitPlan(plan) => add(&self.placements_committed, plan.placements.len()),
                Command::EndAllocs(ends) => add(&self.allocs_ended, ends.len()),
                _ => {}
            }
        }
    }

    pub fn on_planned(&self, plan: &Plan, overtaken: usize) {
        add(&self.plans, 1);
        add(&self.plans_overtaken, overtaken);
        add(&self.placements_planned, plan.placements.len());
    }

    pub fn on_judged(&self, trace: &PlanTrace) {
        add(&self.plans_refused, usize::from(trace.refused > 0));
        add(&self.placements_refused, trace.refused);
    }

    /// Counts what agents report.
    pub fn on_event(&self, event: &Event) {
        match event {
            Event::Observed { allocs, .. } => {
                add(&self.updates, 1);
                add(&self.statuses, allocs.len());
            }
            Event::Heartbeat(..) => add(&self.heartbeats, 1),
            _ => {}
        }
    }

    /// Counts an accepted session.
    pub fn on_welcome(&self, mode: WelcomeMode) {
        let which = match mode {
            WelcomeMode::Equal => 0,
            WelcomeMode::FromSeq(_) => 1,
            WelcomeMode::Full => 2,
        };
        add(&self.welcomes[which], 1);
    }

    pub fn metrics(&self) -> Vec<Metric> {
        let counter = |name, help, value: &AtomicU64| {
            Metric::one(name, help, Measured::Counter(value.load(Ordering::Relaxed) as f64))
        };
        let times = |name, help, times: &Histogram| Metric::one(name, help, Measured::Spread(times.read()));
        vec![
            counter("berth_log_entries_total", "Entries proposed to the log.", &self.entries),
            self.commands_by_kind(),
            counter("berth_plans_total", "Evaluations planned.", &self.plans),
            counter(
                "berth_plans_overtaken_total",
                "Plans made again after a conflict with another planner.",
                &self.plans_overtaken,
            ),
            counter(
                "berth_plans_refused_total",
                "Plans refused in part or in full when they were applied.",
                &self.plans_refused,
            ),
            counter(
                "berth_placements_planned_total",
                "Placements proposed by planners.",
                &self.placements_planned,
            ),
            counter("berth_placements_committed_total", "Placements committed.", &self.placements_committed),
            counter(
                "berth_placements_refused_total",
                "Placements refused because the resources were taken meanwhile.",
                &self.placements_refused,
            ),
            counter(
                "berth_agent_updates_total",
                "Messages in which agents reported changed allocations.",
                &self.updates,
            ),
            counter(
                "berth_agent_statuses_total",
                "Allocation statuses that agents reported.",
                &self.statuses,
            ),
            self.welcomes(),
            counter(
                "berth_agent_heartbeats_total",
                "Heartbeats of agents: messages that report no change.",
                &self.heartbeats,
            ),
            counter(
                "berth_allocations_ended_total",
                "Allocations whose end was written to the log.",
                &self.allocs_ended,
            ),
            times("berth_plan_duration_seconds", "Time to plan an evaluation.", &self.plan_time),
            times(
                "berth_log_commit_duration_seconds",
                "Time to commit and apply a log entry.",
                &self.commit_time,
            ),
            times(
                "berth_change_duration_seconds",
                "Write latency: time from a request that changes the state to its answer.",
                &self.change_time,
            ),
        ]
    }

    fn welcomes(&self) -> Metric {
        let sample = |(report, count): (&str, &AtomicU64)| {
            let labels = vec![("report", report.to_owned())];
            (labels, Measured::Counter(count.load(Ordering::Relaxed) as f64))
        };
        Metric {
            name: "berth_agent_welcomes_total",
            help: "Agent sessions opened, by what the agent was asked to report: nothing, changes or everything.",
            samples: ["nothing", "changes", "everything"]
                .into_iter()
                .zip(&self.welcomes)
                .map(sample)
                .collect(),
        }
    }

    fn commands_by_kind(&self) -> Metric {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        let sample = |(kind, count): (&&str, &u64)| {
            (vec![("kind", (*kind).to_owned())], Measured::Counter(*count as f64))
        };
        Metric {
            name: "berth_log_commands_total",
            help: "Commands in entries proposed to the log.",
            samples: commands.iter().map(sample).collect(),
        }
    }
}

fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use berth_model::{EvalId, Index, JobKey, Timestamp, quota::Usage};

    use super::*;

    fn plan() -> Plan {
        Plan {
            eval: EvalId(1),
            job: JobKey::new("default", "web"),
            job_version: 0,
            snapshot_index: Index(1),
            all_at_once: false,
            holds: Vec::new(),
            charges: Vec::new(),
            pledge: Usage::default(),
            placements: Vec::new(),
            stops: Vec::new(),
            updates: Vec::new(),
            failures: Vec::new(),
            deployment: None,
            next: Vec::new(),
            more: false,
        }
    }

    /// Conflicts between planners cannot be brought about at will in a server that runs.
    #[test]
    fn conflicts_of_planners_are_counted() {
        let trace = PlanTrace::new(&plan(), 0, [Timestamp(1), Timestamp(2)], 0);
        let counters = EngineCounters::default();
        let before = counters.metrics();
        counters.on_judged(&trace);
        assert_eq!(Metric::moved(&before, &counters.metrics()), [""; 0]);
        counters.on_judged(&PlanTrace { refused: 3, ..trace });
        let refused = ["berth_plans_refused_total", "berth_placements_refused_total"];
        assert_eq!(Metric::moved(&before, &counters.metrics()), refused);
        let before = counters.metrics();
        counters.on_planned(&plan(), 2);
        let planned = ["berth_plans_total", "berth_plans_overtaken_total"];
        assert_eq!(Metric::moved(&before, &counters.metrics()), planned);
    }
}
