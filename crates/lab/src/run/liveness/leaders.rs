//! Polls a live server for the leader.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use hyper::Method;
use tokio::{task::JoinHandle, time::sleep};

use crate::run::{Target, http::Connection};

/// The pause between two polls.
const RETRY_EVERY: Duration = Duration::from_millis(100);

/// Polls until this is dropped.
pub(super) struct LeaderWatcher {
    reports: Arc<Mutex<LeaderReports>>,
    work: JoinHandle<()>,
}

/// What the answers have named so far.
#[derive(Debug, Clone, Default)]
struct LeaderReports {
    /// The last answer: none where it was that nobody leads.
    last: Option<Option<String>>,
    /// How often a leader was no longer the leader.
    changes: u32,
}

impl LeaderReports {
    fn note(&mut self, reports: Option<String>) {
        if self.last.as_ref().is_some_and(|last| last.is_some() && *last != reports) {
            self.changes += 1;
        }
        self.last = Some(reports);
    }
}

impl LeaderWatcher {
    /// Begins to poll a server.
    pub fn start(target: &Target) -> Self {
        let reports = Arc::new(Mutex::new(LeaderReports::default()));
        Self { work: tokio::spawn(request(target.clone(), reports.clone())), reports }
    }

    /// How often the leader has changed, or was none, since this began.
    pub fn changes(&self) -> u32 {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).changes
    }
}

impl Drop for LeaderWatcher {
    fn drop(&mut self) {
        self.work.abort();
    }
}

async fn request(target: Target, reports: Arc<Mutex<LeaderReports>>) {
    let mut connection: Option<Connection> = None;
    loop {
        if connection.is_none() {
            connection = Connection::open(&target).await.ok();
        }
        let reply = match &mut connection {
            Some(open) => open.exchange(Method::GET, "/v1/status/leader", Bytes::new()).await.ok(),
            None => None,
        };
        // A server that does not answer says nothing of who leads.
        if let Some(reply) = reply {
            let leader = reply.status.is_success().then(|| reply.text());
            reports.lock().unwrap_or_else(PoisonError::into_inner).note(leader);
        }
        sleep(RETRY_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_that_is_gone_for_a_while_has_changed() {
        let changes = |answers: &[Option<&str>]| {
            let mut reports = LeaderReports::default();
            answers.iter().for_each(|answer| reports.note(answer.map(str::to_owned)));
            reports.changes
        };
        assert_eq!(changes(&[Some("a"), Some("a")]), 0);
        assert_eq!(changes(&[None, Some("a"), Some("b")]), 1);
        assert_eq!(changes(&[Some("a"), None, None, Some("a")]), 1);
    }
}
