//! `berth`: the one binary. Server, agent, and the commands that talk to them.

mod argv;
mod ask;
mod cli;
mod commands;
mod complete;
mod daemon;
mod failure;
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

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::cli::Cli;

fn main() -> ExitCode {
    if let Some(exit) = commands::keeper::run_if_asked() {
        return exit;
    }
    if complete::if_asked(std::env::args_os()) {
        return ExitCode::SUCCESS;
    }
    let args = argv::normalize(std::env::args_os(), &Cli::command());
    match Cli::parse_from(args).run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("{failure}");
            failure.exit().into()
        }
    }
}
