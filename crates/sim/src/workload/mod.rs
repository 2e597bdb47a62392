//! People: each owns some jobs, asks for one thing after the other, and remembers what it was answered.

mod jobs;
mod operators;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_controller::ProposalOutcome;
use berth_model::{
    EvalId, Index, JobKey, Timestamp,
    command::{Command, DeregisterJob, RegisterJob, RunJob, ScaleJob, SetSchedulerConfig},
    eval::{Eval, Trigger},
    ids::IdSeed,
    job::{Job, JobType},
    namespace::Namespace,
    quota::{Bounds, Quota},
    scaling::ScalingEvent,
    scheduling::{Preemption, SchedulerConfig},
};
use berth_replication::runtime::{
    Runtime,
    engine::{AsyncRuntime, Select2},
};

use crate::{
    executor::{Simulated, now_ns, sleep_ns},
    node::DEVICE,
    operations::{JobRequest, RequestOutcome},
    random::Random,
    server::Server,
    servers::Servers,
    truth::Truth,
};

pub use operators::{come_to_rest, restore};

/// How long somebody waits for an answer, in nanoseconds.
const PATIENCE_NS: u64 = 8_000_000_000;
/// How much longer people ask where too little was written, in nanoseconds.
pub const LONGER_NS: u64 = 40_000_000_000;
/// Between two requests of one person, in nanoseconds.
const PAUSE_NS: std::ops::Range<u64> = 20_000_000..900_000_000;
/// Reads among what is asked of several servers.
const READS_PERCENT: u64 = 30;
/// Reads that do not wait, among these.
const STALE_PERCENT: u64 = 50;
/// Changes of a job by what was seen of it a while ago, in percent.
const OLD_PERCENT: u64 = 50;
/// The namespace that keeps to a quota.
const TENANT: &str = "tenant";

/// Simulations in which all jobs may preempt others, in percent. In the others system jobs may.
const PREEMPTS_PERCENT: u64 = 40;

/// All jobs may preempt others; batch work other batch work as well, or not.
fn preempting(batch_on_batch: bool) -> Command {
    let preemption = Preemption { system: true, sysbatch: true, service: true, batch: true, batch_on_batch };
    let config = SchedulerConfig { preemption, ..SchedulerConfig::default() };
    Command::SetSchedulerConfig(Box::new(SetSchedulerConfig { config, only_if: None }))
}

/// One simulated client of the API.
pub struct Client {
    /// Which, from 0.
    pub number: u64,
    /// Source of its random choices.
    pub random: Random,
    /// Servers that it sends requests to.
    pub servers: Servers,
    /// Gets the answer that it was given.
    pub truth: Truth,
    /// When it stops asking, in nanoseconds.
    pub until_ns: u64,
    /// Jobs as it has seen them last, with the index of their last change.
    pub looked_at: BTreeMap<JobKey, (Arc<Job>, Index)>,
}

impl Client {
    /// Asks until its time is over.
    pub async fn live(mut self) {
        let mut ids = IdSeed::new(self.random.next_u64());
        if self.number == 0 {
            self.found(&mut ids).await;
        }
        while now_ns() < self.until_ns || self.is_desired() {
            let pause_ns = self.random.within(PAUSE_NS);
            sleep_ns(pause_ns).await;
            let eval = EvalId(ids.mint());
            let Some(server) = self.servers.open(&mut self.random) else { continue };
            if server.is_one_of_several() && self.random.percent(READS_PERCENT) {
                if self.random.percent(STALE_PERCENT) {
                    self.read_stale(&server).await;
                } else {
                    self.read(&server).await;
                }
                continue;
            }
            let request = self.draw(&server, eval);
            if let Some((what, commands)) = request {
                self.ask(&server, eval, what, commands).await;
            }
        }
    }

    /// Whether too little was written so far: people ask on for a while.
    fn is_desired(&self) -> bool {
        now_ns() < self.until_ns + LONGER_NS && self.truth.facts().has_too_few_commands()
    }

    /// Describes the tenants.
    async fn found(&mut self, ids: &mut IdSeed) {
        let limit = Bounds {
            cpu_mhz: Some(2_500),
            memory_mb: Some(2_500),
            disk_mb: Some(1_800),
            devices_milli: [(DEVICE.to_owned(), 800)].into(),
        };
        let quota = Quota { name: "small".to_owned(), limit, ..Quota::default() };
        let namespace = Namespace { quota: Some("small".to_owned()), ..Namespace::new(TENANT) };
        let preempts = self.random.percent(PREEMPTS_PERCENT).then(|| preempting(self.random.percent(50)));
        let commands = [Command::PutQuota(Box::new(quota)), Command::PutNamespace(Box::new(namespace))];
        for command in commands.into_iter().chain(preempts) {
            loop {
                sleep_ns(100_000_000).await;
                let Some(server) = self.servers.open(&mut self.random) else { continue };
                let eval = EvalId(ids.mint());
                if let RequestOutcome::Committed(_) =
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

    /// A read that does not wait, on any server.
    async fn read_stale(&self, server: &Server) {
        let answer = <Simulated as Runtime>::Async::select2(server.read_stale(), sleep_ns(PATIENCE_NS)).await;
        if let Select2::First(Ok((index, age))) = answer {
            self.truth.read_stale(index, age);
        }
    }

    fn draw(&mut self, server: &Server, eval: EvalId) -> Option<(String, Vec<Command>)> {
        let (key, kind) = self.job();
        let mark = format!("{}", eval.0 & 0xffff_ffff);
        let command = match self.random.below(100) {
            0..40 => {
                let job = self.describe(key.clone(), kind, &mark);
                let count = job.groups[0].count;
                let register = RegisterJob { job: Arc::new(job), eval, only_if: None, submission: None };
                return Some((
                    format!("register {key} with count {count}"),
                    vec![Command::RegisterJob(Box::new(register))],
                ));
            }
            40..50 => {
                let purge = self.random.percent(50);
                let deregister = DeregisterJob { job: key.clone(), purge, eval };
                let what = if purge { "purge" } else { "stop" };
                return Some((format!("{what} {key}"), vec![Command::DeregisterJob(deregister)]));
            }
            50..57 if kind == JobType::Service => return Some(self.scale(key, eval)),
            57..63 => return self.tune(server, &key, eval),
            63..71 => return self.stop_alloc(server, &key, eval),
            71..75 => self.eligibility(server)?,
            75..80 => self.drain(server)?,
            80..86 => self.change_deployment(server, eval)?,
            86..91 => return self.revert(server, &key, eval),
            91..93 => self.collect(server)?,
            _ => return self.dispatch(key, eval, &mark),
        };
        // No evaluation names it.
        Some((String::new(), vec![command]))
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

    /// The newest version, for which its tasks end and restart otherwise: none of them is started again for that.
    fn tune(&mut self, server: &Server, key: &JobKey, eval: EvalId) -> Option<(String, Vec<Command>)> {
        let view = server.view();
        let row = view.store.job(key)?;
        let newest = (!row.job().stop).then(|| (row.job().clone(), row.current().index));
        // Some have looked at it a while ago: they are refused if it was changed or stopped meanwhile.
        let looked_at = self.looked_at.remove(key).filter(|_| self.random.percent(OLD_PERCENT));
        self.looked_at.extend(newest.clone().map(|newest| (key.clone(), newest)));
        let (job, only_if) = looked_at.or(newest)?;
        let mut job = Job::clone(&job);
        let task = &mut job.groups[0].tasks[0];
        task.kill_timeout = Duration::from_millis(self.random.within(500..8_000));
        task.restart.attempts = self.random.below(4) as u32;
        let register = RegisterJob { job: Arc::new(job), eval, only_if: Some(only_if), submission: None };
        Some((format!("tune {key}"), vec![Command::RegisterJob(Box::new(register))]))
    }

    fn stop_alloc(&mut self, server: &Server, key: &JobKey, eval: EvalId) -> Option<(String, Vec<Command>)> {
        let view = server.view();
        let row = view.store.job(key)?;
        let allocs = view.store.jobs().allocs(row).filter_map(|slot| view.store.allocs().row(slot));
        let allocs: Vec<_> = allocs.filter(|alloc| alloc.is_desired()).map(|alloc| alloc.id).collect();
        if allocs.is_empty() {
            return None;
        }
        let alloc = *self.random.pick(&allocs);
        let job = row.job();
        let record = Eval::pending(eval, key.clone(), job.job_type, job.priority, Trigger::AllocStop);
        Some((format!("stop allocation {alloc}"), vec![Command::StopAlloc(alloc, Box::new(record))]))
    }

    /// A run of a batch job, as a dispatch makes it.
    fn dispatch(&mut self, key: JobKey, eval: EvalId, mark: &str) -> Option<(String, Vec<Command>)> {
        let parent = self.describe(key, JobType::Batch, mark);
        let child = Job { periodic: None, dispatched: true, ..parent.child(&format!("batch-run-{mark}")) };
        let what = format!("dispatch {}", child.key);
        let run = RunJob { job: Arc::new(child), eval };
        Some((what, vec![Command::RunJob(Box::new(run))]))
    }

    async fn ask(
        &mut self,
        server: &Server,
        eval: EvalId,
        what: String,
        commands: Vec<Command>,
    ) -> RequestOutcome {
        let number = self.truth.facts().operations.begin(eval, what, JobRequest::of(&commands));
        let answer = server.request(commands);
        let answer = <Simulated as Runtime>::Async::select2(answer, sleep_ns(PATIENCE_NS)).await;
        let outcome = match answer {
            Select2::First(Ok(ProposalOutcome::Committed(index, _))) => RequestOutcome::Committed(index),
            Select2::First(Ok(
                ProposalOutcome::NotWritten(_)
                | ProposalOutcome::Busy(_)
                | ProposalOutcome::TooLarge(_)
                | ProposalOutcome::TooNew(_)
                | ProposalOutcome::NoLeader,
            )) => RequestOutcome::NotWritten,
            Select2::First(Ok(ProposalOutcome::Unknown(_)) | Err(_)) | Select2::Second(()) => {
                RequestOutcome::Unknown
            }
        };
        self.truth.answered(number, outcome.clone());
        outcome
    }
}
