//! The smallest change: what stands alone in the way on some nodes.

use std::{cmp::Reverse, collections::BTreeMap};

use berth_model::resources::Dimension;

use super::obstacle::{GroupFit, Obstacle, ScarceResource};

/// One change of the job or of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuggestedChange {
    /// What to do, as users read it.
    pub what: String,
    /// On how many nodes one more allocation could be placed then.
    pub nodes: u32,
}

/// Asking for this much less is a small change: less than to do without a constraint.
const SMALL_PERCENT: u64 = 50;

/// The changes after which one more allocation of a group could be placed: asking for a little less, then what opens the
/// most nodes, then asking for much less.
pub(super) fn smallest(looked: &GroupFit<'_>) -> Vec<SuggestedChange> {
    let mut others: BTreeMap<String, u32> = BTreeMap::new();
    let mut short: BTreeMap<ScarceResource, Vec<(u32, u32)>> = BTreeMap::new();
    for (slot, _) in looked.planned_cluster.store.nodes().iter() {
        match &looked.on(slot)[..] {
            [Obstacle::Short { what, requested, free }] => {
                short.entry(what.clone()).or_default().push((*requested, *free));
            }
            [only] => *others.entry(remedy(only)).or_default() += 1,
            _ => {}
        }
    }
    let mut changes: Vec<(u8, u64, SuggestedChange)> =
        short.into_iter().filter_map(|(what, short)| ask_for_less(&what, &short)).collect();
    changes.extend(
        others
            .into_iter()
            .map(|(what, nodes)| (1, u64::MAX - u64::from(nodes), SuggestedChange { what, nodes })),
    );
    changes.sort_by_key(|(rank, size, _)| (*rank, *size));
    changes.into_iter().map(|(_, _, change)| change).collect()
}

fn remedy(obstacle: &Obstacle) -> String {
    match obstacle {
        Obstacle::NotReady(_) => "bring a node back, or open one that is closed".to_owned(),
        Obstacle::Filtered(objection) => objection.remedy.clone(),
        Obstacle::Port(port) => format!("use another port than {port}"),
        Obstacle::Distinct(constraint) => format!("drop the constraint {constraint}"),
        Obstacle::Short { what, .. } => format!("ask for less {what}"),
    }
}

/// The least that suffices on one node, and how many nodes it suffices on; with how large a part of the ask it is.
fn ask_for_less(what: &ScarceResource, short: &[(u32, u32)]) -> Option<(u8, u64, SuggestedChange)> {
    let (requested, free) =
        *short.iter().min_by_key(|(requested, free)| (requested - free, Reverse(*free)))?;
    let least = requested - free;
    let nodes = short.iter().filter(|(requested, free)| requested - free <= least).count();
    let percent = u64::from(least) * 100 / u64::from(requested).max(1);
    let what = match what {
        ScarceResource::Room(Dimension::Cpu) => {
            format!("ask for {least} MHz less cpu: {free} instead of {requested}")
        }
        ScarceResource::Room(room) => {
            format!("ask for {least} MiB less {room}: {free} instead of {requested}")
        }
        ScarceResource::Devices(_) | ScarceResource::Cores => {
            format!("ask for {least} fewer {what}: {free} instead of {requested}")
        }
        ScarceResource::Share(name) => {
            format!("ask for a smaller share of {name}: {free} thousandths instead of {requested}")
        }
    };
    let rank = if percent <= SMALL_PERCENT { 0 } else { 2 };
    let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
    (free > 0).then_some((rank, percent, SuggestedChange { what, nodes }))
}
