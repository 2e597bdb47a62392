//! Devices of nodes, and those assigned to tasks.

use berth_api::http::{AllocatedDevice, DeviceAttribute, NodeDevice, NodeDeviceResource};
use berth_model::{
    device::{self, DeviceGrant, DevicesHeld},
    job::{Group, Task},
};

use crate::http::text::Text;

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

/// What each task of a group was given: devices and cores.
pub fn by_task<'v>(
    group: &'v Group,
    grants: &'v [DeviceGrant],
    cores: &'v [u16],
) -> impl Iterator<Item = (&'v Task, Vec<AllocatedDevice<Text<'v>>>, Vec<u16>)> {
    let (mut grants, mut cores) = (grants.iter(), cores.iter());
    group.tasks.iter().map(move |task| {
        let devices = grants.by_ref().take(task.resources.devices.len()).map(allocated).collect();
        let cores = cores.by_ref().take(task.resources.cores as usize).copied().collect();
        (task, devices, cores)
    })
}

fn allocated(grant: &DeviceGrant) -> AllocatedDevice<Text<'_>> {
    let mut parts = grant.device.splitn(3, '/');
    let mut next = || Text::maybe(parts.next());
    AllocatedDevice {
        vendor: next(),
        kind: next(),
        name: next(),
        device_ids: grant.instances.iter().map(Text::from).collect(),
        milli_each: grant.milli_each,
    }
}
