//! Rewrites arguments before they are parsed. Long flags with one dash, as Nomad's users write them: `-detach` becomes `--detach`. And
//! switches whose value follows as a word of its own: `--raw-exec true` becomes `--raw-exec=true`.

use std::{collections::BTreeSet, ffi::OsString};

use clap::{Arg, Command};

use crate::output::nearest;

/// A word of more letters after one dash is a misspelt long flag rather than a cluster of short ones.
const CLUSTER_CHARS_MAX: usize = 3;
/// What may follow a switch as its value; any other word is the next argument.
const SWITCH_VALUES: &[&str] = &["true", "false", "yes", "no", "on", "off"];

/// The command line with each long flag behind two dashes. What stands behind `--` is left alone, and so is what a
/// command passes on to others.
pub fn normalize(args: impl IntoIterator<Item = OsString>, command: &Command) -> Vec<OsString> {
    let long_flags = long_flags(command);
    let mut walk =
        ArgScanner { root: command, command, long_flags, is_value: false, is_switch: false, is_over: false };
    let mut args = args.into_iter();
    let mut normalized: Vec<OsString> = args.next().into_iter().collect();
    for arg in args {
        let is_switch = std::mem::take(&mut walk.is_switch);
        match normalized.last_mut() {
            Some(switch) if is_switch && SWITCH_VALUES.iter().any(|value| arg == *value) => {
                switch.push("=");
                switch.push(arg);
            }
            _ => normalized.push(walk.step(arg)),
        }
    }
    normalized
}

/// The position in a command line.
struct ArgScanner<'a> {
    /// Its flags may stand anywhere.
    root: &'a Command,
    command: &'a Command,
    long_flags: BTreeSet<String>,
    /// The next word is the value of the flag before it.
    is_value: bool,
    /// The word before was a switch, which may have its value behind it.
    is_switch: bool,
    /// No flags follow.
    is_over: bool,
}

impl<'a> ArgScanner<'a> {
    fn step(&mut self, arg: OsString) -> OsString {
        if self.is_over || std::mem::take(&mut self.is_value) {
            return arg;
        }
        let is_long = is_long(&arg, &self.long_flags) || self.is_unknown_long(&arg);
        let arg = if is_long { prefixed(&arg) } else { arg };
        match arg.to_str() {
            Some("--") => self.is_over = true,
            Some(flag) if flag.starts_with('-') && flag.len() > 1 => {
                let found = self.find(flag);
                self.is_value =
                    found.is_some_and(|arg| arg.get_action().takes_values() && !arg.is_require_equals_set());
                self.is_switch = found.is_some_and(is_switch);
            }
            Some(word) => match self.command.find_subcommand(word) {
                Some(below) => self.command = below,
                None => self.is_over = passes_on(self.command),
            },
            None => {}
        }
        arg
    }

    /// Whether it is `-name` that can be no cluster of short flags: none begins with its first letter. The parser then names
    /// all of it.
    fn is_unknown_long(&self, arg: &OsString) -> bool {
        let Some(name) = arg.to_str().and_then(|arg| arg.strip_prefix('-')) else { return false };
        let mut letters = name.chars().take_while(|letter| *letter != '=');
        let Some(first) = letters.next().filter(char::is_ascii_alphabetic) else { return false };
        let flags = self.command.get_arguments().chain(self.root.get_arguments());
        let is_short = first == 'h' || flags.flat_map(shorts).any(|short| short == first);
        !is_short && letters.next().is_some()
    }

    /// The flag of that name.
    fn find(&self, flag: &str) -> Option<&'a Arg> {
        let short = flag.chars().nth(1).filter(|_| flag.chars().count() == 2);
        let is_it = |arg: &&Arg| match flag.strip_prefix("--") {
            Some(long) => arg.get_long() == Some(long),
            None => short.is_some_and(|short| shorts(arg).contains(&short)),
        };
        self.command.get_arguments().chain(self.root.get_arguments()).find(is_it)
    }
}

/// The letters of a flag, those that help does not show included.
fn shorts(arg: &Arg) -> Vec<char> {
    arg.get_short().into_iter().chain(arg.get_all_short_aliases().unwrap_or_default()).collect()
}

/// Whether it is on without a value, and off with one.
fn is_switch(arg: &Arg) -> bool {
    let is_bool = |names: &[clap::builder::Str]| names.iter().any(|name| name == "BOOL");
    arg.is_require_equals_set() && arg.get_value_names().is_some_and(is_bool)
}

/// Whether the command passes on all that follows its first word.
fn passes_on(command: &Command) -> bool {
    command.get_positionals().any(Arg::is_trailing_var_arg_set)
}

fn prefixed(arg: &OsString) -> OsString {
    let mut two_dashes = OsString::from("-");
    two_dashes.push(arg);
    two_dashes
}

/// Whether it is `-name` or `-name=value`, of a flag that is known or almost so; then the parser can say which one is
/// meant. A cluster of short flags never has such a name.
fn is_long(arg: &OsString, long_flags: &BTreeSet<String>) -> bool {
    let Some(name) = arg.to_str().and_then(|arg| arg.strip_prefix('-')) else { return false };
    let name = name.split_once('=').map_or(name, |(name, _)| name);
    let misspelt =
        || name.len() > CLUSTER_CHARS_MAX && nearest(name, long_flags.iter().map(String::as_str)).is_some();
    !name.starts_with('-') && name.len() > 1 && (long_flags.contains(name) || misspelt())
}

/// The names of all long flags of a command and of those below it.
fn long_flags(command: &Command) -> BTreeSet<String> {
    let own = command.get_arguments().filter_map(|arg| arg.get_long()).map(str::to_owned);
    let below = command.get_subcommands().flat_map(long_flags);
    own.chain(below).chain(["help", "version"].map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::Cli;

    fn check(line: &str, expected: &str) {
        let args = line.split(' ').map(OsString::from);
        let normalized = normalize(args, &Cli::command()).join(&OsString::from(" "));
        assert_eq!(normalized, OsString::from(expected));
    }

    #[test]
    fn one_dash_is_enough_for_a_long_flag() {
        check("berth job run -detach web.hcl", "berth job run --detach web.hcl");
        check("berth job run -check-index=4 web.hcl", "berth job run --check-index=4 web.hcl");
        check("berth -address x job status -help", "berth --address x job status --help");
        check("berth job run -detahc web.hcl", "berth job run --detahc web.hcl");
        check("berth job run -bogus web.hcl", "berth job run --bogus web.hcl");
        check("berth agent -dev", "berth agent --dev");
        check("berth job scale web -12", "berth job scale web -12");
    }

    #[test]
    fn the_rest_is_left_alone() {
        check("berth alloc logs -f -n 5 -5 -", "berth alloc logs -f -n 5 -5 -");
        check("berth alloc logs -fn5 --tail", "berth alloc logs -fn5 --tail");
        check("berth job run -- -detach", "berth job run -- -detach");
        check("berth run -exec -name x sh -detach", "berth run --exec --name x sh -detach");
        check("berth ps -t -all", "berth ps -t -all");
        check("berth run -p 80:80 -name x nginx", "berth run -p 80:80 --name x nginx");
    }

    #[test]
    fn a_switch_may_have_its_value_behind_a_space() {
        check("berth agent --raw-exec true --data-dir x", "berth agent --raw-exec=true --data-dir x");
        check("berth dev -containers off", "berth dev --containers=off");
        check("berth dev --raw-exec=false true", "berth dev --raw-exec=false true");
        check("berth dev --raw-exec --data-dir true", "berth dev --raw-exec --data-dir true");
        check("berth job stop -purge true", "berth job stop --purge true");
    }

    #[test]
    fn no_long_flag_reads_like_a_cluster_of_short_ones() {
        fn visit(command: &Command, all: &BTreeSet<String>) {
            let shorts: String = command.get_arguments().flat_map(shorts).collect();
            for name in all {
                let first_is_short = name.chars().all(|c| shorts.contains(c));
                assert!(!first_is_short, "-{name} of `{}`", command.get_name());
            }
            command.get_subcommands().for_each(|below| visit(below, all));
        }
        visit(&Cli::command(), &long_flags(&Cli::command()));
    }
}
