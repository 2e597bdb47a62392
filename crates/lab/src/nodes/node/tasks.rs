//! Executes the lifecycle's actions on simulated tasks.

use std::{path::Path, sync::Arc};

use berth_agent::{
    Host, NO_SECRETS,
    devices::DeviceFiles,
    drivers::{
        Launch,
        mock::{self, MockSettings, MockStep},
    },
    lifecycle::{Action, Event, Exit, FoundTask, RunSpec, StartFailure, StartFailureKind, TaskRef},
    never_prepared,
    paths::{AllocPaths, is_plain_name},
    volumes::HostVolumes,
};
use berth_api::agent::{AllocId, TaskEventKind, TaskSpec};

use super::SimNode;
use crate::nodes::{
    TaskChange, TaskEntry,
    common::FleetContext,
    identity::{SeedPurpose, node_uuid, seed_of, spec},
    mock::MockTask,
    timers::TimerEvent,
};

/// Exit code of a process that SIGKILL ended, as a shell reports it.
const KILLED: i32 = 128 + 9;

/// Where tasks find their files according to their environment: nothing is there.
const DATA_DIR: &str = "/simulated";

impl SimNode {
    /// Lets the life cycle decide, and carries out its actions. What comes of that is an event of its own, as it is for
    /// an agent: between two events a node may speak.
    pub(super) fn happens(&mut self, event: Event, now_ns: u64, common: &mut FleetContext) {
        let mut actions = std::mem::take(&mut common.actions);
        self.life.handle(event, now_ns, &mut actions);
        for action in actions.drain(..) {
            self.act(action, now_ns, common);
        }
        common.actions = actions;
    }

    /// There is nothing to make; what can be made nowhere cannot be made here. An agent finds that out a moment later.
    fn prepare(&mut self, alloc: AllocId, now_ns: u64, common: &mut FleetContext) {
        match self.why_not_prepared(alloc) {
            None => self.happens(Event::Prepared(alloc), now_ns, common),
            Some(_) => common.timers.add(now_ns, self.position, TimerEvent::NotPrepared(alloc)),
        }
    }

    pub(super) fn not_prepared(&mut self, alloc: AllocId, now_ns: u64, common: &mut FleetContext) {
        if let Some(message) = self.why_not_prepared(alloc) {
            let failure = StartFailure { kind: StartFailureKind::Setup, message };
            self.happens(Event::PrepareFailed(alloc, failure), now_ns, common);
        }
    }

    fn why_not_prepared(&self, alloc: AllocId) -> Option<String> {
        never_prepared(&self.life.alloc(alloc)?.spec().group.tasks)
    }

    pub(super) fn act(&mut self, action: Action, now_ns: u64, common: &mut FleetContext) {
        match action {
            Action::Prepare(alloc) => self.prepare(alloc, now_ns, common),
            // Nothing was made.
            Action::CleanUp(alloc) => self.happens(Event::CleanedUp { alloc, left: None }, now_ns, common),
            Action::StartTask(of) => self.start(of, now_ns, common),
            Action::SignalTask(of) => {
                if let Some(mock) = self.mocks.iter_mut().find(|mock| mock.of == of && !mock.stopping) {
                    mock.stopping = true;
                    let at_ns = now_ns.saturating_add(mock.stop_after_ns());
                    common.timers.add(at_ns, self.position, TimerEvent::Stopped(of));
                }
            }
            // It waits for nothing.
            Action::CancelStart(_) => {}
            Action::KillTask(of) => common.timers.add(now_ns, self.position, TimerEvent::Killed(of)),
            Action::Report { alloc, urgent } => {
                if let Some(alloc) = self.life.alloc(alloc) {
                    self.session.observe(alloc.id(), alloc.status(), urgent, now_ns);
                }
            }
            Action::Check(of) => {
                let alloc = self.life.alloc(of.alloc);
                if let Some(answer) = alloc.and_then(|alloc| mock::answer_check(alloc, of, now_ns)) {
                    self.happens(Event::Checked(of, answer), now_ns, common);
                }
            }
            // Only a restart of the machine ends what the node is made of, and no task lives through that.
            Action::Recover(of) => self.happens(Event::Recovered(of, FoundTask::Rebooted), now_ns, common),
            // Nothing is on disk.
            Action::Persist(_) | Action::RemoveDir(_) => {}
        }
    }

    fn start(&mut self, of: TaskRef, now_ns: u64, common: &mut FleetContext) {
        let Some(alloc) = self.life.alloc(of.alloc) else { return };
        let setup = self.settings(alloc.spec(), of, common).map_err(Box::new);
        let seed = seed_of(&common.config, self.number, SeedPurpose::Tasks);
        let mock = MockTask::new(of, setup, common.config.behaviour.tasks.outcome(seed, of), now_ns);
        self.schedule(&mock, common);
        self.mocks.push(mock);
    }

    /// As the agent understands them, all its checks and replacements included.
    fn settings(
        &self,
        run: &RunSpec,
        of: TaskRef,
        common: &mut FleetContext,
    ) -> Result<Arc<MockSettings>, StartFailure> {
        let task = &run.group.tasks[usize::from(of.task)];
        let plain = is_plain(task);
        if let Some(settings) = common.settings(&task.config_json).filter(|_| plain) {
            return Ok(settings);
        }
        let (uuid, node) = (node_uuid(&common.config, self.number), spec(&common.config, self.number));
        let (device_files, volumes) = (DeviceFiles::default(), HostVolumes::new());
        let (node_id, drivers) = (uuid.as_str(), &common.drivers);
        let host = Host {
            node_id,
            node: &node,
            drivers,
            device_files: &device_files,
            volumes: &volumes,
            secrets: &NO_SECRETS,
        };
        let settings = match host.launch(run, of, &AllocPaths::new(Path::new(DATA_DIR), of.alloc))? {
            Launch::Mock(settings) => Arc::new(settings),
            Launch::Keeper(_) => {
                let message = "run a process: a simulated node only pretends to run tasks".to_owned();
                return Err(StartFailure { kind: StartFailureKind::Setup, message });
            }
        };
        if plain {
            common.cache_settings(task.config_json.clone(), settings.clone());
        }
        Ok(settings)
    }

    fn schedule(&self, mock: &MockTask, common: &mut FleetContext) {
        if let Some((at_ns, _)) = mock.next() {
            common.timers.add(at_ns, self.position, TimerEvent::Step(mock.of));
        }
    }

    pub(super) fn step(&mut self, of: TaskRef, now_ns: u64, common: &mut FleetContext) {
        let Some(at) = self.mocks.iter().position(|mock| mock.of == of) else { return };
        let Some((at_ns, step)) = self.mocks[at].next() else { return };
        let event = match step {
            MockStep::Noted(message) => {
                Some(Event::Noted { of, kind: TaskEventKind::Driver, at_ns, message })
            }
            MockStep::Started => Some(Event::Started { of, at_ns }),
            MockStep::Output(_) => None,
            MockStep::StartFailed(failure) => Some(Event::StartFailed(of, failure)),
            MockStep::Exited(exit) => return self.ends(of, Exit { at_ns, ..exit }, now_ns, common),
        };
        if matches!(event, Some(Event::Started { .. })) {
            self.note(of, TaskChange::Started, common);
        }
        self.mocks[at].take(&common.config.behaviour.tasks);
        if matches!(event, Some(Event::StartFailed(..))) {
            self.mocks.swap_remove(at);
        } else {
            self.schedule(&self.mocks[at], common);
        }
        if let Some(event) = event {
            self.happens(event, now_ns, common);
        }
    }

    /// A task that was stopped has ended.
    pub(super) fn stopped(&mut self, of: TaskRef, now_ns: u64, common: &mut FleetContext) {
        self.ends(of, Exit { at_ns: now_ns, ..Exit::default() }, now_ns, common);
    }

    /// A task was ended by force.
    pub(super) fn killed(&mut self, of: TaskRef, now_ns: u64, common: &mut FleetContext) {
        let exit = Exit { exit_code: KILLED, signal: 9, at_ns: now_ns, ..Exit::default() };
        self.ends(of, exit, now_ns, common);
    }

    fn ends(&mut self, of: TaskRef, exit: Exit, now_ns: u64, common: &mut FleetContext) {
        let Some(at) = self.mocks.iter().position(|mock| mock.of == of) else { return };
        self.mocks.swap_remove(at);
        self.note(of, TaskChange::Ended, common);
        self.happens(Event::Exited(of, exit), now_ns, common);
    }

    /// Counts it, and writes it into the journal, if there is one.
    pub(super) fn note(&self, of: TaskRef, change: TaskChange, common: &FleetContext) {
        common.counts(change);
        let (Some(journal), Some(alloc)) = (&common.config.journal, self.life.alloc(of.alloc)) else {
            return;
        };
        let group = &alloc.spec().group;
        journal.write(&TaskEntry {
            change,
            node: self.number,
            alloc: of.alloc.to_string(),
            job: group.job_id.clone(),
            meta: group.meta.clone(),
        });
    }
}

/// Whether the settings of a task are the same on every node and for every allocation.
fn is_plain(task: &TaskSpec) -> bool {
    let mut texts = task.env.values().chain([&task.config_json, &task.user]);
    task.driver == "mock_driver" && is_plain_name(&task.name) && !texts.any(|text| text.contains("${"))
}
