//! For tests of drivers: the context of a task that has a specification and paths, and nothing else.

use std::{collections::BTreeMap, path::Path, sync::Arc};

use berth_api::agent::{AllocId, GroupSpec, RunAlloc, TaskSpec};
use prost::Message;

use super::{TaskContext, TaskShare};
use crate::{
    lifecycle::{GroupCache, RunSpec},
    paths::AllocPaths,
};

/// Calls `check` with a task of allocation 1, below `/data`.
pub(super) fn with_task<T>(spec: &TaskSpec, run: RunAlloc, check: impl FnOnce(TaskContext<'_>) -> T) -> T {
    let group = GroupSpec { tasks: vec![spec.clone()], ..GroupSpec::default() }.encode_to_vec();
    let run = RunAlloc { alloc_id: vec![1; 16], ..run };
    let run = RunSpec::from_wire(run, &group, &mut GroupCache::default()).expect("an allocation");
    let paths = AllocPaths::new(Path::new("/data"), AllocId([1; 16]));
    check(TaskContext {
        spec,
        run: &run,
        attempt: 1,
        paths: &paths,
        config_json: String::new(),
        user: String::new(),
        hostname: String::new(),
        env: BTreeMap::new(),
        share: TaskShare::default(),
        secrets: Arc::default(),
        secret_files: Vec::new(),
        image: None,
        network: None,
        first_id: None,
        shared_cores: Vec::new(),
    })
}
