//! What a node has too little of: devices, shares of them, and cores.

use berth_model::{
    device::{DeviceGrant, DevicesHeld, NodeDevice, WHOLE_MILLI},
    job::Group,
    node::Node,
};

use super::obstacle::{Obstacle, ScarceResource};
use crate::filters::DeviceRequest;

/// The devices and cores of a node of which a group asks for more than `held` leaves.
pub(super) fn short(group: &Group, node: &Node, held: &DevicesHeld) -> Vec<Obstacle> {
    let mut held = held.clone();
    let mut short: Vec<Obstacle> = Vec::new();
    for request in group.devices().map(DeviceRequest::new) {
        match give(&request, node, &held) {
            Ok(grant) => held.add(&DevicesHeld::of(&[grant], &[])),
            Err(obstacle) => short.push(obstacle),
        }
    }
    let (requested, free) = (group.cores(), free_cores(node, &held));
    short.extend((requested > free).then_some(Obstacle::Short {
        what: ScarceResource::Cores,
        requested,
        free,
    }));
    short
}

/// Cores of a node that nobody holds.
pub(super) fn free_cores(node: &Node, held: &DevicesHeld) -> u32 {
    let free = node.cores.iter().filter(|core| !held.cores.contains_key(core));
    u32::try_from(free.count()).unwrap_or(u32::MAX)
}

/// Devices for one request, or how many, or how large a share of one, there would be.
fn give(request: &DeviceRequest, node: &Node, held: &DevicesHeld) -> Result<DeviceGrant, Obstacle> {
    let (milli_each, count) = (request.ask.milli_each(), request.ask.count);
    let accepted = || node.devices.iter().filter(|device| request.accepts(device));
    let enough = |device: &&NodeDevice| {
        let free = left(device, held).filter(|(_, left)| *left >= milli_each);
        u32::try_from(free.count()).unwrap_or(u32::MAX)
    };
    if let Some(device) = accepted().find(|device| enough(device) >= count) {
        let mut fitting: Vec<_> = left(device, held).filter(|(_, left)| *left >= milli_each).collect();
        fitting.sort_by_key(|(_, left)| *left);
        let instances = fitting.into_iter().take(count as usize).map(|(id, _)| id.to_owned()).collect();
        return Ok(DeviceGrant { device: device.to_string(), instances, milli_each });
    }
    let name = request.ask.name.clone();
    Err(if milli_each < WHOLE_MILLI {
        let most = accepted().flat_map(|device| left(device, held)).map(|(_, left)| left).max();
        let (requested, free) = (u32::from(milli_each), u32::from(most.unwrap_or(0)));
        Obstacle::Short { what: ScarceResource::Share(name), requested, free }
    } else {
        let free = accepted().map(|device| enough(&device)).max().unwrap_or(0);
        Obstacle::Short { what: ScarceResource::Devices(name), requested: count, free }
    })
}

/// What is left of each healthy instance, in thousandths.
fn left<'a>(device: &'a NodeDevice, held: &'a DevicesHeld) -> impl Iterator<Item = (&'a str, u16)> {
    let healthy = device.instances.iter().filter(|instance| instance.healthy);
    healthy.map(|one| (one.id.as_str(), WHOLE_MILLI.saturating_sub(held.milli_of(&one.id))))
}
