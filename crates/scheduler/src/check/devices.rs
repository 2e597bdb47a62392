//! Whether the devices and cores of a plan are there, asked for, and given to nobody else.

use std::collections::HashMap;

use berth_model::{AllocId, alloc::Placement, node::Node};

use super::{Checked, Faults};

/// Who holds how much of one device or core of one node; a core is whole.
type Holders = HashMap<(u32, String), Vec<(AllocId, u32)>>;

pub(super) fn check(checked: &Checked<'_>, faults: &mut Faults) {
    let mut holders = Holders::new();
    for placement in &checked.plan.placements {
        let Some(slot) = checked.node(placement.node) else { continue };
        let Some(detail) = checked.store.nodes().detail(slot) else { continue };
        if !is_asked_for(checked, placement, &detail.node) {
            faults.add(format!("allocation {} was given other devices than it asks for", placement.id));
        }
        if placement.devices.is_empty() && placement.cores.is_empty() {
            continue;
        }
        list_living(checked, slot, &mut holders);
        for (what, milli) in held(&placement.devices, &placement.cores) {
            let others = holders.entry((slot.0, what.clone())).or_default();
            let beside = others.iter().filter(|(id, _)| !placement.after.contains(id));
            if beside.map(|(_, milli)| milli).sum::<u32>() + milli > 1000 {
                faults.add(format!("allocation {} shares {what} with others that need it", placement.id));
            }
            others.push((placement.id, milli));
        }
    }
}

/// Those on a node before the plan, once.
fn list_living(checked: &Checked<'_>, slot: berth_model::store::NodeSlot, holders: &mut Holders) {
    let Some(row) = checked.store.nodes().row(slot) else { return };
    for alloc in checked.store.nodes().live(row) {
        let (Some(row), Some(extra)) =
            (checked.store.allocs().row(alloc), checked.store.allocs().extra(alloc))
        else {
            continue;
        };
        for (what, milli) in held(&extra.devices, &extra.cores) {
            let others = holders.entry((slot.0, what)).or_default();
            if others.iter().all(|(id, _)| *id != row.id) {
                others.push((row.id, milli));
            }
        }
    }
}

fn held(grants: &[berth_model::device::DeviceGrant], cores: &[u16]) -> Vec<(String, u32)> {
    let devices = grants.iter().flat_map(|grant| {
        grant.instances.iter().map(|id| (format!("device {id}"), u32::from(grant.milli_each)))
    });
    devices.chain(cores.iter().map(|core| (format!("core {core}"), 1000))).collect()
}

fn is_asked_for(checked: &Checked<'_>, placement: &Placement, node: &Node) -> bool {
    let Some(group) = checked.group(placement.group) else { return true };
    let asks: Vec<_> = group.tasks.iter().flat_map(|task| &task.resources.devices).collect();
    let cores: u32 = group.tasks.iter().map(|task| task.resources.cores).sum();
    let grants = asks.iter().zip(&placement.devices).all(|(ask, grant)| {
        let device = node.devices.iter().find(|device| device.to_string() == grant.device);
        let healthy = |id: &String| {
            device.is_some_and(|device| device.instances.iter().any(|one| one.id == *id && one.healthy))
        };
        device.is_some_and(|device| ask.names(device))
            && grant.instances.len() == ask.count as usize
            && grant.instances.iter().all(healthy)
    });
    let there = placement.cores.iter().all(|core| node.cores.contains(core));
    grants && asks.len() == placement.devices.len() && there && cores as usize == placement.cores.len()
}
