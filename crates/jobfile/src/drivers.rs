//! What the drivers of Berth take in a task's `config`: names, forms, and whether anything acts upon them. A misspelt setting
//! is a mistake of the job file, not of the node that would have to run it.
//!
//! Nomad's `docker` is known whole: what would change what a task does, or what it may do, and is not there yet is refused;
//! what is only lost is warned of. Settings of other drivers are theirs alone.

use crate::{
    diagnostic::quoted,
    report::At,
    schema::Body,
    suggest::nearest,
    tree::{Entry, Tree},
};

/// A driver, under all its names.
struct Driver {
    names: &'static [&'static str],
    settings: &'static [Setting],
}

struct Setting {
    name: &'static str,
    form: Form,
    fate: Fate,
}

/// How a setting is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Flag,
    Whole,
    /// A list of texts.
    Texts,
    /// A list of texts, or one.
    Words,
    /// Whatever it is, it is not looked at.
    Any,
}

/// What becomes of a setting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Done,
    /// Nothing acts upon it, and the task is the same without it.
    Ignored,
    /// Nothing acts upon it, and the task would be another one: what to do instead.
    Refused(&'static str),
}

const fn done(name: &'static str, form: Form) -> Setting {
    Setting { name, form, fate: Fate::Done }
}

const fn ignored(name: &'static str) -> Setting {
    Setting { name, form: Form::Any, fate: Fate::Ignored }
}

const fn refused(name: &'static str, instead: &'static str) -> Setting {
    Setting { name, form: Form::Any, fate: Fate::Refused(instead) }
}

const WITHOUT: &str = "leave it out";
const VOLUMES: &str =
    "leave it out: a container has /alloc, /local and /secrets, and its image's directories";
const NETWORK: &str = "leave it out: a container has a network of its own, into which `ports` lead";
const PORTS: &str = "name ports in the group's `network` and list their labels in `ports`";
const HOST: &str = "leave it out: nothing of a container reaches its host";
const RESOURCES: &str = "say it in the task's `resources`";

static DRIVERS: [Driver; 4] = [
    Driver {
        names: &["container", "docker"],
        settings: &[
            done("image", Form::Text),
            done("command", Form::Text),
            done("args", Form::Texts),
            done("entrypoint", Form::Words),
            done("work_dir", Form::Text),
            done("network_mode", Form::Text),
            done("ports", Form::Texts),
            done("pids_limit", Form::Whole),
            done("auth", Form::Any),
            done("force_pull", Form::Flag),
            done("image_pull_timeout", Form::Text),
            done("hostname", Form::Text),
            done("readonly_rootfs", Form::Flag),
            done("cap_drop", Form::Texts),
            done("cap_add", Form::Texts),
            ignored("advertise_ipv6_address"),
            ignored("auth_soft_fail"),
            ignored("container_exists_attempts"),
            ignored("healthchecks"),
            ignored("interactive"),
            ignored("labels"),
            ignored("logging"),
            ignored("network_aliases"),
            ignored("oom_score_adj"),
            refused("cgroupns", HOST),
            refused("cpu_cfs_period", RESOURCES),
            refused("cpu_hard_limit", RESOURCES),
            refused("devices", "ask for a `device` in the task's `resources`"),
            refused("dns_options", NETWORK),
            refused("dns_search_domains", NETWORK),
            refused("dns_servers", NETWORK),
            refused("extra_hosts", NETWORK),
            refused("group_add", "name the group after the task's `user`, with a colon"),
            refused("init", WITHOUT),
            refused("ipc_mode", HOST),
            refused("ipv4_address", NETWORK),
            refused("ipv6_address", NETWORK),
            refused("isolation", WITHOUT),
            refused("load", "name the archive as the `image`, where the node allows it"),
            refused("mac_address", NETWORK),
            refused("memory_hard_limit", "say it as `memory_max` in the task's `resources`"),
            refused("mount", VOLUMES),
            refused("mounts", VOLUMES),
            refused("pid_mode", HOST),
            refused("port_map", PORTS),
            refused("privileged", HOST),
            refused("runtime", "the node's operator chooses the runtime"),
            refused("security_opt", HOST),
            refused("shm_size", WITHOUT),
            refused("storage_opt", WITHOUT),
            refused("sysctl", HOST),
            refused("tty", WITHOUT),
            refused("ulimit", WITHOUT),
            refused("userns_mode", HOST),
            refused("uts_mode", HOST),
            refused("volume_driver", VOLUMES),
            refused("volumes", VOLUMES),
            refused("windows_allow_insecure_container_admin", WITHOUT),
        ],
    },
    Driver {
        names: &["exec"],
        settings: &[
            done("command", Form::Text),
            done("args", Form::Texts),
            done("work_dir", Form::Text),
            done("pid_mode", Form::Text),
            done("ipc_mode", Form::Text),
            done("cap_add", Form::Texts),
            done("cap_drop", Form::Texts),
            refused("cgroup_v1_override", WITHOUT),
            refused("cgroup_v2_override", WITHOUT),
            refused("denied_envvars", WITHOUT),
            refused("oom_score_adj", WITHOUT),
        ],
    },
    Driver {
        names: &["raw_exec"],
        settings: &[
            done("command", Form::Text),
            done("args", Form::Texts),
            done("work_dir", Form::Text),
            refused("cgroup_v1_override", WITHOUT),
            refused("cgroup_v2_override", WITHOUT),
            refused("denied_envvars", WITHOUT),
            refused("oom_score_adj", WITHOUT),
        ],
    },
    Driver {
        names: &["mock_driver"],
        settings: &[
            done("start_events", Form::Whole),
            done("start_event_gap", Form::Text),
            done("start_block_for", Form::Text),
            done("start_error", Form::Text),
            done("start_error_recoverable", Form::Flag),
            done("run_for", Form::Text),
            done("exit_code", Form::Whole),
            done("exit_signal", Form::Whole),
            done("exit_err_msg", Form::Text),
            done("signal_error", Form::Text),
            done("checks_fail_for", Form::Text),
            done("checks_fail_after", Form::Text),
            done("kill_after", Form::Text),
            done("stdout_string", Form::Text),
            done("stdout_repeat", Form::Whole),
            done("stdout_repeat_duration", Form::Text),
        ],
    },
];

/// Reports what a task's driver does not understand of its settings.
pub(crate) fn check(body: &Body<'_>, driver: &str) {
    let Some(known) = DRIVERS.iter().find(|known| known.names.contains(&driver)) else { return };
    let Some(Tree::Object(entries)) = body.get("config").map(|node| &node.tree) else { return };
    entries.iter().for_each(|entry| check_one(body, driver, known, entry));
}

fn check_one(body: &Body<'_>, driver: &str, known: &Driver, entry: &Entry<'_>) {
    let (key, of) = (&*entry.key.text, format!("driver {}", quoted(driver)));
    let at_key = || at(body, key, entry.key.span.into());
    let Some(setting) = known.settings.iter().find(|setting| setting.name == key) else {
        let names =
            known.settings.iter().filter(|setting| setting.fate == Fate::Done).map(|setting| setting.name);
        let help = nearest(key, names.clone()).map_or_else(
            || format!("it has {}", names.collect::<Vec<_>>().join(", ")),
            |name| format!("did you mean `{name}`?"),
        );
        return body.report.error_with_help(at_key(), format!("{of} has no setting {}", quoted(key)), help);
    };
    // Clients send many fields that nobody has set.
    if setting.fate != Fate::Done && entry.value.tree.is_empty() {
        return;
    }
    match setting.fate {
        Fate::Done => {
            if let Some(wanted) = mistyped(setting.form, &entry.value.tree) {
                let message = format!("{} is {wanted}, not {}", quoted(key), entry.value.tree.kind());
                body.report.error(at(body, key, entry.value.span.into()), message);
            }
        }
        Fate::Ignored => {
            let message = format!("{} of {of} is not implemented, ignored", quoted(key));
            body.report.warn(at_key(), &message, "the task runs without it");
        }
        Fate::Refused(instead) => {
            body.report.error_with_help(
                at_key(),
                format!("{} of {of} is not implemented", quoted(key)),
                instead,
            );
        }
    }
}

/// The place of a setting.
fn at(body: &Body<'_>, key: &str, span: At) -> At {
    match body.at("config") {
        At::Path(path) => At::Path(format!("{path}.{key}")),
        _ => span,
    }
}

/// What a setting should be, when it is something else. Drivers read what stands there: nothing is converted.
fn mistyped(form: Form, tree: &Tree<'_>) -> Option<&'static str> {
    let is_text = |tree: &Tree<'_>| matches!(tree, Tree::Text(_));
    let is_list = || matches!(tree, Tree::List(items) if items.iter().all(|item| is_text(&item.tree)));
    let (fits, wanted) = match form {
        Form::Any => (true, ""),
        Form::Text => (is_text(tree), "text"),
        Form::Flag => (matches!(tree, Tree::Bool(_)), "true or false, without quotes"),
        Form::Whole => (matches!(tree, Tree::Int(_)), "a whole number, without quotes"),
        Form::Texts => (is_list(), "a list of texts"),
        Form::Words => (is_list() || is_text(tree), "a list of texts, or one"),
    };
    (!fits && !matches!(tree, Tree::Null)).then_some(wanted)
}
