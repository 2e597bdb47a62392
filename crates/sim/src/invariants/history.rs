//! The one history: every entry that any server has applied, applied once more here. I1: what was committed never changes.

use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

use berth_model::{
    Index,
    command::{Command, Entry},
    event::AppliedEntry,
    store::Store,
};

use super::{CheckResult, i09_preemption};

/// Entries of one index that are remembered; more would be a violation by itself.
const CANDIDATES_MAX: usize = 8;

/// One entry that was applied.
pub struct AppliedStep {
    /// What was decided.
    pub entry: Entry,
    /// What became of it.
    pub applied: AppliedEntry,
    /// Of the state after it.
    pub hash: u128,
}

/// Whether one entry came to the same twice. Slots are of one store and of no other: they begin again with a snapshot.
fn same(one: &AppliedEntry, other: &AppliedEntry) -> bool {
    let kinds =
        |applied: &AppliedEntry| applied.events.iter().map(std::mem::discriminant).collect::<Vec<_>>();
    (one.index, one.at, &one.outcomes) == (other.index, other.at, &other.outcomes)
        && kinds(one) == kinds(other)
}

/// All of them, in order.
pub struct History {
    store: Store,
    steps: Vec<Arc<AppliedStep>>,
    positions: BTreeMap<Index, usize>,
    /// The newest first, each with the term of the leadership that made it.
    proposed: BTreeMap<Index, VecDeque<(u64, Entry)>>,
    /// How many of them each server has applied.
    at: Vec<usize>,
    /// Commands of all of them.
    commands: usize,
}

impl History {
    /// Nothing was applied yet.
    pub fn new(servers: usize) -> Self {
        Self {
            store: Store::default(),
            steps: Vec::new(),
            positions: BTreeMap::new(),
            proposed: BTreeMap::new(),
            at: vec![0; servers],
            commands: 0,
        }
    }

    /// The state after all of it.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// How many entries were applied.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// How many commands are in them.
    pub fn commands_count(&self) -> usize {
        self.commands
    }

    /// What was applied after the first so many entries.
    pub fn since(&self, before: usize) -> impl Iterator<Item = &AppliedStep> {
        self.steps.iter().skip(before).map(|step| &**step)
    }

    /// The commands in it, with the index of their entries and what became of them.
    pub fn commands(&self) -> impl Iterator<Item = (Index, &Command)> {
        self.steps
            .iter()
            .flat_map(|step| step.entry.commands.iter().map(|command| (step.entry.index, command)))
    }

    /// The commands of the entry at an index, and whether each did what it says.
    pub fn outcomes(&self, index: Index) -> impl Iterator<Item = (&Command, bool)> {
        self.at(index)
            .into_iter()
            .flat_map(|step| step.entry.commands.iter().zip(step.applied.outcomes.iter().map(Result::is_ok)))
    }

    /// The indexes of entries after one and before another.
    pub fn between(&self, after: Index, before: Index) -> impl Iterator<Item = Index> {
        let from = self.positions.range((Bound::Excluded(after), Bound::Unbounded));
        from.map(|(index, _)| *index).take_while(move |index| *index < before)
    }

    /// The entry at an index.
    pub fn at(&self, index: Index) -> Option<&AppliedStep> {
        self.positions.get(&index).map(|position| &*self.steps[*position])
    }

    /// Whether nothing was applied between two entries.
    pub fn follows(&self, before: Index, after: Index) -> bool {
        let position = |index| self.positions.get(&index).copied();
        position(before).map(|before| before + 1) == position(after)
    }

    pub fn on_proposed(&mut self, term: u64, entry: &Entry) {
        let candidates = self.proposed.entry(entry.index).or_default();
        // A leader that does not know yet that it is deposed may propose after the next one has, and in vain.
        let newer = candidates.iter().take_while(|(of, _)| *of > term).count();
        candidates.insert(newer, (term, entry.clone()));
        candidates.truncate(CANDIDATES_MAX);
    }

    pub fn on_not_written(&mut self, term: u64, index: Index) {
        if let Some(candidates) = self.proposed.get_mut(&index) {
            candidates.retain(|(of, _)| *of != term);
        }
    }

    /// A server has applied its next entry; the step, if it is the first server to do so.
    pub fn on_applied(
        &mut self,
        server: usize,
        applied: &AppliedEntry,
    ) -> Result<Option<Arc<AppliedStep>>, (&'static str, String)> {
        let position = self.at[server];
        self.at[server] += 1;
        if let Some(step) = self.steps.get(position) {
            if !same(&step.applied, applied) {
                let (here, there) = (applied.index, step.applied.index);
                let what = format!("server {} applied {here} where {there} had been applied", server + 1);
                return Err(("I1 committed entries never change", what));
            }
            return Ok(None);
        }
        let newest = self.proposed.get(&applied.index).and_then(|candidates| candidates.front());
        let Some((_, entry)) = newest.cloned() else {
            let what = format!("server {} applied {}, which nobody had proposed", server + 1, applied.index);
            return Err(("I2 nothing comes from nowhere", what));
        };
        let index = entry.index;
        if entry.version < self.store.version() {
            let what =
                format!("{index} is of version {}, after one of {}", entry.version, self.store.version());
            return Err(("I1 the version of entries never falls", what));
        }
        i09_preemption::check(&self.store, &entry)?;
        let again = self.store.apply(entry.clone());
        if !same(&again, applied) {
            let what = format!("{index} came to something else when it was applied again");
            return Err(("I4 apply gives the same everywhere", what));
        }
        if self.positions.insert(index, position).is_some() {
            return Err(("I5 no index is used twice", format!("{index} was applied twice")));
        }
        // Its changes name slots of this state: a server that began with a snapshot has others.
        self.commands += entry.commands.len();
        let step = AppliedStep { entry, applied: again, hash: self.store.hash() };
        self.steps.push(Arc::new(step));
        Ok(self.steps.last().cloned())
    }

    /// The last entry that a server has applied; none before the first.
    pub fn last_of(&self, server: usize) -> Option<&AppliedStep> {
        self.at[server].checked_sub(1).and_then(|last| self.steps.get(last)).map(|step| &**step)
    }

    /// A server has read a state, from its own disk or another's: the entry after which it was; none of a state in which
    /// nothing had been applied, or which never was.
    pub fn on_read(&mut self, server: usize, index: Index) -> Option<&AppliedStep> {
        let position = self.positions.get(&index).copied();
        self.at[server] = position.map_or(0, |position| position + 1);
        self.steps.get(position?).map(|step| &**step)
    }

    /// A server serves: one that is alone has all that was ever applied.
    pub fn on_open(&self, server: usize) -> CheckResult {
        if self.at.len() > 1 || self.at[server] == self.steps.len() {
            return Ok(());
        }
        let (has, all) = (self.at[server], self.steps.len());
        Err((
            "I2 what was applied is never lost",
            format!("server {} serves {has} of {all} entries", server + 1),
        ))
    }

    /// All servers have all of it.
    pub fn at_rest(&self) -> CheckResult {
        match self.at.iter().position(|at| *at != self.steps.len()) {
            None => Ok(()),
            Some(server) => {
                let what =
                    format!("server {} has {} of {} entries", server + 1, self.at[server], self.steps.len());
                Err(("R4 all servers catch up", what))
            }
        }
    }
}
