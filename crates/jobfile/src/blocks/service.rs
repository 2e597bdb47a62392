//! Services and their checks.

use std::{collections::HashSet, time::Duration};

use berth_model::job::{Check, CheckKind, CheckRestart, Service};

use crate::{
    diagnostic::quoted,
    duration::shown,
    record::{COUNT, Fields, Record, Words},
    schema::{Body, CHECK, CHECK_RESTART, SERVICE, Schema},
    suggest::nearest,
};

/// Asking more often would only load the node.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

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
        let sound = |c: char| !c.is_whitespace() && !c.is_control();
        if !self.name.chars().all(sound) {
            let message = format!("name of service {} holds space or control characters", quoted(&self.name));
            body.report.error(body.at("name"), message);
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
                let (value, min) = (shown(value), shown(INTERVAL_MIN));
                let message = format!("check {name} is {value}, but must be at least {min}");
                body.report.error(body.at(name), message);
            }
        }
        if self.kind == CheckKind::Http && self.path.is_empty() {
            body.missing("check of type http has no path", "write `path = \"/health\"`");
        }
        if self.kind == CheckKind::Script && self.command.is_empty() {
            body.missing("check of type script has no command", "write `command = \"/path/in/task\"`");
        }
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

/// Reports ports of services and checks that the group does not have.
pub(crate) fn check_ports(services: &[Service], bodies: &[Body<'_>], labels: &HashSet<&str>) {
    for (service, body) in services.iter().zip(bodies) {
        check_port(&service.port, body, labels);
        for (check, body) in service.checks.iter().zip(body.again("check")) {
            check_port(&check.port, &body, labels);
        }
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
