//! Running tasks: one future for each, which takes commands and sends events.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use berth_api::agent::{AllocId, TaskEventKind, TaskSpec};
use rustix::process::Signal;
use tokio::net::UnixListener;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::clock::Clock;
use super::fingerprint::Equipment;
use super::host_ports::HostPorts;
use super::identities::{self, HeldTokens};
use super::prepare::{self, StartInputs, StartNeeds, prepare};
use super::secrets::{self, HeldSecrets};
use super::server_requests::ServerClient;
use super::setup::SetupMoment;
use super::task_api::{self, TaskApis};
use super::templates::{self, Following, HeldTemplateData};
use super::{mock, supervise};
use crate::artifacts::{Artifacts, Recipient};
use crate::cgroups::Cores;
use crate::drivers::mock::MockSettings;
use crate::drivers::{ImageRequest, Launch};
use crate::failure::PANICKED;
use crate::images::{Image, Images, links};
use crate::keeper::plan::{KeeperPlan, LogPlan};
use crate::lifecycle::{Event, Exit, FoundTask, RunSpec, StartFailure, StartFailureKind, TaskRef};
use crate::network::Networks;
use crate::paths::AllocPaths;
use crate::secrets::{Secrets, hide};
use crate::signals;
use crate::user_ids::UserIds;

/// How many tasks are prepared and started at a time: at least so many, and so many for each processor. More get in each
/// other's way, and each takes memory.
const STARTING_MIN: usize = 8;
const STARTING_PER_PROCESSOR: usize = 4;

/// How many tasks an agent of this machine prepares and starts at a time.
pub fn starting_max() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    STARTING_MIN.max(processors * STARTING_PER_PROCESSOR)
}

/// Commands that wait for a task that has not started yet; later ones are dropped, and sent again by their deadlines.
const COMMANDS_MAX: usize = 8;

/// What an agent has for its tasks.
pub(super) struct Providers {
    pub(super) images: Images,
    pub(super) artifacts: Artifacts,
    /// Why this node has none for allocations, where it has none.
    pub(super) networks: Result<Arc<Networks>, String>,
    /// The same for ids of users.
    pub(super) user_ids: Result<UserIds, String>,
}

/// What all tasks of an agent share.
pub(super) struct Context {
    pub(super) clock: Clock,
    pub(super) node_id: String,
    /// Where ports of allocations are reached that name no other network.
    pub(super) host_ip: String,
    /// Replaced when the node has changed; whoever uses an older one keeps it.
    equipment: RwLock<Arc<Equipment>>,
    pub(super) providers: Providers,
    pub(super) host_ports: HostPorts,
    /// Which tasks have cores of their own.
    pub(super) cores: Cores,
    /// Requests what tasks need from servers.
    pub(super) server_client: ServerClient,
    /// The tokens that tasks hold.
    pub(super) held_tokens: HeldTokens,
    /// What of variables tasks were given.
    pub(super) held_secrets: HeldSecrets,
    /// The data that tasks' templates were rendered with.
    pub(super) held_template_data: HeldTemplateData,
    /// Connections of tasks to the HTTP API.
    pub(super) task_apis: TaskApis,
    pub(super) keeper_command: Vec<String>,
    pub(super) starting: Arc<Semaphore>,
    /// The same for allocations that are prepared or cleaned up.
    pub(super) setting_up: Arc<Semaphore>,
    /// Hears how far that has come.
    pub(super) on_setup: Option<fn(SetupMoment)>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Context {
    pub(super) fn new(
        clock: Clock,
        node_id: String,
        equipment: Equipment,
        providers: Providers,
        keeper_command: Vec<String>,
        events: mpsc::Sender<Event>,
        server_client: ServerClient,
        on_setup: Option<fn(SetupMoment)>,
    ) -> Self {
        let (host_ports, starting) = (HostPorts::default(), Arc::new(Semaphore::new(starting_max())));
        let setting_up = Arc::new(Semaphore::new(starting_max()));
        let (held_tokens, held_secrets) = (HeldTokens::default(), HeldSecrets::default());
        let host_ip = equipment.node.host_ip.clone();
        let equipment = RwLock::new(Arc::new(equipment));
        Self {
            clock,
            node_id,
            host_ip,
            equipment,
            providers,
            host_ports,
            cores: Cores::new(),
            server_client,
            held_tokens,
            held_secrets,
            held_template_data: HeldTemplateData::default(),
            task_apis: TaskApis::default(),
            keeper_command,
            starting,
            setting_up,
            on_setup,
            events,
        }
    }

    /// What the node has, as it was found last.
    pub(super) fn equipment(&self) -> Arc<Equipment> {
        self.equipment.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The node has something else from now on.
    pub(super) fn equip(&self, equipment: Arc<Equipment>) {
        *self.equipment.write().unwrap_or_else(PoisonError::into_inner) = equipment;
    }

    /// What of a task is not limited on this node, and why.
    fn unlimited(&self, spec: &TaskSpec) -> Option<String> {
        let equipment = self.equipment();
        let driver = equipment.drivers.iter().find(|driver| driver.name() == spec.driver)?;
        driver.unlimited().map(str::to_owned)
    }

    /// The signal that asks this task to end.
    pub(super) fn kill_signal(&self, spec: &TaskSpec) -> StopSignal {
        let named = signals::number(&spec.kill_signal);
        let equipment = self.equipment();
        let driver = equipment.drivers.iter().find(|driver| driver.name() == spec.driver);
        let default = driver.map_or(Signal::TERM, |driver| driver.kill_signal()).as_raw();
        StopSignal { named, default }
    }
}

/// Asks a task to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StopSignal {
    /// What the job says.
    named: Option<i32>,
    default: i32,
}

impl StopSignal {
    /// The signal for a task whose image may want one: 0 if not.
    pub(super) fn number(self, of_image: i32) -> i32 {
        self.named.unwrap_or(if of_image == 0 { self.default } else { of_image })
    }
}

/// The signal for a task.
#[derive(Debug)]
pub(super) enum TaskCommand {
    /// To leave what its start still waits for.
    CancelStart,
    /// To end, by this signal.
    Signal(StopSignal),
    /// To end by force.
    Kill,
    /// To do what it does on this signal; whether it was sent is reported.
    PassSignal(i32, oneshot::Sender<Result<(), String>>),
}

/// Whether a task is to be started, or one of an earlier run of the agent taken up.
pub(super) enum StartMode<T> {
    Start(T),
    Recover,
}

/// One start of a task.
pub(super) struct Runner {
    pub(super) context: Arc<Context>,
    pub(super) of: TaskRef,
    pub(super) keeper_dir: PathBuf,
    events: mpsc::Sender<Event>,
    /// The way to its own commands, for as long as others may give it any.
    commands: mpsc::WeakSender<TaskCommand>,
    run: RunSpec,
    paths: AllocPaths,
    /// Whether it is known to run.
    started: watch::Sender<bool>,
}

impl Runner {
    pub(super) async fn report(&self, event: Event) {
        let event = match event {
            Event::StartFailed(of, failure) => {
                Event::StartFailed(of, StartFailure { message: self.redacted(failure.message), ..failure })
            }
            Event::Exited(of, exit) => {
                Event::Exited(of, Exit { message: self.redacted(exit.message), ..exit })
            }
            Event::TaskFailed { of, why } => Event::TaskFailed { of, why: self.redacted(why) },
            Event::RestartRequested { of, why } => Event::RestartRequested { of, why: self.redacted(why) },
            other => other,
        };
        let runs = matches!(event, Event::Started { .. } | Event::Recovered(_, FoundTask::Running { .. }));
        // The other end is gone when the agent stops; then nobody needs to know.
        let _ = self.events.send(event).await;
        if runs {
            self.started.send_replace(true);
        }
    }

    /// Returns once it was reported that the task runs: later events about it are understood.
    pub(super) async fn until_started(&self) {
        let _ = self.started.subscribe().wait_for(|started| *started).await;
    }

    pub(super) fn run(&self) -> &RunSpec {
        &self.run
    }

    pub(super) fn paths(&self) -> &AllocPaths {
        &self.paths
    }

    pub(super) fn spec(&self) -> &TaskSpec {
        &self.run.group.tasks[usize::from(self.of.task)]
    }

    /// A text without what the task was given: of variables, by its secrets or by its templates, and as its identities.
    pub(super) fn redacted(&self, text: String) -> String {
        // None where nothing is known of a task but its keeper.
        let spec = self.run.group.tasks.get(usize::from(self.of.task));
        // Most tasks are given nothing.
        let is_given = spec.is_some_and(|spec| {
            !spec.secrets.is_empty() || !spec.templates.is_empty() || !spec.identities.is_empty()
        });
        if text.is_empty() || !is_given {
            return text;
        }
        let secrets = self.context.held_secrets.of(self.of).unwrap_or_default();
        let tokens = self.context.held_tokens.of(self.of);
        let seen = self.context.held_template_data.seen(self.of);
        let of_templates = seen.iter().flat_map(|data| data.hidden());
        hide(text, secrets.hidden().chain(identities::hidden(&tokens)).chain(of_templates))
    }

    async fn start(self, mut commands: mpsc::Receiver<TaskCommand>) {
        // Held until the task has ended.
        let FetchedInputs { image, tokens, secrets, socket, templates } =
            match self.fetch(&mut commands).await {
                Ok(fetched) => fetched,
                Err(failure) => return self.report(Event::StartFailed(self.of, failure)).await,
            };
        // None once the agent ends.
        let permit = self.context.starting.clone().acquire_owned().await.ok();
        let prepared = self.blocking({
            let secret_files = templates.iter().flat_map(Following::secret_files).collect();
            let obtained = StartInputs { image: image.clone(), tokens, secrets, secret_files };
            move |context, run, of, paths| prepare(context, run, of, paths, obtained)
        });
        if let Some(unlimited) = self.context.unlimited(self.spec()) {
            self.note(TaskEventKind::Driver, format!("Not limited on this node: {unlimited}"));
        }
        match prepared.await {
            Ok(prepared) => match prepared.launch {
                Launch::Mock(settings) => {
                    drop(permit);
                    let life = mock::supervise(&self, StartMode::Start(prepared.logs), &settings, commands);
                    self.alongside(socket, templates, life).await;
                }
                Launch::Keeper(run) => {
                    let keeper_args = self.context.keeper_command.iter().skip(1).cloned().collect();
                    let (attempt, logs) = (self.of.attempt, prepared.logs);
                    let plan = KeeperPlan { attempt, keeper_args, logs, run: Some(run) };
                    let life = supervise::supervise(&self, StartMode::Start(plan), permit, commands);
                    self.alongside(socket, templates, life).await;
                }
            },
            Err(failure) => {
                drop(permit);
                self.report(Event::StartFailed(self.of, failure)).await;
            }
        }
    }

    /// Makes the task's directories and gets what has to come from elsewhere. A task that is to end waits no longer.
    async fn fetch(&self, commands: &mut mpsc::Receiver<TaskCommand>) -> Result<FetchedInputs, StartFailure> {
        // First: what it is given may be part of all else.
        let secrets = secrets::obtain(self, commands).await?;
        let task_secrets = secrets.clone();
        let begin = move |context: &Context, run: &RunSpec, of, paths: &AllocPaths| {
            prepare::begin(context, run, of, paths, &task_secrets)
        };
        let needs = self.blocking(begin).await?;
        let image = match &needs.image {
            Some(request) => Some(self.image(request, commands).await?),
            None => None,
        };
        if !needs.artifacts.is_empty() {
            self.artifacts(&needs, commands).await?;
        }
        secrets::write(self, &secrets).await?;
        // They may wait for long; what they give the environment is part of what is held from here on.
        let (secrets, templates) = templates::obtain(self, secrets, commands).await?;
        let socket = task_api::listen(self).await?;
        // Last, and as long as possible before they expire.
        let tokens = identities::obtain(self, commands).await?;
        Ok(FetchedInputs { image, tokens, secrets, socket, templates })
    }

    async fn image(
        &self,
        request: &ImageRequest,
        commands: &mut mpsc::Receiver<TaskCommand>,
    ) -> Result<Arc<Image>, StartFailure> {
        let note = |message| self.note(TaskEventKind::Driver, message);
        let image = tokio::select! {
            image = self.context.providers.images.get(request, note) => image?,
            () = stop_requested(commands) => return Err(stopped_before("image")),
        };
        let image_to_hold = image.clone();
        let hold = move |_: &Context, run: &RunSpec, of: TaskRef, paths: &AllocPaths| {
            let task = &run.group.tasks[usize::from(of.task)].name;
            Ok(links::hold(&paths.keeper_dir(task), &image_to_hold.lower_dirs)?)
        };
        self.blocking(hold).await?;
        Ok(image)
    }

    async fn artifacts(
        &self,
        needs: &StartNeeds,
        commands: &mut mpsc::Receiver<TaskCommand>,
    ) -> Result<(), StartFailure> {
        let (paths, task) = (&self.paths, self.spec().name.as_str());
        let to = Recipient { paths, task, root_fs: needs.root_fs, user: &needs.user };
        let mut note = |message| self.note(TaskEventKind::DownloadingArtifacts, message);
        tokio::select! {
            fetched = self.context.providers.artifacts.fetch(&needs.artifacts, &to, &mut note) => fetched,
            () = stop_requested(commands) => Err(stopped_before("artifacts")),
        }
    }

    /// Tells people how far the start has come. Nothing depends on it.
    pub(super) fn note(&self, kind: TaskEventKind, message: String) {
        let (at_ns, message) = (self.context.clock.now_ns(), self.redacted(message));
        let event = Event::Noted { of: self.of, kind, at_ns, message };
        let _ = self.events.try_send(event);
    }

    /// Sends the task a signal that is none of its end; no answer where it has just ended.
    pub(super) async fn pass_signal(&self, signal: i32) -> Option<Result<(), String>> {
        let (reply, passed) = oneshot::channel();
        let commands = self.commands.upgrade()?;
        let sent = commands.send(TaskCommand::PassSignal(signal, reply)).await;
        drop(commands);
        sent.ok()?;
        passed.await.ok()
    }

    /// Runs blocking work on a thread for that.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Context, &RunSpec, TaskRef, &AllocPaths) -> Result<T, StartFailure> + Send + 'static,
    ) -> Result<T, StartFailure> {
        let (context, run, of, paths) = (self.context.clone(), self.run.clone(), self.of, self.paths.clone());
        tokio::task::spawn_blocking(move || work(&context, &run, of, &paths)).await.unwrap_or_else(|_| {
            let message = format!("prepare the task: {PANICKED}");
            Err(StartFailure { kind: StartFailureKind::Driver, message })
        })
    }

    /// Does what a task's life consists of. Meanwhile its tokens are kept fresh, and it may speak to the HTTP API.
    async fn alongside(
        &self,
        socket: Option<UnixListener>,
        templates: Option<Following>,
        life: impl Future<Output = ()>,
    ) {
        let with_templates = templates::alongside(self, templates, life);
        let with_secrets = secrets::alongside(self, with_templates);
        let with_tokens = identities::alongside(self, with_secrets);
        let Some(socket) = socket else { return with_tokens.await };
        tokio::select! {
            () = with_tokens => {}
            () = task_api::serve(self, socket) => {}
        }
    }

    async fn recover(self, commands: mpsc::Receiver<TaskCommand>) {
        // It runs on without, if that cannot be.
        let socket = task_api::listen(&self).await.unwrap_or_else(|failure| {
            tracing::warn!(of = ?self.of, why = failure.message, "a task that runs has no socket for the API");
            None
        });
        if self.spec().driver != "mock_driver" {
            return self
                .alongside(socket, None, supervise::supervise(&self, StartMode::Recover, None, commands))
                .await;
        }
        match MockSettings::parse(&self.spec().config_json) {
            Ok(settings) => {
                let life = mock::supervise(&self, StartMode::<LogPlan>::Recover, &settings, commands);
                self.alongside(socket, None, life).await;
            }
            Err(failure) => self.report(Event::StartFailed(self.of, failure)).await,
        }
    }
}

/// What a task gets from outside before its start.
struct FetchedInputs {
    image: Option<Arc<Image>>,
    /// Those that are in its environment.
    tokens: BTreeMap<String, String>,
    secrets: Arc<Secrets>,
    /// Where it speaks to the HTTP API.
    socket: Option<UnixListener>,
    templates: Option<Following>,
}

fn stopped_before(what: &str) -> StartFailure {
    let message = format!("get the task's {what}: the task was stopped before that was here");
    StartFailure { kind: StartFailureKind::Recoverable, message }
}

/// Returns when a task that has no process yet is to end.
pub(super) async fn stop_requested(commands: &mut mpsc::Receiver<TaskCommand>) {
    while let Some(command) = commands.recv().await {
        match command {
            TaskCommand::CancelStart | TaskCommand::Signal(_) | TaskCommand::Kill => return,
            TaskCommand::PassSignal(_, reply) => {
                let _ = reply.send(Err("the task has not started yet: what it needs is on the way".into()));
            }
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

    pub(super) fn start(&mut self, of: TaskRef, run: RunSpec, paths: AllocPaths) {
        let (runner, commands) = self.runner(of, run, paths);
        tokio::spawn(runner.start(commands));
    }

    pub(super) fn recover(&mut self, of: TaskRef, run: RunSpec, paths: AllocPaths) {
        let (runner, commands) = self.runner(of, run, paths);
        tokio::spawn(runner.recover(commands));
    }

    fn runner(
        &mut self,
        of: TaskRef,
        run: RunSpec,
        paths: AllocPaths,
    ) -> (Runner, mpsc::Receiver<TaskCommand>) {
        let (sender, receiver) = mpsc::channel(COMMANDS_MAX);
        self.tasks.retain(|_, commands| !commands.is_closed());
        let commands = sender.downgrade();
        self.tasks.insert((of.alloc, of.task), sender);
        let keeper_dir = paths.keeper_dir(&run.group.tasks[usize::from(of.task)].name);
        let runner = Runner {
            context: self.context.clone(),
            events: self.context.events.clone(),
            of,
            keeper_dir,
            commands,
            run,
            paths,
            started: watch::Sender::new(false),
        };
        (runner, receiver)
    }

    /// Ends one start of a task of which nothing is known but its keeper.
    pub(super) async fn end_unknown(&self, of: TaskRef, keeper_dir: PathBuf) {
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        let _ = sender.try_send(TaskCommand::Kill);
        // Nobody waits for its events.
        let (events, _) = mpsc::channel(1);
        let (run, paths) = (RunSpec::unknown(of.alloc), AllocPaths::new(&keeper_dir, of.alloc));
        let own = sender.downgrade();
        let (context, started) = (self.context.clone(), watch::Sender::new(false));
        let runner = Runner { context, events, of, keeper_dir, commands: own, run, paths, started };
        supervise::supervise(&runner, StartMode::Recover, None, commands).await;
    }

    pub(super) fn command(&self, of: TaskRef, command: TaskCommand) {
        if let Some(task) = self.tasks.get(&(of.alloc, of.task)) {
            let _ = task.try_send(command);
        }
    }
}
