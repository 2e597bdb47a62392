//! What people ask for, and what they were answered.

use std::fmt;

use berth_model::{EvalId, Index, JobKey, command::Command};

/// What somebody was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It is in the log.
    Committed(Index),
    /// It is not, and never will be.
    NotWritten,
    /// The outcome is unknown: it may be in the log.
    Unknown,
}

/// What somebody wants of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRequest {
    /// The job.
    pub job: JobKey,
    /// Whether it is to run.
    pub runs: bool,
    /// Only if it was last changed then.
    pub only_if: Option<Index>,
}

impl JobRequest {
    /// What commands ask for that somebody gives.
    pub fn of(commands: &[Command]) -> Option<Self> {
        commands.iter().find_map(|command| match command {
            Command::RegisterJob(register) => Some(Self {
                job: register.job.key.clone(),
                runs: !register.job.stop,
                only_if: register.only_if,
            }),
            Command::DeregisterJob(deregister) => {
                Some(Self { job: deregister.job.clone(), runs: false, only_if: None })
            }
            _ => None,
        })
    }
}

/// One request.
#[derive(Debug, Clone)]
pub struct Operation {
    /// Sequence number of the request.
    pub number: u64,
    /// Names it in the log.
    pub eval: EvalId,
    /// In words, what it concerns.
    pub what: String,
    /// What it asks of a job; none where that is of no job, or changes nothing of whether it is to run.
    pub asks: Option<JobRequest>,
    /// None while nobody has answered.
    pub outcome: Option<RequestOutcome>,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {} ({})", self.number, self.what)
    }
}

/// All of them.
#[derive(Default)]
pub struct Operations(pub Vec<Operation>);

impl Operations {
    /// Somebody asks for something; its number.
    pub fn begin(&mut self, eval: EvalId, what: String, asks: Option<JobRequest>) -> u64 {
        let number = self.0.len() as u64;
        self.0.push(Operation { number, eval, what, asks, outcome: None });
        number
    }
}
