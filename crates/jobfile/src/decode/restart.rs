//! When a task is started again on its node.

use std::time::Duration;

use berth_model::job::{RestartMode, RestartPolicy};

use crate::schema::Body;

/// A shorter window would not bound anything.
const INTERVAL_MIN: Duration = Duration::from_secs(5);

pub(crate) const MODES: &[(&str, RestartMode)] =
    &[("fail", RestartMode::Fail), ("delay", RestartMode::Delay)];

/// The policy of a block; what it leaves out is as in `default`.
pub(super) fn policy(body: Option<Body<'_>>, default: RestartPolicy) -> RestartPolicy {
    let Some(body) = body else { return default };
    let policy = RestartPolicy {
        attempts: body.number("attempts", 0..=i64::from(u32::MAX)).unwrap_or(default.attempts),
        interval: body.duration("interval").unwrap_or(default.interval),
        delay: body.duration("delay").unwrap_or(default.delay),
        mode: body.choice("mode", MODES).unwrap_or(default.mode),
    };
    check(&body, policy);
    policy
}

fn check(body: &Body<'_>, RestartPolicy { attempts, interval, delay, .. }: RestartPolicy) {
    if attempts == 0 {
        return;
    }
    if interval < INTERVAL_MIN {
        let message = format!("restart interval is {interval:?}, but must be at least {INTERVAL_MIN:?}");
        body.report.error(body.at("interval"), message);
    } else if delay.saturating_mul(attempts) > interval {
        let message = format!("{attempts} restarts with a delay of {delay:?} do not fit into {interval:?}");
        body.report.error_with_help(
            body.at("attempts"),
            message,
            "lengthen the interval, or shorten the delay",
        );
    }
}
