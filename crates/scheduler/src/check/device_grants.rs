//! Whether the devices and cores of a plan are there, asked for, and given to nobody else.

use std::collections::BTreeMap;

use berth_model::{
    AllocId,
    alloc::Placement,
    device::{DeviceAsk, DeviceGrant},
    node::Node,
    store::NodeSlot,
};

use super::{CheckedPlan, PlanFaults};
use crate::filters::DeviceRequest;

/// Who holds each device or core of each node.
type DeviceHolders = BTreeMap<(NodeSlot, String), Vec<DeviceHolder>>;

/// One who holds some of a device or core, in thousandths; a core is whole.
struct DeviceHolder {
    id: AllocId,
    /// What it does not take over from those whom it waits for.
    own: u32,
    /// What of all that it holds it leaves to nobody yet: who waits for it waits for those whom it waits for too.
    left: u32,
}

pub(super) fn check(checked: &CheckedPlan<'_>, faults: &mut PlanFaults) {
    let mut holders = DeviceHolders::new();
    for placement in &checked.plan.placements {
        let Some(slot) = checked.node(placement.node) else { continue };
        let Some(detail) = checked.store.nodes().detail(slot) else { continue };
        if !is_asked_for(checked, placement, &detail.node) {
            faults.add(format!("allocation {} was given other devices than it asks for", placement.id));
        }
        if placement.devices.is_empty() && placement.cores.is_empty() {
            continue;
        }
        if holders.keys().all(|(node, _)| *node != slot) {
            list_living(checked, slot, &mut holders);
        }
        for (what, milli) in held(&placement.devices, &placement.cores) {
            let others = holders.entry((slot, what.clone())).or_default();
            hold(others, placement.id, milli, &placement.after);
            if others.iter().map(|holder| holder.own).sum::<u32>() > 1000 {
                faults.add(format!("allocation {} shares {what} with others that need it", placement.id));
            }
        }
    }
}

/// Those on a node before the plan, the oldest first.
fn list_living(checked: &CheckedPlan<'_>, node: NodeSlot, holders: &mut DeviceHolders) {
    let Some(row) = checked.store.nodes().row(node) else { return };
    let allocs = checked.store.allocs();
    let living = checked.store.nodes().live(row);
    let mut living: Vec<_> =
        living.filter_map(|slot| Some((allocs.row(slot)?, allocs.extra(slot)?))).collect();
    living.sort_by_key(|(row, _)| (row.create_index, row.id));
    for (row, extra) in living {
        let after: Vec<AllocId> = extra.after.iter().map(|(id, _)| *id).collect();
        for (what, milli) in held(&extra.devices, &extra.cores) {
            hold(holders.entry((node, what)).or_default(), row.id, milli, &after);
        }
    }
}

/// One more holds it, and takes over what those have of it whom it waits for.
fn hold(others: &mut Vec<DeviceHolder>, id: AllocId, milli: u32, after: &[AllocId]) {
    let mut own = milli;
    for before in others.iter_mut().filter(|other| after.contains(&other.id)) {
        let part = own.min(before.left);
        (own, before.left) = (own - part, before.left - part);
    }
    others.push(DeviceHolder { id, own, left: milli });
}

fn held(grants: &[DeviceGrant], cores: &[u16]) -> Vec<(String, u32)> {
    let devices = grants.iter().flat_map(|grant| {
        grant.instances.iter().map(|id| (format!("device {id}"), u32::from(grant.milli_each)))
    });
    devices.chain(cores.iter().map(|core| (format!("core {core}"), 1000))).collect()
}

fn is_asked_for(checked: &CheckedPlan<'_>, placement: &Placement, node: &Node) -> bool {
    let Some((_, group)) = checked.spec(placement) else { return true };
    let asks: Vec<&DeviceAsk> = group.tasks.iter().flat_map(|task| &task.resources.devices).collect();
    let cores: u32 = group.tasks.iter().map(|task| task.resources.cores).sum();
    let grants = asks.iter().zip(&placement.devices).all(|(ask, grant)| answers(node, ask, grant));
    let there = placement.cores.iter().all(|core| node.cores.contains(core));
    grants && asks.len() == placement.devices.len() && there && cores as usize == placement.cores.len()
}

/// As many different healthy devices as asked for, of one model that will do, and of each as much as asked for.
fn answers(node: &Node, ask: &DeviceAsk, grant: &DeviceGrant) -> bool {
    let Some(device) = node.devices.iter().find(|device| device.to_string() == grant.device) else {
        return false;
    };
    let healthy = |id: &String| device.instances.iter().any(|one| one.id == *id && one.healthy);
    let twice = (1..grant.instances.len()).any(|at| grant.instances[..at].contains(&grant.instances[at]));
    let each = if ask.share_milli == 0 { 1000 } else { ask.share_milli };
    DeviceRequest::new(ask).accepts(device)
        && grant.instances.len() == ask.count as usize
        && !twice
        && grant.instances.iter().all(healthy)
        && grant.milli_each == each
}
