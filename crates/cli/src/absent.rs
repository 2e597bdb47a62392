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
    ("acl policy self", "berth acl token self"),
    ("acl role create", "berth acl role apply"),
    ("acl role update", "berth acl role apply"),
    ("agent-info", "berth server members"),
    ("alloc pause", ""),
    ("config", "the flags of `berth server` and `berth agent` are checked when they start"),
    ("eval delete", "berth system gc"),
    ("job action", ""),
    ("license", "there is nothing to license"),
    ("monitor", "the log of a server or an agent is what it prints, as in `journalctl -u berth-server -f`"),
    ("node config", "the flag --servers of `berth agent`"),
    ("node identity", ""),
    ("node intro", "berth node token"),
    ("node meta", "the flag --meta of `berth agent`"),
    ("node pool info", "berth node pool list"),
    ("node pool init", "berth node pool apply"),
    ("node pool jobs", "berth job status"),
    ("node pool nodes", "berth node status"),
    ("operator api", "curl with the server's address, as in `curl http://127.0.0.1:4646/v1/jobs`"),
    (
        "operator autopilot",
        "a server that was replaced is taken out with `berth server remove`; `berth server members` shows their health",
    ),
    ("operator client-state", ""),
    ("operator gossip", "servers know each other by the log that they share: there is no gossip"),
    ("operator keygen", "servers know each other by their certificates: `berth server init` makes the first"),
    ("operator metrics", "`curl http://127.0.0.1:4646/v1/metrics`"),
    (
        "operator raft",
        "`berth server members` lists the servers, `remove`, `transfer` and `recover` of `berth server` change them",
    ),
    (
        "operator snapshot agent",
        "a periodic job, or your own scheduler, that runs `berth operator snapshot save`",
    ),
    ("operator utilization", "berth top"),
    ("plugin", ""),
    ("quota init", "berth quota apply"),
    ("recommendation", ""),
    ("scaling", "berth job scale"),
    ("sentinel", ""),
    ("server force-leave", "berth server remove"),
    ("service", ""),
    ("setup", ""),
    ("system reconcile", "counts are kept in step with allocations: there is nothing to reconcile"),
    ("tls", "berth server init"),
    ("ui", ""),
    ("var lock", ""),
    ("volume", ""),
];

/// Flags of Nomad's commands that are not there: the command's words, the flag, and what to do instead.
const ABSENT_FLAGS: &[(&str, &str, &str)] = &[
    ("", "force-color", "set FORCE_COLOR=1 in the environment"),
    ("", "no-color", "set NO_COLOR=1 in the environment"),
    ("", "region", "a server is of one region: `-address` chooses the server"),
    ("agent", "bind", "`--http-addr` and others of `berth server` say where it listens"),
    ("agent", "client", "leave it out: `berth agent` runs a client and nothing else"),
    ("agent", "dev", "`berth dev` runs a server and an agent in one"),
    ("agent", "server", "`berth server` runs a server"),
    ("alloc status", "stats", "`berth alloc stats ALLOC` shows what its tasks use"),
    ("alloc stop", "no-shutdown-delay", "register the job with a shorter `shutdown_delay` first"),
    (
        "eval list",
        "filter",
        "`-job` and `-status` choose; the API takes `filter`: `/v1/evaluations?filter=…`",
    ),
    ("eval status", "monitor", "`-watch` prints it again whenever it changes"),
    ("job deployments", "all", "all that are kept are listed, also those of earlier jobs with the id"),
    ("job dispatch", "priority", "a run has the priority of its job: change it there"),
    ("job dispatch", "ui", "there are no web pages"),
    ("job fmt", "list", "the names of the files that change are always printed"),
    ("job fmt", "write", "`-check` changes nothing"),
    ("job history", "full", "`berth job inspect -version N` prints a version as a whole"),
    ("job init", "connect", "there is no service mesh"),
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
    ("job status", "filter", "the API takes it: `/v1/jobs?filter=…`"),
    ("job status", "per-page", "all jobs are listed; the API takes it: `/v1/jobs?per_page=…`"),
    ("job status", "ui", "there are no web pages"),
    ("job stop", "eval-priority", "an evaluation has the priority of its job"),
    ("job stop", "global", "there is one region: leave it out"),
    ("job stop", "no-shutdown-delay", "register the job with a shorter `shutdown_delay` first"),
    ("job validate", "vault-namespace", "write `vault_namespace = \"...\"` into the job file"),
    ("node status", "allocs", "`berth node status NODE` lists its allocations"),
    ("node status", "filter", "the API takes it: `/v1/nodes?filter=…`"),
    ("node status", "per-page", "all nodes are listed; the API takes it: `/v1/nodes?per_page=…`"),
    ("node status", "quiet", "`-o name` prints ids alone"),
    ("node status", "short", "`-o name` prints ids alone, `-t '{{ Name }}'` what you choose"),
    ("node status", "stats", "`berth node stats NODE` shows what the machine uses"),
    ("operator debug", "interval", "the state is read once, and events are collected for `-duration`"),
    ("var get", "template", "`-item NAME` prints one value, `-out json` all"),
    ("var list", "out", "`-o json` prints it as JSON, `-o name` the paths alone"),
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
    let mut flags = ABSENT_FLAGS.iter().filter(|(of, ..)| *of == path || of.is_empty());
    let (of, flag, instead) = flags.find(|(_, flag, _)| is_given(flag))?;
    let told = match *of {
        "" => format!("`-{flag}` is a flag of Nomad, not of Berth"),
        of => format!("`-{flag}` is a flag of Nomad's `{of}`, not of Berth's"),
    };
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
    use crate::{argv, cli::Cli};

    fn said(line: &str) -> Option<String> {
        let args = argv::normalize(line.split(' ').map(Into::into), &Cli::command());
        let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
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
                let of = if path.is_empty() { "job status" } else { path };
                let told = said(&format!("berth {of} {dashes}{flag} x")).unwrap_or_default();
                assert!(told.contains(&format!("`-{flag}` is a flag of Nomad")), "{path} {flag}: {told}");
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
