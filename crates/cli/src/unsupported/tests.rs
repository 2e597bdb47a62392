//! Each command and flag of Nomad works, or is refused by name.

use clap::{CommandFactory, Parser};

use super::*;
use crate::{aliases, argv, cli::Cli};

fn error_message(line: &str) -> Option<String> {
    let args = argv::normalize(line.split(' ').map(Into::into), &Cli::command());
    let args: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let error = Cli::try_parse_from(&args).expect_err("it is not there");
    explain(&error, &args, &Cli::command()).map(|failure| failure.to_string())
}

#[test]
fn each_is_absent_and_its_error_says_so() {
    for (name, instead) in ABSENT {
        let message = error_message(&format!("berth --namespace ops {name} x")).unwrap_or_default();
        assert!(message.contains(&format!("`{name}` is a command of Nomad")), "{name}: {message}");
        assert!(message.contains(instead), "{name}: {message}");
    }
    assert_eq!(error_message("berth jbo"), None, "what is misspelt is the parser's to tell");
}

#[test]
fn words_of_other_tools_lead_to_commands_that_there_are() {
    assert!(OTHERS_WORDS.is_sorted());
    for (words, here) in OTHERS_WORDS {
        let message = error_message(&format!("berth {words} x")).unwrap_or_default();
        assert!(message.contains(&format!("there is no `berth {words}`")), "{words}: {message}");
        assert!(message.contains(&format!("use `{here}`")), "{words}: {message}");
        let line = here.replace("FILE", "x.hcl").replace("JOB", "x").replace("ID", "x");
        let args = aliases::expand(line.split(' ').map(Into::into).collect(), &Cli::command());
        let args = argv::normalize(args, &Cli::command());
        assert!(Cli::try_parse_from(args).is_ok(), "{words}: there is no `{here}`");
    }
}

#[test]
fn a_command_of_another_product_is_refused_as_such() {
    let message = error_message("berth promote web").expect("it is explained");
    assert!(message.starts_with("error: there is no `berth promote`"), "{message}");
    assert!(message.contains("`berth job promote` or `berth deployment promote`"), "{message}");
    assert_eq!(
        error_message("berth job members"),
        None,
        "what stands below another word is the parser's to tell"
    );
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
    let each = ABSENT_FLAGS.iter().flat_map(|(path, flags, instead)| {
        flags.split(' ').map(move |flag| (path, flag.replace('*', "x"), instead))
    });
    for (path, flag, instead) in each {
        for dashes in ["-", "--"] {
            let of = if path.is_empty() { "job status" } else { path };
            let message = error_message(&format!("berth {of} {dashes}{flag} x")).unwrap_or_default();
            assert!(message.contains(&format!("`-{flag}` is a flag of Nomad")), "{path} {flag}: {message}");
            assert!(message.contains(instead), "{path} {flag}: {message}");
        }
    }
    assert!(ABSENT_FLAGS.is_sorted());
    assert_eq!(error_message("berth job run --jsn x"), None, "what is misspelt is the parser's to tell");
}

/// Nomad's commands, each with its flags.
const NOMAD: &str = include_str!("nomad_commands.txt");

/// Whether a command takes the flag; a short one has one letter.
fn takes(command: &Command, root: &Command, flag: &str) -> bool {
    let mut args = command.get_arguments().chain(root.get_arguments());
    args.any(|arg| {
        let longs = arg.get_long().into_iter().chain(arg.get_all_aliases().unwrap_or_default());
        let shorts = arg.get_short().into_iter().chain(arg.get_all_short_aliases().unwrap_or_default());
        longs.into_iter().any(|long| long == flag) || shorts.into_iter().any(|c| c.to_string() == flag)
    })
}

#[test]
fn each_command_and_flag_of_nomad_works_or_is_refused_by_name() {
    let root = Cli::command();
    let mut gaps = Vec::new();
    // What stands behind `berth run` is an image or a command with its own flags: it refuses those of Nomad's itself.
    for line in NOMAD.lines().filter(|line| !line.starts_with("run:")) {
        let (command, flags) = line.split_once(':').expect("a command and its flags");
        let words = format!("berth {command}").split(' ').map(Into::into).collect();
        let words: Vec<String> = aliases::expand(words, &root)
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .filter(|word| !word.starts_with('-'))
            .collect();
        let found = words[1..].iter().try_fold(&root, |at, word| at.find_subcommand(word));
        let words = words.join(" ");
        let Some(found) = found else {
            if error_message(&format!("{words} x")).is_none() {
                gaps.push(command.to_owned());
            }
            continue;
        };
        for flag in flags.split_whitespace().filter(|flag| !takes(found, &root, flag)) {
            if error_message(&format!("{words} -{flag} x")).is_none() {
                gaps.push(format!("{command} -{flag}"));
            }
        }
    }
    assert!(gaps.is_empty(), "{gaps:#?}");
}

#[test]
fn they_stand_in_order() {
    assert!(ABSENT.is_sorted_by_key(|(name, _)| *name));
}
