//! What is at the other end of standard output and standard error.

use std::io::IsTerminal;

/// Columns of the terminal at standard output; none when it goes elsewhere.
pub fn stdout_width() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether a person sees standard error as it is written.
pub fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
