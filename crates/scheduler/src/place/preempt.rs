//! Preemption: which allocations of lower priority to end where nothing is free, so that as little as possible is lost.
//!
//! The node is the one on which the highest priority that must go is lowest, then where the fewest allocations must
//! go, then the first in the store. What each node could free at most bounds its cost from below, so that few nodes are
//! looked into. What still waits for a predecessor stays: what it holds is not its own yet.

mod block;
mod bulk;
mod cost;
mod evictable;
mod fewest;
mod reaches;
mod seats;

use std::{cmp::Reverse, collections::HashSet};

use berth_model::{
    AllocId,
    alloc::{Stop, StopReason},
    job::Job,
    resources::Resources,
    store::{AllocExtra, AllocRow, AllocSlot, JobSlot, NodeSlot, Store},
};

use block::requested;
use bulk::devices_milli;
pub use bulk::{ResourceVector, free_milli};
use cost::Cost;
pub use evictable::Evictable;
use fewest::fewest;
use reaches::{BlockBound, Reaches};

use crate::fairness::Reclaim;

/// How much lower the priority of what is preempted must be.
pub const PRIORITY_GAP: u8 = 10;

/// Ends other jobs' allocations for one job.
#[derive(Debug)]
pub struct Preemptor<'a> {
    evictable: &'a mut Evictable,
    job: Option<JobSlot>,
    /// Its priority.
    priority: u8,
    /// What its namespace may take back, whoever holds it, up to its own priority.
    reclaim: Reclaim,
    /// Whether batch work is.
    batch: bool,
    taken: HashSet<AllocId>,
    /// Nodes that the plan has changed since they were last looked at.
    changed: Vec<NodeSlot>,
    follows: bool,
    /// What is to end.
    pub stops: Vec<Stop>,
}

/// Whoever places an allocation, as far as the search for victims must know.
pub trait Placing {
    /// What is asked of every node at least.
    fn requested(&self) -> ResourceVector;

    /// Nodes on which own predecessors leave capacity or devices.
    fn inherits(&self) -> Vec<NodeSlot>;

    /// What is free on a node for the plan at work.
    fn free(&self, node: NodeSlot) -> ResourceVector;

    /// What a node lacks; none when it cannot be used, whoever goes.
    fn lacking(&self, node: NodeSlot) -> Option<ResourceVector>;

    /// What it is to the allocation that others hold besides capacity.
    fn use_of(&self, extra: &AllocExtra) -> HeldUse;

    /// Whether there is a place on a node once these have ended.
    fn fits(&self, node: NodeSlot, victims: &[Victim]) -> bool;
}

/// What becomes of what one allocation holds besides capacity when it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldUse {
    /// It is of no use to another one.
    None,
    /// The other one may need it.
    May,
    /// The other one cannot be placed there without it.
    Must,
}

/// An allocation that may be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// Its slot in the store.
    pub slot: AllocSlot,
    /// Its id.
    pub id: AllocId,
    /// The capacity that it leaves.
    pub room: Resources,
    bulk: ResourceVector,
    priority: u8,
    must: bool,
}

/// What is lost on a node.
#[derive(Debug)]
pub struct VictimSet {
    /// The node.
    pub node: NodeSlot,
    /// Allocations to preempt there.
    pub victims: Vec<Victim>,
    cost: Cost,
}

impl<'a> Preemptor<'a> {
    /// For a job that may preempt others; none for one that may not.
    pub fn of(store: &Store, job: &Job, evictable: &'a mut Evictable) -> Option<Self> {
        let preemption = store.scheduler_config().preemption;
        let batch = !job.job_type.runs_to_completion() || preemption.batch_on_batch;
        preemption.is_on_for(job.job_type).then(|| Self {
            evictable,
            job: store.jobs().find(&job.key),
            priority: job.priority,
            reclaim: Reclaim::of(store, &job.key.namespace),
            batch,
            taken: HashSet::new(),
            changed: Vec::new(),
            follows: false,
            stops: Vec::new(),
        })
    }

    /// These of the namespace's quotas guarantee more than is held of them now.
    pub fn set_short(&mut self, short: Vec<String>) {
        self.reclaim.set_short(short);
    }

    /// Nothing above this is preempted.
    fn priority_max(&self) -> u8 {
        if self.reclaim.is_due() { self.priority } else { self.priority.saturating_sub(PRIORITY_GAP) }
    }

    /// The least loss with which one more allocation can be placed on any node; none when it cannot.
    pub fn find(&mut self, store: &Store, placing: &impl Placing) -> Option<VictimSet> {
        self.catch_up(store, placing);
        let (requested, reaches) = (requested(placing.requested()), self.evictable.reaches(self.batch));
        let mut least: Option<VictimSet> = None;
        // What own predecessors leave is not among what is free.
        for node in placing.inherits() {
            least = self.solve(store, placing, node, self.worth(least.as_ref(), node)).or(least);
        }
        let mut blocks = reaches.open(&requested, self.priority_max());
        while let Some(Reverse(BlockBound { bound, first, block })) = blocks.pop() {
            let worth = |least: &Option<VictimSet>, node| self.worth(least.as_ref(), node);
            if bound > worth(&least, first) {
                break;
            }
            let mut seats = Reaches::seats(block);
            while let Some((seat, node)) = reaches.next_open(&seats, &requested, worth(&least, first)) {
                seats.start = seat + 1;
                let worth = worth(&least, node);
                if reaches.next_open(&(seat..seat + 1), &requested, worth).is_some() {
                    least = self.solve(store, placing, node, worth).or(least);
                }
            }
        }
        least
    }

    /// The same for one node.
    pub fn find_on(&self, store: &Store, placing: &impl Placing, node: NodeSlot) -> Option<VictimSet> {
        self.solve(store, placing, node, self.worth(None, node))
    }

    /// An allocation goes to a node, and these are to end.
    pub fn evict(&mut self, store: &Store, node: NodeSlot, victims: &[Victim]) {
        self.changed.push(node);
        let rows = victims.iter().filter_map(|victim| store.allocs().row(victim.slot));
        rows.for_each(|row| self.reclaim.take(store, row));
        self.taken.extend(victims.iter().map(|victim| victim.id));
        let stop =
            |victim: &Victim| Stop { alloc: victim.id, reason: StopReason::Preempted, observed_at: None };
        self.stops.extend(victims.iter().map(stop));
    }

    /// The bounds show the state when they are first asked for, and then what the plan does.
    fn catch_up(&mut self, store: &Store, placing: &impl Placing) {
        if !self.follows {
            self.evictable.follow(store, self.batch);
            self.follows = true;
        }
        for node in self.changed.drain(..) {
            let is_there = |alloc: &AllocRow| !self.taken.contains(&alloc.id);
            self.evictable.suppose(store, (node, self.batch), placing.free(node), is_there);
        }
        self.evictable.settle(self.batch);
    }

    /// The most that a loss on a node may cost to be less than the least so far; of equal ones that on the first node is.
    fn worth(&self, least: Option<&VictimSet>, node: NodeSlot) -> Cost {
        let Some(VictimSet { node: at, cost, .. }) = least else {
            return Cost { priority: self.priority_max(), count: usize::MAX };
        };
        Cost { count: if node < *at { cost.count } else { cost.count - 1 }, ..*cost }
    }

    /// The least loss on a node, as long as it costs no more than `most`.
    fn solve(&self, store: &Store, placing: &impl Placing, node: NodeSlot, most: Cost) -> Option<VictimSet> {
        let lacking = placing.lacking(node)?;
        let fits = |some: &[Victim]| placing.fits(node, some);
        let mut victims = self.victims(store, placing, (node, lacking), most.priority);
        victims.sort_by_key(|victim| victim.priority);
        victims.truncate(enough(&victims, lacking, fits)?);
        let priority = victims.last()?.priority;
        let victims = fewest(victims, lacking, fits);
        let cost = Cost { priority, count: victims.len() };
        (cost <= most).then_some(VictimSet { node, victims, cost })
    }

    /// Whom it may help to preempt.
    fn victims(
        &self,
        store: &Store,
        placing: &impl Placing,
        (node, lacking): (NodeSlot, ResourceVector),
        priority_max: u8,
    ) -> Vec<Victim> {
        let desired = evictable::desired(store, node, self.batch);
        let others = desired.filter(|(_, alloc, priority)| {
            *priority <= priority_max && Some(alloc.job) != self.job && !self.taken.contains(&alloc.id)
        });
        let mut gone = self.reclaim.gone();
        let may_go = |(_, alloc, priority): &(AllocSlot, &AllocRow, u8)| {
            priority.saturating_add(PRIORITY_GAP) <= self.priority
                || self.reclaim.may_take(store, alloc, &mut gone)
        };
        others
            .filter(may_go)
            .filter_map(|(slot, alloc, priority)| {
                let extra = store.allocs().extra(slot);
                let (devices, of_use) = extra.map_or((0, HeldUse::None), |extra| {
                    (devices_milli(&extra.devices), placing.use_of(extra))
                });
                let room = store.resources_to_promise(slot);
                let bulk = ResourceVector::of(room, devices);
                let helps = of_use != HeldUse::None || lacking.minus(bulk) != lacking;
                let waits = extra.is_some_and(|extra| extra.after.iter().any(|(id, _)| lives(store, *id)));
                let must = of_use == HeldUse::Must;
                (helps && !waits).then_some(Victim { slot, id: alloc.id, room, bulk, priority, must })
            })
            .collect()
    }
}

fn lives(store: &Store, id: AllocId) -> bool {
    store.alloc(id).is_some_and(|(_, alloc)| !alloc.is_terminal())
}

/// How many of those of the lowest priorities suffice, all of one priority together.
fn enough(
    victims: &[Victim],
    mut lacking: ResourceVector,
    fits: impl Fn(&[Victim]) -> bool,
) -> Option<usize> {
    let mut count = 0;
    for equal in victims.chunk_by(|a, b| a.priority == b.priority) {
        lacking = equal.iter().fold(lacking, |left, victim| left.minus(victim.bulk));
        count += equal.len();
        if lacking == ResourceVector::default() && fits(&victims[..count]) {
            return Some(count);
        }
    }
    None
}
