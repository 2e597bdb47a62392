//! Desired state as scripts write it.

use berth_api::agent::{Desired, GroupEntry, GroupSpec, LogSpec, RestartSpec, RunAlloc, StopAlloc, TaskSpec};
use prost::Message;

pub fn id(number: u8) -> Vec<u8> {
    vec![number; 16]
}

/// A mock task; it is started again once.
pub fn mock(config_json: &str) -> TaskSpec {
    TaskSpec {
        name: "t".into(),
        driver: "mock_driver".into(),
        config_json: config_json.into(),
        restart: RestartSpec { attempts: 1, interval_ms: 3_600_000, delay_ms: 10, mode: 0 },
        kill_timeout_ms: 5_000,
        logs: LogSpec { max_files: 1, max_file_size_mb: 1, disabled: true },
        ..TaskSpec::default()
    }
}

/// An allocation with one task, which should run.
pub fn run(number: u8, job_type: &str, task: TaskSpec) -> Desired {
    let group = GroupSpec { job_type: job_type.into(), tasks: vec![task], ..GroupSpec::default() };
    run_group(number, group)
}

/// An allocation of a group, which should run.
pub fn run_group(number: u8, group: GroupSpec) -> Desired {
    let group = GroupSpec { job_id: "j".into(), group: "g".into(), ..group };
    let entry = GroupEntry { group_ref: number.into(), spec: group.encode_to_vec().into() };
    let run = RunAlloc { alloc_id: id(number), group_ref: number.into(), ..RunAlloc::default() };
    Desired { run: vec![run], groups: vec![entry], ..Desired::default() }
}

/// All that these say, in one message.
pub fn both(mut one: Desired, other: Desired) -> Desired {
    one.run.extend(other.run);
    one.stop.extend(other.stop);
    one.groups.extend(other.groups);
    one
}

pub fn stop(number: u8) -> Desired {
    let stop = StopAlloc { alloc_id: id(number), reason: "stopped".into() };
    Desired { stop: vec![stop], ..Desired::default() }
}

pub fn forget(number: u8) -> Desired {
    Desired { forget: vec![id(number)], ..Desired::default() }
}
