//! What `berth dev`, `berth server` and `berth agent` have in common: a runtime, a log on standard error, and an end.

use std::{
    io::{self, IsTerminal},
    path::Path,
};

use tokio::{
    runtime,
    signal::unix::{Signal, SignalKind, signal},
};
use tracing::level_filters::LevelFilter;

use crate::{
    failure::{Exit, Failure},
    settings::Settings,
};

/// Runs a long-running command.
pub fn run(settings: &Settings, work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    log_to_stderr(settings.log_level);
    runtime::Builder::new_multi_thread().enable_all().build()?.block_on(work)
}

/// The data directory of a command that never goes without.
pub fn data_dir(settings: &Settings) -> Result<&Path, Failure> {
    settings.data_dir.as_deref().ok_or_else(|| Failure::new(Exit::Usage, "no data directory is set"))
}

/// The host's name.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

fn log_to_stderr(level: LevelFilter) {
    let colors =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(level).with_ansi(colors).init();
}

/// The signals that ask a process to end: an interrupt from the keyboard, a request, a closed terminal.
pub struct StopSignal {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl StopSignal {
    /// From now on the signals end nothing by themselves.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next one.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Waits until a person insists, at the keyboard. Other requests to end may well come twice, from a process group
    /// and its leader.
    pub async fn wait_for_insistence(&mut self) {
        self.interrupt.recv().await;
    }
}
