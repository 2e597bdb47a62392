//! Supervises one start of a task through its keeper.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use prost::Message;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::runner::{Runner, StartMode, TaskCommand};
use super::socket_dir::SocketDir;
use crate::dirs::remove_tree;
use crate::failure::{Failure, FailureContext};
use crate::keeper::container::BUNDLE;
use crate::keeper::plan::{COMPLAINTS_FILE, ExitRecord, KeeperPlan, LOCK_FILE, SOCKET_FILE, StartRecord};
use crate::lifecycle::{Event, Exit, FoundTask, StartFailure, StartFailureKind, TaskRef};
use crate::locked_file::LockedFile;
use crate::proc;

/// How long a keeper may take to be ready; it waits up to 10 s for the one before it.
const READY_WAIT_MAX: Duration = Duration::from_secs(20);

/// How often a keeper is looked for, or made again, before the agent gives up on it; with a pause in between.
const TRIES_MAX: u32 = 100;
const TRY_PAUSE: Duration = Duration::from_millis(100);

/// How long one that does not come to run holds others up.
const HELD_MAX: Duration = Duration::from_secs(2);

/// Commands that a keeper has not answered; a kill never waits long behind them.
const UNANSWERED_MAX: usize = 8;

/// What the disk and the lock show of one start of a task.
enum StartState {
    /// The task's keeper lives.
    Alive,
    /// It was started, and its keeper is gone.
    Orphaned,
    Ended(ExitRecord),
    Rebooted,
    NeverStarted,
}

/// A keeper's directory, and the command that makes a keeper.
struct Keeper<'a> {
    dir: PathBuf,
    command: &'a [String],
}

/// Supervises one start of a task until it has ended, or this future is dropped; the task does not mind. Others may start in
/// its stead, as `permit` says, once it runs, or takes too long to.
pub(super) async fn supervise(
    runner: &Runner,
    begin: StartMode<KeeperPlan>,
    permit: Option<OwnedSemaphorePermit>,
    mut commands: mpsc::Receiver<TaskCommand>,
) {
    let keeper = Keeper { dir: runner.keeper_dir.clone(), command: &runner.context.keeper_command };
    let of = runner.of;
    let mut permit_timeout = JoinSet::new();
    if let Some(permit) = permit {
        permit_timeout.spawn(async move {
            sleep(HELD_MAX).await;
            drop(permit);
        });
    }
    if let StartMode::Start(plan) = &begin
        && let Err(failure) = keeper.start(plan).await
    {
        tracing::warn!(?of, %failure, "could not start a keeper");
    }
    let mut reported = false;
    for _ in 0..TRIES_MAX {
        let attached = keeper.attach().await;
        permit_timeout.abort_all();
        if let Ok(link) = attached {
            if !reported {
                runner.report(keeper.started(of, &begin)).await;
                reported = true;
            }
            link.serve(&mut commands).await;
        }
        match keeper.state(of.attempt) {
            Ok(StartState::Ended(exit)) => {
                // A task may have started and ended before the records were read: it had started all the same.
                if !reported && !exit.start_failed && matches!(begin, StartMode::Start(_)) {
                    runner.report(keeper.started(of, &begin)).await;
                }
                return runner.report(ended(of, exit)).await;
            }
            Ok(StartState::Rebooted) => {
                keeper.remove_layer().await;
                return runner.report(Event::Recovered(of, FoundTask::Rebooted)).await;
            }
            Ok(StartState::NeverStarted) => return runner.report(never_started(of, &begin, &keeper)).await,
            Ok(StartState::Orphaned) => keeper.adopt().await,
            Ok(StartState::Alive) => {}
            Err(failure) => tracing::warn!(?of, %failure, "cannot get the task's status"),
        }
        sleep(TRY_PAUSE).await;
    }
    runner.report(Event::Exited(of, unknown(runner.context.clock.now_ns()))).await;
}

fn unknown(at_ns: u64) -> Exit {
    let message = "its status is unknown: its keeper cannot be reached".into();
    Exit { exit_code: -1, message, at_ns, ..Exit::default() }
}

fn never_started(of: TaskRef, begin: &StartMode<KeeperPlan>, keeper: &Keeper<'_>) -> Event {
    match begin {
        StartMode::Recover => Event::Recovered(of, FoundTask::Nothing),
        StartMode::Start(_) => {
            let complaints = std::fs::read_to_string(keeper.dir.join(COMPLAINTS_FILE)).unwrap_or_default();
            let message = format!("start the task's keeper: it ended at once: {}", complaints.trim());
            Event::StartFailed(of, StartFailure { kind: StartFailureKind::Recoverable, message })
        }
    }
}

fn ended(of: TaskRef, exit: ExitRecord) -> Event {
    if exit.start_failed {
        let kind = if exit.recoverable { StartFailureKind::Recoverable } else { StartFailureKind::Driver };
        return Event::StartFailed(of, StartFailure { kind, message: exit.message });
    }
    let ExitRecord { exit_code, signal, oom_killed, message, finished_ns, .. } = exit;
    Event::Exited(of, Exit { exit_code, signal, oom_killed, message, at_ns: finished_ns })
}

impl Keeper<'_> {
    /// Returns once the keeper listens, or has ended.
    async fn start(&self, plan: &KeeperPlan) -> Result<(), Failure> {
        self.call(&[], &plan.encode_to_vec()).await
    }

    async fn adopt(&self) {
        if let Err(failure) = self.call(&["adopt"], &[]).await {
            tracing::warn!(dir = %self.dir.display(), %failure, "could not start a keeper");
        }
    }

    /// What a container wrote, which nobody who ended with the machine could remove. The rest of it was in memory.
    async fn remove_layer(&self) {
        let bundle = self.dir.join(BUNDLE);
        let removed = tokio::task::spawn_blocking(move || remove_tree(&bundle)).await;
        if let Ok(Err(failure)) = removed {
            tracing::warn!(%failure, "could not remove what a container wrote");
        }
    }

    async fn call(&self, verb: &[&str], input: &[u8]) -> Result<(), Failure> {
        let doing = || format!("start a keeper in {}", self.dir.display());
        let complaints = File::create(self.dir.join(COMPLAINTS_FILE)).doing(doing)?;
        let (program, args) =
            self.command.split_first().ok_or_else(|| Failure::other(doing(), "no command"))?;
        let mut command = Command::new(program);
        command.args(args).args(verb).arg(&self.dir).env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(complaints);
        let mut child = command.spawn().doing(doing)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input).await.doing(doing)?;
        }
        if let Some(mut stdout) = child.stdout.take() {
            // It closes its standard output when it is ready. The runtime reaps it, whenever it ends.
            let ready = async { stdout.read_to_end(&mut Vec::new()).await };
            let _ = timeout(READY_WAIT_MAX, ready).await;
        }
        Ok(())
    }

    /// Connects, and waits until the task runs.
    async fn attach(&self) -> io::Result<KeeperLink> {
        let dir = SocketDir::open(&self.dir)?;
        let stream = BufReader::new(UnixStream::connect(dir.path(SOCKET_FILE)).await?);
        let mut link = KeeperLink { stream, stop_signal: 0 };
        if !link.line().await? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        link.stop_signal = StartRecord::read(&self.dir).ok().flatten().map_or(0, |start| start.stop_signal);
        Ok(link)
    }

    fn started(&self, of: TaskRef, begin: &StartMode<KeeperPlan>) -> Event {
        let start = StartRecord::read(&self.dir).ok().flatten().unwrap_or_default();
        let at_ns = start.started_ns;
        match begin {
            StartMode::Start(_) => Event::Started { of, at_ns },
            StartMode::Recover => Event::Recovered(of, FoundTask::Running { started_ns: at_ns }),
        }
    }

    /// The lock is looked at before the records: a keeper writes its last record before it lets go of the lock.
    fn state(&self, attempt: u32) -> Result<StartState, Failure> {
        let alive = is_locked(&self.dir.join(LOCK_FILE));
        let end = ExitRecord::read(&self.dir)?;
        if let Some(end) = end.filter(|end| end.attempt == attempt) {
            return Ok(StartState::Ended(end));
        }
        let start = StartRecord::read(&self.dir)?;
        let start = start.filter(|start| start.attempt == attempt);
        Ok(match start {
            _ if alive => StartState::Alive,
            None => StartState::NeverStarted,
            Some(start) if start.boot_id != proc::boot_id() => StartState::Rebooted,
            Some(_) => StartState::Orphaned,
        })
    }
}

fn is_locked(path: &Path) -> bool {
    File::open(path).map(LockedFile).is_ok_and(|file| file.0.try_lock_shared().is_err())
}

/// A connection to a keeper whose task runs.
struct KeeperLink {
    stream: BufReader<UnixStream>,
    /// What the task's image wants to be ended by; 0 for none.
    stop_signal: i32,
}

impl KeeperLink {
    /// False at the end. Keepers are trusted to write short lines.
    async fn line(&mut self) -> io::Result<bool> {
        let mut line = String::new();
        Ok(self.stream.read_line(&mut line).await? > 0)
    }

    /// Passes commands on until the keeper is gone. It answers each of them, in order.
    async fn serve(mut self, commands: &mut mpsc::Receiver<TaskCommand>) {
        let (read, mut write) = self.stream.get_mut().split();
        let mut read = BufReader::new(read);
        let mut buffer = String::new();
        let mut unanswered = VecDeque::new();
        loop {
            tokio::select! {
                read = read.read_line(&mut buffer) => {
                    if !matches!(read, Ok(read) if read > 0) {
                        return;
                    }
                    if let Some(Some(reply)) = unanswered.pop_front() {
                        let reply: oneshot::Sender<_> = reply;
                        let _ = reply.send(answer(&buffer));
                    }
                    buffer.clear();
                }
                Some(command) = commands.recv(), if unanswered.len() < UNANSWERED_MAX => {
                    let (line, reply) = match command {
                        // It has begun.
                        TaskCommand::CancelStart => continue,
                        TaskCommand::Signal(signal) => {
                            (format!("signal {}\n", signal.number(self.stop_signal)), None)
                        }
                        TaskCommand::Kill => ("kill\n".to_owned(), None),
                        TaskCommand::PassSignal(signal, reply) => (format!("signal {signal}\n"), Some(reply)),
                    };
                    unanswered.push_back(reply);
                    if write.write_all(line.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

/// What a keeper says of a command.
fn answer(line: &str) -> Result<(), String> {
    match line.trim_end() {
        "ok" => Ok(()),
        complaint => Err(complaint.trim_start_matches("error: ").to_owned()),
    }
}
