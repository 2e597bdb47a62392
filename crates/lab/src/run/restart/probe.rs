//! Polls a server that was just started until its answers are right, and counts the wrong ones before.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use tokio::time::sleep;

use super::{churn::is_recovering, job_states::ListedJob, ledger::SharedLedger};
use crate::run::{
    RunError, Target,
    http::{Connection, HttpReply},
};

/// Between two requests to a server that does not answer, or is not ready.
const RETRY_EVERY: Duration = Duration::from_millis(2);
/// A server that has not answered right by then has failed.
const RIGHT_MAX: Duration = Duration::from_secs(120);
/// Jobs in the page of the list that is read.
const LISTED: usize = 200;
/// Wrong answers that are listed, for people.
const WRONG_SAMPLES_MAX: usize = 5;

/// What the probes read, of jobs that change and of jobs that never do.
#[derive(Debug, Clone)]
pub(super) struct ProbeTargets {
    /// How the ids of jobs that change begin.
    pub changing: String,
    /// How the ids of jobs that never change begin.
    pub stable: String,
    /// One of them, and what the nodes ran for it before the server was killed.
    pub job: String,
    pub allocs: HashSet<String>,
}

/// How a server came back.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerReturn {
    /// Seconds from the start of the process to the last of the first right answers to each question.
    pub right_s: f64,
    /// Answers that were older than what had been acknowledged, lists that were empty, and refusals to answer yet.
    pub stale: u64,
    pub empty: u64,
    pub recovering: u64,
    /// Some of the wrong answers, for people.
    pub wrong_samples: Vec<String>,
}

/// An allocation in the list of its job.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProbedAlloc {
    #[serde(rename = "ID")]
    id: String,
    desired_status: String,
    client_status: String,
}

/// A question, and whether it has been answered right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProbeQuery {
    /// All jobs that change.
    Changing,
    /// Some of the jobs that never change.
    Stable,
    /// The allocations of one of them.
    Allocs,
}

/// What an answer is worth.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    /// Refused because the state is not recovered yet.
    NotYet,
    Empty,
    Stale(String),
}

/// Asks from `started` on, when the server's process was started.
pub(super) async fn until_right(
    target: &Target,
    targets: &ProbeTargets,
    ledger: &SharedLedger,
    started: Instant,
) -> Result<ServerReturn, RunError> {
    let mut server_return = ServerReturn::default();
    let mut open = vec![ProbeQuery::Changing, ProbeQuery::Stable, ProbeQuery::Allocs];
    while !open.is_empty() {
        if started.elapsed() > RIGHT_MAX {
            let wrong_samples = format!(
                "the server has not answered right after {RIGHT_MAX:?}: {}",
                server_return.wrong_samples.join("; ")
            );
            return Err(RunError::Incomplete(wrong_samples));
        }
        if ask_all(target, targets, ledger, &mut open, &mut server_return).await.is_err() || !open.is_empty()
        {
            sleep(RETRY_EVERY).await;
        }
    }
    server_return.right_s = started.elapsed().as_secs_f64();
    Ok(server_return)
}

/// Asks what is not yet answered right, on a connection of its own: only answers count.
async fn ask_all(
    target: &Target,
    targets: &ProbeTargets,
    ledger: &SharedLedger,
    open: &mut Vec<ProbeQuery>,
    server_return: &mut ServerReturn,
) -> Result<(), RunError> {
    let mut connection = Connection::open(target).await?;
    for question in open.clone() {
        ledger.lock().job_states.hold();
        let reply = connection.exchange(Method::GET, &question.path(targets), Bytes::new()).await?;
        match question.judge(targets, ledger, &reply) {
            Verdict::Right => open.retain(|other| *other != question),
            Verdict::NotYet => server_return.recovering += 1,
            Verdict::Empty => {
                server_return.empty += 1;
                server_return.add_wrong(format!("{}: 200 and nothing in it", question.path(targets)));
            }
            Verdict::Stale(why) => {
                server_return.stale += 1;
                server_return.add_wrong(format!("{}: {why}", question.path(targets)));
            }
        }
    }
    Ok(())
}

impl ServerReturn {
    fn add_wrong(&mut self, wrong: String) {
        if self.wrong_samples.len() < WRONG_SAMPLES_MAX {
            self.wrong_samples.push(wrong);
        }
    }
}

impl ProbeQuery {
    fn path(self, targets: &ProbeTargets) -> String {
        let ProbeTargets { changing, stable, job, .. } = targets;
        match self {
            Self::Changing => format!("/v1/jobs?meta=true&prefix={changing}"),
            Self::Stable => format!("/v1/jobs?prefix={stable}&per_page={LISTED}"),
            Self::Allocs => format!("/v1/job/{job}/allocations"),
        }
    }

    fn judge(self, targets: &ProbeTargets, ledger: &SharedLedger, reply: &HttpReply) -> Verdict {
        if is_recovering(reply) {
            return Verdict::NotYet;
        }
        if !reply.status.is_success() {
            return Verdict::Stale(format!("{}: {}", reply.status, reply.text()));
        }
        match self {
            Self::Changing => read(reply, |jobs: &[ListedJob]| {
                ledger.lock().job_states.check(&targets.changing, jobs).into_iter().next()
            }),
            Self::Stable => read(reply, |jobs: &[ListedJob]| {
                let least = ledger.lock().job_states.listed(&targets.stable).min(LISTED);
                (jobs.len() < least).then(|| format!("{} jobs, not {least}", jobs.len()))
            }),
            Self::Allocs => read(reply, |allocs: &[ProbedAlloc]| unlike(allocs, &targets.allocs)),
        }
    }
}

/// Reads a list that must hold something, and lets `wrong` judge it.
fn read<T: serde::de::DeserializeOwned>(
    reply: &HttpReply,
    wrong: impl FnOnce(&[T]) -> Option<String>,
) -> Verdict {
    match serde_json::from_slice::<Vec<T>>(&reply.body) {
        Err(error) => Verdict::Stale(error.to_string()),
        Ok(items) => match wrong(&items) {
            None => Verdict::Right,
            Some(_) if items.is_empty() => Verdict::Empty,
            Some(why) => Verdict::Stale(why),
        },
    }
}

/// What is wrong with the list of the allocations of a job that never changes; the nodes ran `running` for it.
fn unlike(allocs: &[ProbedAlloc], running: &HashSet<String>) -> Option<String> {
    let right = |alloc: &ProbedAlloc| {
        alloc.desired_status == "run"
            && ["running", "pending"].contains(&alloc.client_status.as_str())
            && running.contains(&alloc.id)
    };
    let is_right = !allocs.is_empty() && allocs.len() == running.len() && allocs.iter().all(right);
    (!is_right).then(|| format!("{allocs:?}, and the nodes ran {running:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_right_when_the_nodes_run_them() {
        let listed = |client_status: &str| {
            vec![ProbedAlloc {
                id: "a".to_owned(),
                desired_status: "run".to_owned(),
                client_status: client_status.to_owned(),
            }]
        };
        let running = HashSet::from(["a".to_owned()]);
        assert_eq!(unlike(&listed("running"), &running), None);
        assert_eq!(unlike(&listed("pending"), &running), None);
        assert!(unlike(&listed("lost"), &running).is_some());
        assert!(unlike(&[], &running).is_some());
        assert!(unlike(&[], &HashSet::new()).is_some());
    }
}
