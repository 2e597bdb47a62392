//! What is at the other end of standard output and standard error.

use std::{io::IsTerminal, os::fd::AsFd};

/// Columns of a terminal that does not tell.
const COLUMNS_DEFAULT: usize = 80;

/// Columns of the terminal at standard output; none when it goes elsewhere.
pub fn stdout_width() -> Option<usize> {
    width(&std::io::stdout())
}

/// Columns of the terminal at standard error, if lines there can be drawn anew.
pub fn stderr_width() -> Option<usize> {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    if dumb { None } else { width(&std::io::stderr()) }
}

fn width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if columns == 0 { COLUMNS_DEFAULT } else { columns })
}
