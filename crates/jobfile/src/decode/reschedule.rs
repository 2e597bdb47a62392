//! When a failed allocation is replaced.

use std::time::Duration;

use berth_model::job::{Backoff, JobType, ReschedulePolicy};

use crate::schema::Body;

/// Replacing faster would only load the servers.
const DELAY_MIN: Duration = Duration::from_secs(5);

pub(crate) const BACKOFFS: &[(&str, Backoff)] = &[
    ("constant", Backoff::Constant),
    ("exponential", Backoff::Exponential),
    ("fibonacci", Backoff::Fibonacci),
];

/// The policy of a block; what it leaves out is as in the default for the type of job.
pub(super) fn policy(body: Option<Body<'_>>, job_type: JobType) -> ReschedulePolicy {
    let default = ReschedulePolicy::default_for(job_type);
    let Some(body) = body else { return default };
    let limited = body.has("attempts") || body.has("interval");
    let policy = ReschedulePolicy {
        attempts: body.number("attempts", 0..=i64::from(u32::MAX)).unwrap_or(default.attempts),
        interval: body.duration("interval").unwrap_or(default.interval),
        delay: body.duration("delay").unwrap_or(default.delay),
        backoff: body.choice("delay_function", BACKOFFS).unwrap_or(default.backoff),
        max_delay: body.duration("max_delay").unwrap_or(default.max_delay),
        // Who gives a limit wants one.
        unlimited: body.flag("unlimited").unwrap_or(default.unlimited && !limited),
    };
    if job_type.is_per_node() && policy != default {
        let message = format!("a {} job is never rescheduled", job_type.as_str());
        body.report.error_with_help(
            body.at_self(),
            message,
            "it runs on every node already: take the block out",
        );
    } else {
        check(&body, policy);
    }
    policy
}

fn check(body: &Body<'_>, policy: ReschedulePolicy) {
    let ReschedulePolicy { attempts, interval, delay, backoff, max_delay, unlimited } = policy;
    if !unlimited && attempts == 0 {
        return;
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
        let message = format!("reschedule delay is {delay:?}, but must be at least {DELAY_MIN:?}");
        body.report.error(body.at("delay"), message);
    }
    if backoff != Backoff::Constant && max_delay < delay {
        let message = format!("reschedule max_delay is {max_delay:?}, less than the delay of {delay:?}");
        body.report.error(body.at("max_delay"), message);
    }
}
