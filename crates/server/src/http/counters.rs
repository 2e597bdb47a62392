//! Metrics of requests.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use hyper::StatusCode;

use crate::histogram::Histogram;

/// Metrics of requests.
#[derive(Debug, Default)]
pub(crate) struct HttpCounters {
    /// In the order of the table of routes.
    routes: Mutex<Vec<Arc<RouteCounters>>>,
    /// Connections that are open.
    pub connections: AtomicI64,
    /// Connections that were turned away because their address has too many.
    pub connections_refused: AtomicU64,
    /// Requests without an answer yet.
    pub requests: AtomicI64,
}

/// Metrics of one route's requests.
#[derive(Debug)]
pub(crate) struct RouteCounters {
    /// The route's template.
    pub path: &'static str,
    /// GET, PUT or DELETE; POST counts as PUT.
    pub method: &'static str,
    /// Answers by the first digit of their status, 1 to 5.
    answers: [AtomicU64; 5],
    /// Until the answer begins; without those that wait for a change.
    pub times: Histogram,
}

impl HttpCounters {
    /// Adds the metrics of a route.
    pub fn route(&self, path: &'static str, method: &'static str) -> Arc<RouteCounters> {
        let counters = Arc::new(RouteCounters {
            path,
            method,
            answers: Default::default(),
            times: Histogram::default(),
        });
        self.routes.lock().expect("nothing panics while it holds this lock").push(counters.clone());
        counters
    }

    /// The metrics of all routes.
    pub fn routes(&self) -> Vec<Arc<RouteCounters>> {
        self.routes.lock().expect("nothing panics while it holds this lock").clone()
    }
}

impl RouteCounters {
    /// Counts an answer, and how long it took unless it waited for something.
    pub fn on_answer(&self, status: StatusCode, took: Option<Duration>) {
        let class = usize::from(status.as_u16() / 100).clamp(1, self.answers.len()) - 1;
        self.answers[class].fetch_add(1, Ordering::Relaxed);
        if let Some(took) = took {
            self.times.record(took);
        }
    }

    /// The first digits of statuses, with the number of responses; only those that there were.
    pub fn answers(&self) -> impl Iterator<Item = (usize, u64)> {
        let counts =
            self.answers.iter().enumerate().map(|(at, count)| (at + 1, count.load(Ordering::Relaxed)));
        counts.filter(|(_, count)| *count > 0)
    }
}
