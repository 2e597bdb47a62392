//! `berth keeper`: the small process beside each task, which agents start. It is not for users.

use std::process::ExitCode;

use crate::panics;

/// The hidden command's name.
const NAME: &str = "keeper";

/// Becomes a keeper if the command line is `berth keeper`. Nothing may come before it: a keeper has one thread and no runtime.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    if args.next()? != NAME {
        return None;
    }
    // What it prints becomes an event of its task.
    panics::withhold_messages();
    let args: Option<Vec<String>> = args.map(|arg| arg.into_string().ok()).collect();
    let code = args.map_or(2, |args| berth_agent::keeper::main(&args));
    Some(u8::try_from(code).unwrap_or(1).into())
}

/// The command with which an agent calls a keeper.
pub fn command() -> std::io::Result<Vec<String>> {
    let binary = std::env::current_exe()?;
    Ok(vec![binary.to_string_lossy().into_owned(), NAME.to_owned()])
}
