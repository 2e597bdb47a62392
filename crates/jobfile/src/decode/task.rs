//! Tasks.

use std::{
    collections::{BTreeMap, HashSet},
    time::Duration,
};

use berth_model::{
    job::{
        IDENTITY_DEFAULT, Identity, IgnoredSettings, JobType, Lifecycle, LogConfig, RestartPolicy, Scaling,
        Secret, Task,
    },
    value::Value,
};

use super::{affinity, constraint, name, resources};
use crate::blocks::{check_identities, check_inside, check_secrets, services, with_defaults};
use crate::{
    diagnostic::quoted,
    drivers,
    schema::{Body, STORED_OF_TASK},
    suggest::nearest,
};

/// Between the kill signal and SIGKILL, unless the task says.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// Drivers to name when none is given; which ones there are is for the nodes to say.
const DRIVERS: &str = "container, docker, exec, raw_exec or mock_driver";

const SIGNALS: &[&str] = &[
    "SIGABRT",
    "SIGALRM",
    "SIGBUS",
    "SIGCHLD",
    "SIGCLD",
    "SIGCONT",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGIO",
    "SIGIOT",
    "SIGKILL",
    "SIGPIPE",
    "SIGPOLL",
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
    "SIGUNUSED",
    "SIGURG",
    "SIGUSR1",
    "SIGUSR2",
    "SIGVTALRM",
    "SIGWINCH",
    "SIGXCPU",
    "SIGXFSZ",
];

/// What tasks have from their group unless they say otherwise.
#[derive(Debug)]
pub(super) struct GroupDefaults {
    /// The names of the job and of the group.
    pub owner: [String; 2],
    pub job_type: JobType,
    /// Whether dispatches launch the job, or have launched it.
    pub is_dispatched: bool,
    pub restart: RestartPolicy,
    pub vault: Option<Value>,
    pub secrets: Vec<Secret>,
}

pub(super) fn task(body: &Body<'_>, group: &GroupDefaults) -> Task {
    let name = name::label(body);
    let task = Task {
        driver: driver(body),
        config: body.settings("config"),
        user: body.text("user").unwrap_or_default(),
        env: env(body),
        constraints: constraint::constraints(body),
        resources: resources::resources(body.block("resources")),
        restart: body.block("restart").map_or(group.restart, |block| block.record_over(group.restart)),
        meta: body.text_map("meta"),
        kill_timeout: body.duration("kill_timeout").unwrap_or(KILL_TIMEOUT),
        kill_signal: kill_signal(body),
        logs: logs(body),
        leader: body.flag("leader").unwrap_or(false),
        shutdown_delay: body.duration("shutdown_delay").unwrap_or_default(),
        affinities: affinity::affinities(body, group.job_type),
        lifecycle: lifecycle(body),
        artifacts: body.records("artifact"),
        templates: body.records("template"),
        volume_mounts: body.records("volume_mount"),
        dispatch_payload: dispatch_payload(body, group.is_dispatched),
        services: services(body, &[&group.owner[0], &group.owner[1], &name]),
        identities: identities(body),
        scaling: scaling(body),
        kept: kept(body, group.vault.as_ref()),
        secrets: secrets(body, &group.secrets),
        name,
    };
    drivers::check(body, &task.driver);
    if task.leader && task.lifecycle.is_some() {
        let message = "a task with a lifecycle block cannot be the leader";
        body.report.error(body.at("leader"), message);
    }
    task
}

/// The settings of Vault in a job, group or task.
pub(super) fn vault(body: &Body<'_>) -> Option<Value> {
    with_defaults(body.kept(&["vault"])).into_values().next()
}

fn kept(body: &Body<'_>, vault: Option<&Value>) -> IgnoredSettings {
    let mut kept = body.kept(STORED_OF_TASK);
    if let Some(vault) = vault {
        kept.entry("Vault".to_owned()).or_insert_with(|| vault.clone());
    }
    with_defaults(kept)
}

fn lifecycle(body: &Body<'_>) -> Option<Lifecycle> {
    let block = body.block("lifecycle")?;
    let lifecycle: Lifecycle = block.record();
    if lifecycle.sidecar && !lifecycle.is_sidecar() {
        let message = "`sidecar` changes nothing of a poststop task";
        block.report.warn(
            block.at("sidecar"),
            message,
            "leave it out: nothing is left that it could run beside",
        );
    }
    Some(lifecycle)
}

fn logs(body: &Body<'_>) -> LogConfig {
    let Some(block) = body.block("logs") else { return LogConfig::default() };
    let logs: LogConfig = block.record();
    // Before there was `disabled`, it was called `enabled`.
    let enabled = block.flag("enabled").filter(|_| !block.has("disabled"));
    LogConfig { disabled: enabled.map_or(logs.disabled, |enabled| !enabled), ..logs }
}

fn dispatch_payload(body: &Body<'_>, is_dispatched: bool) -> String {
    let Some(block) = body.block("dispatch_payload") else { return String::new() };
    let file = block.filled_text("file").unwrap_or_default();
    if file.is_empty() && !body.is_json() {
        block.missing("dispatch_payload names no file", "write `file = \"input\"`");
    }
    check_inside(&block, "file", &file);
    if !file.is_empty() && !is_dispatched {
        let word = quoted(body.word("dispatch_payload"));
        let message = format!("{word} has no effect in a job that is not parameterized");
        let help = "only what a dispatch launches has a payload: write `parameterized {}` in the job, or take the block out";
        body.report.warn(body.at("dispatch_payload"), &message, help);
    }
    file
}

/// All identities; the one without a name is the default one, which JSON keeps apart.
fn identities(body: &Body<'_>) -> Vec<Identity> {
    let mut identities: Vec<Identity> = body.optional("Identity").into_iter().collect();
    identities.extend(body.records("identity"));
    let mut seen = HashSet::new();
    for identity in &mut identities {
        if identity.name.is_empty() {
            IDENTITY_DEFAULT.clone_into(&mut identity.name);
        }
        if !seen.insert(identity.name.clone()) {
            let message = format!("identity {} is given twice", quoted(&identity.name));
            body.report.error(body.at("identity"), message);
        }
    }
    check_identities(&identities, body);
    identities
}

/// Its own, then those of its group and job.
fn secrets(body: &Body<'_>, inherited: &[Secret]) -> Vec<Secret> {
    let mut secrets: Vec<Secret> = body.records("secret");
    secrets.extend(inherited.iter().cloned());
    check_secrets(&secrets, body);
    secrets
}

/// Bounds of the task's resources, by what they bound: HCL calls it `cpu` or `mem`.
fn scaling(body: &Body<'_>) -> Vec<Scaling> {
    let scaling = |block: &Body<'_>| {
        let scaling: Scaling = block.record();
        let kind = match scaling.kind.as_str() {
            "cpu" => "vertical_cpu",
            "mem" => "vertical_mem",
            kind @ ("vertical_cpu" | "vertical_mem") => kind,
            other => {
                let message = format!("{} cannot be scaled", quoted(other));
                block.report.error_with_help(block.at_label(), message, "known are cpu and mem");
                other
            }
        };
        Scaling { kind: kind.to_owned(), ..scaling }
    };
    body.blocks("scaling").iter().map(scaling).collect()
}

/// Reports mounts of volumes that the group does not have.
pub(super) fn check_mounts(task: &Task, body: &Body<'_>, volumes: &HashSet<&str>) {
    for (mount, block) in task.volume_mounts.iter().zip(body.again("volume_mount")) {
        if mount.volume.is_empty() || volumes.contains(mount.volume.as_str()) {
            continue;
        }
        let help = nearest(&mount.volume, volumes.iter().copied()).map_or_else(
            || "write `volume \"name\" { ... }` in the group".to_owned(),
            |name| format!("did you mean `{name}`?"),
        );
        let message = format!("the group has no volume {}", quoted(&mount.volume));
        block.report.error_with_help(block.at("volume"), message, help);
    }
}

fn driver(body: &Body<'_>) -> String {
    if body.lacks("driver") {
        let help = format!("write `{} = ...` with the name of a driver: {DRIVERS}", body.word("driver"));
        body.report.error_with_help(body.at("driver"), "task has no driver", help);
    }
    body.text("driver").unwrap_or_default()
}

fn env(body: &Body<'_>) -> BTreeMap<String, String> {
    let env = body.text_map("env");
    if let Some(name) = env.keys().find(|name| name.is_empty() || name.contains('=')) {
        body.report.error(body.at("env"), format!("{} cannot be the name of a variable", quoted(name)));
    }
    env
}

fn kill_signal(body: &Body<'_>) -> String {
    let signal = body.text("kill_signal").unwrap_or_default();
    check_signal(body, "kill_signal", &signal);
    signal
}

/// How many signals of real time programs have, as the C library of most images counts them.
const REAL_TIME_SIGNALS: u8 = 31;

/// Whether it is `SIGRTMIN`, `SIGRTMAX`, or counted from one of them.
fn is_real_time_signal(signal: &str) -> bool {
    let counted = |name: &str, sign: char| {
        let by = signal.strip_prefix(name)?;
        Some(by.is_empty() || by.strip_prefix(sign)?.parse::<u8>().ok()? < REAL_TIME_SIGNALS)
    };
    counted("SIGRTMIN", '+').or_else(|| counted("SIGRTMAX", '-')).unwrap_or(false)
}

/// Reports a setting that names no signal.
pub(crate) fn check_signal(body: &Body<'_>, name: &str, signal: &str) {
    if !signal.is_empty() && !SIGNALS.contains(&signal) && !is_real_time_signal(signal) {
        let full = format!("SIG{}", signal.trim_start_matches("SIG"));
        let suggestion = nearest(&full, SIGNALS.iter().copied()).unwrap_or("SIGTERM");
        let message = format!("{} is not a signal", quoted(signal));
        body.report.error_with_help(body.at(name), message, format!("did you mean `{suggestion}`?"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_real_time_are_counted_from_both_ends() {
        let are = ["SIGRTMIN", "SIGRTMIN+3", "SIGRTMIN+30", "SIGRTMAX", "SIGRTMAX-30"];
        assert!(are.into_iter().all(is_real_time_signal));
        let are_not = ["RTMIN", "SIGRTMIN+31", "SIGRTMIN-1", "SIGRTMAX+1", "SIGRTMAX-", "SIGRTMIN3", "SIG"];
        assert!(!are_not.into_iter().any(is_real_time_signal));
    }
}
