//! Runs one start of a task from its plan to its exit record.

use std::fs::{File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use berth_api::failpoint;
use prost::Message;
use rustix::process::{Pid, getpid, set_child_subreaper, setsid};

use super::container::{Container, memory_events, was_out_of_memory};
use super::control::Control;
use super::forward::Forwarder;
use super::output::{Outputs, TaskEnds};
use super::plan::{
    CgroupSetting, ExitRecord, KeeperPlan, LOCK_FILE, ProcessRun, Run, StartRecord, StartStage,
};
use super::process::PausedProcess;
use super::watch::{MainExit, MainProcess, TaskWatch};
use super::{REFUSED, fds, now_ns, reap};
use crate::cgroups::{Cgroup, end_all};
use crate::failure::{Failure, FailureContext};
use crate::lifecycle::{StartFailure, StartFailureKind};
use crate::locked_file::LockedFile;
use crate::proc;

/// How long a keeper waits for the one before it to finish cleaning up.
const LOCK_WAIT_MAX: Duration = Duration::from_secs(10);

/// The largest plan that is read.
const PLAN_BYTES_MAX: u64 = 4 << 20;

/// Said of a task of which something lives on.
pub(super) const LEFT_OVER: &str = "processes of it could not be ended";

/// Where a keeper works: its working directory, since a socket's path must be short.
pub(super) fn keeper_dir() -> &'static Path {
    Path::new(".")
}

pub(super) fn main(dir: &str) -> Result<i32, Failure> {
    let mut bytes = Vec::new();
    io::stdin().take(PLAN_BYTES_MAX).read_to_end(&mut bytes).doing(|| "read the plan".into())?;
    failpoint("keeper.plan", &bytes);
    let plan =
        KeeperPlan::decode(bytes.as_slice()).map_err(|error| Failure::other("read the plan", error))?;
    if plan.run.is_none() {
        return Err(Failure::other("read the plan", "it is not whole"));
    }
    enter(dir)?;
    let Some(_lock) = claim(|| was_attempted(plan.attempt))? else { return Ok(REFUSED) };
    if was_attempted(plan.attempt) {
        return Ok(REFUSED);
    }
    // Open until the end is on record: its closing is what the agent waits for.
    let mut control = Control::bind()?;
    set_child_subreaper(Some(getpid())).doing(|| "become a reaper".into())?;
    fds::detach_stdio()?;
    ExitRecord::reserve(keeper_dir())?;
    let exit = match Start::new(&plan).run() {
        Ok(started) => started.run_to_end(&mut control),
        Err(failure) => failed(&failure),
    };
    conclude(plan.attempt, exit)
}

pub(super) fn enter(dir: &str) -> Result<(), Failure> {
    // A process group leader cannot; then it has been done.
    let _ = setsid();
    std::env::set_current_dir(dir).doing(|| format!("enter {dir}"))
}

/// Takes the directory's lock; none when `refused` says so, or another keeper stays.
pub(super) fn claim(refused: impl Fn() -> bool) -> Result<Option<LockedFile>, Failure> {
    let doing = || "lock the keeper's directory".to_owned();
    let deadline = Instant::now() + LOCK_WAIT_MAX;
    let file = File::options().create(true).append(true).open(LOCK_FILE).doing(doing)?;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(LockedFile(file))),
            Err(TryLockError::Error(error)) => return Err(Failure::new(doing(), error)),
            Err(TryLockError::WouldBlock) if refused() || Instant::now() > deadline => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
        }
        sleep(Duration::from_millis(20));
    }
}

/// A record that cannot be read might be of this attempt, and no attempt may be made twice.
fn was_attempted(attempt: u32) -> bool {
    let started = StartRecord::read(keeper_dir()).map(|found| found.map(|record| record.attempt));
    let ended = ExitRecord::read(keeper_dir()).map(|found| found.map(|record| record.attempt));
    [started, ended]
        .into_iter()
        .any(|last| last.map_or(true, |last| last.is_some_and(|last| last >= attempt)))
}

/// Writes down the end; only now does anybody believe it.
pub(super) fn conclude(attempt: u32, exit: ExitRecord) -> Result<i32, Failure> {
    ExitRecord { attempt, ..exit }.write(keeper_dir())?;
    Ok(0)
}

pub(super) fn failed(failure: &StartFailure) -> ExitRecord {
    ExitRecord {
        message: failure.message.clone(),
        start_failed: true,
        recoverable: failure.kind == StartFailureKind::Recoverable,
        finished_ns: now_ns(),
        ..ExitRecord::default()
    }
}

impl From<Failure> for StartFailure {
    /// What the host refuses now it may grant later.
    fn from(failure: Failure) -> Self {
        Self { kind: StartFailureKind::Recoverable, message: failure.to_string() }
    }
}

/// A start under way.
struct Start<'a> {
    plan: &'a KeeperPlan,
    record: StartRecord,
}

/// A task that runs.
struct Started {
    pid: Pid,
    outputs: Outputs,
    container: Option<Container>,
    /// The cgroups of a process of the host.
    cgroups: Vec<Cgroup>,
    /// Counts kills for want of memory.
    memory_events: Option<PathBuf>,
}

impl<'a> Start<'a> {
    fn new(plan: &'a KeeperPlan) -> Self {
        let record = StartRecord {
            attempt: plan.attempt,
            boot_id: proc::boot_id(),
            keeper_pid: getpid().as_raw_pid(),
            logs: plan.logs.clone(),
            ..StartRecord::default()
        };
        Self { plan, record }
    }

    fn run(mut self) -> Result<Started, StartFailure> {
        let (outputs, ends) = Outputs::create(&self.plan.logs)?;
        match &self.plan.run {
            None => Err(crate::drivers::settings::setup("read the plan: it says not what to run")),
            Some(Run::Process(run)) => {
                self.record.cgroup = run.cgroup.clone();
                self.record.limiting = run.cgroups().into_iter().filter(|path| *path != run.cgroup).collect();
                let cgroups = self.record.cgroups();
                match self.run_process(run, ends, &cgroups) {
                    Ok(pid) => {
                        let memory_events = if run.limits.is_empty() { None } else { memory_events(pid) };
                        Ok(Started { pid, outputs, container: None, cgroups, memory_events })
                    }
                    Err(failure) => {
                        end_all(&cgroups);
                        // On a host without cgroups it may only be late, and would run beside the next attempt.
                        reap::end_all_children();
                        Err(failure)
                    }
                }
            }
            Some(Run::Container(run)) => {
                let forwarder = Forwarder::listen(&run.forwards)?;
                self.record.container = Some(run.into());
                self.record.forwards = run.forwards.clone();
                self.record.stop_signal = run.stop_signal;
                self.record.first_id = run.first_id;
                self.record.claim(keeper_dir())?;
                let (container, pid) = Container::run(run, ends)?;
                if let Err(failure) = self.runs(pid, forwarder) {
                    container.delete();
                    return Err(failure.into());
                }
                let memory_events = memory_events(pid);
                Ok(Started { pid, outputs, container: Some(container), cgroups: Vec::new(), memory_events })
            }
        }
    }

    /// The cgroups are on record before they are made, and their process before that runs.
    fn run_process(
        &mut self,
        run: &ProcessRun,
        ends: TaskEnds,
        cgroups: &[Cgroup],
    ) -> Result<Pid, StartFailure> {
        self.record.claim(keeper_dir())?;
        cgroups.iter().try_for_each(Cgroup::make)?;
        for CgroupSetting { cgroup, file, value, optional } in &run.limits {
            Cgroup::at(cgroup).set(file, value, *optional)?;
        }
        let process = PausedProcess::create(run, &self.plan.keeper_args, ends)?;
        let ticks = proc::start_ticks(process.pid());
        let ticks = ticks.ok_or_else(|| Failure::other("start the task", "its process ended at once"))?;
        (self.record.pid, self.record.pid_start_ticks) = (process.pid().as_raw_pid(), ticks);
        self.write(StartStage::Created)?;
        let pid = process.release()?;
        self.record.started_ns = now_ns();
        self.write(StartStage::Released)?;
        Ok(pid)
    }

    /// A container runs, or has ended by now: there is no moment between its making and its first step.
    fn runs(&mut self, container: Pid, forwarder: Forwarder) -> Result<(), Failure> {
        self.record.started_ns = now_ns();
        let served = forwarder.serve(container);
        let ticks = proc::start_ticks(container);
        if ticks.is_some() {
            served?;
        }
        // Without the ticks nobody takes another process for it.
        (self.record.pid, self.record.pid_start_ticks) = (container.as_raw_pid(), ticks.unwrap_or(0));
        self.write(StartStage::Released)
    }

    fn write(&mut self, stage: StartStage) -> Result<(), Failure> {
        self.record.stage = stage as i32;
        self.record.write(keeper_dir())
    }
}

impl Started {
    /// Nothing of the task is left when this returns, but what its output pipes still held is in the log.
    fn run_to_end(self, control: &mut Control) -> ExitRecord {
        let mut watch = TaskWatch::new(MainProcess::Child(self.pid), self.outputs, control);
        let MainExit { exit_code, signal } = watch.until_the_end();
        // Before the cgroup that counted it is gone.
        let oom_killed = exit_code != 0 && self.memory_events.is_some_and(|file| was_out_of_memory(&file));
        let ended = end_all(&self.cgroups);
        let left = reap::end_all_children() || !ended;
        watch.drain();
        if let Some(container) = self.container {
            container.delete();
        }
        let message = if left { LEFT_OVER } else { "" };
        ExitRecord {
            exit_code,
            signal,
            oom_killed,
            finished_ns: now_ns(),
            message: message.into(),
            ..ExitRecord::default()
        }
    }
}
