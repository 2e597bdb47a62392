//! `berth`: the one binary. Server, agent, and the commands that talk to them.

mod aliases;
mod argv;
mod cli;
mod commands;
mod complete;
mod confirm;
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
mod unsupported;

use std::{
    error::Error,
    ffi::OsString,
    num::{IntErrorKind, ParseIntError},
    process::ExitCode,
};

use clap::{CommandFactory, FromArgMatches};

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
    let cli = parse(&args).unwrap_or_else(|error| refused(&error, &args));
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::eprint_text(&failure.to_string());
            failure.exit().into()
        }
    }
}

/// Reads a command line; help is as wide as the terminal.
fn parse(args: &[OsString]) -> Result<Cli, clap::Error> {
    let command = Cli::command().term_width(output::help_columns());
    let matches = command.try_get_matches_from(args)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut Cli::command()))
}

/// Ends with the error of a command line, or with the help that was requested.
fn refused(error: &clap::Error, args: &[OsString]) -> ! {
    let words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if let Some(failure) = unsupported::explain(error, &words, &Cli::command()) {
        output::eprint_text(&failure.to_string());
        std::process::exit(failure.exit().code().into());
    }
    if !error.use_stderr() {
        error.exit();
    }
    output::eprint_text(&error_text(error));
    std::process::exit(error.exit_code())
}

/// The parser's error, reworded where the standard library's text names neither reason nor fix.
fn error_text(error: &clap::Error) -> String {
    let text = error.to_string();
    match error.source().and_then(|cause| cause.downcast_ref::<ParseIntError>()) {
        Some(cause) if *cause.kind() == IntErrorKind::InvalidDigit => {
            text.replace(&cause.to_string(), "it is no whole number")
        }
        _ => text,
    }
}
