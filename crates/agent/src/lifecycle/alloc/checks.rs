//! The checks of an allocation's services. One runs while its task does, or while all of the group's main tasks and sidecars do; their
//! results count for the allocation's health, and may restart tasks.

use berth_api::agent::{AllocChecks, CheckNeed, CheckSpec, CheckState, TaskEventKind};

use super::Alloc;
use crate::lifecycle::checks::{CHECKS_MAX, FIRST_AFTER_NS_MAX, Probe};
use crate::lifecycle::history::event;
use crate::lifecycle::restart::mix;
use crate::lifecycle::task::{Kill, Phase, Restart};
use crate::lifecycle::{Action, CheckRef, CheckResult};

impl Alloc {
    /// Those that its group has.
    pub(super) fn probes(checks: &[CheckSpec]) -> Box<[Probe]> {
        checks.iter().take(CHECKS_MAX).map(Probe::new).collect()
    }

    /// Asks what is new from now on. What stays goes on as it stands, and what is on its way about any other is stale.
    pub(super) fn replace_checks(&mut self, newer: &[CheckSpec]) {
        let older = &self.run.group.checks;
        if newer == older {
            return;
        }
        let last = self.probes.iter().map(Probe::number).max().unwrap_or_default();
        let mut before: Vec<Option<Probe>> = std::mem::take(&mut self.probes).into_iter().map(Some).collect();
        let mut carried_over = |at: usize, spec: &CheckSpec| {
            if older.get(at) == Some(spec) {
                return before.get_mut(at)?.take();
            }
            // One that stands where it stood stays there.
            let is_same = |from: &usize| older[*from] == *spec && newer.get(*from) != Some(spec);
            let mut places = (0..before.len()).filter(is_same);
            let moved = places.find_map(|from| before[from].take())?;
            Some(moved.renumbered(last))
        };
        let probes = (0..).zip(newer).take(CHECKS_MAX);
        self.probes = probes
            .map(|(at, spec)| carried_over(at, spec).unwrap_or_else(|| Probe::new(spec).renumbered(last)))
            .collect();
    }

    /// The present state of all checks.
    pub fn checks(&self) -> AllocChecks {
        let group = &self.run.group;
        let checks = group.checks.iter().zip(&self.probes);
        AllocChecks {
            checks: checks.map(|(spec, probe)| probe.status(spec)).collect(),
            group: group.group.clone(),
        }
    }

    /// What one of them asks, unless that is no question any more.
    pub fn check(&self, of: CheckRef) -> Option<&CheckSpec> {
        self.run.group.checks.get(usize::from(of.check))
    }

    /// Since when what a check is about runs: its task, or all main tasks and sidecars that have not ended.
    pub fn check_subject(&self, check: usize) -> Option<u64> {
        let name = &self.run.group.checks.get(check)?.task;
        let mut since_ns = None;
        for task in
            (0..self.tasks.len()).filter(|task| self.is_about(name, *task)).map(|task| &self.tasks[task])
        {
            match (task.phase, task.kill) {
                (Phase::Running, Kill::No) => since_ns = since_ns.max(Some(task.since_ns)),
                (Phase::Dead, _) => {}
                _ => return None,
            }
        }
        since_ns
    }

    fn is_about(&self, name: &str, task: usize) -> bool {
        if name.is_empty() { self.serves(task) } else { self.run.group.tasks[task].name == name }
    }

    /// Asks what is due, and lets rest what is about nothing that runs.
    pub(super) fn run_checks(&mut self, now_ns: u64, actions: &mut Vec<Action>) {
        for check in 0..self.probes.len() {
            let subject = self.check_subject(check).filter(|_| !self.stop && !self.lost);
            let spec = &self.run.group.checks[check];
            let probe = &mut self.probes[check];
            match subject {
                None if probe.is_off() => {}
                None => probe.end(spec),
                Some(_) if probe.is_off() => {
                    let span_ns = spec.interval_ms.saturating_mul(1_000_000).min(FIRST_AFTER_NS_MAX);
                    let random = u128::from(mix(self.seed, check as u64 + 1));
                    let after_ns = (u128::from(span_ns) * random) >> 64;
                    probe.begin(now_ns.saturating_add(after_ns as u64));
                }
                Some(_) => {}
            }
            if let Some(number) = self.probes[check].begin_run(now_ns) {
                let alloc = self.id();
                actions.push(Action::Check(CheckRef { alloc, check: check as u16, number }));
            }
        }
    }

    /// When the next one is to be asked.
    pub(super) fn checks_deadline(&self) -> Option<u64> {
        self.probes.iter().filter_map(Probe::deadline).min()
    }

    pub(in crate::lifecycle) fn on_checked(&mut self, of: CheckRef, answer: CheckResult, now_ns: u64) {
        let check = usize::from(of.check);
        let Some(since_ns) = self.check_subject(check) else { return };
        let spec = &self.run.group.checks[check];
        let Some(probe) = self.probes.get_mut(check) else { return };
        let grace_ms = spec.restart.map_or(0, |restart| restart.grace_ms);
        let graced = now_ns < since_ns.saturating_add(grace_ms.saturating_mul(1_000_000));
        if probe.on_answer(spec, of.number, answer, graced, now_ns) {
            self.restart_unhealthy(check, now_ns);
        }
    }

    /// Ends the tasks that a check is about; their restart policy says whether and when they start again.
    fn restart_unhealthy(&mut self, check: usize, now_ns: u64) {
        let CheckSpec { name, task: named, .. } = &self.run.group.checks[check];
        let (message, named) = (format!("healthcheck: check {name:?} unhealthy"), named.clone());
        for task in 0..self.tasks.len() {
            let about = self.is_about(&named, task);
            let known = &self.tasks[task];
            if about
                && known.phase == Phase::Running
                && known.kill == Kill::No
                && known.restart == Restart::No
            {
                self.tasks[task].restart = Restart::Unhealthy;
                self.note(task, event(TaskEventKind::RestartSignaled, now_ns, message.clone()));
                self.dirty = true;
            }
        }
    }

    /// A check that keeps the allocation from being healthy.
    pub(super) fn failing_check(&self) -> Option<(&CheckSpec, CheckState)> {
        let checks = self.run.group.checks.iter().zip(&self.probes);
        let mut failing = checks.filter(|(spec, probe)| match (spec.need(), probe.state()) {
            (CheckNeed::Nothing, _) | (_, CheckState::Passing) => false,
            (need, state) => !(need == CheckNeed::Warning && state == CheckState::Warning),
        });
        failing.next().map(|(spec, probe)| (spec, probe.state()))
    }
}
