//! A child process that ends when this one does, even if this one is killed.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::run::RunError;

/// Until a process that was signalled to end is killed.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Between two checks of whether it has ended.
const POLL_EVERY: Duration = Duration::from_millis(10);

/// A running `berth` process. It is killed when this is dropped.
#[derive(Debug)]
pub(in crate::run) struct ChildProcess {
    /// For people: `server`, `nodes 1`.
    pub name: String,
    /// The file that gets what it reports on standard error.
    log_path: PathBuf,
    process: std::process::Child,
    /// The child reads this pipe and ends with it: the kernel closes our end even if we are killed.
    lifeline: Option<ChildStdin>,
}

impl ChildProcess {
    /// Starts `berth` with these arguments and `--until-stdin-closes`. What it reports on standard error goes to a file in
    /// `log_dir`.
    pub fn start(
        berth: &Path,
        name: &str,
        args: &[String],
        log_dir: &Path,
    ) -> Result<(Self, ChildStdout), RunError> {
        let log_path = log_dir.join(format!("{}.log", name.replace(' ', "-")));
        let log_file = File::create(&log_path).map_err(|source| RunError::io("create", &log_path, source))?;
        let mut process = Command::new(berth)
            .args(args)
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log_file)
            .spawn()
            .map_err(|error| RunError::Start { what: name.to_owned(), reason: error.to_string() })?;
        let lifeline = process.stdin.take();
        let stdout = process.stdout.take().expect("standard output is a pipe");
        Ok((Self { name: name.to_owned(), log_path, process, lifeline }, stdout))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Fails when it has ended unexpectedly.
    pub fn check(&mut self) -> Result<(), RunError> {
        let how = match self.process.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(RunError::Ended { what: self.name.clone(), how, log_path: self.log_path.display().to_string() })
    }

    /// Has it killed as a crash would, and does not wait for its end.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Asks it to end, waits for that, and kills it when it takes too long.
    pub fn stop(mut self) {
        drop(self.lifeline.take());
        let started_at = Instant::now();
        while started_at.elapsed() < STOP_MAX && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(POLL_EVERY);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
