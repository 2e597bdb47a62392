//! Entries as a server would propose them, and an observer that remembers. Shared by tests and benchmarks.
#![allow(dead_code, missing_docs, reason = "each user needs a part of it")]

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use berth_model::{
    EvalId, Index, JobKey, Timestamp,
    command::{Command, Entry, RegisterJob},
    job::{Group, Job, JobType, Task},
    store::Store,
    value::Value,
};

/// An entry that registers one small job.
pub fn register(index: u64) -> Entry {
    register_many(index, 1)
}

/// An entry that registers several small jobs, as they arrive during one sync.
pub fn register_many(index: u64, jobs: u64) -> Entry {
    register_names(index, jobs, u64::MAX)
}

/// The same with so many different names at most: each is registered again and again.
pub fn register_names(index: u64, jobs: u64, names: u64) -> Entry {
    let commands = (0..jobs).map(|job| {
        let job = index * jobs + job;
        let (eval, name) = (EvalId(job.into()), format!("job-{}", job % names));
        let register = RegisterJob { job: Arc::new(small_job(&name)), eval, only_if: None, submission: None };
        Command::RegisterJob(Box::new(register))
    });
    Entry { commands: commands.collect(), ..grant(index) }
}

/// The smallest entry.
pub fn grant(index: u64) -> Entry {
    let command = Command::GrantIndexes(Index(index + 1_000_000));
    Entry::new(Index(index), Timestamp(index), vec![command])
}

/// One group of one task.
pub fn small_job(id: &str) -> Job {
    let task = Task {
        config: BTreeMap::from([("command".to_owned(), Value::String("/usr/bin/httpd".to_owned()))]),
        env: BTreeMap::from([("PORT".to_owned(), "8080".to_owned())]),
        ..Task::new("server", "exec", JobType::Service)
    };
    let group = Group { count: 3, tasks: vec![task], ..Group::new("web", JobType::Service) };
    Job { groups: vec![group], ..Job::new(JobKey::new("default", id), JobType::Service) }
}

/// Remembers what it was told.
#[derive(Default)]
pub struct Recorder {
    pub store: Mutex<Store>,
    pub applied: Mutex<Vec<u64>>,
    pub leadership: Mutex<Vec<(u64, bool)>>,
    pub fatal: Mutex<Vec<String>>,
    pub restored: AtomicU64,
}

impl Recorder {
    pub fn hash(&self) -> u128 {
        self.store.lock().unwrap().hash()
    }

    pub fn index(&self) -> u64 {
        self.store.lock().unwrap().index().0
    }
}

impl berth_replication::Observer for Recorder {
    fn on_applied(&self, store: &Store, applied: &[berth_model::event::AppliedEntry]) {
        *self.store.lock().unwrap() = store.clone();
        self.applied.lock().unwrap().extend(applied.iter().map(|applied| applied.index.0));
    }

    fn on_restored(&self, store: &Store) {
        *self.store.lock().unwrap() = store.clone();
        self.applied.lock().unwrap().clear();
        self.restored.fetch_add(1, Ordering::SeqCst);
    }

    fn on_leadership(&self, term: u64, leadership: berth_replication::Leadership) {
        let leader = leadership == berth_replication::Leadership::Own;
        self.leadership.lock().unwrap().push((term, leader));
    }

    fn on_fatal(&self, reason: &str) {
        self.fatal.lock().unwrap().push(reason.to_owned());
    }
}
