//! Tasks under way: one future for each, fed with commands, telling events.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use berth_api::agent::{AllocId, NodeSpec, TaskSpec};
use nix::sys::signal::Signal;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::clock::Clock;
use super::prepare::{Host, prepare};
use super::{kept, mock};
use crate::devices::DeviceFiles;
use crate::drivers::mock::MockSettings;
use crate::drivers::{Driver, Launch};
use crate::keeper::plan::{LogPlan, Plan};
use crate::lifecycle::{Event, RunSpec, StartFailure, StartFailureKind, TaskRef};
use crate::place::AllocPlace;

/// How many tasks are prepared at a time.
const PREPARING_MAX: usize = 8;

/// Commands that wait for a task that has not started yet; later ones are dropped, and sent again by their deadlines.
const COMMANDS_MAX: usize = 8;

/// What all tasks of an agent share.
pub(super) struct Context {
    pub(super) clock: Clock,
    pub(super) node_id: String,
    pub(super) node: NodeSpec,
    pub(super) drivers: Vec<Box<dyn Driver>>,
    pub(super) device_files: DeviceFiles,
    pub(super) keeper_command: Vec<String>,
    pub(super) preparing: Semaphore,
    pub(super) events: mpsc::Sender<Event>,
}

impl Context {
    pub(super) fn new(
        clock: Clock,
        node_id: String,
        node: NodeSpec,
        drivers: Vec<Box<dyn Driver>>,
        device_files: DeviceFiles,
        keeper_command: Vec<String>,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let preparing = Semaphore::new(PREPARING_MAX);
        Self { clock, node_id, node, drivers, device_files, keeper_command, preparing, events }
    }

    pub(super) fn driver(&self, name: &str) -> Option<&dyn Driver> {
        self.drivers.iter().find(|driver| driver.name() == name).map(|driver| &**driver)
    }

    /// Where tasks are resolved.
    pub(super) fn host(&self) -> Host<'_> {
        Host {
            node_id: &self.node_id,
            node: &self.node,
            drivers: &self.drivers,
            device_files: &self.device_files,
        }
    }

    /// The signal that asks this task to end.
    pub(super) fn kill_signal(&self, spec: &TaskSpec) -> i32 {
        let named = spec.kill_signal.parse::<Signal>().ok();
        let default = || self.driver(&spec.driver).map_or(Signal::SIGTERM, Driver::kill_signal);
        named.unwrap_or_else(default) as i32
    }
}

/// What a task is to be told.
#[derive(Debug)]
pub(super) enum TaskCommand {
    /// To end.
    Signal(i32),
    /// To end by force.
    Kill,
    /// To do what it does on this signal; whether it was sent is told.
    PassSignal(i32, oneshot::Sender<Result<(), String>>),
}

/// Whether a task is to be started, or one of an earlier run of the agent taken up.
pub(super) enum Begin<T> {
    Start(T),
    Recover,
}

/// One start of a task.
pub(super) struct Runner {
    pub(super) context: Arc<Context>,
    pub(super) of: TaskRef,
    pub(super) keeper_dir: PathBuf,
    events: mpsc::Sender<Event>,
    run: RunSpec,
    place: AllocPlace,
}

impl Runner {
    pub(super) async fn tell(&self, event: Event) {
        // The other end is gone when the agent stops; then nobody needs to know.
        let _ = self.events.send(event).await;
    }

    fn spec(&self) -> &TaskSpec {
        &self.run.group.tasks[usize::from(self.of.task)]
    }

    async fn start(self, commands: mpsc::Receiver<TaskCommand>) {
        let (context, run, of, place) = (self.context.clone(), self.run.clone(), self.of, self.place.clone());
        let permit = self.context.preparing.acquire().await;
        let prepared = tokio::task::spawn_blocking(move || prepare(&context, &run, of, &place)).await;
        drop(permit);
        match prepared {
            Ok(Ok(prepared)) => match prepared.launch {
                Launch::Mock(settings) => {
                    mock::supervise(&self, Begin::Start(prepared.logs), &settings, commands).await
                }
                Launch::Kept(run) => {
                    let keeper_args = self.context.keeper_command.iter().skip(1).cloned().collect();
                    let plan = Plan { attempt: of.attempt, keeper_args, logs: prepared.logs, run: Some(run) };
                    kept::supervise(&self, Begin::Start(plan), commands).await;
                }
            },
            Ok(Err(failure)) => self.tell(Event::StartFailed(of, failure)).await,
            Err(error) => {
                let message = format!("prepare the task: {error}");
                let failure = StartFailure { kind: StartFailureKind::Driver, message };
                self.tell(Event::StartFailed(of, failure)).await;
            }
        }
    }

    async fn recover(self, commands: mpsc::Receiver<TaskCommand>) {
        if self.spec().driver != "mock_driver" {
            return kept::supervise(&self, Begin::Recover, commands).await;
        }
        match MockSettings::parse(&self.spec().config_json) {
            Ok(settings) => mock::supervise(&self, Begin::<LogPlan>::Recover, &settings, commands).await,
            Err(failure) => self.tell(Event::StartFailed(self.of, failure)).await,
        }
    }
}

/// The tasks under way.
pub(super) struct Runners {
    context: Arc<Context>,
    tasks: BTreeMap<(AllocId, u16), mpsc::Sender<TaskCommand>>,
}

impl Runners {
    pub(super) fn new(context: Arc<Context>) -> Self {
        Self { context, tasks: BTreeMap::new() }
    }

    pub(super) fn start(&mut self, of: TaskRef, run: &RunSpec, place: AllocPlace) {
        let (runner, commands) = self.runner(of, run, place);
        tokio::spawn(runner.start(commands));
    }

    pub(super) fn recover(&mut self, of: TaskRef, run: &RunSpec, place: AllocPlace) {
        let (runner, commands) = self.runner(of, run, place);
        tokio::spawn(runner.recover(commands));
    }

    fn runner(
        &mut self,
        of: TaskRef,
        run: &RunSpec,
        place: AllocPlace,
    ) -> (Runner, mpsc::Receiver<TaskCommand>) {
        let (sender, receiver) = mpsc::channel(COMMANDS_MAX);
        self.tasks.retain(|_, commands| !commands.is_closed());
        self.tasks.insert((of.alloc, of.task), sender);
        let keeper_dir = place.keeper_dir(&run.group.tasks[usize::from(of.task)].name);
        let runner = Runner {
            context: self.context.clone(),
            events: self.context.events.clone(),
            of,
            keeper_dir,
            run: run.clone(),
            place,
        };
        (runner, receiver)
    }

    /// Ends one start of a task of which nothing is known but its keeper.
    pub(super) async fn end_unknown(&self, of: TaskRef, keeper_dir: PathBuf) {
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let _ = sender.try_send(TaskCommand::Kill);
        // Nobody waits for its events.
        let (events, _) = mpsc::channel(1);
        let (run, place) = (RunSpec::unknown(of.alloc), AllocPlace::new(&keeper_dir, of.alloc));
        let runner = Runner { context: self.context.clone(), events, of, keeper_dir, run, place };
        kept::supervise(&runner, Begin::Recover, commands).await;
    }

    pub(super) fn command(&self, of: TaskRef, command: TaskCommand) {
        if let Some(task) = self.tasks.get(&(of.alloc, of.task)) {
            let _ = task.try_send(command);
        }
    }
}
