//! Placing the allocations of one group, one after the other, each on the best node left.

mod preempt;

use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

use berth_model::{
    AllocId,
    eval::Funnel,
    job::{Group, Job},
    resources::Resources,
    scheduling::Algorithm,
    store::{AllocSlot, NodeSlot, Store},
};

use super::{
    candidates::{BestNode, Candidates},
    columns::Columns,
    device_asks::{DeviceAsks, GrantedDevices},
    distinct::DistinctRules,
    funnel::funnel,
    ports::{self, PortRefusal, TakenPorts},
    preempt::Preemptor,
    requirements::{Requirements, RequirementsCache},
};
use crate::reconcile::ReplacedAlloc;
use crate::scores::stranded;

/// One allocation to be placed.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Which of the group's allocations it is.
    pub name_index: u32,
    /// Only here: for jobs with one allocation a node.
    pub only: Option<NodeSlot>,
    /// Rather here, when it fits.
    pub prefer: Option<NodeSlot>,
    /// Rather not here: its predecessors failed there.
    pub avoid: Vec<NodeSlot>,
    /// Only where it takes no more of a node than so many MHz: what whole cores bring with them differs between nodes.
    pub cpu_mhz_max: Option<u32>,
}

/// Where an ask goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskPlacement {
    /// The node.
    pub node: NodeSlot,
    /// Host ports, in the order in which the group declares them.
    pub ports: Vec<u16>,
    /// What must have ended there before.
    pub after: Vec<AllocId>,
    /// What it holds.
    pub holds: Resources,
    /// What it adds to what the node holds.
    pub charge: Resources,
    /// Devices and cores.
    pub granted: GrantedDevices,
}

/// An allocation of the job that stays, or that the plan at work has placed.
#[derive(Debug, Clone, Copy)]
pub struct PeerAlloc {
    /// Its node.
    pub node: NodeSlot,
    /// The position of its group in the job; none for a group that the job has no more.
    pub group: Option<u16>,
}

/// The allocations of a job that are to end, by node, with the capacity of theirs that is not yet promised.
pub type EndingAllocs = BTreeMap<NodeSlot, Vec<(AllocSlot, AllocId, Resources)>>;

/// Places the allocations of one group.
pub struct GroupPlacer<'a> {
    store: &'a Store,
    columns: &'a mut Columns,
    group: &'a Group,
    ask: Resources,
    requirements: &'a Requirements,
    candidates: Option<Candidates<'a>>,
    devices: DeviceAsks,
    algorithm: Algorithm,
    distinct: DistinctRules,
    /// The job's allocations that are to end, by node: their capacity is their successors'.
    ending: &'a mut EndingAllocs,
    port_start: u64,
    /// Of the ask that is placed.
    cpu_mhz_max: Option<u32>,
}

impl<'a> GroupPlacer<'a> {
    /// Prepares for the group at a position of its job. `peers` are the job's allocations.
    pub fn new(
        store: &'a Store,
        columns: &'a mut Columns,
        cache: &'a mut RequirementsCache,
        (job, position): (&'a Arc<Job>, u16),
        peers: &[PeerAlloc],
        ending: &'a mut EndingAllocs,
        port_start: u64,
    ) -> Self {
        let group = &job.groups[usize::from(position)];
        let requirements = cache.get(job, usize::from(position), columns);
        let ask = group.resources();
        let devices = DeviceAsks::of(group);
        let mut distinct = DistinctRules::of(job, group, requirements);
        let algorithm = store.scheduler_config().algorithm(&job.node_pool);
        let per_node = job.job_type.is_per_node();
        let mut candidates = (!per_node).then(|| Candidates::new(requirements, job, group, ask, algorithm));
        for PeerAlloc { node, group } in peers {
            let of_group = *group == Some(position);
            if !distinct.is_empty() {
                distinct.add(*node, &requirements.values(columns, *node), of_group);
            }
            if let Some(candidates) = candidates.as_mut().filter(|_| of_group) {
                candidates.add(columns, *node);
            }
        }
        if let Some(candidates) = &mut candidates {
            columns.settle();
            candidates.open(columns);
        }
        Self {
            store,
            columns,
            group,
            ask,
            requirements,
            candidates,
            devices,
            algorithm,
            distinct,
            ending,
            port_start,
            cpu_mhz_max: None,
        }
    }

    /// Places one ask, where nothing is free by preempting others if there is a `preemptor`.
    ///
    /// `admit` has the last word, and reports what comes of it.
    ///
    /// # Errors
    /// When it fits nowhere, how the nodes fell out of consideration; or what `admit` says.
    pub fn place<T>(
        &mut self,
        ask: &Ask,
        mut preemptor: Option<&mut Preemptor<'_>>,
        admit: impl FnOnce(&AskPlacement) -> Result<T, Funnel>,
    ) -> Result<(AskPlacement, T), Funnel> {
        self.port_start = self.port_start.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.cpu_mhz_max = ask.cpu_mhz_max;
        let placed = match ask.only {
            Some(only) => self.try_node(only),
            None => self.choose(ask),
        };
        let placed = placed.map(|placed| (placed, Vec::new()));
        let placed = placed.or_else(|| self.preempt(ask, preemptor.as_deref_mut()?));
        let (placed, victims) = placed.ok_or_else(|| self.why_nowhere(ask))?;
        let admitted = admit(&placed)?;
        if let Some(preemptor) = preemptor {
            self.evict(placed.node, &victims, preemptor);
        }
        self.take(&placed);
        Ok((placed, admitted))
    }

    /// An allocation of the group may end in favour of the one that is placed next: its capacity is that one's to have.
    pub fn let_go(&mut self, leaving: &ReplacedAlloc) {
        let ReplacedAlloc { slot, node, stop } = *leaving;
        let room = self.store.resources_to_promise(slot);
        // First, so that its own capacity is what its successor takes, as far as that goes.
        self.ending.entry(node).or_default().insert(0, (slot, stop.alloc, room));
        if !self.distinct.is_empty() {
            self.distinct.remove(node, &self.requirements.values(self.columns, node));
        }
    }

    /// It has no successor, and stays.
    pub fn take_back(&mut self, leaving: &ReplacedAlloc) {
        let ReplacedAlloc { node, stop, .. } = *leaving;
        if let Some(ending) = self.ending.get_mut(&node) {
            ending.retain(|(_, id, _)| *id != stop.alloc);
            if ending.is_empty() {
                self.ending.remove(&node);
            }
        }
        if !self.distinct.is_empty() {
            self.distinct.add(node, &self.requirements.values(self.columns, node), true);
        }
    }

    /// The nodes on which allocations of the job are to end, and which these are; in order of the nodes.
    pub fn ending(&self) -> impl Iterator<Item = (NodeSlot, Vec<AllocId>)> {
        let ids = |ending: &[(AllocSlot, AllocId, Resources)]| ending.iter().map(|(_, id, _)| *id).collect();
        self.ending.iter().map(move |(node, ending)| (*node, ids(ending)))
    }

    fn why_nowhere(&self, ask: &Ask) -> Funnel {
        let (columns, requirements, distinct) = (&*self.columns, self.requirements, &self.distinct);
        let ports = |slot| self.assign_ports(slot, self.ending_on(slot)).err();
        match ask.only {
            Some(only) => funnel([only].into_iter(), columns, requirements, distinct, &self.devices, ports),
            None => funnel(columns.slots(), columns, requirements, distinct, &self.devices, ports),
        }
    }

    /// A node with capacity now comes before one with capacity that is still to be left.
    fn choose(&mut self, ask: &Ask) -> Option<AskPlacement> {
        let preferred = ask.prefer.and_then(|slot| self.try_node(slot));
        preferred.or_else(|| self.choose_best(&ask.avoid)).or_else(|| self.choose_ending())
    }

    fn choose_best(&mut self, avoid: &[NodeSlot]) -> Option<AskPlacement> {
        if !self.devices.is_empty() {
            return self.choose_with_devices(avoid);
        }
        let mut candidates = self.candidates.take()?;
        // Where predecessors failed the score is another one, for this ask alone.
        avoid.iter().for_each(|slot| candidates.close(*slot, self.columns));
        let penalized = avoid.iter().filter_map(|slot| candidates.penalized(self.columns, *slot));
        let mut penalized: Vec<BestNode> = penalized.collect();
        // The best one last.
        penalized.sort_by(|a, b| if a.beats(b) { Ordering::Greater } else { Ordering::Less });
        let placed = loop {
            let best = match (candidates.best(self.columns, &self.distinct), penalized.last().copied()) {
                (Some(best), Some(other)) if other.beats(&best) => penalized.pop(),
                (None, _) => penalized.pop(),
                (best, _) => best,
            };
            let Some(best) = best else { break None };
            let placed = self.try_node(best.node());
            if placed.is_some() {
                break placed;
            }
            candidates.close(best.node(), self.columns);
        };
        avoid.iter().for_each(|slot| candidates.reopen(*slot, self.columns));
        self.candidates = Some(candidates);
        placed
    }

    /// The best of the nodes with devices or cores left; a group that asks for devices of several kinds is ranked by the
    /// first.
    fn choose_with_devices(&mut self, avoid: &[NodeSlot]) -> Option<AskPlacement> {
        let mut offers = self.offers();
        if let Some(max) = self.cpu_mhz_max {
            let node = |slot| self.columns.node(slot);
            offers.retain(|(slot, ..)| node(*slot).is_some_and(|node| self.devices.on(node).cpu_mhz <= max));
        }
        let candidates = self.candidates.as_mut()?;
        let scored = offers.into_iter().filter_map(|(slot, packing, affinity)| {
            candidates.with_devices(self.columns, slot, packing, affinity, avoid.contains(&slot))
        });
        let mut left: Vec<BestNode> = scored.collect();
        loop {
            let better = |a: usize, b: usize| if left[b].beats(&left[a]) { b } else { a };
            let best = left.swap_remove((0..left.len()).reduce(better)?);
            let placed = self.try_node(best.node());
            if placed.is_some() {
                return placed;
            }
        }
    }

    /// Nodes with how well they pack, if that does not follow from their capacity, and their affinity as far as devices go.
    fn offers(&mut self) -> Vec<(NodeSlot, Option<f64>, f64)> {
        let Some(request) = self.devices.requirements.first() else {
            return self.columns.slots().map(|slot| (slot, None, 0.0)).collect();
        };
        let by_price = self.algorithm == Algorithm::BinPack;
        let offers = self.columns.catalog_mut().offers(request, self.ask).into_iter();
        offers.map(|o| (o.node, by_price.then(|| stranded::score(o.price)), o.affinity)).collect()
    }

    /// A node on which allocations of this job are to end, and leave enough capacity.
    fn choose_ending(&self) -> Option<AskPlacement> {
        self.ending.keys().find_map(|slot| self.try_node(*slot))
    }

    /// Whether an ask fits a node, its filters, its capacity, its ports; and at which price.
    fn try_node(&self, slot: NodeSlot) -> Option<AskPlacement> {
        self.try_node_after(slot, self.ending_on(slot))
    }

    fn ending_on(&self, slot: NodeSlot) -> &[(AllocSlot, AllocId, Resources)] {
        self.ending.get(&slot).map_or(&[], Vec::as_slice)
    }

    /// The same once these allocations have ended.
    fn try_node_after(
        &self,
        slot: NodeSlot,
        ending: &[(AllocSlot, AllocId, Resources)],
    ) -> Option<AskPlacement> {
        let row = self.columns.row(slot);
        let zone = self.requirements.zone(self.columns, slot)?;
        if !row.ready || self.distinct.check(slot, &self.requirements.zones()[zone as usize]).is_err() {
            return None;
        }
        let ask = self.devices.on(self.columns.node(slot)?);
        let promised = ending.iter().fold(Resources::ZERO, |sum, (_, _, room)| sum.plus(*room)).min(ask);
        let charge = ask.minus(promised);
        let is_too_much = self.cpu_mhz_max.is_some_and(|max| charge.cpu_mhz > max);
        if is_too_much || charge.exceeds(row.free).is_some() {
            return None;
        }
        let ports = self.assign_ports(slot, ending).ok()?;
        let (granted, from) = self.grant_devices(slot, ending)?;
        let after = self.predecessors(ending, ask, &ports, &from);
        Some(AskPlacement { node: slot, ports, after, holds: ask, charge, granted })
    }

    /// Whom an allocation comes after: those who leave it ports or devices, and of the others as many as it takes to have
    /// all the capacity that they can leave it. Nobody waits for those who leave it nothing: what is superseded again and
    /// again, while its agent is away, makes no chain.
    fn predecessors(
        &self,
        ending: &[(AllocSlot, AllocId, Resources)],
        holds: Resources,
        ports: &[u16],
        devices_from: &[AllocId],
    ) -> Vec<AllocId> {
        let leaves_port =
            |slot| !ports.is_empty() && self.store.ports_to_promise(slot).iter().any(|p| ports.contains(p));
        let (needed, others): (Vec<_>, Vec<_>) =
            ending.iter().partition(|(slot, id, _)| devices_from.contains(id) || leaves_port(*slot));
        let mut after = Vec::new();
        let mut left = holds;
        for (_, id, room) in needed {
            left = left.minus(room);
            after.push(id);
        }
        for (_, id, room) in others {
            if room.min(left) != Resources::ZERO {
                left = left.minus(room);
                after.push(id);
            }
        }
        after
    }

    /// The devices and cores that an ask is given, and who among the ending leave any.
    fn grant_devices(
        &self,
        slot: NodeSlot,
        ending: &[(AllocSlot, AllocId, Resources)],
    ) -> Option<(GrantedDevices, Vec<AllocId>)> {
        let mut from = Vec::new();
        if self.devices.is_empty() {
            return Some((GrantedDevices::default(), from));
        }
        let mut held = self.columns.held(slot);
        if !ending.is_empty() {
            let mut promised = self.store.devices_to_promise(slot);
            for (id, part) in ending.iter().filter_map(|(_, id, _)| promised.remove_entry(id)) {
                from.extend(Some(id).filter(|_| !part.is_empty()));
                held.remove(part);
            }
        }
        let node = self.columns.node(slot)?;
        let granted = self.devices.grant((slot, node), &held, self.columns.catalog()).ok()?;
        Some((granted, from))
    }

    fn assign_ports(
        &self,
        slot: NodeSlot,
        ending: &[(AllocSlot, AllocId, Resources)],
    ) -> Result<Vec<u16>, PortRefusal> {
        if self.group.ports().next().is_none() {
            return Ok(Vec::new());
        }
        let (Some(node), Some(detail)) = (self.columns.node(slot), self.store.nodes().detail(slot)) else {
            return Err("network: the node is gone".to_owned());
        };
        let inherited: Vec<u16> =
            ending.iter().flat_map(|(slot, _, _)| self.store.ports_to_promise(*slot)).collect();
        let taken = TakenPorts {
            held: &detail.ports,
            reserved: &node.reserved_ports,
            claimed: self.columns.claimed_ports(slot),
            inherited: &inherited,
        };
        ports::assign(self.group.ports(), &taken, node.dynamic_ports, self.port_start)
    }

    fn take(&mut self, placed: &AskPlacement) {
        let slot = placed.node;
        if let Some(ending) = self.ending.get_mut(&slot) {
            let mut left = placed.holds;
            for before in &placed.after {
                let Some((_, _, room)) = ending.iter_mut().find(|(_, id, _)| id == before) else { continue };
                let part = room.min(left);
                *room = room.minus(part);
                left = left.minus(part);
            }
        }
        if let Some(zone) = self.requirements.zone(self.columns, slot).filter(|_| !self.distinct.is_empty()) {
            self.distinct.add(slot, &self.requirements.zones()[zone as usize].values, true);
        }
        let devices = placed.granted.held();
        let Some(candidates) = &mut self.candidates else {
            return self.columns.hold(slot, placed.charge, &placed.ports, &devices);
        };
        self.columns.hold(slot, placed.charge, &placed.ports, &devices);
        candidates.enter(slot, self.columns, &self.distinct);
    }
}
