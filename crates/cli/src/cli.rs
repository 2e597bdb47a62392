//! The command line: nouns, and the verbs that go with them.

use clap::{Parser, Subcommand};

use crate::{
    commands::{
        acl, agent, alloc, completion, deployment, dev, eval, event, explain, image, import, job, lab, login,
        man, monitor, namespace, node, operator, quota, server, short, system, top, var, version,
    },
    failure::{EXIT_CODES, Failure},
    global::Global,
};

/// Runs jobs of processes and containers, on one machine or on many.
///
/// Long flags may be written with one dash: `-detach` is `--detach`.
#[derive(Debug, Parser)]
#[command(name = "berth", version, arg_required_else_help = true, max_term_width = 100, after_long_help = exit_codes())]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    noun: BerthCommand,
}

#[derive(Debug, Subcommand)]
enum BerthCommand {
    /// Run a server and an agent in one process, for trying things out
    Dev(dev::DevCommand),
    /// Run a server, or look at those that run
    Server(server::ServerCommand),
    /// Run an agent: it makes this machine a node
    Agent(agent::AgentCommand),
    /// Run a container or a command, without a job file
    Run(short::run::RunArgs),
    /// List what runs
    Ps(short::ps::PsArgs),
    /// Show which allocations use most cpu and memory
    Top(top::TopArgs),
    /// Print what a job or an allocation prints
    Logs(short::logs::LogsArgs),
    /// Run a command within a task of a job or an allocation
    Exec(short::exec::ExecArgs),
    /// Run, watch and stop jobs
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Look at single allocations of a job, and read their logs
    #[command(subcommand)]
    Alloc(alloc::AllocCommand),
    /// Look at the machines
    #[command(subcommand)]
    Node(node::NodeCommand),
    /// Look at the images that nodes have; pull, load and remove them
    #[command(subcommand)]
    Image(image::ImageCommand),
    /// Divide the cluster among tenants
    #[command(subcommand)]
    Namespace(namespace::NamespaceCommand),
    /// Guarantee and limit what tenants hold
    #[command(subcommand)]
    Quota(quota::QuotaCommand),
    /// Say who may do what: policies, roles, tokens
    #[command(subcommand)]
    Acl(acl::AclCommand),
    /// Keep small secrets, encrypted: write, read, list, delete
    #[command(subcommand)]
    Var(var::VarCommand),
    /// Store a token for a server, so that commands need not be given it
    Login(login::LoginArgs),
    /// Delete the token that is stored for a server
    Logout(login::LogoutArgs),
    /// Watch new versions of jobs take the place of the ones before
    #[command(subcommand)]
    Deployment(deployment::DeploymentCommand),
    /// Look at evaluations: why something was placed, or was not
    #[command(subcommand)]
    Eval(eval::EvalCommand),
    /// Explain why a job waits, and what would place it
    Explain(explain::ExplainArgs),
    /// Follow what happens
    #[command(subcommand)]
    Event(event::EventCommand),
    /// Follow the log of a server
    Monitor(monitor::MonitorArgs),
    /// Look after the servers
    #[command(subcommand)]
    Operator(operator::OperatorCommand),
    /// Tidy up
    #[command(subcommand)]
    System(system::SystemCommand),
    /// Measure: experiments on simulated nodes
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// Take over the jobs of a running Nomad
    Import(import::ImportArgs),
    /// Print the lines with which a shell completes what is typed
    Completion(completion::CompletionArgs),
    /// Write manual pages
    Man(man::ManArgs),
    /// Print the version
    Version,
}

/// The codes that scripts can rely on.
fn exit_codes() -> String {
    let codes = EXIT_CODES.iter().map(|(code, meaning)| format!("\n  {code:<3}  {meaning}"));
    format!(
        "Exit codes:{}\n  `run -wait` ends with the task's own, `exec` with the command's.",
        codes.collect::<String>()
    )
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> Result<(), Failure> {
        if matches!(self.noun, BerthCommand::Dev(_) | BerthCommand::Agent(_)) {
            self.global.refuse()?;
        }
        match self.noun {
            BerthCommand::Dev(args) => args.run(),
            BerthCommand::Server(command) => command.run(&self.global),
            BerthCommand::Agent(command) => command.run(),
            BerthCommand::Run(run) => run.run(&self.global),
            BerthCommand::Ps(ps) => ps.run(&self.global),
            BerthCommand::Top(top) => top.run(&self.global),
            BerthCommand::Logs(logs) => logs.run(&self.global),
            BerthCommand::Exec(exec) => exec.run(&self.global),
            BerthCommand::Job(verb) => verb.run(&self.global),
            BerthCommand::Alloc(verb) => verb.run(&self.global),
            BerthCommand::Node(verb) => verb.run(&self.global),
            BerthCommand::Image(verb) => verb.run(&self.global),
            BerthCommand::Namespace(verb) => verb.run(&self.global),
            BerthCommand::Quota(verb) => verb.run(&self.global),
            BerthCommand::Acl(verb) => verb.run(&self.global),
            BerthCommand::Var(verb) => verb.run(&self.global),
            BerthCommand::Deployment(verb) => verb.run(&self.global),
            BerthCommand::Eval(verb) => verb.run(&self.global),
            BerthCommand::Explain(explain) => explain.run(&self.global),
            BerthCommand::Event(verb) => verb.run(&self.global),
            BerthCommand::Monitor(monitor) => monitor.run(&self.global),
            BerthCommand::Operator(verb) => verb.run(&self.global),
            BerthCommand::System(verb) => verb.run(&self.global),
            BerthCommand::Lab(verb) => verb.run(&self.global),
            BerthCommand::Import(import) => import.run(&self.global),
            BerthCommand::Completion(completion) => completion.run(),
            BerthCommand::Login(login) => login.run(&self.global),
            BerthCommand::Logout(logout) => logout.run(&self.global),
            BerthCommand::Man(man) => man.run(),
            BerthCommand::Version => version::run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::{Command, CommandFactory};
    use expect_test::expect;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    /// Words of a help text that tell meanings apart.
    const MEANING_WORDS: usize = 2;

    /// Short flags that mean different things in different commands, and why.
    const SEVERAL_MEANINGS: &[(char, &str)] = &[
        ('H', "Nomad's, of `alloc fs` and of `operator api`"),
        ('e', "Nomad's of `alloc exec`, and of `run` what everybody knows from other runtimes of containers"),
        (
            'p',
            "Nomad's of `job history`, and of `run` what everybody knows from other runtimes of containers",
        ),
        ('t', "Nomad's, of `alloc exec` and of its commands that list and show"),
    ];

    /// What the short flags that help shows mean: by letter and meaning, the commands.
    fn meanings(command: &Command, path: &str, found: &mut BTreeMap<char, BTreeMap<String, Vec<String>>>) {
        for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let meaning = help.split(' ').take(MEANING_WORDS).collect::<Vec<_>>().join(" ");
            if let Some(short) = arg.get_short() {
                found.entry(short).or_default().entry(meaning).or_default().push(path.to_owned());
            }
        }
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            meanings(below, format!("{path} {}", below.get_name()).trim_start(), found);
        }
    }

    #[test]
    fn a_short_flag_has_one_meaning() {
        let mut found = BTreeMap::new();
        meanings(&Cli::command(), "", &mut found);
        let several = found.iter().filter(|(_, meanings)| meanings.len() > 1);
        let several: Vec<_> = several.map(|(short, meanings)| (*short, meanings)).collect();
        let letters: Vec<char> = several.iter().map(|(short, _)| *short).collect();
        let known: Vec<char> = SEVERAL_MEANINGS.iter().map(|(short, _)| *short).collect();
        assert_eq!(letters, known, "name the reason, or leave the letter out: {several:#?}");
        let all: Vec<String> = found
            .iter()
            .map(|(short, meanings)| {
                let meanings: Vec<_> = meanings
                    .iter()
                    .map(|(meaning, commands)| match &commands[..] {
                        [command] => format!("{meaning} ({command})"),
                        commands => format!("{meaning} ({} commands)", commands.len()),
                    })
                    .collect();
                format!("-{short}: {}\n", meanings.join("; "))
            })
            .collect();
        expect![[r#"
            -H: Header, replacing (operator api); Print sizes (alloc fs)
            -X: Method; defaults (operator api)
            -a: Include ended (ps)
            -c: Start with (3 commands)
            -d: Body; `@FILE` (operator api)
            -e: Environment variable; (run); Escape character: (2 commands)
            -f: Follow the (3 commands)
            -i: Pass standard (2 commands)
            -m: Description (node drain)
            -n: Start with (3 commands)
            -o: Output format (55 commands)
            -p: Publish a (run); Show what (job history)
            -s: Signal, e.g. (alloc signal)
            -t: Allocate a (2 commands); Format each (52 commands)
            -y: Do not (18 commands)
        "#]]
        .assert_eq(&all.concat());
    }
}
