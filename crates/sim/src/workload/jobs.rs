//! The jobs that people describe.

use std::{collections::BTreeMap, time::Duration};

use berth_model::{
    JobKey,
    device::DeviceAsk,
    job::{
        Disconnect, Group, HealthCheck, IgnoredSettings, Job, JobType, Migrate, Network, Periodic, Port,
        Reconcile, Task, TaskResources, Update,
    },
    value::Value,
};

use super::{Client, TENANT};
use crate::{invariants::MARK, node::DEVICE, random::Random};

/// Jobs that each owns.
const JOBS: u64 = 5;
/// Services and system jobs whose versions replace each other step by step, in percent.
const UPDATES_PERCENT: u64 = 45;
/// Of these, services with a second group.
const SIDES_PERCENT: u64 = 30;
/// The name of that group.
const SIDE: &str = "side";
/// Services and batch jobs that say what becomes of their allocations on nodes that fall silent, in percent.
const DISCONNECTS_PERCENT: u64 = 40;
/// Services and batch jobs that ask for a device, and those that ask for cores, in percent.
const DEVICES_PERCENT: u64 = 12;
/// See [`DEVICES_PERCENT`].
const CORES_PERCENT: u64 = 8;

impl Client {
    pub(super) fn job(&mut self) -> (JobKey, JobType) {
        let number = self.random.below(JOBS);
        let (name, kind) = match number {
            0..=2 => ("service", JobType::Service),
            3 => ("batch", JobType::Batch),
            _ if matches!(self.number, 0 | 2) => ("system", JobType::System),
            _ if self.number == 3 => ("sysbatch", JobType::Sysbatch),
            _ => ("batch", JobType::Batch),
        };
        let namespace = if number == 1 { TENANT } else { "default" };
        (JobKey::new(namespace, &format!("{name}-{}-{number}", self.number)), kind)
    }

    pub(super) fn describe(&mut self, key: JobKey, kind: JobType, mark: &str) -> Job {
        let batch = kind == JobType::Batch;
        let run_for = if kind.runs_to_completion() { self.random.within(500..9_000) } else { 3_600_000 };
        let fails = self.random.percent(8);
        let stop_after = if self.random.percent(30) { self.random.within(0..7_000) } else { 0 };
        let start_after = self.random.below(400);
        let settings = [
            ("run_for", Value::String(format!("{}ms", if fails { 700 } else { run_for }))),
            ("exit_code", Value::Int(i64::from(fails))),
            ("kill_after", Value::String(format!("{stop_after}ms"))),
            ("start_block_for", Value::String(format!("{start_after}ms"))),
        ];
        let config = settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let resources = TaskResources {
            cpu_mhz: self.random.within(50..500) as u32,
            memory_mb: self.random.within(50..600) as u32,
            ..TaskResources::default()
        };
        let resources = if kind.is_per_node() { resources } else { equipped(&mut self.random, resources) };
        let task = Task { config, resources, ..Task::new("task", "mock_driver", kind) };
        let ports = if self.random.percent(25) {
            let fixed = self.random.percent(50).then_some(8_080);
            vec![Port { label: "http".to_owned(), fixed, ..Port::default() }]
        } else {
            Vec::new()
        };
        let networks =
            if ports.is_empty() { Vec::new() } else { vec![Network { ports, ..Network::default() }] };
        let count = if kind.is_per_node() { 1 } else { self.random.below(5) as u32 };
        let is_service = kind == JobType::Service;
        let deploys = matches!(kind, JobType::Service | JobType::System);
        let deploys = deploys && self.random.percent(UPDATES_PERCENT);
        let update = deploys.then(|| Box::new(update(&mut self.random)));
        let migrate = is_service.then(|| Box::new(migrate(&mut self.random)));
        let group =
            Group { count, tasks: vec![task], networks, update, migrate, ..Group::new("group", kind) };
        let group = if kind.is_per_node() { group } else { silent(&mut self.random, group) };
        let side = (is_service && deploys && self.random.percent(SIDES_PERCENT)).then(|| {
            let (name, count) = (SIDE.to_owned(), self.random.within(1..3) as u32);
            let update = Some(Box::new(self::update(&mut self.random)));
            Group { name, count, update, networks: Vec::new(), ..group.clone() }
        });
        let groups = [Some(group), side].into_iter().flatten().collect();
        let meta = BTreeMap::from([(MARK.to_owned(), mark.to_owned())]);
        let periodic = (batch && key.id.ends_with('4') && self.number == 1).then(|| {
            let seconds = self.random.within(3..11);
            Box::new(Periodic {
                specs: vec![format!("*/{seconds} * * * * * *")],
                prohibit_overlap: self.random.percent(50),
                ..Periodic::default()
            })
        });
        let priority = self.random.within(20..80) as u8;
        Job { groups, meta, periodic, priority, ..Job::new(key, kind) }
    }
}

fn ms(random: &mut Random, from: u64, to: u64) -> Duration {
    Duration::from_millis(random.within(from..to))
}

/// What a task asks for that may need devices, or cores for itself: not all nodes have them.
fn equipped(random: &mut Random, resources: TaskResources) -> TaskResources {
    let devices = random.percent(DEVICES_PERCENT).then(|| DeviceAsk {
        name: DEVICE.to_owned(),
        count: 1,
        share_milli: *random.pick(&[0, 300, 500]),
        ..DeviceAsk::default()
    });
    let cores = if random.percent(CORES_PERCENT) { random.within(1..3) as u32 } else { 0 };
    TaskResources { devices: devices.into_iter().collect(), cores, ..resources }
}

/// A group that may say what becomes of its allocations on nodes that fall silent, by its block or by the settings before
/// it.
fn silent(random: &mut Random, group: Group) -> Group {
    if !random.percent(DISCONNECTS_PERCENT) {
        return group;
    }
    let span = ms(random, 3_000, 40_000);
    if random.percent(25) {
        let name = *random.pick(&["MaxClientDisconnect", "StopAfterClientDisconnect"]);
        let settings = IgnoredSettings::from([(name.to_owned(), Value::Int(span.as_nanos() as i64))]);
        return Group { kept: settings, ..group };
    }
    let stops = random.percent(30);
    let disconnect = Disconnect {
        lost_after: (!stops && random.percent(70)).then_some(span),
        stop_on_client_after: stops.then_some(span / 2),
        replace: random.percent(70),
        reconcile: *random.pick(&[
            Reconcile::BestScore,
            Reconcile::KeepOriginal,
            Reconcile::KeepReplacement,
            Reconcile::LongestRunning,
        ]),
    };
    Group { disconnect: Some(Box::new(disconnect)), ..group }
}

/// How versions of a job replace each other. Canaries that are not promoted by themselves are at the latest when everything
/// comes to rest.
fn update(random: &mut Random) -> Update {
    let fails_at_once = random.percent(30);
    Update {
        max_parallel: random.within(1..4) as u32,
        health_check: HealthCheck::TaskStates,
        min_healthy_time: ms(random, 100, 1_500),
        healthy_deadline: ms(random, 3_000, 6_000),
        progress_deadline: if fails_at_once { Duration::ZERO } else { ms(random, 6_000, 10_000) },
        canary: if random.percent(40) { random.within(1..3) as u32 } else { 0 },
        auto_revert: random.percent(70),
        auto_promote: random.percent(60),
        // Of jobs that run on every node only.
        stagger: if random.percent(50) { ms(random, 100, 4_000) } else { Duration::ZERO },
    }
}

/// How allocations leave a node that is drained.
fn migrate(random: &mut Random) -> Migrate {
    Migrate {
        max_parallel: random.within(1..3) as u32,
        health_check: HealthCheck::TaskStates,
        min_healthy_time: ms(random, 100, 1_500),
        healthy_deadline: ms(random, 3_000, 6_000),
    }
}
