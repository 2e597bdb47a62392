//! The status of checks, in Nomad's form.

use std::collections::BTreeMap;

use berth_api::{
    agent::{AllocChecks, CheckState, CheckStatus},
    http::AllocCheck,
};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The checks of an allocation by their ids, which are their places among the group's: two digits, so that they sort.
pub fn alloc_checks(checks: &AllocChecks) -> BTreeMap<String, AllocCheck> {
    let known = |(place, check): (usize, &CheckStatus)| {
        let id = format!("{place:02}");
        let status = match check.state() {
            CheckState::Pending => "pending",
            CheckState::Passing => "success",
            CheckState::Warning => "warning",
            CheckState::Critical => "failure",
        };
        let check = AllocCheck {
            id: id.clone(),
            check: check.name.clone(),
            group: checks.group.clone(),
            mode: if check.ignored { "readiness" } else { "healthiness" }.to_owned(),
            output: check.output.clone(),
            service: check.service.clone(),
            task: check.task.clone(),
            status: status.to_owned(),
            status_code: check.code,
            timestamp: i64::try_from(check.at_ns / SECOND_NS).unwrap_or(i64::MAX),
        };
        (id, check)
    };
    checks.checks.iter().enumerate().map(known).collect()
}
