//! The server's traces of its planners: which plan was made when, and what of it was refused.

use std::collections::HashMap;

use berth_api::http::PlanTrace;

use crate::run::{
    RunError, Target,
    client::{JobIds, RunClock},
    http::Connection,
};

/// Reads the latest plans of all evaluations.
pub(super) async fn read(target: &Target) -> Result<Vec<PlanTrace>, RunError> {
    Ok(Connection::open(target).await?.get("/v1/operator/scheduler/plans").await?.0)
}

/// What planners did for one request, seconds since the first one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RequestPlanning {
    /// The first of them took it up.
    pub begun_s: f64,
    /// The plan was made of which nothing was refused.
    pub ended_s: f64,
    /// Whether there is such a plan. Those after it look whether there is room by now.
    is_answered: bool,
}

impl RequestPlanning {
    pub fn new(begun_s: f64, ended_s: f64) -> Self {
        Self { begun_s, ended_s, is_answered: false }
    }
}

/// What planners did for the requests.
#[derive(Debug, Default)]
pub(super) struct PlanningOverview {
    /// By the request's number.
    pub requests: HashMap<u32, RequestPlanning>,
    /// Plans that were made.
    pub plans: usize,
    /// Plans that others overtook while they were made, and that were made again.
    pub overtaken: u64,
    /// Plans of which the applier refused something, each of which is followed by another one.
    pub refused: usize,
    /// Placements that it let pass, and that it refused.
    pub placements: [u64; 2],
    /// Plans that were made while another planner made one.
    pub overlapping: usize,
    /// The most planners that were at work at a time.
    pub at_once_max: usize,
}

impl PlanningOverview {
    /// Sums up the plans of a run's own requests.
    pub fn of(plans: &[PlanTrace], ids: JobIds, clock: RunClock) -> Self {
        let mut planning = Self::default();
        let mut spans = Vec::new();
        for plan in plans {
            let Some(number) = ids.number(&plan.job_id) else { continue };
            let (begun_s, ended_s) = (clock.at_s(plan.begun_at), clock.at_s(plan.ended_at));
            let planned = planning.requests.entry(number).or_insert(RequestPlanning::new(begun_s, ended_s));
            if !planned.is_answered {
                (planned.ended_s, planned.is_answered) = (ended_s, plan.refused == 0);
            }
            planning.plans += 1;
            planning.overtaken += plan.overtaken;
            planning.refused += usize::from(plan.refused > 0);
            planning.placements[0] += plan.committed;
            planning.placements[1] += plan.refused;
            spans.push((plan.begun_at, plan.ended_at));
        }
        (planning.overlapping, planning.at_once_max) = overlap(spans);
        planning
    }
}

/// How many of these spans overlap with another one, and how many are open at a time at most. A planner makes one plan after
/// the other: two spans that overlap are of two planners.
fn overlap(mut spans: Vec<(u64, u64)>) -> (usize, usize) {
    spans.sort_unstable();
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut overlaps = vec![false; spans.len()];
    let mut at_once_max = 0;
    for (at, (start, end)) in spans.into_iter().enumerate() {
        open.retain(|(until, _)| *until > start);
        overlaps[at] = !open.is_empty();
        open.iter().for_each(|(_, other)| overlaps[*other] = true);
        open.push((end, at));
        at_once_max = at_once_max.max(open.len());
    }
    (overlaps.into_iter().filter(|overlaps| *overlaps).count(), at_once_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_overlap_where_one_begins_before_another_ends() {
        assert_eq!(overlap(vec![(0, 10), (10, 20), (30, 40)]), (0, 1));
        assert_eq!(overlap(vec![(5, 15), (0, 10), (12, 13), (30, 40)]), (3, 2));
        assert_eq!(overlap(vec![(0, 9), (1, 9), (2, 9)]), (3, 3));
        assert_eq!(overlap(Vec::new()), (0, 0));
    }

    #[test]
    fn plans_are_summed_up_by_request() {
        let (ids, clock) = (JobIds::new(), RunClock::start());
        let plan = |job: String, begun_at, committed, refused| PlanTrace {
            job_id: job,
            begun_at,
            ended_at: begun_at + 5,
            overtaken: 1,
            committed,
            refused,
            ..PlanTrace::default()
        };
        let plans = [
            plan(ids.id(0), 10, 0, 1),
            plan(ids.id(1), 12, 1, 0),
            plan(ids.id(0), 20, 1, 0),
            plan("preload-0".to_owned(), 11, 1, 0),
        ];
        let planning = PlanningOverview::of(&plans, ids, clock);
        assert_eq!((planning.plans, planning.refused, planning.overtaken), (3, 1, 3));
        assert_eq!((planning.placements, planning.overlapping, planning.at_once_max), ([2, 1], 2, 2));
        let first = planning.requests[&0];
        assert_eq!((first.begun_s, first.ended_s), (clock.at_s(10), clock.at_s(25)));
    }
}
