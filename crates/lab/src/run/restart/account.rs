//! What was written and what runs, shared by all who write, read and listen.

use std::{
    io::{BufRead, BufReader},
    process::ChildStdout,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
};

use super::{books::Books, tasks::Tasks};

/// Both, behind one lock.
#[derive(Debug, Clone, Default)]
pub(super) struct Account(Arc<Mutex<Entries>>);

/// What is in it.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub books: Books,
    pub tasks: Tasks,
    /// Writes that were acknowledged, refused, and left without an answer.
    pub acknowledged: u64,
    pub refused: u64,
    pub unanswered: u64,
    /// Answers to writes that cannot be right.
    pub wrong: Vec<String>,
}

impl Account {
    /// For as long as nobody waits for anything else.
    pub fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a process of nodes prints, until that ends.
    pub fn listen(&self, printed: ChildStdout) {
        let account = self.clone();
        thread::spawn(move || {
            for line in BufReader::new(printed).lines().map_while(Result::ok) {
                if let Ok(entry) = serde_json::from_str(&line) {
                    let Entries { books, tasks, .. } = &mut *account.lock();
                    tasks.told(entry, books);
                }
            }
        });
    }
}
