//! Shell completion: words of the command line itself, and ids that the server knows at this moment.
//!
//! A shell calls `berth` with `COMPLETE` set, as `berth completion SHELL` arranges.

mod candidates;
mod quote;

use std::ffi::OsString;

use clap::CommandFactory;
use clap_complete::CompleteEnv;

use crate::{aliases::with_aliases, argv, cli::Cli};

pub use candidates::{
    allocations, deployments, evaluations, jobs, jobs_or_allocations, namespaces, nodes, variables,
};

/// The variable by which a shell requests completions.
pub const VARIABLE: &str = "COMPLETE";

/// Answers a shell that requests completions.
pub fn if_asked(args: impl IntoIterator<Item = OsString>) -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let args = with_two_dashes(args.into_iter().collect());
    let here = std::env::current_dir().ok();
    let complete = CompleteEnv::with_factory(|| with_aliases(Cli::command())).var(VARIABLE);
    complete.try_complete(args, here.as_deref()).unwrap_or_else(|error| error.exit())
}

/// The line that is being completed stands behind `--`. Its last word is not finished: with more than one letter after
/// its dash it is taken for the beginning of a long flag.
fn with_two_dashes(mut args: Vec<OsString>) -> Vec<OsString> {
    let Some(begin) = args.iter().position(|arg| arg == "--") else { return args };
    let line = args.split_off(begin + 1);
    let (last, finished) =
        line.split_last().map_or((None, &[][..]), |(last, finished)| (Some(last.clone()), finished));
    args.extend(argv::normalize(finished.iter().cloned(), &Cli::command()));
    args.extend(last.map(|word| match word.to_str() {
        Some(flag) if flag.len() > 2 && flag.starts_with('-') && !flag.starts_with("--") => {
            format!("-{flag}").into()
        }
        _ => word,
    }));
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_words_are_read_as_on_the_command_line() {
        let args = ["/bin/berth", "--", "berth", "-address", "x", "job", "st"].map(OsString::from).to_vec();
        let read = with_two_dashes(args);
        assert_eq!(read, ["/bin/berth", "--", "berth", "--address", "x", "job", "st"].map(OsString::from));
        let args = ["/bin/berth", "--", "berth", "job", "run", "-de"].map(OsString::from).to_vec();
        assert_eq!(with_two_dashes(args).last(), Some(&"--de".into()));
        assert_eq!(with_two_dashes(vec!["/bin/berth".into()]), ["/bin/berth"]);
    }
}
