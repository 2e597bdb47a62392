//! Why an ask fits nowhere: how each node fell out of consideration.

use berth_model::{eval::Funnel, store::NodeSlot};

use super::{
    columns::Columns, device_asks::DeviceAsks, distinct::DistinctRules, ports::PortRefusal,
    requirements::Requirements,
};
use crate::filters::FilterRefusal;

/// Counts every ready node among `slots` once, at the first step where it fell out. `ports` says why a node cannot give
/// the host ports.
pub fn funnel(
    slots: impl Iterator<Item = NodeSlot>,
    columns: &Columns,
    requirements: &Requirements,
    distinct: &DistinctRules,
    asks: &DeviceAsks,
    ports: impl Fn(NodeSlot) -> Option<PortRefusal>,
) -> Funnel {
    let mut funnel = Funnel::default();
    for slot in slots {
        let (row, Some(node)) = (columns.row(slot), columns.node(slot)) else { continue };
        if !row.ready {
            continue;
        }
        funnel.considered += 1;
        let zone = requirements.zone(columns, slot).map(|zone| &requirements.zones()[zone as usize]);
        let refused = if zone.is_some() { None } else { requirements.filters.check(node).err() };
        if refused == Some(FilterRefusal::NotAvailable) {
            continue;
        }
        *funnel.available.entry(node.datacenter.clone()).or_default() += 1;
        if let Some(FilterRefusal::Filtered(reason)) = refused {
            *funnel.filtered.entry(reason).or_default() += 1;
        } else if let Some(Err(reason)) = zone.map(|zone| distinct.check(slot, zone)) {
            *funnel.filtered.entry(reason.to_owned()).or_default() += 1;
        } else {
            let short = asks.on(node).exceeds(row.free).map(|dimension| dimension.to_string());
            let short = short
                .or_else(|| asks.grant((slot, node), &columns.held(slot), columns.catalog()).err())
                .or_else(|| ports(slot))
                // Whatever else might run out has no check of its own.
                .unwrap_or_else(|| "other room".to_owned());
            *funnel.exhausted.entry(short).or_default() += 1;
        }
    }
    funnel
}
