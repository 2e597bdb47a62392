//! Where crates meet, the name of a type stands for one thing: no two crates export types of one name, except those listed here. The
//! two protocols of `api`, with agents and by HTTP, count as two crates.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

const CRATES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

/// One thing in several forms: in the state, in the protocol with agents, in Nomad's API, or from which each is made.
const ONE_THING: &[&str] = &[
    "AclPolicy",
    "AclRole",
    "AclToken",
    "AllocHealth",
    "AllocId",
    "ClientStatus",
    "Deployment",
    "DownFrame",
    "Heartbeat",
    "Hello",
    "HostVolume",
    "Job",
    "JobStatus",
    "Namespace",
    "Node",
    "NodeDevice",
    "NodePool",
    "PlanTrace",
    "Quota",
    "Recovery",
    "ScalingEvent",
    "Servers",
    "TaskEvent",
    "TaskResources",
    "TaskState",
    "UnhealthyAlloc",
    "UpFrame",
    "Variable",
    "WelcomeMode",
];

/// Different things, each known by its crate, and why they have one name nevertheless.
const BY_THEIR_CRATE: &[(&str, &str)] = &[
    (
        "Action",
        "what a pure state machine gives its shell to carry out: the controller's, and that of an agent's lifecycle",
    ),
    ("Answer", "what answers a question: each protocol has its own"),
    (
        "Event",
        "what goes into a state machine, or comes out of the state: written with the module, as `event::Event`",
    ),
    ("Outcome", "what came of a command in the log, and of a question to an agent"),
    ("Peer", "the other end of a TLS handshake, and of the consensus protocol"),
    ("ProposeError", "replication's, and the server's, which is made from it for callers"),
    ("Refusal", "the reason for which a command, or a question to an agent, is refused"),
    ("Service", "the `service` block of job files, and what a server offers to others"),
    ("Target", "what an HTTP request asks for, and the server that an experiment loads"),
    ("Update", "the `update` block of job files, and a report of an agent"),
];

/// What is imported from a crate of ours: the crate (of `api` with its module), and the name.
type Import = (String, String);

/// The types that a text imports from crates of ours.
fn imports_of(text: &str) -> Vec<Import> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices("berth_") {
        let path = &text[at..];
        let end = path.find(|c: char| !(c.is_alphanumeric() || "_:".contains(c))).unwrap_or(path.len());
        let (plain, rest) = path.split_at(end);
        let stem: Vec<&str> = plain.split("::").filter(|part| !part.is_empty()).collect();
        if plain.ends_with("::") && rest.starts_with('{') {
            flatten(&stem, &rest[1..], &mut found);
        } else {
            note(&stem, &mut found);
        }
    }
    found
}

/// Notes what stands in braces, and answers how much of `list` that was.
fn flatten(stem: &[&str], list: &str, found: &mut Vec<Import>) -> usize {
    let mut at = 0;
    while let Some(length) = list[at..].find(['{', ',', '}']) {
        let item = list[at..at + length].split(" as ").next().unwrap_or_default().trim();
        let path: Vec<&str> =
            stem.iter().copied().chain(item.split("::").filter(|part| !part.is_empty())).collect();
        let sign = list.as_bytes()[at + length];
        at += length + 1;
        match sign {
            b'{' => {
                at += flatten(&path, &list[at..], found);
                continue;
            }
            _ if item.is_empty() => {}
            _ => note(&path, found),
        }
        if sign == b'}' {
            break;
        }
    }
    at
}

fn note(path: &[&str], found: &mut Vec<Import>) {
    let is_type = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_uppercase()) && part.contains(|c: char| c.is_ascii_lowercase())
    };
    let Some(at) = path.iter().position(|part| is_type(part)) else { return };
    let from = match path {
        ["berth_api", module, ..] if at > 1 => format!("api::{module}"),
        [first, ..] if at > 0 => first.trim_start_matches("berth_").to_owned(),
        _ => return,
    };
    found.push((from, path[at].to_owned()));
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for path in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn a_name_stands_for_one_thing() {
    let mut files = Vec::new();
    rust_files(Path::new(CRATES), &mut files);
    let mut givers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, name) in files.iter().flat_map(|path| imports_of(&fs::read_to_string(path).unwrap())) {
        givers.entry(name).or_default().insert(from);
    }
    givers.retain(|_, from| from.len() > 1);
    let mut listed: Vec<&str> = ONE_THING.to_vec();
    listed.extend(BY_THEIR_CRATE.iter().map(|(name, _)| *name));
    let unlisted: Vec<_> = givers.iter().filter(|(name, _)| !listed.contains(&name.as_str())).collect();
    assert!(unlisted.is_empty(), "give each of these a noun of its own: {unlisted:#?}");
    listed.retain(|name| !givers.contains_key(*name));
    assert!(listed.is_empty(), "these need no exception any more: {listed:?}");
}

#[test]
fn imports_are_read_from_nested_lists() {
    let text = "use berth_api::{\n    agent::{Answer, Outcome},\n    http::Answer as Reply,\n};\nlet x = berth_model::eval::Trigger::Retry;";
    let found = imports_of(text);
    let found: Vec<_> = found.iter().map(|(from, name)| format!("{from} {name}")).collect();
    assert_eq!(found, ["api::agent Answer", "api::agent Outcome", "api::http Answer", "model Trigger"]);
}
