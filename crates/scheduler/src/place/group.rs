//! Placing the allocations of one group, one after the other, each on the best node left.

use std::{collections::HashMap, rc::Rc};

use berth_model::{
    AllocId,
    eval::Funnel,
    job::{Group, Job},
    resources::Resources,
    store::{AllocSlot, NodeSlot, Store},
};

use super::{
    columns::Columns,
    distinct::Distinct,
    feasible::{Feasible, FeasibleCache},
    funnel::funnel,
    ports::{self, TakenPorts},
    ranking::{Ranking, RankingCache},
};
use crate::{
    filters::{Filters, constraints_of},
    property::{Property, resolve},
    scores::{SpreadScore, bin_pack},
};

/// One allocation to be placed.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Which of the group's allocations it is.
    pub name_index: u32,
    /// Only here: for jobs with one allocation a node.
    pub only: Option<NodeSlot>,
    /// Rather here, when it fits.
    pub prefer: Option<NodeSlot>,
    /// Rather not here.
    pub avoid: Option<NodeSlot>,
}

/// Where an ask goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The node.
    pub node: NodeSlot,
    /// Host ports, in the order in which the group declares them.
    pub ports: Vec<u16>,
    /// What must have ended there before.
    pub after: Vec<AllocId>,
    /// What it adds to what the node holds.
    pub charge: Resources,
}

/// Places the allocations of one group.
pub struct GroupPlacer<'a> {
    store: &'a Store,
    columns: &'a mut Columns,
    group: &'a Group,
    ask: Resources,
    filters: Filters,
    feasible: Rc<Feasible>,
    ranking: &'a mut Ranking,
    distinct: Distinct,
    spreads: Vec<(Property, SpreadScore)>,
    /// The job's allocations that are to end, by node: their room is their successors'.
    ending: &'a mut Ending,
    port_start: u64,
}

/// The allocations of a job that are to end, by node, with the room of theirs that is not yet promised.
pub type Ending = HashMap<NodeSlot, Vec<(AllocSlot, AllocId, Resources)>>;

impl<'a> GroupPlacer<'a> {
    /// Prepares for one group. `there` are the nodes of the group's allocations that stay; `job_there` those of the
    /// whole job.
    pub fn new(
        store: &'a Store,
        columns: &'a mut Columns,
        caches: (&mut FeasibleCache, &'a mut RankingCache),
        (job, group): (&'a Job, &'a Group),
        (there, job_there): (&[NodeSlot], &[NodeSlot]),
        ending: &'a mut Ending,
        port_start: u64,
    ) -> Self {
        let filters = Filters::of(job, group);
        let feasible = caches.0.get(&filters, columns);
        let ask = group.resources();
        let ranking = caches.1.get(&filters.signature, ask, columns, &feasible);
        let mut distinct = Distinct::of(constraints_of(job, group));
        if !distinct.is_empty() {
            for slot in job_there {
                columns.node(*slot).into_iter().for_each(|node| distinct.add(*slot, node));
            }
        }
        let mut spreads = spreads_of(job, group);
        for (property, score) in &mut spreads {
            for slot in there {
                let value =
                    columns.node(*slot).and_then(|node| resolve(property, node).map(|v| v.into_owned()));
                value.iter().for_each(|value| score.add(value));
            }
        }
        Self { store, columns, group, ask, filters, feasible, ranking, distinct, spreads, ending, port_start }
    }

    /// Places one ask.
    ///
    /// # Errors
    /// When it fits nowhere: how the nodes fell out of consideration.
    pub fn place(&mut self, ask: &Ask) -> Result<Placed, Funnel> {
        self.port_start = self.port_start.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let placed = match ask.only {
            Some(only) => self.try_node(only),
            None => self.choose(ask),
        };
        let placed = placed.ok_or_else(|| self.why_nowhere(ask))?;
        self.take(&placed);
        Ok(placed)
    }

    fn why_nowhere(&self, ask: &Ask) -> Funnel {
        let (columns, filters, distinct) = (&*self.columns, &self.filters, &self.distinct);
        match ask.only {
            Some(only) => funnel([only].into_iter(), columns, filters, distinct, self.ask),
            None => funnel(columns.slots(), columns, filters, distinct, self.ask),
        }
    }

    /// The plan is done: nodes that this job could not use are there for the next one.
    pub fn finish(self) {
        self.ranking.restore();
    }

    fn choose(&mut self, ask: &Ask) -> Option<Placed> {
        let preferred = ask.prefer.and_then(|slot| self.try_node(slot));
        let preferred = preferred.or_else(|| match self.spreads.is_empty() {
            true => self.choose_ranked(ask.avoid),
            false => self.choose_spread(ask.avoid),
        });
        preferred.or_else(|| self.choose_ending()).or_else(|| ask.avoid.and_then(|slot| self.try_node(slot)))
    }

    /// The best-ranked node that the ask can use.
    fn choose_ranked(&mut self, avoid: Option<NodeSlot>) -> Option<Placed> {
        self.ranking.follow(self.columns, &self.feasible);
        while let Some(slot) = self.ranking.best(self.columns) {
            let placed = if Some(slot) == avoid { None } else { self.try_node(slot) };
            if placed.is_some() {
                return placed;
            }
            self.ranking.set_best_aside();
        }
        None
    }

    /// The node with the best mean of bin packing and spread.
    fn choose_spread(&mut self, avoid: Option<NodeSlot>) -> Option<Placed> {
        let mut scored: Vec<(f64, NodeSlot)> =
            self.columns.slots().filter_map(|slot| Some((self.spread_score(slot)?, slot))).collect();
        while !scored.is_empty() {
            let best = best_of(&scored);
            let slot = scored.swap_remove(best).1;
            let placed = if Some(slot) == avoid { None } else { self.try_node(slot) };
            if placed.is_some() {
                return placed;
            }
        }
        None
    }

    fn spread_score(&self, slot: NodeSlot) -> Option<f64> {
        let row = self.columns.row(slot);
        if !row.ready || !self.feasible.fits(slot) || self.ask.exceeds(row.free).is_some() {
            return None;
        }
        let node = self.columns.node(slot)?;
        let spread: f64 = self
            .spreads
            .iter()
            .map(|(property, score)| score.score(resolve(property, node).as_deref()))
            .sum();
        let pack = bin_pack(row.capacity, row.free, self.ask);
        Some(if spread == 0.0 { pack } else { (pack + spread) / 2.0 })
    }

    /// A node on which allocations of this job are to end, and leave enough room.
    fn choose_ending(&self) -> Option<Placed> {
        let mut slots: Vec<NodeSlot> = self.ending.keys().copied().collect();
        slots.sort_unstable();
        slots.into_iter().find_map(|slot| self.try_node(slot))
    }

    /// Whether an ask fits a node, its filters, its room, its ports; and at which price.
    fn try_node(&self, slot: NodeSlot) -> Option<Placed> {
        let (row, node) = (self.columns.row(slot), self.columns.node(slot)?);
        if !row.ready || !self.feasible.fits(slot) || self.distinct.check(slot, node).is_err() {
            return None;
        }
        let ending = self.ending.get(&slot).map_or(&[][..], Vec::as_slice);
        let promised = ending.iter().fold(Resources::ZERO, |sum, (_, _, room)| sum.plus(*room)).min(self.ask);
        let charge = self.ask.minus(promised);
        if charge.exceeds(row.free).is_some() {
            return None;
        }
        let ports = self.assign_ports(slot, ending)?;
        Some(Placed { node: slot, ports, after: ending.iter().map(|(_, id, _)| *id).collect(), charge })
    }

    fn assign_ports(&self, slot: NodeSlot, ending: &[(AllocSlot, AllocId, Resources)]) -> Option<Vec<u16>> {
        if self.group.ports().next().is_none() {
            return Some(Vec::new());
        }
        let node = self.columns.node(slot)?;
        let inherited: Vec<u16> = ending
            .iter()
            .filter_map(|(slot, _, _)| self.store.allocs().extra(*slot))
            .flat_map(|extra| extra.ports.iter().copied())
            .collect();
        let taken = TakenPorts {
            held: &self.store.nodes().detail(slot)?.ports,
            reserved: &node.reserved_ports,
            claimed: self.columns.claimed_ports(slot),
            inherited: &inherited,
        };
        ports::assign(self.group.ports(), &taken, node.dynamic_ports, self.port_start).ok()
    }

    fn take(&mut self, placed: &Placed) {
        self.columns.hold(placed.node, placed.charge, &placed.ports);
        if let Some(ending) = self.ending.get_mut(&placed.node) {
            let mut left = self.ask;
            for (_, _, room) in ending {
                let part = room.min(left);
                *room = room.minus(part);
                left = left.minus(part);
            }
        }
        let Some(node) = self.columns.node(placed.node).cloned() else { return };
        if !self.distinct.is_empty() {
            self.distinct.add(placed.node, &node);
        }
        for (property, score) in &mut self.spreads {
            resolve(property, &node).into_iter().for_each(|value| score.add(&value));
        }
    }
}

fn spreads_of(job: &Job, group: &Group) -> Vec<(Property, SpreadScore)> {
    let all = || job.spreads.iter().chain(&group.spreads);
    let weights = all().map(|spread| u32::from(spread.weight)).sum();
    all().map(|s| (Property::parse(&s.attribute), SpreadScore::new(s, group.count, weights))).collect()
}

/// The highest score; ties go to the lower slot.
fn best_of(scored: &[(f64, NodeSlot)]) -> usize {
    let better = |a: &(f64, NodeSlot), b: &(f64, NodeSlot)| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1));
    let best = scored.iter().enumerate().max_by(|(_, a), (_, b)| better(a, b));
    best.map_or(0, |(at, _)| at)
}
