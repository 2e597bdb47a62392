//! Which refusals were wrong: whether the refused instance fits into what the cluster has left.

use std::collections::HashMap;

use serde::Deserialize;

use super::{
    decisions::PlacementRequest,
    flavors::{Capacity, FLAVORS, NODE},
    preload::{FillerJob, PREFIX},
};
use crate::run::{RunError, Target, client::JobIds, http::Connection};

/// An allocation in a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct HeldAlloc {
    #[serde(rename = "JobID")]
    job: String,
    #[serde(rename = "NodeID")]
    node: String,
    desired_status: String,
}

/// All allocations that there are now.
pub(super) async fn holders(target: &Target) -> Result<Vec<HeldAlloc>, RunError> {
    Connection::open(target).await?.list("/v1/allocations?").await
}

/// What jobs request, by their ids.
pub(super) struct JobRequests<'a> {
    pub ids: JobIds,
    pub flavors: &'a [usize],
    pub fillers: &'a [FillerJob],
}

impl JobRequests<'_> {
    fn of(&self, job: &str) -> Option<Capacity> {
        if let Some(number) = self.ids.number(job) {
            return Some(FLAVORS[*self.flavors.get(number as usize)?]);
        }
        let number: usize = job.strip_prefix(PREFIX)?.parse().ok()?;
        Some(self.fillers.get(number)?.capacity)
    }
}

/// What is left on each of `nodes` nodes.
pub(super) fn left(nodes: u32, holders: &[HeldAlloc], job_requests: &JobRequests<'_>) -> Vec<Capacity> {
    let mut used: HashMap<&str, Capacity> = HashMap::new();
    for holder in holders.iter().filter(|holder| holder.desired_status == "run") {
        if let Some(capacity) = job_requests.of(&holder.job) {
            let left = used.entry(&holder.node).or_insert(NODE);
            *left = left.minus(capacity);
        }
    }
    let untouched = (nodes as usize).saturating_sub(used.len());
    used.into_values().chain(std::iter::repeat_n(NODE, untouched)).collect()
}

/// How many refusals were wrong. Where `nothing_ends`, that is also what was refused at first and placed later: the room was
/// there before.
pub(super) fn wrong_refusals(
    requests: &[PlacementRequest],
    flavors: &[usize],
    mut left: Vec<Capacity>,
    nothing_ends: bool,
) -> usize {
    let refused = || requests.iter().zip(flavors).filter(|(request, _)| request.refused);
    let later = refused().filter(|(request, _)| request.placed && nothing_ends).count();
    // The largest first: what is left for the others is what it leaves.
    let mut still: Vec<usize> =
        refused().filter(|(request, _)| !request.placed).map(|(_, flavor)| *flavor).collect();
    still.sort_unstable_by(|a, b| b.cmp(a));
    let fits = still.into_iter().filter(|flavor| {
        let demand = FLAVORS[*flavor];
        let tightest =
            left.iter_mut().filter(|capacity| capacity.holds(demand)).min_by_key(|capacity| capacity.disk_mb);
        tightest.is_some_and(|capacity| {
            *capacity = capacity.minus(demand);
            true
        })
    });
    later + fits.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACED: PlacementRequest =
        PlacementRequest { decided_s: Some(1.0), refused: false, placed: true, started: true };
    const REFUSED: PlacementRequest =
        PlacementRequest { refused: true, placed: false, started: false, ..PLACED };
    const LATE: PlacementRequest = PlacementRequest { refused: true, ..PLACED };

    fn holder(job: &str, node: &str, desired_status: &str) -> HeldAlloc {
        let [job, node, desired_status] = [job, node, desired_status].map(str::to_owned);
        HeldAlloc { job, node, desired_status }
    }

    #[test]
    fn what_nodes_have_left_follows_from_who_holds_what() {
        let ids = JobIds::new();
        let fillers = [FillerJob { count: 1, capacity: NODE.minus(FLAVORS[5]) }];
        let job_requests = JobRequests { ids, flavors: &[4, 5], fillers: &fillers };
        let holders = [
            holder("preload-0", "a", "run"),
            holder(&ids.id(0), "a", "run"),
            holder(&ids.id(1), "b", "stop"),
            holder("somebody", "b", "run"),
        ];
        let left = left(3, &holders, &job_requests);
        assert_eq!(left, [FLAVORS[5].minus(FLAVORS[4]), NODE, NODE]);
    }

    #[test]
    fn a_refusal_is_wrong_where_room_is_left() {
        let capacity = || vec![FLAVORS[2], FLAVORS[4]];
        let wrong = |requests: &[PlacementRequest], flavors: &[usize]| {
            wrong_refusals(requests, flavors, capacity(), true)
        };
        assert_eq!(wrong(&[PLACED, REFUSED], &[0, 5]), 0, "the largest fits nowhere");
        assert_eq!(wrong(&[PLACED, REFUSED], &[0, 2]), 1);
        assert_eq!(wrong(&[REFUSED, REFUSED, REFUSED], &[4, 2, 2]), 2, "there is room for two of them");
        assert_eq!(wrong(&[LATE], &[5]), 1, "it was placed in the end");
        assert_eq!(wrong_refusals(&[LATE], &[5], capacity(), false), 0, "room came");
    }
}
