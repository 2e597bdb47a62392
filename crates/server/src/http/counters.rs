//! What is measured of requests.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicI64, Ordering},
    },
};

/// What is measured of requests.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Answers by route and status class. As many entries as there are routes and classes, no more.
    answers: Mutex<BTreeMap<Label, u64>>,
    /// Connections that are open.
    pub connections: AtomicI64,
    /// Requests without an answer yet.
    pub requests: AtomicI64,
}

/// What tells the answers apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Label {
    /// The route's template.
    pub route: &'static str,
    /// GET, PUT or DELETE; POST counts as PUT.
    pub method: &'static str,
    /// The first digit of the status.
    pub class: u16,
}

impl Counters {
    pub fn answered(&self, label: Label) {
        *self.answers.lock().expect("nothing panics while it holds this lock").entry(label).or_default() += 1;
    }

    pub fn answers(&self) -> Vec<(Label, u64)> {
        let answers = self.answers.lock().expect("nothing panics while it holds this lock");
        answers.iter().map(|(label, count)| (*label, *count)).collect()
    }
}

/// Counts one for as long as it lives.
pub(super) struct Gauged<'c>(&'c AtomicI64);

impl<'c> Gauged<'c> {
    pub fn new(gauge: &'c AtomicI64) -> Self {
        gauge.fetch_add(1, Ordering::Relaxed);
        Self(gauge)
    }
}

impl Drop for Gauged<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
