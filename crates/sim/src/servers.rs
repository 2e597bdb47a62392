//! The servers that run, as people see them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{
    random::Random,
    server::{MemberRole, Server},
};

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

    /// The one that leads, as it believes itself.
    fn leader(&self) -> Option<Server> {
        self.all().iter().flatten().find(|server| server.leads()).cloned()
    }

    /// What a server is to the cluster, and who leads it; none while nobody does for sure.
    pub fn standing(&self, id: u64) -> Option<(MemberRole, Server)> {
        self.all().iter().flatten().find_map(|server| Some((server.standing(id)?, server.clone())))
    }

    /// The leader is to hand over to a server, counted from 0.
    pub fn hand_over(&self, to: usize) {
        self.leader().into_iter().for_each(|leader| leader.hand_over(to));
    }

    /// A server is taken out of the cluster, unless it leads.
    pub fn remove(&self, server: usize) {
        self.leader().into_iter().for_each(|leader| leader.remove(server));
    }
}
