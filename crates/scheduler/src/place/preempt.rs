//! Preemption: which allocations of lower priority to end where nothing is free, so that as little as possible is lost.
//!
//! The node is the one on which the highest priority that must go is lowest, then where the fewest allocations must
//! go, then the first in the store. Sums of what each priority holds bound the first of these from below, so that few
//! nodes are looked into.

use std::collections::HashSet;

use berth_model::{
    AllocId,
    alloc::{Stop, StopReason},
    job::{Job, JobType},
    resources::Resources,
    store::{AllocRow, AllocSlot, NodeSlot, Store},
};

/// How much lower the priority of what is pushed out must be.
pub const PRIORITY_GAP: u8 = 10;
/// Allocations of one node among which all pairs are tried; among more, the largest are taken first.
const PAIRS_MAX: usize = 64;

/// What each priority holds on each node.
#[derive(Debug, Default)]
pub struct Evictable {
    nodes: Vec<Bands>,
    position: u64,
}

/// By priority, the lowest first.
type Bands = Vec<Band>;

/// What allocations of one priority hold on a node; service work apart from batch work.
#[derive(Debug, Clone, Copy)]
struct Band {
    priority: u8,
    batch: bool,
    sum: Resources,
    /// The most that any of them holds of each.
    largest: Resources,
}

/// Ends other jobs' allocations for one job.
#[derive(Debug)]
pub struct Preemptor<'a> {
    evictable: &'a mut Evictable,
    /// Nothing above this is pushed out.
    priority_max: u8,
    /// Whether batch work is.
    batch: bool,
    taken: HashSet<AllocId>,
    /// What is to end.
    pub stops: Vec<Stop>,
}

/// An allocation that may be pushed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// Where it is.
    pub slot: AllocSlot,
    /// Its id.
    pub id: AllocId,
    /// What it leaves.
    pub room: Resources,
    priority: u8,
}

/// What a node would lose, and the highest priority among it.
#[derive(Debug)]
struct Loss {
    priority: u8,
    victims: Vec<Victim>,
}

impl Loss {
    fn cost(&self) -> (u8, usize) {
        (self.priority, self.victims.len())
    }
}

impl<'a> Preemptor<'a> {
    /// For a job that may push out others; none for one that may not.
    pub fn of(store: &Store, job: &Job, evictable: &'a mut Evictable) -> Option<Self> {
        let preemption = store.scheduler_config().preemption;
        let priority_max = job.priority.checked_sub(PRIORITY_GAP)?;
        let batch = !job.job_type.runs_to_completion() || preemption.batch_on_batch;
        preemption.is_on_for(job.job_type).then(|| {
            evictable.follow(store);
            Self { evictable, priority_max, batch, taken: HashSet::new(), stops: Vec::new() }
        })
    }

    /// Whom to push out on which of `slots`, and what `place` makes of that node without them. `needed` tells what a
    /// node lacks; none when it cannot be used at all.
    pub fn find<T>(
        &self,
        store: &Store,
        slots: impl Iterator<Item = NodeSlot>,
        needed: impl Fn(NodeSlot) -> Option<Resources>,
        place: impl Fn(NodeSlot, &[Victim]) -> Option<T>,
    ) -> Option<(Vec<Victim>, T)> {
        let lowest = self.evictable.lowest(self.batch);
        let mut best: Option<(Loss, T)> = None;
        for node in slots {
            let Some(needed) = needed(node) else { continue };
            let Some(bound) = self.bound(node, needed) else { continue };
            if best.as_ref().is_some_and(|(best, _)| best.cost() <= bound) {
                continue;
            }
            let Some(loss) = self.solve(store, node, needed) else { continue };
            if best.as_ref().is_some_and(|(best, _)| best.cost() <= loss.cost()) {
                continue;
            }
            let Some(placed) = place(node, &loss.victims) else { continue };
            let is_least = loss.cost() <= (lowest, 1);
            best = Some((loss, placed));
            if is_least {
                break;
            }
        }
        best.map(|(loss, placed)| (loss.victims, placed))
    }

    /// These are to end.
    pub fn evict(&mut self, victims: &[Victim]) {
        self.taken.extend(victims.iter().map(|victim| victim.id));
        let stop = |victim: &Victim| Stop { alloc: victim.id, reason: StopReason::Preempted };
        self.stops.extend(victims.iter().map(stop));
    }

    /// The least that a node can lose: the highest priority that must go, and how many allocations. None when it has not
    /// enough of lower priority.
    fn bound(&self, node: NodeSlot, needed: Resources) -> Option<(u8, usize)> {
        let (mut sum, mut largest) = (Resources::ZERO, Resources::ZERO);
        let low = |band: &&Band| band.priority <= self.priority_max && (self.batch || !band.batch);
        for band in self.evictable.nodes.get(node.0 as usize)?.iter().filter(low) {
            sum = sum.plus(band.sum);
            largest = largest.max(band.largest);
            if needed.exceeds(sum).is_none() {
                return Some((band.priority, times(needed, largest)));
            }
        }
        None
    }

    fn solve(&self, store: &Store, node: NodeSlot, needed: Resources) -> Option<Loss> {
        let mut victims = self.victims(store, node);
        victims.sort_unstable_by_key(|victim| victim.priority);
        let mut sum = Resources::ZERO;
        let enough = victims.iter().position(|victim| {
            sum = sum.plus(victim.room);
            needed.exceeds(sum).is_none()
        })?;
        let priority = victims[enough].priority;
        victims.retain(|victim| victim.priority <= priority);
        Some(Loss { priority, victims: fewest(victims, needed) })
    }

    fn victims(&self, store: &Store, node: NodeSlot) -> Vec<Victim> {
        let Some(row) = store.nodes().row(node) else { return Vec::new() };
        let live = store.nodes().live(row).filter_map(|slot| Some((slot, store.allocs().row(slot)?)));
        live.filter(|(_, alloc)| alloc.is_wanted() && !self.taken.contains(&alloc.id))
            .filter_map(|(slot, alloc)| {
                let (priority, batch) = band(store, alloc)?;
                let is_low = priority <= self.priority_max && (self.batch || !batch);
                let room = store.room_to_promise(slot);
                is_low.then_some(Victim { slot, id: alloc.id, room, priority })
            })
            .collect()
    }
}

/// How often an amount must be taken to have what is needed.
fn times(needed: Resources, amount: Resources) -> usize {
    let of = |needed: u32, amount: u32| needed.div_ceil(amount.max(1)) as usize;
    let (cpu, memory) = (of(needed.cpu_mhz, amount.cpu_mhz), of(needed.memory_mb, amount.memory_mb));
    cpu.max(memory).max(of(needed.disk_mb, amount.disk_mb)).max(1)
}

/// As few of these as suffice, and none that is not needed.
fn fewest(mut victims: Vec<Victim>, needed: Resources) -> Vec<Victim> {
    let suffice = |some: &[Victim]| {
        needed.exceeds(some.iter().fold(Resources::ZERO, |sum, victim| sum.plus(victim.room))).is_none()
    };
    if let Some(one) = victims.iter().find(|victim| suffice(&[**victim])) {
        return vec![*one];
    }
    if victims.len() <= PAIRS_MAX {
        let pairs =
            victims.iter().enumerate().flat_map(|(at, a)| victims[..at].iter().map(move |b| [*a, *b]));
        if let Some(pair) = pairs.into_iter().find(|pair| suffice(pair)) {
            return pair.to_vec();
        }
    }
    let share = |part: u32, of: u32| if of == 0 { 0.0 } else { f64::from(part.min(of)) / f64::from(of) };
    let worth = |victim: &Victim| {
        let Resources { cpu_mhz, memory_mb, disk_mb } = victim.room;
        share(cpu_mhz, needed.cpu_mhz) + share(memory_mb, needed.memory_mb) + share(disk_mb, needed.disk_mb)
    };
    victims.sort_by(|a, b| worth(b).total_cmp(&worth(a)));
    let mut kept: Vec<Victim> = Vec::new();
    for victim in victims {
        if suffice(&kept) {
            break;
        }
        kept.push(victim);
    }
    // What was taken early may have become needless by what came later.
    for at in (0..kept.len()).rev() {
        let victim = kept.remove(at);
        if !suffice(&kept) {
            kept.insert(at, victim);
        }
    }
    kept
}

impl Evictable {
    fn follow(&mut self, store: &Store) {
        let nodes = store.nodes();
        self.nodes.resize(nodes.slots(), Bands::new());
        match nodes.changes_since(self.position) {
            Some(changed) => changed.for_each(|slot| self.refresh(store, slot)),
            None => (0..nodes.slots())
                .filter_map(|at| u32::try_from(at).ok())
                .for_each(|at| self.refresh(store, NodeSlot(at))),
        }
        self.position = nodes.changes_end();
    }

    fn refresh(&mut self, store: &Store, slot: NodeSlot) {
        let bands = &mut self.nodes[slot.0 as usize];
        bands.clear();
        let Some(row) = store.nodes().row(slot) else { return };
        for alloc in store.nodes().live(row).filter_map(|slot| store.allocs().row(slot)) {
            let Some((priority, batch)) = band(store, alloc) else { continue };
            let (sum, largest) = (alloc.held, alloc.held);
            match bands.iter_mut().find(|band| (band.priority, band.batch) == (priority, batch)) {
                Some(band) => {
                    band.sum = band.sum.plus(sum);
                    band.largest = band.largest.max(largest);
                }
                None => bands.push(Band { priority, batch, sum, largest }),
            }
        }
        bands.sort_unstable_by_key(|band| (band.priority, band.batch));
    }

    /// No loss is below this priority.
    fn lowest(&self, batch: bool) -> u8 {
        let first = |bands: &Bands| bands.iter().find(|band| batch || !band.batch).map(|band| band.priority);
        self.nodes.iter().filter_map(first).min().unwrap_or(0)
    }
}

/// The priority of an allocation, and whether it is batch work.
fn band(store: &Store, alloc: &AllocRow) -> Option<(u8, bool)> {
    let (job, _) = store.job_of(alloc)?;
    Some((job.priority, matches!(job.job_type, JobType::Batch | JobType::Sysbatch)))
}
