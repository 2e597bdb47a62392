//! The state that readers wait for: one job, each change of which carries the time at which it was made.

use std::{
    sync::{Arc, Mutex},
    time::{SystemTime, UNIX_EPOCH},
};

use arc_swap::ArcSwap;
use berth_model::{
    EvalId, Index, JobKey, Timestamp,
    command::{Command, Entry, RegisterJob},
    job::{Group, Job, JobType},
};
use berth_server::{
    WatchKey, Watchers,
    shared::{State, View},
};

use crate::support;

/// The job's id.
pub const JOB: &str = "watched";

pub struct Cluster {
    view: Arc<ArcSwap<View>>,
    watchers: Arc<Watchers>,
    job: Mutex<Job>,
}

impl Cluster {
    pub fn new() -> Self {
        let mut job = Job::new(JobKey::new("default", JOB), JobType::Service);
        job.groups.push(Group::new("app", JobType::Service));
        let cluster = Self { view: Arc::default(), watchers: Arc::default(), job: Mutex::new(job) };
        cluster.change();
        cluster
    }

    pub fn state(&self) -> State {
        support::state(&self.view, &self.watchers, &Arc::default())
    }

    /// Makes a new version of the job and wakes whoever waits for it.
    pub fn change(&self) {
        let mut job = self.job.lock().expect("nothing panics while it holds this lock");
        job.groups[0].count += 1;
        let mut view = View::clone(&self.view.load());
        let index = Index(view.index.0 + 1);
        let register = RegisterJob {
            job: Arc::new(job.clone()),
            eval: EvalId(index.0.into()),
            only_if: None,
            submission: None,
        };
        let commands = vec![Command::RegisterJob(Box::new(register))];
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        view.store.apply(Entry::new(index, at, commands));
        view.index = index;
        self.view.store(Arc::new(view));
        self.watchers.wake([WatchKey::Job(job.key.clone()), WatchKey::Jobs]);
    }
}
