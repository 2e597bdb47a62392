//! Templates of a task: rendered into its files before it starts, and again when what they show has changed.
//!
//! What they show of variables comes from the server that the agent is connected to, which says what the task itself may read. It is
//! asked by a message of the agents' protocol and not by the HTTP API that tasks reach by their sockets: a task needs no token for its
//! templates then, one request stands for all that a task's templates show, and what waits costs no connection.

mod data;
mod env_file;
mod file_path;
mod follow;
mod load;
mod notify;
mod pending;
mod record;
mod start;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use berth_api::agent::AllocId;

use data::TemplateData;
pub(super) use follow::alongside;
pub(super) use start::{Following, obtain};

use crate::lifecycle::TaskRef;

/// What is held of the templates of all tasks.
#[derive(Debug, Default)]
pub(super) struct HeldTemplateData(Mutex<HashMap<(AllocId, u16), TaskTemplateData>>);

/// What is held of the templates of one task.
#[derive(Debug, Default)]
struct TaskTemplateData {
    /// What its files showed last, for starts while no server answers.
    complete: Option<Arc<TemplateData>>,
    /// The last data from a server, and the data before it: a process may still use that.
    seen: Vec<Arc<TemplateData>>,
    writes: Arc<WriteOrder>,
}

/// How many answers of a server are remembered, so that their values can be redacted.
const SEEN_MAX: usize = 2;

impl HeldTemplateData {
    fn of(&self, of: TaskRef) -> Option<Arc<TemplateData>> {
        self.all().get(&(of.alloc, of.task))?.complete.clone()
    }

    fn hold(&self, of: TaskRef, data: Arc<TemplateData>) {
        self.all().entry((of.alloc, of.task)).or_default().complete = Some(data);
    }

    /// Adds data from a server.
    fn record(&self, of: TaskRef, data: Arc<TemplateData>) {
        let mut all = self.all();
        let seen = &mut all.entry((of.alloc, of.task)).or_default().seen;
        seen.insert(0, data);
        seen.truncate(SEEN_MAX);
    }

    /// What a task may know of variables by its templates.
    pub(super) fn seen(&self, of: TaskRef) -> Vec<Arc<TemplateData>> {
        let all = self.all();
        let task = all.get(&(of.alloc, of.task));
        task.map(|task| task.seen.iter().chain(&task.complete).cloned().collect()).unwrap_or_default()
    }

    fn writes(&self, of: TaskRef) -> Arc<WriteOrder> {
        self.all().entry((of.alloc, of.task)).or_default().writes.clone()
    }

    /// An allocation has ended.
    pub(super) fn end(&self, alloc: AllocId) {
        let mut all = self.all();
        if !all.is_empty() {
            all.retain(|(of, _), _| *of != alloc);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(AllocId, u16), TaskTemplateData>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Orders what the starts of one task write. A write goes on when the start that began it has ended: it must not land upon what the
/// next one has written.
#[derive(Debug, Default)]
struct WriteOrder {
    /// The start that wrote last.
    attempt: Mutex<u32>,
}

impl WriteOrder {
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
        let (held, of) =
            (HeldTemplateData::default(), TaskRef { alloc: AllocId([1; 16]), task: 0, attempt: 1 });
        let (first, second) = (held.writes(of), held.writes(TaskRef { attempt: 2, ..of }));
        assert_eq!(first.by(1, || "one"), Some("one"));
        assert_eq!(second.by(2, || "two"), Some("two"));
        assert_eq!(first.by(1, || "late"), None);
        assert_eq!(second.by(2, || "again"), Some("again"));
    }

    #[test]
    fn the_answer_before_the_last_is_remembered_too() {
        let (held, of) =
            (HeldTemplateData::default(), TaskRef { alloc: AllocId([1; 16]), task: 0, attempt: 1 });
        for index in 1..=3 {
            held.record(of, Arc::new(TemplateData { index, ..TemplateData::default() }));
        }
        assert_eq!(held.seen(of).iter().map(|data| data.index).collect::<Vec<_>>(), [3, 2]);
        held.end(of.alloc);
        assert!(held.seen(of).is_empty());
    }
}
