//! Commands that users run within tasks (`exec`), relayed by the server.

mod helper;
mod output;
mod run;
mod streams;
mod terminal;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::agent::{
    ExecControl, ExecCredit, ExecDown, ExecEvent, ExecStart, ExecStream, Refusal, RefusalKind, TerminalSize,
};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

pub(super) use self::output::CommandOutput;
pub(super) use self::run::ExecTarget;
use self::run::{Command, Streams};
use self::streams::{ExecReply, Input};
use super::Agent;
use super::reads::permits;
use crate::lifecycle::TaskRef;

/// Commands at a time.
const EXECS_MAX: usize = 32;

/// The commands under way, by their request's number.
#[derive(Default)]
pub(super) struct Execs {
    running: BTreeMap<u64, RunningExec>,
}

struct RunningExec {
    of: TaskRef,
    task: String,
    streams: Arc<Streams>,
    reply: ExecReply,
    future: AbortHandle,
}

impl Execs {
    fn insert(&mut self, command: Command) {
        let (of, task, streams, reply) =
            (command.of, command.start.task.clone(), command.streams.clone(), command.reply.clone());
        let future = tokio::spawn(command.run()).abort_handle();
        self.running.insert(reply.request, RunningExec { of, task, streams, reply, future });
    }

    fn on_order(&mut self, request: u64, order: &ExecControl) {
        let Some(exec) = self.running.get(&request) else { return };
        match order {
            ExecControl::Input(input) => {
                if let Err(error) = exec.streams.input.push(input) {
                    self.end(request, Refusal::new(RefusalKind::Failed, format!("take its input: {error}")));
                }
            }
            ExecControl::Resize(size) => {
                exec.streams.size.send_replace(*size);
            }
            ExecControl::Credit(credit) => exec.streams.allow(credit),
            ExecControl::Cancel(_) => self.cancel(request),
            ExecControl::Start(_) => {
                let text = "run a command: another one has its number already";
                self.end(request, Refusal::new(RefusalKind::Failed, text));
            }
        }
    }

    /// A task's process is gone: what was run within it has no place.
    pub(super) fn on_task_end(&mut self, of: TaskRef) {
        let within = self.running.iter().filter(|(_, exec)| exec.of == of);
        let ended: Vec<(u64, String)> = within.map(|(request, exec)| (*request, exec.task.clone())).collect();
        for (request, task) in ended {
            let text = format!("task {task} has ended, and with it all that ran within it");
            self.end(request, Refusal::new(RefusalKind::Invalid, text));
        }
    }

    fn end(&mut self, request: u64, refusal: Refusal) {
        if let Some(exec) = self.running.remove(&request) {
            exec.future.abort();
            tokio::spawn(async move { exec.reply.tell(ExecEvent::Refused(refusal)).await });
        }
    }

    fn cancel(&mut self, request: u64) {
        if let Some(exec) = self.running.remove(&request) {
            exec.future.abort();
        }
    }

    pub(super) fn cancel_all(&mut self) {
        std::mem::take(&mut self.running).into_values().for_each(|exec| exec.future.abort());
    }
}

impl Streams {
    fn new(credit_bytes: u64) -> Self {
        let credit = || Semaphore::new(permits(credit_bytes));
        let size = watch::Sender::new(TerminalSize::default());
        Self { input: Input::default(), stdout: credit(), stderr: credit(), size }
    }

    fn allow(&self, credit: &ExecCredit) {
        let semaphore = match credit.stream() {
            ExecStream::Stdin => return,
            ExecStream::Stdout => &self.stdout,
            ExecStream::Stderr => &self.stderr,
        };
        let headroom = Semaphore::MAX_PERMITS - semaphore.available_permits();
        semaphore.add_permits(permits(credit.bytes).min(headroom));
    }
}

impl Agent {
    pub(super) fn on_exec(&mut self, exec: ExecDown) {
        self.execs.running.retain(|_, exec| !exec.future.is_finished());
        match exec.control {
            Some(ExecControl::Start(start)) if !self.execs.running.contains_key(&exec.request) => {
                self.start_exec(exec.request, start);
            }
            Some(order) => self.execs.on_order(exec.request, &order),
            None => {}
        }
    }

    fn start_exec(&mut self, request: u64, start: ExecStart) {
        let Some(up) = self.up.as_ref().map(|up| up.replies.clone()) else { return };
        let reply = ExecReply { request, up };
        match self.command(start, &reply) {
            Ok(command) => self.execs.insert(command),
            Err(refusal) => {
                tokio::spawn(async move { reply.tell(ExecEvent::Refused(refusal)).await });
            }
        }
    }

    fn command(&mut self, start: ExecStart, reply: &ExecReply) -> Result<Command, Refusal> {
        let invalid = |text| Refusal::new(RefusalKind::Invalid, text);
        let program = start.command.first().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| invalid("there is no command to run"))?;
        if self.execs.running.len() >= EXECS_MAX {
            let text = format!("{EXECS_MAX} commands run on this node: try again once one has ended");
            return Err(Refusal::new(RefusalKind::Busy, text));
        }
        let running = self.node.running(&start.alloc_id, &start.task)?;
        let [of] = running[..] else { return Err(invalid("say within which task the command is to run")) };
        let run = self.node.alloc(of.alloc).map(|alloc| alloc.spec().clone());
        let run = run.ok_or_else(|| invalid("the allocation has just ended"))?;
        tracing::info!(alloc = %of.alloc, task = start.task, program, tty = start.tty, "runs a command within a task");
        let streams = Arc::new(Streams::new(start.credit_bytes));
        let (context, paths, reply) = (self.context.clone(), self.data.paths(of.alloc), reply.clone());
        let task = run.group.tasks[usize::from(of.task)].name.clone();
        let start = ExecStart { task, ..start };
        Ok(Command { context, of, run, paths, start, streams, reply })
    }
}
