//! Jobs to submit: alike but for their ids, so that one is encoded once and its id replaced.

use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use serde_json::{Value, json};

/// Stands where the id goes.
const ID: &str = "@ID@";
/// How the ids of all jobs of this kind begin.
const PREFIX: &str = "lab-";

/// The ids of the jobs of one run; nobody else's are like them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::run) struct JobIds(u32);

impl JobIds {
    /// The ids of a run that begins now.
    pub fn new() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.subsec_nanos() ^ (std::process::id() << 12))
    }

    /// The same in every run, by a tag: of jobs that a run keeps for later ones.
    pub fn of(tag: u32) -> Self {
        Self(tag)
    }

    /// How all of them begin.
    pub fn prefix(self) -> String {
        format!("{PREFIX}{:08x}-", self.0)
    }

    /// The id of a job by its number.
    pub fn id(self, number: u32) -> String {
        format!("{}{number}", self.prefix())
    }

    /// The number of a job by its id; none when it is another run's.
    pub fn number(self, id: &str) -> Option<u32> {
        let (tag, number) = id.strip_prefix(PREFIX)?.split_once('-')?;
        (u32::from_str_radix(tag, 16).ok()? == self.0).then(|| number.parse().ok())?
    }
}

/// What the jobs of a load have in common.
#[derive(Debug, Clone)]
pub(in crate::run) struct JobTemplate {
    /// Allocations of each.
    pub count: u32,
    /// The body of a request, cut where the id goes.
    pieces: Vec<String>,
}

impl JobTemplate {
    /// `job` is in Nomad's JSON, with neither `ID` nor `Name`; each of them makes `count` allocations.
    pub fn new(count: u32, mut job: Value) -> Self {
        job["ID"] = ID.into();
        job["Name"] = ID.into();
        let body = json!({ "Job": job }).to_string();
        Self { count, pieces: body.split(ID).map(str::to_owned).collect() }
    }

    /// The body of the request that registers a job of that id.
    pub fn body(&self, id: &str) -> Bytes {
        self.pieces.join(id).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_in_an_id_is_read_by_its_own_run_only() {
        let (ids, others) = (JobIds(7), JobIds(8));
        assert_eq!(ids.id(29_999), "lab-00000007-29999");
        assert_eq!(ids.number("lab-00000007-29999"), Some(29_999));
        assert_eq!((others.number("lab-00000007-29999"), ids.number("lab-x")), (None, None));
    }

    #[test]
    fn the_body_is_json_with_the_id_in_its_places() {
        let template = JobTemplate::new(3, json!({"Type": "service"}));
        let body: Value = serde_json::from_slice(&template.body("lab-1-2")).unwrap();
        assert_eq!(body, json!({"Job": {"ID": "lab-1-2", "Name": "lab-1-2", "Type": "service"}}));
    }
}
