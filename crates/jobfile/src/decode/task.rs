//! Tasks.

use std::time::Duration;

use berth_model::job::{LogConfig, RestartPolicy, Task};

use super::{constraint, name, resources, restart};
use crate::{
    diagnostic::quoted,
    schema::{Body, CONSTRAINT, LOGS, RESOURCES, RESTART},
    suggest::nearest,
};

/// Between the kill signal and SIGKILL, unless the task says.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Drivers to name when none is given; which ones there are is for the nodes to say.
const DRIVERS: &str = "container, docker, raw_exec or mock_driver";

const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPROF",
    "SIGPWR",
    "SIGQUIT",
    "SIGSEGV",
    "SIGSTKFLT",
    "SIGSTOP",
    "SIGSYS",
    "SIGTERM",
    "SIGTRAP",
    "SIGTSTP",
    "SIGTTIN",
    "SIGTTOU",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// A task; `restart` is its group's policy.
pub(super) fn task(body: &Body<'_>, restart: RestartPolicy) -> Task {
    Task {
        name: name::label(body),
        driver: driver(body),
        config: body.settings("config"),
        user: body.text("user").unwrap_or_default(),
        env: env(body),
        constraints: constraint::constraints(&body.blocks("constraint", &CONSTRAINT)),
        resources: resources::resources(body.block("resources", &RESOURCES)),
        restart: restart::policy(body.block("restart", &RESTART), restart),
        meta: body.text_map("meta"),
        kill_timeout: body.duration("kill_timeout").unwrap_or(KILL_TIMEOUT),
        kill_signal: kill_signal(body),
        logs: body.block("logs", &LOGS).map(|block| logs(&block)).unwrap_or_default(),
        leader: body.flag("leader").unwrap_or(false),
        shutdown_delay: body.duration("shutdown_delay").unwrap_or_default(),
    }
}

fn driver(body: &Body<'_>) -> String {
    if body.lacks("driver") {
        let help = format!("write `{} = ...` with the name of a driver: {DRIVERS}", body.word("driver"));
        body.report.error_with_help(body.at("driver"), "task has no driver", help);
    }
    body.text("driver").unwrap_or_default()
}

fn env(body: &Body<'_>) -> std::collections::BTreeMap<String, String> {
    let env = body.text_map("env");
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains('=')) {
        body.report.error(body.at("env"), format!("{} cannot be the name of a variable", quoted(name)));
    }
    env
}

fn kill_signal(body: &Body<'_>) -> String {
    let signal = body.text("kill_signal").unwrap_or_default();
    if !signal.is_empty() && !SIGNALS.contains(&signal.as_str()) {
        let full = format!("SIG{}", signal.trim_start_matches("SIG"));
        let meant = nearest(&full, SIGNALS.iter().copied()).unwrap_or("SIGTERM");
        let message = format!("{} is not a signal", quoted(&signal));
        body.report.error_with_help(body.at("kill_signal"), message, format!("did you mean `{meant}`?"));
    }
    signal
}

fn logs(body: &Body<'_>) -> LogConfig {
    let default = LogConfig::default();
    LogConfig {
        max_files: body.number("max_files", 1..=i64::from(u32::MAX)).unwrap_or(default.max_files),
        max_file_size_mb: body
            .number("max_file_size", 1..=i64::from(u32::MAX))
            .unwrap_or(default.max_file_size_mb),
        disabled: body.flag("disabled").unwrap_or(default.disabled),
    }
}
