//! `docs/reference/limits.md` names every limit that users can meet, with its value. The constants are read from the code: a new one
//! must be on the page, or among those that only cut work into pieces.

use std::{collections::BTreeMap, fs};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Constants that somebody meets: where they are, and words of the row that names them.
const ON_THE_PAGE: &[(&str, &str)] = &[
    ("agent/src/shell/execs/mod.rs EXECS_MAX", "commands within tasks"),
    ("agent/src/shell/reads/mod.rs READS_MAX", "readers of logs and files"),
    ("api/src/agent/file.rs FILES_MAX", "files of a directory"),
    ("api/src/agent/frame.rs DESIRED_BYTES_MAX", "a list of work for an agent"),
    ("api/src/agent/frame.rs FRAME_BYTES_MAX", "any other frame"),
    ("api/src/agent/frame.rs HELLO_BYTES_MAX", "a node's description"),
    ("api/src/agent/frame.rs UPDATE_ALLOCS_MAX", "allocations of one report"),
    ("api/src/agent/meta.rs DYNAMIC_META_BYTES_MAX", "dynamic metadata of a node"),
    ("api/src/agent/template.rs TEMPLATE_VARIABLES_MAX", "that the templates of a task ask for"),
    ("api/src/agent/template.rs TEMPLATE_VARIABLE_BYTES_MAX", "that the templates of a task ask for"),
    ("api/src/agent/template.rs TEMPLATE_WATCHES_MAX", "whose templates wait for changes"),
    ("server/src/agents/listen.rs WATCHES_MAX", "whose templates wait for changes"),
    ("template/src/limits.rs ACTIONS_MAX", "blocks and parentheses of a template"),
    ("template/src/limits.rs DELIMITER_BYTES_MAX", "what opens and closes an action"),
    ("template/src/limits.rs NESTING_MAX", "blocks and parentheses of a template"),
    ("template/src/limits.rs OUTPUT_BYTES_MAX", "a template; what it renders"),
    ("template/src/limits.rs PADDING_MAX", "a regular expression of a template"),
    ("template/src/limits.rs QUERIES_MAX", "that the templates of a task ask for"),
    ("template/src/limits.rs REGEX_BYTES_MAX", "a regular expression of a template"),
    ("template/src/limits.rs STEPS_MAX", "blocks and parentheses of a template"),
    ("template/src/limits.rs TEXT_BYTES_MAX", "a template; what it renders"),
    ("template/src/limits.rs VARIABLES_MAX", "blocks and parentheses of a template"),
    ("template/src/limits.rs VALUE_BYTES_MAX", "a template; what it renders"),
    ("api/src/log_feed.rs LOG_LINES_MAX", "lines of the log that wait"),
    ("api/src/log_feed.rs LOG_LINE_BYTES_MAX", "lines of the log that wait"),
    ("jobfile/src/blocks/launch.rs CRONS_MAX", "`crons` of a job"),
    ("jobfile/src/decode/job.rs PAYLOAD_BYTES_MAX", "what a dispatch carries"),
    ("jobfile/src/decode/network.rs DNS_SERVERS_MAX", "`servers` of a network's `dns`"),
    ("jobfile/src/decode/resources.rs DEVICES_MAX", "`count` of a `device`"),
    ("jobfile/src/hcl/functions/collection.rs RANGE_MAX", "functions of a job file"),
    ("jobfile/src/hcl/functions/file.rs FILES_MAX", "files that `fileset` goes through"),
    ("jobfile/src/hcl/functions/file.rs FILE_BYTES_MAX", "files that `fileset` goes through"),
    ("jobfile/src/hcl/functions/format.rs WIDTH_MAX", "functions of a job file"),
    ("jobfile/src/hcl/functions/sets.rs PRODUCT_MAX", "functions of a job file"),
    ("jobfile/src/hcl/functions/text.rs REGEX_BYTES_MAX", "functions of a job file"),
    ("jobfile/src/limits.rs BLOCKS_MAX", "blocks, of all kinds"),
    ("jobfile/src/limits.rs CONSTRAINT_BYTES_MAX", "bytes of a side of a constraint"),
    ("jobfile/src/limits.rs DEPTH_MAX", "a job file"),
    ("jobfile/src/limits.rs EVALUATION_BYTES_MAX", "what variables, locals and functions make"),
    ("jobfile/src/limits.rs GROUP_CHECKS_MAX", "checks of all services of a group"),
    ("jobfile/src/limits.rs GROUP_TASKS_MAX", "tasks of a group"),
    ("jobfile/src/limits.rs JOB_ALLOCATIONS_MAX", "allocations of all its groups"),
    ("jobfile/src/limits.rs JOB_BYTES_MAX", "bytes, as it is kept"),
    ("jobfile/src/limits.rs JOB_GROUPS_MAX", "groups"),
    ("jobfile/src/limits.rs MAP_BYTES_MAX", "bytes of each `meta` and each `env`"),
    ("jobfile/src/limits.rs NAME_BYTES_MAX", "bytes of an id or a name"),
    ("jobfile/src/limits.rs SETTING_DEPTH_MAX", "how deep a driver's settings nest"),
    ("jobfile/src/limits.rs SOURCE_BYTES_MAX", "a job file"),
    ("jobfile/src/limits.rs SPLATS_MAX", "a job file;"),
    ("jobfile/src/limits.rs VALUE_BYTES_MAX", "what variables, locals and functions make"),
    ("jobfile/src/limits.rs VARIABLES_MAX", "variables of a job file"),
    ("model/src/acl.rs ACL_DESCRIPTION_MAX", "description of a policy or a role"),
    ("model/src/acl.rs ACL_LINKS_MAX", "policies of a role or a token"),
    ("model/src/acl.rs ONE_TIME_OF_TOKEN_MAX", "one-time tokens that were not exchanged"),
    ("model/src/acl.rs ONE_TIME_TOKENS_MAX", "one-time tokens that were not exchanged"),
    ("model/src/acl.rs POLICIES_MAX", "policies; roles"),
    ("model/src/acl.rs POLICY_RULES_MAX", "rules of a policy"),
    ("model/src/acl.rs TOKENS_MAX", "tokens"),
    ("api/src/agent/identity.rs IDENTITIES_MAX", "identities of a task"),
    ("api/src/agent/identity.rs TOKEN_BYTES_MAX", "identities of a task"),
    ("model/src/acl.rs POLICY_JOB_NAME_MAX", "names of what a policy is attached to"),
    ("model/src/job/identity.rs IDENTITIES_MAX", "identities of a task"),
    ("model/src/job/identity.rs IDENTITY_AUDIENCES_MAX", "audiences of an identity"),
    ("model/src/job/identity.rs IDENTITY_AUDIENCE_BYTES_MAX", "audiences of an identity"),
    ("model/src/job/identity.rs IDENTITY_NAME_MAX", "audiences of an identity"),
    ("model/src/job/identity.rs IDENTITY_PATH_BYTES_MAX", "audiences of an identity"),
    ("model/src/job/identity.rs IDENTITY_TTL_MAX", "`ttl` of an identity"),
    ("api/src/agent/task_api.rs TASK_API_CONNECTIONS_MAX", "connections of a task to its `api.sock`"),
    ("api/src/agent/task_api.rs TASK_API_IDLE_MAX", "bytes under way on such a connection"),
    ("server/src/agents/listen.rs SECRETS_READ_MAX", "requests for tokens of one node's tasks"),
    ("server/src/agents/listen.rs TASK_APIS_MAX", "connections of a task to its `api.sock`"),
    ("api/src/agent/secret.rs SECRETS_MAX", "secrets of a task"),
    ("model/src/job/submission.rs SUBMISSION_BYTES_MAX", "bytes of its file and variables"),
    ("model/src/job/secret.rs SECRETS_MAX", "secrets of a task"),
    ("model/src/job/secret.rs SECRET_FILES_BYTES_MAX", "secrets of a task"),
    ("model/src/job/secret.rs SECRET_NAME_MAX", "secrets of a task"),
    ("model/src/job/mod.rs GROUP_COUNT_MAX", "`count` of a group"),
    ("model/src/job/mod.rs JOB_VERSIONS_MAX", "versions that are kept"),
    ("model/src/job/mod.rs RESCHEDULE_ATTEMPTS_MAX", "`attempts` of a `reschedule`"),
    ("model/src/job/schedule.rs CRON_CHARS_MAX", "`crons` of a job"),
    ("model/src/job/tag.rs JOB_TAGS_MAX", "versions with a tag"),
    ("model/src/job/tag.rs TAG_DESCRIPTION_BYTES_MAX", "versions with a tag"),
    ("model/src/job/tag.rs TAG_NAME_BYTES_MAX", "versions with a tag"),
    ("model/src/join.rs JOIN_TOKENS_MAX", "join tokens that have not expired"),
    ("model/src/join.rs REVOKED_NODES_MAX", "nodes whose certificates are revoked"),
    ("api/src/agent/frame.rs REVOKED_SERVERS_MAX", "servers whose certificates are revoked"),
    ("model/src/join.rs REVOKED_SERVERS_MAX", "servers whose certificates are revoked"),
    ("model/src/join.rs REVOKED_SERVER_NAME_MAX", "servers whose certificates are revoked"),
    ("model/src/acl.rs REVOKED_TOKENS_MAX", "revoked tokens that a restored snapshot"),
    ("model/src/keyring.rs ROOT_KEYS_MAX", "root keys"),
    ("model/src/namespace.rs NAMESPACE_DEPTH_MAX", "namespaces below each other"),
    ("model/src/namespace.rs NAMESPACE_NAME_MAX", "name of a namespace"),
    ("model/src/node.rs NODES_MAX", "nodes of a cluster"),
    ("model/src/scaling.rs SCALING_EVENTS_MAX", "scaling events"),
    ("model/src/variable.rs NAMESPACE_VARIABLES_MAX", "variables of a namespace"),
    ("model/src/variable.rs NAMESPACE_VARIABLE_BYTES_MAX", "variables of a namespace"),
    ("model/src/variable.rs VARIABLES_BYTES_MAX", "variables of a cluster"),
    ("model/src/variable.rs VARIABLES_MAX", "variables of a cluster"),
    ("model/src/variable.rs VARIABLE_BYTES_MAX", "names and values of a variable's items"),
    ("model/src/variable.rs VARIABLE_PATH_MAX", "names and values of a variable's items"),
    ("server/src/access/acl/mod.rs TOKEN_RULES_BYTES_MAX", "rules of all policies of a token"),
    ("server/src/agents/requests.rs ASKS_MAX", "questions to one agent"),
    ("server/src/agents/connection.rs SESSIONS_MAX", "nodes on one connection"),
    ("server/src/agents/execs/mod.rs EXECS_MAX", "commands within tasks"),
    ("server/src/agents/files.rs CREDIT_BYTES", "what an agent sends of a log or a file"),
    ("server/src/agents/files.rs NAMES_BYTES_MAX", "what an agent sends of a log or a file"),
    ("server/src/agents/rates.rs CERTIFICATES_A_SECOND_MAX", "certificates that one address asks for"),
    ("server/src/agents/incoming.rs DECODED_BYTES_MAX", "what reports and descriptions"),
    ("server/src/agents/incoming.rs DECODED_FRAME_BYTES_MAX", "what reports and descriptions"),
    ("server/src/agents/incoming.rs LARGE_BYTES_MAX", "frames over 16 KiB"),
    ("api/src/agent/frame.rs RENEWED_CHAIN_MAX", "a connection lasts"),
    ("server/src/agents/queue.rs QUEUE_WAIT_MAX", "connections that one address begins a second"),
    ("server/src/agents/listen.rs BEGIN_WAIT_MAX", "connections that one address begins a second"),
    ("server/src/net/wrong_port.rs SILENCE_MAX", "silence at the beginning of a connection"),
    ("server/src/http/leader_contact.rs PAUSE_MAX", "on a server that hears of no leader"),
    ("server/src/http/leader_contact.rs CONTACT_MAX", "on a server that hears of no leader"),
    ("server/src/agents/listen.rs LEAVING_MAX", "nodes at a time that are drained"),
    ("server/src/agents/outbound.rs ALL_BYTES_MAX", "bytes on their way to one connection"),
    ("server/src/agents/outbound.rs CONNECTION_BYTES_MAX", "bytes on their way to one connection"),
    ("server/src/agents/outline.rs EVENTS_MAX", "tasks in an allocation's report"),
    ("server/src/agents/outline.rs TASKS_MAX", "tasks in an allocation's report"),
    ("server/src/audit/log.rs DISK_WAIT_MAX", "a disk that does nothing"),
    ("server/src/audit/log.rs STALL_MAX", "a disk that does nothing"),
    ("server/src/audit/record.rs CHANGES_MAX", "letters of a text that it repeats"),
    ("server/src/audit/record.rs OBJECTS_MAX", "letters of a text that it repeats"),
    ("server/src/audit/record.rs RECORD_BYTES_MAX", "a record;"),
    ("server/src/audit/record.rs TEXT_CHARS_MAX", "letters of a text that it repeats"),
    ("server/src/audit/refusals.rs REFUSED_ADDRESSES_MAX", "refusals that are recorded"),
    ("server/src/audit/refusals.rs TALLY_MAX", "refusals that are recorded"),
    ("server/src/checkpoint/mod.rs FILE_BYTES_MAX", "what agents reported, on a server's disk"),
    ("server/src/checkpoint/mod.rs NODE_BYTES_MAX", "what agents reported, on a server's disk"),
    (
        "server/src/cluster/agents/service.rs STREAMS_MAX",
        "logs, files and commands that another server passes on",
    ),
    ("server/src/cluster/changes.rs BEHIND_MAX", "a server that is to vote"),
    ("server/src/convert/agent.rs DEVICES_MAX", "a node's description"),
    ("server/src/convert/agent.rs DEVICE_INSTANCES_MAX", "a node's description"),
    ("server/src/convert/agent.rs NAME_BYTES_MAX", "names of a node"),
    ("server/src/events.rs BATCHES_MAX", "changes that are kept for followers"),
    ("server/src/events.rs HELD_BYTES_MAX", "changes that are kept for followers"),
    ("server/src/ports.rs WAIT_MAX", "addresses that another still has"),
    ("server/src/nomad/job/launch.rs TOKEN_BYTES_MAX", "letters of a dispatch's `idempotency_token`"),
    ("server/src/http/block.rs WAIT_MAX", "a wait for a change"),
    ("server/src/http/depth.rs VALUES_MAX", "values of a body"),
    ("server/src/http/router.rs CONTACT_MAX", "`stale` reads of what is secret"),
    ("server/src/http/filter/mod.rs ANSWER_STEPS_MAX", "steps of a filter"),
    ("server/src/http/filter/mod.rs ITEM_STEPS_MAX", "steps of a filter"),
    ("server/src/http/filter/mod.rs TEXT_BYTES_MAX", "a filter;"),
    ("server/src/http/filter/parse.rs DEPTH_MAX", "a filter;"),
    ("server/src/http/filter/parse.rs REGEX_BYTES_MAX", "a filter;"),
    ("server/src/http/list.rs PAGE_BYTES_MAX", "a page of a list"),
    ("server/src/net/port_acceptor.rs AGENT_HANDSHAKES_MAX", "the same at the port for agents"),
    ("server/src/net/port_acceptor.rs HANDSHAKES_MAX", "handshakes of TLS under way"),
    ("server/src/net/rates.rs KEYS_MAX", "addresses, and tokens, whose requests"),
    ("server/src/nomad/acl/bootstrap.rs SECRET_CHARS_MAX", "a secret that an operator chooses"),
    ("server/src/nomad/agent.rs JOIN_ADDRESSES_MAX", "servers that one request joins"),
    ("server/src/nomad/client/exec/session.rs MESSAGE_BYTES_MAX", "a message to a command"),
    ("server/src/nomad/client/task_metrics.rs NODES_MAX", "one answer for Prometheus"),
    ("server/src/nomad/client/task_metrics.rs TASKS_MAX", "one answer for Prometheus"),
    ("server/src/nomad/evaluations.rs RELATED_MAX", "related evaluations"),
    ("server/src/nomad/events/filter.rs FILTERS_MAX", "topics of an event stream"),
    ("server/src/nomad/job/launch.rs ID_PREFIX_CHARS_MAX", "what a dispatch carries"),
    ("server/src/nomad/job/launch.rs PAYLOAD_BYTES_MAX", "what a dispatch carries"),
    ("server/src/nomad/job/scale.rs MESSAGE_BYTES_MAX", "the message of a scaling"),
    ("server/src/nomad/job/scale.rs META_BYTES_MAX", "the message of a scaling"),
    ("server/src/nomad/jobs/statuses.rs NAME_BYTES_MAX", "`PUT /v1/jobs/statuses`"),
    ("server/src/nomad/joins.rs LASTS_MAX", "join tokens that have not expired"),
    ("server/src/nomad/metrics/nomad_names.rs GROUPS_MAX", "groups of which Nomad's metrics"),
    ("server/src/nomad/nodes.rs DRAIN_META_BYTES_MAX", "metadata of a drain"),
    ("server/src/nomad/scheduling.rs POOLS_MAX", "node pools with settings of their own"),
    ("server/src/nomad/search/mod.rs NAMES_MAX", "matches of a search"),
    ("server/src/nomad/search/mod.rs MATCHES_MAX", "matches of a search"),
    ("server/src/nomad/system.rs REQUEST_MAX", "`system gc`"),
    ("server/src/nomad/tenant_limits.rs DESCRIPTION_BYTES_MAX", "description of a namespace or a quota"),
    ("server/src/nomad/tenant_limits.rs LISTED_MAX", "drivers of a namespace"),
    ("server/src/nomad/tenant_limits.rs META_BYTES_MAX", "`meta` of a namespace"),
    ("server/src/nomad/tenant_limits.rs TENANTS_MAX", "namespaces; quotas"),
    ("server/src/peers/listen.rs CONNECTIONS_MAX", "connections of other servers"),
    ("server/src/workload/placed_task.rs NAMED_BYTES_MAX", "requests for tokens of one node's tasks"),
    ("server/src/workload/secrets.rs READ_A_SECOND_MAX", "requests for tokens of one node's tasks"),
    ("server/src/workload/sign.rs SIGNED_A_SECOND_MAX", "requests for tokens of one node's tasks"),
];

/// Limits that are settings, and words of the rows that name them.
const SETTINGS: &[(&str, &str)] = &[
    ("answers_bytes_max", "answers over 16 KiB that clients have not read"),
    ("bodies_bytes_max", "all bodies that are being read"),
    ("body_bytes_max", "a body; one with a job"),
    ("connections_max", "connections"),
    ("execs_max", "commands within tasks"),
    ("header_bytes_max", "the head of a request"),
    ("headers_max", "the head of a request"),
    ("job_body_bytes_max", "a body; one with a job"),
    ("json_depth_max", "nested lists and objects"),
    ("page_items_max", "a page of a list"),
    ("reserved_connections_max", "connections beyond these"),
    ("waiting_max", "requests that wait for a change"),
];

/// Constants that nobody meets.
const INSIDE: &str = include_str!("limits_page/inside.txt");

/// The folders whose limits somebody can meet.
const FOLDERS: &[&str] = &[
    "jobfile/src",
    "model/src",
    "server/src",
    "template/src",
    "agent/src/shell/execs",
    "agent/src/shell/reads",
];

/// Every constant of a limit: where it is and its name, with what is written there as its value.
fn constants() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<String> = FOLDERS.iter().map(|folder| (*folder).to_owned()).collect();
    folders.push("api/src".to_owned());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(format!("{ROOT}/crates/{folder}")).expect("the folder is there") {
            let entry = entry.expect("it is read");
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(name);
            } else if name.ends_with(".rs") && !name.contains("/tests") {
                let text = fs::read_to_string(entry.path()).expect("it is text");
                let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.extend(
                    text.lines().filter_map(constant).map(|(id, value)| (format!("{name} {id}"), value)),
                );
            }
        }
    }
    found
}

/// The name and value of a constant of a limit: `pub const ROWS_MAX: usize = 1 << 9;`
fn constant(line: &str) -> Option<(String, String)> {
    let (head, value) = line.trim_start().split_once(" = ")?;
    let (before, name) = head.split(':').next()?.rsplit_once("const ")?;
    let is_limit = name.ends_with("_MAX") || name == "CREDIT_BYTES";
    (is_limit && (before.is_empty() || before.starts_with("pub"))).then(|| {
        let value = value.trim_end_matches(';');
        (name.to_owned(), value.to_owned())
    })
}

/// How a value may stand on the page; none for one that follows from others.
fn spellings(value: &str) -> Option<Vec<String>> {
    if let Some(seconds) = value.strip_prefix("Duration::from_secs(") {
        let seconds: u64 = seconds.trim_end_matches(')').parse().ok()?;
        return Some(vec![format!("{seconds} s"), format!("{} min", seconds / 60)]);
    }
    let digits = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
    let number = match value.split_once(" << ") {
        Some((number, bits)) => digits(number)? << digits(bits)?,
        None => digits(value)?,
    };
    let mut spelled = vec![with_commas(number)];
    for (unit, bits) in [("KiB", 10), ("MiB", 20), ("GiB", 30)] {
        if number.trailing_zeros() >= bits {
            spelled.push(format!("{} {unit}", with_commas(number >> bits)));
        }
    }
    Some(spelled)
}

fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&[u8]> = digits.as_bytes().rchunks(3).rev().collect();
    groups.iter().map(|group| String::from_utf8_lossy(group)).collect::<Vec<_>>().join(",")
}

/// Whether a row of the page that has these words has one of these values, not as a part of a longer number.
fn is_on_page(page: &str, words: &str, spelled: &[String]) -> bool {
    let rows = page.lines().filter(|line| line.starts_with('|') && line.contains(words));
    rows.into_iter().any(|row| spelled.iter().any(|value| stands_alone(row, value)))
}

fn stands_alone(row: &str, value: &str) -> bool {
    row.match_indices(value).any(|(at, _)| {
        let goes_on = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        let after = row[at + value.len()..].trim_start_matches(',');
        !goes_on(row[..at].trim_end_matches(',').chars().next_back()) && !goes_on(after.chars().next())
    })
}

#[test]
fn every_limit_that_somebody_can_meet_stands_on_the_page() {
    let page = fs::read_to_string(format!("{ROOT}/docs/reference/limits.md")).expect("the page is there");
    let (constants, mut wrong) = (constants(), Vec::new());
    for (id, words) in ON_THE_PAGE {
        match constants.get(*id) {
            None => wrong.push(format!("{id} is no constant any more: take it out of the list")),
            Some(value) => match spellings(value) {
                Some(spelled) if !is_on_page(&page, words, &spelled) => {
                    wrong.push(format!("{id} is {}: no row with {words:?} says so", spelled.join(", or ")));
                }
                _ => {}
            },
        }
    }
    let inside: Vec<&str> = INSIDE.lines().filter(|line| !line.starts_with('#')).collect();
    let known = |id: &String| ON_THE_PAGE.iter().any(|(other, _)| other == id) || inside.contains(&&**id);
    wrong.extend(constants.keys().filter(|id| !known(id)).map(|id| {
        format!("{id} is new: name it on the page and in the list, or among those that nobody meets")
    }));
    let gone = inside.iter().filter(|id| !constants.contains_key(**id));
    wrong.extend(gone.map(|id| format!("{id} is gone: take it out of the list")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_setting_of_the_http_server_stands_on_the_page() {
    let page = fs::read_to_string(format!("{ROOT}/docs/reference/limits.md")).expect("the page is there");
    let code = fs::read_to_string(format!("{ROOT}/crates/server/src/http/limits.rs")).expect("it is there");
    let defaults = code.split("impl Default").nth(1).expect("it has defaults");
    for (name, words) in SETTINGS {
        let value = defaults.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: ")));
        let value = value.unwrap_or_else(|| panic!("{name} has no default")).trim_end_matches(',');
        let spelled = spellings(value).unwrap_or_else(|| panic!("{name} is {value}"));
        assert!(is_on_page(&page, words, &spelled), "{name} is {spelled:?}: no row with {words:?} says so");
    }
}

#[test]
fn a_value_that_differs_is_seen() {
    assert_eq!(spellings("64 << 10"), Some(vec!["65,536".to_owned(), "64 KiB".to_owned()]));
    assert_eq!(spellings("16_384").map(|spelled| spelled[0].clone()), Some("16,384".to_owned()));
    assert!(stands_alone("| of one address | 1,024; 8,192 |", "8,192"));
    assert!(!stands_alone("| of one address | 1,024; 18,192 |", "8,192"));
    assert!(!stands_alone("| of one address | 8,192,000 |", "8,192"));
}
