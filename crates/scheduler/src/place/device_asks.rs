//! Which devices and cores of a node an allocation gets.

use berth_model::{
    device::{DeviceGrant, DevicesHeld, NodeDevice, WHOLE_MILLI},
    job::Group,
    node::Node,
    resources::Resources,
    store::NodeSlot,
};

use crate::{
    devices::{Catalog, take},
    filters::DeviceRequest,
};

/// What one allocation of a group asks of devices and cores.
#[derive(Debug)]
pub struct DeviceAsks {
    /// In order of declaration.
    pub requirements: Vec<DeviceRequest>,
    /// Cores for itself alone.
    pub cores: u32,
    /// What it asks of every node.
    pub resources: Resources,
}

/// Devices and cores that are granted to it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GrantedDevices {
    /// In the order of the asks.
    pub devices: Vec<DeviceGrant>,
    /// Ids, in the order in which tasks ask.
    pub cores: Vec<u16>,
}

impl GrantedDevices {
    /// The same as what is held.
    pub fn held(&self) -> DevicesHeld {
        DevicesHeld::of(&self.devices, &self.cores)
    }
}

impl DeviceAsks {
    /// Understands what a group asks.
    pub fn of(group: &Group) -> Self {
        Self {
            requirements: group.devices().map(DeviceRequest::new).collect(),
            cores: group.cores(),
            resources: group.resources(),
        }
    }

    /// Whether it asks for neither.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && self.cores == 0
    }

    /// What it asks of this node, the cpu of whole cores included.
    pub fn on(&self, node: &Node) -> Resources {
        let cpu_mhz = self.cores.saturating_mul(node.core_mhz());
        self.resources.plus(Resources { cpu_mhz, ..Resources::ZERO })
    }

    /// Picks devices and cores of a node. `held` is what others hold, less what they leave to this one.
    ///
    /// # Errors
    /// What is short, as users read it.
    pub fn grant(
        &self,
        (slot, node): (NodeSlot, &Node),
        held: &DevicesHeld,
        catalog: &Catalog,
    ) -> Result<GrantedDevices, String> {
        let mut granted = GrantedDevices { devices: Vec::new(), cores: self.grant_cores(node, held)? };
        if self.requirements.is_empty() {
            return Ok(granted);
        }
        let mut held = held.clone();
        for request in &self.requirements {
            let accepted = node.devices.iter().enumerate().filter(|(_, device)| request.accepts(device));
            let mut accepted: Vec<(usize, &NodeDevice)> = accepted.collect();
            accepted.sort_by(|(_, a), (_, b)| request.affinity(b).total_cmp(&request.affinity(a)));
            let grant = accepted.into_iter().find_map(|(at, device)| {
                let best = catalog.best_device((slot, at), device, &take(request, self.resources));
                grant_of(request, device, &held, best)
            });
            let grant = grant.ok_or_else(|| request.ask.name.clone())?;
            held.add(&DevicesHeld::of(std::slice::from_ref(&grant), &[]));
            granted.devices.push(grant);
        }
        Ok(granted)
    }

    fn grant_cores(&self, node: &Node, held: &DevicesHeld) -> Result<Vec<u16>, String> {
        let free = node.cores.iter().copied().filter(|core| !held.cores.contains_key(core));
        let cores: Vec<u16> = free.take(self.cores as usize).collect();
        if cores.len() == self.cores as usize { Ok(cores) } else { Err("cores".to_owned()) }
    }
}

/// Devices of one kind; of a share the `best` one, unless that has no capacity beside what others of the group got, then
/// the one with the least capacity that is enough.
fn grant_of(
    request: &DeviceRequest,
    device: &NodeDevice,
    held: &DevicesHeld,
    best: Option<usize>,
) -> Option<DeviceGrant> {
    let milli_each = request.ask.milli_each();
    let left = |at: usize| {
        let instance = &device.instances[at];
        let held = if instance.healthy { held.milli_of(&instance.id) } else { WHOLE_MILLI };
        WHOLE_MILLI.saturating_sub(held)
    };
    let mut fitting: Vec<usize> = (0..device.instances.len()).filter(|at| left(*at) >= milli_each).collect();
    if milli_each < WHOLE_MILLI {
        fitting.sort_by_key(|at| (Some(*at) != best, left(*at)));
    }
    let count = request.ask.count as usize;
    let instances = fitting.get(..count)?.iter().map(|at| device.instances[*at].id.clone()).collect();
    Some(DeviceGrant { device: device.to_string(), instances, milli_each })
}
