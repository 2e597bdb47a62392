//! A mock task: its schedule, played with timers. It has no process, so its start is on record, and a restarted agent continues the
//! schedule from there.

use std::path::Path;

use berth_api::agent::TaskEventKind;
use tokio::sync::mpsc;

use super::runner::{Runner, StartMode, TaskCommand};
use crate::drivers::mock::{MockSettings, MockStep};
use crate::failure::Failure;
use crate::keeper::plan::{LogPlan, StartRecord, StartStage};
use crate::lifecycle::{Event, Exit, FoundTask};
use crate::logs::{LogPath, LogWriter};
use crate::proc;

/// Supervises one start of a mock task until it has ended.
pub(super) async fn supervise(
    runner: &Runner,
    begin: StartMode<LogPlan>,
    mock: &MockSettings,
    commands: mpsc::Receiver<TaskCommand>,
) {
    let of = runner.of;
    let known = StartRecord::read(&runner.keeper_dir).ok().flatten();
    let resumed_ns = matches!(begin, StartMode::Recover).then(|| runner.context.clock.now_ns());
    let record = match (begin, known.filter(|record| record.attempt == of.attempt)) {
        (_, Some(record)) if record.boot_id == proc::boot_id() => record,
        (_, Some(_)) => return runner.report(Event::Recovered(of, FoundTask::Rebooted)).await,
        (StartMode::Recover, None) => return runner.report(Event::Recovered(of, FoundTask::Nothing)).await,
        (StartMode::Start(logs), None) => match write_start(runner, logs) {
            Ok(record) => record,
            Err(failure) => return runner.report(Event::StartFailed(of, failure.into())).await,
        },
    };
    Player { runner, mock, record, resumed_ns, commands, stop_at_ns: None, next: 0 }.play().await;
}

fn write_start(runner: &Runner, logs: LogPlan) -> Result<StartRecord, Failure> {
    let record = StartRecord {
        attempt: runner.of.attempt,
        stage: StartStage::Released as i32,
        boot_id: proc::boot_id(),
        started_ns: runner.context.clock.now_ns(),
        logs,
        ..StartRecord::default()
    };
    record.claim(&runner.keeper_dir)?;
    Ok(record)
}

struct Player<'a> {
    runner: &'a Runner,
    mock: &'a MockSettings,
    record: StartRecord,
    /// What was due before then has been done by an earlier run of the agent.
    resumed_ns: Option<u64>,
    commands: mpsc::Receiver<TaskCommand>,
    stop_at_ns: Option<u64>,
    next: u64,
}

impl Player<'_> {
    async fn play(mut self) {
        while let Some((after_ns, step)) = self.mock.step(self.next) {
            let at_ns = self.record.started_ns.saturating_add(after_ns);
            let clock = self.runner.context.clock;
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(TaskCommand::Kill) => return self.exit(Exit { exit_code: 137, signal: 9, ..Exit::default() }).await,
                    Some(TaskCommand::CancelStart) => {}
                    Some(TaskCommand::Signal(_)) => {
                        self.stop_at_ns.get_or_insert(clock.now_ns() + self.mock.stop_after_ns());
                    }
                    Some(TaskCommand::PassSignal(_, reply)) => {
                        let _ = reply.send(self.mock.on_signal());
                    }
                    None => return,
                },
                () = clock.sleep_until(self.stop_at_ns), if self.stop_at_ns.is_some_and(|stop_at_ns| stop_at_ns < at_ns) => {
                    return self.exit(Exit::default()).await;
                }
                () = clock.sleep_until(Some(at_ns)) => {
                    self.next += 1;
                    self.perform(step, at_ns).await;
                }
            }
        }
    }

    async fn exit(&self, exit: Exit) {
        let at_ns = self.runner.context.clock.now_ns();
        self.runner.report(Event::Exited(self.runner.of, Exit { at_ns, ..exit })).await;
    }

    async fn perform(&self, step: MockStep<'_>, at_ns: u64) {
        let (of, resumed) = (self.runner.of, self.resumed_ns.is_some_and(|resumed_ns| at_ns <= resumed_ns));
        match step {
            MockStep::Noted(_) if resumed => {}
            MockStep::Noted(message) => {
                let kind = TaskEventKind::Driver;
                self.runner.report(Event::Noted { of, kind, at_ns, message }).await;
            }
            MockStep::Started if resumed => {
                self.runner.report(Event::Recovered(of, FoundTask::Running { started_ns: at_ns })).await;
            }
            MockStep::Started => self.runner.report(Event::Started { of, at_ns }).await,
            MockStep::StartFailed(failure) => self.runner.report(Event::StartFailed(of, failure)).await,
            MockStep::Output(_) if resumed => {}
            MockStep::Output(text) => self.write(text),
            MockStep::Exited(exit) => self.runner.report(Event::Exited(of, Exit { at_ns, ..exit })).await,
        }
    }

    fn write(&self, text: &str) {
        let logs = &self.record.logs;
        if !logs.disabled {
            let log_path = LogPath::new(Path::new(&logs.dir), &logs.task, "stdout", logs.file_bytes_max);
            if let Ok(mut log) = LogWriter::open(log_path, logs.files_max.into()) {
                log.append(text.as_bytes());
            }
        }
    }
}
