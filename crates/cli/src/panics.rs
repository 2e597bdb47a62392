//! The message of a server, agent or keeper that panics: it names the place in the code and withholds the panic's own message, which
//! may hold a secret of a request or a task and would end up in logs.

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
