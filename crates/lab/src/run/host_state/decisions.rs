//! The outcome of each request, as a client has seen it.

use crate::run::client::{AllocStatus, EventBatch, JobIds};

/// One request. Times are seconds since the first one.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct PlacementRequest {
    /// When the client first received that it has a node, or that there is none for it.
    pub decided_s: Option<f64>,
    /// Whether it first received that there is none.
    pub refused: bool,
    /// Whether it has a node, even if later.
    pub placed: bool,
    /// Whether its task has been started.
    pub started: bool,
}

/// All requests, by number.
#[derive(Debug)]
pub(super) struct PlacementRequests {
    ids: JobIds,
    requests: Vec<PlacementRequest>,
    decided: usize,
    placed: usize,
    started: usize,
}

impl PlacementRequests {
    /// Nothing is known of so many requests.
    pub fn new(ids: JobIds, count: u32) -> Self {
        let requests = vec![PlacementRequest::default(); count as usize];
        Self { ids, requests, decided: 0, placed: 0, started: 0 }
    }

    /// The client has seen something.
    pub fn record(&mut self, at_s: f64, batch: &EventBatch) {
        for alloc in &batch.allocs {
            let Some(request) = find(self.ids, &mut self.requests, &alloc.job) else { continue };
            self.decided += usize::from(request.decided_s.is_none());
            request.decided_s.get_or_insert(at_s);
            self.placed += usize::from(!std::mem::replace(&mut request.placed, true));
            if alloc.status > AllocStatus::Pending {
                self.started += usize::from(!std::mem::replace(&mut request.started, true));
            }
        }
        for eval in batch.evals.iter().filter(|eval| eval.is_refusal()) {
            let Some(request) = find(self.ids, &mut self.requests, &eval.job) else { continue };
            if request.decided_s.is_none() {
                (request.decided_s, request.refused) = (Some(at_s), true);
                self.decided += 1;
            }
        }
    }

    /// The requests, indexed by number.
    pub fn requests(&self) -> &[PlacementRequest] {
        &self.requests
    }

    /// Whether every request was decided, and what has a node was started.
    pub fn is_complete(&self) -> bool {
        self.decided == self.requests.len() && self.started == self.placed
    }

    /// Requests that were decided.
    pub fn decided(&self) -> usize {
        self.decided
    }

    /// Requests that have a node.
    pub fn placed(&self) -> usize {
        self.placed
    }

    /// Requests whose tasks were started.
    pub fn started(&self) -> usize {
        self.started
    }
}

fn find<'r>(
    ids: JobIds,
    requests: &'r mut [PlacementRequest],
    job: &str,
) -> Option<&'r mut PlacementRequest> {
    requests.get_mut(ids.number(job)? as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::client::{AllocEvent, EvalEvent, TaskTimes};

    fn alloc(ids: JobIds, number: u32, status: AllocStatus) -> EventBatch {
        let tasks = TaskTimes::default();
        let alloc = AllocEvent { id: number.into(), job: ids.id(number), status, created_ns: 0, tasks };
        EventBatch { allocs: vec![alloc], ..EventBatch::default() }
    }

    fn refusal(ids: JobIds, number: u32) -> EventBatch {
        let eval =
            EvalEvent { job: ids.id(number), status: "complete".to_owned(), blocked_eval: "b".to_owned() };
        EventBatch { evals: vec![eval], ..EventBatch::default() }
    }

    #[test]
    fn what_is_heard_first_is_the_decision() {
        let ids = JobIds::new();
        let mut decisions = PlacementRequests::new(ids, 2);
        decisions.record(0.1, &alloc(ids, 0, AllocStatus::Pending));
        decisions.record(0.2, &refusal(ids, 1));
        assert!(!decisions.is_complete(), "the first has not started");
        decisions.record(0.3, &alloc(ids, 0, AllocStatus::Running));
        assert!(decisions.is_complete());
        let first = PlacementRequest { decided_s: Some(0.1), refused: false, placed: true, started: true };
        let second = PlacementRequest { decided_s: Some(0.2), refused: true, placed: false, started: false };
        assert_eq!(decisions.requests(), [first, second]);
        decisions.record(0.4, &alloc(ids, 1, AllocStatus::Running));
        let later = PlacementRequest { placed: true, started: true, ..second };
        assert_eq!(decisions.requests(), [first, later], "it was refused first");
    }
}
