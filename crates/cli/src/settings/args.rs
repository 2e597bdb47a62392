//! The table of settings as a command's flags and environment variables.

use std::{collections::BTreeMap, path::PathBuf};

use clap::{
    Arg, ArgMatches, Args, Command, FromArgMatches, builder::BoolishValueParser, parser::ValueSource,
};

use super::{
    Role, Settings, load,
    table::{self, Setting, ValueForm},
};
use crate::failure::Failure;

/// Settings of `berth dev`.
pub type DevArgs = SettingArgs<true, true>;
/// Settings of `berth server`.
pub type ServerArgs = SettingArgs<true, false>;
/// Settings of `berth agent`.
pub type AgentArgs = SettingArgs<false, true>;

/// The flags and variables of a command that runs a server, an agent or both.
#[derive(Debug, Clone)]
pub struct SettingArgs<const SERVER: bool, const AGENT: bool> {
    /// The file that holds more settings.
    config: Option<PathBuf>,
    /// Values from flags and variables, by the setting's name.
    given: BTreeMap<&'static str, FromArgs>,
}

/// The values of one setting from a flag or a variable.
#[derive(Debug, Clone)]
pub(super) struct FromArgs {
    /// Whether they are from the variable, not the flag.
    pub by_variable: bool,
    /// The value, or the values.
    pub values: Vec<String>,
}

impl<const SERVER: bool, const AGENT: bool> SettingArgs<SERVER, AGENT> {
    const ROLE: Role = match (SERVER, AGENT) {
        (true, true) => Role::Dev,
        (true, false) => Role::Server,
        (false, _) => Role::Agent,
    };

    /// Overlays these on the file and the defaults.
    pub fn load(&self) -> Result<Settings, Failure> {
        load::load(Self::ROLE, self.config.as_deref(), &self.given)
    }
}

impl<const SERVER: bool, const AGENT: bool> Args for SettingArgs<SERVER, AGENT> {
    fn augment_args(command: Command) -> Command {
        command.arg(config_arg()).args(table::of(Self::ROLE).map(|setting| arg(setting, Self::ROLE)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<const SERVER: bool, const AGENT: bool> FromArgMatches for SettingArgs<SERVER, AGENT> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given =
            table::of(Self::ROLE).filter_map(|setting| Some((setting.name, from_args(setting, matches)?)));
        Ok(Self { config: matches.get_one::<PathBuf>("config").cloned(), given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn from_args(setting: &Setting, matches: &ArgMatches) -> Option<FromArgs> {
    let source = matches.value_source(setting.name).filter(|source| *source != ValueSource::DefaultValue)?;
    let values = match setting.form {
        ValueForm::Switch => vec![matches.get_one::<bool>(setting.name)?.to_string()],
        _ => matches.get_many::<String>(setting.name)?.cloned().collect(),
    };
    Some(FromArgs { by_variable: source == ValueSource::EnvVariable, values })
}

fn config_arg() -> Arg {
    Arg::new("config")
        .long("config")
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .env("BERTH_CONFIG")
        .hide_env_values(true)
        .help("A TOML file with more settings, under the names of these flags")
}

fn arg(setting: &Setting, role: Role) -> Arg {
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .env(setting.variable())
        .hide_env_values(true)
        .help(help(setting, role));
    match setting.form {
        ValueForm::One(value_name) => arg.value_name(value_name),
        ValueForm::List(value_name) => {
            arg.value_name(value_name).value_delimiter(',').action(clap::ArgAction::Append)
        }
        ValueForm::Map => arg.value_name("KEY=VALUE").value_delimiter(',').action(clap::ArgAction::Append),
        ValueForm::Switch => arg
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(BoolishValueParser::new()),
    }
}

/// The default is set here and not in clap, which could not distinguish it from a value in the file.
fn help(setting: &Setting, role: Role) -> String {
    match (setting.default)(role) {
        "" => setting.help.to_owned(),
        default => format!("{} [default: {default}]", setting.help),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_given_with_commas_or_several_times() {
        let command = ServerArgs::augment_args(Command::new("server"));
        let words = ["server", "--join", "a:1,b:2", "--join", "c:3"];
        let matches = command.try_get_matches_from(words).expect("it is a command line");
        let args = ServerArgs::from_arg_matches(&matches).expect("it has settings");
        assert_eq!(args.given["join"].values, ["a:1", "b:2", "c:3"]);
    }
}
