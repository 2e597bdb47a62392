//! `berth lab run`: an experiment. Its flags derive from its table of parameters.

use std::{collections::BTreeMap, path::PathBuf};

use berth_lab::run::{
    EXAMPLES, EXPERIMENTS, Experiment, Options, Param, ParamKind, RunError, Scale, find, run,
};
use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, builder::BoolishValueParser,
    parser::ValueSource, value_parser,
};

use super::target;
use crate::{
    daemon,
    failure::{Exit, Failure},
    global::Global,
    output,
};

/// Where help lists what is common to all experiments.
const HEADING: &str = "Every experiment";

/// An experiment, and what it is given.
#[derive(Debug, Clone)]
pub struct LabRunArgs {
    experiment: &'static Experiment,
    common: CommonArgs,
    /// The values of its own parameters, by flag.
    given: BTreeMap<String, String>,
}

/// What is common to all experiments.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = HEADING)]
struct CommonArgs {
    /// Directory of the result, the trace and the report
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Data directory of the server, on a disk; defaults to one below --out
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Scale: small takes seconds, full is that of the published figures
    #[arg(long, default_value = "full", value_parser = Scale::NAMES.map(|(name, _)| name))]
    scale: String,
    /// Number of runs; defaults to 3, and to 1 at the small scale
    #[arg(long, value_name = "COUNT", value_parser = value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Seed of everything random
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// Measure a running server with its nodes: Berth, or any that speaks Nomad's API
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// ACL token for the target
    #[arg(long, env = "NOMAD_TOKEN", hide_env_values = true, default_value = "")]
    token: String,
    /// Connections on which jobs are submitted, one request at a time on each
    #[arg(long, value_name = "COUNT", default_value_t = 32, value_parser = value_parser!(u32).range(1..=4096))]
    connections: u32,
    /// Add a profile of the server to the report
    #[arg(long)]
    profile: bool,
}

impl LabRunArgs {
    /// Runs it, and prints the figures.
    pub fn run(self, global: &Global) -> Result<(), Failure> {
        daemon::raise_open_files();
        let scale = Scale::NAMES.into_iter().find(|(name, _)| *name == self.common.scale);
        let token = self.common.token.clone();
        let target = self.common.target.as_deref().map(|url| target(url, token, global));
        let options = Options {
            out: self.common.out.clone(),
            data: self.common.data,
            scale: scale.map_or(Scale::Full, |(_, scale)| scale),
            runs: self.common.runs,
            seed: self.common.seed,
            target: target.transpose()?,
            connections: self.common.connections,
            profile: self.common.profile,
            berth: std::env::current_exe()?,
        };
        let result = run(self.experiment, &options, &self.given).map_err(|error| failure(&error))?;
        let page = self.common.out.join("report.html");
        output::print(&format!("{result}\nreport: {}\n", page.display()))?;
        match result.failures.len() {
            0 => Ok(()),
            count => {
                Err(Failure::new(Exit::Failed, format!("the run has failed in {count} ways, see above")))
            }
        }
    }
}

fn failure(error: &RunError) -> Failure {
    let exit = if matches!(error, RunError::Param(_)) { Exit::Usage } else { Exit::Failed };
    Failure::new(exit, error.to_string())
}

impl Args for LabRunArgs {
    fn augment_args(command: Command) -> Command {
        let experiments = EXPERIMENTS.iter().map(|experiment| {
            let own = experiment.params.iter().map(arg);
            // What is common has words of its own, which must not stand for those of the experiment.
            let command = Command::new(experiment.name).args(own);
            with_examples(CommonArgs::augment_args(command).about(experiment.about), experiment)
        });
        command.subcommand_required(true).arg_required_else_help(true).subcommands(experiments)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LabRunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let found = matches.subcommand().and_then(|(name, matches)| Some((find(name)?, matches)));
        let (experiment, matches) =
            found.ok_or_else(|| clap::Error::new(clap::error::ErrorKind::MissingSubcommand))?;
        let given = experiment
            .params
            .iter()
            .filter_map(|param| Some((param.name.to_owned(), value(param, matches)?)));
        Ok(Self { experiment, common: CommonArgs::from_arg_matches(matches)?, given: given.collect() })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn with_examples(command: Command, experiment: &Experiment) -> Command {
    match EXAMPLES.iter().find(|(name, _)| *name == experiment.name) {
        Some((_, examples)) => command.after_help(format!("Examples:\n  {}", examples.join("\n  "))),
        None => command,
    }
}

fn arg(param: &Param) -> Arg {
    let arg = Arg::new(param.name).long(param.name).help(help(param));
    match param.kind {
        ParamKind::Count { .. } => arg.value_name("COUNT"),
        ParamKind::Text(value_name) => arg.value_name(value_name),
        ParamKind::Choice(words) => arg.value_parser(words.to_vec()),
        ParamKind::Switch => arg
            .action(ArgAction::Set)
            .value_name("BOOL")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(BoolishValueParser::new()),
    }
}

/// The defaults are set here and not in clap, as they depend on the scale.
fn help(param: &Param) -> String {
    let [small, medium, full] = param.defaults;
    match param.kind {
        ParamKind::Switch => param.about.to_owned(),
        _ if full.is_empty() => param.about.to_owned(),
        _ if small == full && medium == full => format!("{} [default: {full}]", param.about),
        _ => format!("{} [default: {full}; medium {medium}, small {small}]", param.about),
    }
}

fn value(param: &Param, matches: &ArgMatches) -> Option<String> {
    matches.value_source(param.name).filter(|source| *source != ValueSource::DefaultValue)?;
    match param.kind {
        ParamKind::Switch => matches.get_one::<bool>(param.name).map(bool::to_string),
        _ => matches.get_one::<String>(param.name).cloned(),
    }
}
