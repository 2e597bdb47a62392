//! The reference page of commands: a section for each, in the order of help.

use clap::{Arg, Command, CommandFactory, builder::StyledStr};

use super::{header, row};
use crate::cli::Cli;

/// The sections of all commands, and first the options that all of them share.
pub(super) fn all() -> String {
    let mut root = Cli::command().term_width(1_000);
    root.build();
    let shared = table(root.get_arguments().filter(|arg| arg.is_global_set()), &["option", "meaning"]);
    let mut sections = vec![format!("## Options of every command that talks to a server\n\n{shared}")];
    root.get_subcommands().filter(|noun| noun.get_name() != "help").for_each(|noun| add(noun, &mut sections));
    sections.join("\n")
}

/// The section of a command, unless it is no more than a name for those below it; and theirs.
fn add(command: &Command, sections: &mut Vec<String>) {
    if command.is_hide_set() {
        return;
    }
    if !command.is_subcommand_required_set() {
        sections.push(section(command));
    }
    command.get_subcommands().filter(|verb| verb.get_name() != "help").for_each(|verb| add(verb, sections));
}

fn section(command: &Command) -> String {
    let name = command.get_bin_name().unwrap_or_default();
    let about =
        command.get_long_about().or(command.get_about()).map(StyledStr::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let positionals = table(command.get_positionals(), &["argument", "meaning"]);
    let own = |arg: &&Arg| !arg.is_global_set() && !arg.is_positional() && arg.get_id() != "help";
    let options = table(command.get_arguments().filter(own), &["option", "meaning"]);
    let parts = [format!("## {name}\n\n{about}\n\n```text\n{usage}\n```\n"), positionals, options];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

/// A table of arguments; empty when there are none.
fn table<'a>(args: impl Iterator<Item = &'a Arg>, names: &[&str]) -> String {
    let rows: String =
        args.filter(|arg| !arg.is_hide_set()).map(|arg| row(&[&written(arg), &meaning(arg)])).collect();
    if rows.is_empty() { rows } else { header(names) + &rows }
}

/// How it is written on a command line.
fn written(arg: &Arg) -> String {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let short = arg.get_short().map(|short| format!("-{short}"));
    let flags: Vec<_> = short.into_iter().chain(long).collect();
    let takes_value = arg.get_action().takes_values();
    let value =
        arg.get_value_names().map(|names| names.join(" ")).filter(|_| takes_value).unwrap_or_default();
    format!("`{}`", format!("{} {value}", flags.join(", ")).trim())
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_long_help().or(arg.get_help()).map(StyledStr::to_string).unwrap_or_default();
    let possible: Vec<_> =
        arg.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let is_switch = possible == ["`true`", "`false`"] || !arg.get_action().takes_values();
    let possible = if possible.is_empty() || is_switch {
        String::new()
    } else {
        format!("; one of {}", possible.join(", "))
    };
    let defaults: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    let is_silent = is_switch || defaults.iter().all(String::is_empty) || arg.is_hide_default_value_set();
    let default = if is_silent { String::new() } else { format!(" [default: {}]", defaults.join(", ")) };
    format!("{help}{possible}{default}")
}
