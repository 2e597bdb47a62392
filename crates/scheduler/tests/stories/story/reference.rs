//! The same choices made the slow way: for every placement all nodes are scored from nothing, and the best one is it.

use std::collections::{BTreeMap, HashMap, HashSet};

use berth_model::{
    alloc::Placement,
    constraint::{Operator, Spread},
    job::{Group, Job},
    node::Node,
    resources::Resources,
    scheduling::Algorithm,
    store::{NodeSlot, Store},
};
use berth_scheduler::{
    Plan, Property,
    filters::{Filters, constraints_of, satisfies},
    resolve,
    scores::affinities_of,
};

/// Fails when a placement that had a free choice went to another node than the best one.
pub fn check(store: &Store, plan: &Plan) {
    let Some(row) = store.job(&plan.job) else { return };
    let job = row.job();
    if job.job_type.is_per_node() {
        return;
    }
    let mut world = World::new(store, plan);
    for (placement, charge) in plan.placements.iter().zip(&plan.charges) {
        let (slot, _) = store.node(placement.node).unwrap();
        // Devices have a reference of their own: prices that are worked out again.
        let is_ranked_by_room = placement.devices.is_empty() && placement.cores.is_empty();
        let had_a_choice = placement.after.is_empty() && placement.previous.is_none() && is_ranked_by_room;
        if had_a_choice {
            let best = world.best(job, placement.group);
            assert_eq!(Some(slot), best, "{}[{}]: not the best node", job.key, placement.name_index);
        }
        world.take(slot, placement, *charge);
    }
}

/// What is free while a plan comes true, and where the job's allocations are.
pub struct World<'a> {
    store: &'a Store,
    pub free: HashMap<NodeSlot, Resources>,
    /// The job's allocations by node and group.
    there: BTreeMap<(NodeSlot, u16), u32>,
    /// Taken by the plan.
    ports: HashSet<(NodeSlot, u16)>,
}

impl<'a> World<'a> {
    pub fn new(store: &'a Store, plan: &Plan) -> Self {
        let free = store.nodes().iter().map(|(slot, row)| (slot, row.free())).collect();
        let mut there = BTreeMap::new();
        let row = store.job(&plan.job).unwrap();
        for alloc in store.jobs().allocs(row).filter_map(|slot| store.allocs().row(slot)) {
            let stops = plan.stops.iter().any(|stop| stop.alloc == alloc.id);
            let group = store.job_of(alloc).and_then(|(_, group)| row.job().group(&group.name));
            if let Some((group, _)) = group.filter(|_| alloc.is_desired() && !stops) {
                *there.entry((alloc.node, group)).or_default() += 1;
            }
        }
        Self { store, free, there, ports: HashSet::new() }
    }

    pub fn take(&mut self, slot: NodeSlot, placement: &Placement, charge: Resources) {
        let free = self.free.get_mut(&slot).unwrap();
        *free = free.minus(charge);
        *self.there.entry((slot, placement.group)).or_default() += 1;
        self.ports.extend(placement.ports.iter().map(|port| (slot, *port)));
    }

    fn best(&self, job: &Job, position: u16) -> Option<NodeSlot> {
        let group = &job.groups[usize::from(position)];
        let filters = Filters::of(job, group);
        let mut best: Option<(f64, f64, NodeSlot)> = None;
        for (slot, row) in self.store.nodes().iter().filter(|(_, row)| row.is_ready()) {
            let node = &self.store.nodes().detail(slot).unwrap().node;
            let fits = group.resources().exceeds(self.free[&slot]).is_none()
                && filters.check(node).is_ok()
                && self.is_distinct(job, position, slot, node)
                && self.has_ports(group, slot);
            if !fits {
                continue;
            }
            let packing = self.packing(job, group, slot, row.capacity);
            let total = self.total(job, position, slot, node, packing);
            if best.is_none_or(|(t, p, _)| (total, packing) > (t, p)) {
                best = Some((total, packing, slot));
            }
        }
        best.map(|(_, _, slot)| slot)
    }

    /// Only ports that the job names are looked at: there are enough of the others.
    fn has_ports(&self, group: &Group, slot: NodeSlot) -> bool {
        let held = &self.store.nodes().detail(slot).unwrap().ports;
        let mut fixed = group.ports().filter_map(|port| port.fixed);
        fixed.all(|port| !held.contains(&port) && !self.ports.contains(&(slot, port)))
    }

    pub fn is_distinct(&self, job: &Job, position: u16, slot: NodeSlot, node: &Node) -> bool {
        let group = &job.groups[usize::from(position)];
        constraints_of(job, group).enumerate().all(|(at, constraint)| {
            let of_job = at < job.constraints.len();
            let counts = |(node, group): &(NodeSlot, u16)| (of_job || *group == position).then_some(*node);
            let others = self.there.iter().filter_map(|(key, count)| Some((counts(key)?, *count)));
            match constraint.operator {
                Operator::DistinctHosts => others.map(|(other, _)| other).all(|other| other != slot),
                Operator::DistinctProperty => {
                    let property = Property::parse(&constraint.left);
                    let Some(value) = resolve(&property, node) else { return false };
                    let same = |other: NodeSlot| {
                        let node = &self.store.nodes().detail(other).unwrap().node;
                        resolve(&property, node).is_some_and(|other| other == value)
                    };
                    let used: u32 = others.filter(|(other, _)| same(*other)).map(|(_, count)| count).sum();
                    used < constraint.right.parse().unwrap_or(1)
                }
                _ => true,
            }
        })
    }

    fn packing(&self, job: &Job, group: &Group, slot: NodeSlot, capacity: Resources) -> f64 {
        let (free, ask) = (self.free[&slot], group.resources());
        let power = |free: u32, ask: u32, all: u32| 10_f64.powf(f64::from(free - ask) / f64::from(all));
        let left = power(free.cpu_mhz, ask.cpu_mhz, capacity.cpu_mhz)
            + power(free.memory_mb, ask.memory_mb, capacity.memory_mb);
        let score = match self.store.scheduler_config().algorithm(&job.node_pool) {
            Algorithm::BinPack => (20.0 - left) / 18.0,
            Algorithm::Spread => (left - 2.0) / 18.0,
        };
        // Equal in all that counts: other ways to compute it differ in the last bits.
        (score * 2_f64.powi(40)).round() / 2_f64.powi(40)
    }

    fn total(&self, job: &Job, position: u16, slot: NodeSlot, node: &Node, packing: f64) -> f64 {
        let group = &job.groups[usize::from(position)];
        let mut scores = vec![packing];
        if let Some(there) = self.there.get(&(slot, position)) {
            scores.push(-f64::from(there + 1) / f64::from(group.count));
        }
        let affinities: Vec<_> = affinities_of(job, group).collect();
        let weights: f64 = affinities.iter().map(|a| f64::from(a.weight).abs()).sum();
        let holds = |left: &str, operator, right: &str| {
            let (left, right) = (Property::parse(left), Property::parse(right));
            satisfies(resolve(&left, node).as_deref(), operator, resolve(&right, node).as_deref())
        };
        let met = affinities.iter().filter(|a| holds(&a.left, a.operator, &a.right));
        let met: f64 = met.map(|a| f64::from(a.weight)).sum();
        let spreads: Vec<&Spread> = job.spreads.iter().chain(&group.spreads).collect();
        let all: u32 = spreads.iter().map(|spread| u32::from(spread.weight)).sum();
        let spread: f64 = spreads
            .iter()
            .map(|s| self.spread(s, f64::from(s.weight) / f64::from(all), position, group.count, node))
            .sum();
        let has_gpus = !node.devices.is_empty() && group.devices().next().is_none();
        let spared = if has_gpus && met <= 0.0 { -1.0 } else { 0.0 };
        scores.extend([met / weights.max(1.0), spread, spared].into_iter().filter(|score| *score != 0.0));
        (scores[1..].iter().sum::<f64>() + packing) / scores.len() as f64
    }

    fn spread(&self, spread: &Spread, share: f64, position: u16, count: u32, node: &Node) -> f64 {
        let property = Property::parse(&spread.attribute);
        let Some(value) = resolve(&property, node) else { return -1.0 };
        let mut used: BTreeMap<String, u32> = BTreeMap::new();
        for ((slot, _), n) in self.there.iter().filter(|((_, group), _)| *group == position) {
            let other = &self.store.nodes().detail(*slot).unwrap().node;
            if let Some(value) = resolve(&property, other) {
                *used.entry(value.into_owned()).or_default() += n;
            }
        }
        let here = f64::from(used.get(value.as_ref()).copied().unwrap_or(0));
        if spread.targets.is_empty() {
            let most = used.values().max().copied().unwrap_or(0);
            return if most == 0 { 0.0 } else { (1.0 - 2.0 * here / f64::from(most)) * share };
        }
        let named = spread.targets.iter().find(|target| target.value == value);
        let rest = 100 - spread.targets.iter().map(|target| u32::from(target.percent)).sum::<u32>();
        let percent = named.map_or(rest, |target| u32::from(target.percent));
        let desired = f64::from(percent) / 100.0 * f64::from(count);
        if desired == 0.0 { -1.0 } else { (desired - (here + 1.0)) / desired * share }
    }
}
