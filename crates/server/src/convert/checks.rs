//! Checks of a group's services, in the agents' protocol.

use berth_api::agent::{
    CheckKindSpec, CheckNeed, CheckRestartSpec, CheckSpec, CheckState, HeaderSpec, HttpCheckSpec,
    StatusRange, TlsCheckSpec,
};
use berth_model::{
    job::{Check, CheckKind, CheckRestart, Group, Service},
    value::Value,
};

use super::desired::millis;

/// The checks that agents run, in order of declaration.
pub(super) fn check_specs(group: &Group) -> Vec<CheckSpec> {
    let of_group = group.services.iter().map(|service| (service, ""));
    let of_tasks =
        group.tasks.iter().flat_map(|task| task.services.iter().map(|service| (service, task.name.as_str())));
    let services = of_group.chain(of_tasks);
    services
        .flat_map(|(service, task)| service.checks.iter().map(move |check| check_spec(service, check, task)))
        .collect()
}

fn check_spec(service: &Service, check: &Check, of_task: &str) -> CheckSpec {
    let kind = match check.kind {
        CheckKind::Tcp => CheckKindSpec::Tcp,
        CheckKind::Http => CheckKindSpec::Http,
        CheckKind::Script => CheckKindSpec::Script,
        CheckKind::Grpc => CheckKindSpec::Grpc,
    };
    let first =
        |texts: &[&str]| texts.iter().find(|text| !text.is_empty()).copied().unwrap_or_default().to_owned();
    let name = format!("service: {:?} check", service.name);
    CheckSpec {
        service: service.name.clone(),
        name: first(&[&check.name, &name]),
        task: first(&[&check.task, &service.task, of_task]),
        kind: kind.into(),
        port: first(&[&check.port, &service.port]),
        interval_ms: millis(check.interval),
        timeout_ms: millis(check.timeout),
        http: (kind == CheckKindSpec::Http).then(|| request(check)),
        command: if kind == CheckKindSpec::Script { command(check) } else { Vec::new() },
        initial: initial(&check.initial_status).into(),
        success_before_passing: check.success_before_passing,
        failures_before_critical: check.failures_before_critical,
        need: need(&first(&[&check.on_update, &service.on_update])).into(),
        restart: check.check_restart.or(service.check_restart).and_then(restart),
        tls: check.asks_by_tls().then(|| TlsCheckSpec {
            server_name: kept_text(check, "TLSServerName"),
            skip_verify: check.kept.get("TLSSkipVerify") == Some(&Value::Bool(true)),
        }),
        grpc_service: kept_text(check, "GRPCService"),
    }
}

fn kept_text(check: &Check, name: &str) -> String {
    match check.kept.get(name) {
        Some(Value::String(text)) => text.clone(),
        _ => String::new(),
    }
}

fn request(check: &Check) -> HttpCheckSpec {
    let lines = check.header.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    HttpCheckSpec {
        path: check.path.clone(),
        method: if check.method.is_empty() { "GET".to_owned() } else { check.method.clone() },
        headers: lines.map(|(name, value)| HeaderSpec { name: name.clone(), value: value.clone() }).collect(),
        body: check.body.clone(),
        success: check
            .success_codes()
            .into_iter()
            .map(|(first, last)| StatusRange { first: first.into(), last: last.into() })
            .collect(),
    }
}

fn command(check: &Check) -> Vec<String> {
    std::iter::once(&check.command).chain(&check.args).cloned().collect()
}

fn initial(status: &str) -> CheckState {
    match status {
        "passing" => CheckState::Passing,
        "warning" => CheckState::Warning,
        "critical" => CheckState::Critical,
        _ => CheckState::Pending,
    }
}

fn need(on_update: &str) -> CheckNeed {
    match on_update {
        "ignore" => CheckNeed::Nothing,
        "ignore_warnings" => CheckNeed::Warning,
        _ => CheckNeed::Passing,
    }
}

fn restart(restart: CheckRestart) -> Option<CheckRestartSpec> {
    let CheckRestart { limit, grace, ignore_warnings } = restart;
    (limit > 0).then(|| CheckRestartSpec { limit, grace_ms: millis(grace), ignore_warnings })
}

#[cfg(test)]
mod tests {
    use berth_model::job::{JobType, Task};

    use super::*;

    fn check(kind: CheckKind) -> Check {
        Check { kind, path: "/".to_owned(), command: "/bin/ok".to_owned(), ..Check::default() }
    }

    #[test]
    fn a_check_has_from_its_service_what_it_does_not_say() {
        let restart = CheckRestart { limit: 2, ..CheckRestart::default() };
        let service = Service {
            name: "shop".to_owned(),
            port: "http".to_owned(),
            on_update: "ignore_warnings".to_owned(),
            checks: vec![
                check(CheckKind::Tcp),
                Check { on_update: "ignore".to_owned(), port: "8080".to_owned(), ..check(CheckKind::Http) },
            ],
            check_restart: Some(restart),
            ..Service::default()
        };
        let group = Group { services: vec![service], ..Group::new("app", JobType::Service) };
        let [tcp, http] = &check_specs(&group)[..] else { panic!("two") };
        assert_eq!(
            (&*tcp.name, &*tcp.port, tcp.need()),
            ("service: \"shop\" check", "http", CheckNeed::Warning)
        );
        assert_eq!(tcp.restart.map(|restart| (restart.limit, restart.grace_ms)), Some((2, 1_000)));
        assert_eq!((&*http.port, http.need()), ("8080", CheckNeed::Nothing));
        assert_eq!(http.http.as_ref().map(|http| &*http.method), Some("GET"));
    }

    #[test]
    fn settings_of_tls_and_grpc_checks_are_sent_to_agents() {
        let kept = |pairs: &[(&str, Value)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        let https = Check {
            protocol: "https".to_owned(),
            kept: kept(&[("TLSServerName", Value::String("shop".to_owned()))]),
            ..check(CheckKind::Http)
        };
        let tls = [("GRPCUseTLS", Value::Bool(true)), ("TLSSkipVerify", Value::Bool(true))];
        let grpc = Check { kept: kept(&tls), ..check(CheckKind::Grpc) };
        let plain = Check {
            kept: kept(&[("GRPCService", Value::String("cart".to_owned()))]),
            ..check(CheckKind::Grpc)
        };
        let checks = vec![https, grpc, plain, check(CheckKind::Script)];
        let service = Service { checks, ..Service::default() };
        let task = Task { services: vec![service], ..Task::new("web", "raw_exec", JobType::Service) };
        let group = Group { tasks: vec![task], ..Group::new("app", JobType::Service) };
        let [https, grpc, plain, script] = &check_specs(&group)[..] else { panic!("four") };
        let tls = |server_name: &str, skip_verify| {
            Some(TlsCheckSpec { server_name: server_name.to_owned(), skip_verify })
        };
        assert_eq!((https.kind(), &https.tls), (CheckKindSpec::Http, &tls("shop", false)));
        assert_eq!((grpc.kind(), &grpc.tls), (CheckKindSpec::Grpc, &tls("", true)));
        assert_eq!((&*plain.grpc_service, &plain.tls), ("cart", &None));
        assert_eq!(
            (script.kind(), &*script.task, &script.command[..]),
            (CheckKindSpec::Script, "web", &["/bin/ok".to_owned()][..])
        );
    }
}
