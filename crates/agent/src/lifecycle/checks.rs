//! The state of one check: when it runs, and what its results amount to.

use berth_api::agent::{CheckSpec, CheckState, CheckStatus};

use super::CheckResult;
use super::history::cut;

/// Checks of one group that are asked; a server takes no more.
pub const CHECKS_MAX: usize = 64;

/// How much of an answer is kept.
pub const OUTPUT_BYTES_MAX: usize = 1_024;

/// A check that fails as soon as its task starts is asked again after its interval: its first question waits no longer
/// than this, so that allocations that start together do not ask together.
pub(super) const FIRST_AFTER_NS_MAX: u64 = 1_000_000_000;

/// Whether and when the check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProbeSchedule {
    /// What it is about does not run.
    Off,
    /// At that time: nanoseconds since the Unix epoch.
    DueAt(u64),
    /// It was started then, and has no result yet.
    Running { at_ns: u64 },
}

/// One check of one allocation. Nothing of it outlives the agent: it asks again.
#[derive(Debug)]
pub(super) struct Probe {
    state: CheckState,
    schedule: ProbeSchedule,
    number: u32,
    /// Successes in a row.
    successes: u32,
    /// Failures in a row.
    failures: u32,
    /// Answers in a row that call for a restart.
    unhealthy: u32,
    last: Option<Box<CheckResult>>,
}

impl Probe {
    pub(super) fn new(spec: &CheckSpec) -> Self {
        let (successes, failures, unhealthy) = (0, 0, 0);
        Self {
            state: spec.initial(),
            schedule: ProbeSchedule::Off,
            number: 0,
            successes,
            failures,
            unhealthy,
            last: None,
        }
    }

    /// The number of its last run.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// The same in another place: no answer to a question up to `last` is meant for it, and it asks its own again.
    pub(super) fn renumbered(self, last: u32) -> Self {
        let schedule = if let ProbeSchedule::Running { at_ns } = self.schedule {
            ProbeSchedule::DueAt(at_ns)
        } else {
            self.schedule
        };
        Self { number: last, schedule, ..self }
    }

    pub(super) fn state(&self) -> CheckState {
        self.state
    }

    /// When it is to be asked next: nanoseconds since the Unix epoch.
    pub(super) fn deadline(&self) -> Option<u64> {
        if let ProbeSchedule::DueAt(at_ns) = self.schedule { Some(at_ns) } else { None }
    }

    pub(super) fn is_off(&self) -> bool {
        self.schedule == ProbeSchedule::Off
    }

    /// What it is about runs from now on.
    pub(super) fn begin(&mut self, at_ns: u64) {
        self.schedule = ProbeSchedule::DueAt(at_ns);
    }

    /// What it is about has ended: all that was answered is void.
    pub(super) fn end(&mut self, spec: &CheckSpec) {
        let number = self.number;
        *self = Self { number, ..Self::new(spec) };
    }

    /// The number of the question that is due, if one is.
    pub(super) fn begin_run(&mut self, now_ns: u64) -> Option<u32> {
        self.deadline().filter(|at_ns| *at_ns <= now_ns)?;
        self.schedule = ProbeSchedule::Running { at_ns: now_ns };
        self.number = self.number.wrapping_add(1);
        Some(self.number)
    }

    /// Takes an answer in; `graced` says that it cannot call for a restart. Whether it does.
    pub(super) fn on_answer(
        &mut self,
        spec: &CheckSpec,
        number: u32,
        answer: CheckResult,
        graced: bool,
        now_ns: u64,
    ) -> bool {
        let ProbeSchedule::Running { at_ns } = self.schedule else { return false };
        if number != self.number {
            return false;
        }
        let interval_ns = spec.interval_ms.saturating_mul(1_000_000);
        self.schedule = ProbeSchedule::DueAt(at_ns.saturating_add(interval_ns).max(now_ns));
        self.count(spec, answer.state);
        let calls = self.calls_for_restart(spec, answer.state, graced);
        self.last = Some(Box::new(CheckResult { output: cut(answer.output, OUTPUT_BYTES_MAX), ..answer }));
        calls
    }

    fn count(&mut self, spec: &CheckSpec, answered: CheckState) {
        match answered {
            CheckState::Passing => (self.successes, self.failures) = (self.successes.saturating_add(1), 0),
            CheckState::Critical => (self.successes, self.failures) = (0, self.failures.saturating_add(1)),
            CheckState::Warning | CheckState::Pending => (self.successes, self.failures) = (0, 0),
        }
        match answered {
            CheckState::Passing if self.successes < spec.success_before_passing.max(1) => {}
            CheckState::Critical if self.failures < spec.failures_before_critical.max(1) => {}
            answered => self.state = answered,
        }
    }

    fn calls_for_restart(&mut self, spec: &CheckSpec, answered: CheckState, graced: bool) -> bool {
        let Some(restart) = spec.restart else { return false };
        let is_failure = match answered {
            CheckState::Critical => true,
            CheckState::Warning => !restart.ignore_warnings,
            CheckState::Passing | CheckState::Pending => false,
        };
        self.unhealthy = if is_failure && !graced { self.unhealthy + 1 } else { 0 };
        let calls = self.unhealthy >= restart.limit.max(1);
        if calls {
            self.unhealthy = 0;
        }
        calls
    }

    pub(super) fn status(&self, spec: &CheckSpec) -> CheckStatus {
        let last = self.last.as_deref();
        CheckStatus {
            service: spec.service.clone(),
            name: spec.name.clone(),
            task: spec.task.clone(),
            state: self.state as i32,
            code: last.map_or(0, |last| last.code),
            output: last.map_or_else(String::new, |last| last.output.clone()),
            at_ns: last.map_or(0, |last| last.at_ns),
            ignored: spec.need() == berth_api::agent::CheckNeed::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use berth_api::agent::CheckRestartSpec;

    use super::*;

    fn spec() -> CheckSpec {
        CheckSpec { interval_ms: 1_000, ..CheckSpec::default() }
    }

    fn answers(spec: &CheckSpec, answers: &str) -> Vec<(CheckState, bool)> {
        let mut probe = Probe::new(spec);
        probe.begin(0);
        let lines = answers.chars().enumerate().map(|(second, answered)| {
            let now_ns = second as u64 * 1_000_000_000;
            let number = probe.begin_run(now_ns).expect("it is its turn");
            let state = match answered {
                'p' => CheckState::Passing,
                'w' => CheckState::Warning,
                _ => CheckState::Critical,
            };
            let answer = CheckResult { state, code: 0, output: String::new(), at_ns: now_ns };
            let restarts = probe.on_answer(spec, number, answer, false, now_ns);
            (probe.state(), restarts)
        });
        lines.collect()
    }

    fn states(spec: &CheckSpec, of: &str) -> String {
        let letter = |state| match state {
            CheckState::Passing => 'p',
            CheckState::Warning => 'w',
            CheckState::Critical => 'c',
            CheckState::Pending => '-',
        };
        answers(spec, of).into_iter().map(|(state, _)| letter(state)).collect()
    }

    #[test]
    fn one_answer_decides_unless_more_are_asked_for() {
        assert_eq!(states(&spec(), "pcwp"), "pcwp");
        let slow = CheckSpec { success_before_passing: 3, failures_before_critical: 2, ..spec() };
        assert_eq!(states(&slow, "ppcppp"), "-----p");
        assert_eq!(states(&slow, "pppcpcc"), "--ppppc");
    }

    #[test]
    fn bad_answers_in_a_row_call_for_a_restart_once() {
        let restart = |limit, ignore_warnings| CheckSpec {
            restart: Some(CheckRestartSpec { limit, grace_ms: 0, ignore_warnings }),
            ..spec()
        };
        let calls = |spec: &CheckSpec, of: &str| -> String {
            answers(spec, of).into_iter().map(|(_, calls)| if calls { 'R' } else { '.' }).collect()
        };
        assert_eq!(calls(&restart(2, false), "ccpcwcc"), ".R..R.R");
        assert_eq!(calls(&restart(2, true), "cwcwcc"), ".....R");
        assert_eq!(calls(&spec(), "cccc"), "....");
    }

    #[test]
    fn answers_to_earlier_questions_are_stale() {
        let spec = spec();
        let mut probe = Probe::new(&spec);
        probe.begin(5);
        assert_eq!(probe.begin_run(4), None);
        let number = probe.begin_run(5).unwrap();
        probe.end(&spec);
        probe.begin(6);
        let again = probe.begin_run(6).unwrap();
        let answer = || CheckResult { state: CheckState::Passing, code: 0, output: String::new(), at_ns: 7 };
        probe.on_answer(&spec, number, answer(), false, 7);
        assert_eq!(probe.state(), CheckState::Pending);
        probe.on_answer(&spec, again, answer(), false, 7);
        assert_eq!(probe.state(), CheckState::Passing);
    }

    #[test]
    fn the_interval_is_between_questions_and_a_slow_answer_delays_the_next() {
        let spec = spec();
        let mut probe = Probe::new(&spec);
        probe.begin(0);
        let answer = || CheckResult { state: CheckState::Passing, code: 0, output: String::new(), at_ns: 0 };
        let number = probe.begin_run(0).unwrap();
        assert_eq!(probe.deadline(), None);
        probe.on_answer(&spec, number, answer(), false, 400_000_000);
        assert_eq!(probe.deadline(), Some(1_000_000_000));
        let number = probe.begin_run(1_000_000_000).unwrap();
        probe.on_answer(&spec, number, answer(), false, 5_000_000_000);
        assert_eq!(probe.deadline(), Some(5_000_000_000));
    }
}
