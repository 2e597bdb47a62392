//! Nomad's commands that have another name or place here: typed as Nomad has them, they do the same.

use std::ffi::OsString;

use clap::{Arg, Command};

/// Nomad's words, and Berth's. The longest that fits counts.
const ALIASES: &[(&str, &str)] = &[
    ("alloc-status", "alloc status"),
    ("debug", "operator debug"),
    ("eval-status", "eval status"),
    ("fmt", "job fmt"),
    ("fs", "alloc fs"),
    ("init", "job init"),
    ("inspect", "job inspect"),
    ("job allocs", "ps --all"),
    ("namespace inspect", "namespace status --json"),
    ("node-drain", "node drain"),
    ("node-status", "node status"),
    ("operator autopilot health", "server members"),
    ("operator keyring", "operator root keyring"),
    ("operator raft list-peers", "server members"),
    ("operator snapshot state", "operator snapshot inspect"),
    ("plan", "job plan"),
    ("quota inspect", "quota status --json"),
    ("server-join", "server join"),
    ("server-members", "server members"),
    ("start", "job start"),
    ("status", "job status --any"),
    ("stop", "job stop"),
    ("validate", "job validate"),
];

/// Words of the longest of them.
const WORDS_MAX: usize = 3;

/// The commands of a command line, with those that Nomad has under a word of their own: what a shell completes.
pub fn with_aliases(root: Command) -> Command {
    let single = ALIASES.iter().filter(|(from, _)| !from.contains(' '));
    let known: Vec<Command> = single
        .filter(|(from, _)| root.find_subcommand(from).is_none())
        .filter_map(|(from, to)| Some(subcommand(&root, to)?.clone().name(*from)))
        .collect();
    root.subcommands(known)
}

/// The command that some words name; flags among them are left out.
fn subcommand<'a>(root: &'a Command, words: &str) -> Option<&'a Command> {
    let mut words = words.split(' ').filter(|word| !word.starts_with('-'));
    words.try_fold(root, |command, word| command.find_subcommand(word))
}

/// The command line with Berth's words for Nomad's.
pub fn expand(args: Vec<OsString>, root: &Command) -> Vec<OsString> {
    let words = words(&args, root);
    let fits = |(from, _): &&(&str, &str)| {
        let mut from = from.split(' ');
        words.iter().map(|(_, word)| *word).by_ref().take(from.clone().count()).eq(from.by_ref())
    };
    let Some((from, to)) = ALIASES.iter().filter(fits).max_by_key(|(from, _)| from.len()) else {
        return args;
    };
    let replaced: Vec<usize> = words.iter().map(|(at, _)| *at).take(from.split(' ').count()).collect();
    let to: Vec<OsString> = to.split(' ').map(OsString::from).collect();
    let first = replaced.first().copied();
    let mut expanded = Vec::with_capacity(args.len() + to.len());
    for (at, arg) in args.iter().enumerate() {
        if Some(at) == first {
            expanded.extend(to.iter().cloned());
        } else if !replaced.contains(&at) {
            expanded.push(arg.clone());
        }
    }
    expanded
}

/// The first words that are neither flags nor their values, with where they stand.
fn words<'a>(args: &'a [OsString], root: &Command) -> Vec<(usize, &'a str)> {
    let (mut words, mut is_value) = (Vec::new(), false);
    for (at, arg) in args.iter().enumerate().skip(1) {
        let Some(text) = arg.to_str().filter(|_| words.len() < WORDS_MAX) else { break };
        if std::mem::take(&mut is_value) {
            continue;
        }
        match text.strip_prefix('-') {
            Some(flag) => is_value = takes_a_value(flag, root),
            None => words.push((at, text)),
        }
    }
    words
}

/// Whether the word after a flag that stands before all commands is its value; `flag` is without its first dash.
fn takes_a_value(flag: &str, root: &Command) -> bool {
    let name = flag.strip_prefix('-').unwrap_or(flag);
    let is_it =
        |arg: &&Arg| arg.get_long() == Some(name) || arg.get_short().is_some_and(|c| name == c.to_string());
    root.get_arguments().find(is_it).is_some_and(|arg| arg.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn check(line: &str, expected: &str) {
        let args = line.split(' ').map(OsString::from).collect();
        let expanded = expand(args, &Cli::command()).join(&OsString::from(" "));
        assert_eq!(expanded, OsString::from(expected));
    }

    #[test]
    fn what_nomad_calls_otherwise_is_understood() {
        check("berth plan web.hcl", "berth job plan web.hcl");
        check(
            "berth -address x -namespace=ops stop -yes web",
            "berth -address x -namespace=ops job stop -yes web",
        );
        check("berth job allocs -json web", "berth ps --all -json web");
        check("berth operator -address x raft list-peers", "berth server members -address x");
        check("berth status", "berth job status --any");
    }

    #[test]
    fn the_rest_is_left_alone() {
        for line in [
            "berth",
            "berth job plan x",
            "berth job status plan",
            "berth -namespace plan job status",
            "berth logs stop",
        ] {
            check(line, line);
        }
    }

    #[test]
    fn what_is_completed_has_the_arguments_of_the_command_that_runs() {
        let root = with_aliases(Cli::command());
        for (alias, words) in [("status", "job status"), ("stop", "job stop"), ("node-drain", "node drain")] {
            let arguments = |command: &Command| {
                command.get_arguments().map(|arg| arg.get_id().to_string()).collect::<Vec<_>>()
            };
            let alias = root.find_subcommand(alias).expect("it is offered");
            assert_eq!(arguments(alias), arguments(subcommand(&root, words).expect("a command")), "{words}");
        }
    }

    #[test]
    fn each_leads_to_a_command_and_hides_none() {
        assert!(ALIASES.is_sorted());
        for (from, to) in ALIASES {
            let find = |words: &str| {
                let words = words.split(' ').filter(|word| !word.starts_with('-'));
                let mut command = Cli::command();
                for word in words {
                    command = command.find_subcommand(word)?.clone();
                }
                Some(command)
            };
            assert!(find(to).is_some(), "{from}: there is no `{to}`");
            assert!(find(from).is_none(), "{from} is a command of its own");
        }
    }
}
