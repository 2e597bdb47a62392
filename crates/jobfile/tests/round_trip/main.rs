//! Any job survives the way to JSON and back.

mod blocks;

use std::{collections::BTreeMap, time::Duration};

use berth_jobfile::{parse_json, to_json};
use berth_model::{
    JobKey,
    constraint::{Constraint, Operator, Spread, SpreadTarget},
    job::*,
    value::Value,
};
use proptest::{
    collection::{btree_map, btree_set, vec},
    option,
    prelude::*,
    sample::select,
};

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9_-]{1,12}"
}

/// Text of any kind but NUL, which no job may hold.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ${}.\"\\\\]{0,12}", any::<String>().prop_map(|s| s.replace('\0', ""))]
}

fn texts() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map(name(), text(), 0..3)
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(0), 0..i64::MAX as u64].prop_map(Duration::from_nanos)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        proptest::num::f64::NORMAL.prop_map(Value::Float),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::List),
            btree_map(text(), inner, 0..3).prop_map(|members| Value::Map(members.into_iter().collect())),
        ]
    })
}

fn constraint() -> impl Strategy<Value = Constraint> {
    use Operator::*;
    let pair =
        (select(vec![Equal, NotEqual, Less, GreaterOrEqual, SetContainsAll, SetContainsAny]), "[a-z]{1,5}");
    let (left, no_right) = ("\\$\\{attr\\.[a-z]{1,5}\\}", Just(String::new()));
    prop_oneof![
        (left, pair).prop_map(|(left, (operator, right))| Constraint { left, operator, right }),
        (left, select(vec![IsSet, IsNotSet, DistinctProperty]), no_right)
            .prop_map(|(left, operator, right)| Constraint { left, operator, right }),
        Just(Constraint { left: String::new(), operator: DistinctHosts, right: String::new() }),
        (left, "(>= )?[0-9]{1,3}(\\.[0-9]{1,3}){0,2}", select(vec![Version, Semver]))
            .prop_map(|(left, right, operator)| Constraint { left, operator, right }),
        (left, "[a-z]{1,3}(a|b)?x*").prop_map(|(left, right)| Constraint { left, operator: Regexp, right }),
    ]
}

fn spread() -> impl Strategy<Value = Spread> {
    let target = |(value, percent)| SpreadTarget { value, percent };
    let targets = btree_map(name(), 0..30_u8, 0..3).prop_map(move |t| t.into_iter().map(target).collect());
    ("\\$\\{meta\\.[a-z]{1,5}\\}", 1..=100_u8, targets).prop_map(|(attribute, weight, targets)| Spread {
        attribute,
        weight,
        targets,
    })
}

fn restart() -> impl Strategy<Value = RestartPolicy> {
    let mode = select(vec![RestartMode::Fail, RestartMode::Delay]);
    (0..5_u32, 60..9999_u64, 0..12_u64, mode).prop_map(|(attempts, interval, delay, mode)| RestartPolicy {
        attempts,
        interval: Duration::from_secs(interval),
        delay: Duration::from_secs(delay),
        mode,
        render_templates: attempts % 2 == 1,
    })
}

fn reschedule() -> impl Strategy<Value = ReschedulePolicy> {
    let backoff = select(vec![DelayFunction::Constant, DelayFunction::Exponential, DelayFunction::Fibonacci]);
    (0..5_u32, 1..9999_u64, 5..60_u64, backoff, any::<bool>()).prop_map(
        |(attempts, interval, delay, backoff, unlimited)| ReschedulePolicy {
            attempts,
            interval: Duration::from_secs(interval),
            delay: Duration::from_secs(delay),
            backoff,
            max_delay: Duration::from_secs(delay * 2),
            unlimited,
        },
    )
}

fn network() -> impl Strategy<Value = Network> {
    let ports = btree_map(name(), (any::<bool>(), prop_oneof![Just(0), any::<u16>()]), 0..4);
    (select(vec!["host", "none"]), ports).prop_map(|(mode, ports)| {
        let ports = ports.into_iter().zip(1000_u16..);
        let port = |((label, (fixed, to)), number): ((String, (bool, u16)), u16)| Port {
            label,
            fixed: fixed.then_some(number),
            to,
            to_is_host: to == 0 && number % 2 == 0,
            ..Port::default()
        };
        Network { mode: mode.to_owned(), ports: ports.map(port).collect(), ..Network::default() }
    })
}

fn resources() -> impl Strategy<Value = TaskResources> {
    let (cpu, memory, more) =
        (1..u32::MAX, 10..u32::MAX / 2, prop_oneof![Just(0), Just(u32::MAX), 1..u32::MAX / 2]);
    (cpu, memory, more, 0..9_u32, vec(blocks::device(), 0..2)).prop_map(
        |(cpu_mhz, memory_mb, more, cores, devices)| TaskResources {
            cpu_mhz,
            memory_mb,
            cores,
            memory_max_mb: if more == 0 { 0 } else { memory_mb.saturating_add(more) },
            devices,
            kept: IgnoredSettings::new(),
        },
    )
}

fn task() -> impl Strategy<Value = Task> {
    let logs =
        (1..=LOG_MOST, 1..=LOG_MOST, any::<bool>()).prop_map(|(max_files, max_file_size_mb, disabled)| {
            LogConfig { max_files, max_file_size_mb, disabled }
        });
    let first =
        (name(), btree_map(name(), value(), 0..4), text(), texts(), vec(constraint(), 0..3), resources());
    let second = (restart(), texts(), span(), select(vec!["", "SIGTERM", "SIGUSR1"]), logs, span());
    let third = (
        vec(blocks::affinity(), 0..2),
        vec(blocks::artifact(), 0..2),
        vec(blocks::template(), 0..2),
        vec(blocks::service(), 0..2),
        btree_map(name(), blocks::identity(), 0..3),
        vec(blocks::scaling("vertical_cpu", 100), 0..2),
        (blocks::ignored_settings(), btree_map("[a-zA-Z0-9_]{1,12}", blocks::secret(), 0..3)),
        text().prop_filter("it leads out", |file| file.split('/').all(|part| part != "..")),
    );
    (first, second, third).prop_map(|((driver, config, user, env, constraints, resources), rest, more)| {
        let (restart, meta, kill_timeout, kill_signal, logs, shutdown_delay) = rest;
        let (affinities, artifacts, templates, services, identities, scaling, kept, dispatch_payload) = more;
        let (kept, secrets) = kept;
        let secrets = secrets.into_iter().map(|(name, secret)| {
            // No two of a task have the same files.
            let dir = secret.files().map(|dir| Value::String(format!("secrets/{dir}/{name}")));
            let config = secret.config.into_iter().map(|(key, value)| match (&*key, &dir) {
                ("files", Some(dir)) => (key, dir.clone()),
                _ => (key, value),
            });
            Secret { name, config: config.collect(), ..secret }
        });
        let secrets = secrets.collect();
        let identities = identities.into_iter().map(|(name, identity)| {
            // No two of a task have the same file.
            let own = |path: String| if path.is_empty() { path } else { format!("{path}_{name}") };
            let filepath = own(identity.filepath);
            Identity { filepath, name, ..identity }
        });
        let identities = identities.collect();
        Task {
            driver,
            config,
            user,
            env,
            constraints,
            resources,
            restart,
            meta,
            kill_timeout,
            kill_signal: kill_signal.to_owned(),
            logs,
            shutdown_delay,
            affinities,
            artifacts,
            templates,
            services,
            identities,
            scaling,
            kept,
            secrets,
            dispatch_payload,
            ..Task::new(String::new(), String::new(), JobType::Service)
        }
    })
}

/// Gives things names that differ.
fn named<T>(names: impl IntoIterator<Item = String>, things: Vec<T>, put: impl Fn(&mut T, String)) -> Vec<T> {
    let mut things = things;
    things.iter_mut().zip(names).for_each(|(thing, name)| put(thing, name));
    things
}

fn tasks() -> impl Strategy<Value = Vec<Task>> {
    let second = option::of(blocks::lifecycle());
    (btree_set(name(), 3), vec(task(), 1..3), any::<bool>(), second).prop_map(
        |(names, tasks, leader, second)| {
            let mut tasks = named(names, tasks, |task, name| task.name = name);
            tasks[0].leader = leader;
            tasks.iter_mut().skip(1).for_each(|task| task.lifecycle = second);
            tasks
        },
    )
}

/// Volumes in order of their names.
fn volumes() -> impl Strategy<Value = Vec<Volume>> {
    btree_map(name(), blocks::volume(), 0..3)
        .prop_map(|volumes| volumes.into_iter().map(|(name, volume)| Volume { name, ..volume }).collect())
}

/// Files of a log, and MiB of one.
const LOG_MOST: u32 = 1_000;

fn group() -> impl Strategy<Value = Group> {
    // Logs that may fill it are refused.
    let disk = (LOG_MOST * LOG_MOST + 1..=u32::MAX, any::<bool>(), any::<bool>())
        .prop_map(|(size_mb, sticky, migrate)| EphemeralDisk { size_mb, sticky, migrate });
    let first = (vec(constraint(), 0..3), vec(spread(), 0..2), restart(), reschedule(), disk);
    let second = (option::of(network()), texts(), span(), tasks());
    let third = (
        vec(blocks::affinity(), 0..2),
        option::of(blocks::update()),
        option::of(blocks::migrate()),
        option::of(blocks::disconnect()),
        vec(blocks::service(), 0..2),
        volumes(),
        option::of(span()),
    );
    let scaled = (0..=GROUP_COUNT_MAX)
        .prop_flat_map(|count| (Just(count), option::of(blocks::scaling("horizontal", count))));
    (first, second, third, scaled).prop_map(|(first, second, third, (count, scaling))| {
        let (constraints, spreads, restart, reschedule, disk) = first;
        let (network, meta, shutdown_delay, tasks) = second;
        let (affinities, update, migrate, disconnect, mut services, volumes, max_run_duration) = third;
        // What runs within a task names it.
        let checks = services.iter_mut().flat_map(|service| &mut service.checks);
        checks.for_each(|check| check.task.clone_from(&tasks[0].name));
        Group {
            count,
            constraints,
            spreads,
            restart,
            reschedule,
            disk,
            networks: network.into_iter().collect(),
            meta,
            shutdown_delay,
            tasks,
            affinities,
            update,
            migrate,
            disconnect,
            services,
            volumes,
            scaling: scaling.map(Box::new),
            max_run_duration,
            ..Group::new(String::new(), JobType::Service)
        }
    })
}

/// A job that runs on every node has nothing to count, to spread or to move.
fn fit_to_type(mut job: Job) -> Job {
    if job.job_type == JobType::System {
        job.affinities.clear();
        for group in &mut job.groups {
            group.affinities.clear();
            group.tasks.iter_mut().for_each(|task| task.affinities.clear());
        }
    }
    if job.job_type.is_per_node() {
        job.spreads.clear();
        for group in &mut job.groups {
            group.count = group.count.min(1);
            group.scaling = None;
            group.spreads.clear();
            group.reschedule = ReschedulePolicy::default_for(job.job_type);
        }
    }
    job
}

fn job() -> impl Strategy<Value = Job> {
    let job_type = select(vec![JobType::Service, JobType::Batch, JobType::System, JobType::Sysbatch]);
    let first = ("[a-z0-9-]{1,20}", name(), "[a-zA-Z ]{1,9}", name(), job_type, 1..=100_u8, any::<bool>());
    let groups = (btree_set(name(), 3), vec(group(), 1..3))
        .prop_map(|(names, groups)| named(names, groups, |group, name| group.name = name));
    let second = (
        vec(name(), 1..3),
        name(),
        texts(),
        vec(constraint(), 0..3),
        vec(spread(), 0..2),
        groups,
        any::<bool>(),
    );
    let third = (
        vec(blocks::affinity(), 0..2),
        option::of(blocks::periodic()),
        option::of(blocks::parameterized()),
        option::of(blocks::update()),
        option::of(blocks::migrate()),
        vec(any::<u8>(), 0..20),
        any::<bool>(),
    );
    (first, second, third).prop_map(|(first, second, third)| {
        let (namespace, id, name, region, job_type, priority, all_at_once) = first;
        let (datacenters, node_pool, meta, constraints, spreads, groups, stop) = second;
        let (affinities, periodic, parameterized, update, migrate, payload, dispatched) = third;
        let ends = job_type.runs_to_completion();
        fit_to_type(inherit(Job {
            name,
            region,
            priority,
            all_at_once,
            datacenters,
            node_pool,
            meta,
            constraints,
            spreads,
            groups,
            stop,
            affinities,
            periodic: periodic.filter(|_| ends),
            parameterized: parameterized.filter(|_| ends),
            update,
            migrate,
            payload,
            dispatched,
            ..Job::new(JobKey::new(&namespace, &id), job_type)
        }))
    })
}

/// Groups that do not say otherwise do as their job says, or as services do; room follows from their tasks.
fn inherit(mut job: Job) -> Job {
    let is_service = job.job_type == JobType::Service;
    job.update = job.update.take().or_else(|| is_service.then(Box::default));
    for group in &mut job.groups {
        group.update = group.update.take().or_else(|| job.update.clone());
        group.migrate = group.migrate.take().or_else(|| job.migrate.clone());
        group.migrate = group.migrate.take().or_else(|| is_service.then(Box::default));
        group.shares_resources = group.has_phases();
        group.services.iter_mut().for_each(inherit_from_service);
        for task in &mut group.tasks {
            for service in &mut task.services {
                if service.task.is_empty() {
                    service.task.clone_from(&task.name);
                }
                inherit_from_service(service);
            }
        }
    }
    job
}

/// What checks have from their service.
fn inherit_from_service(service: &mut Service) {
    for check in &mut service.checks {
        if check.on_update.is_empty() {
            check.on_update.clone_from(&service.on_update);
        }
        if check.name.is_empty() {
            check.name = format!("service: {:?} check", service.name);
        }
        if check.task.is_empty() {
            check.task.clone_from(&service.task);
        }
        check.check_restart = check.check_restart.or(service.check_restart);
    }
}

proptest! {
    #[test]
    fn a_job_reads_back_from_its_json(job in job()) {
        let json = to_json(&job);
        let read = parse_json(json.to_string().as_bytes(), "job.json").map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(&read.job, &job);
        let wrapped = serde_json::json!({ "Job": json, "PolicyOverride": false });
        prop_assert_eq!(parse_json(wrapped.to_string().as_bytes(), "job.json").map(|read| read.job), Ok(job));
    }
}
