//! Why an ask fits nowhere: how each node fell out of consideration.

use berth_model::{eval::Funnel, resources::Resources, store::NodeSlot};

use super::{columns::Columns, distinct::Distinct, feasible::refusal};
use crate::filters::{Filters, Refused};

/// Counts every ready node among `slots` once, at the first step where it fell out.
pub fn funnel(
    slots: impl Iterator<Item = NodeSlot>,
    columns: &Columns,
    filters: &Filters,
    distinct: &Distinct,
    ask: Resources,
) -> Funnel {
    let mut funnel = Funnel::default();
    for slot in slots {
        let (row, Some(node)) = (columns.row(slot), columns.node(slot)) else { continue };
        if !row.ready {
            continue;
        }
        funnel.considered += 1;
        let refused = refusal(filters, node);
        if refused == Some(Refused::NotAvailable) {
            continue;
        }
        *funnel.available.entry(node.datacenter.clone()).or_default() += 1;
        if let Some(Refused::Filtered(reason)) = refused {
            *funnel.filtered.entry(reason).or_default() += 1;
        } else if let Err(reason) = distinct.check(slot, node) {
            *funnel.filtered.entry(reason).or_default() += 1;
        } else {
            // It has room and no refusal of a filter: what is left is ports.
            let short = ask.exceeds(row.free).map_or("network: ports".to_owned(), |d| d.to_string());
            *funnel.exhausted.entry(short).or_default() += 1;
        }
    }
    funnel
}
