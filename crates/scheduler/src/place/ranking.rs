//! The best node first, for one kind of ask: a heap that follows the changes of rows, so that each placement costs
//! O(log nodes) while all nodes are considered.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashMap},
};

use berth_model::{resources::Resources, store::NodeSlot};

use super::{columns::Columns, feasible::Feasible};
use crate::{filters::Signature, scores::bin_pack};

/// Rankings kept; the least recently used one goes.
const RANKINGS_MAX: usize = 64;

/// The nodes on which an ask fits, best first. Ties go to the lower slot: the node that registered earlier.
#[derive(Debug)]
pub struct Ranking {
    ask: Resources,
    heap: BinaryHeap<Entry>,
    /// Valid entries that the plan at work cannot use.
    set_aside: Vec<Entry>,
    position: u64,
    epoch: u64,
    used: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    score: f64,
    slot: u32,
    version: u32,
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.slot.cmp(&self.slot))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl Ranking {
    fn new(ask: Resources) -> Self {
        Self { ask, heap: BinaryHeap::new(), set_aside: Vec::new(), position: 0, epoch: u64::MAX, used: 0 }
    }

    /// Catches up with the rows.
    pub fn follow(&mut self, columns: &Columns, feasible: &Feasible) {
        let outgrown = self.heap.len() > 2 * columns.len() + 1024;
        let changed =
            columns.changed_since(self.position).filter(|_| self.epoch == columns.epoch() && !outgrown);
        match changed {
            Some(changed) => {
                for slot in changed {
                    self.enter(NodeSlot(*slot), columns, feasible);
                }
            }
            None => self.rebuild(columns, feasible),
        }
        self.position = columns.log_end();
        self.epoch = columns.epoch();
    }

    /// The best node that was not set aside. It stays in the ranking until its row changes.
    pub fn best(&mut self, columns: &Columns) -> Option<NodeSlot> {
        while let Some(top) = self.heap.peek() {
            let slot = NodeSlot(top.slot);
            if columns.row(slot).version == top.version {
                return Some(slot);
            }
            self.heap.pop();
        }
        None
    }

    /// The best node cannot be used by the plan at work.
    pub fn set_best_aside(&mut self) {
        self.set_aside.extend(self.heap.pop());
    }

    /// The next plan may use all nodes again.
    pub fn restore(&mut self) {
        self.heap.extend(self.set_aside.drain(..));
    }

    fn rebuild(&mut self, columns: &Columns, feasible: &Feasible) {
        self.heap.clear();
        self.set_aside.clear();
        let entries = columns.slots().filter_map(|slot| self.entry(slot, columns, feasible));
        self.heap = entries.collect::<Vec<_>>().into();
    }

    fn enter(&mut self, slot: NodeSlot, columns: &Columns, feasible: &Feasible) {
        if let Some(entry) = self.entry(slot, columns, feasible) {
            self.heap.push(entry);
        }
    }

    fn entry(&self, slot: NodeSlot, columns: &Columns, feasible: &Feasible) -> Option<Entry> {
        let row = columns.row(slot);
        let fits = row.ready && feasible.fits(slot) && self.ask.exceeds(row.free).is_none();
        fits.then(|| Entry {
            score: bin_pack(row.capacity, row.free, self.ask),
            slot: slot.0,
            version: row.version,
        })
    }
}

/// The rankings of the asks seen lately.
#[derive(Debug, Default)]
pub struct RankingCache {
    rankings: HashMap<(Signature, Resources), Ranking>,
    clock: u64,
}

impl RankingCache {
    /// The ranking of an ask, caught up with the rows.
    pub fn get(
        &mut self,
        signature: &Signature,
        ask: Resources,
        columns: &Columns,
        feasible: &Feasible,
    ) -> &mut Ranking {
        self.clock += 1;
        let key = (signature.clone(), ask);
        if self.rankings.len() >= RANKINGS_MAX && !self.rankings.contains_key(&key) {
            self.drop_oldest();
        }
        let ranking = self.rankings.entry(key).or_insert_with(|| Ranking::new(ask));
        ranking.used = self.clock;
        ranking.follow(columns, feasible);
        ranking
    }

    fn drop_oldest(&mut self) {
        let oldest = self.rankings.iter().min_by_key(|(_, r)| r.used).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.rankings.remove(&key);
        }
    }
}
