//! A running mock task: the schedule of its settings, with a random delay before it, until it ends or fails at random.

use std::sync::Arc;

use berth_agent::{
    drivers::mock::{MockSettings, MockStep, progress},
    lifecycle::{Exit, StartFailure, TaskRef},
};

use super::behaviour::{StartOutcome, TaskBehaviour};

/// The settings of a task's start, or the failure because they are invalid.
pub(super) type MockSetup = Result<Arc<MockSettings>, Box<StartFailure>>;

/// One start of a task.
#[derive(Debug)]
pub(super) struct MockTask {
    pub of: TaskRef,
    /// It is being stopped.
    pub stopping: bool,
    setup: MockSetup,
    outcome: StartOutcome,
    /// When chance's next event is due, or after the last of them, when the settings' schedule begins.
    from_ns: u64,
    started_ns: Option<u64>,
    /// How many steps it has taken.
    taken: u64,
}

impl MockTask {
    pub fn new(of: TaskRef, setup: MockSetup, outcome: StartOutcome, now_ns: u64) -> Self {
        let from_ns = if setup.is_ok() { now_ns.saturating_add(outcome.delay_ns) } else { now_ns };
        Self { of, stopping: false, setup, outcome, from_ns, started_ns: None, taken: 0 }
    }

    /// What it does next, and when; nothing once it has ended.
    pub fn next(&self) -> Option<(u64, MockStep<'_>)> {
        let settings = match &self.setup {
            Ok(settings) => settings,
            Err(failure) => return Some((self.from_ns, MockStep::StartFailed((**failure).clone()))),
        };
        let events = u64::from(self.outcome.events);
        let Some(number) = self.taken.checked_sub(events) else {
            return Some((self.from_ns, MockStep::Noted(progress(self.taken + 1, events))));
        };
        let (after_ns, step) = settings.step(number)?;
        let at_ns = self.from_ns.saturating_add(after_ns);
        match self.fails_at_ns() {
            Some(fails_at_ns) if fails_at_ns <= at_ns => Some((fails_at_ns, MockStep::Exited(failure()))),
            _ => Some((at_ns, step)),
        }
    }

    fn fails_at_ns(&self) -> Option<u64> {
        Some(self.started_ns?.saturating_add(self.outcome.fails_after_ns?))
    }

    /// It has done what it was to do next.
    pub fn take(&mut self, tasks: &TaskBehaviour) {
        match self.next() {
            Some((at_ns, MockStep::Started)) => self.started_ns = Some(at_ns),
            Some((_, MockStep::Noted(_))) => {
                if let Ok(event) = u16::try_from(self.taken)
                    && event < self.outcome.events
                {
                    self.from_ns = self.from_ns.saturating_add(tasks.gap_ns(&self.outcome, event));
                }
            }
            _ => {}
        }
        self.taken += 1;
    }

    /// What comes of sending it a signal that is none of its end.
    pub fn on_signal(&self) -> Result<(), String> {
        self.setup.as_ref().map_or(Ok(()), |settings| settings.on_signal())
    }

    /// How long it lives on once it is stopped: nanoseconds.
    pub fn stop_after_ns(&self) -> u64 {
        self.setup.as_ref().map_or(0, |settings| settings.stop_after_ns())
    }
}

fn failure() -> Exit {
    Exit { exit_code: 1, ..Exit::default() }
}

#[cfg(test)]
mod tests {
    use berth_api::agent::AllocId;
    use expect_test::{Expect, expect};

    use super::*;

    fn check(tasks: TaskBehaviour, settings: &str, expected: &Expect) {
        let of = TaskRef { alloc: AllocId([1; 16]), task: 0, attempt: 1 };
        let settings = Arc::new(MockSettings::parse(settings).unwrap());
        let mut mock = MockTask::new(of, Ok(settings), tasks.outcome(1, of), 0);
        let mut steps = String::new();
        while let Some((at_ns, step)) = mock.next() {
            steps += &format!("{:.1}s {step:?}\n", at_ns as f64 / 1e9);
            let ended = matches!(step, MockStep::Exited(_) | MockStep::StartFailed(_));
            mock.take(&tasks);
            if ended {
                break;
            }
        }
        expected.assert_eq(&steps);
    }

    #[test]
    fn chance_comes_before_the_schedule_and_may_end_it() {
        let span = |text: &str| text.parse().unwrap();
        let tasks = TaskBehaviour {
            start_delay: span("2s"),
            events: 2,
            event_gap: span("300ms"),
            failure_rate: 1.0,
            failure_after: span("5s"),
        };
        check(
            tasks,
            r#"{"start_block_for": "1s", "run_for": "1h", "start_events": 1}"#,
            &expect![[r#"
            2.0s Noted("Preparing: 1 of 2")
            2.3s Noted("Preparing: 2 of 2")
            2.6s Noted("Preparing: 1 of 1")
            3.6s Started
            8.6s Exited(Exit { exit_code: 1, signal: 0, oom_killed: false, message: "", at_ns: 0 })
        "#]],
        );
        check(
            TaskBehaviour { failure_rate: 0.0, ..tasks },
            r#"{"run_for": "1h"}"#,
            &expect![[r#"
            2.0s Noted("Preparing: 1 of 2")
            2.3s Noted("Preparing: 2 of 2")
            2.6s Started
            3602.6s Exited(Exit { exit_code: 0, signal: 0, oom_killed: false, message: "", at_ns: 0 })
        "#]],
        );
        check(
            tasks,
            r#"{"run_for": "3s"}"#,
            &expect![[r#"
            2.0s Noted("Preparing: 1 of 2")
            2.3s Noted("Preparing: 2 of 2")
            2.6s Started
            5.6s Exited(Exit { exit_code: 0, signal: 0, oom_killed: false, message: "", at_ns: 0 })
        "#]],
        );
    }

    #[test]
    fn without_chance_a_task_does_what_its_settings_say() {
        check(
            TaskBehaviour::default(),
            r#"{"start_block_for": "1s", "run_for": "2s", "exit_code": 7}"#,
            &expect![[r#"
                1.0s Started
                3.0s Exited(Exit { exit_code: 7, signal: 0, oom_killed: false, message: "", at_ns: 0 })
            "#]],
        );
    }
}
