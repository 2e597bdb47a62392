//! The process that runs a command within a task, seen from the agent.

use std::fs;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use berth_api::agent::{Refusal, RefusalKind};
use prost::Message;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use super::terminal::Terminal;
use crate::failure::{Failure, FailureContext};
use crate::keeper::exec::plan::{ExecPlan, ExecReport, ExecStage};
use crate::shell::socket_dir::SocketDir;

/// How long a command may take to begin: an OCI runtime is given as long.
const BEGIN_MAX: Duration = Duration::from_secs(60);

/// How much is passed on of what it complains about.
const COMPLAINT_BYTES_MAX: u64 = 400;

/// The largest report that is read.
const REPORT_BYTES_MAX: usize = 64 << 10;

/// A listening socket in a keeper's directory; it is removed when this is dropped.
pub(super) struct Listener {
    socket: UnixListener,
    dir: SocketDir,
    name: String,
}

impl Listener {
    pub(super) fn bind(dir: &Path, name: String) -> Result<Self, Failure> {
        let doing = || format!("listen for the command's process in {}", dir.display());
        let dir = SocketDir::open(dir).doing(doing)?;
        // Left behind by an agent that was killed.
        let _ = fs::remove_file(dir.path(&name));
        let socket = UnixListener::bind(dir.path(&name)).doing(doing)?;
        Ok(Self { socket, dir, name })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    async fn accept(&self) -> Result<UnixStream, Failure> {
        let doing = || "wait for the command's process".to_owned();
        let accepted = timeout(BEGIN_MAX, self.socket.accept()).await;
        Ok(accepted.map_err(|_| Failure::other(doing(), "it does not come"))?.doing(doing)?.0)
    }

    /// Takes the terminal that an OCI runtime sends.
    pub(super) async fn terminal(&self) -> Result<Terminal, Failure> {
        let doing = || "take the command's terminal".to_owned();
        let stream = self.accept().await?;
        loop {
            stream.readable().await.doing(doing)?;
            match stream.try_io(Interest::READABLE, || receive_fd(&stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                fd => return fd.map(Terminal::of).doing(doing),
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.dir.path(&self.name));
    }
}

/// The runtime sends some bytes, which only name the terminal, and its file descriptor.
fn receive_fd(stream: &UnixStream) -> io::Result<OwnedFd> {
    let mut name = [0; 256];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(stream, &mut [IoSliceMut::new(&mut name)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    fds.find_map(|mut fds| fds.next()).ok_or_else(|| io::Error::other("no file came with it"))
}

/// The process; it ends the command and itself when this is dropped.
pub(in crate::shell) struct Helper {
    control: UnixStream,
    /// The command's standard input, output and error, unless it has a terminal.
    pub(in crate::shell) pipes: Option<(ChildStdin, ChildStdout, ChildStderr)>,
}

impl Helper {
    #[cfg(test)]
    pub(super) fn of(control: UnixStream, pipes: (ChildStdin, ChildStdout, ChildStderr)) -> Self {
        Self { control, pipes: Some(pipes) }
    }

    /// Makes it, in the directory of the task's keeper. With a terminal, nothing goes through its own pipes.
    pub(super) async fn start(
        keeper_command: &[String],
        dir: &Path,
        name: String,
        plan: &ExecPlan,
        tty: bool,
    ) -> Result<Self, Failure> {
        let doing = || "start the command's process".to_owned();
        let listener = Listener::bind(dir, name)?;
        let (program, args) =
            keeper_command.split_first().ok_or_else(|| Failure::other(doing(), "no command"))?;
        let mut command = Command::new(program);
        command.args(args).args(["exec", listener.name()]).env_clear().current_dir(dir);
        let stdio = || if tty { Stdio::null() } else { Stdio::piped() };
        command.stdin(stdio()).stdout(stdio()).stderr(stdio());
        let mut child = command.spawn().doing(doing)?;
        let (stdin, stdout, mut stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut control = tokio::select! {
            control = listener.accept() => control?,
            // The runtime reaps it in any case, whenever it ends.
            ended = child.wait() => {
                let complaint = complaint(ended.doing(doing)?, stderr.as_mut()).await;
                return Err(Failure::other(doing(), complaint));
            }
        };
        control.write_all(&plan.encode_length_delimited_to_vec()).await.doing(doing)?;
        Ok(Self {
            control,
            pipes: stdin.zip(stdout).zip(stderr).map(|((stdin, stdout), stderr)| (stdin, stdout, stderr)),
        })
    }

    /// Waits until the command runs.
    pub(super) async fn started(&mut self) -> Result<(), Refusal> {
        match timeout(BEGIN_MAX, self.report()).await {
            Ok(Ok(ExecStage::Started(_))) => Ok(()),
            Ok(Ok(ExecStage::Failed(reason))) => Err(Refusal::new(RefusalKind::Invalid, reason)),
            Ok(Ok(ExecStage::Exited(_))) => Err(lost("it ended before it began")),
            Ok(Err(error)) => Err(lost(error)),
            Err(_) => Err(lost("it does not begin")),
        }
    }

    /// Waits until the command has ended; answers with its exit code.
    pub(in crate::shell) async fn exited(&mut self) -> Result<i32, Refusal> {
        match self.report().await {
            Ok(ExecStage::Exited(code)) => Ok(code),
            Ok(ExecStage::Started(_) | ExecStage::Failed(_)) => Err(lost("its process contradicts itself")),
            Err(error) => Err(lost(error)),
        }
    }

    async fn report(&mut self) -> io::Result<ExecStage> {
        let mut prefix = Vec::new();
        while prefix.last().is_none_or(|last| last & 0x80 != 0) {
            prefix.push(self.control.read_u8().await?);
        }
        let len = prost::decode_length_delimiter(prefix.as_slice()).map_err(io::Error::other)?;
        let mut bytes = vec![0; len.min(REPORT_BYTES_MAX)];
        self.control.read_exact(&mut bytes).await?;
        let report = ExecReport::decode(bytes.as_slice()).map_err(io::Error::other)?;
        report.stage.ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Why the process ended before it wrote anything.
async fn complaint(status: ExitStatus, stderr: Option<&mut ChildStderr>) -> String {
    let mut complaint = Vec::new();
    if let Some(stderr) = stderr {
        let _ = stderr.take(COMPLAINT_BYTES_MAX).read_to_end(&mut complaint).await;
    }
    format!("{status}: {}", String::from_utf8_lossy(&complaint).trim())
}

fn lost(why: impl std::fmt::Display) -> Refusal {
    Refusal::new(RefusalKind::Failed, format!("run the command: {why}"))
}
