//! Which refusals were wrong: whether what was refused fits into what the cluster has left.

use std::collections::HashMap;

use serde::Deserialize;

use super::{
    decisions::Request,
    flavors::{FLAVORS, NODE, Room},
    preload::{Filler, PREFIX},
};
use crate::run::{RunError, Target, client::JobIds, http::Connection};

/// An allocation in a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Holder {
    #[serde(rename = "JobID")]
    job: String,
    #[serde(rename = "NodeID")]
    node: String,
    desired_status: String,
}

/// All allocations that there are now.
pub(super) async fn holders(target: &Target) -> Result<Vec<Holder>, RunError> {
    Connection::open(target).await?.list("/v1/allocations?").await
}

/// What jobs ask for, by their ids.
pub(super) struct Asks<'a> {
    pub ids: JobIds,
    pub flavors: &'a [usize],
    pub fillers: &'a [Filler],
}

impl Asks<'_> {
    fn of(&self, job: &str) -> Option<Room> {
        if let Some(number) = self.ids.number(job) {
            return Some(FLAVORS[*self.flavors.get(number as usize)?]);
        }
        let number: usize = job.strip_prefix(PREFIX)?.parse().ok()?;
        Some(self.fillers.get(number)?.room)
    }
}

/// What is left on each of `nodes` nodes.
pub(super) fn left(nodes: u32, holders: &[Holder], asks: &Asks<'_>) -> Vec<Room> {
    let mut used: HashMap<&str, Room> = HashMap::new();
    for holder in holders.iter().filter(|holder| holder.desired_status == "run") {
        if let Some(room) = asks.of(&holder.job) {
            let left = used.entry(&holder.node).or_insert(NODE);
            *left = left.minus(room);
        }
    }
    let untouched = (nodes as usize).saturating_sub(used.len());
    used.into_values().chain(std::iter::repeat_n(NODE, untouched)).collect()
}

/// How many refusals were wrong. Where `nothing_ends`, that is also what was refused at first and placed later: the room was
/// there before.
pub(super) fn wrong_refusals(
    requests: &[Request],
    flavors: &[usize],
    mut left: Vec<Room>,
    nothing_ends: bool,
) -> usize {
    let refused = || requests.iter().zip(flavors).filter(|(request, _)| request.refused);
    let later = refused().filter(|(request, _)| request.placed && nothing_ends).count();
    // The largest first: what is left for the others is what it leaves.
    let mut still: Vec<usize> =
        refused().filter(|(request, _)| !request.placed).map(|(_, flavor)| *flavor).collect();
    still.sort_unstable_by(|a, b| b.cmp(a));
    let fits = still.into_iter().filter(|flavor| {
        let ask = FLAVORS[*flavor];
        let tightest = left.iter_mut().filter(|room| room.holds(ask)).min_by_key(|room| room.disk_mb);
        tightest.is_some_and(|room| {
            *room = room.minus(ask);
            true
        })
    });
    later + fits.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACED: Request = Request { decided_s: Some(1.0), refused: false, placed: true, started: true };
    const REFUSED: Request = Request { refused: true, placed: false, started: false, ..PLACED };
    const LATE: Request = Request { refused: true, ..PLACED };

    fn holder(job: &str, node: &str, desired_status: &str) -> Holder {
        let [job, node, desired_status] = [job, node, desired_status].map(str::to_owned);
        Holder { job, node, desired_status }
    }

    #[test]
    fn what_nodes_have_left_follows_from_who_holds_what() {
        let ids = JobIds::new();
        let fillers = [Filler { count: 1, room: NODE.minus(FLAVORS[5]) }];
        let asks = Asks { ids, flavors: &[4, 5], fillers: &fillers };
        let holders = [
            holder("preload-0", "a", "run"),
            holder(&ids.id(0), "a", "run"),
            holder(&ids.id(1), "b", "stop"),
            holder("somebody", "b", "run"),
        ];
        let left = left(3, &holders, &asks);
        assert_eq!(left, [FLAVORS[5].minus(FLAVORS[4]), NODE, NODE]);
    }

    #[test]
    fn a_refusal_is_wrong_where_room_is_left() {
        let room = || vec![FLAVORS[2], FLAVORS[4]];
        let wrong = |requests: &[Request], flavors: &[usize]| wrong_refusals(requests, flavors, room(), true);
        assert_eq!(wrong(&[PLACED, REFUSED], &[0, 5]), 0, "the largest fits nowhere");
        assert_eq!(wrong(&[PLACED, REFUSED], &[0, 2]), 1);
        assert_eq!(wrong(&[REFUSED, REFUSED, REFUSED], &[4, 2, 2]), 2, "there is room for two of them");
        assert_eq!(wrong(&[LATE], &[5]), 1, "it was placed in the end");
        assert_eq!(wrong_refusals(&[LATE], &[5], room(), false), 0, "room came");
    }
}
