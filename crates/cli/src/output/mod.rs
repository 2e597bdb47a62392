//! Output for people and scripts: tables and fields on standard output, messages on standard error.

mod fields;
mod format;
mod funnel;
mod layout;
mod raw;
mod redraw;
mod style;
mod table;
mod template;
mod terminal;
mod text;
mod time;

use std::io::{self, Write};

pub use fields::{Fields, sections};
pub use format::{Format, Renderer, View};
pub use funnel::{funnels, no_node};
pub use layout::{BAR_CHARS, Layout};
pub use raw::RawOutput;
pub use redraw::Redraw;
pub use style::{Palette, Tone};
pub use table::{Cell, Column, Table};
pub use template::Template;
pub use terminal::{help_columns, stdout_rows};
pub use text::{bytes, clean, clean_lines, count, id, nearest, short_id};
pub use time::{age, lasting, now_ns, rfc3339};

/// Writes data to standard output. Once its reader has seen enough, as `head` does, the process ends: nothing is left
/// to do, and that is no failure.
pub fn print(data: &str) -> io::Result<()> {
    print_bytes(data.as_bytes())
}

/// Writes data that need not be text to standard output.
pub fn print_bytes(data: &[u8]) -> io::Result<()> {
    write_to(io::stdout().lock(), data)
}

/// Prints a line on standard error.
pub fn eprint_line(line: &str) {
    eprint_text(&format!("{line}\n"));
}

/// Writes a message to standard error as it is, but for the colours of its labels.
pub fn eprint_text(text: &str) {
    let message = Palette::of(&io::stderr()).message(text);
    // Who closed standard error does not want to know.
    let _ = io::stderr().lock().write_all(message.as_bytes());
}

fn write_to(mut out: impl Write, data: &[u8]) -> io::Result<()> {
    match out.write_all(data).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        result => result,
    }
}
