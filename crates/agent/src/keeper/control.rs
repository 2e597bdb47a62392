//! The keeper's socket. A connection is greeted with the line `running` once the task runs, and closed when the task's end is on
//! record; the requests `signal N` and `kill`, a line each, are answered in order by `ok` or `error: ...`.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};

use super::plan::SOCKET_FILE;
use crate::failure::{Failure, FailureContext};

/// Connections at a time; there is one agent, and perhaps a person who looks.
const CLIENTS_MAX: usize = 8;
const LINE_BYTES_MAX: usize = 64;

/// A command to the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ControlRequest {
    Signal(i32),
    Kill,
}

pub(super) struct Control {
    listener: UnixListener,
    clients: Vec<ControlClient>,
}

struct ControlClient {
    stream: UnixStream,
    line: Vec<u8>,
}

impl Control {
    /// Listens in the working directory.
    pub(super) fn bind() -> Result<Self, Failure> {
        let _ = fs::remove_file(SOCKET_FILE);
        let listener = UnixListener::bind(SOCKET_FILE).doing(|| "listen on the keeper's socket".into())?;
        listener.set_nonblocking(true).doing(|| "listen on the keeper's socket".into())?;
        Ok(Self { listener, clients: Vec::new() })
    }

    pub(super) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.clients.iter().map(|client| client.stream.as_fd()))
    }

    /// Takes in what has come; `perform` carries out each request.
    pub(super) fn serve(&mut self, mut perform: impl FnMut(ControlRequest) -> io::Result<()>) {
        while let Ok((stream, _)) = self.listener.accept() {
            if self.clients.len() < CLIENTS_MAX && greet(&stream).is_ok() {
                self.clients.push(ControlClient { stream, line: Vec::new() });
            }
        }
        self.clients.retain_mut(|client| client.serve(&mut perform).is_ok());
    }
}

fn greet(mut stream: &UnixStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    stream.write_all(b"running\n")
}

impl ControlClient {
    /// An error ends the connection.
    fn serve(&mut self, perform: &mut impl FnMut(ControlRequest) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = [0; LINE_BYTES_MAX];
        loop {
            let read = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                other => other?,
            };
            for byte in &buffer[..read] {
                match byte {
                    b'\n' => self.answer(perform)?,
                    _ if self.line.len() >= LINE_BYTES_MAX => return Err(io::ErrorKind::InvalidData.into()),
                    _ => self.line.push(*byte),
                }
            }
        }
    }

    fn answer(&mut self, perform: &mut impl FnMut(ControlRequest) -> io::Result<()>) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let answer = match parse(&line).ok_or("unknown request".to_owned()) {
            Ok(request) => perform(request).map_err(|error| error.to_string()),
            Err(error) => Err(error),
        };
        match answer {
            Ok(()) => self.stream.write_all(b"ok\n"),
            Err(error) => self.stream.write_all(format!("error: {error}\n").as_bytes()),
        }
    }
}

fn parse(line: &[u8]) -> Option<ControlRequest> {
    match std::str::from_utf8(line).ok()?.split_once(' ') {
        None if line == b"kill" => Some(ControlRequest::Kill),
        Some(("signal", number)) => number.parse().ok().map(ControlRequest::Signal),
        _ => None,
    }
}
