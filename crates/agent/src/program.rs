//! Runs programs of the host for their output, each with a timeout that includes all that it starts.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// The most that is stored of either output of a program; the rest is read and dropped.
const OUTPUT_BYTES_MAX: usize = 64 << 10;

/// What a program wrote, and how it ended.
pub(crate) struct ProgramOutput {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

/// Runs a program, which is given `input`, and waits for its end. It gets a process group of its own, and what is left of
/// that when the time is over is killed.
///
/// # Errors
/// When it cannot be started, or has not ended after `at_most`.
pub(crate) fn run(command: &mut Command, input: &[u8], at_most: Duration) -> io::Result<ProgramOutput> {
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.process_group(0).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let result =
        ProgramIo::new(&mut child, input).and_then(|pipes| pipes.until(&child, Instant::now() + at_most));
    let result = result.and_then(|output| {
        output.ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, format!("no answer within {at_most:?}")))
    });
    if result.is_err() {
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let status = child.wait()?;
    let (stdout, stderr) = result?;
    Ok(ProgramOutput { status, stdout, stderr })
}

/// The pipes between the agent and a program. Neither waits for the other forever.
struct ProgramIo<'a> {
    stdin: Option<ChildStdin>,
    input: &'a [u8],
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    output: (Vec<u8>, Vec<u8>),
}

impl<'a> ProgramIo<'a> {
    fn new(child: &mut Child, input: &'a [u8]) -> io::Result<Self> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let fds = stdin.iter().map(AsFd::as_fd).chain(stdout.iter().map(AsFd::as_fd));
        for fd in fds.chain(stderr.iter().map(AsFd::as_fd)) {
            ioctl_fionbio(fd, true)?;
        }
        Ok(Self { stdin, input, stdout, stderr, output: Default::default() })
    }

    /// Until the program has ended, whatever holds its outputs open after that; none when it has not by then.
    fn until(mut self, child: &Child, deadline: Instant) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
        let pidfd = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            let has_ended = self.wait(pidfd.as_fd(), left);
            self.write_input();
            read_output(&mut self.stdout, &mut self.output.0);
            read_output(&mut self.stderr, &mut self.output.1);
            if has_ended {
                return Ok(Some(self.output));
            }
        }
    }

    /// Until something can be done; whether that is because the program has ended.
    fn wait(&self, pidfd: BorrowedFd<'_>, at_most: Duration) -> bool {
        let mut fds = vec![PollFd::new(&pidfd, PollFlags::IN)];
        fds.extend(self.stdin.iter().map(|stdin| PollFd::new(stdin, PollFlags::OUT)));
        fds.extend(self.stdout.iter().map(|stdout| PollFd::new(stdout, PollFlags::IN)));
        fds.extend(self.stderr.iter().map(|stderr| PollFd::new(stderr, PollFlags::IN)));
        // One that the kernel cannot count to is none.
        let timeout = Timespec::try_from(at_most).ok();
        poll(&mut fds, timeout.as_ref()).is_ok() && !fds[0].revents().is_empty()
    }

    fn write_input(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(self.input) {
            Ok(written) => self.input = &self.input[written..],
            Err(error) if is_for_later(&error) => return,
            // It may end before it has read all; then it says why.
            Err(_) => self.input = &[],
        }
        if self.input.is_empty() {
            self.stdin = None;
        }
    }
}

/// Reads what has been written so far; a pipe that is closed is dropped.
fn read_output(pipe: &mut Option<impl Read>, output: &mut Vec<u8>) {
    let mut buffer = [0; 4 << 10];
    while let Some(open) = pipe {
        match open.read(&mut buffer) {
            Ok(read) if read > 0 => {
                let left = OUTPUT_BYTES_MAX - output.len();
                output.extend_from_slice(&buffer[..read.min(left)]);
            }
            Err(error) if is_for_later(&error) => return,
            Ok(_) | Err(_) => *pipe = None,
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, input: &[u8], at_most: Duration) -> io::Result<ProgramOutput> {
        run(Command::new("sh").args(["-c", script]), input, at_most)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn output_is_read_up_to_a_limit() {
        let output = shell("cat; echo wrong >&2; exit 3", b"right", LONG).expect("it ends");
        assert_eq!(
            (output.status.code(), &*output.stdout, &*output.stderr),
            (Some(3), &b"right"[..], &b"wrong\n"[..])
        );
        let much = vec![b'x'; 1 << 20];
        let output = shell("cat; cat /dev/zero | head -c 1000000 >&2", &much, LONG).expect("it ends");
        assert_eq!((output.stdout.len(), output.stderr.len()), (OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX));
        let output = shell("exec < /dev/null; exit 0", &much, LONG).expect("it ends");
        assert!(output.status.success(), "it need not read");
    }

    #[test]
    fn what_hangs_is_killed_with_all_that_it_started() {
        let late = Duration::from_millis(50);
        let error = shell("sleep 1000 & echo $! > /dev/null; sleep 1000", &[b'x'; 1 << 20], late).err();
        let error = error.expect("it is killed");
        assert_eq!((error.kind(), &*error.to_string()), (io::ErrorKind::TimedOut, "no answer within 50ms"));
        // What it leaves behind holds nobody up.
        let output = shell("sleep 1000 & echo $!", b"", LONG).expect("it ends");
        let left: i32 = String::from_utf8_lossy(&output.stdout).trim().parse().expect("a pid");
        rustix::process::kill_process(Pid::from_raw(left).expect("a process"), Signal::KILL).expect("killed");
    }
}
