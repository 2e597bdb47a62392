//! What a server, an agent or a keeper prints when it panics: where that was, and nothing of what it was at work on, for that may
//! be a secret of a request or a task, and what is printed is kept in logs and shown to people.

use std::{
    backtrace::{Backtrace, BacktraceStatus},
    io::{self, Write},
    panic::{self, Location},
};

use berth_model::panic_text;

/// From now on messages of panics are printed only if they stand in the program's source word by word.
pub fn withhold_messages() {
    panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let report = PanicReport {
            thread: thread.name().unwrap_or("<unnamed>"),
            location: panic.location(),
            text: panic_text(panic.payload()),
            backtrace: Backtrace::capture(),
        };
        // There is nobody to inform that standard error is closed.
        let _ = io::stderr().write_all(report.to_string().as_bytes());
    }));
}

struct PanicReport<'p> {
    thread: &'p str,
    location: Option<&'p Location<'p>>,
    text: &'static str,
    backtrace: Backtrace,
}

impl std::fmt::Display for PanicReport<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "thread {:?} panicked", self.thread)?;
        if let Some(location) = self.location {
            write!(f, " at {location}")?;
        }
        writeln!(f, ": {}", self.text)?;
        match self.backtrace.status() {
            BacktraceStatus::Captured => write!(f, "{}", self.backtrace),
            _ => writeln!(f, "(set RUST_BACKTRACE=1 in its environment for a backtrace)"),
        }
    }
}
