//! Fills a cluster, so that exactly one request of one flavor fits on each of its nodes, or nothing.

use std::time::{Duration, Instant};

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use super::{
    flavors::{Capacity, FLAVORS, NODE, count},
    scenario::Scenario,
};
use crate::run::{
    RunError, Target,
    client::{AllocStatus, JobTemplate},
    http::Connection,
};

/// How the ids of the jobs begin that fill the cluster.
pub(super) const PREFIX: &str = "preload-";

/// Until all of it must run.
const RUNNING_MAX: Duration = Duration::from_secs(120);
const POLL_EVERY: Duration = Duration::from_millis(50);

/// A job that fills nodes, and what each of its allocations holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FillerJob {
    /// Allocations, each on a node of its own.
    pub count: u32,
    pub capacity: Capacity,
}

/// The jobs that fill the cluster, the one that fills whole nodes first: the others then go to what is still empty.
///
/// For each request but one there is a node with exactly its room. The one without is of the largest flavor, so that it fits
/// nowhere else, and best fit takes nobody else's room.
pub(super) fn fillers(scenario: &Scenario, flavors: &[usize]) -> Vec<FillerJob> {
    let mut slots = count(flavors);
    if let Some(largest) = slots.iter_mut().rev().find(|count| **count > 0) {
        *largest -= 1;
    }
    let whole = FillerJob { count: scenario.nodes - scenario.slots(), capacity: NODE };
    let rest =
        FLAVORS.iter().zip(slots).map(|(flavor, count)| FillerJob { count, capacity: NODE.minus(*flavor) });
    [whole].into_iter().chain(rest).filter(|filler| filler.count > 0).collect()
}

/// Registers the jobs one after the other, and waits until each runs.
pub(super) async fn preload(target: &Target, fillers: &[FillerJob]) -> Result<(), RunError> {
    let mut connection = Connection::open(target).await?;
    for (number, FillerJob { count, capacity }) in fillers.iter().enumerate() {
        let mut job = capacity.job(*count);
        job["TaskGroups"][0]["Constraints"] = json!([{"Operand": "distinct_hosts", "RTarget": "true"}]);
        let id = format!("{PREFIX}{number}");
        let body = JobTemplate::new(*count, job).body(&id);
        connection.write(Method::PUT, "/v1/jobs", body).await?;
        wait_until_running(&mut connection, &id, *count).await?;
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PreloadAlloc {
    client_status: AllocStatus,
}

async fn wait_until_running(connection: &mut Connection, id: &str, count: u32) -> Result<(), RunError> {
    let started_at = Instant::now();
    let path = format!("/v1/job/{id}/allocations");
    loop {
        let (allocs, _): (Vec<PreloadAlloc>, _) = connection.get(&path).await?;
        let running = allocs.iter().filter(|alloc| alloc.client_status == AllocStatus::Running).count();
        if running == count as usize {
            return Ok(());
        }
        if started_at.elapsed() > RUNNING_MAX {
            let message = format!("{running} of {count} allocations of {id} run after {RUNNING_MAX:?}");
            return Err(RunError::Incomplete(message));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::host_state::flavors::draw;

    #[test]
    fn every_request_but_one_has_a_node_with_exactly_its_room() {
        let scenario = Scenario {
            nodes: 60,
            requests: 50,
            kinds: 6,
            planners: 1,
            kind: "incremental".to_owned(),
            algorithm: "binpack",
            preload: true,
            population: None,
        };
        let fillers = fillers(&scenario, &draw(50, 6, 3));
        let counts: Vec<u32> = fillers.iter().map(|filler| filler.count).collect();
        assert_eq!(counts, [11, 9, 9, 8, 8, 8, 7]);
        assert_eq!(counts.iter().sum::<u32>(), scenario.nodes);
        for (filler, flavor) in fillers[1..].iter().zip(FLAVORS) {
            assert_eq!(NODE.minus(filler.capacity), flavor);
        }
    }
}
