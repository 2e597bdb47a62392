//! People: each owns some jobs, asks for one thing after the other, and remembers what it was told.

use std::{collections::BTreeMap, sync::Arc};

use berth_controller::Answer;
use berth_model::{
    EvalId, Index, JobKey, Timestamp,
    command::{Command, DeregisterJob, RegisterJob, RestorePart, RunJob, ScaleJob},
    eval::{Eval, Trigger},
    ids::IdSeed,
    job::{Group, Job, JobType, Network, Periodic, Port, Task, TaskResources},
    namespace::Namespace,
    quota::{Bounds, Quota},
    scaling::ScalingEvent,
    store::snapshot,
    value::Value,
};
use berth_replication::runtime::{
    Runtime,
    engine::{AsyncRuntime, Select2},
};

use crate::{
    executor::{Simulated, now_ns, sleep_ns},
    invariants::MARK,
    operations::Outcome,
    random::Random,
    server::Server,
    servers::Servers,
    truth::Truth,
};

/// How long somebody waits for an answer, in nanoseconds.
const PATIENCE_NS: u64 = 8_000_000_000;
/// Between two requests of one person, in nanoseconds.
const PAUSE_NS: std::ops::Range<u64> = 20_000_000..900_000_000;
/// Reads among what is asked of several servers.
const READS_PERCENT: u64 = 30;
/// Jobs that each owns.
const JOBS: u64 = 5;
/// The namespace that keeps to a quota.
const TENANT: &str = "tenant";

/// One person.
pub struct Client {
    /// Which, from 0.
    pub number: u64,
    /// What it draws.
    pub random: Random,
    /// Whom it asks.
    pub servers: Servers,
    /// Is told what it was told.
    pub truth: Truth,
    /// When it stops asking, in nanoseconds.
    pub until_ns: u64,
}

impl Client {
    /// Asks until its time is over.
    pub async fn live(mut self) {
        let mut ids = IdSeed::new(self.random.next_u64());
        if self.number == 0 {
            self.found(&mut ids).await;
        }
        while now_ns() < self.until_ns {
            let pause_ns = self.random.within(PAUSE_NS);
            sleep_ns(pause_ns).await;
            let eval = EvalId(ids.mint());
            let Some(server) = self.servers.open(&mut self.random) else { continue };
            if server.is_one_of_several() && self.random.percent(READS_PERCENT) {
                self.read(&server).await;
                continue;
            }
            let asked = self.draw(&server, eval);
            if let Some((what, commands)) = asked {
                self.ask(&server, eval, what, commands).await;
            }
        }
    }

    /// Describes the tenants.
    async fn found(&mut self, ids: &mut IdSeed) {
        let limit = Bounds { memory_mb: Some(2_500), ..Bounds::default() };
        let quota = Quota { name: "small".to_owned(), limit, ..Quota::default() };
        let namespace = Namespace { quota: Some("small".to_owned()), ..Namespace::new(TENANT) };
        let commands = [Command::PutQuota(Box::new(quota)), Command::PutNamespace(Box::new(namespace))];
        for command in commands {
            loop {
                sleep_ns(100_000_000).await;
                let Some(server) = self.servers.open(&mut self.random) else { continue };
                let eval = EvalId(ids.mint());
                if let Outcome::Committed(_) =
                    self.ask(&server, eval, String::new(), vec![command.clone()]).await
                {
                    break;
                }
            }
        }
    }

    /// A default read, on any server.
    async fn read(&self, server: &Server) {
        let before = self.truth.facts().acknowledged;
        let answer = <Simulated as Runtime>::Async::select2(server.read(), sleep_ns(PATIENCE_NS)).await;
        if let Select2::First(Ok(index)) = answer {
            self.truth.read(before, index);
        }
    }

    fn draw(&mut self, server: &Server, eval: EvalId) -> Option<(String, Vec<Command>)> {
        let (key, kind) = self.job();
        let mark = format!("{}", eval.0 & 0xffff_ffff);
        let command = match self.random.below(100) {
            0..45 => {
                let job = self.describe(key.clone(), kind, &mark);
                let count = job.groups[0].count;
                let register = RegisterJob { job: Arc::new(job), eval, only_if: None };
                return Some((
                    format!("register {key} with count {count}"),
                    vec![Command::RegisterJob(Box::new(register))],
                ));
            }
            45..57 => {
                let purge = self.random.percent(50);
                let deregister = DeregisterJob { job: key.clone(), purge, eval };
                let what = if purge { "purge" } else { "stop" };
                return Some((format!("{what} {key}"), vec![Command::DeregisterJob(deregister)]));
            }
            57..75 if kind == JobType::Service => return Some(self.scale(key, eval)),
            75..85 => return self.stop_alloc(server, &key, eval),
            85..90 => self.eligibility(server)?,
            _ => return self.dispatch(key, eval, &mark),
        };
        // No evaluation names it.
        Some((String::new(), vec![command]))
    }

    fn job(&mut self) -> (JobKey, JobType) {
        let number = self.random.below(JOBS);
        let (name, kind) = match number {
            0..=2 => ("service", JobType::Service),
            3 => ("batch", JobType::Batch),
            _ if self.number == 0 => ("system", JobType::System),
            _ => ("batch", JobType::Batch),
        };
        let namespace = if number == 1 { TENANT } else { "default" };
        (JobKey::new(namespace, &format!("{name}-{}-{number}", self.number)), kind)
    }

    fn describe(&mut self, key: JobKey, kind: JobType, mark: &str) -> Job {
        let batch = kind == JobType::Batch;
        let run_for = if batch { self.random.within(500..9_000) } else { 600_000 };
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
        let task = Task { config, resources, ..Task::new("task", "mock_driver", kind) };
        let ports = if self.random.percent(25) {
            let fixed = self.random.percent(50).then_some(8_080);
            vec![Port { label: "http".to_owned(), fixed, ..Port::default() }]
        } else {
            Vec::new()
        };
        let networks =
            if ports.is_empty() { Vec::new() } else { vec![Network { ports, ..Network::default() }] };
        let count = if kind == JobType::System { 1 } else { self.random.below(5) as u32 };
        let group = Group { count, tasks: vec![task], networks, ..Group::new("group", kind) };
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
        Job { groups: vec![group], meta, periodic, priority, ..Job::new(key, kind) }
    }

    fn scale(&mut self, job: JobKey, eval: EvalId) -> (String, Vec<Command>) {
        let count = self.random.below(6) as u32;
        let event = ScalingEvent {
            group: "group".to_owned(),
            count: Some(count),
            previous_count: 0,
            error: false,
            message: String::new(),
            meta: BTreeMap::new(),
            eval: Some(eval),
            at: Timestamp::default(),
            index: Index::default(),
        };
        let what = format!("scale {job} to {count}");
        (what, vec![Command::ScaleJob(Box::new(ScaleJob { job, event }))])
    }

    fn stop_alloc(&mut self, server: &Server, key: &JobKey, eval: EvalId) -> Option<(String, Vec<Command>)> {
        let view = server.view();
        let row = view.store.job(key)?;
        let allocs = view.store.jobs().allocs(row).filter_map(|slot| view.store.allocs().row(slot));
        let allocs: Vec<_> = allocs.filter(|alloc| alloc.is_wanted()).map(|alloc| alloc.id).collect();
        if allocs.is_empty() {
            return None;
        }
        let alloc = *self.random.pick(&allocs);
        let job = row.job();
        let record = Eval::pending(eval, key.clone(), job.job_type, job.priority, Trigger::AllocStop);
        Some((format!("stop allocation {alloc}"), vec![Command::StopAlloc(alloc, Box::new(record))]))
    }

    fn eligibility(&mut self, server: &Server) -> Option<Command> {
        let view = server.view();
        let nodes: Vec<_> = view.store.nodes().iter().map(|(_, node)| node.id).collect();
        let node = if nodes.is_empty() { return None } else { *self.random.pick(&nodes) };
        Some(Command::SetNodeEligibility(node, self.random.percent(70)))
    }

    /// A run of a batch job, as a dispatch makes it.
    fn dispatch(&mut self, key: JobKey, eval: EvalId, mark: &str) -> Option<(String, Vec<Command>)> {
        let parent = self.describe(key, JobType::Batch, mark);
        let child = Job { periodic: None, dispatched: true, ..parent.child(&format!("batch-run-{mark}")) };
        let what = format!("dispatch {}", child.key);
        let run = RunJob { job: Arc::new(child), eval };
        Some((what, vec![Command::RunJob(Box::new(run))]))
    }

    async fn ask(&mut self, server: &Server, eval: EvalId, what: String, commands: Vec<Command>) -> Outcome {
        let number = self.truth.facts().operations.begin(eval, what);
        let answer = server.request(commands);
        let answer = <Simulated as Runtime>::Async::select2(answer, sleep_ns(PATIENCE_NS)).await;
        let outcome = match answer {
            Select2::First(Ok(Answer::Committed(index, _))) => Outcome::Committed(index),
            Select2::First(Ok(
                Answer::NotWritten(_)
                | Answer::Busy(_)
                | Answer::TooLarge(_)
                | Answer::TooNew(_)
                | Answer::NoLeader,
            )) => Outcome::NotWritten,
            Select2::First(Ok(Answer::Unknown(_)) | Err(_)) | Select2::Second(()) => Outcome::Unknown,
        };
        self.truth.answered(number, outcome.clone());
        outcome
    }
}

/// An operator: saves the state, and puts it in the place of another one later.
pub async fn restore(mut random: Random, servers: Servers, truth: Truth, save_ns: u64, restore_ns: u64) {
    sleep_ns(save_ns).await;
    let Some(server) = servers.open(&mut random) else { return };
    let saved = server.view();
    if saved.store.is_restoring() || saved.store.cluster().id == 0 {
        return;
    }
    sleep_ns(restore_ns.saturating_sub(now_ns())).await;
    let Some(server) = servers.open(&mut random) else { return };
    let mut bytes = Vec::new();
    snapshot::write_records(&saved.store, &mut bytes).expect("memory does not fail");
    let granted = saved.store.granted().max(saved.store.index());
    truth.tell(&format!("an operator restores the state of index {}", saved.index));
    truth.count("restores");
    let size = bytes.len() / 2 + 1;
    for (number, part) in bytes.chunks(size).enumerate() {
        let part = RestorePart { number: number as u32, bytes: part.to_vec(), granted };
        let answer = server.request(vec![Command::RestorePart(part)]);
        let answer = <Simulated as Runtime>::Async::select2(answer, sleep_ns(PATIENCE_NS)).await;
        if !matches!(answer, Select2::First(Ok(Answer::Committed(..)))) {
            return;
        }
    }
}

/// Faults have ended: nodes are open to work again.
pub async fn open_nodes(mut random: Random, servers: Servers) {
    loop {
        sleep_ns(300_000_000).await;
        let Some(server) = servers.open(&mut random) else { continue };
        let view = server.view();
        let closed = view.store.nodes().iter().find(|(_, node)| !node.eligible);
        let Some((_, node)) = closed else { continue };
        let answer = server.request(vec![Command::SetNodeEligibility(node.id, true)]);
        let _ = <Simulated as Runtime>::Async::select2(answer, sleep_ns(PATIENCE_NS)).await;
    }
}
