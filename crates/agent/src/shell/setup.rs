//! What an allocation has for all of its tasks, made before the first of them starts and removed after the last has ended; one list
//! names all of its steps. What belongs to one task, such as its image and artifacts, is a step of that task's own start (`runner.rs`);
//! what is left of that at the end is removed here, too.
//!
//! Each step must cope with what it finds: after a restart of the agent it may be asked for what it has done before, in whole or in
//! part.

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use berth_api::agent::{AllocId, TaskSpec};

use super::Agent;
use super::prepare::shared_network;
use super::runner::Context;
use crate::alloc_dir;
use crate::drivers::settings::setup;
use crate::failure::PANICKED;
use crate::images;
use crate::lifecycle::{Event, RunSpec, StartFailure, StartFailureKind, TaskRef};
use crate::network::NetworkNeed;
use crate::paths::{AllocPaths, is_plain_name};
use crate::volumes;

/// How often a step is tried, and how long it is waited in between: another program may be about to let go of a port, or to
/// change the same tables of the kernel. Nomad tries networks three times, too.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(250);

/// The allocation that is set up, and its agent.
struct SetupContext<'a> {
    context: &'a Context,
    run: &'a RunSpec,
    paths: &'a AllocPaths,
}

type StepFn = fn(&SetupContext<'_>) -> Result<(), StartFailure>;

/// One step: something that an allocation has for all of its tasks.
struct SetupStep {
    /// As events of tasks name it.
    name: &'static str,
    prepare: StepFn,
    clean_up: StepFn,
    /// Whether trying again may help.
    may_pass: bool,
}

/// In the order in which they are prepared; they are cleaned up in the opposite one.
const STEPS: [SetupStep; 7] = [
    SetupStep { name: "directory", prepare: make_directory, clean_up: clear_directory, may_pass: false },
    SetupStep { name: "volumes", prepare: find_volumes, clean_up: no_op, may_pass: false },
    SetupStep { name: "users", prepare: no_op, clean_up: release_users, may_pass: false },
    SetupStep { name: "cores", prepare: reserve_cores, clean_up: release_cores, may_pass: true },
    SetupStep { name: "ports", prepare: take_host_ports, clean_up: release_host_ports, may_pass: false },
    SetupStep { name: "network", prepare: make_network, clean_up: remove_networks, may_pass: true },
    SetupStep { name: "tokens and secrets", prepare: no_op, clean_up: drop_secrets, may_pass: false },
];

/// How far the preparing or cleaning up of an allocation has come: before one of its steps, or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetupMoment {
    /// Whether the allocation is being prepared, and not cleaned up.
    pub prepares: bool,
    /// The step's name.
    pub step: &'static str,
    /// Whether the step is done.
    pub done: bool,
}

/// The names of all steps, in the order in which they are prepared.
pub fn setup_steps() -> impl Iterator<Item = &'static str> {
    STEPS.iter().map(|step| step.name)
}

impl SetupStep {
    fn carry_out(&self, prepares: bool, subject: &SetupContext<'_>) -> Result<(), StartFailure> {
        let reached = |done| {
            if let Some(watch) = subject.context.on_setup {
                watch(SetupMoment { prepares, step: self.name, done });
            }
        };
        reached(false);
        let work = if prepares { self.prepare } else { self.clean_up };
        let mut left = if self.may_pass { TRIES } else { 1 };
        let done = loop {
            left -= 1;
            match work(subject) {
                Err(_) if left > 0 => sleep(PAUSE),
                done => break done,
            }
        };
        reached(true);
        done
    }
}

/// All of it, or the first that cannot be made: no task could run without.
fn prepare(subject: &SetupContext<'_>) -> Result<(), String> {
    STEPS.iter().try_for_each(|step| {
        let failed = |failure: StartFailure| not_prepared(step.name, &failure.message);
        step.carry_out(true, subject).map_err(failed)
    })
}

fn not_prepared(what: &str, why: &str) -> String {
    format!("prepare the allocation's {what}: {why}")
}

/// Why an allocation of these tasks can be prepared on no node; none where nothing is wrong with them.
pub fn never_prepared(tasks: &[TaskSpec]) -> Option<String> {
    no_directory(tasks).map(|why| not_prepared("directory", &why))
}

/// Why there cannot be a directory for each of them.
fn no_directory(tasks: &[TaskSpec]) -> Option<String> {
    let odd = tasks.iter().find(|task| !is_plain_name(&task.name))?;
    Some(format!("make the directory of task {:?}: its name cannot name one", odd.name))
}

/// As much of it as can be removed; what cannot holds up nothing else.
fn clean_up(subject: &SetupContext<'_>) -> Option<String> {
    let failures: Vec<String> = STEPS
        .iter()
        .rev()
        .filter_map(|step| {
            let failure = step.carry_out(false, subject).err()?;
            Some(format!("clean up the allocation's {}: {}", step.name, failure.message))
        })
        .collect();
    (!failures.is_empty()).then(|| failures.join("; "))
}

fn no_op(_: &SetupContext<'_>) -> Result<(), StartFailure> {
    Ok(())
}

fn make_directory(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    let SetupContext { context, run, paths } = subject;
    let tasks = &run.group.tasks;
    if let Some(why) = no_directory(tasks) {
        return Err(setup(why));
    }
    let equipment = context.equipment();
    Ok(alloc_dir::make_shared(paths, run, equipment.host(&context.node_id).sharers(tasks))?)
}

/// What tasks had of memory, to hold their secrets, and the images that they needed. Their files stay.
fn clear_directory(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    let names = subject.run.group.tasks.iter().map(|task| task.name.as_str());
    alloc_dir::secrets::end(subject.paths, names);
    Ok(images::links::release(&subject.paths.root().join("keepers"))?)
}

/// Volumes of the node exist already: it is checked that the tasks may use those that they mount.
fn find_volumes(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    let (group, equipment) = (&subject.run.group, subject.context.equipment());
    let volumes = equipment.host(&subject.context.node_id).volumes;
    group.tasks.iter().try_for_each(|task| Ok(volumes::mounts_of(group, task, volumes).map(drop)?))
}

fn release_users(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    if let Ok(ids) = &subject.context.providers.user_ids {
        ids.end(subject.run.alloc);
    }
    Ok(())
}

/// Cores of tasks by the tasks' numbers; of tasks that have any.
pub(super) fn cores_of(run: &RunSpec) -> BTreeMap<u16, BTreeSet<u32>> {
    let own = |(number, task): (u16, &TaskSpec)| {
        let devices = run.devices.iter().find(|devices| devices.task == task.name)?;
        (!devices.cores.is_empty()).then(|| (number, devices.cores.iter().copied().collect()))
    };
    (0..).zip(&run.group.tasks).filter_map(own).collect()
}

fn reserve_cores(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    Ok(subject.context.cores.reserve(subject.run.alloc, cores_of(subject.run))?)
}

fn release_cores(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    Ok(subject.context.cores.release(subject.run.alloc)?)
}

/// Whether any of its tasks needs that of a network.
fn needs(subject: &SetupContext<'_>, need: &NetworkNeed) -> bool {
    let SetupContext { context, run, paths } = subject;
    let equipment = context.equipment();
    let host = equipment.host(&context.node_id);
    (0..).zip(&run.group.tasks).any(|(task, _)| host.network_need(run, task, paths).as_ref() == Some(need))
}

fn take_host_ports(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    let SetupContext { context, run, paths } = subject;
    if run.ports.is_empty() || !needs(subject, &NetworkNeed::Host) {
        return Ok(());
    }
    let networks = context.providers.networks.as_deref().ok();
    Ok(context.host_ports.take(run, paths, &context.host_ip, networks)?)
}

fn release_host_ports(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    subject.context.host_ports.end(subject.run.alloc);
    Ok(())
}

fn make_network(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    if !needs(subject, &NetworkNeed::Shared) {
        return Ok(());
    }
    shared_network(subject.context, subject.run).map(drop)
}

/// Removes the networks of the allocation and of its single tasks.
fn remove_networks(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    let Ok(networks) = &subject.context.providers.networks else { return Ok(()) };
    Ok(networks.end(subject.run.alloc)?)
}

fn drop_secrets(subject: &SetupContext<'_>) -> Result<(), StartFailure> {
    subject.context.held_tokens.end(subject.run.alloc);
    subject.context.held_secrets.end(subject.run.alloc);
    subject.context.held_template_data.end(subject.run.alloc);
    Ok(())
}

impl Agent {
    pub(super) fn prepare(&self, alloc: AllocId) {
        let failed = move |message| {
            Event::PrepareFailed(alloc, StartFailure { kind: StartFailureKind::Setup, message })
        };
        let work = move |subject: &SetupContext<'_>| match prepare(subject) {
            Ok(()) => Event::Prepared(alloc),
            Err(message) => failed(message),
        };
        self.set_up(alloc, work, failed);
    }

    pub(super) fn clean_up(&self, alloc: AllocId) {
        let failed = move |left: String| {
            // What is on record is tried again when the agent starts again.
            tracing::error!(%alloc, left, "something of an allocation that has ended is left");
            Event::CleanedUp { alloc, left: Some(left) }
        };
        let work = move |subject: &SetupContext<'_>| match clean_up(subject) {
            None => Event::CleanedUp { alloc, left: None },
            Some(left) => failed(left),
        };
        self.set_up(alloc, work, failed);
    }

    /// A task that has just started may have been about to when others got cores of their own.
    pub(super) fn exclude_from_cores(&self, of: TaskRef) {
        if self.context.cores.are_reserved() {
            let context = self.context.clone();
            tokio::task::spawn_blocking(move || {
                if let Err(failure) = context.cores.renew(&of.start_name()) {
                    tracing::warn!(?of, %failure, "a task runs on cores that others have for themselves");
                }
            });
        }
    }

    /// Takes up which tasks have cores of their own, and keeps all others off these.
    pub(super) fn restore_cores(&self) {
        let living = self.node.allocs().filter(|alloc| alloc.has_started() && !alloc.has_ended());
        let living = living.map(|alloc| (alloc.id(), cores_of(alloc.spec()))).collect();
        if let Err(failure) = self.context.cores.restore(living) {
            tracing::warn!(%failure, "not all tasks run where they are to");
        }
    }

    /// Runs the blocking steps on a thread for that; as many allocations at a time as tasks may start.
    fn set_up(
        &self,
        alloc: AllocId,
        work: impl FnOnce(&SetupContext<'_>) -> Event + Send + 'static,
        failed: impl FnOnce(String) -> Event + Send + 'static,
    ) {
        let Some(run) = self.node.spec_to_start(alloc) else { return };
        let (context, paths) = (self.context.clone(), self.data.paths(alloc));
        tokio::spawn(async move {
            // None once the agent ends.
            let _permit = context.setting_up.clone().acquire_owned().await.ok();
            let events = context.events.clone();
            let done = tokio::task::spawn_blocking(move || {
                work(&SetupContext { context: &context, run: &run, paths: &paths })
            });
            let event = done.await.unwrap_or_else(|_| failed(PANICKED.to_owned()));
            let _ = events.send(event).await;
        });
    }
}
