//! Whether the devices and cores of a placement are still there, and free.

use berth_model::{
    AllocId,
    alloc::Placement,
    device::{DeviceGrant, DevicesHeld, WHOLE_MILLI},
    node::Node,
    store::{NodeSlot, Store},
};

/// What the allocations that a placement waits for leave it.
pub(crate) fn left_by(store: &Store, node: NodeSlot, after: &[AllocId]) -> DevicesHeld {
    let mut left = DevicesHeld::default();
    let mut promised = store.devices_to_promise(node);
    after.iter().filter_map(|id| promised.remove(id)).for_each(|part| left.add(&part));
    left
}

/// Whether a node has what a placement was given, beside what others hold.
pub(crate) fn are_free(node: &Node, placement: &Placement, held_by_others: &DevicesHeld) -> bool {
    let mut held = held_by_others.clone();
    held.add(&DevicesHeld::of(&placement.devices, &placement.cores));
    let fits = |id: &String| held.milli_of(id) <= WHOLE_MILLI;
    let devices = placement.devices.iter().all(|grant| has(node, grant) && grant.instances.iter().all(fits));
    let is_free = |core: &u16| held.cores.get(core) == Some(&1) && node.cores.binary_search(core).is_ok();
    devices && placement.cores.iter().all(is_free)
}

fn has(node: &Node, grant: &DeviceGrant) -> bool {
    let device = node.devices.iter().find(|device| device.to_string() == grant.device);
    let healthy = |id: &String| {
        device.is_some_and(|device| {
            device.instances.iter().any(|instance| instance.id == *id && instance.healthy)
        })
    };
    grant.instances.iter().all(healthy)
}

#[cfg(test)]
mod tests {
    use berth_model::{
        NodeId,
        device::{DeviceInstance, NodeDevice},
        resources::Resources,
    };

    use super::*;

    fn node() -> Node {
        let instance = |id: &str, healthy| DeviceInstance { id: id.into(), healthy };
        Node {
            id: NodeId(1),
            name: String::new(),
            datacenter: String::new(),
            pool: String::new(),
            class: String::new(),
            attributes: Default::default(),
            meta: Default::default(),
            total: Resources::ZERO,
            reserved: Resources::ZERO,
            reserved_ports: vec![],
            host_ip: String::new(),
            dynamic_ports: (0, 0),
            secret_hash: vec![],
            devices: vec![NodeDevice {
                vendor: "nvidia".into(),
                kind: "gpu".into(),
                model: "A100".into(),
                instances: vec![instance("g0", true), instance("g1", false)],
                ..NodeDevice::default()
            }],
            cores: vec![2, 3],
        }
    }

    fn placement(id: &str, milli_each: u16, cores: &[u16]) -> Placement {
        let grant = DeviceGrant { device: "nvidia/gpu/A100".into(), instances: vec![id.into()], milli_each };
        Placement {
            id: AllocId(1),
            node: NodeId(1),
            group: 0,
            name_index: 0,
            ports: vec![],
            after: vec![],
            previous: None,
            reschedules: vec![],
            devices: vec![grant],
            cores: cores.to_vec(),
            canary: false,
        }
    }

    #[test]
    fn what_is_held_sick_or_not_there_is_not_free() {
        let others = placement("g0", 400, &[3]);
        let others = DevicesHeld::of(&others.devices, &others.cores);
        let free = |id, milli, cores: &[u16]| are_free(&node(), &placement(id, milli, cores), &others);
        assert!(free("g0", 600, &[2]));
        assert!(!free("g0", 601, &[2]));
        assert!(!free("g0", 600, &[3]));
        assert!(!free("g0", 600, &[4]));
        assert!(!free("g1", 1, &[]));
        assert!(!free("g7", 1, &[]));
    }
}
