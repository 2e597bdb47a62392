//! The servers that run, as people see them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{random::Random, server::Server};

/// The present run of each, none while it is down. A clone is the same list.
#[derive(Clone)]
pub struct Servers(Arc<Mutex<Vec<Option<Server>>>>);

impl Servers {
    /// So many, all down.
    pub fn new(count: usize) -> Self {
        Self(Arc::new(Mutex::new(vec![None; count])))
    }

    /// All of them.
    pub fn all(&self) -> MutexGuard<'_, Vec<Option<Server>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that answers.
    pub fn open(&self, random: &mut Random) -> Option<Server> {
        let open: Vec<Server> =
            self.all().iter().flatten().filter(|server| server.is_open()).cloned().collect();
        if open.is_empty() { None } else { Some(random.pick(&open).clone()) }
    }
}
