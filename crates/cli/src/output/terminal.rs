//! The size of the terminals at standard output and standard error, where there are any.

use std::{io::IsTerminal, os::fd::AsFd};

/// Columns of a terminal that does not report its width.
const COLUMNS_DEFAULT: usize = 80;
const HELP_COLUMNS_MIN: usize = 40;
const HELP_COLUMNS_MAX: usize = 100;

/// Columns that fit standard output: those of the variable COLUMNS, or of the terminal; none when it goes elsewhere.
pub fn stdout_width() -> Option<usize> {
    let columns_set = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    columns_set.filter(|columns| *columns > 0).or_else(|| width(&std::io::stdout()))
}

/// Columns that help is written in: no narrower than can be read, and no wider than is read well.
pub fn help_columns() -> usize {
    stdout_width().map_or(HELP_COLUMNS_MAX, |columns| columns.clamp(HELP_COLUMNS_MIN, HELP_COLUMNS_MAX))
}

/// Columns of the terminal at standard error, if lines there can be drawn again.
pub fn stderr_width() -> Option<usize> {
    if is_dumb() { None } else { width(&std::io::stderr()) }
}

/// Rows of the terminal at standard output, if what is there can be drawn again.
pub fn stdout_rows() -> Option<usize> {
    rows(&std::io::stdout())
}

/// The same of standard error.
pub fn stderr_rows() -> Option<usize> {
    rows(&std::io::stderr())
}

fn rows(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if is_dumb() || !stream.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty())
}

fn width(stream: &(impl IsTerminal + AsFd)) -> Option<usize> {
    if !stream.is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stream).map_or(0, |size| usize::from(size.ws_col));
    Some(if columns == 0 { COLUMNS_DEFAULT } else { columns })
}
