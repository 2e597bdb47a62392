//! I5: the index only grows and is never used twice; each server publishes every entry once, in order, and of what agents observe
//! the latest at least once.

use std::collections::BTreeMap;

use berth_model::{AllocId, Index, event::StateChange};

use super::{CheckResult, history::History};

const RULE: &str = "I5 the index only grows, and every entry is published once";
const OBSERVED: &str = "I5 the latest that is observed is told";

/// What was used.
pub struct Indexes {
    /// What was shown of each allocation at the index of an observed change, by any server: one that is ahead leaves out what it
    /// knows to have ended, or to be forgotten.
    seen: BTreeMap<Index, BTreeMap<AllocId, u128>>,
    runs: Vec<ServerRun>,
}

/// What one run of a server has published.
#[derive(Default, Clone)]
struct ServerRun {
    last: Index,
    /// The last entry whose changes were published; none before the first.
    logged: Option<Index>,
    /// What whoever follows it knows of each allocation.
    told: BTreeMap<AllocId, u128>,
}

impl Indexes {
    pub fn new(servers: usize) -> Self {
        Self { seen: BTreeMap::new(), runs: vec![ServerRun::default(); servers] }
    }

    pub fn on_rebuilt(&mut self, server: usize) {
        self.runs[server] = ServerRun::default();
    }

    /// A new run begins, or a snapshot replaces the state; what is published is above all before.
    pub fn on_restart(&mut self, server: usize) {
        let run = &mut self.runs[server];
        run.logged = None;
    }

    /// Whoever follows a server begins with all that it shows, as hashes of what is observed of allocations.
    pub fn on_full_read(&mut self, server: usize, all: &[(AllocId, u128)]) {
        self.on_restart(server);
        self.runs[server].told = all.iter().copied().collect();
    }

    pub fn on_published(
        &mut self,
        server: usize,
        index: Index,
        logged: &[(Index, Vec<StateChange>)],
        seen: &[(Index, Vec<(AllocId, u128)>)],
        history: &History,
    ) -> CheckResult {
        let last = self.runs[server].last;
        if index < last {
            return Err((RULE, format!("server {} published {index} after {last}", server + 1)));
        }
        for (index, _) in logged.iter().filter(|(index, _)| history.at(*index).is_some()) {
            self.on_logged(server, *index, last, history)?;
        }
        for (index, changes) in seen {
            self.on_seen(server, *index, last, changes, history)?;
        }
        self.runs[server].last = index;
        Ok(())
    }

    fn on_logged(&mut self, server: usize, index: Index, last: Index, history: &History) -> CheckResult {
        let before = self.runs[server].logged.replace(index);
        if index <= last {
            return Err((RULE, format!("server {} published entry {index} after {last}", server + 1)));
        }
        if self.seen.contains_key(&index) {
            return Err((RULE, format!("{index} is an entry's and an observed change's")));
        }
        let follows = before.is_none_or(|before| history.follows(before, index));
        if follows {
            return Ok(());
        }
        let before = before.unwrap_or_default();
        Err((
            RULE,
            format!("server {} published entry {index} right after {before}: one is missing", server + 1),
        ))
    }

    fn on_seen(
        &mut self,
        server: usize,
        index: Index,
        last: Index,
        changes: &[(AllocId, u128)],
        history: &History,
    ) -> CheckResult {
        if index <= last || history.at(index).is_some() {
            let what = format!("server {} published an observed change at {index} after {last}", server + 1);
            return Err((RULE, what));
        }
        let hashes = self.seen.entry(index).or_default();
        for (id, hash) in changes {
            if *hashes.entry(*id).or_insert(*hash) != *hash {
                let what = format!("server {} shows {id} at {index} otherwise than another", server + 1);
                return Err((RULE, what));
            }
        }
        self.runs[server].told.extend(changes.iter().copied());
        Ok(())
    }

    /// Whoever follows a server knows what it shows.
    pub fn at_rest(&self, server: usize, state: &[(AllocId, u128)]) -> CheckResult {
        let followed = &self.runs[server].told;
        match state.iter().find(|(id, hash)| followed.get(id) != Some(hash)) {
            None => Ok(()),
            Some((id, _)) => {
                let what = format!("what server {} shows of {id} was told to nobody", server + 1);
                Err((OBSERVED, what))
            }
        }
    }
}
