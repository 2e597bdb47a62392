//! Devices: what a node has, and what tasks were given.

use std::collections::BTreeMap;

use berth_api::http::{AllocatedDevice, DeviceAttribute, NodeDevice, NodeDeviceResource};
use berth_model::{
    device::{self, DeviceGrant, DevicesHeld},
    job::Group,
};

/// Devices of one model, with what allocations hold of each.
pub fn devices(device: &device::NodeDevice, held: &DevicesHeld) -> NodeDeviceResource {
    let instances = device.instances.iter().map(|instance| NodeDevice {
        id: instance.id.clone(),
        healthy: instance.healthy,
        held_milli: held.milli_of(&instance.id),
    });
    let attribute =
        |(name, value): (&String, &String)| (name.clone(), DeviceAttribute { string: value.clone() });
    NodeDeviceResource {
        vendor: device.vendor.clone(),
        kind: device.kind.clone(),
        name: device.model.clone(),
        instances: instances.collect(),
        attributes: device.attributes.iter().map(attribute).collect(),
    }
}

/// What each task of a group was given, by its name: devices and cores.
pub fn by_task(
    group: &Group,
    grants: &[DeviceGrant],
    cores: &[u16],
) -> BTreeMap<String, (Vec<AllocatedDevice>, Vec<u16>)> {
    let (mut grants, mut cores) = (grants.iter(), cores.iter());
    let each = group.tasks.iter().map(|task| {
        let devices = grants.by_ref().take(task.resources.devices.len()).map(allocated).collect();
        let cores = cores.by_ref().take(task.resources.cores as usize).copied().collect();
        (task.name.clone(), (devices, cores))
    });
    each.collect()
}

fn allocated(grant: &DeviceGrant) -> AllocatedDevice {
    let mut parts = grant.device.splitn(3, '/').map(str::to_owned);
    let mut next = || parts.next().unwrap_or_default();
    AllocatedDevice {
        vendor: next(),
        kind: next(),
        name: next(),
        device_ids: grant.instances.clone(),
        milli_each: grant.milli_each,
    }
}
