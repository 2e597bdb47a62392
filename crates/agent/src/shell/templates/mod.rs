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

/// What templates of all tasks showed last, for starts while no server answers.
#[derive(Debug, Default)]
pub(super) struct HeldShown(Mutex<HashMap<(AllocId, u16), Arc<Shown>>>);

impl HeldShown {
    fn of(&self, of: TaskRef) -> Option<Arc<Shown>> {
        self.all().get(&(of.alloc, of.task)).cloned()
    }

    fn hold(&self, of: TaskRef, shown: Arc<Shown>) {
        self.all().insert((of.alloc, of.task), shown);
    }

    /// An allocation has ended.
    pub(super) fn end(&self, alloc: AllocId) {
        let mut all = self.all();
        if !all.is_empty() {
            all.retain(|(of, _), _| *of != alloc);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<(AllocId, u16), Arc<Shown>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
