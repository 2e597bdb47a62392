//! A terminal of a command's own: the end that the user types into.

use std::io;
use std::os::fd::OwnedFd;

use berth_api::agent::TerminalSize;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::net::unix::pipe;

/// What a terminal in its usual mode takes for the end of input: ctrl-d.
pub(super) const END_OF_INPUT: &[u8] = &[4];

/// The master's end of a pseudo-terminal.
pub(super) struct Terminal(OwnedFd);

impl Terminal {
    /// Makes a pseudo-terminal; answers with the path of the command's end, too.
    pub(super) fn make() -> io::Result<(Self, String)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?.into_string().map_err(io::Error::other)?;
        Ok((Self(master), path))
    }

    /// One that somebody else has made.
    pub(super) fn of(master: OwnedFd) -> Self {
        Self(master)
    }

    /// What shows on it, which fails once nobody has the other end open any more, and where to type. To the runtime it is
    /// as good as a pair of pipes.
    pub(super) fn ends(&self) -> io::Result<(pipe::Receiver, pipe::Sender)> {
        fcntl_setfl(&self.0, fcntl_getfl(&self.0)? | OFlags::NONBLOCK)?;
        let shown = pipe::Receiver::from_owned_fd_unchecked(self.0.try_clone()?)?;
        Ok((shown, pipe::Sender::from_owned_fd_unchecked(self.0.try_clone()?)?))
    }

    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let cells = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        let (ws_row, ws_col) = (cells(size.rows), cells(size.columns));
        Ok(tcsetwinsize(&self.0, Winsize { ws_row, ws_col, ws_xpixel: 0, ws_ypixel: 0 })?)
    }
}
