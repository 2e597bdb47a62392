//! `berth`: the one binary. Server, agent, and the commands that talk to them.

mod absent;
mod aliases;
mod argv;
mod ask;
mod cli;
mod commands;
mod complete;
mod daemon;
mod failure;
mod filter;
mod follow;
mod global;
mod output;
mod panics;
mod raw_mode;
#[cfg(test)]
mod reference;
mod remote;
mod settings;
mod show;
mod source;
mod tokens;

use std::{ffi::OsString, process::ExitCode};

use clap::{CommandFactory, Parser};

use crate::cli::Cli;

fn main() -> ExitCode {
    if let Some(exit) = commands::keeper::run_if_asked() {
        return exit;
    }
    if complete::if_asked(std::env::args_os()) {
        return ExitCode::SUCCESS;
    }
    let args = aliases::expand(std::env::args_os().collect(), &Cli::command());
    let args = argv::normalize(args, &Cli::command());
    let cli = Cli::try_parse_from(&args).unwrap_or_else(|error| refused(&error, &args));
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{failure}");
            failure.exit().into()
        }
    }
}

/// Ends with what is wrong with a command line, or with the help that was asked for.
fn refused(error: &clap::Error, args: &[OsString]) -> ! {
    let words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let Some(failure) = absent::explain(error, &words, &Cli::command()) else { error.exit() };
    eprint!("{failure}");
    std::process::exit(failure.exit().code().into())
}
