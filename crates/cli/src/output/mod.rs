//! What people and scripts read: tables and fields on standard output, talk on standard error.

mod fields;
mod funnel;
mod json;
mod redraw;
mod table;
mod terminal;
mod text;
mod time;

use std::io::{self, Write};

pub use fields::Fields;
pub use funnel::funnels;
pub use json::Format;
pub use redraw::Redraw;
pub use table::{Align, Table};
pub use terminal::{stderr_width, stdout_width};
pub use text::{clean, count, nearest, short_id};
pub use time::{age, now_ns, rfc3339};

/// Writes data to standard output. A reader that has seen enough, as `head`, is no failure.
pub fn print(data: &str) -> io::Result<()> {
    write_to(io::stdout().lock(), data.as_bytes())
}

/// Tells something on standard error.
pub fn tell(line: &str) {
    // Whoever closed standard error does not want to know.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

fn write_to(mut out: impl Write, data: &[u8]) -> io::Result<()> {
    match out.write_all(data).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
