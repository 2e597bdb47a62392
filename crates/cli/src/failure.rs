//! How a command fails: an exit code that scripts can rely on, what went wrong, and what to do about it.

use std::{fmt, io, process::ExitCode};

use berth_api::http::{ApiError, Refused};

use crate::output;

/// Exit codes, the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It failed.
    Failed = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// What was asked for does not exist.
    NotFound = 3,
    /// It is not permitted.
    Denied = 4,
    /// No server answers.
    Unreachable = 5,
    /// Somebody else changed it meanwhile.
    Conflict = 6,
    /// It took too long.
    TimedOut = 7,
    /// The job is registered, and some of it cannot be placed.
    Unplaced = 8,
}

/// A command that did not do what it was asked.
#[derive(Debug)]
pub struct Failure {
    exit: Exit,
    message: String,
    help: Vec<String>,
}

impl Failure {
    /// What went wrong: lower case, no full stop.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: format!("error: {}", message.into()), help: Vec::new() }
    }

    /// A report that is already in its final form.
    pub fn report(exit: Exit, text: &impl fmt::Display) -> Self {
        Self { exit, message: text.to_string().trim_end().to_owned(), help: Vec::new() }
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.exit
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.message)?;
        self.help.iter().try_for_each(|help| writeln!(f, "  help: {help}"))
    }
}

impl std::error::Error for Failure {}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(Exit::Failed, error.to_string())
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        let exit = match &error {
            ApiError::Refused(refused) => exit_of(refused),
            ApiError::Unreachable { .. } => Exit::Unreachable,
            ApiError::TimedOut { .. } => Exit::TimedOut,
            ApiError::Broken { .. } | ApiError::Decode { .. } | ApiError::Encode(_) => Exit::Failed,
        };
        Self::new(exit, output::clean(&error.to_string()))
    }
}

fn exit_of(refused: &Refused) -> Exit {
    match refused.status {
        401 | 403 => Exit::Denied,
        404 => Exit::NotFound,
        408 | 504 => Exit::TimedOut,
        409 => Exit::Conflict,
        // A job that was changed meanwhile has no status of its own in Nomad's API.
        _ if refused.text.starts_with("Enforcing job modify index") => Exit::Conflict,
        _ => Exit::Failed,
    }
}
