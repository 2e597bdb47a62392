//! The devices of all nodes by their type, kept in step with the nodes: which fleets there are, and who is who in them.

use std::collections::{BTreeMap, HashMap};

use berth_model::{
    device::{DevicesHeld, NodeDevice, WHOLE_MILLI},
    node::Node,
    resources::Resources,
    store::NodeSlot,
};

use super::fleet::{DeviceHost, Fleet, Wanted};
use crate::{
    filters::DeviceRequest,
    scores::stranded::{Room, Take},
};

/// Where a host of a fleet is: the node, and which of its kinds of devices.
pub type Place = (NodeSlot, usize);

/// The devices of all nodes.
#[derive(Debug, Default)]
pub struct Catalog {
    /// By type, as `gpu`.
    types: BTreeMap<String, Typed>,
}

/// The devices of one type.
#[derive(Debug, Default)]
struct Typed {
    fleet: Fleet,
    places: Vec<Place>,
    hosts: HashMap<Place, usize>,
    /// One of each model, without its instances.
    models: Vec<NodeDevice>,
}

/// What an ask costs where it fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Offer {
    /// The node.
    pub node: NodeSlot,
    /// In devices lost; see [`crate::scores::stranded`].
    pub price: f64,
    /// Of the devices there.
    pub affinity: f64,
}

impl Catalog {
    /// A node is there, or described again, or gone.
    pub fn describe(&mut self, slot: NodeSlot, before: Option<&Node>, now: Option<&Node>) {
        for (at, device) in before.into_iter().flat_map(|node| node.devices.iter().enumerate()) {
            let Some(typed) = self.types.get_mut(&device.kind) else { continue };
            if let Some(host) = typed.hosts.get(&(slot, at)) {
                typed.fleet.remove(*host);
            }
        }
        let Some(node) = now else { return };
        for (at, device) in node.devices.iter().enumerate() {
            let typed = self.types.entry(device.kind.clone()).or_default();
            let host = typed.host((slot, at));
            let model = typed.model(device);
            let room = room(node.capacity(), device, &DevicesHeld::default());
            typed.fleet.add(host, DeviceHost { model, room });
        }
    }

    /// What is left of a node has changed.
    pub fn set(&mut self, slot: NodeSlot, node: &Node, free: Resources, held: &DevicesHeld) {
        for (at, device) in node.devices.iter().enumerate() {
            let Some(typed) = self.types.get_mut(&device.kind) else { continue };
            let Some(host) = typed.hosts.get(&(slot, at)) else { continue };
            let Some(model) = typed.fleet.host(*host).map(|host| host.model) else { continue };
            typed.fleet.set(*host, DeviceHost { model, room: room(free, device, held) });
        }
    }

    /// Somebody asks for devices for the first time.
    pub fn learn(&mut self, request: &DeviceRequest, resources: Resources) {
        for typed in self.types.values_mut() {
            if let Some(wanted) = typed.wanted(request, resources) {
                typed.fleet.learn(&wanted);
            }
        }
    }

    /// Where there is room for an ask, by node.
    pub fn offers(&mut self, request: &DeviceRequest, resources: Resources) -> Vec<Offer> {
        let mut offers = Vec::new();
        for typed in self.types.values_mut() {
            let Some(wanted) = typed.wanted(request, resources) else { continue };
            let prices = typed.fleet.prices(&wanted);
            for (host, (node, _)) in typed.places.iter().enumerate() {
                let price = prices.of(host);
                if price < f64::INFINITY {
                    let affinity =
                        prices.model(host).map_or(0.0, |model| request.affinity(&typed.models[model]));
                    offers.push(Offer { node: *node, price, affinity });
                }
            }
        }
        offers
    }

    /// Which of a node's devices a share is best taken of; none when none has room.
    pub fn best_device(&self, (slot, at): Place, device: &NodeDevice, take: &Take) -> Option<usize> {
        let typed = self.types.get(&device.kind)?;
        typed.fleet.best_device(take, *typed.hosts.get(&(slot, at))?)
    }
}

impl Typed {
    fn host(&mut self, place: Place) -> usize {
        *self.hosts.entry(place).or_insert_with(|| {
            self.places.push(place);
            self.places.len() - 1
        })
    }

    /// Devices are of one model when no constraint can distinguish them.
    fn model(&mut self, device: &NodeDevice) -> usize {
        let model = NodeDevice { instances: Vec::new(), ..device.clone() };
        self.models.iter().position(|known| *known == model).unwrap_or_else(|| {
            self.models.push(model);
            self.models.len() - 1
        })
    }

    /// None when no model will do.
    fn wanted(&self, request: &DeviceRequest, resources: Resources) -> Option<Wanted> {
        let models: Vec<usize> =
            (0..self.models.len()).filter(|at| request.accepts(&self.models[*at])).collect();
        let take = take(request, resources);
        let all = models.len() == self.models.len();
        (!models.is_empty()).then_some(Wanted { take, models: (!all).then_some(models) })
    }
}

/// What an ask takes of a node, the rest of its group included.
pub fn take(request: &DeviceRequest, resources: Resources) -> Take {
    Take {
        cpu_mhz: resources.cpu_mhz,
        memory_mb: resources.memory_mb,
        devices: u16::try_from(request.ask.count).unwrap_or(u16::MAX),
        milli_each: request.ask.milli_each(),
    }
}

/// What is left for new allocations; nothing of a device that is not healthy.
fn room(free: Resources, device: &NodeDevice, held: &DevicesHeld) -> Room {
    let milli = device.instances.iter().map(|instance| match instance.healthy {
        true => WHOLE_MILLI.saturating_sub(held.milli_of(&instance.id)),
        false => 0,
    });
    Room { cpu_mhz: free.cpu_mhz, memory_mb: free.memory_mb, milli: milli.collect() }
}
