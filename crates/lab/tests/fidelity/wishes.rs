//! Wishes as scripts write them.

use berth_api::agent::{Desired, GroupSpec, LogSpec, RestartSpec, RunAlloc, StopAlloc, TaskSpec};
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

/// An allocation with one task.
pub fn alloc(number: u8, job_type: &str, task: TaskSpec) -> RunAlloc {
    let group = GroupSpec {
        job_id: "j".into(),
        group: "g".into(),
        job_type: job_type.into(),
        tasks: vec![task],
        ..GroupSpec::default()
    };
    RunAlloc { alloc_id: id(number), group: group.encode_to_vec().into(), ..RunAlloc::default() }
}

pub fn run(alloc: RunAlloc) -> Desired {
    Desired { run: vec![alloc], ..Desired::default() }
}

pub fn stop(number: u8) -> Desired {
    let stop = StopAlloc { alloc_id: id(number), reason: "stopped".into() };
    Desired { stop: vec![stop], ..Desired::default() }
}

pub fn forget(number: u8) -> Desired {
    Desired { forget: vec![id(number)], ..Desired::default() }
}
