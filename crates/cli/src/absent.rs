//! Commands of Nomad that are not there: what to use instead, or that they are not there yet. Whoever types what they have always
//! typed is told that, and not that there is no such word.

use clap::{
    Command,
    error::{ContextKind, ContextValue, ErrorKind},
};

use crate::failure::{Exit, Failure};

/// Commands by their words, with what to do instead; empty where there is nothing yet. Whoever makes one takes it out here.
const ABSENT: &[(&str, &str)] = &[
    ("acl auth-method", ""),
    ("acl binding-rule", ""),
    ("agent-info", "berth server members"),
    ("alloc pause", ""),
    ("config", "the flags of `berth server` and `berth agent` are checked when they start"),
    ("eval delete", "berth system gc"),
    ("fmt", "berth job fmt"),
    ("fs", "berth alloc fs"),
    ("init", "berth job init"),
    ("inspect", "berth job inspect"),
    ("job action", ""),
    ("job allocs", "berth job status"),
    ("license", "there is nothing to license"),
    ("monitor", "the log of a server or an agent is what it prints, as in `journalctl -u berth-server -f`"),
    ("node config", "the flag --servers of `berth agent`"),
    ("node identity", ""),
    ("node intro", "berth node token"),
    ("node meta", "the flag --meta of `berth agent`"),
    ("operator api", "curl with the server's address, as in `curl http://127.0.0.1:4646/v1/jobs`"),
    ("operator client-state", ""),
    ("operator gossip", "servers know each other by the log that they share: there is no gossip"),
    ("operator metrics", "`curl http://127.0.0.1:4646/v1/metrics`"),
    ("operator utilization", "berth top"),
    ("plan", "berth job plan"),
    ("plugin", ""),
    ("recommendation", ""),
    ("scaling", "berth job scale"),
    ("sentinel", ""),
    ("service", ""),
    ("setup", ""),
    ("status", "berth job status"),
    ("stop", "berth job stop"),
    ("tls", "berth server init"),
    ("ui", ""),
    ("validate", "berth job validate"),
    ("var lock", ""),
    ("volume", ""),
];

/// Flags of Nomad's commands that are not there: the command's words, the flag, and what to do instead.
const ABSENT_FLAGS: &[(&str, &str, &str)] = &[
    ("job deployments", "all", "all that are kept are listed, also those of earlier jobs with the id"),
    ("job dispatch", "priority", "a run has the priority of its job: change it there"),
    ("job dispatch", "ui", "there are no web pages"),
    (
        "job eval",
        "force-reschedule",
        "what failed is replaced at its time; `berth job restart -reschedule` replaces what runs",
    ),
    ("job history", "full", "`berth job inspect -version N` prints a version as a whole"),
    ("job plan", "vault-namespace", "write `vault_namespace = \"...\"` into the job file"),
    ("job restart", "no-shutdown-delay", "register the job with a shorter `shutdown_delay` first"),
    ("job restart", "verbose", "`berth alloc status -verbose` prints ids in full"),
    ("job run", "consul-namespace", "write `consul_namespace = \"...\"` into the job file"),
    ("job run", "consul-token", "servers have no use for a token of Consul's"),
    ("job run", "ui", "there are no web pages"),
    ("job run", "vault-namespace", "write `vault_namespace = \"...\"` into the job file"),
    ("job run", "vault-token", "servers have no use for a token of Vault's"),
    (
        "job scale",
        "check-index",
        "`berth job run -check-index` registers the job with another count on that condition",
    ),
    ("job status", "ui", "there are no web pages"),
    ("job stop", "eval-priority", "an evaluation has the priority of its job"),
    ("job stop", "global", "there is one region: leave it out"),
    ("job stop", "no-shutdown-delay", "register the job with a shorter `shutdown_delay` first"),
    ("job validate", "vault-namespace", "write `vault_namespace = \"...\"` into the job file"),
];

/// What to say of a flag that the parser refused, where Nomad's command has it.
fn explain_flag(args: &[String], root: &Command) -> Option<Failure> {
    let mut command = root;
    let mut words = Vec::new();
    for arg in args.iter().skip(1) {
        if let Some(below) = command.find_subcommand(arg) {
            words.push(below.get_name());
            command = below;
        }
    }
    let path = words.join(" ");
    let is_given = |flag: &str| {
        args.iter().any(|arg| {
            arg.strip_prefix('-').is_some_and(|arg| {
                let name = arg.strip_prefix('-').unwrap_or(arg);
                name.split('=').next() == Some(flag)
            })
        })
    };
    let mut flags = ABSENT_FLAGS.iter().filter(|(of, ..)| *of == path);
    let (_, flag, instead) = flags.find(|(_, flag, _)| is_given(flag))?;
    let told = format!("`-{flag}` is a flag of Nomad's `{path}`, not of Berth's");
    Some(Failure::new(Exit::Usage, told).help(*instead))
}

/// What to say of a command line that the parser refused; none where its own words are as good.
pub fn explain(error: &clap::Error, args: &[String], root: &Command) -> Option<Failure> {
    if error.kind() == ErrorKind::UnknownArgument {
        return explain_flag(args, root);
    }
    if error.kind() != ErrorKind::InvalidSubcommand {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let path = path(args, word, root)?;
    let (name, instead) = ABSENT.iter().find(|(name, _)| *name == path)?;
    let yet = if instead.is_empty() { " that is not there yet" } else { ", not of Berth" };
    let failure = Failure::new(Exit::Usage, format!("`{name}` is a command of Nomad{yet}"));
    Some(match *instead {
        "" => failure,
        command if command.starts_with("berth ") => failure.help(format!("use `{command}`")),
        other => failure.help(other),
    })
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

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    fn said(line: &str) -> Option<String> {
        let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let error = Cli::try_parse_from(&args).expect_err("it is not there");
        explain(&error, &args, &Cli::command()).map(|failure| failure.to_string())
    }

    #[test]
    fn each_is_absent_and_told_so() {
        for (name, instead) in ABSENT {
            let told = said(&format!("berth --namespace ops {name} x")).unwrap_or_default();
            assert!(told.contains(&format!("`{name}` is a command of Nomad")), "{name}: {told}");
            assert!(told.contains(instead), "{name}: {told}");
        }
        assert_eq!(said("berth jobs"), None, "what is misspelt is the parser's to tell");
    }

    #[test]
    fn what_to_use_instead_is_there() {
        for (name, instead) in ABSENT {
            let Some(words) = instead.strip_prefix("berth ") else { continue };
            let mut command = &Cli::command();
            for word in words.split(' ') {
                let found = command.find_subcommand(word);
                command = found.unwrap_or_else(|| panic!("{name}: there is no `{instead}`"));
            }
        }
    }

    #[test]
    fn flags_that_are_absent_are_named_with_what_to_do_instead() {
        for (path, flag, instead) in ABSENT_FLAGS {
            for dashes in ["-", "--"] {
                let told = said(&format!("berth {path} {dashes}{flag} x")).unwrap_or_default();
                assert!(
                    told.contains(&format!("`-{flag}` is a flag of Nomad's `{path}`")),
                    "{path} {flag}: {told}"
                );
                assert!(told.contains(instead), "{path} {flag}: {told}");
            }
        }
        assert!(ABSENT_FLAGS.is_sorted());
        assert_eq!(said("berth job run --jsn x"), None, "what is misspelt is the parser's to tell");
    }

    #[test]
    fn they_stand_in_order() {
        assert!(ABSENT.is_sorted_by_key(|(name, _)| *name));
    }
}
