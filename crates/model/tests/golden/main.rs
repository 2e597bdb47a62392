//! Files that were written by this and by older versions, and that every later one must read.
//!
//! `entries-vN.txt` has one of every command as an entry of the log, `snapshot-vN.txt` the snapshot of a store to which
//! they were applied, both in hexadecimal. When a change of a command, record, field or value makes
//! `what_is_written_is_what_the_golden_files_say` fail: give new fields a default (`Option`, or `#[cbor(default)]`), raise
//! `ENTRY_VERSION` or `FORMAT_VERSION`, and run the test with `UPDATE_EXPECT=1`, which adds the files of the new version.
//! Those of older versions never change.

mod commands;
mod hash;
mod job;

use std::{collections::BTreeSet, sync::Arc};

use berth_model::{
    EvalId, Index, Timestamp,
    command::{Command, ENTRY_VERSION, ENTRY_VERSION_MIN, EncodedCommands, Entry, EntryError},
    store::{AllocExtra, Store, snapshot, snapshot::FORMAT_VERSION},
};
use expect_test::expect_file;

/// The files of older versions: entries, snapshot.
const OLDER: &[(&str, &str)] = &[
    (include_str!("entries-v1.txt"), include_str!("snapshot-v1.txt")),
    (include_str!("entries-v2.txt"), include_str!("snapshot-v2.txt")),
    (include_str!("entries-v3.txt"), include_str!("snapshot-v3.txt")),
    (include_str!("entries-v4.txt"), include_str!("snapshot-v4.txt")),
    (include_str!("entries-v5.txt"), include_str!("snapshot-v5.txt")),
    (include_str!("entries-v6.txt"), include_str!("snapshot-v6.txt")),
    (include_str!("entries-v7.txt"), include_str!("snapshot-v7.txt")),
];
/// Characters in a line of a file.
const LINE_CHARS: usize = 120;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// An entry of each command, from index 1 on.
fn entries() -> Vec<Entry> {
    let entry = |(at, command)| Entry::new(Index(at), Timestamp(at * 1000), vec![command]);
    (1..).zip(commands::commands()).map(entry).collect()
}

/// The state that entries make before one of them restores another.
fn replayed(entries: Vec<Entry>) -> Store {
    let mut store = Store::default();
    let restores = |entry: &Entry| matches!(entry.commands[0], Command::RestorePart(_));
    for entry in entries.into_iter().take_while(|entry| !restores(entry)) {
        let applied = store.apply(entry);
        assert_eq!(applied.outcomes, [Ok(())], "{}", applied.index);
    }
    store
}

/// Older servers say only when an allocation was rescheduled, and count the room of all tasks at once.
fn as_told_by_older(mut entry: Entry) -> Entry {
    if let Command::CommitPlan(plan) | Command::CommitPlanUnchecked(plan) = &mut entry.commands[0] {
        let reschedules = plan.placements.iter_mut().flat_map(|placement| &mut placement.reschedules);
        reschedules.for_each(|reschedule| reschedule.of = None);
    }
    if let Command::RegisterJob(register) = &mut entry.commands[0] {
        Arc::make_mut(&mut register.job).groups.iter_mut().for_each(|group| group.shares_resources = false);
    }
    entry
}

/// What a store has to tell that no version may change.
fn facts(store: &Store) -> String {
    let allocs = store.allocs().iter().map(|(slot, row)| {
        let detail = store.allocs().detail(slot).expect("it has a detail");
        format!("{:?} {:?} {:?} {:?} {detail:?}", row.id, row.client, row.held, row.modify_index)
    });
    let jobs = store.jobs().iter().map(|(_, row)| {
        format!("{:?} {:?} {:?}", row.key, row.versions[0].job, row.counts.iter().collect::<Vec<_>>())
    });
    let evals = store.evals().iter().map(|(_, eval)| format!("{eval:?}"));
    let nodes = store
        .nodes()
        .iter()
        .map(|(slot, row)| format!("{:?} {:?} {:?}", row.status, row.used, store.nodes().detail(slot)));
    let tenants = store.namespaces().iter().map(|row| format!("{row:?}"));
    let quotas = store.quotas().iter().map(|row| format!("{row:?}"));
    let pools = store.node_pools().iter().map(|row| format!("{row:?}"));
    let deployments = store.deployments().iter().map(|deployment| format!("{deployment:?}"));
    let acl = store.acl();
    let policies = acl.policies().map(|policy| format!("{policy:?}"));
    let roles = acl.roles().map(|role| format!("{role:?}"));
    let tokens = acl.tokens(..).map(|token| format!("{token:?} {:?}", token.secret.0));
    let revoked_tokens = acl.revoked_tokens().map(|revoked| format!("{revoked:?}"));
    let one_time = acl.one_time_tokens().map(|token| format!("{token:?} {:?}", token.secret.0));
    let joins = acl.joins().tokens().map(|token| format!("{token:?} {:?}", token.secret.0));
    let revoked = acl.joins().revoked().map(|revoked| format!("{revoked:?}"));
    let revoked_servers = acl.joins().revoked_servers().map(|revoked| format!("{revoked:?}"));
    let revoked = revoked.chain(revoked_servers);
    let acl =
        policies.chain(roles).chain(tokens).chain(revoked_tokens).chain(one_time).chain(joins).chain(revoked);
    let root_keys = store.keyring().keys().map(|key| format!("{key:?}"));
    let retired = store.keyring().retired().map(|retired| format!("{retired:?}"));
    let variables = store.variables().iter().map(|variable| format!("{variable:?}"));
    let config = [format!("{:?} {:?}", store.scheduler_config(), store.granted())];
    let all = allocs
        .chain(jobs)
        .chain(evals)
        .chain(nodes)
        .chain(tenants)
        .chain(quotas)
        .chain(pools)
        .chain(config)
        .chain(deployments)
        .chain(acl)
        .chain(root_keys)
        .chain(retired)
        .chain(variables);
    all.map(|fact| fact + "\n").collect()
}

#[test]
fn what_is_written_is_what_the_golden_files_say() {
    let line = |entry: Entry| format!("{} {}\n", entry.commands[0].kind(), hex(&entry.encode()));
    let lines: String = entries().into_iter().map(line).collect();
    expect_file![format!("./entries-v{ENTRY_VERSION}.txt")].assert_eq(&lines);

    let mut bytes = Vec::new();
    snapshot::write(&replayed(entries()), &mut bytes).expect("memory takes it");
    let digits = hex(&bytes);
    let lines = digits.as_bytes().chunks(LINE_CHARS).map(|line| str::from_utf8(line).expect("digits"));
    let lines: String = lines.flat_map(|line| [line, "\n"]).collect();
    expect_file![format!("./snapshot-v{FORMAT_VERSION}.txt")].assert_eq(&lines);
}

#[test]
fn what_older_versions_wrote_is_read_and_replayed() {
    assert_eq!(OLDER.len() + 1, ENTRY_VERSION.into(), "each version has its files");
    assert_eq!(ENTRY_VERSION, FORMAT_VERSION.try_into().expect("few versions"), "they go together so far");
    for (version, (lines, written)) in (1..).zip(OLDER) {
        let read = lines.lines().map(|line| {
            let (kind, digits) = line.split_once(' ').expect("a kind and an entry");
            let entry = Entry::decode(&unhex(digits)).unwrap_or_else(|error| panic!("{kind}: {error}"));
            assert_eq!(entry.commands[0].kind(), kind, "of version {version}");
            entry
        });
        let store = snapshot::read(&mut &unhex(written)[..]).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(facts(&replayed(read.collect())), facts(&store), "of version {version}");
        // One that was purged has left its name since version 6.
        let mut jobs = store.jobs().iter().map(|(_, row)| row);
        let job = jobs.find(|row| row.key.name() == "web").expect("it is in the snapshot");
        let counts = match version {
            1 | 2 => (2, 2, 7),
            3 => (3, 3, 9),
            4 => (3, 2, 11),
            _ => (3, 3, 11),
        };
        assert_eq!((job.versions.len(), store.allocs().len(), store.evals().len()), counts);
        assert!(store.eval(EvalId(3)).is_some());
        assert_eq!(store.cluster().id == 0, version == 1, "clusters have an identity since version 2");
    }
}

/// A server of version 3 that is sent an entry of version 3 must find nothing in it that it would leave out: whoever adds
/// to a command says so in [`Command::since`].
#[test]
fn what_is_not_as_version_3_wrote_it_says_that_it_is_newer() {
    let written: BTreeSet<&str> = OLDER[2].0.lines().map(of_commands).collect();
    let today: Vec<String> = entries().into_iter().map(|entry| hex(&entry.of_version(3).encode())).collect();
    for (command, line) in commands::commands().iter().zip(&today) {
        let is_known = written.contains(of_commands(line));
        assert!(is_known || command.since() > 3, "{} is not as version 3 wrote it", command.kind());
    }
}

/// What an entry says, without its kind, version, index and time.
fn of_commands(line: &str) -> &str {
    let digits = line.rsplit(' ').next().expect("there are digits");
    &digits[digits.find("8182").expect("one command")..]
}

#[test]
fn a_state_of_older_entries_is_written_as_those_servers_read_it() {
    let older = |entry: &Entry| entry.commands[0].since() <= ENTRY_VERSION_MIN;
    let entries = entries().into_iter().map(as_told_by_older).filter(older);
    let store = replayed(entries.map(|entry| entry.of_version(ENTRY_VERSION_MIN)).collect());
    assert_eq!(store.version(), ENTRY_VERSION_MIN);
    let mut bytes = Vec::new();
    snapshot::write(&store, &mut bytes).expect("memory takes it");
    assert_eq!(
        bytes[8..10],
        u16::from(ENTRY_VERSION_MIN).to_be_bytes(),
        "the format stands behind the magic"
    );
    let read = snapshot::read(&mut &bytes[..]).expect("it was just written");
    assert_eq!((read.version(), read.hash()), (ENTRY_VERSION_MIN, store.hash()));
}

#[test]
fn every_command_that_is_known_has_a_sample() {
    let known = (0..=u8::MAX).filter(|number| {
        let bytes = minicbor::to_vec((number, [0_u8; 0])).expect("memory takes it");
        !matches!(minicbor::decode::<Command>(&bytes), Err(error) if error.is_unknown_variant())
    });
    let number = |command: &Command| {
        let (_, bytes) = EncodedCommands::from(vec![command.clone()]).into_parts();
        minicbor::Decoder::new(&bytes.as_bytes()[1..]).u8().expect("a command begins with its number")
    };
    let samples: BTreeSet<u8> = commands::commands().iter().map(number).collect();
    assert_eq!(samples, known.collect());
}

#[test]
fn what_a_newer_version_wrote_is_refused_with_both_versions() {
    let mut entry = entries().remove(0).encode();
    entry[0] = ENTRY_VERSION + 1;
    let refused = Entry::decode(&entry).expect_err("it is newer").to_string();
    let says = format!(
        "log entry has version {}, this server knows up to {ENTRY_VERSION}: start the newer version again",
        ENTRY_VERSION + 1
    );
    assert_eq!(refused, says);

    let unknown = minicbor::to_vec((Index(1), Timestamp(1), [(200_u8, [0_u8; 0])])).expect("memory takes it");
    let refused = Entry::decode(&[&[ENTRY_VERSION][..], &unknown].concat()).expect_err("no such command");
    assert!(matches!(refused, EntryError::Decode { version: ENTRY_VERSION, .. }), "{refused}");
    let says =
        format!("decode log entry of version {ENTRY_VERSION}, this server knows up to {ENTRY_VERSION}: ");
    assert!(refused.to_string().starts_with(&says), "{refused}");
}

/// Format 1 began without what tells of preemption.
#[test]
fn an_allocation_of_the_first_snapshots_is_read() {
    let extra = AllocExtra { ports: vec![80], ..AllocExtra::default() };
    let mut bytes = minicbor::to_vec(&extra).expect("memory takes it");
    assert_eq!(bytes[0], 0x80 | 15, "an array of fifteen");
    bytes[0] = 0x80 | 10;
    bytes.truncate(bytes.len() - 5);
    assert_eq!(minicbor::decode::<AllocExtra>(&bytes).expect("it is read"), extra);
}
