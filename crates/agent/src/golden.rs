//! Golden files of the records that agents and keepers wrote: every later version must read them.
//!
//! `state-vN.txt` has one record of every kind, in hexadecimal, as version N wrote it. When a change of a record makes
//! `what_is_written_is_what_the_golden_file_says` fail: give new fields new tags, raise [`disk::VERSION`], and run the
//! test with `UPDATE_EXPECT=1`, which adds the file of the new version. Those of older versions never change.

use std::fmt::Write;
use std::fs;

use berth_api::agent::{
    AllocStatus, ClientStatus, PortBinding, RevokedServer, TaskDevices, TaskPhase, TaskStatus,
};
use expect_test::expect_file;
use prost::Message;

use crate::disk;
use crate::keeper::plan::{ContainerRef, ExitRecord, LogPlan, StartRecord, StartStage};
use crate::lifecycle::{AllocRecord, RunRecord, TaskRecord};
use crate::network::{Mapping, NetworkRecord};
use crate::shell::{FenceRecord, NodeRecord, ServersRecord};

/// Characters in a line of a file.
const LINE_CHARS: usize = 120;

pub(crate) fn node() -> NodeRecord {
    NodeRecord { node_id: vec![1; 16], secret: vec![2; 32], epoch: 3 }
}

fn fence() -> FenceRecord {
    FenceRecord { cluster_id: vec![4; 16], term: 5, index: 6 }
}

fn servers() -> ServersRecord {
    ServersRecord {
        addresses: vec!["10.0.0.1:4647".into(), "[2001:db8::1]:4647".into()],
        revoked: vec![RevokedServer { name: "s1".into(), at_secs: 9 }],
    }
}

pub(crate) fn alloc() -> AllocRecord {
    let task = TaskStatus {
        name: "web".into(),
        state: TaskPhase::Running.into(),
        restarts: 1,
        started_ns: 7_000,
        ..TaskStatus::default()
    };
    let status = AllocStatus {
        alloc_id: vec![8; 16],
        status: ClientStatus::Running.into(),
        tasks: vec![task],
        ..AllocStatus::default()
    };
    let run = RunRecord {
        alloc_id: vec![8; 16],
        name_index: 9,
        group: vec![0x0a, 0x00].into(),
        ports: vec![PortBinding {
            label: "http".into(),
            host_port: 20_000,
            to: 80,
            ..PortBinding::default()
        }],
        after: vec![vec![10; 16]],
        job_version: 11,
        devices: vec![TaskDevices { task: "web".into(), cores: vec![1], ..TaskDevices::default() }],
        health: None,
        // Not known to those who wrote the first of these files.
        previous: Vec::new(),
        revision: 0,
    };
    let task = TaskRecord {
        attempt: 2,
        begun: true,
        dead: true,
        backoff_until_ns: 12,
        window_start_ns: 13,
        window_count: 14,
        restart: true,
        unhealthy: false,
    };
    AllocRecord {
        alloc_id: vec![8; 16],
        run: Some(run),
        stop: true,
        forgotten: true,
        purged: true,
        status: Some(status),
        tasks: vec![task],
        lost: true,
        term: 5,
        index: 6,
        cluster_id: vec![4; 16],
        deserted: false,
        may_exist: false,
    }
}

pub(crate) fn start() -> StartRecord {
    let (dir, task) = ("/logs".into(), "web".into());
    StartRecord {
        attempt: 2,
        stage: StartStage::Released.into(),
        boot_id: "boot".into(),
        pid: 100,
        pid_start_ticks: 1_000,
        keeper_pid: 99,
        started_ns: 7_000,
        logs: LogPlan { dir, task, files_max: 2, file_bytes_max: 3, disabled: true },
        container: Some(ContainerRef { runtime: "/usr/bin/crun".into(), id: "c1".into() }),
        cgroup: "/sys/fs/cgroup/berth/c1".into(),
        forwards: vec![Mapping {
            label: "http".into(),
            host_ip: "127.0.0.1".into(),
            host_port: 20_000,
            port: 80,
        }],
        // Not known to those who wrote the first of these files.
        stop_signal: 0,
        first_id: 0x7000_0000,
        limiting: vec!["/sys/fs/cgroup/memory/berth/c1".into()],
    }
}

pub(crate) fn exit() -> ExitRecord {
    ExitRecord {
        attempt: 2,
        exit_code: 137,
        signal: 9,
        oom_killed: true,
        finished_ns: 8_000,
        message: "why".into(),
        start_failed: true,
        recoverable: true,
    }
}

pub(crate) fn network() -> NetworkRecord {
    let (label, host_ip) = ("http".into(), "127.0.0.1".into());
    let mappings = vec![Mapping { label, host_ip, host_port: 20_000, port: 80 }];
    NetworkRecord { alloc_id: vec![8; 16], task: 2, offset: 7, mappings }
}

/// The bytes that a record has on disk.
/// One that takes over the files of those before it.
fn successor() -> AllocRecord {
    let mut record = alloc();
    record.run.as_mut().expect("it runs").previous = vec![vec![12; 16], vec![13; 16]];
    record
}

fn written(message: &impl Message) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    disk::write(dir.path(), "record", message).expect("written");
    fs::read(dir.path().join("record")).expect("bytes")
}

/// Reads what a file has of a kind of record.
fn read<M: Message + Default>(file: &str, kind: &str) -> M {
    let lines = file.lines().skip_while(|line| *line != kind).skip(1);
    let hex: String = lines.take_while(|line| !line.is_empty()).collect();
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    let bytes: Vec<u8> = digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join(kind), bytes).expect("written");
    disk::read(dir.path(), kind).expect("readable").expect("a record")
}

fn file_of(records: &[(&str, Vec<u8>)]) -> String {
    let mut file = String::new();
    for (kind, bytes) in records {
        writeln!(file, "{kind}").expect("written");
        for line in bytes.chunks(LINE_CHARS / 2) {
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            writeln!(file, "{hex}").expect("written");
        }
        file.push('\n');
    }
    file
}

#[test]
fn what_is_written_is_what_the_golden_file_says() {
    let records = [
        ("node", written(&node())),
        ("fence", written(&fence())),
        ("record", written(&alloc())),
        ("successor", written(&successor())),
        ("start", written(&start())),
        ("exit", written(&exit())),
        ("network", written(&network())),
        ("servers", written(&servers())),
    ];
    let path = format!("{}/tests/golden/state-v{}.txt", env!("CARGO_MANIFEST_DIR"), disk::VERSION);
    let file = file_of(&records);
    expect_file![path].assert_eq(&file);
    check(&file, &start());
    assert_eq!(read::<AllocRecord>(&file, "successor"), successor());
    assert_eq!(read::<NetworkRecord>(&file, "network"), network());
    assert_eq!(read::<ServersRecord>(&file, "servers"), servers());
}

#[test]
fn what_version_1_wrote_is_read() {
    let start = StartRecord {
        cgroup: String::new(),
        forwards: Vec::new(),
        first_id: 0,
        limiting: Vec::new(),
        ..start()
    };
    check(include_str!("../tests/golden/state-v1.txt"), &start);
}

/// A file has these records; `start` differs by version.
fn check(file: &str, start: &StartRecord) {
    assert_eq!(read::<NodeRecord>(file, "node"), node());
    assert_eq!(read::<FenceRecord>(file, "fence"), fence());
    assert_eq!(read::<AllocRecord>(file, "record"), alloc());
    assert_eq!(read::<StartRecord>(file, "start"), *start);
    assert_eq!(read::<ExitRecord>(file, "exit"), exit());
}
