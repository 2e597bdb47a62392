//! One command within a task, from its start to its end.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use berth_api::agent::{
    EXEC_STDIN_BYTES_MAX, ExecEvent, ExecExited, ExecStart, Refusal, RefusalKind, TerminalSize,
};
use tokio::sync::{Semaphore, watch};

use super::helper::{Helper, Listener};
use super::streams::{ExecReply, Input, InputSink, OutputSource};
use super::terminal::Terminal;
use crate::drivers::{Launch, mock};
use crate::failure::{Failure, FailureContext, PANICKED};
use crate::keeper::container::{BUNDLE, CONFIG_FILE, private_dir};
use crate::keeper::exec::plan::ExecPlan;
use crate::keeper::exec::process_json;
use crate::keeper::plan::{ContainerRef, ContainerRun, Run, StartRecord};
use crate::lifecycle::{RunSpec, TaskRef};
use crate::paths::AllocPaths;
use crate::shell::runner::Context;
use crate::shell::secrets;

/// Names the sockets of commands: one directory may have several.
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// The ends of a command's streams that the agent holds.
pub(super) struct Streams {
    pub(super) input: Input,
    /// Bytes of standard output that may be sent.
    pub(super) stdout: Semaphore,
    /// Bytes of standard error that may be sent.
    pub(super) stderr: Semaphore,
    /// How large the terminal should be.
    pub(super) size: watch::Sender<TerminalSize>,
}

/// A command to run.
pub(super) struct Command {
    pub(super) context: Arc<Context>,
    pub(super) of: TaskRef,
    pub(super) run: RunSpec,
    pub(super) paths: AllocPaths,
    pub(super) start: ExecStart,
    pub(super) streams: Arc<Streams>,
    pub(super) reply: ExecReply,
}

/// What a command is connected to.
struct CommandIo {
    sink: InputSink,
    sources: Vec<OutputSource>,
    terminal: Option<Terminal>,
}

/// A terminal that was made for a command, or will be by its OCI runtime.
enum Console {
    None,
    Made(Terminal),
    Awaited(Listener),
}

impl Command {
    /// Runs it to its end and reports that. Should this future be dropped, the command is ended.
    pub(super) async fn run(self) {
        let event = match self.to_the_end().await {
            Ok(exit_code) => ExecEvent::Exited(ExecExited { exit_code }),
            Err(refusal) => ExecEvent::Refused(refusal),
        };
        self.reply.tell(event).await;
    }

    async fn to_the_end(&self) -> Result<i32, Refusal> {
        let (mut helper, ends) = self.begin().await?;
        self.reply.allow_input(EXEC_STDIN_BYTES_MAX).await;
        let (ended, has_ended) = watch::channel(false);
        let end = async {
            let end = helper.exited().await;
            ended.send_replace(true);
            end
        };
        let Streams { input, size, .. } = &*self.streams;
        tokio::select! {
            (end, ()) = async { tokio::join!(end, self.drain(ends.sources, has_ended)) } => end,
            never = ends.sink.feed(input, &self.reply) => match never {},
            never = resize(ends.terminal, size.subscribe()) => match never {},
        }
    }

    async fn drain(&self, sources: Vec<OutputSource>, ended: watch::Receiver<bool>) {
        let (mut stdout, mut stderr) = (None, None);
        for source in sources {
            let slot = if matches!(source, OutputSource::Stderr(_)) { &mut stderr } else { &mut stdout };
            *slot = Some(source);
        }
        let drain = async |source: Option<OutputSource>, credit| {
            if let Some(source) = source {
                source.drain(credit, ended.clone(), &self.reply).await;
            }
        };
        tokio::join!(drain(stdout, &self.streams.stdout), drain(stderr, &self.streams.stderr));
    }

    async fn begin(&self) -> Result<(Helper, CommandIo), Refusal> {
        let within = ExecTarget { context: &self.context, run: &self.run, of: self.of, paths: &self.paths };
        let mut run = within.resolve(&self.start.command, self.start.tty).await?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let dir = self.keeper_dir();
        let console = self.console(&mut run, number)?;
        let console_socket = match &console {
            Console::Awaited(listener) => listener.name().to_owned(),
            Console::None | Console::Made(_) => String::new(),
        };
        let keeper_args = self.context.keeper_command.iter().skip(1).cloned().collect();
        let plan = ExecPlan { keeper_args, run: Some(run), console_socket };
        let (name, tty) = (format!("exec-{number}.socket"), self.start.tty);
        let mut helper = Helper::start(&self.context.keeper_command, &dir, name, &plan, tty).await?;
        helper.started().await?;
        let terminal = match console {
            Console::None => None,
            Console::Made(terminal) => Some(terminal),
            Console::Awaited(listener) => Some(listener.terminal().await?),
        };
        let ends = CommandIo::of(&mut helper, terminal)?;
        Ok((helper, ends))
    }

    fn keeper_dir(&self) -> PathBuf {
        self.paths.keeper_dir(&self.start.task)
    }

    fn console(&self, run: &mut Run, number: u64) -> Result<Console, Failure> {
        match run {
            _ if !self.start.tty => Ok(Console::None),
            Run::Process(run) => {
                let (terminal, path) = Terminal::make().doing(|| "make a terminal".into())?;
                (run.stdin, run.terminal) = (path, true);
                Ok(Console::Made(terminal))
            }
            Run::Container(_) => {
                Ok(Console::Awaited(Listener::bind(&self.keeper_dir(), format!("exec-{number}.console"))?))
            }
        }
    }
}

/// A task within which a command is to run.
pub(in crate::shell) struct ExecTarget<'a> {
    pub(in crate::shell) context: &'a Arc<Context>,
    pub(in crate::shell) run: &'a RunSpec,
    pub(in crate::shell) of: TaskRef,
    pub(in crate::shell) paths: &'a AllocPaths,
}

impl ExecTarget<'_> {
    /// Runs a command without a terminal.
    pub(in crate::shell) async fn begin(&self, command: &[String]) -> Result<Helper, Refusal> {
        let run = self.resolve(command, false).await?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let keeper_args = self.context.keeper_command.iter().skip(1).cloned().collect();
        let plan = ExecPlan { keeper_args, run: Some(run), console_socket: String::new() };
        let (dir, name) = (self.paths.keeper_dir(self.task()), format!("exec-{number}.socket"));
        let mut helper = Helper::start(&self.context.keeper_command, &dir, name, &plan, false).await?;
        helper.started().await?;
        Ok(helper)
    }

    fn task(&self) -> &str {
        &self.run.group.tasks[usize::from(self.of.task)].name
    }

    /// As the task's own process, but for the command.
    async fn resolve(&self, command: &[String], tty: bool) -> Result<Run, Refusal> {
        if let Some(run) = self.in_container(command, tty)? {
            return Ok(Run::Container(run));
        }
        let (context, run, of, paths) = (self.context.clone(), self.run.clone(), self.of, self.paths.clone());
        let failed = |reason: String| Refusal::new(RefusalKind::Failed, format!("run the command: {reason}"));
        let secrets = secrets::known(&context, &run, of).await.map_err(failed)?;
        let launch = tokio::task::spawn_blocking(move || {
            context.equipment().host(&context.node_id).with(&secrets).launch(&run, of, &paths)
        });
        let launch = launch.await.map_err(|_| failed(PANICKED.to_owned()))?;
        match launch.map_err(|failure| failed(failure.message))? {
            Launch::Mock(_) => Err(mock::no_commands(self.task())),
            Launch::Keeper(Run::Process(mut run)) => {
                let mut words = command.iter().cloned();
                (run.program, run.args) = (words.next().unwrap_or_default(), words.collect());
                if self.run.is_bridged()
                    && let Ok(networks) = &self.context.providers.networks
                {
                    run.network = networks.path_of((self.of.alloc, None)).unwrap_or_default();
                }
                Ok(Run::Process(run))
            }
            Launch::Keeper(Run::Container(_)) => Err(failed("the container is not there yet".into())),
        }
    }

    /// The task's container, by what it was made of: its image may say something else by now.
    fn in_container(&self, command: &[String], tty: bool) -> Result<Option<ContainerRun>, Failure> {
        let dir = self.paths.keeper_dir(self.task());
        let Some(ContainerRef { runtime, id }) = StartRecord::read(&dir)?.and_then(|start| start.container)
        else {
            return Ok(None);
        };
        let config = private_dir(&dir).join(BUNDLE).join(CONFIG_FILE);
        let config = std::fs::read_to_string(&config).doing(|| format!("read {}", config.display()))?;
        let config_json = process_json(&config, command, tty)?;
        Ok(Some(ContainerRun { runtime, id, config_json, ..ContainerRun::default() }))
    }
}

impl CommandIo {
    fn of(helper: &mut Helper, terminal: Option<Terminal>) -> Result<Self, Failure> {
        if let Some(terminal) = terminal {
            let (output, input_end) = terminal.ends().doing(|| "connect the command's terminal".into())?;
            let (sink, sources) = (InputSink::Terminal(input_end), vec![OutputSource::Terminal(output)]);
            return Ok(Self { sink, sources, terminal: Some(terminal) });
        }
        let pipes = helper.pipes.take();
        let (stdin, stdout, stderr) =
            pipes.ok_or_else(|| Failure::other("connect the command", "its process has no pipes"))?;
        let sources = vec![OutputSource::Stdout(stdout), OutputSource::Stderr(stderr)];
        Ok(Self { sink: InputSink::Pipe(stdin), sources, terminal: None })
    }
}

/// Keeps the terminal as large as it should be.
async fn resize(
    terminal: Option<Terminal>,
    mut size: watch::Receiver<TerminalSize>,
) -> std::convert::Infallible {
    while let Some(terminal) = &terminal {
        let latest = *size.borrow_and_update();
        if latest.rows > 0 && latest.columns > 0 {
            // A terminal that is gone already needs no size.
            let _ = terminal.resize(latest);
        }
        if size.changed().await.is_err() {
            break;
        }
    }
    std::future::pending().await
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::new(RefusalKind::Failed, failure.to_string())
    }
}
