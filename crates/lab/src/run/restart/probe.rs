//! Asks a server that has just been started until it answers right, and counts what it says before.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde::Deserialize;
use tokio::time::sleep;

use super::{account::Account, books::JobSeen, churn::is_recovering};
use crate::run::{
    RunError, Target,
    http::{Connection, Reply},
};

/// Before a server that is not there, or not yet ready, is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(2);
/// A server that has not answered right by then has failed.
const RIGHT_MAX: Duration = Duration::from_secs(120);
/// Jobs in the part of the list that is asked for.
const LISTED: usize = 200;
/// Wrong answers that are listed, for people.
const TOLD_MAX: usize = 5;

/// What is asked, of jobs that change and of jobs that never do.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// How the ids of jobs that change begin.
    pub changing: String,
    /// How the ids of jobs that never change begin.
    pub still: String,
    /// One of them, and what the nodes ran for it before the server was killed.
    pub job: String,
    pub allocs: HashSet<String>,
}

/// How a server came back.
#[derive(Debug, Clone, Default)]
pub(super) struct Back {
    /// Seconds from the start of the process to the last of the first right answers to each question.
    pub right_s: f64,
    /// Answers that were older than what had been acknowledged, lists that were empty, and refusals to answer yet.
    pub stale: u64,
    pub empty: u64,
    pub recovering: u64,
    /// Some of the wrong answers, for people.
    pub told: Vec<String>,
}

/// An allocation in the list of its job.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AllocListed {
    #[serde(rename = "ID")]
    id: String,
    desired_status: String,
    client_status: String,
}

/// A question, and whether it has been answered right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// All jobs that change.
    Changing,
    /// Some of the jobs that never change.
    Still,
    /// The allocations of one of them.
    Allocs,
}

/// What an answer is worth.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Right,
    /// An honest refusal.
    NotYet,
    Empty,
    Stale(String),
}

/// Asks from `started` on, when the server's process was started.
pub(super) async fn until_right(
    target: &Target,
    asked: &Asked,
    account: &Account,
    started: Instant,
) -> Result<Back, RunError> {
    let mut back = Back::default();
    let mut open = vec![Question::Changing, Question::Still, Question::Allocs];
    while !open.is_empty() {
        if started.elapsed() > RIGHT_MAX {
            let told =
                format!("the server has not answered right after {RIGHT_MAX:?}: {}", back.told.join("; "));
            return Err(RunError::Incomplete(told));
        }
        if ask_all(target, asked, account, &mut open, &mut back).await.is_err() || !open.is_empty() {
            sleep(ASK_AGAIN).await;
        }
    }
    back.right_s = started.elapsed().as_secs_f64();
    Ok(back)
}

/// Asks what is not yet answered right, on a connection of its own: only answers count.
async fn ask_all(
    target: &Target,
    asked: &Asked,
    account: &Account,
    open: &mut Vec<Question>,
    back: &mut Back,
) -> Result<(), RunError> {
    let mut connection = Connection::open(target).await?;
    for question in open.clone() {
        account.lock().books.hold();
        let reply = connection.exchange(Method::GET, &question.path(asked), Bytes::new()).await?;
        match question.judge(asked, account, &reply) {
            Verdict::Right => open.retain(|other| *other != question),
            Verdict::NotYet => back.recovering += 1,
            Verdict::Empty => {
                back.empty += 1;
                back.tell(format!("{}: 200 and nothing in it", question.path(asked)));
            }
            Verdict::Stale(why) => {
                back.stale += 1;
                back.tell(format!("{}: {why}", question.path(asked)));
            }
        }
    }
    Ok(())
}

impl Back {
    fn tell(&mut self, wrong: String) {
        if self.told.len() < TOLD_MAX {
            self.told.push(wrong);
        }
    }
}

impl Question {
    fn path(self, asked: &Asked) -> String {
        let Asked { changing, still, job, .. } = asked;
        match self {
            Self::Changing => format!("/v1/jobs?meta=true&prefix={changing}"),
            Self::Still => format!("/v1/jobs?prefix={still}&per_page={LISTED}"),
            Self::Allocs => format!("/v1/job/{job}/allocations"),
        }
    }

    fn judge(self, asked: &Asked, account: &Account, reply: &Reply) -> Verdict {
        if is_recovering(reply) {
            return Verdict::NotYet;
        }
        if !reply.status.is_success() {
            return Verdict::Stale(format!("{}: {}", reply.status, reply.text()));
        }
        match self {
            Self::Changing => read(reply, |jobs: &[JobSeen]| {
                account.lock().books.check(&asked.changing, jobs).into_iter().next()
            }),
            Self::Still => read(reply, |jobs: &[JobSeen]| {
                let least = account.lock().books.listed(&asked.still).min(LISTED);
                (jobs.len() < least).then(|| format!("{} jobs, not {least}", jobs.len()))
            }),
            Self::Allocs => read(reply, |allocs: &[AllocListed]| unlike(allocs, &asked.allocs)),
        }
    }
}

/// Reads a list that must hold something, and lets `wrong` say what is wrong with it.
fn read<T: serde::de::DeserializeOwned>(
    reply: &Reply,
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
fn unlike(allocs: &[AllocListed], running: &HashSet<String>) -> Option<String> {
    let right = |alloc: &AllocListed| {
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
            vec![AllocListed {
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
