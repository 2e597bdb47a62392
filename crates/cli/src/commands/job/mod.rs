//! `berth job`: run, watch and stop jobs.

mod deployments;
mod detail;
mod diff;
mod dispatch;
mod eval;
mod file;
mod fmt;
mod history;
mod init;
mod inspect;
mod launches;
mod outcome;
mod periodic;
mod plan;
mod restart;
mod revert;
mod run;
mod scale;
mod scaling_events;
mod start;
mod status;
mod stop;
mod tag;
mod validate;

use clap::Subcommand;

use crate::{failure::Failure, global::Global, remote::block_on};

pub use outcome::{AcceptedChange, DetachArgs};

/// What can be done with jobs.
#[derive(Debug, Subcommand)]
pub enum JobCommand {
    /// Register a job, and follow it until it runs; batch work until it is done
    Run(run::JobRunArgs),
    /// Show what registering a job would do, without doing it
    Plan(plan::JobPlanArgs),
    /// List the jobs, or show one in detail
    Status(status::JobStatusArgs),
    /// Stop a job, and wait until it has ended
    Stop(stop::JobStopArgs),
    /// Start a job again that was stopped
    Start(start::JobStartArgs),
    /// Restart a job's allocations in batches, each once the one before is healthy
    Restart(restart::JobRestartArgs),
    /// List the versions of a job, and what each changed
    History(history::JobHistoryArgs),
    /// Go back to an earlier version of a job
    Revert(revert::JobRevertArgs),
    /// Name versions of a job
    #[command(subcommand)]
    Tag(tag::JobTagCommand),
    /// List a job's deployments
    Deployments(deployments::JobDeploymentsArgs),
    /// Promote a job's canaries: they replace the old allocations
    Promote(deployments::JobPromoteArgs),
    /// Change the count of a group of a job
    Scale(scale::JobScaleArgs),
    /// List the changes of a job's counts
    ScalingEvents(scaling_events::JobScalingEventsArgs),
    /// Run a parameterized job with values for its parameters
    Dispatch(dispatch::JobDispatchArgs),
    /// Manage periodic jobs
    #[command(subcommand)]
    Periodic(periodic::JobPeriodicCommand),
    /// Evaluate a job: place what it lacks
    Eval(eval::JobEvalArgs),
    /// Print a job as the server has it
    Inspect(inspect::JobInspectArgs),
    /// Check a job file, without a server
    Validate(validate::JobValidateArgs),
    /// Write a job file to start from
    Init(init::JobInitArgs),
    /// Bring job files into their usual layout
    Fmt(fmt::JobFmtArgs),
}

impl JobCommand {
    pub fn run(&self, global: &Global) -> Result<(), Failure> {
        match self {
            Self::Run(run) => block_on(run.run(&global.remote()?)),
            Self::Plan(plan) => plan.run(global),
            Self::Status(status) => block_on(status.run(&global.remote()?)),
            Self::Stop(stop) => block_on(stop.run(&global.remote()?)),
            Self::Start(start) => block_on(start.run(&global.remote()?)),
            Self::Restart(restart) => block_on(restart.run(&global.remote()?)),
            Self::History(history) => block_on(history.run(&global.remote()?)),
            Self::Revert(revert) => block_on(revert.run(&global.remote()?)),
            Self::Tag(verb) => block_on(verb.run(&global.remote()?)),
            Self::Deployments(deployments) => block_on(deployments.run(&global.remote()?)),
            Self::Promote(promote) => block_on(promote.run(&global.remote()?)),
            Self::Scale(scale) => block_on(scale.run(&global.remote()?)),
            Self::ScalingEvents(events) => block_on(events.run(&global.remote()?)),
            Self::Dispatch(dispatch) => block_on(dispatch.run(&global.remote()?)),
            Self::Periodic(verb) => block_on(verb.run(&global.remote()?)),
            Self::Eval(eval) => block_on(eval.run(&global.remote()?)),
            Self::Inspect(inspect) => block_on(inspect.run(&global.remote()?)),
            Self::Validate(validate) => validate.run(),
            Self::Init(init) => init.run(),
            Self::Fmt(fmt) => fmt.run(),
        }
    }
}
