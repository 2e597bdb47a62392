//! A job that says everything a job can say. Every literal names every field, so that a new field cannot be forgotten here.

use std::{collections::BTreeMap, time::Duration};

use berth_model::{
    JobKey,
    constraint::{Affinity, Constraint, Operator, Spread, SpreadTarget},
    device::DeviceAsk,
    job::{
        Artifact, ChangeMode, ChangeScript, Check, CheckKind, CheckRestart, DelayFunction, Disconnect,
        EphemeralDisk, Group, HealthCheck, Hook, Identity, IgnoredSettings, Job, JobType, Lifecycle,
        LogConfig, Migrate, Network, Parameterized, PayloadRule, Periodic, Port, Reconcile, ReschedulePolicy,
        RestartMode, RestartPolicy, Scaling, Secret, Service, Task, TaskResources, Template, Update, Volume,
        VolumeMount, Wait,
    },
    value::Value,
};

pub fn text(text: &str) -> String {
    text.to_owned()
}

pub fn labels(label: &str) -> BTreeMap<String, String> {
    [(text(label), format!("{label} value"))].into()
}

/// A value of every kind.
pub fn ignored_settings() -> IgnoredSettings {
    let map = [("inner", Value::String(text("s")))].into_iter().collect();
    let list = vec![Value::Null, Value::Bool(true), Value::Int(-7), Value::Float(0.5), Value::Map(map)];
    [(text("kept"), Value::List(list))].into()
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn job(id: &str) -> Job {
    Job {
        key: JobKey::new("default", id),
        name: text("name"),
        region: text("global"),
        job_type: JobType::Batch,
        priority: 70,
        all_at_once: true,
        datacenters: vec![text("dc1"), text("dc*")],
        node_pool: text("all"),
        meta: labels("job"),
        constraints: vec![constraint(Operator::Semver)],
        spreads: vec![spread()],
        groups: vec![group()],
        stop: false,
        affinities: vec![affinity()],
        periodic: Some(Box::new(periodic())),
        parameterized: Some(Box::new(parameterized())),
        parent_id: text("parent"),
        dispatched: true,
        payload: vec![0, 1, 255],
        update: Some(Box::new(update())),
        migrate: Some(Box::new(migrate())),
        reschedule: Some(Box::new(reschedule())),
        kept: ignored_settings(),
    }
}

fn periodic() -> Periodic {
    Periodic {
        enabled: true,
        specs: vec![text("*/15 * * * *")],
        prohibit_overlap: false,
        time_zone: text("Europe/Berlin"),
        is_single: false,
    }
}

fn parameterized() -> Parameterized {
    Parameterized {
        payload: PayloadRule::Forbidden,
        meta_required: vec![text("who")],
        meta_optional: vec![text("why")],
    }
}

fn constraint(operator: Operator) -> Constraint {
    Constraint { left: text("${attr.kernel.name}"), operator, right: text("linux") }
}

fn affinity() -> Affinity {
    Affinity { left: text("${node.class}"), operator: Operator::Regexp, right: text("fast.*"), weight: -50 }
}

fn spread() -> Spread {
    let targets = vec![SpreadTarget { value: text("dc1"), percent: 60 }];
    Spread { attribute: text("${node.datacenter}"), weight: 80, targets }
}

fn update() -> Update {
    Update {
        stagger: seconds(1),
        max_parallel: 2,
        health_check: HealthCheck::Manual,
        min_healthy_time: seconds(3),
        healthy_deadline: seconds(4),
        progress_deadline: seconds(5),
        canary: 6,
        auto_revert: true,
        auto_promote: true,
    }
}

fn migrate() -> Migrate {
    Migrate {
        max_parallel: 3,
        health_check: HealthCheck::TaskStates,
        min_healthy_time: seconds(7),
        healthy_deadline: seconds(8),
    }
}

fn reschedule() -> ReschedulePolicy {
    ReschedulePolicy {
        attempts: 3,
        interval: seconds(60),
        delay: seconds(5),
        backoff: DelayFunction::Fibonacci,
        max_delay: seconds(600),
        unlimited: true,
    }
}

fn restart() -> RestartPolicy {
    RestartPolicy {
        attempts: 4,
        interval: seconds(90),
        delay: seconds(2),
        mode: RestartMode::Delay,
        render_templates: true,
    }
}

fn group() -> Group {
    let port = Port {
        label: text("http"),
        fixed: Some(80),
        to: 8080,
        host_network: text("lan"),
        ignore_collision: true,
        to_is_host: false,
    };
    let network =
        Network { mode: text("bridge"), ports: vec![port], hostname: text("web"), kept: ignored_settings() };
    let disconnect = Disconnect {
        lost_after: Some(seconds(30)),
        stop_on_client_after: Some(seconds(40)),
        replace: true,
        reconcile: Reconcile::LongestRunning,
    };
    Group {
        name: text("g"),
        count: 3,
        constraints: vec![constraint(Operator::DistinctHosts)],
        spreads: vec![spread()],
        restart: restart(),
        reschedule: reschedule(),
        disk: EphemeralDisk { size_mb: 100, sticky: true, migrate: true },
        networks: vec![network],
        meta: labels("group"),
        shutdown_delay: seconds(9),
        tasks: vec![task()],
        affinities: vec![affinity()],
        update: Some(Box::new(update())),
        migrate: Some(Box::new(migrate())),
        disconnect: Some(Box::new(disconnect)),
        services: vec![service()],
        volumes: vec![volume()],
        scaling: Some(Box::new(scaling())),
        max_run_duration: Some(seconds(3600)),
        kept: ignored_settings(),
        shares_resources: true,
    }
}

fn volume() -> Volume {
    Volume {
        name: text("data"),
        kind: text("csi"),
        source: text("disk"),
        read_only: true,
        sticky: true,
        per_alloc: true,
        access_mode: text("single-node-writer"),
        attachment_mode: text("file-system"),
        kept: ignored_settings(),
    }
}

fn scaling() -> Scaling {
    Scaling { kind: text("horizontal"), enabled: true, min: 1, max: 9, policy: ignored_settings() }
}

fn identity() -> Identity {
    Identity {
        name: text("aud"),
        audience: vec![text("them")],
        change_mode: text("signal"),
        change_signal: text("SIGHUP"),
        env: true,
        file: true,
        filepath: text("local/id"),
        service_name: text("svc"),
        ttl: seconds(60),
        extra_claims: vec![text("claim")],
    }
}

fn service() -> Service {
    Service {
        name: text("svc"),
        provider: text("nomad"),
        port: text("http"),
        tags: vec![text("a")],
        canary_tags: vec![text("b")],
        meta: labels("service"),
        canary_meta: labels("canary"),
        address_mode: text("host"),
        address: text("10.0.0.1"),
        task: text("t"),
        on_update: text("ignore"),
        checks: vec![check()],
        check_restart: Some(check_restart()),
        identity: Some(Box::new(identity())),
        kept: ignored_settings(),
    }
}

fn check_restart() -> CheckRestart {
    CheckRestart { limit: 3, grace: seconds(2), ignore_warnings: true }
}

fn check() -> Check {
    Check {
        name: text("alive"),
        kind: CheckKind::Grpc,
        port: text("http"),
        interval: seconds(10),
        timeout: seconds(2),
        path: text("/health"),
        method: text("GET"),
        protocol: text("https"),
        header: [(text("Accept"), vec![text("*/*")])].into(),
        body: text("body"),
        command: text("true"),
        args: vec![text("-x")],
        task: text("t"),
        initial_status: text("passing"),
        success_before_passing: 1,
        failures_before_critical: 2,
        on_update: text("ignore"),
        check_restart: Some(check_restart()),
        kept: ignored_settings(),
    }
}

fn task() -> Task {
    Task {
        name: text("t"),
        driver: text("raw_exec"),
        config: ignored_settings(),
        user: text("nobody"),
        env: labels("ENV"),
        constraints: vec![constraint(Operator::SetContainsAny)],
        resources: resources(),
        restart: restart(),
        meta: labels("task"),
        kill_timeout: seconds(11),
        kill_signal: text("SIGINT"),
        logs: LogConfig { max_files: 2, max_file_size_mb: 3, disabled: true },
        leader: true,
        shutdown_delay: seconds(12),
        affinities: vec![affinity()],
        lifecycle: Some(Lifecycle { hook: Hook::Poststop, sidecar: true }),
        artifacts: vec![artifact()],
        templates: vec![template()],
        volume_mounts: vec![mount()],
        dispatch_payload: text("in.txt"),
        services: vec![service()],
        identities: vec![identity()],
        scaling: vec![scaling()],
        kept: ignored_settings(),
        secrets: vec![secret()],
    }
}

fn secret() -> Secret {
    Secret {
        name: text("db"),
        provider: text("nomad"),
        path: text("app/db"),
        config: ignored_settings(),
        env: labels("SECRET"),
    }
}

fn resources() -> TaskResources {
    let gpu = DeviceAsk {
        name: text("nvidia/gpu"),
        count: 2,
        share_milli: 250,
        constraints: vec![constraint(Operator::GreaterOrEqual)],
        affinities: vec![affinity()],
    };
    TaskResources {
        cpu_mhz: 500,
        memory_mb: 64,
        cores: 2,
        memory_max_mb: 128,
        devices: vec![gpu],
        kept: ignored_settings(),
    }
}

fn artifact() -> Artifact {
    Artifact {
        source: text("https://example.com/a.tgz"),
        destination: text("local/a"),
        mode: text("dir"),
        options: labels("checksum"),
        headers: labels("header"),
        insecure: true,
        chown: true,
    }
}

fn template() -> Template {
    let script = ChangeScript {
        command: text("reload"),
        args: vec![text("-q")],
        timeout: seconds(3),
        fail_on_error: true,
        run_on_first_render: true,
    };
    Template {
        source: text("local/in"),
        destination: text("local/out"),
        data: text("data"),
        change_mode: ChangeMode::Script,
        change_signal: text("SIGUSR1"),
        change_script: Some(Box::new(script)),
        once: true,
        splay: seconds(1),
        perms: text("600"),
        uid: Some(1000),
        gid: Some(1001),
        left_delimiter: text("[["),
        right_delimiter: text("]]"),
        env: true,
        error_on_missing_key: true,
        wait: Some(Wait { min: seconds(1), max: seconds(2) }),
        kept: ignored_settings(),
    }
}

fn mount() -> VolumeMount {
    VolumeMount {
        volume: text("data"),
        destination: text("/data"),
        read_only: true,
        propagation_mode: text("bidirectional"),
        selinux_label: text("Z"),
    }
}
