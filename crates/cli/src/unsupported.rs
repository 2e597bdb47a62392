//! Nomad's commands and flags that Berth does not have: their errors say what to use instead.

mod commands;
mod flags;
#[cfg(test)]
mod tests;

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use self::{
    commands::{ABSENT, OTHERS_WORDS},
    flags::ABSENT_FLAGS,
};
use crate::{
    failure::{Exit, Failure},
    output,
};

/// The error for a flag that the parser refused, where Nomad's command has it.
fn explain_flag(error: &clap::Error, args: &[String], root: &Command) -> Option<Failure> {
    // One dash and several letters may also read as a short flag with its value: `-os` as `-o s`.
    if !matches!(error.kind(), ErrorKind::UnknownArgument | ErrorKind::InvalidValue) {
        return None;
    }
    let mut command = root;
    let mut words = Vec::new();
    for arg in args.iter().skip(1) {
        if let Some(below) = command.find_subcommand(arg) {
            words.push(below.get_name());
            command = below;
        }
    }
    let path = words.join(" ");
    let given = args.iter().filter_map(|arg| arg.strip_prefix('-'));
    let given = given.filter_map(|arg| arg.strip_prefix('-').unwrap_or(arg).split('=').next());
    let is_it = |flag: &str, name: &str| match flag.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == flag,
    };
    let is_one = |flags: &str, name: &str| flags.split(' ').any(|flag| is_it(flag, name));
    let find = |command: &str| {
        let flags = || ABSENT_FLAGS.iter().filter(|(of, ..)| *of == command);
        given.clone().find_map(|name| {
            flags().find(|(_, flags, _)| is_one(flags, name)).map(|(of, _, instead)| (of, name, instead))
        })
    };
    let (of, flag, instead) = find(&path).or_else(|| find(""))?;
    let message = match *of {
        "" => format!("`-{flag}` is a flag of Nomad, not of Berth"),
        of => format!("`-{flag}` is a flag of Nomad's `{of}`, not of Berth's"),
    };
    Some(Failure::new(Exit::Usage, message).help(*instead))
}

/// The error for a command line that the parser refused; none where the parser's is as good.
pub fn explain(error: &clap::Error, args: &[String], root: &Command) -> Option<Failure> {
    let unknown = match error.kind() {
        ErrorKind::InvalidSubcommand => ContextKind::InvalidSubcommand,
        // A word after a command that has none below it may be one of Nomad's.
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => return explain_flag(error, args, root),
    };
    explain_flag(error, args, root).or_else(|| explain_command(error.get(unknown)?, args, root))
}

fn explain_command(unknown: &ContextValue, args: &[String], root: &Command) -> Option<Failure> {
    let ContextValue::String(word) = unknown else { return None };
    let path = path(args, word, root)?;
    if let Some((_, here)) = OTHERS_WORDS.iter().find(|(words, _)| *words == path) {
        let message = format!("there is no `berth {path}`");
        return Some(Failure::new(Exit::Usage, message).help(format!("use `{here}`")));
    }
    let Some((name, instead)) = ABSENT.iter().find(|(name, _)| *name == path) else {
        return explain_verb(&path, root);
    };
    let failure = Failure::new(Exit::Usage, format!("`{name}` is a command of Nomad, not of Berth"));
    Some(match *instead {
        command if command.starts_with("berth ") => failure.help(format!("use `{command}`")),
        other => failure.help(other),
    })
}

/// The error for a word that is only a subcommand of others, as `promote` of `job`.
fn explain_verb(word: &str, root: &Command) -> Option<Failure> {
    let has =
        |group: &&Command| group.get_subcommands().any(|verb| verb.get_name() == word && !verb.is_hide_set());
    let groups = root.get_subcommands().filter(|group| !group.is_hide_set()).filter(has);
    let uses: Vec<String> = groups.map(|group| format!("`berth {} {word}`", group.get_name())).collect();
    let message = format!("there is no `berth {}`", output::clean(word));
    (!uses.is_empty()).then(|| Failure::new(Exit::Usage, message).help(format!("use {}", uses.join(" or "))))
}

/// The words of commands up to the one that nobody knows.
fn path(args: &[String], unknown: &str, root: &Command) -> Option<String> {
    let end = args.iter().skip(1).position(|arg| arg == unknown)?;
    let (mut command, mut path) = (root, Vec::new());
    for arg in args.iter().skip(1).take(end) {
        if let Some(below) = command.find_subcommand(arg) {
            path.push(arg.as_str());
            command = below;
        }
    }
    path.push(unknown);
    Some(path.join(" "))
}
