//! Services and their checks.

use std::{collections::HashSet, time::Duration};

use berth_duration::exact;
use berth_model::job::{Check, CheckKind, CheckRestart, Service};

use crate::{
    diagnostic::quoted,
    record::{COUNT, Fields, Record, Words},
    schema::{Body, CHECK, CHECK_RESTART, SERVICE, Schema},
    suggest::nearest,
};

/// Asking more often would only load the node.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Reported once for all the settings that only a service provider would use.
const UNREGISTERED: &str = "`service` is not registered: there is no catalogue of services";

const CHECK_KINDS: &Words<CheckKind> = &[
    ("tcp", CheckKind::Tcp),
    ("http", CheckKind::Http),
    ("grpc", CheckKind::Grpc),
    ("script", CheckKind::Script),
];

const ON_UPDATES: &[&str] = &["require_healthy", "ignore_warnings", "ignore"];

impl Record for Service {
    fn schema() -> &'static Schema {
        &SERVICE
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.text("name", &mut self.name);
        fields.one_of("provider", &mut self.provider, &["nomad", "consul"]);
        fields.text("port", &mut self.port);
        fields.texts("tags", &mut self.tags);
        fields.texts("canary_tags", &mut self.canary_tags);
        fields.text_map("meta", &mut self.meta);
        fields.text_map("canary_meta", &mut self.canary_meta);
        let modes = ["auto", "alloc", "host", "driver", "alloc_ipv6"];
        fields.one_of("address_mode", &mut self.address_mode, &modes);
        fields.text("address", &mut self.address);
        fields.text("task", &mut self.task);
        fields.one_of("on_update", &mut self.on_update, ON_UPDATES);
        fields.records("check", &mut self.checks);
        fields.record("check_restart", &mut self.check_restart);
        fields.record("identity", &mut self.identity);
        let of_provider =
            ["tagged_addresses", "enable_tag_override", "weights", "connect", "cluster", "kind"];
        fields.kept(&of_provider, &mut self.kept);
    }

    fn check(&self, body: &Body<'_>) {
        body.report.warn(
            body.at_self(),
            UNREGISTERED,
            "its checks run; nothing finds it by its name, tags or address yet",
        );
        let sound = |c: char| !c.is_whitespace() && !c.is_control();
        if !self.name.chars().all(sound) {
            let message = format!("name of service {} holds space or control characters", quoted(&self.name));
            body.report.error(body.at("name"), message);
        }
        if !matches!(self.address_mode.as_str(), "" | "auto") {
            let message =
                format!("address_mode {} in service is not implemented", quoted(&self.address_mode));
            let help = "it is checked and stored; its checks ask as with `auto`";
            body.report.warn(body.at("address_mode"), &message, help);
        }
    }
}

impl Record for Check {
    fn schema() -> &'static Schema {
        &CHECK
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.text("name", &mut self.name);
        fields.word("type", &mut self.kind, CHECK_KINDS);
        fields.text("port", &mut self.port);
        fields.duration("interval", &mut self.interval);
        fields.duration("timeout", &mut self.timeout);
        fields.text("path", &mut self.path);
        fields.text("method", &mut self.method);
        fields.one_of("protocol", &mut self.protocol, &["http", "https"]);
        fields.texts_map("header", &mut self.header);
        fields.text("body", &mut self.body);
        fields.text("command", &mut self.command);
        fields.texts("args", &mut self.args);
        fields.text("task", &mut self.task);
        fields.one_of("initial_status", &mut self.initial_status, &["passing", "warning", "critical"]);
        fields.whole("success_before_passing", &mut self.success_before_passing, COUNT);
        fields.whole("failures_before_critical", &mut self.failures_before_critical, COUNT);
        fields.one_of("on_update", &mut self.on_update, ON_UPDATES);
        fields.record("check_restart", &mut self.check_restart);
        let of_provider = [
            "failures_before_warning",
            "address_mode",
            "advertise",
            "expose",
            "grpc_service",
            "grpc_use_tls",
            "notes",
            "success_codes",
            "tls_server_name",
            "tls_skip_verify",
        ];
        fields.kept(&of_provider, &mut self.kept);
    }

    fn check(&self, body: &Body<'_>) {
        if body.lacks("type") {
            body.missing("check has no type", "write `type = \"http\"`, or tcp, grpc or script");
        }
        for (name, value) in [("interval", self.interval), ("timeout", self.timeout)] {
            if value < INTERVAL_MIN {
                let (value, min) = (exact(value), exact(INTERVAL_MIN));
                let message = format!("check {name} is {value}, but must be at least {min}");
                body.report.error(body.at(name), message);
            }
        }
        if self.kind == CheckKind::Http {
            check_request(self, body);
        }
        if self.kind == CheckKind::Script && self.command.is_empty() {
            body.missing("check of type script has no command", "write `command = \"/path/in/task\"`");
        }
    }
}

/// Letters of a request's method and of the names of its headers: a token of HTTP (RFC 9110, 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c))
}

fn check_request(check: &Check, body: &Body<'_>) {
    if check.path.is_empty() {
        body.missing("check of type http has no path", "write `path = \"/health\"`");
    } else if !check.path.starts_with(['/', '$']) {
        let message = format!("check path is {}, but must begin with a slash", quoted(&check.path));
        body.report.error(body.at("path"), message);
    }
    if !check.method.is_empty() && !is_token(&check.method) {
        let message = format!("check method is {}, which is no method of HTTP", quoted(&check.method));
        body.report.error(body.at("method"), message);
    }
    for code in body.texts("success_codes").unwrap_or_default() {
        if Check::parse_codes(&code).is_some() {
            continue;
        }
        let message = format!("check success_codes has {}, which is no status code of HTTP", quoted(&code));
        body.report.error_with_help(body.at("success_codes"), message, "write `[\"204\", \"300-399\"]`");
    }
    if let Some(name) = check.header.keys().find(|name| !is_token(name)) {
        let message = format!("{} is no name of a header", quoted(name));
        body.report.error(body.at("header"), message);
    }
}

impl Record for CheckRestart {
    fn schema() -> &'static Schema {
        &CHECK_RESTART
    }

    fn bind(&mut self, fields: &mut impl Fields) {
        fields.whole("limit", &mut self.limit, COUNT);
        fields.duration("grace", &mut self.grace);
        fields.flag("ignore_warnings", &mut self.ignore_warnings);
    }
}

/// The services of a group, or of one of its tasks; `owner` is what stands for those in names, the job first.
pub(crate) fn services(body: &Body<'_>, owner: &[&str]) -> Vec<Service> {
    let mut services: Vec<Service> = body.records("service");
    if services.is_empty() {
        return services;
    }
    for (service, body) in services.iter_mut().zip(body.again("service")) {
        if service.name.is_empty() || service.name.contains("${") {
            service.name = named(&service.name, owner);
        }
        if let (true, Some(task)) = (service.task.is_empty(), owner.get(2)) {
            (*task).clone_into(&mut service.task);
        }
        for (check, body) in service.checks.iter_mut().zip(body.again("check")) {
            if check.on_update.is_empty() {
                check.on_update.clone_from(&service.on_update);
            }
            if check.name.is_empty() {
                check.name = format!("service: {:?} check", service.name);
            }
            if check.task.is_empty() {
                check.task.clone_from(&service.task);
            }
            let (own, of_service) = (body.again("check_restart").into_iter().next(), service.check_restart);
            let merged =
                |own: Body<'_>| body.report.quietly(|| own.unchecked_over(of_service.unwrap_or_default()));
            check.check_restart = own.map(merged).or(of_service);
        }
    }
    services
}

/// A service's name: what it is part of where it has none, and that in place of `${JOB}`, `${TASKGROUP}`, `${TASK}` and
/// `${BASE}`. Space, which names of jobs may hold, becomes a dash.
fn named(name: &str, owner: &[&str]) -> String {
    let owner: Vec<String> =
        owner.iter().map(|part| part.replace(|c: char| c.is_whitespace() || c.is_control(), "-")).collect();
    let base = owner.join("-");
    if name.is_empty() {
        return base;
    }
    let mut name = name.replace("${BASE}", &base);
    for (variable, value) in ["${JOB}", "${TASKGROUP}", "${TASK}"].into_iter().zip(owner) {
        name = name.replace(variable, &value);
    }
    name
}

/// Where services stand: what they may refer to.
pub(crate) struct ServiceContext<'a> {
    /// Labels of the group's ports.
    pub ports: &'a HashSet<&'a str>,
    /// Names of the group's tasks.
    pub tasks: &'a HashSet<&'a str>,
    /// They belong to a task.
    pub in_task: bool,
}

/// Reports what services and checks refer to and their group does not have.
pub(crate) fn check_services(services: &[Service], bodies: &[Body<'_>], context: &ServiceContext<'_>) {
    for (service, body) in services.iter().zip(bodies) {
        check_port(&service.port, body, context.ports);
        check_task(&service.task, body, context.tasks);
        for (check, body) in service.checks.iter().zip(body.again("check")) {
            check_port(&check.port, &body, context.ports);
            check_task(&check.task, &body, context.tasks);
            check_subject(service, check, &body, context);
        }
    }
}

/// A check is of a port, or of something within a task.
fn check_subject(service: &Service, check: &Check, body: &Body<'_>, context: &ServiceContext<'_>) {
    let is_script = check.kind == CheckKind::Script;
    if is_script && !context.in_task && service.task.is_empty() && check.task.is_empty() {
        body.missing(
            "check of type script names no task",
            "write `task = \"name\"`: the command runs within that task",
        );
    }
    if !is_script && service.port.is_empty() && check.port.is_empty() && !body.lacks("type") {
        body.missing("check has no port, nor has its service", "write `port = \"label\"`");
    }
}

fn check_task(task: &str, body: &Body<'_>, tasks: &HashSet<&str>) {
    if task.is_empty() || tasks.contains(task) {
        return;
    }
    let message = format!("{} is about task {}, which its group does not have", body.what(), quoted(task));
    match nearest(task, tasks.iter().copied()) {
        Some(name) => {
            body.report.error_with_help(body.at("task"), message, format!("did you mean `{name}`?"))
        }
        None => body.report.error(body.at("task"), message),
    }
}

fn check_port(port: &str, body: &Body<'_>, labels: &HashSet<&str>) {
    // What holds `${...}` only the agent can judge, and numbers stand for themselves.
    if port.is_empty() || port.contains("${") || port.parse::<u16>().is_ok() || labels.contains(port) {
        return;
    }
    let help = nearest(port, labels.iter().copied()).map_or_else(
        || format!("write `port \"{port}\" {{}}` in the group's network"),
        |label| format!("did you mean `{label}`?"),
    );
    let message = format!("{} has no port {}: it is not in the group's network", body.what(), quoted(port));
    body.report.error_with_help(body.at("port"), message, help);
}
