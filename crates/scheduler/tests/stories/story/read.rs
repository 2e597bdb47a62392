//! Nodes, jobs, tenants and the scheduler's configuration from the settings of a line.

use std::time::Duration;

use berth_model::{
    JobKey, NodeId,
    constraint::{Affinity, Constraint, Operator, Spread, SpreadTarget},
    device::{DeviceAsk, DeviceInstance, NodeDevice},
    job::{Group, Job, JobType, Network, Port, ReschedulePolicy, RestartPolicy, Task, TaskResources, Update},
    namespace::Namespace,
    node::Node,
    quota::{Bounds, Quota},
    resources::Resources,
    scheduling::{Algorithm, PoolConfig, SchedulerConfig},
};

use super::settings::Settings;

/// `NAME`, or `NAMESPACE/NAME`.
pub fn key(name: &str) -> JobKey {
    let (namespace, id) = name.split_once('/').unwrap_or(("default", name));
    JobKey::new(namespace, id)
}

/// `namespace NAME parent=NAMESPACE quota=QUOTA weight=1000`
pub fn namespace(name: &str, settings: &Settings<'_>) -> Namespace {
    let named = |key| settings.get(key).map(str::to_owned);
    let weight_milli = settings.number("weight", 1000);
    Namespace { parent: named("parent"), quota: named("quota"), weight_milli, ..Namespace::new(name) }
}

/// `quota NAME cpu= mem= disk= device.NAME=` for its limit, and the same with `sure.` in front for its guarantee; devices
/// in thousandths.
pub fn quota(name: &str, settings: &Settings<'_>) -> Quota {
    let number = |(name, text): (&str, &str)| (name.to_owned(), text.parse::<u64>().unwrap());
    let bounds = |prefix: &str| {
        let amount = |key| settings.get(&format!("{prefix}{key}")).map(|text| number((key, text)).1);
        Bounds {
            cpu_mhz: amount("cpu"),
            memory_mb: amount("mem"),
            disk_mb: amount("disk"),
            devices_milli: settings.prefixed(&format!("{prefix}device.")).map(number).collect(),
        }
    };
    Quota { name: name.to_owned(), guarantee: bounds("sure."), limit: bounds(""), ..Quota::default() }
}

/// `node NAME cpu=4000 mem=4000 disk=100000 dc=dc1 pool=default class= attr.NAME=VALUE meta.NAME=VALUE`; its agent can be sent
/// what is new of what runs, unless the attribute `berth.features` says what else it knows.
pub fn node(id: NodeId, name: &str, settings: &Settings<'_>) -> Node {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    let attributes = [("driver.mock_driver", "1"), ("berth.features", "in_place_updates")];
    Node {
        datacenter: settings.get("dc").unwrap_or("dc1").to_owned(),
        pool: settings.get("pool").unwrap_or("default").to_owned(),
        class: settings.get("class").unwrap_or_default().to_owned(),
        attributes: attributes.into_iter().chain(settings.prefixed("attr.")).map(owned).collect(),
        meta: settings.prefixed("meta.").map(owned).collect(),
        dynamic_ports: (20_000, 20_031),
        devices: settings.all("gpus").map(gpus).collect(),
        cores: (0..settings.number("cores", 0)).map(|core| core.try_into().unwrap()).collect(),
        ..Node::new(
            id,
            name,
            Resources {
                cpu_mhz: settings.number("cpu", 4000),
                memory_mb: settings.number("mem", 4000),
                disk_mb: settings.number("disk", 100_000),
            },
        )
    }
}

/// `gpus=MODEL:IDS:MEMORY`; ids are separated by commas, those of sick ones end with `!`.
fn gpus(text: &str) -> NodeDevice {
    let parts: Vec<&str> = text.splitn(3, ':').collect();
    let instance =
        |id: &str| DeviceInstance { id: id.trim_end_matches('!').into(), healthy: !id.ends_with('!') };
    let memory = parts.get(2).map(|memory| ("memory".to_owned(), (*memory).to_owned()));
    NodeDevice {
        vendor: "nvidia".into(),
        kind: "gpu".into(),
        model: parts[0].into(),
        attributes: memory.into_iter().collect(),
        instances: parts[1].split(',').map(instance).collect(),
    }
}

/// `job NAME type=service priority=50 pool=default dcs=* all_at_once` and the settings of its group; further groups
/// follow after a `|` each.
pub fn job(name: &str, settings: &Settings<'_>) -> Job {
    let job_type = settings.get("type").map_or(JobType::Service, |text| JobType::parse(text).unwrap());
    let parts = settings.parts();
    let groups = parts.iter().zip(["g", "g2", "g3"]);
    Job {
        priority: settings.number("priority", 50).try_into().unwrap(),
        all_at_once: settings.has("all_at_once"),
        datacenters: vec![settings.get("dcs").unwrap_or("*").into()],
        node_pool: settings.get("pool").unwrap_or("default").into(),
        constraints: settings.all("job.constraint").map(constraint).collect(),
        groups: groups.map(|(settings, name)| group(name, settings, job_type)).collect(),
        ..Job::new(key(name), job_type)
    }
}

/// `count=1 cpu=100 mem=100 mem_max= driver=mock_driver port=80 constraint=LEFT:OPERATOR:RIGHT
/// affinity=LEFT:OPERATOR:RIGHT:WEIGHT spread=ATTRIBUTE:VALUE/PERCENT,... distinct_hosts parallel=1 canary=0
/// stagger=0 run=60 kill=5 attempts=2 resched=1`; stagger, run and kill in seconds; a port of
/// 0 is any port, and without `parallel` all allocations are replaced at once.
fn group(name: &str, settings: &Settings<'_>, job_type: JobType) -> Group {
    let port = |text: &str| text.parse::<u16>().unwrap();
    let port =
        |text| Port { label: "p".into(), fixed: Some(port(text)).filter(|p| *p > 0), ..Port::default() };
    let distinct = settings.all("distinct_hosts").map(|_| Constraint {
        left: String::new(),
        operator: Operator::DistinctHosts,
        right: "true".into(),
    });
    let task = Task {
        resources: TaskResources {
            cpu_mhz: settings.number("cpu", 100),
            memory_mb: settings.number("mem", 100),
            memory_max_mb: settings.number("mem_max", 0),
            cores: settings.number("cores", 0),
            devices: settings.all("gpu").map(|name| device(name, settings)).collect(),
            ..TaskResources::default()
        },
        kill_timeout: Duration::from_secs(settings.number("kill", 5).into()),
        restart: RestartPolicy {
            attempts: settings.number("attempts", 2),
            ..RestartPolicy::default_for(job_type)
        },
        ..Task::new("t", settings.get("driver").unwrap_or("mock_driver"), job_type)
    };
    Group {
        count: settings.number("count", 1),
        constraints: settings.all("constraint").map(constraint).chain(distinct).collect(),
        affinities: settings.all("affinity").map(affinity).collect(),
        spreads: settings.all("spread").map(spread).collect(),
        networks: vec![Network { ports: settings.all("port").map(port).collect(), ..Network::default() }],
        tasks: vec![task],
        update: settings.has("parallel").then(|| Box::new(update(settings))),
        reschedule: settings.get("resched").map_or_else(
            || ReschedulePolicy::default_for(job_type),
            |attempts| {
                let attempts = attempts.parse().unwrap();
                ReschedulePolicy { attempts, unlimited: false, ..ReschedulePolicy::default_for(job_type) }
            },
        ),
        max_run_duration: settings.get("run").map(|seconds| Duration::from_secs(seconds.parse().unwrap())),
        ..Group::new(name, job_type)
    }
}

fn update(settings: &Settings<'_>) -> Update {
    Update {
        max_parallel: settings.number("parallel", 1),
        canary: settings.number("canary", 0),
        stagger: Duration::from_secs(settings.number("stagger", 0).into()),
        ..Update::default()
    }
}

/// `gpu=NAME gpus=1 share=400 gpu.constraint=LEFT:OPERATOR:RIGHT gpu.affinity=LEFT:OPERATOR:RIGHT:WEIGHT`
fn device(name: &str, settings: &Settings<'_>) -> DeviceAsk {
    DeviceAsk {
        name: name.into(),
        count: settings.number("gpus", 1),
        share_milli: settings.number("share", 0).try_into().unwrap(),
        constraints: settings.all("gpu.constraint").map(constraint).collect(),
        affinities: settings.all("gpu.affinity").map(affinity).collect(),
    }
}

fn constraint(text: &str) -> Constraint {
    let parts: Vec<&str> = text.splitn(3, ':').collect();
    let operator = Operator::parse(parts[1]).unwrap();
    Constraint { left: parts[0].into(), operator, right: parts[2].into() }
}

fn affinity(text: &str) -> Affinity {
    let (condition, weight) = text.rsplit_once(':').unwrap();
    let Constraint { left, operator, right } = constraint(condition);
    Affinity { left, operator, right, weight: weight.parse().unwrap() }
}

fn spread(text: &str) -> Spread {
    let (attribute, targets) = text.split_once(':').unwrap_or((text, ""));
    let target = |text: &str| {
        let (value, percent) = text.split_once('/').unwrap();
        SpreadTarget { value: value.into(), percent: percent.parse().unwrap() }
    };
    let targets = targets.split(',').filter(|text| !text.is_empty()).map(target).collect();
    Spread { attribute: attribute.into(), weight: 50, targets }
}

/// `config algorithm=binpack pool.NAME=spread preempt=service`
pub fn config(settings: &Settings<'_>) -> SchedulerConfig {
    let mut config = SchedulerConfig::default();
    let algorithm = |text| Algorithm::parse(text).unwrap();
    config.algorithm = settings.get("algorithm").map_or(Algorithm::BinPack, algorithm);
    for (pool, name) in settings.prefixed("pool.") {
        let own = PoolConfig { algorithm: Some(algorithm(name)), ..PoolConfig::default() };
        config.pools.insert(pool.to_owned(), own);
    }
    for job_type in settings.all("preempt") {
        let preemption = &mut config.preemption;
        match job_type {
            "service" => preemption.service = true,
            "batch" => preemption.batch = true,
            "batch_on_batch" => preemption.batch_on_batch = true,
            "none" => preemption.system = false,
            other => panic!("unknown type {other}"),
        }
    }
    config
}
