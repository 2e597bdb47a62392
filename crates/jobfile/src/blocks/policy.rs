//! What happens when a task or an allocation ends, and what is kept of it.

use std::time::Duration;

use berth_duration::exact;
use berth_model::job::{
    DelayFunction, EphemeralDisk, LogConfig, RESCHEDULE_ATTEMPTS_MAX, ReschedulePolicy, RestartMode,
    RestartPolicy,
};

use crate::{
    record::{COUNT, Fields, Record, Words},
    schema::{Body, EPHEMERAL_DISK, LOGS, RESCHEDULE, RESTART, Schema},
};

/// A shorter window would not bound anything.
const INTERVAL_MIN: Duration = Duration::from_secs(5);
/// Replacing faster would only load the servers.
const DELAY_MIN: Duration = Duration::from_secs(5);

const MODES: &Words<RestartMode> = &[("fail", RestartMode::Fail), ("delay", RestartMode::Delay)];

const BACKOFFS: &Words<DelayFunction> = &[
    ("constant", DelayFunction::Constant),
    ("exponential", DelayFunction::Exponential),
    ("fibonacci", DelayFunction::Fibonacci),
];

impl Record for RestartPolicy {
    fn schema() -> &'static Schema {
        &RESTART
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.whole("attempts", &mut self.attempts, COUNT);
        fields.duration("interval", &mut self.interval);
        fields.duration("delay", &mut self.delay);
        fields.word("mode", &mut self.mode, MODES);
        fields.flag("render_templates", &mut self.render_templates);
    }

    fn check(&self, body: &Body<'_>) {
        let Self { attempts, interval, delay, .. } = *self;
        if attempts == 0 {
            return;
        }
        if interval < INTERVAL_MIN {
            let (interval, min) = (exact(interval), exact(INTERVAL_MIN));
            let message = format!("restart interval is {interval}, but must be at least {min}");
            body.report.error(body.at("interval"), message);
        } else if delay.saturating_mul(attempts) > interval {
            let message = format!(
                "{attempts} restarts with a delay of {} do not fit into {}",
                exact(delay),
                exact(interval)
            );
            let help = "lengthen the interval, or shorten the delay";
            body.report.error_with_help(body.at("attempts"), message, help);
        }
    }
}

impl Record for ReschedulePolicy {
    fn schema() -> &'static Schema {
        &RESCHEDULE
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.whole("attempts", &mut self.attempts, COUNT);
        fields.duration("interval", &mut self.interval);
        fields.duration("delay", &mut self.delay);
        fields.word("delay_function", &mut self.backoff, BACKOFFS);
        fields.duration("max_delay", &mut self.max_delay);
        fields.flag("unlimited", &mut self.unlimited);
    }

    fn check(&self, body: &Body<'_>) {
        let Self { attempts, interval, delay, backoff, max_delay, unlimited } = *self;
        if !unlimited && attempts == 0 {
            return;
        }
        if !unlimited && attempts > RESCHEDULE_ATTEMPTS_MAX {
            let message =
                format!("reschedule attempts are {attempts}, but may be {RESCHEDULE_ATTEMPTS_MAX} at most");
            let help = "write fewer, or `unlimited = true`";
            body.report.error_with_help(body.at("attempts"), message, help);
        }
        if !unlimited && interval.is_zero() {
            let help = "write `interval = ...`, or `unlimited = true`";
            body.report.error_with_help(
                body.at("attempts"),
                "reschedule attempts are given without an interval",
                help,
            );
        }
        if delay < DELAY_MIN {
            let (delay, min) = (exact(delay), exact(DELAY_MIN));
            let message = format!("reschedule delay is {delay}, but must be at least {min}");
            body.report.error(body.at("delay"), message);
        }
        if backoff != DelayFunction::Constant && max_delay < delay {
            let (delay, max) = (exact(delay), exact(max_delay));
            let message = format!("reschedule max_delay is {max}, less than the delay of {delay}");
            body.report.error(body.at("max_delay"), message);
        }
    }
}

impl Record for EphemeralDisk {
    fn schema() -> &'static Schema {
        &EPHEMERAL_DISK
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.whole("size", &mut self.size_mb, COUNT);
        fields.flag("sticky", &mut self.sticky);
        fields.flag("migrate", &mut self.migrate);
    }
}

impl Record for LogConfig {
    fn schema() -> &'static Schema {
        &LOGS
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.whole("max_files", &mut self.max_files, 1..=i64::from(u32::MAX));
        fields.whole("max_file_size", &mut self.max_file_size_mb, 1..=i64::from(u32::MAX));
        fields.flag("disabled", &mut self.disabled);
    }
}
