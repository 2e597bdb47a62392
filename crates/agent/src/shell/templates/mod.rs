//! Templates of a task: rendered into its files before it starts, and again when what they show has changed.
//!
//! What they show of variables comes from the server that the agent is connected to, which says what the task itself may read. It is
//! asked by a message of the agents' protocol and not by the HTTP API that tasks reach by their sockets: a task needs no token for its
//! templates then, one request stands for all that a task's templates show, and what waits costs no connection.

mod data;
mod env_file;
mod follow;
mod load;
mod pending;
mod place;
mod record;
mod start;
mod tell;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::agent::AllocId;

use data::Shown;
pub(super) use follow::beside;
pub(super) use start::{Following, obtain};

use crate::lifecycle::TaskRef;

/// What is held of the templates of all tasks.
#[derive(Debug, Default)]
pub(super) struct HeldShown(Mutex<HashMap<(AllocId, u16), TaskShown>>);

/// Of one task.
#[derive(Debug, Default)]
struct TaskShown {
    /// What its files showed last, for starts while no server answers.
    complete: Option<Arc<Shown>>,
    /// What a server said last, and what it said before: a process may still use that.
    seen: Vec<Arc<Shown>>,
    writes: Arc<Writes>,
}

/// How many answers of a server are known of whose values people are shown nothing.
const SEEN_MAX: usize = 2;

impl HeldShown {
    fn of(&self, of: TaskRef) -> Option<Arc<Shown>> {
        self.all().get(&(of.alloc, of.task))?.complete.clone()
    }

    fn hold(&self, of: TaskRef, shown: Arc<Shown>) {
        self.all().entry((of.alloc, of.task)).or_default().complete = Some(shown);
    }

    /// A server has said this.
    fn see(&self, of: TaskRef, shown: Arc<Shown>) {
        let mut all = self.all();
        let seen = &mut all.entry((of.alloc, of.task)).or_default().seen;
        seen.insert(0, shown);
        seen.truncate(SEEN_MAX);
    }

    /// What a task may know of variables by its templates.
    pub(super) fn seen(&self, of: TaskRef) -> Vec<Arc<Shown>> {
        let all = self.all();
        let task = all.get(&(of.alloc, of.task));
        task.map(|task| task.seen.iter().chain(&task.complete).cloned().collect()).unwrap_or_default()
    }

    fn writes(&self, of: TaskRef) -> Arc<Writes> {
        self.all().entry((of.alloc, of.task)).or_default().writes.clone()
    }

    /// An allocation has ended.
    pub(super) fn end(&self, alloc: AllocId) {
        let mut all = self.all();
        if !all.is_empty() {
            all.retain(|(of, _), _| *of != alloc);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(AllocId, u16), TaskShown>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Orders what the starts of one task write. A write goes on when the start that began it has ended: it must not land upon what the
/// next one has written.
#[derive(Debug, Default)]
struct Writes {
    /// The start that wrote last.
    attempt: Mutex<u32>,
}

impl Writes {
    /// Writes something of one start, unless a later one has begun to write.
    fn by<T>(&self, attempt: u32, write: impl FnOnce() -> T) -> Option<T> {
        let mut last = self.attempt.lock().unwrap_or_else(PoisonError::into_inner);
        if *last > attempt {
            return None;
        }
        *last = attempt;
        Some(write())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_start_writes_after_a_later_one() {
        let (held, of) = (HeldShown::default(), TaskRef { alloc: AllocId([1; 16]), task: 0, attempt: 1 });
        let (first, second) = (held.writes(of), held.writes(TaskRef { attempt: 2, ..of }));
        assert_eq!(first.by(1, || "one"), Some("one"));
        assert_eq!(second.by(2, || "two"), Some("two"));
        assert_eq!(first.by(1, || "late"), None);
        assert_eq!(second.by(2, || "again"), Some("again"));
    }

    #[test]
    fn what_was_said_before_is_known_for_a_while() {
        let (held, of) = (HeldShown::default(), TaskRef { alloc: AllocId([1; 16]), task: 0, attempt: 1 });
        for index in 1..=3 {
            held.see(of, Arc::new(Shown { index, ..Shown::default() }));
        }
        assert_eq!(held.seen(of).iter().map(|shown| shown.index).collect::<Vec<_>>(), [3, 2]);
        held.end(of.alloc);
        assert!(held.seen(of).is_empty());
    }
}
