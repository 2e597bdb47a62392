//! A process that ends when this one does, however it ends.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use crate::run::RunError;

/// Until a process that was asked to end is killed.
const STOP_MAX: Duration = Duration::from_secs(10);
/// Between two looks whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A running `berth` process. It is killed when this is dropped.
#[derive(Debug)]
pub(in crate::run) struct Child {
    /// For people: `server`, `nodes 1`.
    pub name: String,
    /// The file that gets what it reports on standard error.
    told: PathBuf,
    process: std::process::Child,
    /// The child reads this pipe and ends with it: the kernel closes our end even if we are killed.
    lifeline: Option<ChildStdin>,
}

impl Child {
    /// Starts `berth` with these arguments and `--until-stdin-closes`. What it reports on standard error goes to a file in
    /// `told_dir`.
    pub fn start(
        berth: &Path,
        name: &str,
        args: &[String],
        told_dir: &Path,
    ) -> Result<(Self, ChildStdout), RunError> {
        let told = told_dir.join(format!("{}.log", name.replace(' ', "-")));
        let told_file = File::create(&told).map_err(|source| RunError::io("create", &told, source))?;
        let mut process = Command::new(berth)
            .args(args)
            .arg("--until-stdin-closes")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(told_file)
            .spawn()
            .map_err(|error| RunError::Start { what: name.to_owned(), reason: error.to_string() })?;
        let lifeline = process.stdin.take();
        let stdout = process.stdout.take().expect("standard output is a pipe");
        Ok((Self { name: name.to_owned(), told, process, lifeline }, stdout))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Fails when it has ended although nobody asked it to.
    pub fn check(&mut self) -> Result<(), RunError> {
        let how = match self.process.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(RunError::Ended { what: self.name.clone(), how, told: self.told.display().to_string() })
    }

    /// Has it killed as a crash would, and does not wait for its end.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
    }

    /// Asks it to end, waits for that, and kills it when it takes too long.
    pub fn stop(mut self) {
        drop(self.lifeline.take());
        let asked = Instant::now();
        while asked.elapsed() < STOP_MAX && matches!(self.process.try_wait(), Ok(None)) {
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
