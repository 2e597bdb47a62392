//! `mock_driver`: pretends to run a task. What it does is a pure schedule, which the agent and the lab play alike.

use berth_api::agent::{CheckState, Refusal, RefusalKind};
use serde::Deserialize;

use super::settings::{duration_ns, parse};
use super::{Driver, Launch, TaskContext};
use crate::lifecycle::{Alloc, CheckRef, CheckResult, Exit, StartFailure, StartFailureKind};
use crate::network::NetworkNeed;

/// What a mock task does.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MockSettings {
    /// How often it reports how far its start has come, before all else; Nomad's does not know this.
    start_events: u16,
    /// How far these are apart.
    #[serde(deserialize_with = "duration_ns", rename = "start_event_gap")]
    start_event_gap_ns: u64,
    /// How long the start takes after that.
    #[serde(deserialize_with = "duration_ns", rename = "start_block_for")]
    start_block_ns: u64,
    /// Why it does not start.
    start_error: String,
    /// Whether another try may help.
    start_error_recoverable: bool,
    /// How long it runs.
    #[serde(deserialize_with = "duration_ns", rename = "run_for")]
    run_for_ns: u64,
    exit_code: i32,
    exit_signal: i32,
    exit_err_msg: String,
    /// What sending it a signal, other than to stop it, is answered with.
    signal_error: String,
    /// How long after its start its checks fail; Nomad's does not know this.
    #[serde(deserialize_with = "duration_ns", rename = "checks_fail_for")]
    checks_fail_for_ns: u64,
    /// How long after its start its checks fail again, for good; 0 for never.
    #[serde(deserialize_with = "duration_ns", rename = "checks_fail_after")]
    checks_fail_after_ns: u64,
    /// How long it lives on once asked to stop.
    #[serde(deserialize_with = "duration_ns", rename = "kill_after")]
    kill_after_ns: u64,
    /// What it writes when it starts, and how often again.
    stdout_string: String,
    stdout_repeat: u64,
    #[serde(deserialize_with = "duration_ns", rename = "stdout_repeat_duration")]
    stdout_repeat_ns: u64,
}

/// Something that a mock task does at its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MockStep<'a> {
    /// It reports how far its start has come.
    Noted(String),
    /// The task counts as running.
    Started,
    /// The start fails; nothing follows.
    StartFailed(StartFailure),
    /// The task writes this to its standard output.
    Output(&'a str),
    /// It ended; nothing follows. The time of the exit is left to the player.
    Exited(Exit),
}

impl MockSettings {
    /// Reads a task's settings.
    ///
    /// # Errors
    /// When one is unknown or malformed; the message names it.
    pub fn parse(config_json: &str) -> Result<Self, StartFailure> {
        parse("mock_driver", config_json, &[])
    }

    /// The `number`-th step, from 0, and how many nanoseconds after the request to start it comes; none after the last.
    pub fn step(&self, number: u64) -> Option<(u64, MockStep<'_>)> {
        let events = u64::from(self.start_events);
        let Some(number) = number.checked_sub(events) else {
            let message = progress(number + 1, events);
            return Some((self.start_event_gap_ns.saturating_mul(number), MockStep::Noted(message)));
        };
        let start_ns = self.start_event_gap_ns.saturating_mul(events).saturating_add(self.start_block_ns);
        let (after_ns, step) = self.step_of_run(number)?;
        Some((start_ns.saturating_add(after_ns), step))
    }

    /// The steps from the start on, 0 being the start itself.
    fn step_of_run(&self, number: u64) -> Option<(u64, MockStep<'_>)> {
        let outputs = self.outputs();
        if number == 0 {
            return Some((0, self.start()));
        }
        if !self.start_error.is_empty() || number > outputs + 1 {
            return None;
        }
        if number == outputs + 1 {
            return Some((self.run_for_ns, MockStep::Exited(self.exit())));
        }
        Some(((number - 1) * self.stdout_repeat_ns, MockStep::Output(&self.stdout_string)))
    }

    fn start(&self) -> MockStep<'_> {
        if self.start_error.is_empty() {
            return MockStep::Started;
        }
        let recoverable = self.start_error_recoverable;
        let kind = if recoverable { StartFailureKind::Recoverable } else { StartFailureKind::Driver };
        MockStep::StartFailed(StartFailure { kind, message: self.start_error.clone() })
    }

    /// How often it writes before it ends.
    fn outputs(&self) -> u64 {
        if self.stdout_string.is_empty() {
            return 0;
        }
        let fit = self.run_for_ns.checked_div(self.stdout_repeat_ns).unwrap_or(u64::MAX);
        1 + self.stdout_repeat.min(fit)
    }

    fn exit(&self) -> Exit {
        let (exit_code, signal) = (self.exit_code, self.exit_signal);
        Exit { exit_code, signal, message: self.exit_err_msg.clone(), ..Exit::default() }
    }

    /// How many nanoseconds after the signal to stop it ends, with exit code 0.
    pub fn stop_after_ns(&self) -> u64 {
        self.kill_after_ns
    }

    /// How a check is answered once it has run for that many nanoseconds.
    fn on_check(&self, ran_ns: u64) -> (CheckState, &'static str) {
        let after_ns = self.checks_fail_after_ns;
        if ran_ns < self.checks_fail_for_ns || after_ns > 0 && ran_ns >= after_ns {
            (CheckState::Critical, "mock_driver: the check fails")
        } else {
            (CheckState::Passing, "mock_driver: the check passes")
        }
    }

    /// What comes of sending it any other signal.
    ///
    /// # Errors
    /// When its settings say so.
    pub fn on_signal(&self) -> Result<(), String> {
        if self.signal_error.is_empty() { Ok(()) } else { Err(self.signal_error.clone()) }
    }
}

/// How a check of a mock task is answered, or one of a group whose first task is one; none for any other check.
pub fn answer_check(alloc: &Alloc, of: CheckRef, now_ns: u64) -> Option<CheckResult> {
    let named = &alloc.check(of)?.task;
    let mut tasks = alloc.spec().group.tasks.iter();
    let task = tasks.find(|task| named.is_empty() || task.name == *named)?;
    if task.driver != MockDriver.name() {
        return None;
    }
    let ran_ns = now_ns.saturating_sub(alloc.check_subject(usize::from(of.check)).unwrap_or(now_ns));
    let (state, output) = match MockSettings::parse(&task.config_json) {
        Ok(settings) => settings.on_check(ran_ns),
        Err(_) => (CheckState::Critical, "mock_driver: its settings are wrong"),
    };
    Some(CheckResult { state, code: 0, output: output.to_owned(), at_ns: now_ns })
}

/// Why nobody runs a command within a mock task.
pub fn no_commands(task: &str) -> Refusal {
    let text = format!("task {task} is only pretended by mock_driver: no command can run within it");
    Refusal::new(RefusalKind::Invalid, text)
}

/// What is reported of a start that has come to its `number`-th event, from 1.
pub fn progress(number: u64, of: u64) -> String {
    format!("Preparing: {number} of {of}")
}

/// The driver of mock tasks.
#[derive(Debug)]
pub(super) struct MockDriver;

impl Driver for MockDriver {
    fn network(&self, _: &TaskContext<'_>) -> Result<NetworkNeed, StartFailure> {
        Ok(NetworkNeed::Nothing)
    }

    fn name(&self) -> &'static str {
        "mock_driver"
    }

    fn launch(&self, task: &TaskContext<'_>) -> Result<Launch, StartFailure> {
        MockSettings::parse(&task.config_json).map(Launch::Mock)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(config_json: &str, expected: &Expect) {
        let parsed = match MockSettings::parse(config_json) {
            Err(failure) => failure.message,
            Ok(mock) => {
                let steps = (0..).map_while(|number| mock.step(number));
                steps.map(|(at_ns, step)| format!("{:.1}s {step:?}\n", at_ns as f64 / 1e9)).collect()
            }
        };
        expected.assert_eq(&parsed);
    }

    #[test]
    fn a_task_starts_late_writes_and_fails() {
        check(
            r#"{"start_block_for": "1s", "run_for": "30s", "exit_code": 0, "exit_signal": 9, "kill_after": "3s",
                "exit_err_msg": "error on exit", "signal_error": "got signal", "stdout_repeat": 1,
                "stdout_repeat_duration": "10s", "stdout_string": "hello, world!\n"}"#,
            &expect![[r#"
                1.0s Started
                1.0s Output("hello, world!\n")
                11.0s Output("hello, world!\n")
                31.0s Exited(Exit { exit_code: 0, signal: 9, oom_killed: false, message: "error on exit", at_ns: 0 })
            "#]],
        );
        check(
            r#"{"start_events": 2, "start_event_gap": "100ms", "start_block_for": "1s", "run_for": "5s"}"#,
            &expect![[r#"
                0.0s Noted("Preparing: 1 of 2")
                0.1s Noted("Preparing: 2 of 2")
                1.2s Started
                6.2s Exited(Exit { exit_code: 0, signal: 0, oom_killed: false, message: "", at_ns: 0 })
            "#]],
        );
        check(
            r#"{"run_for": "5s", "stdout_repeat": 9, "stdout_repeat_duration": "4s", "stdout_string": "x"}"#,
            &expect![[r#"
            0.0s Started
            0.0s Output("x")
            4.0s Output("x")
            5.0s Exited(Exit { exit_code: 0, signal: 0, oom_killed: false, message: "", at_ns: 0 })
        "#]],
        );
    }

    #[test]
    fn a_start_may_fail_for_now_or_for_good() {
        check(
            r#"{"start_error": "no luck", "start_error_recoverable": true, "run_for": "1s"}"#,
            &expect![[r#"
            0.0s StartFailed(StartFailure { kind: Recoverable, message: "no luck" })
        "#]],
        );
        check(
            r#"{"start_error": "never"}"#,
            &expect![[r#"
            0.0s StartFailed(StartFailure { kind: Driver, message: "never" })
        "#]],
        );
    }

    #[test]
    fn unknown_and_malformed_settings_are_named() {
        check(
            r#"{"run_fro": "1s"}"#,
            &expect![
                "read the settings of mock_driver: unknown field `run_fro`, expected one of `start_events`, `start_event_gap`, `start_block_for`, `start_error`, `start_error_recoverable`, `run_for`, `exit_code`, `exit_signal`, `exit_err_msg`, `signal_error`, `checks_fail_for`, `checks_fail_after`, `kill_after`, `stdout_string`, `stdout_repeat`, `stdout_repeat_duration`"
            ],
        );
        check(
            r#"{"run_for": "1 second"}"#,
            &expect![[
                r#"read the settings of mock_driver: "1 second" is not a duration such as "30s" or "1m30s""#
            ]],
        );
        check(
            "",
            &expect![[r#"
            0.0s Started
            0.0s Exited(Exit { exit_code: 0, signal: 0, oom_killed: false, message: "", at_ns: 0 })
        "#]],
        );
    }
}
