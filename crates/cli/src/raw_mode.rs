//! A terminal in raw mode, until this is dropped.

use std::io;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};

/// The terminal of standard input in raw mode.
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Turns it on.
    pub fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs nothing restored.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
