//! Whether an allocation is healthy by the terms of its deployment: all its tasks run, and where it requires that the checks of its
//! services pass, for long enough without a break. Healthy is final; what was found unhealthy can still become healthy.

use berth_api::agent::{AllocHealth, CheckState, HealthSpec, HookSpec, TaskPhase};

use super::Alloc;
use crate::lifecycle::task::{Kill, Phase};

/// The progress towards health.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HealthWatch {
    /// Unhealthy after that; none before it starts.
    deadline_ns: Option<u64>,
    /// Healthy without interruption since then.
    healthy_since_ns: Option<u64>,
}

impl Alloc {
    /// Re-evaluates the health after an event. Whether that changed it.
    pub(super) fn judge_health(&mut self, now_ns: u64) -> bool {
        let Some(spec) = self.watched() else { return false };
        let deadline_ns = now_ns.saturating_add(spec.deadline_ms.saturating_mul(1_000_000));
        let deadline_ns = *self.watch.get_or_insert_default().deadline_ns.get_or_insert(deadline_ns);
        if self.status.tasks.iter().any(|task| task.failed) {
            return self.found(AllocHealth::Unhealthy, "a task has failed");
        }
        let is_healthy = self.all_tasks_run() && !(spec.checks && self.failing_check().is_some());
        let watch = self.watch.get_or_insert_default();
        if !is_healthy {
            watch.healthy_since_ns = None;
        } else if now_ns >= healthy_at(*watch.healthy_since_ns.get_or_insert(now_ns), spec) {
            return self.found(AllocHealth::Healthy, "");
        }
        if now_ns < deadline_ns || self.status.health() == AllocHealth::Unhealthy {
            return false;
        }
        let why = self.why_unhealthy(spec);
        self.found(AllocHealth::Unhealthy, &why)
    }

    /// What it has shown was shown of an older version.
    pub(super) fn reset_health(&mut self) {
        self.watch = None;
        self.status.health = AllocHealth::Unknown as i32;
        self.status.health_message.clear();
        self.changed = true;
    }

    /// When time alone changes what is known.
    pub(super) fn health_deadline(&self) -> Option<u64> {
        let spec = self.watched()?;
        let watch = self.watch.as_deref()?;
        let healthy_at = watch.healthy_since_ns.map(|since_ns| healthy_at(since_ns, spec));
        let unknown = self.status.health() == AllocHealth::Unknown;
        let deadline_ns = watch.deadline_ns.filter(|_| unknown);
        healthy_at.into_iter().chain(deadline_ns).min()
    }

    /// What it must show, while somebody waits for it.
    fn watched(&self) -> Option<HealthSpec> {
        let is_started = self.has_started();
        let open = !self.stop && !self.lost && self.status.health() != AllocHealth::Healthy;
        self.health_spec().filter(|_| is_started && open)
    }

    fn health_spec(&self) -> Option<HealthSpec> {
        self.run.group.health.or(self.run.health)
    }

    fn all_tasks_run(&self) -> bool {
        (0..self.tasks.len()).all(|task| self.is_healthy(task))
    }

    /// What only goes before the main tasks or follows their start may have ended by then, and what follows their end has
    /// not begun.
    fn is_healthy(&self, task: usize) -> bool {
        let known = &self.tasks[task];
        let runs = known.phase == Phase::Running && known.kill == Kill::No;
        match self.hook(task) {
            HookSpec::Poststop => true,
            HookSpec::Prestart | HookSpec::Poststart if !self.is_sidecar(task) => runs || known.is_dead(),
            _ => runs,
        }
    }

    fn why_unhealthy(&self, spec: HealthSpec) -> String {
        // By the name that it has in the job.
        let deadline = format!("the healthy_deadline of {}", span(spec.deadline_ms));
        let is_absent =
            |task: &usize| self.status.tasks[*task].state() != TaskPhase::Running && !self.is_healthy(*task);
        if let Some(task) = (0..self.tasks.len()).find(is_absent).map(|task| &self.status.tasks[task]) {
            return format!("task {} did not run by {deadline}", task.name);
        }
        if let Some((check, state)) = self.failing_check().filter(|_| spec.checks) {
            let state = if state == CheckState::Pending { "not answered" } else { "not passing" };
            return format!("check {:?} of service {} was {state} by {deadline}", check.name, check.service);
        }
        format!("its tasks did not run for long enough by {deadline}")
    }

    fn found(&mut self, health: AllocHealth, message: &str) -> bool {
        if self.status.health() == health {
            return false;
        }
        self.status.health = health as i32;
        message.clone_into(&mut self.status.health_message);
        self.changed = true;
        true
    }
}

fn healthy_at(since_ns: u64, spec: HealthSpec) -> u64 {
    since_ns.saturating_add(spec.min_healthy_ms.saturating_mul(1_000_000))
}

/// As jobs write it: in the largest unit of which it is a whole number.
fn span(ms: u64) -> String {
    match ms {
        ms if ms == 0 || ms % 1_000 != 0 => format!("{ms}ms"),
        ms if ms % 60_000 != 0 => format!("{}s", ms / 1_000),
        ms => format!("{}m", ms / 60_000),
    }
}
