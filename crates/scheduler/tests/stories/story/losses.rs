//! Preemption made the slow way: every set of allocations that may be preempted is tried on every node, and none that
//! suffices costs less than what the plan chose.

use std::collections::{BTreeMap, BTreeSet};

use berth_model::{
    AllocId,
    alloc::{Placement, StopReason},
    job::{Group, Job},
    node::Node,
    resources::Resources,
    store::{AllocSlot, NodeSlot, Store},
};
use berth_scheduler::{Plan, filters::Filters};

use super::reference::World;

/// Nodes with more allocations that may be preempted are left out: there are too many sets of them.
const VICTIMS_MAX: usize = 10;
/// How much lower what is preempted must be.
const GAP: u8 = 10;

/// The highest priority that goes, how many go, and where.
type Cost = (u8, usize, NodeSlot);

/// Fails when a plan preempts more than it must, or says that there is no room where it could make some.
pub fn check(store: &Store, plan: &Plan) {
    let Some(row) = store.job(&plan.job) else { return };
    let job = row.job();
    // Tenants may take back what they have lent, by a rule of its own.
    let is_owed = !store.quotas().is_empty();
    if is_owed || !store.scheduler_config().preemption.is_on_for(job.job_type) || job.priority < GAP {
        return;
    }
    // Whom else these may preempt is told by the stories of tenants.
    let quotas = store.namespaces().quotas(&job.key.namespace);
    if quotas.iter().any(|quota| !store.quotas().get(quota).unwrap().quota.guarantee.is_empty()) {
        return;
    }
    let mut scene = Scene::new(store, plan);
    for (placement, charge) in plan.placements.iter().zip(&plan.charges) {
        let (slot, _) = store.node(placement.node).unwrap();
        let chosen: Vec<AllocId> = placement.after.iter().copied().filter(|id| scene.is_new(*id)).collect();
        if !chosen.is_empty() && scene.victims(job, slot).len() <= VICTIMS_MAX {
            let priority = chosen.iter().map(|id| scene.priority(*id)).max().unwrap();
            let least = scene.least(job, placement.group, slot);
            let chosen = (priority, chosen.len(), slot);
            assert_eq!(Some(chosen), least, "{}[{}]: not the least loss", job.key, placement.name_index);
        }
        scene.take(slot, placement, *charge);
    }
    // What a plan for all or nothing had tried is not reported.
    for failure in plan.failures.iter().filter(|f| !job.all_at_once && f.funnel.quota.is_empty()) {
        let (position, _) = job.group(&failure.group).unwrap();
        if !job.job_type.is_per_node() {
            let least = scene.least(job, position, NodeSlot(0));
            assert_eq!(least, None, "{}: {} could be placed", job.key, failure.group);
        }
    }
}

/// The cluster while a plan comes true.
struct Scene<'a> {
    store: &'a Store,
    plan: &'a Plan,
    world: World<'a>,
    /// Preempted so far.
    gone: BTreeSet<AllocId>,
    /// What those that are to end leave on each node.
    left: BTreeMap<NodeSlot, Vec<(AllocId, Resources)>>,
    placed: Vec<(NodeSlot, &'a Placement)>,
}

impl<'a> Scene<'a> {
    fn new(store: &'a Store, plan: &'a Plan) -> Self {
        let mut left: BTreeMap<NodeSlot, Vec<(AllocId, Resources)>> = BTreeMap::new();
        let own = store.jobs().allocs(store.job(&plan.job).unwrap());
        for (slot, alloc) in own.filter_map(|slot| Some((slot, store.allocs().row(slot)?))) {
            let stops = plan.stops.iter().any(|stop| stop.alloc == alloc.id);
            if !alloc.is_terminal() && (stops || !alloc.is_desired()) {
                left.entry(alloc.node).or_default().push((alloc.id, store.resources_to_promise(slot)));
            }
        }
        let world = World::new(store, plan);
        Self { store, plan, world, gone: BTreeSet::new(), left, placed: Vec::new() }
    }

    fn is_new(&self, id: AllocId) -> bool {
        let mut stops = self.plan.stops.iter();
        stops.any(|stop| stop.alloc == id && stop.reason == StopReason::Preempted) && !self.gone.contains(&id)
    }

    fn priority(&self, id: AllocId) -> u8 {
        let (_, row) = self.store.alloc(id).unwrap();
        self.store.job_of(row).unwrap().0.priority
    }

    fn take(&mut self, node: NodeSlot, placement: &'a Placement, charge: Resources) {
        for id in placement.after.iter().filter(|id| self.is_new(**id)).copied().collect::<Vec<_>>() {
            let (slot, _) = self.store.alloc(id).unwrap();
            self.gone.insert(id);
            self.left.entry(node).or_default().push((id, self.store.resources_to_promise(slot)));
        }
        let group = &self.store.job(&self.plan.job).unwrap().job().groups[usize::from(placement.group)];
        let mut requested = group.resources_on(&self.store.nodes().detail(node).unwrap().node);
        for (_, room) in self.left.get_mut(&node).into_iter().flatten() {
            let part = room.min(requested);
            (*room, requested) = (room.minus(part), requested.minus(part));
        }
        self.world.take(node, placement, charge);
        self.placed.push((node, placement));
    }

    /// The least loss that makes room for one more of a group: anywhere, or on one node if there is to be one on each.
    fn least(&self, job: &Job, position: u16, only: NodeSlot) -> Option<Cost> {
        let group = &job.groups[usize::from(position)];
        let filters = Filters::of(job, group);
        let nodes = self.store.nodes().iter().filter(|(_, row)| row.is_ready());
        let nodes = nodes.filter(|(slot, _)| !job.job_type.is_per_node() || *slot == only);
        let usable = nodes.filter_map(|(slot, _)| {
            let node = &self.store.nodes().detail(slot).unwrap().node;
            let is_open = filters.check(node).is_ok() && self.world.is_distinct(job, position, slot, node);
            is_open.then_some((slot, &**node))
        });
        usable.filter_map(|(slot, node)| self.least_on(job, group, slot, node)).min()
    }

    fn least_on(&self, job: &Job, group: &Group, slot: NodeSlot, node: &Node) -> Option<Cost> {
        let victims = self.victims(job, slot);
        if victims.len() > VICTIMS_MAX {
            return None;
        }
        let sets = 0..1_u32 << victims.len();
        let sets = sets.map(|set| (0..victims.len()).filter(move |at| set >> at & 1 == 1));
        let sets = sets.map(|set| set.map(|at| victims[at]).collect::<Vec<_>>());
        let enough = sets.filter(|set| self.fits(group, slot, node, set));
        enough
            .map(|set| (set.iter().map(|(_, id)| self.priority(*id)).max().unwrap_or(0), set.len(), slot))
            .min()
    }

    fn victims(&self, job: &Job, slot: NodeSlot) -> Vec<(AllocSlot, AllocId)> {
        let all_types =
            !job.job_type.runs_to_completion() || self.store.scheduler_config().preemption.batch_on_batch;
        let (allocs, row) = (self.store.allocs(), self.store.nodes().row(slot).unwrap());
        let live = self.store.nodes().live(row).filter_map(|slot| Some((slot, allocs.row(slot)?)));
        live.filter(|(slot, alloc)| {
            let (of, _) = self.store.job_of(alloc).unwrap();
            let after = allocs.extra(*slot).map_or(&[][..], |extra| &extra.after);
            let lives = |id| self.store.alloc(id).is_some_and(|(_, alloc)| !alloc.is_terminal());
            alloc.is_desired()
                && of.key != job.key
                && of.priority + GAP <= job.priority
                && (all_types || !of.job_type.runs_to_completion())
                && !self.gone.contains(&alloc.id)
                && !after.iter().any(|(id, _)| lives(*id))
        })
        .map(|(slot, alloc)| (slot, alloc.id))
        .collect()
    }

    fn fits(&self, group: &Group, slot: NodeSlot, node: &Node, set: &[(AllocSlot, AllocId)]) -> bool {
        let left = self.left.get(&slot).into_iter().flatten();
        let promised = left.fold(Resources::ZERO, |sum, (_, room)| sum.plus(*room));
        let room = set.iter().fold(self.world.free[&slot].plus(promised), |sum, (victim, _)| {
            sum.plus(self.store.resources_to_promise(*victim))
        });
        group.resources_on(node).exceeds(room).is_none()
            && self.has_ports(group, slot, node, set)
            && self.has_devices(group, slot, node, set)
    }

    /// Those on a node who hold something that no set and no predecessor leaves.
    fn stay(&self, slot: NodeSlot, set: &[(AllocSlot, AllocId)]) -> Vec<AllocSlot> {
        let (allocs, row) = (self.store.allocs(), self.store.nodes().row(slot).unwrap());
        let ends = |id: AllocId| {
            set.iter().any(|(_, victim)| *victim == id)
                || self.left.get(&slot).into_iter().flatten().any(|(left, _)| *left == id)
        };
        let live = self.store.nodes().live(row);
        live.filter(|slot| allocs.row(*slot).is_some_and(|alloc| !ends(alloc.id))).collect()
    }

    /// Only ports that the job names are looked at: there are enough of the others.
    fn has_ports(&self, group: &Group, slot: NodeSlot, node: &Node, set: &[(AllocSlot, AllocId)]) -> bool {
        let extras = self.stay(slot, set).into_iter().filter_map(|alloc| self.store.allocs().extra(alloc));
        let placed = self.placed.iter().filter(|(node, _)| *node == slot).flat_map(|(_, p)| &p.ports);
        let held: BTreeSet<u16> = extras.flat_map(|extra| &extra.ports).chain(placed).copied().collect();
        let mut fixed = group.ports().filter_map(|port| port.fixed);
        fixed.all(|port| !held.contains(&port) && !node.reserved_ports.contains(&port))
    }

    /// Devices one ask after the other, each the first that are enough.
    fn has_devices(&self, group: &Group, slot: NodeSlot, node: &Node, set: &[(AllocSlot, AllocId)]) -> bool {
        let extras = self.stay(slot, set).into_iter().filter_map(|alloc| self.store.allocs().extra(alloc));
        let placed = self.placed.iter().filter(|(node, _)| *node == slot);
        let held = extras.map(|extra| (&extra.devices, &extra.cores));
        let held: Vec<_> = held.chain(placed.map(|(_, p)| (&p.devices, &p.cores))).collect();
        let cores: BTreeSet<u16> = held.iter().flat_map(|(_, cores)| cores.iter().copied()).collect();
        let mut milli: BTreeMap<&str, u16> = BTreeMap::new();
        for grant in held.iter().flat_map(|(devices, _)| devices.iter()) {
            grant.instances.iter().for_each(|id| *milli.entry(id).or_default() += grant.milli_each);
        }
        let free_cores = node.cores.iter().filter(|core| !cores.contains(core)).count();
        free_cores >= group.cores() as usize
            && group.devices().all(|ask| {
                let request = berth_scheduler::filters::DeviceRequest::new(ask);
                let devices = node.devices.iter().filter(|device| request.accepts(device));
                let mut enough = devices.filter_map(|device| {
                    let healthy = device.instances.iter().filter(|one| one.healthy);
                    let held = |id: &str| milli.get(id).copied().unwrap_or(0);
                    let free = healthy.filter(|one| held(&one.id) + ask.milli_each() <= 1000);
                    let free: Vec<&str> = free.map(|one| one.id.as_str()).take(ask.count as usize).collect();
                    (free.len() == ask.count as usize).then_some(free)
                });
                let Some(given) = enough.next() else { return false };
                given.into_iter().for_each(|id| *milli.entry(id).or_default() += ask.milli_each());
                true
            })
    }
}
