//! A task's output: named pipes, which outlive a keeper, drained into log files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, fchown};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};

use super::output_rate::Allowance;
use super::plan::LogPlan;
use super::stage;
use crate::failure::{Failure, FailureContext};
use crate::logs::{LogPath, LogWriter};

/// How much of one pipe is taken before the other has its turn.
const PUMP_BYTES_MAX: usize = 256 << 10;
const BUFFER_BYTES: usize = 16 << 10;

/// The ends that the task gets.
pub(super) struct TaskEnds {
    pub(super) stdout: File,
    pub(super) stderr: File,
}

impl TaskEnds {
    /// Makes them a user's, who may open them again by the names that the kernel gives them, as `/dev/stdout`.
    pub(super) fn give(&self, uid: u32, gid: u32) -> Result<(), Failure> {
        for end in [&self.stdout, &self.stderr] {
            if is_pipe(end) {
                fchown(end, Some(uid), Some(gid)).doing(|| "give its output to the container".into())?;
            }
        }
        Ok(())
    }

    /// What goes nowhere goes there by a device of the container's own.
    pub(super) fn without_host_devices(self) -> Result<Self, Failure> {
        let own = |end: File| if is_pipe(&end) { Ok(end) } else { stage::open_null() };
        Ok(Self { stdout: own(self.stdout)?, stderr: own(self.stderr)? })
    }
}

fn is_pipe(end: &File) -> bool {
    end.metadata().is_ok_and(|found| found.file_type().is_fifo())
}

/// The ends that the keeper reads, as long as somebody may write.
pub(super) struct Outputs {
    open: Vec<Output>,
}

struct Output {
    pipe: File,
    log: LogWriter,
    allowance: Allowance,
}

impl Outputs {
    pub(super) fn create(logs: &LogPlan) -> Result<(Self, TaskEnds), Failure> {
        if logs.disabled {
            let null = || OpenOptions::new().write(true).open("/dev/null").doing(|| "open /dev/null".into());
            return Ok((Self { open: Vec::new() }, TaskEnds { stdout: null()?, stderr: null()? }));
        }
        for stream in ["stdout", "stderr"] {
            // An earlier attempt's pipe may still be held by something that escaped; its output must not be read.
            let _ = fs::remove_file(stream);
            mkfifoat(CWD, stream, Mode::RUSR | Mode::WUSR).doing(|| format!("make the pipe for {stream}"))?;
        }
        let outputs = Self::open(logs)?;
        Ok((outputs, TaskEnds { stdout: task_end("stdout")?, stderr: task_end("stderr")? }))
    }

    /// Opens the pipes of a task that runs already.
    pub(super) fn open(logs: &LogPlan) -> Result<Self, Failure> {
        if logs.disabled {
            return Ok(Self { open: Vec::new() });
        }
        let open = ["stdout", "stderr"].map(|stream| Output::open(logs, stream));
        Ok(Self { open: open.into_iter().collect::<Result<_, _>>()? })
    }

    /// The pipes that may be read now.
    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.open.iter().filter(|output| !output.allowance.is_spent()).map(|output| output.pipe.as_fd())
    }

    /// When to look again at those of which nothing may be taken now.
    pub(super) fn pause(&self) -> Option<Duration> {
        self.open.iter().any(|output| output.allowance.is_spent()).then_some(Allowance::PAUSE)
    }

    /// Moves what there is into the logs. Pipes that nobody writes to any more are closed.
    pub(super) fn pump(&mut self) {
        self.open.retain_mut(Output::pump);
    }

    pub(super) fn are_closed(&self) -> bool {
        self.open.is_empty()
    }
}

/// Opened for reading, too: with the keeper gone, writing must not kill the task.
fn task_end(stream: &str) -> Result<File, Failure> {
    OpenOptions::new().read(true).write(true).open(stream).doing(|| format!("open the pipe for {stream}"))
}

impl Output {
    fn open(logs: &LogPlan, stream: &str) -> Result<Self, Failure> {
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let pipe = OpenOptions::new().read(true).custom_flags(nonblocking).open(stream);
        let pipe = pipe.doing(|| format!("open the pipe for {stream}"))?;
        let log_path = LogPath::new(Path::new(&logs.dir), &logs.task, stream, logs.file_bytes_max);
        let log = LogWriter::open(log_path, logs.files_max.into())
            .doing(|| format!("open the log in {}", logs.dir))?;
        Ok(Self { pipe, log, allowance: Allowance::new(Instant::now()) })
    }

    /// False once all writers are gone.
    fn pump(&mut self) -> bool {
        let mut buffer = [0; BUFFER_BYTES];
        let mut bytes_read = 0;
        let most = self.allowance.at(Instant::now()).min(PUMP_BYTES_MAX);
        while bytes_read < most {
            match self.pipe.read(&mut buffer) {
                Ok(0) => return false,
                Ok(read) => {
                    self.log.append(&buffer[..read]);
                    self.allowance.spend(read);
                    bytes_read += read;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        true
    }
}
