//! What was written and what runs, shared by all writers, readers and the nodes' journal.

use std::{
    io::{BufRead, BufReader},
    process::ChildStdout,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use super::{job_states::JobStates, tasks::RunningTasks};

/// Both, behind one lock.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedLedger(Arc<Mutex<Ledger>>);

/// What is in it.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub job_states: JobStates,
    pub tasks: RunningTasks,
    /// Writes that were acknowledged, refused, and left without an answer.
    pub acknowledged: u64,
    pub refused: u64,
    pub unanswered: u64,
    /// Answers to writes that cannot be right.
    pub wrong: Vec<String>,
}

impl SharedLedger {
    /// For as long as nobody waits for anything else.
    pub fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a process of nodes prints, until that ends.
    pub fn listen(&self, printed: ChildStdout) {
        let ledger = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(printed).lines().map_while(Result::ok) {
                if let Ok(entry) = serde_json::from_str(&line) {
                    let Ledger { job_states, tasks, .. } = &mut *ledger.lock();
                    tasks.record(entry, job_states);
                }
            }
        });
    }
}
