//! The devices of all nodes by their type, kept in step with the nodes: which fleets there are, and who is who in them.

use std::collections::{BTreeMap, HashMap};

use berth_model::{
    device::{DevicesHeld, NodeDevice, WHOLE_MILLI},
    node::Node,
    resources::Resources,
    store::NodeSlot,
};

use super::fleet::{DeviceHost, Fleet, FleetAsk};
use crate::{
    filters::DeviceRequest,
    scores::stranded::{DeviceDemand, DeviceHostFree},
};

/// Where a host of a fleet is: the node, and which of its kinds of devices.
pub type DevicePosition = (NodeSlot, usize);

/// The devices of all nodes.
#[derive(Debug, Default)]
pub struct Catalog {
    /// By type, as `gpu`.
    types: BTreeMap<String, DeviceTypeEntry>,
}

/// The devices of one type.
#[derive(Debug, Default)]
struct DeviceTypeEntry {
    fleet: Fleet,
    positions: Vec<DevicePosition>,
    hosts: HashMap<DevicePosition, usize>,
    /// One of each model, without its instances.
    models: Vec<NodeDevice>,
}

/// What an ask costs where it fits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DevicePrice {
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
            let remaining = remaining(node.capacity(), device, &DevicesHeld::default());
            typed.fleet.add(host, DeviceHost { model, remaining });
        }
    }

    /// What is left of a node has changed.
    pub fn set(&mut self, slot: NodeSlot, node: &Node, free: Resources, held: &DevicesHeld) {
        for (at, device) in node.devices.iter().enumerate() {
            let Some(typed) = self.types.get_mut(&device.kind) else { continue };
            let Some(host) = typed.hosts.get(&(slot, at)) else { continue };
            let Some(model) = typed.fleet.host(*host).map(|host| host.model) else { continue };
            typed.fleet.set(*host, DeviceHost { model, remaining: remaining(free, device, held) });
        }
    }

    /// Somebody asks for devices for the first time.
    pub fn learn(&mut self, request: &DeviceRequest, resources: Resources) {
        for typed in self.types.values_mut() {
            if let Some(fleet_ask) = typed.fleet_ask(request, resources) {
                typed.fleet.learn(&fleet_ask);
            }
        }
    }

    /// Where there is capacity for an ask, by node.
    pub fn offers(&mut self, request: &DeviceRequest, resources: Resources) -> Vec<DevicePrice> {
        let mut offers = Vec::new();
        for typed in self.types.values_mut() {
            let Some(fleet_ask) = typed.fleet_ask(request, resources) else { continue };
            let prices = typed.fleet.prices(&fleet_ask);
            for (host, (node, _)) in typed.positions.iter().enumerate() {
                let price = prices.of(host);
                if price < f64::INFINITY {
                    let affinity =
                        prices.model(host).map_or(0.0, |model| request.affinity(&typed.models[model]));
                    offers.push(DevicePrice { node: *node, price, affinity });
                }
            }
        }
        offers
    }

    /// Which of a node's devices a share is best taken of; none when none has capacity.
    pub fn best_device(
        &self,
        (slot, at): DevicePosition,
        device: &NodeDevice,
        take: &DeviceDemand,
    ) -> Option<usize> {
        let typed = self.types.get(&device.kind)?;
        typed.fleet.best_device(take, *typed.hosts.get(&(slot, at))?)
    }
}

impl DeviceTypeEntry {
    fn host(&mut self, device_position: DevicePosition) -> usize {
        *self.hosts.entry(device_position).or_insert_with(|| {
            self.positions.push(device_position);
            self.positions.len() - 1
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
    fn fleet_ask(&self, request: &DeviceRequest, resources: Resources) -> Option<FleetAsk> {
        let models: Vec<usize> =
            (0..self.models.len()).filter(|at| request.accepts(&self.models[*at])).collect();
        let take = take(request, resources);
        let all = models.len() == self.models.len();
        (!models.is_empty()).then_some(FleetAsk { take, models: (!all).then_some(models) })
    }
}

/// What an ask takes of a node, the rest of its group included.
pub fn take(request: &DeviceRequest, resources: Resources) -> DeviceDemand {
    DeviceDemand {
        cpu_mhz: resources.cpu_mhz,
        memory_mb: resources.memory_mb,
        devices: u16::try_from(request.ask.count).unwrap_or(u16::MAX),
        milli_each: request.ask.milli_each(),
    }
}

/// What is left for new allocations; nothing of a device that is not healthy.
fn remaining(free: Resources, device: &NodeDevice, held: &DevicesHeld) -> DeviceHostFree {
    let milli = device.instances.iter().map(|instance| match instance.healthy {
        true => WHOLE_MILLI.saturating_sub(held.milli_of(&instance.id)),
        false => 0,
    });
    DeviceHostFree { cpu_mhz: free.cpu_mhz, memory_mb: free.memory_mb, milli: milli.collect() }
}
