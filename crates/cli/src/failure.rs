//! Failures of commands: an exit code that scripts can rely on, what went wrong, and what to do about it.

use std::{fmt, io, process::ExitCode};

use berth_api::http::{ApiError, ErrorResponse};

use crate::output;

/// What to do where the other side hung up.
const OTHER_PORT: &str = "if this is a server's port for agents or for other servers, ask its HTTP port: 4646 unless \
                          --http-addr says otherwise";

/// How a server begins its answer to a path that it does not have.
const NO_SUCH_PATH: &str = "no such path: ";
/// What to do about that.
const OLDER_SERVER: &str =
    "the server is older than this program, or another one: `berth server members` shows its version";

/// How a server ends its answer to whoever shows no token.
const NO_TOKEN: &str = ", and no token was given";
/// What to do about that.
const GIVE_TOKEN: &str = "set BERTH_TOKEN to the secret of a token, or keep it with `berth login`";
/// A server's answer to a secret that is none of its tokens'.
const UNKNOWN_TOKEN: &str = "ACL token not found";
/// What to do about that.
const RIGHT_TOKEN: &str = "BERTH_TOKEN and -token take the secret of a token of this cluster, not its accessor; it may have \
                           been deleted";

/// How a command ends when it does not end well, the same for every command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It failed.
    Failed,
    /// The command line or a setting is wrong.
    Usage,
    /// What was requested does not exist.
    NotFound,
    /// It is not permitted.
    Denied,
    /// No server answers.
    Unreachable,
    /// Somebody else changed it meanwhile.
    Conflict,
    /// It took too long.
    TimedOut,
    /// The job is registered, and some of it cannot be placed.
    Unplaced,
    /// A plan would make or end allocations.
    Changes,
    /// Nothing could be planned.
    NoPlan,
    /// What the task that was waited for ended with.
    Task(u8),
}

impl Exit {
    /// The code that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Failed | Self::Changes => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Denied => 4,
            Self::Unreachable => 5,
            Self::Conflict => 6,
            Self::TimedOut => 7,
            Self::Unplaced => 8,
            Self::NoPlan => 255,
            Self::Task(code) => code,
        }
    }
}

/// Every code and its meaning, as help and the reference show it.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "it did what it was asked; of `job plan`: no allocation would be made or ended"),
    (1, "it failed; of `job plan`: some allocation would be made or ended"),
    (2, "the command line or a setting is wrong, or there is no terminal to ask at"),
    (3, "what was asked for does not exist"),
    (4, "it is not permitted"),
    (5, "no server answers"),
    (6, "somebody else changed it meanwhile"),
    (7, "it took too long"),
    (8, "the job is registered, and some of it cannot be placed"),
    (255, "`job plan` could plan nothing"),
];

/// The end of a command with another code than 0, most often because it failed.
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

    /// An exit code without a message: the command has printed everything itself.
    pub fn silent(exit: Exit) -> Self {
        Self { exit, message: String::new(), help: Vec::new() }
    }

    /// The same, with another exit code.
    pub fn ending_with(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// The same, for one of several items.
    pub fn about(mut self, thing: &str) -> Self {
        if let Some(message) = self.message.strip_prefix("error: ") {
            self.message = format!("error: {thing}: {message}");
        }
        self
    }

    /// The same, with the name of what is not there, of which servers only say what kind of thing it is; and the command that
    /// lists such things.
    pub fn naming(self, what: &str, name: &str, lister: &str) -> Self {
        if self.message != format!("error: {what} not found") {
            return self;
        }
        Self::new(self.exit, format!("there is no {what} `{}`", output::clean(name)))
            .help(format!("`berth {lister}` lists what there is"))
    }

    /// Adds what to do about it.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    pub fn exit(&self) -> Exit {
        self.exit
    }
}

/// What was read, or none where there is no such thing.
pub fn found<T>(read: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match read {
        Ok(it) => Ok(Some(it)),
        Err(failure) if failure.exit() == Exit::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.message.is_empty() {
            writeln!(f, "{}", self.message)?;
        }
        self.help.iter().try_for_each(|help| writeln!(f, "  help: {help}"))
    }
}

impl std::error::Error for Failure {}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
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
            ApiError::Unreachable { .. } | ApiError::Untrusted { .. } => Exit::Unreachable,
            ApiError::TimedOut { .. } => Exit::TimedOut,
            ApiError::Broken { .. } | ApiError::Decode { .. } | ApiError::Encode(_) => Exit::Failed,
        };
        let failure = Self::new(exit, output::clean_lines(&error.to_string()));
        match &error {
            error if is_no_such_path(error) => failure.help(OLDER_SERVER),
            ApiError::Refused(refused) if refused.text.ends_with(NO_TOKEN) => failure.help(GIVE_TOKEN),
            ApiError::Refused(refused) if refused.text == UNKNOWN_TOKEN => failure.help(RIGHT_TOKEN),
            error if is_of_another_port(error) => failure.help(OTHER_PORT),
            _ => failure,
        }
    }
}

/// Whether the server does not have the resource at all.
pub fn is_no_such_path(error: &ApiError) -> bool {
    matches!(error, ApiError::Refused(refused) if refused.text.starts_with(NO_SUCH_PATH))
}

/// Whether the connection was closed before any answer, as a server does at its ports for agents and servers.
fn is_of_another_port(error: &ApiError) -> bool {
    match error {
        ApiError::Broken { reason, .. } => reason.contains("before message completed"),
        ApiError::Unreachable { reason, .. } => reason.contains("handshake eof"),
        _ => false,
    }
}

fn exit_of(refused: &ErrorResponse) -> Exit {
    match refused.status {
        401 | 403 => Exit::Denied,
        404 => Exit::NotFound,
        408 | 504 => Exit::TimedOut,
        409 => Exit::Conflict,
        // The port for agents: there is no API at that address.
        421 => Exit::Unreachable,
        // A job that was changed meanwhile has no status of its own in Nomad's API.
        _ if refused.text.starts_with("Enforcing job modify index") => Exit::Conflict,
        _ => Exit::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_failure_has_a_documented_exit_code() {
        use Exit::*;
        let all =
            [Failed, Usage, NotFound, Denied, Unreachable, Conflict, TimedOut, Unplaced, Changes, NoPlan];
        assert!(all.iter().all(|exit| EXIT_CODES.iter().any(|(code, _)| *code == exit.code())));
    }
}
