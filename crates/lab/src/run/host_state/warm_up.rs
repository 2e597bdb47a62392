//! Brings every planner's view of the cluster up to date before the first request: only from then on may a cache be stale.

use std::time::{Duration, Instant};

use hyper::Method;
use serde::Deserialize;
use serde_json::json;

use super::{flavors::FLAVORS, plans};
use crate::run::{RunError, Target, client::JobTemplate, http::Connection};

/// A job without allocations.
const JOB: &str = "warm-up";
/// Until a planner must have answered.
const ANSWERED_MAX: Duration = Duration::from_secs(30);
const POLL_EVERY: Duration = Duration::from_millis(10);

/// Has a node change, at which planners that cache look again, and then has each planner answer an evaluation: they are dealt
/// to these planners in turn.
pub(super) async fn warm_up(target: &Target, planners: u32) -> Result<(), RunError> {
    let mut connection = Connection::open(target).await?;
    close_and_open_a_node(&mut connection).await?;
    let body = JobTemplate::new(0, FLAVORS[0].job(0)).body(JOB);
    connection.write(Method::PUT, "/v1/jobs", body).await?;
    for answered in 1..=planners {
        wait_until_answered(target, answered as usize).await?;
        let body = json!({ "JobID": JOB }).to_string().into();
        connection.write(Method::PUT, &format!("/v1/job/{JOB}/evaluate"), body).await?;
    }
    wait_until_answered(target, planners as usize + 1).await
}

async fn close_and_open_a_node(connection: &mut Connection) -> Result<(), RunError> {
    #[derive(Deserialize)]
    struct ListedNode {
        #[serde(rename = "ID")]
        id: String,
    }
    let (nodes, _): (Vec<ListedNode>, _) = connection.get("/v1/nodes?per_page=1").await?;
    for node in nodes {
        let path = format!("/v1/node/{}/eligibility", node.id);
        for eligibility in ["ineligible", "eligible"] {
            let body = json!({ "Eligibility": eligibility }).to_string().into();
            connection.write(Method::PUT, &path, body).await?;
        }
    }
    Ok(())
}

async fn wait_until_answered(target: &Target, plans: usize) -> Result<(), RunError> {
    let started_at = Instant::now();
    loop {
        let made = plans::read(target).await?.iter().filter(|plan| plan.job_id == JOB).count();
        if made >= plans {
            return Ok(());
        }
        if started_at.elapsed() > ANSWERED_MAX {
            let message =
                format!("{made} of {plans} evaluations of {JOB} are answered after {ANSWERED_MAX:?}");
            return Err(RunError::Incomplete(message));
        }
        tokio::time::sleep(POLL_EVERY).await;
    }
}
