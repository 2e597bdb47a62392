//! Allocations that ended before the failure: some are read before it, and must read the same afterwards.

use std::{
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::load::{self, COMPLETED};
use crate::{
    random::Random,
    run::{
        Run, RunError, Target, client::JobIds, cluster::Cluster, http::Connection, restart::is_recovering,
    },
};

/// Jobs whose allocations are read, and of each the allocations that are read one by one.
const JOBS: usize = 20;
const ALLOCS: usize = 3;
/// Between two requests to a server that does not answer, or is not ready.
const RETRY_EVERY: Duration = Duration::from_millis(5);
/// A server that has not answered by then never will.
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// How old a saved history may be: servers forget jobs four hours after their end, and a run takes some of that.
const SAVED_FOR: Duration = Duration::from_secs(3 * 3600);
/// Longest text of a difference.
const DIFFERENCE_CHARS_MAX: usize = 300;

/// Answers that were read before.
#[derive(Debug, Clone, Default)]
pub(super) struct RecordedAnswers(Vec<(String, Value)>);

impl RecordedAnswers {
    /// Reads some of the jobs that have ended, of so many.
    pub async fn read(target: &Target, jobs: u32, seed: u64) -> Result<Self, RunError> {
        let (mut connection, mut random) = (Connection::open(target).await?, Random::new(seed));
        let mut recorded = Vec::new();
        for _ in 0..JOBS.min(jobs as usize) {
            let number = u32::try_from(random.below(jobs.into())).unwrap_or_default();
            let path = format!("/v1/job/{}/allocations", JobIds::of(COMPLETED).id(number));
            let (allocs, _) = connection.get::<Value>(&path).await?;
            let all = allocs.as_array().map_or(&[][..], Vec::as_slice);
            for _ in 0..ALLOCS.min(all.len()) {
                let which = usize::try_from(random.below(all.len() as u64)).unwrap_or_default();
                let path = format!("/v1/allocation/{}", all[which]["ID"].as_str().unwrap_or_default());
                let (alloc, _) = connection.get::<Value>(&path).await?;
                recorded.push((path, lasting(alloc)));
            }
            recorded.push((path, lasting(allocs)));
        }
        Ok(Self(recorded))
    }

    /// Reads all of it from a server, from the moment on that it answers; seconds from `since` to its first answer, none where
    /// there is nothing to read, and what is wrong with its answers.
    pub async fn compare(self, target: Target, since: Instant) -> HistoryCheck {
        let mut compared = HistoryCheck::default();
        let mut connection = None;
        for (path, before) in self.0 {
            match request(&target, &mut connection, &path, since).await {
                None => {
                    compared.wrong.push(format!("{path}: no answer after {ANSWER_MAX:?}"));
                    return compared;
                }
                Some(now) => {
                    compared.first_s.get_or_insert(since.elapsed().as_secs_f64());
                    compared.wrong.extend(difference(&path, &before, &now));
                }
            }
        }
        compared
    }
}

/// What a server answers of the past.
#[derive(Debug, Default)]
pub(super) struct HistoryCheck {
    /// Its first answer, in seconds.
    pub first_s: Option<f64>,
    pub wrong: Vec<String>,
}

/// The first valid answer: a server that is not there, or not ready, gives none.
async fn request(
    target: &Target,
    connection: &mut Option<Connection>,
    path: &str,
    since: Instant,
) -> Option<Result<Value, String>> {
    while since.elapsed() < ANSWER_MAX {
        if connection.as_ref().is_none_or(Connection::is_closed) {
            *connection = Connection::open(target).await.ok();
        }
        let reply = match connection {
            Some(open) => open.exchange(Method::GET, path, Bytes::new()).await.ok(),
            None => None,
        };
        match reply {
            None => *connection = None,
            Some(reply) if is_recovering(&reply) => {}
            Some(reply) if !reply.status.is_success() => {
                return Some(Err(format!("{}: {}", reply.status, reply.text())));
            }
            Some(reply) => {
                return Some(serde_json::from_slice(&reply.body).map_err(|error| error.to_string()));
            }
        }
        sleep(RETRY_EVERY).await;
    }
    None
}

/// An answer without what is only ever observed: of the events of tasks, all but how the last process ended.
fn lasting(value: Value) -> Value {
    match value {
        Value::Array(values) => values.into_iter().map(lasting).collect(),
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| {
                let value = if name == "Events" { last_end(&value) } else { lasting(value) };
                (name, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        other => other,
    }
}

fn last_end(events: &Value) -> Value {
    let mut ends = events.as_array().into_iter().flatten().filter(|event| event["Type"] == "Terminated");
    ends.next_back().map_or(Value::Null, |end| json!([end["ExitCode"], end["Signal"], end["Time"]]))
}

/// Where an answer is another than before, for people.
fn difference(path: &str, before: &Value, now: &Result<Value, String>) -> Option<String> {
    match now {
        Err(refused) => Some(format!("{path}: {refused}")),
        Ok(now) => at(before, &lasting(now.clone())).map(|at| format!("{path}{at}")),
    }
}

/// The path at which two values differ first.
fn at(before: &Value, now: &Value) -> Option<String> {
    if before == now {
        return None;
    }
    let below = match (before, now) {
        (Value::Object(before), Value::Object(now)) => {
            before.keys().chain(now.keys().filter(|key| !before.contains_key(*key))).find_map(|key| {
                let (before, now) =
                    (before.get(key).unwrap_or(&Value::Null), now.get(key).unwrap_or(&Value::Null));
                at(before, now).map(|below| format!(" {key}{below}"))
            })
        }
        (Value::Array(before), Value::Array(now)) if before.len() == now.len() => {
            (0..).zip(before.iter().zip(now)).find_map(|(index, (before, now)): (usize, _)| {
                at(before, now).map(|below| format!(" {index}{below}"))
            })
        }
        _ => None,
    };
    let summary = || {
        let summary = format!(": was {before}, is {now}");
        summary.chars().take(DIFFERENCE_CHARS_MAX).collect()
    };
    Some(below.unwrap_or_else(summary))
}

/// Jobs that have so many allocations in all.
pub(super) fn jobs_of(allocs: u32) -> u32 {
    load::completed(allocs).count()
}

/// Whether a saved history is so old that servers may forget it before it is read.
pub(super) fn is_too_old(file: &Path) -> bool {
    let saved_at = std::fs::metadata(file).and_then(|found| found.modified());
    saved_at.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > SAVED_FOR))
}

/// Restores a saved history into an empty cluster.
pub(super) fn restore(run: &Run<'_>, cluster: &Cluster, file: &Path) -> Result<(), RunError> {
    snapshot(run, cluster, &["restore".as_ref(), "--yes".as_ref(), file.as_os_str()])
}

/// Saves the state to a file that is not there yet.
pub(super) fn save(run: &Run<'_>, cluster: &Cluster, file: &Path) -> Result<(), RunError> {
    snapshot(run, cluster, &["save".as_ref(), file.as_os_str()])
}

/// `berth operator snapshot`, as an operator uses it.
fn snapshot(run: &Run<'_>, cluster: &Cluster, args: &[&std::ffi::OsStr]) -> Result<(), RunError> {
    let failed = |reason: String| RunError::Start { what: "the history".to_owned(), reason };
    let mut command = Command::new(&run.options.berth);
    command.args(["operator", "snapshot"]).args(args);
    command.env("BERTH_ADDR", cluster.target.address.to_string());
    let done = command.output().map_err(|error| failed(error.to_string()))?;
    let summary = || String::from_utf8_lossy(&done.stderr).trim().to_owned();
    if done.status.success() { Ok(()) } else { Err(failed(summary())) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_servers_may_have_forgotten_is_not_restored() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let saved = |hours: u64| {
            let at = std::time::SystemTime::now() - Duration::from_secs(hours * 3600);
            file.as_file().set_modified(at).expect("set");
            is_too_old(file.path())
        };
        assert!(!saved(0) && !saved(2) && saved(4));
        assert!(!is_too_old(Path::new("/nowhere")), "it is made by the run");
    }

    #[test]
    fn the_first_difference_is_named() {
        let before = json!([{"ID": "a", "TaskStates": {"task": {"Failed": false}}}]);
        assert_eq!(difference("/v1/x", &before, &Ok(before.clone())), None);
        let now = json!([{"ID": "a", "TaskStates": {"task": {"Failed": true}}}]);
        let summary = difference("/v1/x", &before, &Ok(now)).unwrap();
        assert_eq!(summary, "/v1/x 0 TaskStates task Failed: was false, is true");
        assert!(difference("/v1/x", &before, &Err("404: no".to_owned())).is_some());
    }

    #[test]
    fn of_events_only_the_end_of_the_last_process_lasts() {
        let [received, ended] = [
            json!({"Type": "Received", "Time": 1}),
            json!({"Type": "Terminated", "Time": 2, "ExitCode": 7, "Signal": 0, "Message": "x"}),
        ];
        let task = |events: Value| json!({"TaskStates": {"task": {"Failed": false, "Events": events}}});
        let mut seen = task(json!([received, ended]));
        seen["ModifyTime"] = 8.into();
        let before = lasting(seen);
        let modified = |mut task: Value, at: u64| {
            task["ModifyTime"] = at.into();
            Ok(task)
        };
        assert_eq!(before, modified(task(json!([7, 0, 2])), 8).unwrap());
        assert_eq!(difference("/v1/x", &before, &modified(task(json!([ended])), 8)), None);
        assert!(difference("/v1/x", &before, &modified(task(json!([received])), 8)).is_some());
        assert!(difference("/v1/x", &before, &modified(task(json!([ended])), 7)).is_some());
    }
}
